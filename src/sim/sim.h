/*
 * sim.h - the inside of a simulated world, shared by the files of this folder.
 *
 * One tr_sim is one thread's whole universe: a virtual clock, seeded numbers,
 * nodes (each a tri_world of its own, with its clock and its disk), systems
 * that the world steps, threads that are fibers, and things that happen at a
 * certain time. Nothing here is shared between two of them.
 *
 * Threads: all of it belongs to the thread that made the tr_sim.
 */
#ifndef TRI_SIM_SIM_H
#define TRI_SIM_SIM_H

#include "base/check.h"
#include "base/fiber.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "base/world.h"
#include "troupe/sim.h"

enum {
    TRI_SIM_NODES_MAX = 64,
    TRI_SIM_SYSTEMS_MAX = 128,  // attached at once, over all nodes
    TRI_SIM_BURIED_MAX = 256,   // killed in one run; then no more are
    TRI_SIM_THREADS_MAX = 2048,
    TRI_SIM_SITES_NEAR = 64,  // of tr_buggify, found by address
    TRI_SIM_WINDOW = 16,      // runnable actors of a system to choose from
    TRI_SIM_LINE_MAX = 256,   // bytes of a trace line, with its zero
    TRI_SIM_WHY_MAX = 1024,   // bytes of an error's text, with its zero
    TRI_SIM_FAIL_MAX = TRI_SIM_LINE_MAX + TRI_SIM_WHY_MAX,  // of a failure
};

#define TRI_SIM_BEGIN  TR_SECONDS(1)                          // of every clock
#define TRI_SIM_EPOCH  (INT64_C(1767225600) * TR_SECONDS(1))  // 2026-01-01
#define TRI_SIM_NOBODY UINT32_MAX  // no node: main, workload, the world
#define TRI_SIM_STACK  ((size_t)1024 * 1024)  // of a thread

/*
 * Steps at one instant before each one costs TRI_SIM_STILL_COST: so a program
 * that never waits cannot stop the clock, and others still see exact times.
 */
#define TRI_SIM_STILL_MAX  UINT32_C(10000)
#define TRI_SIM_STILL_COST INT64_C(1000)

/* The rate of a node's clock stays within this; the world's own is 0. */
#define TRI_SIM_RATE_MAX INT32_C(200000)  // parts in a million

/* Every fault class: the name of its probability in tr_faults. */
#define TRI_SIM_FAULTS(X)                                                      \
    X(drop)                                                                    \
    X(delay)                                                                   \
    X(reorder)                                                                 \
    X(duplicate)                                                               \
    X(bit_flip)                                                                \
    X(partition)                                                               \
    X(half_open)                                                               \
    X(slow_link)                                                               \
    X(clog)                                                                    \
    X(disk_error)                                                              \
    X(disk_full)                                                               \
    X(disk_slow)                                                               \
    X(torn_write)                                                              \
    X(lost_write)                                                              \
    X(misdirected_write)                                                       \
    X(disk_bit_flip)                                                           \
    X(sync_lie)                                                                \
    X(node_kill)                                                               \
    X(node_pause)                                                              \
    X(clock_skew)                                                              \
    X(early_wake)                                                              \
    X(disk_lost)                                                               \
    X(one_way)                                                                 \
    X(swizzle)                                                                 \
    X(clock_jump)                                                              \
    X(unknown_outcome)

/*
 * What goes wrong by itself, without a probability to set: it is counted with
 * the faults, since a run that never meets it has not shown what it does.
 */
#define TRI_SIM_EVENTS(X)                                                      \
    X(latency_tail) /* a message took ten times as long */                     \
    X(disk_kept)    /* a killed node came back to its disk */                  \
    X(crash_none)   /* of what was not synced a crash kept nothing, */         \
    X(crash_all)    /* all of it, */                                           \
    X(crash_prefix) /* what was written first, */                              \
    X(crash_parts)  /* or some of it, in sectors */

typedef enum tri_sim_fault {
#define TRI_X(name) TRI_FAULT_##name,
    TRI_SIM_FAULTS(TRI_X)
#undef TRI_X
        TRI_FAULT_COUNT,
    TRI_EVENT_BEFORE_ = TRI_FAULT_COUNT - 1,
#define TRI_X(name) TRI_EVENT_##name,
    TRI_SIM_EVENTS(TRI_X)
#undef TRI_X
        TRI_SIM_COUNTERS
} tri_sim_fault;

/*
 * All numbers come from the seed, in streams: one for each kind of decision
 * and for each fault class. A class that is switched off shifts no draw of
 * another, which is what makes a failing run shrink.
 */
