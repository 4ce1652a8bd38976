/*
 * sourcing_snapshot.h - storing a state beside its events.
 *
 * Threads: a turn of the actor.
 */
#ifndef TRI_SYSTEM_SOURCING_SNAPSHOT_H
#define TRI_SYSTEM_SOURCING_SNAPSHOT_H

#include "troupe/base.h"

/*
 * Stores *self as a snapshot if enough events have come since the last one.
 * The events are stored already, so a failure is only logged.
 */
void tri_snapshot_if_due(tr_ctx *ctx, const tr_type *type, const void *self,
                         const char *site);

#endif
