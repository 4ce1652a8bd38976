/*
 * scenario.h - a scenario of virtual actors, for tests: it runs on virtual time
 * with several seeds and, unless it is about time, once on threads.
 *
 * SCENARIO makes a test of a function body whose `w` is the world it plays in.
 */
#ifndef TEST_CLUSTER_SCENARIO_H
#define TEST_CLUSTER_SCENARIO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "support/catalog_check.h"

#define NS "shop"

enum { SEEDS = 5, NAMES = 100 };

typedef struct world {
    tr_sim *sim;  // NULL: on threads
    tr_system *sys;
    tr_probe *probe;
} world;

static inline void quiet_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static inline void open_world(world *w, uint64_t seed)
{
    *w = (world){0};
    tr_system_options o = {.size = sizeof(o),
                           .ns = NS,
                           .workers = 2,
                           .virtual_names = NAMES,
                           .log = quiet_log};
    if (seed != 0) {
        assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
        o.world = tr_sim_world(w->sim);
    }
    assert_int_equal((tr_system_open)(&w->sys, &o), TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
}

static inline void close_world(world *w)
{
    if (w->sim != NULL) {
        catalog_check(w->sys);
    }
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

typedef void scenario_fn(world *w);

/* From seed `first` on, 0 being threads; `before` and `after` may be NULL. */
static inline void play(scenario_fn *scenario, uint64_t first,
                        scenario_fn *before, scenario_fn *after)
{
    for (uint64_t seed = first; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        if (before != NULL) {
            before(&w);
        }
        scenario(&w);
        if (after != NULL) {
            after(&w);
        }
        close_world(&w);
    }
}

#define SCENARIO(name, first, before, after)                                   \
    static void play_##name(world *w);                                         \
    static void test_##name(void **state)                                      \
    {                                                                          \
        (void)state;                                                           \
        play(play_##name, first, before, after);                               \
    }                                                                          \
    static void play_##name(world *w)

static inline tr_metrics_snapshot metrics(world *w)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(w->sys, &m);
    return m;
}

#endif
