/*
 * sourcing_replay.h - making a state again from a snapshot and events.
 *
 * Threads: a turn of the actor.
 */
#ifndef TRI_SYSTEM_SOURCING_REPLAY_H
#define TRI_SYSTEM_SOURCING_REPLAY_H

#include "troupe/base.h"

/*
 * Loads the snapshot into *self, if there is one, and applies the events that
 * follow it. Errors: as tri_state_load.
 */
tr_err tri_events_load(tr_ctx *ctx, const tr_type *type, void *self);

#endif
