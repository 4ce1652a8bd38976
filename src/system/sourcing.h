/*
 * sourcing.h - what the sources of event sourcing share.
 *
 *     sourcing.c           applying and emitting events
 *     sourcing_replay.c    making the state again at start
 *     sourcing_snapshot.c  storing the state beside its events
 *     sourcing_read.c      reading the events of any actor
 *
 * Threads: a turn of the actor.
 */
#ifndef TRI_SYSTEM_SOURCING_H
#define TRI_SYSTEM_SOURCING_H

#include "system/persist.h"
#include "troupe/actor.h"
#include "troupe/base.h"

/* Returns the actor's TR_APPLY for events of this name, or NULL. */
const tr_applier *tri_applier_named(const tr_actor_def *def, const char *name);
/*
 * Makes a deep copy of *made in *out, with its memory in `pieces`. After an
 * error they are empty. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sourcing_copy(const tr_type *type, const void *made,
                                      void *out, tri_texts *pieces);

#endif
