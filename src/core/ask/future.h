/*
 * future.h - futures that their turn has not awaited.
 *
 * Threads: the worker that runs the turn.
 */
#ifndef TRI_CORE_ASK_FUTURE_H
#define TRI_CORE_ASK_FUTURE_H

#include "troupe/base.h"

/* Ends and frees all futures of the turn. Called at the end of the turn. */
void tri_futures_drop(tr_ctx *ctx);

#endif
