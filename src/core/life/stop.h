/*
 * stop.h - ends an actor: stop, kill, failure, force, deactivation.
 *
 * Threads: the owner of the cell, except where a comment says otherwise.
 */
#ifndef TRI_CORE_LIFE_STOP_H
#define TRI_CORE_LIFE_STOP_H

#include "core/life/lifecycle.h"
#include "core/types.h"

#define TRI_STOP_TIMEOUT TR_SECONDS(5)  // unless the props have another

/*
 * Begins the end of an actor: closes its mailbox and ends its waits as the
 * reason demands. An actor that is STOPPING goes on with that, but a kill makes
 * it faster.
 */
void tri_stop_begin(tr_ctx *ctx, tr_reason reason);

/* Takes the next step of an end. */
tri_step tri_stop_step(tr_ctx *ctx);

/*
 * Ends an actor that has stopped itself, in one step if its life is simple.
 * Returns false if it is not; then tri_stop_begin must do it.
 */
bool tri_stop_fast(tr_ctx *ctx);

/*
 * Called when the children have had their time to end. The first call sends
 * them TRI_SIG_FORCE; the next ones end by force those that are still there,
 * rule 41 (force). Does nothing unless the actor waits for its children.
 */
void tri_children_overdue(tr_ctx *ctx);

/* Calls the hook post_stop, unless the actor was never started. */
void tri_post_stop(tr_ctx *ctx, tr_reason reason);

/*
 * Releases what the incarnation holds: timers, waits, heap, closers. Requests
 * that it kept are answered with err.
 */
void tri_life_release(tr_ctx *ctx, tr_err err);

/*
 * True if a write of the actor is not answered yet: it must not end, so that
 * its successor loads what was written, rule 48 (an end waits for the store).
 */
bool tri_waits_for_store(tri_cell *cell);

/* Returns the time that the actor has to end. Any thread. */
tr_nanos tri_stop_timeout(tri_cell *cell);

/* Arms and disarms cell.timer, for the stop deadline or a restart's delay. */
void tri_deadline_arm(tr_ctx *ctx, tr_nanos span);
void tri_deadline_disarm(tr_system *sys, tri_cell *cell);

#endif
