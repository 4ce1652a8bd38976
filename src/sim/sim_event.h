/*
 * sim_event.h - things of the simulated world itself that happen at a time: a
 * packet arrives, a pause or a wait ends.
 *
 * Threads: the one that runs the world.
 * Ownership: an event is embedded in what it belongs to and must be cancelled
 * before that is freed.
 */
#ifndef TRI_SIM_SIM_EVENT_H
#define TRI_SIM_SIM_EVENT_H

#include "base/wheel.h"
#include "troupe/base.h"

typedef struct tri_sim_event tri_sim_event;

/* All zero, but for fn, before its first use. */
struct tri_sim_event {
    tri_timer timer;
    void (*fn)(tr_sim *sim, tri_sim_event *event);
};

/* Arms the event `span` from now; one that is armed already is moved. */
void tri_sim_event_arm(tr_sim *sim, tri_sim_event *event, tr_nanos span);
/* Does nothing if the event is not armed. */
void tri_sim_event_cancel(tr_sim *sim, tri_sim_event *event);
/* Runs all events that are due at the world's time. */
void tri_sim_events_fire(tr_sim *sim);

/* Returns `at` + `span`, at most TR_FOREVER; `at` if the span is negative. */
static inline tr_nanos tri_sim_later(tr_nanos at, tr_nanos span)
{
    if (span <= 0) {
        return at;
    }
    return span > TR_FOREVER - at ? TR_FOREVER : at + span;
}

#endif
