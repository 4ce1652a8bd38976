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

/* Takes the next step of a restart. */
tri_step tri_restart_step(tr_ctx *ctx);

/*
 * Ends an actor whose restart has taken longer than its stop time-out; its
 * parent fails, rule 41 (force).
 */
void tri_restart_give_up(tr_ctx *ctx);

#endif
