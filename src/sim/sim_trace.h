/*
 * sim_trace.h - the event log of a run: one line for each thing that happens.
 *
 *           step         seconds node actor                    event    type             detail
 *             58     1.026036579    0 /user/teller             handle   Transfer         from /user/office
 *
 * The columns are separated by spaces; a "-" stands where there is nothing.
 * Only the detail has spaces of its own. Lines of one step have its number.
 * The log is the same in every replay of a seed, byte for byte: it holds no
 * address and no real time. It draws nothing and changes nothing.
 *
 * Threads: those of the world.
 */
#ifndef TRI_SIM_SIM_TRACE_H
#define TRI_SIM_SIM_TRACE_H

#include "sim/sim.h"

/* What a line tells; NULL, or TRI_SIM_NOBODY, where there is nothing. */
typedef struct tri_sim_line {
    uint32_t node;
    const char *actor;  // its path
    const char *event;
    const char *type;  // of a message, or the class of a fault
    const char *detail;
} tri_sim_line;

/* Bytes of the longest line, with its zero; a longer one is cut. */
#define TRI_SIM_TRACE_MAX 1024

/* The names of the columns, as a line. */
const char *tri_sim_trace_head(void);

/* Hands the line to whoever wants the trace; nobody may. */
void tri_sim_trace(tr_sim *sim, const tri_sim_line *line);

/* A decision of the world: what tri_sim_note has put into the hash. */
void tri_sim_trace_note(tr_sim *sim, tri_sim_kind kind, uint32_t who,
                        uint64_t what, const char *text);
/* The step is over: it is told, if nothing that happened in it was. */
void tri_sim_trace_end(tr_sim *sim);

#endif
