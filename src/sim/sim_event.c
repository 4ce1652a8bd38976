/*
 * sim_event.c - the timer wheel of the simulated world.
 *
 * Invariant: events that are due at one time run in the order in which they
 * were armed (base/wheel.h); the order of packets on a link depends on it.
 */
#include "sim/sim_event.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "sim/sim_trace.h"

void tri_sim_event_arm(tr_sim *sim, tri_sim_event *event, tr_nanos span)
{
    TRI_CHECK(event->fn != NULL);
    tri_wheel_arm(&sim->wheel, &event->timer, tri_sim_later(sim->now, span), 0);
    if (span <= 0) {
        sim->nothing_due = false;
    }
}

void tri_sim_event_cancel(tr_sim *sim, tri_sim_event *event)
{
    TRI_CHECK(sim != NULL);
    tri_wheel_cancel(&sim->wheel, &event->timer);
}

void tri_sim_events_fire(tr_sim *sim)
{
    tri_timer *timer;

    TRI_CHECK(!sim->stepping);
    while ((timer = tri_wheel_expire(&sim->wheel, sim->now)) != NULL) {
        tri_sim_event *event = tri_container_of(timer, tri_sim_event, timer);
        tri_sim_note(sim, TRI_KIND_EVENT, TRI_SIM_NO_NODE, 0, "");
        sim->touched = true;
        event->fn(sim, event);
    }
}
