/*
 * caller.c - resolves `tr_from`: who makes a call, and for which system.
 *
 * A tr_from is a context, a system or a probe; the first word of each is a
 * magic number that tells them apart. A handler acts with its own worker. A
 * thread that is not a worker borrows sys->outside and holds outside_lock
 * from tri_enter to tri_leave; the lock is never held while the thread waits.
 */
#include "core/caller.h"

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/ask/probe.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"

/*
 * Returns the system of a tr_from that is not a context; ends the process if
 * there is none. The memory of a closed system may hold anything, so the magic
 * number finds most mistakes but not all.
 */
static tr_system *outside_system(tr_from from)
{
    tr_system *sys = from.sys;
    if (sys != NULL &&
        *(const uint64_t *)(const void *)sys == TRI_PROBE_MAGIC) {
        sys = from.probe->box.sys;
    }
    if (sys == NULL || sys->magic != TRI_SYSTEM_MAGIC) {
        tr_abort("tr_from",
                 sys == NULL ? "this is no open system: it is NULL"
                             : "this is no open system: it has been closed, or "
                               "is neither a ctx, a sys nor a probe");
    }
    return sys;
}

tr_system *tri_from_system(tr_from from)
{
    return tri_from_is_ctx(from) ? from.ctx->sys : outside_system(from);
}

/* tri_enter_system for a system whose magic number has been checked. */
static inline tri_caller enter(tr_system *sys, tr_ref sender)
{
    tri_caller caller = {.sys = sys, .sender = sender};
    tri_worker *worker = tri_worker_current();
    if (worker != NULL && worker->sys == sys) {
        caller.worker = worker;
        return caller;
    }
    tri_lock_take(&sys->outside_lock);
    caller.worker = sys->outside;
    caller.locked = true;
    return caller;
}

tri_caller tri_enter_system(tr_system *sys, tr_ref sender)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    return enter(sys, sender);
}

tri_caller tri_enter_outside(tr_from from)
{
    tr_system *sys = outside_system(from);
    return enter(sys, from.sys != sys ? tri_cell_ref(sys, from.probe->box.cell)
                                      : (tr_ref){0});
}

tri_world *tri_from_world(tr_from from)
{
    return tri_from_system(from)->world;
}

tr_nanos(tr_now)(tr_from from)
{
    tri_world *world = tri_from_world(from);
    return world->ops->mono(world);
}

tr_nanos(tr_wall)(tr_from from)
{
    tri_world *world = tri_from_world(from);
    return world->ops->wall(world);
}

uint64_t(tr_random)(tr_from from, uint64_t below)
{
    TRI_CHECK(below > 0);
    tri_world *world = tri_from_world(from);
    // As in tri_rand_below: the numbers from `reject` on are a whole multiple
    // of `below`, so that every result is equally likely.
    uint64_t reject = -below % below;
    uint64_t drawn;
    do {
        drawn = world->ops->random(world);
    } while (drawn < reject);
    return drawn % below;
}
