/*
 * sim_process.h - what the parts of a run ask of each other.
 *
 * sim_run.c leads it, sim_process.c has the processes of its nodes,
 * sim_trouble.c what goes wrong, sim_report.c what is said of it. All of it is
 * one thread's: the world's.
 */
#ifndef TRI_SIM_SIM_PROCESS_H
#define TRI_SIM_SIM_PROCESS_H

#include "sim/sim_run.h"
#include "troupe/system.h"

typedef enum tri_run_state {
    TRI_RUN_DOWN,
    TRI_RUN_BOOTING,
    TRI_RUN_UP,
    TRI_RUN_CLOSING,  // tr_sim_shutdown
} tri_run_state;

typedef struct tri_run tri_run;

/*
 * One attempt of a process to come up, until it is up or was killed; or its
 * way down, until it has ended or was killed.
 */
typedef struct tri_boot {
    struct tri_boot *next;  // in run->boots
    struct tri_run_node *rn;
    tr_system *sys;  // opened, and not yet the node's; or its no more
    bool ended;      // its thread has returned
} tri_boot;

typedef struct tri_run_node {
    tri_run *owner;
    tri_sim_node *node;
    tri_run_state state;
    tri_boot *boot;    // while booting or closing
    tr_nanos down;     // before it boots again
    tr_nanos timeout;  // of the shutdown
    tr_err closed;     // what became of the last shutdown
    tr_close_report report;
    _Atomic(uint32_t) hurry;  // 1: do not wait so long
} tri_run_node;

struct tri_run {
    tr_sim *sim;
    tr_sim_options options;  // with `faults`
    tr_faults faults;
    const tri_sim_plan *plan;
    tr_nanos end;                           // when the limit is over
    tr_err (*fn)(tr_sim *sim, void *user);  // runs now, in a thread
    tr_err err;                             // what it returned
    char why[TRI_SIM_WHY_MAX];              // and the text of that
    bool ended;                             // the function has returned
    bool over;                              // nobody looks any more
    uint64_t checked;                       // the step of the last look
    tri_boot *boots;                        // all of them; owned
    tri_run_node nodes[TRI_SIM_NODES_MAX];
};

/* ---- sim_run.c ---- */

static inline tri_run *tri_run_of(tr_sim *sim)
{
    return sim->run;
}

/*
 * The run has failed, with an error and what more there is to say, or ""; the
 * first of its failures is kept.
 */
void tri_run_fail(tri_run *it, const char *what, tr_err err, const char *why);

/* ---- sim_process.c ---- */

/* Begins to bring the node up. */
void tri_run_boot(tri_run_node *rn);
/* On main, between two steps. Nothing, where it cannot be killed now. */
void tri_run_kill(tri_run *it, tri_run_node *rn, tr_nanos down, bool lose_disk);

/* ---- sim_trouble.c ---- */

/* What is looked at, and what goes wrong, after each step. */
void tri_run_after_step(tr_sim *sim, void *user);
/* From now on the world is friendly: nothing new goes wrong, all comes up. */
void tri_run_calm(tri_run *it);

/* ---- sim_report.c ---- */

void tri_run_result(const tri_run *it, tri_sim_result *result);
void tri_run_print(const tri_run *it, const tri_sim_result *result);

#endif
