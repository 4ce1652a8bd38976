/*
 * lifecycle.h - what the parts of an actor's life ask of each other.
 *
 * Threads: the owner of the cell, except where said.
 */
#ifndef TRI_CORE_LIFECYCLE_H
#define TRI_CORE_LIFECYCLE_H

#include "core/runtime.h"

#define TRI_STOP_TIMEOUT TR_SECONDS(5)
/* So long may an actor that is forced take to look, and to end. */
#define TRI_FORCE_GRACE TR_MS(250)
/* Children that one step ends by force. */
enum { TRI_FORCE_BATCH = 16 };

/* In tri_ext.handles: the actor ends with its last handle. */
#define TRI_HANDLES_COUNT (UINT32_C(1) << 31)

/* cell->stage, while STOPPING and RESTARTING. */
enum {
    TRI_STAGE_UNWIND,       // parked turns must return
    TRI_STAGE_FAMILY,       // pre_stop or pre_restart is done
    TRI_STAGE_CHILDREN,     // children must end
    TRI_STAGE_RELEASE,      // post_stop is done
    TRI_STAGE_DELAY,        // the delay before the next incarnation
    TRI_STAGE_START,        // ... is over
    TRI_STAGE_GROUP,        // before that delay: siblings must have stopped
    TRI_STAGE_OF = 15,      // mask; above it are bits:
    TRI_STAGE_FORCED = 32,  // the children have been forced
    TRI_STAGE_QUIET = 64,   // the hooks of this end have run already
};

/* A code that only the runtime may use becomes TR_EFAILED. */
tr_err tri_blame(tr_err err);

/* Whether it may have another child: not beyond pre_stop (rule 24). */
bool tri_life_takes_children(tri_cell *cell);

/* ---- spawn.c ---- */

/* With the parent's lock. */
void tri_children_unlink(tri_ext *parent, tri_cell *child);

/* Takes a child out of the list. With the parent's lock. */
static inline void tri_siblings_leave(tri_ext *parent, tri_cell *child)
{
    tri_cell *next = child->sibling_next, *prev = child->sibling_prev;
    if (prev != NULL) {
        prev->sibling_next = next;
    } else {
        parent->first_child = next;
    }
    if (next != NULL) {
        next->sibling_prev = prev;
    } else {
        parent->last_child = prev;
    }
}

/* One child more or less. With the parent's lock. */
static inline void tri_children_count(tri_ext *parent, int32_t change)
{
    tri_lock_assert_held(&parent->lock);
    // Relaxed: written under the lock only. Release: what an ended child did;
    // pairs with tri_children_live.
    atomic_store_explicit(
        &parent->live_children,
        atomic_load_explicit(&parent->live_children, memory_order_relaxed) +
            (uint32_t)change,
        memory_order_release);
}

/*
 * A child has ended. True: it was the last, and the parent, which takes no
 * others any more, is to be told. With the parent's lock, behind which the
 * parent may end.
 */
static inline bool tri_children_less(tri_ext *parent)
{
    // Relaxed: as above. Looked at before the count falls: a parent that waits
    // for it takes no lock, and its extension may then be free memory.
    bool last =
        parent->closed &&
        atomic_load_explicit(&parent->live_children, memory_order_relaxed) == 1;
    tri_children_count(parent, -1);
    return last;
}
/* Gives a child up, to the root. With the locks of the root and of from. */
void tri_child_to_root(tr_system *sys, tri_ext *from, tri_cell *child);
tr_err tri_name_check(const char *name);
/* One actor less; wakes whoever waits for the last. */
void tri_live_less(tri_worker *worker);

/* ---- supervise.c ---- */

const tr_supervision *tri_supervision_of(tr_system *sys, tri_cell *cell);
/* Forgets the failure; its message becomes a dead letter. */
void tri_failure_clear(tri_worker *worker, tri_cell *cell, uint32_t reason);
/* Puts the failed message back in front, once, if the policy wants it. */
void tri_failure_retry(tr_ctx *ctx, tri_cell *cell);

/* The next of the children that are restarted together. */
void tri_group_next(tr_ctx *parent);
/* Where this one of a group is; NONE if it is in none. */
tri_group_stage tri_group_of(tri_cell *cell);
void tri_group_reached(tri_worker *worker, tri_cell *cell,
                       tri_group_stage stage);
/* Its start is over, as one of a group or not. */
void tri_group_started(tri_worker *worker, tri_cell *cell);

