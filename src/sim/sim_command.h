/*
 * sim_command.h - the command line of a simulated program.
 *
 *     program                     one run with the seed of the options
 *     program --seed N            one run
 *     program --seeds N           N runs, from that seed on; statistics
 *     program --trace             the event log: one line for each event
 *     program --shrink            a failing run again, with fewer faults
 *     program --only a,b          fault classes that may strike, or none;
 *                                 `buggify` is a class, too
 *     program --fault-steps N     faults end at that step
 *     program --faults 3,17       only these faults of the run, by number;
 *                                 --shrink prints such a command
 *     program --check-every N     steps between two checks of the invariants
 *     program --no-strays         a stray call (sim_stray.h) fails the run
 *
 * Lines go to standard error as log lines do. Exit status: 0 all runs passed,
 * 1 one failed, 2 the command line is wrong.
 */
#ifndef TRI_SIM_SIM_COMMAND_H
#define TRI_SIM_SIM_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_plan.h"
#include "troupe/sim.h"

enum { TRI_SIM_SAID_MAX = 1024 };  // bytes of a line, with its zero

/* Borrows argv. */
typedef struct tri_sim_command {
    tri_sim_plan plan;
    uint64_t seeds;      // 0: one run, without statistics
    const char *faults;  // numbers of those that strike, or NULL: all
    bool trace, shrink, help;
    char wrong[TRI_SIM_SAID_MAX / 2];  // the first mistake, or ""
} tri_sim_command;

/* Reads the command line; `wrong` is set if there is a mistake. */
tri_sim_command tri_sim_command_read(int argc, char **argv,
                                     const tr_sim_options *options);
/* Writes the mistake, if any, and the usage. Returns the exit status. */
int tri_sim_usage(const char *program, const char *wrong);
/* Writes a log line with the real time, for what belongs to no run. */
void tri_sim_log(int level, const char *text);

#endif
