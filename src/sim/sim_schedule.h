/*
 * sim_schedule.h - which faults struck in a run, and a run with some of them.
 *
 * A fault is known by its occasion: the third file operation that could have
 * failed, the hundredth step after which a node could have been killed. What
 * a run has recorded can be replayed in part: then each occasion that is kept
 * strikes, with the numbers that it drew, and no other does.
 *
 * Threads: those of the world.
 * Ownership: the caller owns a schedule; runs borrow it.
 */
#ifndef TRI_SIM_SIM_SCHEDULE_H
#define TRI_SIM_SIM_SCHEDULE_H

#include "sim/sim.h"

enum {
    TRI_SIM_STRIKES_MAX = 65536,  // recorded of one run
    TRI_SIM_STRIKE_NAME = 64,
};

/* One fault that struck. */
typedef struct tri_sim_strike {
    uint64_t key;    // of class or site, and occasion
    tri_rand rand;   // the numbers of its class, right after it
    tr_nanos at;     // the world's clock, in the last run with it
    uint32_t fault;  // tri_sim_fault, or TRI_FAULT_COUNT: a buggify site
    uint32_t node;
    bool kept;    // strikes in a replay
    bool struck;  // has done so
    char name[TRI_SIM_STRIKE_NAME];
} tri_sim_strike;

/* All zero before its first use. */
struct tri_sim_schedule {
    tri_sim_strike *all;  // in the order they struck
    uint32_t count, room;
    bool is_cut;    // there were more than can be recorded
    tri_map index;  // of the kept ones, while `indexed`
    bool indexed;
    tri_sim_strike *last;  // that has struck; NULL: none, or not recorded
};

/* Adds a fault that strikes now; all are kept at first. */
void tri_sim_schedule_add(tri_sim_schedule *it, const tr_sim *sim,
                          uint32_t fault, const char *name, uint32_t node,
                          uint64_t occasion);
/* Call after `kept` was changed and before a run replays it. */
TR_NODISCARD tr_err tri_sim_schedule_begin(tri_sim_schedule *it);
/*
 * Whether the occasion is kept; then the class draws as it did, and the fault
 * has the time and the node of this run.
 */
bool tri_sim_schedule_strikes(tri_sim_schedule *it, tr_sim *sim, uint32_t fault,
                              const char *name, uint32_t node,
                              uint64_t occasion);
/* The node of the last one that has struck was drawn only now. */
void tri_sim_schedule_place(tri_sim_schedule *it, uint32_t node);
uint32_t tri_sim_schedule_kept(const tri_sim_schedule *it);
void tri_sim_schedule_fini(tri_sim_schedule *it);

#endif
