/*
 * lifecycle.h - the states of an actor, the stages within them, its hooks.
 *
 * Threads: the owner of the cell, except where a comment says otherwise.
 */
#ifndef TRI_CORE_LIFE_LIFECYCLE_H
#define TRI_CORE_LIFE_LIFECYCLE_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/tally.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"

/* What the owner of the cell does after a step of its life. */
typedef enum tri_step {
    TRI_STEP_AGAIN,    // process system mail, then take the next step
    TRI_STEP_RUNNING,  // handle user mail
    TRI_STEP_WAIT,     // release the cell until system mail comes
    TRI_STEP_ENDED,    // do not touch the cell: it has ended
} tri_step;

/* Takes the next step of a life that is not simply RUNNING. */
tri_step tri_life_step(tr_ctx *ctx);

/* Acts on a set of TRI_SIG_*. */
void tri_life_handle_signals(tr_ctx *ctx, uint32_t signals);

/* Goes to another state and publishes it. The step must be legal. */
void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state);

/* Publishes a state, if it has a subscriber; not for zombies. */
void tri_life_publish(tri_worker *worker, tri_cell *cell, tr_state state);

/* Returns the name of a state in capitals. Any thread. */
const char *tri_state_name(tr_state state);

/* True if an actor may go from one state to the other. Any thread. */
bool tri_life_is_legal(tr_state from, tr_state to);

/* tri_cell.stage: the progress of a stop or restart, see lifecycle.c. */
typedef enum tri_stage {
    TRI_STAGE_UNWIND,          // parked turns must return
    TRI_STAGE_STOP_CHILDREN,   // pre_stop or pre_restart has been called
    TRI_STAGE_AWAIT_CHILDREN,  // the children must end
    TRI_STAGE_RELEASE,         // post_stop has been called
    TRI_STAGE_AWAIT_COHORT,    // restart: siblings of the cohort must stop
    TRI_STAGE_DELAY,           // restart: the delay before the next start
    TRI_STAGE_START,           // restart: the delay is over
} tri_stage;

/* Begins a stage; no child has been forced in it yet. */
static inline void tri_stage_set(tri_cell *cell, tri_stage next)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    cell->stage = (uint8_t)next & 0xf;
    cell->children_forced = false;
}

/* True if the actor may spawn: until pre_stop, rule 51 (the last hooks). */
bool tri_life_takes_children(tri_cell *cell);

/* Returns the counters of the kind that the actor was spawned as. */
static inline tri_kind_lives *tri_lives_of(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_first_behaviour(cell)->kind < TRI_KINDS);
    return &worker->tally.lives[tri_first_behaviour(cell)->kind];
}

/* True if the states of actors have a subscriber. */
static inline bool tri_life_is_watched(tri_worker *worker)
{
    // Relaxed: a subscriber that comes now may miss this state.
    return (atomic_load_explicit(&worker->sys->watch_events,
                                 memory_order_relaxed) &
            TRI_EVENT_LIFECYCLE) != 0;
}

/*
 * True if nothing happens at the start and the end of this actor except for
 * what its extension demands: no hooks, no subscriber, not virtual, not
 * pinned, not a zombie, no part in the end of the system. No one can then see the states in between, and the
 * fast paths of start.c and stop.c pass them in one step.
 */
static inline bool tri_life_is_simple(tri_worker *worker, tri_cell *cell)
{
    enum {
        SPECIAL = TRI_CELL_VIRTUAL | TRI_CELL_ZOMBIE | TRI_CELL_PINNED |
                  TRI_CELL_HOOKED | TRI_CELL_MAIN
    };
    // Relaxed: fixed at spawn or set by the owner, except for ZOMBIE, which
    // the fast path of the end reads again under the parent's lock.
    return tri_first_behaviour(cell)->no_hooks &&
           (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
            SPECIAL) == 0 &&
           !tri_life_is_watched(worker);
}

/*
 * Passes several states at once without publishing them. `states` has four
 * bits for each, as tri_cell.history, the last state lowest; `bits` is four
 * times their number.
 */
static inline void tri_life_set_several(tri_cell *cell, uint32_t states,
                                        uint32_t bits)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Relaxed: for observers; only the owner writes.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    // Release: pairs with tr_state_of, whose reader also sees what led to it.
    atomic_store_explicit(&cell->life, (uint8_t)(states & 15),
                          memory_order_release);
    atomic_store_explicit(&cell->history, history << bits | states,
                          memory_order_relaxed);
}

typedef tr_err (*tri_hook_fn)(tr_ctx *ctx, void *self);

/* Prepares the context for the call of a hook. */
void tri_hook_begin(tr_ctx *ctx, tr_phase phase);

/*
 * Calls a hook, which may be NULL, as a turn. After an error the caller must
 * end the turn.
 */
tr_err tri_hook_run(tr_ctx *ctx, tr_phase phase, tri_hook_fn hook);

/*
 * Logs the error of a hook of a stop or restart, which goes on, and ends the
 * turn. The first error of a stop is kept for tr_join.
 */
void tri_hook_failed(tr_ctx *ctx, tr_err err);

/*
 * False if there was no memory for the state of the actor: then none of its
 * code may run.
 */
static inline bool tri_has_state(tri_cell *cell)
{
    return cell->state != NULL ||
           tri_first_behaviour(cell)->def->state_size == 0;
}

/*
 * True if the start of this incarnation has failed, and the actor is FAILED or
 * ends because of it: pre_stop does not run, rule 21 (spawning). For the
 * owner, and for the parent that decides on the failure.
 */
bool tri_failed_in_start(tri_cell *cell);

#endif
