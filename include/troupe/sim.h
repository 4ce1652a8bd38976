/*
 * sim.h - simulation: a program on virtual time, decided by one seed.
 *
 * The same code runs in a world without real clocks, threads, networks and
 * disks. Every choice comes from the seed, so a run that failed can be repeated
 * exactly.
 *
 * Threads: a simulated world is one thread. All calls come from the thread that
 * made it, or from functions that it runs.
 * Ownership: the caller owns what tr_sim_new gives and frees it after closing
 * its systems. Options are borrowed for the run.
 */
#ifndef TROUPE_SIM_H
#define TROUPE_SIM_H

#include <troupe/base.h>

typedef struct tr_close_report tr_close_report;  // system.h

/*
 * The faults of a run: probabilities from 0.0 to 1.0, each for one occasion (a
 * message, a file operation, a step of the world). Two things need no fault:
 * when a node is killed, its disk may lose whatever was not synced, in whole or
 * in sectors, and the other ends of its streams see a reset or silence.
 *
 * Faults of links, and `delay`, concern the streams and the datagrams between
 * nodes. The other faults of messages strike datagrams (udp.h); streams carry
 * their bytes whole and in order.
 */
typedef struct tr_faults {
    size_t size;
    double drop, delay, reorder, bit_flip;      // a datagram between nodes
    double partition, half_open;                // per step: links are cut
    double disk_error, torn_write, lost_write;  // a file operation
    double node_kill, node_pause, clock_skew;   // per step
    tr_nanos delay_max, pause_max;              // default 1 s, 10 s
    double duplicate;                           // a datagram comes twice
    double slow_link, clog;                     // per step: delayed, held back
    double disk_full, disk_slow;                // a file operation
    double misdirected_write, disk_bit_flip;    // written elsewhere; read wrong
    double sync_lie;                            // a sync has no effect
    double early_wake;                          // a wait returns early
    double disk_lost;                           // a kill also empties the disk
    double one_way, swizzle;  // per step: one direction cut; clogs
    double clock_jump;        // per step: a wall clock jumps, up to an hour
    double unknown_outcome;   // a write gets TR_EUNKNOWN
    double refuse;            // a connection attempt is refused
    double reset;             // per write to a stream: the connection breaks
    double short_io;          // a stream reads or writes fewer bytes
} tr_faults;

/*
 * What happens when the program, inside a step, calls the operating system
 * directly for time, random numbers, threads, sockets or files (a stray call).
 * The seed does not decide such a call, so a replay may differ. A stray call of
 * the library itself always fails the run.
 */
typedef enum tr_strays {
    TR_STRAYS_REPORT,  // reported once for each place, and counted
    TR_STRAYS_FAIL,    // the run fails
    TR_STRAYS_ALLOW,   // they are not looked for
} tr_strays;

/*
 * A simulated run: all nodes of a program in one thread, on virtual time,
 * decided by one seed.
 */
typedef struct tr_sim_options {
    size_t size;
    uint64_t seed;
    const tr_faults *faults;
    /* Starts one node; the function that the program's own main calls too. */
    tr_err (*node)(tr_system *sys, uint32_t index, void *user);
    uint32_t nodes;  // default 1, at most 64; C globals are shared
    /* Runs as an outside thread of the world. The run ends when it returns. */
    tr_err (*workload)(tr_sim *sim, void *user);
    tr_err (*invariant)(tr_sim *sim, void *user);  // called after every step
    tr_err (*at_end)(tr_sim *sim, void *user);     // after quiet_time
    void *user;
    tr_nanos limit;       // virtual time; default 1 h
    tr_nanos step_cost;   // mean, virtual; default 1 us, below 0: none
    tr_nanos quiet_time;  // without faults, before at_end; default 60 s
    /*
     * Called before the nodes start. --seeds and --shrink make many runs, and
     * *user is as the last run left it: reset it here.
     */
    void (*begin)(tr_sim *sim, void *user);
    /* Steps between two checks of the built-in invariants; default 1. */
    uint32_t check_every;
    tr_strays strays;  // stray calls; default TR_STRAYS_REPORT
} tr_sim_options;

/* Gets one line of a trace, in columns, without newline; borrowed. */
typedef void (*tr_sim_trace_fn)(void *user, const char *line);

/*
 * A fault class, a TR_BUGGIFY place or a stray call: how often it could have
 * happened, and did.
 */
typedef struct tr_sim_count {
    const char *name;  // lives as long as the world
    uint64_t reached;
    uint64_t fired;
} tr_sim_count;

TR_BEGIN_DECLS

/*
 * Runs a simulated world to its end. A failed run has been printed with its
 * seed and the command to replay it.
 * Errors: what the node, workload, invariant or at_end returned; TR_EINVAL with
 * a printed text (a wrong size, here or in tr_faults; too many nodes; a
 * probability outside of 0.0 to 1.0; a negative span).
 */
TR_API TR_NODISCARD tr_err tr_sim_run(const tr_sim_options *options);
/*
 * Runs simulations as the command line says and returns the exit status for
 * main: 0 if all runs passed, 1 if one failed, 2 for a wrong command line or
 * wrong options. All output goes to standard error. If the process gets a fatal
 * signal, or a step takes ten seconds of real time, the seed, step, actor and
 * message are printed. The command line:
 *
 *   --seed N: one run;
 *   --seeds N: N runs from that seed on, and statistics;
 *   --trace: an event log;
 *   --shrink: reduce a failure to the faults that it needs;
 *   --faults N,...: only these faults of that run;
 *   --only CLASS,...: only faults of these classes; `--only none`: no faults;
 *   --fault-steps N: no faults after step N;
 *   --check-every N: steps between two checks of the built-in invariants;
 *   --no-strays: a stray call fails the run;
 *   --help.
 */
