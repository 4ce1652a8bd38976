/*
 * world_posix.h - helpers that the files of the real world share.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_WORLD_POSIX_H
#define TRI_BASE_WORLD_POSIX_H

#include <time.h>

#include "base/world.h"
#include "troupe/base.h"

/* Returns the tr_err for an errno; TR_EIO for those the table lacks. */
tr_err tri_posix_err(int number);

/*
 * Returns the monotonic time at which a wait of `timeout` from now ends;
 * TR_FOREVER stays TR_FOREVER.
 */
tr_nanos tri_posix_deadline(tr_nanos timeout);

struct timespec tri_posix_timespec(tr_nanos nanos);

/* Returns the monotonic time; the entry `mono` of tri_world_ops. */
tr_nanos tri_posix_mono(tri_world *world);

#endif
