/*
 * address.h - the parts of an address of a stream.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_ADDRESS_H
#define TRI_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

typedef struct tri_address {
    bool is_unix;
    bool is_udp;  // of datagrams, not of a stream
    char host
        [TRI_STREAM_ADDRESS_MAX];  // without brackets; of a Unix socket the path
    uint16_t port;
} tri_address;

/*
 * Splits "tcp://host:port", "tcp://[host]:port", the same with "udp://", or
 * "unix:/path"; does not look at the host. Errors: TR_EINVAL.
 */
tr_err tri_address_split(const char *text, tri_address *out);
/* Writes the address as text; a host with a colon gets brackets. */
void tri_address_join(const tri_address *address,
                      char out[TRI_STREAM_ADDRESS_MAX]);

#endif
