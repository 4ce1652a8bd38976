/*
 * sim_schedule.h - the faults that struck in a run, and replays with some of
 * them.
 *
 * A fault is identified by its occasion: the third file operation that could
 * have failed, the hundredth step after which a node could have been killed.
 * A recorded run can be replayed in part: each occasion that is kept strikes,
 * with the numbers that it drew, and no other does.
 *
 * Threads: the one that runs the world.
 * Ownership: the caller owns a schedule; runs borrow it.
 */
#ifndef TRI_SIM_SIM_SCHEDULE_H
#define TRI_SIM_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/rand.h"
#include "troupe/base.h"

enum {
    TRI_SIM_STRIKES_MAX = 65536,  // recorded of one run
    TRI_SIM_STRIKE_NAME = 64,
};

/* One fault that struck. */
typedef struct tri_sim_strike {
    uint64_t key;    // of class or site, and occasion
    tri_rand rand;   // of its class, as it was right after the decision
    tr_nanos at;     // the world's time, in the last run in which it struck
    uint32_t fault;  // tri_sim_fault, or TRI_FAULT_COUNT: a buggify site
    uint32_t node;
    bool kept;    // strikes in a replay
    bool struck;  // has struck in the last replay
    char name[TRI_SIM_STRIKE_NAME];
} tri_sim_strike;

/* All zero before its first use. */
typedef struct tri_sim_schedule {
    tri_sim_strike *all;  // in the order they struck
    uint32_t count, room;
    bool is_cut;    // there were more than can be recorded
    tri_map index;  // finds the strikes of `all`; valid while `indexed`
    bool indexed;
    tri_sim_strike *last;  // struck last; NULL: none, or not recorded
} tri_sim_schedule;

/* Records a fault that strikes now; it is kept. */
void tri_sim_schedule_add(tri_sim_schedule *it, const tr_sim *sim,
                          uint32_t fault, const char *name, uint32_t node,
                          uint64_t occasion);
/*
 * Prepares a replay; call it after `kept` was changed and before each run.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sim_schedule_begin(tri_sim_schedule *it);
/*
 * Returns true if the occasion is kept. The stream of the class then goes on
 * as it did in the recorded run, and the strike gets the time and the node of
 * this run.
 */
bool tri_sim_schedule_strikes(tri_sim_schedule *it, tr_sim *sim, uint32_t fault,
                              const char *name, uint32_t node,
                              uint64_t occasion);
/* Sets the node of the last strike, which was drawn after the decision. */
void tri_sim_schedule_set_node(tri_sim_schedule *it, uint32_t node);
/* Returns how many strikes are kept. */
uint32_t tri_sim_schedule_kept(const tri_sim_schedule *it);
void tri_sim_schedule_fini(tri_sim_schedule *it);

#endif
