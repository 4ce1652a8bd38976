/*
 * start.h - the start of an incarnation: state, hooks, on_run.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_LIFE_START_H
#define TRI_CORE_LIFE_START_H

#include "core/life/lifecycle.h"
#include "core/types.h"

/*
 * Starts the next incarnation of an actor that is CREATED or RESTARTING:
 * makes and loads the state, calls the hooks, begins on_run.
 */
tri_step tri_life_start(tr_ctx *ctx);

/* Frees the memory of the actor's state, if there is any. */
void tri_state_free(tri_worker *worker, tri_cell *cell);

#endif
