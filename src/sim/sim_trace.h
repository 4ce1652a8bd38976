/*
 * sim_trace.h - the event log of a run, and the hash over its decisions.
 *
 *           step         seconds node actor                    event    type             detail
 *             58     1.026036579    0 /user/teller             handle   Transfer         from /user/office
 *
 * The columns are separated by spaces; a "-" stands where there is nothing.
 * Only the detail contains spaces. Lines of one step have its number. The log
 * is the same in every replay of a seed, byte for byte: it holds no address
 * and no real time. Writing it draws nothing and changes nothing.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_TRACE_H
#define TRI_SIM_SIM_TRACE_H

#include <stdint.h>

#include "troupe/base.h"

/* The kinds of decisions and events. The numbers are part of the hash. */
typedef enum tri_sim_kind {
    TRI_KIND_STEP = 1,  // a system ran a batch
    TRI_KIND_THREAD,    // a thread went on
    TRI_KIND_TIME,      // the clock moved
    TRI_KIND_FIRE,      // a system's timers fired
    TRI_KIND_EVENT,     // an event of the world itself (sim_event.h)
    TRI_KIND_FAULT,
    TRI_KIND_NODE,  // a node changed its state: TRI_NODE_*
} tri_sim_kind;

enum { TRI_NODE_UP = 1, TRI_NODE_DOWN, TRI_NODE_PAUSED, TRI_NODE_AWAKE };

/* The columns of a line; NULL, or TRI_SIM_NO_NODE, for "-". */
typedef struct tri_sim_line {
    uint32_t node;
    const char *actor;  // its path
    const char *event;
    const char *type;  // of a message, or the class of a fault
    const char *detail;
} tri_sim_line;

/* Bytes of the longest line, with its zero; a longer one is cut. */
#define TRI_SIM_TRACE_MAX 1024

/*
 * Records one decision or event: counts it as a step, adds it to the hash and,
 * if there is a trace, writes its line.
 */
void tri_sim_note(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what,
                  const char *text);
/* The first half of tri_sim_note: counts and hashes, writes no line. */
void tri_sim_hash(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what);
/* The second half: writes the line. There must be a trace. */
void tri_sim_trace_note(tr_sim *sim, tri_sim_kind kind, uint32_t who,
                        uint64_t what, const char *text);

/* Writes a line that is not part of the hash; does nothing without a trace. */
void tri_sim_trace(tr_sim *sim, const tri_sim_line *line);
/* Ends a step; writes its own line if no line was written within it. */
void tri_sim_trace_step_end(tr_sim *sim);

/* Returns the names of the columns, as a line. */
const char *tri_sim_trace_head(void);

#endif
