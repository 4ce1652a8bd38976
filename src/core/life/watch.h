/*
 * watch.h - the two halves of a watch and their ways.
 *
 * A watch has two records. The watcher keeps a tri_watching, by the id of the
 * target. The tri_watch goes to the target as system mail, waits in its list
 * and comes back as the notice of its end.
 *
 * Threads: the owner of `cell`, `watcher` or ctx->cell, except where a comment
 * says otherwise. The watches of an outside box are guarded by outside_lock.
 */
#ifndef TRI_CORE_LIFE_WATCH_H
#define TRI_CORE_LIFE_WATCH_H

#include "base/list.h"
#include "core/cell/message.h"
#include "core/types.h"

/* The target's half of a watch, and later the notice. From malloc. */
typedef struct tri_watch {
    tri_item item;
    tri_link link;  // in the target's tri_watches.watchers
    tr_ref watcher;
    tr_ref target;
    uint64_t key;  // of the watcher's half
    uint32_t reason;
    bool in_order;  // the notice goes through the user lane
} tri_watch;

/* The watcher's half, and later the system message that ends the watch. */
typedef struct tri_watching {
    tri_item item;
    tr_ref target;
    tri_watch *watch;  // valid until it comes back as TERMINATED
    uint64_t watcher_id;
} tri_watching;

/* Adds a watch that has arrived, or sends it back. Takes watch. */
void tri_watch_arrived(tri_worker *worker, tri_cell *cell, tri_watch *watch);

/* Removes a watch that its watcher has ended. Takes watching. */
void tri_unwatch_arrived(tri_worker *worker, tri_cell *cell,
                         tri_watching *watching);

/* Sends all watchers the notice of the end. Also for the forcer of a zombie. */
void tri_watchers_notify(tri_worker *worker, tri_cell *cell, tr_reason reason);

/* Sends the notice to the watcher. Takes watch. Any thread. */
void tri_watch_send_back(tri_worker *worker, tri_watch *watch,
                         tr_reason reason);

/*
 * Begins to watch target, if it is not watched yet. in_order: the notice comes
 * after the messages of the target: rule 34 (watching in order).
 * Errors: TR_ENOMEM.
 */
tr_err tri_watch_ref(tri_worker *worker, tr_system *sys, tri_cell *watcher,
                     tr_ref target, bool in_order);

/* Ends the watch of target; a notice that has arrived is dropped. */
void tri_unwatch_ref(tri_worker *worker, tri_cell *watcher, tr_ref target);

/* Ends all watches of the actor, at its end. */
void tri_unwatch_all(tri_worker *worker, tri_cell *cell);

/*
 * Ends the watches of the actor on its children, which a restart stops. Other
 * watches, and notices of children that have ended before, stay: rule 28 (a
 * restart).
 */
void tri_unwatch_children(tri_worker *worker, tri_cell *cell);

/*
 * Takes a notice from the system lane into tri_watches.pending. Returns false,
 * and frees it, if the watch has ended meanwhile.
 */
bool tri_terminated_arrived(tri_worker *worker, tri_cell *cell,
                            tri_watch *watch);

/* Adds a notice to those that wait for a turn. */
void tri_notice_add(tri_cell *cell, tri_ext *ext, tri_item *item);

/*
 * Runs the handler of tr_terminated, or the hook child_terminated, for the
 * first pending notice.
 */
void tri_terminated_turn(tr_ctx *ctx);

/* Runs it for a notice from the user lane. Takes watch. */
void tri_terminated_in_order(tr_ctx *ctx, tri_watch *watch);

/*
 * Asks another actor to watch target (on), or to end that watch. Does nothing
 * if that actor has ended. Any thread. Errors: TR_ENOMEM.
 */
tr_err tri_watch_request(tri_worker *worker, tr_system *sys, tr_ref watcher,
                         tr_ref target, bool on);

/* Carries out such a request at the watcher. Takes request. */
void tri_watch_requested(tr_ctx *ctx, tri_watch *request);

#endif