TR_API int tr_sim_main(int argc, char **argv, const tr_sim_options *options);

/*
 * Makes a world without nodes, for tests of one system on virtual time. The
 * caller owns it (tr_sim_free).
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_sim_new(tr_sim **out, uint64_t seed);
/*
 * Frees a world; NULL is allowed. Its systems must have been closed (a check).
 */
TR_API void tr_sim_free(tr_sim *sim);
/*
 * Returns the world for tr_system_options.world; borrowed, lives as long as
 * sim. A system that a workload opens on it is a client outside of the nodes:
 * it has a disk and a clock of its own, and no fault kills or pauses it or its
 * threads. If it is still open after the run, it is closed then.
 */
TR_API const void *tr_sim_world(tr_sim *sim);
/*
 * Runs the world for span of virtual time, including everything that is due at
 * its end. In a thread of the world, such as the workload, it is a sleep. Not
 * from a handler.
 */
TR_API void tr_sim_advance(tr_sim *sim, tr_nanos span);
/* Returns the system of a node; NULL while the node is down. */
TR_API tr_system *tr_sim_node(tr_sim *sim, uint32_t index);
/*
 * Returns a number below `below`, which must not be 0 (a check); the seed
 * decides it.
 */
TR_API uint64_t tr_sim_random(tr_sim *sim, uint64_t below);
/*
 * Returns the time of the world. Faults change the clocks of nodes, but not
 * this one.
 */
TR_API tr_nanos tr_sim_now(const tr_sim *sim);

/*
 * Kills a node of tr_sim_run at the next step. Its systems, threads and
 * unsynced writes are lost. It starts again after `down` (0: at once;
 * TR_FOREVER: when the faults end). A node that is just starting is killed too;
 * a node that is down stays down as before.
 */
TR_API void tr_sim_kill(tr_sim *sim, uint32_t index, tr_nanos down);
/*
 * Kills a node as tr_sim_kill does, and empties its disk: the node starts again
 * as another machine.
 */
TR_API void tr_sim_replace(tr_sim *sim, uint32_t index, tr_nanos down);
/*
 * Shuts a node down in the ordinary way, as a program does after SIGTERM: its
 * system is closed with that timeout (0: the system's default). It starts again
 * after `down`, as with tr_sim_kill. From now on tr_sim_node is NULL, and only
 * the node's own threads may use the system. Nothing happens if the node is not
 * up. The node can still be killed while it closes.
 */
TR_API void tr_sim_shutdown(tr_sim *sim, uint32_t index, tr_nanos timeout,
                            tr_nanos down);
/*
 * Returns the result of the node's last tr_sim_shutdown, which is that of
 * tr_system_close, and fills in *report if it is not NULL; the caller sets its
 * size.
 * Errors: TR_EWOULDBLOCK (the node is still closing), TR_ESTOPPED (there was no
 * shutdown, or the node was not up, or it was killed before the end), TR_EINVAL
 * (the size); those of tr_system_close.
 */
TR_API TR_NODISCARD tr_err tr_sim_shutdown_report(const tr_sim *sim,
                                                  uint32_t index,
                                                  tr_close_report *report);
/*
 * Sends a signal to a node: every tr_signals of the node that has it is told
 * (process.h). If there is none, nothing happens. In a world of tr_sim_new the
 * systems are node 0.
 */
TR_API void tr_sim_signal(tr_sim *sim, uint32_t index, int number);
/* Pauses a node for span, as a long garbage collection or swapping would. */
TR_API void tr_sim_pause(tr_sim *sim, uint32_t index, tr_nanos span);

/*
 * Return how many steps there were so far, and a hash over all of them, which
 * is equal in every replay.
 */
TR_API uint64_t tr_sim_steps(const tr_sim *sim);
TR_API uint64_t tr_sim_trace_hash(const tr_sim *sim);
/*
 * Calls fn with each event as a line in columns: step, time in seconds, node,
 * actor, event, type, detail; "-" stands for nothing. fn NULL ends it.
 */
TR_API void tr_sim_on_trace(tr_sim *sim, tr_sim_trace_fn fn, void *user);
/*
 * Write up to max counters of the fault classes, and of the places that
 * tr_buggify was called from. Return how many there are.
 */
TR_API uint32_t tr_sim_faults(const tr_sim *sim, tr_sim_count *out,
                              uint32_t max);
TR_API uint32_t tr_sim_sites(const tr_sim *sim, tr_sim_count *out,
                             uint32_t max);
/*
 * Writes up to max counters of stray calls: the call and its place in the
 * program, in the form that addr2line takes. Returns how many there are. Under
 * tr_sim_main they are those of all runs so far.
 */
TR_API uint32_t tr_sim_strays(const tr_sim *sim, tr_sim_count *out,
                              uint32_t max);
/* Fails the run with a text. Returns an error, for the caller to return. */
TR_API tr_err tr_sim_fail(tr_sim *sim, const char *site, const char *format,
                          ...) TR_PRINTF(3, 4);
/* Returns true with probability p in a simulation, and false otherwise. */
TR_API bool tr_buggify(tr_from from, double p, const char *site);

TR_END_DECLS

#ifndef __cplusplus

#define tr_sim_fail(sim, ...) (tr_sim_fail)((sim), TR_HERE, __VA_ARGS__)
/*
 * Is true with probability p in a simulation, and false otherwise: a place
 * where the program does something rare but allowed. tr_sim_sites counts it
 * under this line.
 */
#define TR_BUGGIFY(from, p) __extension__(tr_buggify)((from), (p), TR_HERE)

#endif /* !__cplusplus */
#endif
