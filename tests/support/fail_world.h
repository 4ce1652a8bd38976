/*
 * fail_world.h - a world whose n-th file operation fails.
 *
 * All calls go to another world. File operations (those of world.h that return
 * an error) are counted, and a chosen one fails with TR_EIO. A write that fails
 * has written the first half of its bytes, as a disk may do. A sync is counted
 * but not made: no test cuts the power, and real syncs would take minutes.
 *
 * Starts of threads and new pollers are counted apart (FAIL_CALL) and fail with
 * TR_ENOMEM; so are calls on streams (FAIL_STREAM), which fail with TR_ERESET.
 *
 *     for (n = 1;; n++) {
 *         fail_world_arm(fail, n, FAIL_ONCE);
 *         scenario(fail_world_of(fail));
 *         if (!fail_world_has_failed(fail)) break;
 *     }
 *
 * Threads: any; with several, which operation is the n-th is undefined.
 */
#ifndef TEST_SUPPORT_FAIL_WORLD_H
#define TEST_SUPPORT_FAIL_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"

typedef struct fail_world fail_world;

typedef enum fail_kind {
    FAIL_ONCE,    // only the n-th
    FAIL_ON,      // the n-th and all that follow: the disk is gone
    FAIL_SYNC,    // every sync from the n-th operation on
    FAIL_CALL,    // the n-th start of a thread, or new poller
    FAIL_STREAM,  // the n-th call on a stream; of one fail_world at a time
} fail_kind;

/* Borrows `inner` until it is freed. Never NULL. */
fail_world *fail_world_new(tri_world *inner);

/* All its files must have been closed. */
void fail_world_free(fail_world *it);

/* Returns the world to use; it lives as long as `it`. */
tri_world *fail_world_of(fail_world *it);

/* Starts counting at 0 and lets the n-th operation fail; 0: none. */
void fail_world_arm(fail_world *it, uint64_t n, fail_kind kind);

/* Returns true if an operation failed since fail_world_arm. */
bool fail_world_has_failed(fail_world *it);

/* Returns the operations since fail_world_arm; with FAIL_CALL the calls. */
uint64_t fail_world_count(fail_world *it);

#endif
