/*
 * posix_process.h - processes that the program starts, in the real world.
 *
 * The functions are the process_* entries of tri_world_ops; world.h has their
 * contracts.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_PROCESS_H
#define TRI_BASE_POSIX_PROCESS_H

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_posix_process_start(tri_poller *poller, tri_stream **out,
                               const tri_process_plan *plan,
                               tri_stream *pipes[3]);
tr_err tri_posix_process_status(tri_stream *child, tri_process_status *out);
tr_err tri_posix_process_signal(tri_stream *child, int number);

#endif