typedef enum tri_sim_stream {
    TRI_STREAM_SCHEDULE,  // who goes on next
    TRI_STREAM_PROGRAM,   // what the program draws from its world
    TRI_STREAM_WORKLOAD,  // tr_sim_random
    TRI_STREAM_BUGGIFY,
    TRI_STREAM_CRASH,    // what a disk keeps
    TRI_STREAM_LATENCY,  // of links
    TRI_STREAM_COST,     // of steps
    TRI_STREAM_FAULT,    // + tri_sim_fault
    TRI_STREAM_COUNT = TRI_STREAM_FAULT + TRI_FAULT_COUNT
} tri_sim_stream;

/* What a line of the trace tells. The numbers are part of the hash. */
typedef enum tri_sim_kind {
    TRI_KIND_STEP = 1,  // a system ran an activation
    TRI_KIND_THREAD,    // a thread went on
    TRI_KIND_TIME,      // the clock moved
    TRI_KIND_FIRE,      // a system's timers
    TRI_KIND_EVENT,     // something of the world's own
    TRI_KIND_FAULT,
    TRI_KIND_NODE,  // up, down, paused, going on
} tri_sim_kind;

enum { TRI_NODE_UP = 1, TRI_NODE_DOWN, TRI_NODE_PAUSED, TRI_NODE_AWAKE };

typedef struct tri_sim_node tri_sim_node;
typedef struct tri_sim_event tri_sim_event;
typedef struct tri_sim_disk tri_sim_disk;
typedef struct tri_sim_site tri_sim_site;
typedef struct tri_sim_stray tri_sim_stray;
typedef struct tri_sim_schedule tri_sim_schedule;
typedef struct tri_sim_watch tri_sim_watch;

/* Something that happens at a time. Embedded; all zero before its first use. */
struct tri_sim_event {
    tri_timer timer;
    void (*fn)(tr_sim *sim, tri_sim_event *event);
};

/* One node's view of the world. Never moves: `world` is handed out. */
struct tri_sim_node {
    tri_world world;  // first, so that the functions of the seam find us
    tr_sim *sim;
    uint32_t index;  // or TRI_SIM_NOBODY
    bool paused;
    bool kill_wanted;         // tr_sim_kill; done after the step
    bool disk_wanted;         // its disk goes along: tr_sim_replace
    tr_nanos down;            // and for how long
    tr_system *sys;           // sim_process.c's, or NULL: down
    int32_t rate_ppm;         // how much faster than the world's clock
    tr_nanos local_base;      // this node's clock when ...
    tr_nanos world_base;      // ... the world's showed this
    tr_nanos wall_skew;       // of its wall clock
    tri_sim_event pause_end;  // while paused
};

typedef enum tri_thread_state {
    TRI_THREAD_READY = 1,
    TRI_THREAD_RUNNING,
    TRI_THREAD_PARKED,
    TRI_THREAD_BURIED,  // its process has died; the library's go on after
                        // the run, the program's never do
    TRI_THREAD_DONE,
} tri_thread_state;

/* A thread of the simulated world: a fiber. */
struct tri_thread {
    tri_link all, queue;  // in sim->threads; in sim->ready, parked or buried
    tri_sim_node *node;   // whose process it belongs to
    uint32_t id;
    tri_thread_state state;
    bool is_library;  // see tri_world_ops.thread_start
    bool killed;
    bool timed_out;
    bool begun;
    _Atomic(uint32_t) done;   // joiners park here
    _Atomic(uint32_t) sleep;  // parks here to let time pass; stays 0
    _Atomic(uint32_t) *word;  // parked on
    tri_sim_event deadline;
    tri_fiber *fiber;  // NULL before the first run and after the last
    tri_jump_buf jump;
    void (*fn)(void *arg);
    void *arg;
    char name[24];
};

typedef struct tri_sim_attached {
    tri_driven *driven;
    tri_sim_node *node;
    uint32_t id;        // of all systems that ever were
    uint32_t runnable;  // at the last look, within the window
    tr_nanos fired_at;  // all that was due then has been fired
    bool touched;       // stepped or fired since the last look: sim_check.c
} tri_sim_attached;

typedef struct tri_sim_counter {
    uint64_t reached;
    uint64_t fired;
} tri_sim_counter;

/* Calls around the world, by place, in the order of the first: sim_stray.h. */
typedef struct tri_sim_strays {
    tri_sim_stray *first, *last;
    uint32_t count;
    uint64_t unlisted;  // calls from places beyond the limit
} tri_sim_strays;

