/*
 * join.h - waiting for an actor's end (tr_join) or start (tr_started).
 *
 * Threads: the owner of `cell`, except where a comment says otherwise.
 */
#ifndef TRI_CORE_LIFE_JOIN_H
#define TRI_CORE_LIFE_JOIN_H

#include "base/list.h"
#include "core/cell/message.h"
#include "core/types.h"

/* A wait of an actor or an outside thread; later its result. From malloc. */
typedef struct tri_join {
    tri_item item;
    struct tri_join *next;  // in tri_ext.joins of the target
    tr_ref waiter;          // an actor or an outside box
    uint64_t correlation;   // of the waiter's tri_wait
    uint64_t target_id;
    bool for_start;  // waits for the start, not for the end
    bool is_answer;  // on its way back to the waiter
    bool wants_state;
    bool missing;  // no result: err says why
    tr_reason reason;
    tr_err err;
    tr_phase phase;
    char *text;
    const tr_type *state_type;
    void *state;  // malloc'd copy, or NULL
    size_t state_size;
    tri_list heap;  // tri_heap_block.link: what `state` points to; owned
} tri_join;

/* Frees the join and its result. Any thread. */
void tri_join_free(tri_join *join);

/* Takes a join that has arrived: at its target, or as an answer. */
void tri_join_arrived(tri_worker *worker, tri_cell *cell, tri_join *join);

/* Answers those that wait for the start, with its error. */
void tri_join_started(tri_worker *worker, tri_cell *cell, tr_err err);

/*
 * Fills the results of all joins while the state still exists. For a joinable
 * actor that nobody joins yet, keeps the result in sys->results.
 */
void tri_joins_prepare(tri_worker *worker, tri_cell *cell, tr_reason reason);

/* Sends the results that tri_joins_prepare has filled to the waiters. */
void tri_joins_answer(tri_worker *worker, tri_cell *cell);

/* Answers all joins of a zombie with TR_FORCED. Called by force.c. */
void tri_joins_force(tri_worker *worker, tri_cell *cell);

/*
 * Answers a join that came to a zombie with TR_FORCED, and takes it. Returns
 * false if it is an answer to the zombie itself. Called by force.c.
 */
bool tri_join_force(tri_worker *worker, tri_join *join);

/*
 * Keeps the memory that a joined state points to until the system closes.
 * Takes the blocks. Any thread.
 */
void tri_join_keep_heap(tr_system *sys, tri_list *blocks);

/* Frees the results that were never joined, when the system closes. */
void tri_results_free(tr_system *sys);

#endif
