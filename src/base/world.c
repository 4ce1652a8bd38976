/*
 * world.c - the choice of a world by an option.
 */
#include "base/world.h"

#include "troupe/base.h"

tri_world *tri_world_given(const void *option, const char *site)
{
    tri_world *world =
        option != NULL ? (tri_world *)(uintptr_t)option : tri_world_posix();
    if (world->magic != TRI_WORLD_MAGIC) {
        tr_abort(site, "the option .world is not a world: give it "
                       "tr_sim_world(sim), not sim itself");
    }
    return world;
}