struct tr_sim {
    uint64_t seed;
    tri_rand rand[TRI_STREAM_COUNT];
    tr_nanos now;
    uint32_t still;      // steps since the clock moved
    bool due_known;      // nothing is due at `now`
    tr_nanos step_cost;  // mean, drawn; 0: a step takes no time
    uint64_t steps;
    uint64_t hash;
    tr_sim_trace_fn trace;
    void *trace_user;
    bool trace_waits;  // a step that nothing has been told of: sim_trace.c
    uint64_t trace_step;
    tr_nanos trace_at;
    uint32_t trace_node;
    char trace_actor[TRI_SIM_LINE_MAX];

    /* Who runs now. Neither: the stack that runs the world. */
    tri_thread *running;
    bool stepping;              // inside a system
    tri_sim_attached *stepped;  // while stepping: which one
    bool touched;  // a thread went on since the last look: all may differ
    uint64_t error_mark;  // texts of errors before `running` went on
    uint64_t error_by;    // the thread of the last of them, + 1; 0: none

    tri_sim_node outside;  // of threads that belong to no node
    tri_sim_node client;   // of systems that a workload opens itself
    tri_sim_node *nodes[TRI_SIM_NODES_MAX];
    uint32_t node_count;

    tri_sim_attached systems[TRI_SIM_SYSTEMS_MAX];
    uint32_t system_count;
    uint32_t system_next;                         // id of the next one
    tri_sim_attached buried[TRI_SIM_BURIED_MAX];  // killed: never stepped
    uint32_t buried_count;

    tri_list threads, ready, parked, buried_threads;
    uint32_t thread_next, thread_count;
    tri_fiber_pool fibers;
    _Atomic(uint32_t) fibers_live;
    tri_fiber main;  // while a thread runs

    _Atomic(uint32_t) *main_word;  // main is parked on it
    bool main_woken;

    tri_wheel wheel;  // events

    bool calm;  // no faults, no buggify
    bool no_buggify;
    double chance[TRI_FAULT_COUNT];
    tri_sim_counter faults[TRI_SIM_COUNTERS];
    uint64_t fault_step;       // of the last one that struck
    tri_sim_schedule *record;  // of all that strike, or NULL
    tri_sim_schedule *replay;  // only what it keeps strikes; or NULL
    tr_nanos delay_max, pause_max;
    tri_map sites;  // of tr_buggify
    tri_sim_site *site_first, *site_last;
    tri_sim_site *sites_near[TRI_SIM_SITES_NEAR];
    tri_sim_strays own_strays;
    tri_sim_strays *strays;  // that, or of all runs of the program
    bool strays_fail;        // such a call fails the run
    tri_sim_disk *disk;
    struct tri_sim_commits *commits;  // NULL: none yet
    bool disk_replaced;               // by tr_sim_replace
    struct tri_sim_mail *mail;        // of the systems that are looked at
    tr_nanos calm_since;              // the faults ended then; 0: they have not

    /* After every step, on the stack that runs the world. */
    void (*after_step)(tr_sim *sim, void *user);
    void *after_user;
    bool in_after;
    bool failed;  // tr_sim_fail was called: the first is kept
    const char *fail_site;
    char fail_text[TRI_SIM_FAIL_MAX];
    void *run;  // sim_run.c's part, or NULL
};

/* ---- world_sim.c ---- */

extern const tri_world_ops tri_sim_ops;

/* The simulated world behind a seam, or NULL if it is another. */
tr_sim *tri_sim_of(const tri_world *world);
tri_sim_node *tri_sim_node_of(tri_world *world);

tr_err tri_sim_world_init(tr_sim *sim);
void tri_sim_world_fini(tr_sim *sim);

/* Adds a node; NULL when there are too many or no memory is left. */
tri_sim_node *tri_sim_node_add(tr_sim *sim);

/*
 * Runs one thing that can go on, chosen by the seed. If there is none the
 * clock moves to when there will be, but not past `until`. False: nothing can
 * happen before `until`, and it is now `until` (never moved to TR_FOREVER).
 * Only on the stack that runs the world.
 */
bool tri_sim_step(tr_sim *sim, tr_nanos until);
/* When something can happen, at the earliest; TR_FOREVER: never again. */
tr_nanos tri_sim_next(tr_sim *sim);

/* True if something can go on without time passing. */
bool tri_sim_is_busy(tr_sim *sim);

/* A node's clock, and when the world's will make it show `local`. */
tr_nanos tri_sim_local(const tri_sim_node *node);
tr_nanos tri_sim_when(const tri_sim_node *node, tr_nanos local);
/* From now on the node's clock runs at another rate; it does not jump. */
void tri_sim_set_rate(tri_sim_node *node, int32_t rate_ppm);

