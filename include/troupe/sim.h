/*
 * sim.h - simulated worlds: a program on virtual time, decided by one seed.
 *
 * The same code runs in a world without real clocks, threads, networks and
 * disks. Every choice comes from the seed, so a run that failed is run again
 * exactly by its number.
 *
 * Threads: a simulated world is one thread; all calls come from the one that
 * made it, or from functions that it runs.
 * Ownership: the caller owns what tr_sim_new gives and frees it after closing
 * its systems; options are borrowed for the run.
 */
#ifndef TROUPE_SIM_H
#define TROUPE_SIM_H

#include <troupe/base.h>

typedef struct tr_close_report tr_close_report;  // system.h

/*
 * What goes wrong: probabilities from 0.0 to 1.0, each for one occasion (a
 * message, a file operation, a step of the world). What the disk forgets in a
 * crash is no fault to switch on: whatever was not synced may be lost, whole
 * or in sectors, whenever a node is killed.
 *
 * Messages between nodes, and so the faults of messages and links, exist only
 * in the library's own scenarios: there is no public call yet that joins the
 * nodes of a simulation.
 */
typedef struct tr_faults {
    size_t size;
    double drop, delay, reorder, bit_flip;      // a message between nodes
    double partition, half_open;                // per step: links go
    double disk_error, torn_write, lost_write;  // a file operation
    double node_kill, node_pause, clock_skew;   // per step
    tr_nanos delay_max, pause_max;              // default 1 s, 10 s
    double duplicate;                           // a message comes twice
    double slow_link, clog;                     // per step: late, held back
    double disk_full, disk_slow;                // a file operation
    double misdirected_write, disk_bit_flip;    // elsewhere; on a read
    double sync_lie;                            // a sync that does nothing
    double early_wake;                          // a wait returns for nothing
    double disk_lost;                           // a kill takes the disk along
    double one_way, swizzle;  // per step: deaf to some; clogs that end apart
    double clock_jump;        // per step: a wall clock is set, by an hour
    double unknown_outcome;   // a store cannot say what became of a write
} tr_faults;

/*
 * What is done about a call of the program, inside a step, that asks the
 * system itself for time, chance, threads, sockets or files: the seed does not
 * decide it, so a replay is another run. One of the library always fails.
 */
typedef enum tr_strays {
    TR_STRAYS_REPORT,  // told once for each place, and counted
    TR_STRAYS_FAIL,    // the run fails
    TR_STRAYS_ALLOW,   // nothing: they are not looked for
} tr_strays;

/*
 * A simulated run: everything the program does, N nodes in one thread, on
 * virtual time, decided by one seed.
 */
typedef struct tr_sim_options {
    size_t size;
    uint64_t seed;
    const tr_faults *faults;
    /* Brings one node up: the same function that production main calls. */
    tr_err (*node)(tr_system *sys, uint32_t index, void *user);
    uint32_t nodes;  // default 1, at most 64; they share C globals only
    /* Runs as an outside thread of the world; its return ends the run. */
    tr_err (*workload)(tr_sim *sim, void *user);
    tr_err (*invariant)(tr_sim *sim, void *user);  // after every step
    tr_err (*at_end)(tr_sim *sim, void *user);     // faults off, world quiet
    void *user;
    tr_nanos limit;       // virtual; default 1 h
    tr_nanos step_cost;   // mean, virtual; default 1 us, < 0: none
    tr_nanos quiet_time;  // before at_end; default 60 s
    /*
     * Before the nodes come up. *user is as the last run has left it, and of
     * --seeds and --shrink there are many: set it back here.
     */
    void (*begin)(tr_sim *sim, void *user);
    /* Steps between two looks of the built-in invariants; default 1. */
    uint32_t check_every;
    tr_strays strays;  // calls around the world; default: told and counted
} tr_sim_options;

/* One line of a trace, in columns, without newline; borrowed. */
typedef void (*tr_sim_trace_fn)(void *user, const char *line);

/* A fault class or a buggify site: how often it could, and did, strike. */
typedef struct tr_sim_count {
    const char *name;  // lives as long as the world
    uint64_t reached;
    uint64_t fired;
} tr_sim_count;

TR_BEGIN_DECLS

/*
 * Runs a simulated world to its end. An error has been printed with the seed
 * and how to replay it. Options that make no sense are refused with TR_EINVAL
 * and a text: a wrong size, here or in tr_faults, too many nodes, a
 * probability beyond 0.0 to 1.0, a negative span.
 */
TR_API TR_NODISCARD tr_err tr_sim_run(const tr_sim_options *options);
/*
 * A main(). --seed N: one run; --seeds N: so many, from that seed on, and
 * figures; --trace: an event log; --shrink: a failure with the faults it needs;
 * --faults N,...: only these of that run; --only CLASS,...: only these classes,
 * or none; --fault-steps N: faults end at that step; --check-every N: steps
 * between two looks at the built-in invariants; --no-strays: a call around the
 * world fails the run; --help. All it writes goes to standard error.
 * Returns an exit status: 0 all passed, 1 one failed, 2 a wrong command
 * line, or options that make no sense.
 * A signal that ends the process, and a step that takes ten seconds of real
 * time, are told with seed, step, actor and message.
 */
