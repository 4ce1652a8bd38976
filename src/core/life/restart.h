/*
 * restart.h - ends one incarnation of an actor and starts the next.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_LIFE_RESTART_H
#define TRI_CORE_LIFE_RESTART_H

#include "core/life/lifecycle.h"
#include "troupe/base.h"

/* Begins a restart of an actor that is RUNNING or FAILED. */
void tri_restart_begin(tr_ctx *ctx);

/*
 * Makes the actor one that is never restarted, because the next incarnation
 * could not have something that this one was given. Returns false without
 * memory.
 */
TR_NODISCARD bool tri_restart_forbid(tr_ctx *ctx);

/*
 * Returns false if the actor must be stopped instead of restarted: it is
 * TR_TEMPORARY, or tri_restart_forbid was called. Any thread.
 */
bool tri_restart_is_allowed(tri_cell *cell);

/* Takes the next step of a restart. */
tri_step tri_restart_step(tr_ctx *ctx);

/*
 * Ends an actor whose restart has taken longer than its stop time-out; its
 * parent fails, rule 41 (force).
 */
void tri_restart_give_up(tr_ctx *ctx);

#endif