/* The node's systems and threads stand still for `span`. */
void tri_sim_pause(tri_sim_node *node, tr_nanos span);
void tri_sim_resume(tri_sim_node *node);

/*
 * The systems of a node stand still for good: their process has died, but
 * outside threads may still be inside them. False: there is no more room.
 */
bool tri_sim_bury(tri_sim_node *node);
/* Attaches the last one that was buried again, to be closed; or NULL. */
tri_driven *tri_sim_exhume(tr_sim *sim);
/* The same for one system, if it was buried and there is room. */
void tri_sim_exhume_one(tr_sim *sim, const void *system);

/* Arms an event `span` from now, or anew; cancels it. */
void tri_sim_event_arm(tr_sim *sim, tri_sim_event *event, tr_nanos span);
void tri_sim_event_cancel(tr_sim *sim, tri_sim_event *event);

static inline tr_nanos tri_sim_later(tr_nanos at, tr_nanos span)
{
    if (span <= 0) {
        return at;
    }
    return span > TR_FOREVER - at ? TR_FOREVER : at + span;
}

/* ---- sim_thread.c: for the world's table, see base/world.h ---- */

tr_err tri_sim_thread_start(tri_world *world, tri_thread **out,
                            const char *name, void (*fn)(void *arg), void *arg);
void tri_sim_thread_join(tri_world *world, tri_thread *thread);
bool tri_sim_park(tri_world *world, _Atomic(uint32_t) *word, uint32_t expected,
                  tr_nanos timeout);
void tri_sim_wake(tri_world *world, _Atomic(uint32_t) *word, uint32_t count);
void tri_sim_wake_all(tr_sim *sim, _Atomic(uint32_t) *word);
void tri_sim_yield(tri_world *world);

/* Lets a thread that is in no queue go on until it waits or ends. */
void tri_sim_thread_enter(tr_sim *sim, tri_thread *thread);
/* The entry of every fiber: one thread after another. */
void tri_sim_thread_loop(void *sim);
/* Frees the handles; all threads have ended. */
void tri_sim_threads_free(tr_sim *sim);

/* Ends the threads of a node wherever they are, as a killed process does. */
void tri_sim_kill_threads(tri_sim_node *node);
/*
 * The threads of a node stand still where they are, for their process has
 * died. Whoever joins one sees its end. But their stacks stay: other nodes
 * know of asks that wait on them, and what the library's own hold, an SQLite
 * connection in the middle of a write, cannot be dropped from outside.
 */
void tri_sim_bury_threads(tri_sim_node *node);
/* The library's go on, to end by themselves: their disk has gone. */
void tri_sim_exhume_threads(tr_sim *sim);

/* The running thread sleeps; elsewhere nothing happens and it is false. */
bool tri_sim_sleep(tr_sim *sim, tr_nanos span);

/* ---- sim.c ---- */

/* Puts one decision into the hash and, where wanted, into the trace. */
void tri_sim_note(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what,
                  const char *text);

static inline tri_rand *tri_sim_rand(tr_sim *sim, tri_sim_stream stream)
{
    return &sim->rand[stream];
}

/* Whether the fault strikes here; counted and traced. */
bool tri_sim_strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node);
/* The same for a fault of any node: its stream draws which one, into *index. */
bool tri_sim_strikes_one(tr_sim *sim, tri_sim_fault fault, uint32_t *index);
/* The node that runs now, in a step or a thread; or TRI_SIM_NOBODY. */
uint32_t tri_sim_here(const tr_sim *sim);
/* An event of TRI_SIM_EVENTS could have come, and has if `did`. */
void tri_sim_count(tr_sim *sim, tri_sim_fault event, bool did);
/* A number below `limit` from the stream of that fault. */
uint64_t tri_sim_fault_below(tr_sim *sim, tri_sim_fault fault, uint64_t limit);
const char *tri_sim_fault_name(tri_sim_fault fault);
void tri_sim_set_faults(tr_sim *sim, const tr_faults *faults);

/*
 * All threads of the world are one, and so is the text of its last error:
 * whose it is. Around every turn of a thread.
 */
void tri_sim_error_before(tr_sim *sim);
void tri_sim_error_after(tr_sim *sim, const tri_thread *thread);
/* tr_error_text of the running thread; "" if the last is not its own. */
const char *tri_sim_error_text(const tr_sim *sim);

/* ---- sim_buggify.c ---- */

bool tri_sim_buggify(tr_sim *sim, double p, const char *site);
void tri_sim_sites_free(tr_sim *sim);

#endif
