/*
 * spawn.h - makes an actor.
 */
#ifndef TRI_CORE_LIFE_SPAWN_H
#define TRI_CORE_LIFE_SPAWN_H

#include "core/types.h"

/*
 * Spawns an actor under parent, which may be NULL, with these TRI_CELL_* flags
 * and schedules it. Returns its ref; on failure ref.cell is 0 and ref.id the
 * error. The options must have been checked. Any thread, with its caller.
 */
tr_ref tri_spawn_under(tri_caller *caller, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *options,
                       uint32_t flags);

/*
 * Spawns as tr_spawn does, with options of any version, but under `parent`,
 * which belongs to the library.
 */
tr_ref tri_spawn_at(tr_from from, tri_cell *parent, const tr_actor_def *def,
                    const tr_spawn_options *options);

/* Returns a new id of an actor. For the thread that may use the worker. */
uint64_t tri_id_next(tri_worker *worker);

#endif
