/*
 * fail_world.h - a world whose n-th file operation fails.
 *
 * Everything goes to another world, but file operations (all of world.h's that
 * return an error) are counted, and a chosen one fails with TR_EIO. A write
 * that fails has written the first half of its bytes: that is what a disk does.
 * A sync only counts: nothing here loses power, and real ones take minutes.
 *
 * Threads and pollers that cannot be had are counted apart: FAIL_CALL, with
 * TR_ENOMEM.
 *
 *     for (n = 1;; n++) {
 *         fail_world_arm(fail, n, FAIL_ONCE);
 *         scenario(fail_world_of(fail));
 *         if (!fail_world_has_failed(fail)) break;
 *     }
 *
 * Threads: any; which operation is the n-th is then a matter of luck.
 */
#ifndef TEST_SUPPORT_FAIL_WORLD_H
#define TEST_SUPPORT_FAIL_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"

typedef struct fail_world fail_world;

typedef enum fail_kind {
    FAIL_ONCE,  // the n-th alone
    FAIL_ON,    // the n-th and all that follow: the disk is gone
    FAIL_SYNC,  // the n-th or a later one, if it is a sync
    FAIL_CALL,  // the n-th start of a thread, or poller made
} fail_kind;

/* Borrows `inner` until it is freed. Never NULL. */
fail_world *fail_world_new(tri_world *inner);

/* After the last file of it was closed. */
void fail_world_free(fail_world *it);

/* The world to hand on; lives as long as `it`. */
tri_world *fail_world_of(fail_world *it);

/* Counts anew and fails the n-th operation from now; 0: none. */
void fail_world_arm(fail_world *it, uint64_t n, fail_kind kind);

/* Whether an operation failed since fail_world_arm. */
bool fail_world_has_failed(fail_world *it);

/* File operations since fail_world_arm; with FAIL_CALL the other calls. */
uint64_t fail_world_count(fail_world *it);

#endif
