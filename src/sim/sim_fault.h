/*
 * sim_fault.h - the faults of a simulated world: which there are, whether one
 * strikes now, and how often each could have struck and did.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_FAULT_H
#define TRI_SIM_SIM_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"
#include "troupe/sim.h"

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
    X(unknown_outcome)                                                         \
    X(refuse)                                                                  \
    X(reset)                                                                   \
    X(short_io)

/*
 * Mishaps that happen without a probability in tr_faults. They are counted
 * like faults, because a run that never meets one has not tested it.
 */
#define TRI_SIM_EVENTS(X)                                                      \
    X(latency_tail) /* a message took ten times as long */                     \
    X(disk_kept)    /* a killed node came back with its disk */                \
    X(crash_none)   /* a crash kept none of the unsynced operations */         \
    X(crash_all)    /* ... all of them */                                      \
    X(crash_prefix) /* ... the oldest of them */                               \
    X(crash_parts)  /* ... some of them, torn at sectors */

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

/* How often a fault or a buggify site could have struck, and did. */
typedef struct tri_sim_counter {
    uint64_t reached;
    uint64_t fired;
} tri_sim_counter;

/* The name of a fault class or of an event. */
const char *tri_sim_fault_name(tri_sim_fault fault);

/* Takes the probabilities over; aborts if faults->size is wrong. */
void tri_sim_set_faults(tr_sim *sim, const tr_faults *faults);

/* Draws whether the fault strikes here, counts it and traces it. */
bool tri_sim_strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node);
/* The same for a fault of any node; its stream draws the node into *index. */
bool tri_sim_strikes_any_node(tr_sim *sim, tri_sim_fault fault,
                              uint32_t *index);
/* Draws a number below `limit` from the stream of the fault. */
uint64_t tri_sim_fault_below(tr_sim *sim, tri_sim_fault fault, uint64_t limit);
/* Counts an occasion of a TRI_SIM_EVENTS event, which happened if `did`. */
void tri_sim_count_event(tr_sim *sim, tri_sim_fault event, bool did);

#endif
