/*
 * temp.c - temporary actors of the program, below /temp (tr_spawn_temp).
 *
 * shutdown.c ends them when /user has ended.
 */
#include <stddef.h>

#include "base/check.h"
#include "base/options.h"
#include "core/caller.h"
#include "core/life/spawn.h"
#include "core/system.h"
#include "troupe/actor.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

tr_ref(tr_spawn_temp)(tr_from from, const tr_actor_def *def,
                      const tr_spawn_options *options)
{
    static const tr_spawn_options none = {.size = sizeof(none)};
    tr_system *sys = tri_from_system(from);
    tr_spawn_options own;
    TRI_CHECK(sys->temp != NULL);
    options = options != NULL ? options : &none;
    if (!tri_options_copy(&own, sizeof(own),
                          TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
                          options)) {
        return tri_spawn_at(from, sys->temp, def, options);  // refuses it
    }
    own.restart = TR_TEMPORARY;
    return tri_spawn_at(from, sys->temp, def, &own);
}
