/*
 * sim.h - struct tr_sim: one simulated world.
 *
 * A tr_sim has a virtual clock, streams of random numbers, nodes (each a
 * tri_world of its own, with its clock and its disk), systems that it steps,
 * threads that are fibers, and events. Two worlds share nothing. The functions
 * on each part are declared in the header named beside it.
 *
 * Threads: all of it belongs to the thread that made the tr_sim.
 */
#ifndef TRI_SIM_SIM_H
#define TRI_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fiber.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/shared.h"
#include "base/wheel.h"
#include "base/world.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_stray.h"
#include "sim/sim_stream.h"
#include "sim/sim_system.h"
#include "troupe/base.h"
#include "troupe/sim.h"

enum {
    TRI_SIM_NODES_MAX = 64,
    TRI_SIM_SYSTEMS_MAX = 128,  // attached at once, over all nodes
    TRI_SIM_FROZEN_MAX = 256,   // systems; beyond, no more nodes are killed
    TRI_SIM_THREADS_MAX = 2048,
    TRI_SIM_SITE_CACHE = 64,  // buggify sites, by the address of their text
    TRI_SIM_WINDOW = 16,      // runnable actors of a system to choose from
    TRI_SIM_LINE_MAX = 256,   // bytes of a log line, with its zero
    TRI_SIM_WHY_MAX = 1024,   // bytes of an error's text, with its zero
    TRI_SIM_FAIL_MAX = TRI_SIM_LINE_MAX + TRI_SIM_WHY_MAX,  // of a failure
};

#define TRI_SIM_BEGIN     TR_SECONDS(1)  // what every clock shows at first
#define TRI_SIM_EPOCH     (INT64_C(1767225600) * TR_SECONDS(1))  // 2026-01-01
#define TRI_SIM_DELAY_MAX TR_SECONDS(1)   // default of tr_faults.delay_max
#define TRI_SIM_PAUSE_MAX TR_SECONDS(10)  // default of tr_faults.pause_max

struct tr_sim {
    uint64_t seed;
    tri_rand rand[TRI_STREAM_COUNT];

    /* Time and steps: sim_step.h. */
    tr_nanos now;
    uint32_t still;      // steps since the clock moved
    bool nothing_due;    // known: no event or timer is due at `now`
    tr_nanos step_cost;  // mean, drawn; 0: a step takes no time

    /* The decisions so far, and the event log: sim_trace.h. */
    uint64_t steps;
    uint64_t hash;
    tr_sim_trace_fn trace;  // or NULL
    void *trace_user;
    bool trace_pending;  // the running step has no line yet; what it would be:
    uint64_t trace_step;
    tr_nanos trace_at;
    uint32_t trace_node;
    char trace_actor[TRI_SIM_LINE_MAX];

    /* What runs now. Neither: main, the stack that runs the world. */
    tri_thread *running;
    bool stepping;              // inside a system ...
    tri_sim_attached *stepped;  // ... which is this one

    /* Whose the text of the last error is: sim_error.h. */
    uint64_t error_mark;
    uint64_t error_by;  // the thread's id + 1; 0: none

    /* Nodes: sim_node.h. */
    tri_sim_node outside;  // of threads that belong to no node
    tri_sim_node client;   // of systems that a workload opens itself
    tri_sim_node *nodes[TRI_SIM_NODES_MAX];
    uint32_t node_count;

    /* Systems: sim_system.h. */
    tri_sim_attached systems[TRI_SIM_SYSTEMS_MAX];
    uint32_t system_count;
    uint32_t system_next;  // id of the next one
    tri_sim_attached frozen[TRI_SIM_FROZEN_MAX];
    uint32_t frozen_count;

    /* Threads: sim_thread.h. */
    tri_list threads, ready, parked, frozen_threads;
    uint32_t thread_next, thread_count;
    tri_fiber_pool fibers;
    _Atomic(uint32_t) fibers_live;
    tri_fiber main;                // main's stack, while a thread runs
    _Atomic(uint32_t) *main_word;  // that main is parked on, or NULL
    bool main_woken;

    tri_wheel wheel;  // events: sim_event.h

    /* Faults: sim_fault.h, sim_schedule.h. */
    bool calm;  // neither faults nor buggify strike
    bool no_buggify;
    double chance[TRI_FAULT_COUNT];
    tri_sim_counter faults[TRI_SIM_COUNTERS];
    uint64_t fault_step;              // of the last fault that struck
    struct tri_sim_schedule *record;  // every strike is added to it; or NULL
    struct tri_sim_schedule
        *replay;  // only the strikes it keeps happen; or NULL
    tr_nanos delay_max, pause_max;
    tr_nanos calm_since;  // when the faults ended; 0: they have not

    /* Buggify sites: sim_buggify.h. */
    tri_map sites;
    struct tri_sim_site *site_first, *site_last;
    struct tri_sim_site *site_cache[TRI_SIM_SITE_CACHE];

    /* Stray calls: sim_stray.h. */
    tri_sim_strays own_strays;
    tri_sim_strays *strays;  // own_strays, or those of all runs of a program
    bool strays_fail;        // a stray call fails the run

    tri_shared shared;  // objects that all nodes share: base/shared.h

    struct tri_sim_tcp *tcp;          // sim_tcp.h; NULL: no stream yet
    struct tri_sim_disk *disk;        // sim_disk.h
    bool disk_replaced;               // tr_sim_replace was called
    struct tri_sim_commits *commits;  // sim_commit.h; NULL: none yet
    struct tri_sim_mail *mail;        // sim_mail.h: the ledgers, a linked list
    bool touched;  // a thread or event ran since the last check: any system
                   // may have changed

    /* Called after every step, on main's stack; or NULL. */
    void (*after_step)(tr_sim *sim, void *user);
    void *after_step_user;
    bool in_after_step;

    bool failed;  // by tr_sim_fail; its first call is kept
    const char *fail_site;
    char fail_text[TRI_SIM_FAIL_MAX];
    void *run;  // the tri_run (sim_run.h), or NULL: a bare world
};

static inline tri_rand *tri_sim_rand(tr_sim *sim, tri_sim_stream stream)
{
    return &sim->rand[stream];
}

#endif