enum { TRI_PATH_MAX = 512, TRI_SHOWN_MAX = 256 };

typedef struct tri_failure_view {  // with room for what it points to
    tr_failure failure;
    char path[TRI_PATH_MAX];
    char message[TRI_SHOWN_MAX];
    char state[TRI_SHOWN_MAX];
} tri_failure_view;

void tri_failure_show(tr_system *sys, tri_cell *cell, tri_failure_view *view);
/* Writes the path of a living cell. */
void tri_path_write(tr_system *sys, tri_cell *cell, char *buf, size_t size);

/* ---- join.c ---- */

/* Those who wait for the start hear how it went. */
void tri_join_started(tri_worker *worker, tri_cell *cell, tr_err err);
/* Fills the results in while the state is still there, then sends them. */
void tri_joins_prepare(tri_worker *worker, tri_cell *cell, tr_reason reason);
void tri_joins_tell(tri_worker *worker, tri_cell *cell);
void tri_join_abandon(tri_join *join);  // frees it
/* The actor ends by force. Any thread, once it is a zombie. */
void tri_joins_force(tri_worker *worker, tri_cell *cell);
/* Answers a join that came to a zombie; false: it is an answer itself. */
bool tri_join_force(tri_worker *worker, tri_join *join);

/* ---- heap.c ---- */

/* Takes the heap out of the actor: it is not released with it. */
tri_heap_block *tri_heap_take(tri_cell *cell);
/* Makes the blocks a part of the actor's heap. Takes them. */
void tri_heap_adopt(tri_ext *ext, tri_heap_block *heap);
void tri_heap_free(tri_heap_block *heap);

/* ---- lifecycle.c ---- */

/* The behaviour it was spawned with; its hooks are the actor's. */
static inline const tri_behaviour *tri_first_behaviour(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return ext != NULL && ext->first != NULL ? ext->first
                                             : tri_cell_behaviour(cell);
}

static inline const tr_actor_def *tri_def_of(tri_cell *cell)
{
    return tri_first_behaviour(cell)->def;
}

/* The counters of the kind that the actor was spawned as. */
static inline tri_kind_lives *tri_lives_of(tri_worker *worker, tri_cell *cell)
{
    return &worker->tally.lives[tri_first_behaviour(cell)->kind];
}

/* Does anybody listen to the states of actors? */
static inline bool tri_life_is_watched(tri_worker *worker)
{
    // Relaxed: a subscriber that comes now may miss this one.
    return (atomic_load_explicit(&worker->sys->watch_events,
                                 memory_order_relaxed) &
            TRI_EVENT_LIFECYCLE) != 0;
}

/*
 * An actor like most: it has nothing that is looked at when it begins and
 * ends, but what its extension may hold. It passes the same states, but nobody
 * can see the steps between, so they are taken in one.
 */
static inline bool tri_life_is_plain(tri_worker *worker, tri_cell *cell)
{
    enum { SPECIAL = TRI_CELL_VIRTUAL | TRI_CELL_ZOMBIE | TRI_CELL_PINNED };
    // Relaxed: fixed at spawn, but for ZOMBIE: that is seen under the lock.
    return tri_first_behaviour(cell)->plain_life &&
           (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
            SPECIAL) == 0 &&
           !tri_life_is_watched(worker);
}

/* Several states at once: each in 4 bits, as in `history`, the last lowest. */
static inline void tri_life_pass(tri_cell *cell, uint32_t states, uint32_t bits)
{
    // Relaxed: for observers; only the owner writes.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    // Release: as tri_life_set.
    atomic_store_explicit(&cell->life, (uint8_t)(states & 15),
                          memory_order_release);
    atomic_store_explicit(&cell->history, history << bits | states,
                          memory_order_relaxed);
}

/* The event of a state, where tri_life_set has not told it (X1). */
void tri_life_tell(tri_worker *worker, tri_cell *cell, tr_state state);

typedef tr_err (*tri_plain_hook)(tr_ctx *ctx, void *self);
void tri_hook_begin(tr_ctx *ctx, tr_phase phase);
/* Begins, runs and ends; on an error the end of the turn is the caller's. */
tr_err tri_hook_run(tr_ctx *ctx, tr_phase phase, tri_plain_hook hook);
/* A hook of the end failed: the end goes on, the log tells. */
void tri_hook_failed(tr_ctx *ctx, tr_err err);
/* Such an actor has never run: there is nothing to say good-bye to. */
bool tri_failed_to_start(tri_cell *cell);

