/*
 * turn_budget.c - how much a turn of the bus may do, and how long it took.
 */
#include "cluster/bus/turn_budget.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "core/run/worker.h"
#include "core/system.h"

/*
 * Returns the CPU time of this thread, so that a turn does not seem long
 * because the machine is busy; or the time, where threads are not observed.
 */
static tr_nanos time_used(tri_bus *bus)
{
    tri_world *world = bus->sys->world;
    tri_thread *thread = tri_bus_worker(bus)->thread_handle;
    return thread != NULL && world->ops->thread_ran != NULL
               ? world->ops->thread_ran(world, thread)
               : world->ops->mono(world);
}

void tri_turn_budget_begin(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    bus->turn_budget =
        TRI_BUGGIFY(bus->sys->world, 0.1) ? 1 : (uint32_t)TRI_TURN_ACTORS;
    bus->turn_began = time_used(bus);
}

void tri_turn_budget_end(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    if (bus->turn_began == 0) {
        return;  // the end of a turn without its beginning: tri_request_reply
    }
    uint64_t span = (uint64_t)(time_used(bus) - bus->turn_began);
    bus->turn_began = 0;
    // Relaxed, all: statistics, which only the bus writes.
    if (span > atomic_load_explicit(&bus->turn_max, memory_order_relaxed)) {
        atomic_store_explicit(&bus->turn_max, span, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&bus->turns, 1, memory_order_relaxed);
}
