/*
 * posix_address.h - addresses of streams: texts, and what sockets take.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_ADDRESS_H
#define TRI_BASE_POSIX_ADDRESS_H

#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

struct sockaddr_storage;

/*
 * Reads "tcp://127.0.0.1:7000", "tcp://[::1]:7000" or "unix:/path".
 * Errors: TR_EINVAL (another form, or a name instead of numbers).
 */
tr_err tri_posix_address_read(const char *text, struct sockaddr_storage *out,
                              uint32_t *size);
/* Writes the address as text; "" if it has none. */
void tri_posix_address_write(const struct sockaddr_storage *at, uint32_t size,
                             char out[TRI_STREAM_ADDRESS_MAX]);
/* The entry `resolve` of tri_world_ops. */
tr_err tri_posix_resolve(tri_world *world, const char *address,
                         char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                         uint32_t *count);

#endif