/* ---- start.c ---- */

tri_step tri_life_start(tr_ctx *ctx);
void tri_life_resume(tr_ctx *ctx);
void tri_restart_begin(tr_ctx *ctx);
/* Rule 5: its time is over, and a stack of it has not returned. */
void tri_restart_give_up(tr_ctx *ctx);
tri_step tri_restart_step(tr_ctx *ctx);
void tri_state_free(tri_worker *worker, tri_cell *cell);

/* ---- stop.c ---- */

void tri_stop_begin(tr_ctx *ctx, tr_reason reason);
tri_step tri_stop_step(tr_ctx *ctx);
/*
 * Ends an actor that has stopped itself, if it is_plain. True: it is gone.
 * False: it is not such an actor, tri_stop_begin must do it.
 */
bool tri_stop_plainly(tr_ctx *ctx);
/* The time of children to end is over: they are forced, then ended (X15). */
void tri_force_family(tr_ctx *ctx);
void tri_post_stop(tr_ctx *ctx, tr_reason reason);
/* Rule 14: what ends with an incarnation; kept requests hear err. */
void tri_life_release(tr_ctx *ctx, tr_err err);
/* Rule 28: a successor must not load under a write of ours. */
bool tri_waits_for_store(tri_cell *cell);
tr_nanos tri_stop_timeout(tri_cell *cell);
void tri_deadline_arm(tr_ctx *ctx, tr_nanos span);
void tri_deadline_disarm(tr_system *sys, tri_cell *cell);
/* Sends a signal to every child, newest first (X44). */
void tri_children_signal(tr_ctx *ctx, uint32_t signal);
/* From now on no child can be added, or again. */
void tri_family_close(tri_cell *cell, bool closed);
/* Whether it waits for its children to end: TRI_CELL_FAMILY. */
void tri_family_awaited(tri_cell *cell, bool awaited);
uint32_t tri_children_live(tri_cell *cell);
/* Is it the cell itself, or above it? The owner of `of`. */
static inline bool tri_is_ancestor(const tri_cell *cell, tri_cell *of)
{
    while (of != NULL && of != cell) {
        of = tri_cell_parent(of);
    }
    return of != NULL;
}

/* Tells the parent of our failure; false: there is none any more. */
bool tri_tell_parent(tri_worker *worker, tri_cell *cell);
void tri_signal_parent(tri_worker *worker, tri_cell *cell, uint32_t signal);

/* ---- force.c ---- */

/* Ends the children that were forced and do not end by themselves (X15). */
void tri_children_force(tr_ctx *ctx);
/* The same for the cell of this turn, whose other turns do not return. */
bool tri_force_self(tr_ctx *ctx, uint32_t told_to_parent);
/* A zombie's handler has returned: the last step before it is freed. */
void tri_force_done(tr_system *sys, tri_cell *cell);

/* ---- drain.c ---- */

/* Stashed and urgent mail into the queue. */
void tri_queue_gather(tri_cell *cell);
void tri_queue_dead(tri_worker *worker, tri_cell *cell, uint32_t reason);
/* Stashed mail goes back in front, oldest first. */
void tri_unstash(tri_cell *cell);
/* Takes node: a dead letter, or what else becomes of its kind. */
void tri_drain_node(tri_worker *worker, tr_ref self, tri_node *node,
                    uint32_t reason);
/* The queue of an actor that has ended, by its strategy. */
void tri_drain(tr_ctx *ctx);
/*
 * The same for requests alone, before the actor waits for its children: one of
 * them, or whoever a child waits for, may wait for the answer.
 */
void tri_drain_requests(tr_ctx *ctx);

/* ---- ask.c ---- */

/* What an asker hears of a request that tri_try_send did not take. */
tr_err tri_undelivered_as(tr_ref to, tr_err err);

/* ---- answer.c ---- */

/* Answers with an error and leaves msg with the caller, marked ANSWERED. */
void tri_answer_copy(tri_worker *worker, tr_msg *msg, tr_err err,
                     const char *text);

/* ---- watch.c ---- */

/* Sends the notice to the watcher. Takes watch; any thread. */
void tri_watch_refuse(tri_worker *worker, tri_watch *watch, tr_reason reason);

void tri_unwatch_all(tri_worker *worker, tri_cell *cell);
void tri_unwatch_all_but_children(tri_worker *worker, tri_cell *cell);

#endif
