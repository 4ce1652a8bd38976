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

typedef struct tr_faults {  // probabilities per step, 0.0 to 1.0
    size_t size;
    double drop, delay, reorder, bit_flip;      // network
    double partition, half_open;
    double disk_error, torn_write, lost_write;  // disk
    double node_kill, node_pause, clock_skew;   // process
    tr_nanos delay_max, pause_max;
} tr_faults;

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
    uint32_t nodes;
    /* Runs as an outside thread of the world; its return ends the run. */
    tr_err (*workload)(tr_sim *sim, void *user);
    tr_err (*invariant)(tr_sim *sim, void *user);  // after every step
    tr_err (*at_end)(tr_sim *sim, void *user);     // faults off, world quiet
    void *user;
    tr_nanos limit;  // virtual; default 1 h
} tr_sim_options;

TR_BEGIN_DECLS

/* Runs once. An error has been printed with the seed and how to replay it. */
TR_API TR_NODISCARD tr_err tr_sim_run(const tr_sim_options *options);
/* A main(): --seed N, --seeds N, --shrink, --trace. Returns an exit status. */
TR_API int tr_sim_main(int argc, char **argv, const tr_sim_options *options);

/* A bare world, for tests of one system on virtual time. Errors: TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_sim_new(tr_sim **out, uint64_t seed);
/* Takes sim; NULL is allowed. Its systems must have been closed (a check). */
TR_API void tr_sim_free(tr_sim *sim);
/* For tr_system_options.world; borrowed, lives as long as sim. */
TR_API const void *tr_sim_world(tr_sim *sim);
/* Runs the world until span of its time has passed. */
TR_API void tr_sim_advance(tr_sim *sim, tr_nanos span);
TR_API tr_system *tr_sim_node(tr_sim *sim, uint32_t index);  // NULL when down
TR_API uint64_t tr_sim_random(tr_sim *sim, uint64_t below);
/* Ends the run as failed, with a text; returns an error to return. */
TR_API tr_err tr_sim_fail(tr_sim *sim, const char *site, const char *format,
                          ...) TR_PRINTF(3, 4);
/* True with probability p in a simulation, never outside. */
TR_API bool tr_buggify(tr_from from, double p, const char *site);

TR_END_DECLS

#ifndef __cplusplus

#define tr_sim_fail(sim, ...) (tr_sim_fail)((sim), TR_HERE, __VA_ARGS__)
#define TR_BUGGIFY(from, p) __extension__(tr_buggify)((from), (p), TR_HERE)

#endif /* !__cplusplus */
#endif
