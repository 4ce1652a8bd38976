/*
 * hooks.h - actors that take part in the end of the system.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_HOOKS_H
#define TRI_SYSTEM_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "core/types.h"
#include "troupe/base.h"

/* The parts of the tree whose hooks are told together. */
typedef enum tri_hook_part {
    TRI_HOOKS_OF_USER,    // below /user: told before /user is stopped
    TRI_HOOKS_OF_OTHERS,  // told when /user has ended
    TRI_HOOK_PARTS,
} tri_hook_part;

/* Part of tri_layers. */
typedef struct tri_hooks {
    tri_lock lock;                  // a leaf, for the list and the counts
    struct tri_hook *newest;        // actors that called tr_on_terminate
    uint32_t left[TRI_HOOK_PARTS];  // of each part, in the list
    _Atomic(uint32_t) done;  // counts the parts that are done: a park word
} tri_hooks;

/* Sends tr_termination_hook to the hooks of a part, to each once. */
void tri_hooks_tell(tr_system *sys, tri_hook_part part);
/* True if hooks of the part are not done. */
bool tri_hooks_left(tr_system *sys, tri_hook_part part);
/* Waits until the hooks of a part are done, and logs those that are late. */
void tri_hooks_await(tr_system *sys, tri_hook_part part, tr_nanos deadline);
/* Counts an actor that ends as done, if it is a hook. */
void tri_hooks_leave(tr_system *sys, tri_cell *cell);
void tri_hooks_free(tr_system *sys);

#endif
