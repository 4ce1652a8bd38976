/*
 * posix_address.h - addresses of streams: texts, and what sockets take.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_ADDRESS_H
#define TRI_BASE_POSIX_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

struct sockaddr_storage;

/*
 * Reads "tcp://127.0.0.1:7000", "tcp://[::1]:7000" or "unix:/path"; or, if it
 * is an address of datagrams, "udp://127.0.0.1:7000" or "udp://[::1]:7000".
 * Errors: TR_EINVAL (another form, or a name instead of numbers).
 */
tr_err tri_posix_address_read(const char *text, bool is_udp,
                              struct sockaddr_storage *out, uint32_t *size);
/* Writes the address as text; "" if it has none. */
void tri_posix_address_write(const struct sockaddr_storage *at, uint32_t size,
                             bool is_udp, char out[TRI_STREAM_ADDRESS_MAX]);
/* The entry `resolve` of tri_world_ops. */
tr_err tri_posix_resolve(tri_world *world, const char *address,
                         char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                         uint32_t *count);

#endif
