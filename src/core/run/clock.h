/*
 * clock.h - the time, as a worker reads it.
 *
 * Threads: the worker's, or the holder of outside_lock if it is sys->outside.
 */
#ifndef TRI_CORE_RUN_CLOCK_H
#define TRI_CORE_RUN_CLOCK_H

#include "base/world.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"

/* Reads the clock into worker->now and returns it. */
static inline tr_nanos tri_clock(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    worker->now = world->ops->mono(world);
    return worker->now;
}

/* Returns a time that is at most TRI_CLOCK_LAG behind the clock. */
static inline tr_nanos tri_clock_coarse(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    return world->ops->mono_coarse != NULL ? world->ops->mono_coarse(world)
                                           : tri_clock(worker);
}

#endif