TR_API int tr_sim_main(int argc, char **argv, const tr_sim_options *options);

/* A bare world, for tests of one system on virtual time. Errors: TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_sim_new(tr_sim **out, uint64_t seed);
/* Takes sim; NULL is allowed. Its systems must have been closed (a check). */
TR_API void tr_sim_free(tr_sim *sim);
/*
 * For tr_system_options.world; borrowed, lives as long as sim. A system that a
 * workload opens on it is a client outside of the nodes: it has a disk and a
 * clock of its own, and no fault kills or pauses it or its threads. What it
 * has not closed is closed after the run.
 */
TR_API const void *tr_sim_world(tr_sim *sim);
/*
 * Runs the world until span of its time has passed, and all that is due then;
 * in a thread of the world (a workload) it is a sleep. Not from a handler.
 */
TR_API void tr_sim_advance(tr_sim *sim, tr_nanos span);
/* The system of a node; NULL while the node is down. */
TR_API tr_system *tr_sim_node(tr_sim *sim, uint32_t index);
/* A number below `below`, which is not 0 (a check). */
TR_API uint64_t tr_sim_random(tr_sim *sim, uint64_t below);
/* The world's clock; that of a node may go wrong, this one does not. */
TR_API tr_nanos tr_sim_now(const tr_sim *sim);

/*
 * In a run of tr_sim_run: the node loses its process at the next step, and
 * comes up again after `down` (0: at once; TR_FOREVER: when the faults end).
 * Its systems, threads and unsynced writes are gone. A node that comes up just
 * now is killed, too; one that is down already stays so.
 */
TR_API void tr_sim_kill(tr_sim *sim, uint32_t index, tr_nanos down);
/* The same, and its disk is empty when it comes up: another machine. */
TR_API void tr_sim_replace(tr_sim *sim, uint32_t index, tr_nanos down);
/*
 * The node ends in the ordinary way, as a program does after SIGTERM: its
 * system is closed, with that timeout (0: the system's default), and comes up
 * again after `down`, as with tr_sim_kill. From now on tr_sim_node is NULL, and
 * no thread but the node's own may use the system. A node that is not up stays
 * as it is. While it closes it can still be killed.
 */
TR_API void tr_sim_shutdown(tr_sim *sim, uint32_t index, tr_nanos timeout,
                            tr_nanos down);
/*
 * What the node's last tr_sim_shutdown came to: the result of tr_system_close,
 * and *report (or NULL), whose size the caller sets. Errors: TR_EWOULDBLOCK (it
 * is under way), TR_ESTOPPED (there was none, or the node was not up, or was
 * killed before the end), TR_EINVAL (the size), those of tr_system_close.
 */
TR_API TR_NODISCARD tr_err tr_sim_shutdown_report(const tr_sim *sim,
                                                  uint32_t index,
                                                  tr_close_report *report);
/* The node stands still for span: a long collection, a swapped-out page. */
TR_API void tr_sim_pause(tr_sim *sim, uint32_t index, tr_nanos span);

/* Steps so far, and a hash over all of them: equal in every replay. */
TR_API uint64_t tr_sim_steps(const tr_sim *sim);
TR_API uint64_t tr_sim_trace_hash(const tr_sim *sim);
/*
 * Hands each event to fn as a line in columns: step, time in seconds, node,
 * actor, event, type, detail; "-" stands for nothing. fn NULL ends it.
 */
TR_API void tr_sim_on_trace(tr_sim *sim, tr_sim_trace_fn fn, void *user);
/*
 * Stores up to max counters of the fault classes, or of the sites that
 * tr_buggify was called from, and returns how many there are.
 */
TR_API uint32_t tr_sim_faults(const tr_sim *sim, tr_sim_count *out,
                              uint32_t max);
TR_API uint32_t tr_sim_sites(const tr_sim *sim, tr_sim_count *out,
                             uint32_t max);
/*
 * The same for calls around the world: the call and its place in the program,
 * as addr2line takes it. Under tr_sim_main of all runs so far.
 */
TR_API uint32_t tr_sim_strays(const tr_sim *sim, tr_sim_count *out,
                              uint32_t max);
/* Ends the run as failed, with a text; returns an error to return. */
TR_API tr_err tr_sim_fail(tr_sim *sim, const char *site, const char *format,
                          ...) TR_PRINTF(3, 4);
/* True with probability p in a simulation, never outside. */
TR_API bool tr_buggify(tr_from from, double p, const char *site);

TR_END_DECLS

#ifndef __cplusplus

#define tr_sim_fail(sim, ...) (tr_sim_fail)((sim), TR_HERE, __VA_ARGS__)
/*
 * Whether the unlikely happens here, this once: true with probability p in a
 * simulation, never outside. The line is the site that tr_sim_sites counts.
 */
#define TR_BUGGIFY(from, p) __extension__(tr_buggify)((from), (p), TR_HERE)

#endif /* !__cplusplus */
#endif
