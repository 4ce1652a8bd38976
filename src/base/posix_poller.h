/*
 * posix_poller.h - descriptors of the real world, by epoll.
 *
 * The functions are the poller_* entries of tri_world_ops; world.h has their
 * contracts. They are declared for the table in world_posix.c, and the last
 * three for posix_stream.c.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_POLLER_H
#define TRI_BASE_POSIX_POLLER_H

#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

void tri_posix_poller_free(tri_poller *poller);
tr_err tri_posix_poller_new(tri_world *world, tri_poller **out);
tr_err tri_posix_poller_add(tri_poller *poller, int fd, uint32_t events,
                            uint64_t token);
void tri_posix_poller_remove(tri_poller *poller, int fd);
uint32_t tri_posix_poller_wait(tri_poller *poller, tri_fd_event *events,
                               uint32_t max, tr_nanos timeout);
void tri_posix_poller_wake(tri_poller *poller);
int tri_posix_poller_fd(tri_poller *poller);
void tri_posix_poller_alarm(tri_poller *poller, tr_nanos due);

/* Registers a stream's socket for all events, edge-triggered. */
tr_err tri_posix_poller_add_stream(tri_poller *poller, int fd,
                                   tri_stream *stream);
/* Takes a closed stream; frees it when no event of it can be under way. */
void tri_posix_poller_free_later(tri_poller *poller, tri_stream *stream,
                                 tri_stream **next_closed);
/* Takes a closed stream again whose end is still to come. */
void tri_posix_poller_free_later_again(tri_poller *poller, tri_stream *stream,
                                       tri_stream **next_closed);

#endif
