/*
 * sim_command.h - the command line of a simulated program.
 *
 *     program                     one run with the seed of the options
 *     program --seed N            one run
 *     program --seeds N           N runs from that seed on; figures at the end
 *     program --trace             the event log: one line for each event
 *     program --shrink            a failing run again, with fewer faults
 *     program --only a,b          fault classes that may strike; or none;
 *                                 `buggify` is one of them
 *     program --fault-steps N     faults end at that step
 *     program --faults 3,17       of the faults of that run only these, by
 *                                 number; what --shrink prints
 *     program --check-every N     steps between two looks at the invariants
 *     program --no-strays         a call around the world fails the run
 *
 * Lines go to standard error as log lines do. Exit status: 0 all runs passed,
 * 1 one failed, 2 the command line is wrong.
 */
#ifndef TRI_SIM_SIM_COMMAND_H
#define TRI_SIM_SIM_COMMAND_H

#include "sim/sim_run.h"

enum { TRI_SIM_SAID_MAX = 1024 };  // bytes of a line, with its zero

/* Borrows argv. */
typedef struct tri_sim_command {
    tri_sim_plan plan;
    uint64_t seeds;      // 0: one run, without figures
    const char *faults;  // the numbers of those that strike, or NULL: all
    bool trace, shrink, help;
    char wrong[TRI_SIM_SAID_MAX / 2];  // what is, first of all; "": nothing
} tri_sim_command;

tri_sim_command tri_sim_command_read(int argc, char **argv,
                                     const tr_sim_options *options);
/* Writes how to call the program, and what was wrong. An exit status. */
int tri_sim_usage(const char *program, const char *wrong);
/* A line of the log that belongs to no run, at the real time. */
void tri_sim_say(int level, const char *text);

#endif
