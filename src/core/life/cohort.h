/*
 * cohort.h - siblings that restart together, rule 30 (too many restarts).
 *
 * Threads: a parent advances its cohort in its own turn; a member reports in
 * its own turn.
 */
#ifndef TRI_CORE_LIFE_COHORT_H
#define TRI_CORE_LIFE_COHORT_H

#include <stdatomic.h>

#include "core/cell/ext.h"
#include "core/types.h"

/* The progress of a member of a cohort: tri_ext.cohort.stage. */
typedef enum tri_cohort_stage {
    TRI_COHORT_NONE,       // not a member
    TRI_COHORT_SUSPENDED,  // runs nothing; the parent will let it stop
    TRI_COHORT_STOPPING,   // the parent has let it stop
    TRI_COHORT_STOPPED,    // has stopped; the parent will let it start
    TRI_COHORT_STARTING,   // the parent has let it start
} tri_cohort_stage;

/* Lets the next member of the cohort of this parent stop or start. */
void tri_cohort_next(tr_ctx *parent);

/*
 * Returns the stage of the actor as a member. For its owner, or with its
 * parent's lock.
 */
static inline tri_cohort_stage tri_cohort_stage_of(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with tri_cohort_stage_set.
    return ext != NULL ? (tri_cohort_stage)atomic_load_explicit(
                             &ext->cohort.stage, memory_order_acquire)
                       : TRI_COHORT_NONE;
}

/*
 * Sets the stage of a member and signals it to the parent; does nothing for
 * an actor that is not in a cohort.
 */
void tri_cohort_report(tri_worker *worker, tri_cell *cell,
                       tri_cohort_stage stage);

/* Takes an actor out of its cohort, if it is in one: its start is over. */
void tri_cohort_started(tri_worker *worker, tri_cell *cell);

/* Sets the stage of an actor that has an extension. */
void tri_cohort_stage_set(tri_cell *cell, tri_cohort_stage stage);

/*
 * Applies the directive to the siblings that the scope names. For TR_RESTART
 * they and child form a cohort and are suspended; for TR_STOP they stop.
 */
void tri_cohort_form(tr_ctx *parent, tri_cell *child, tr_scope scope,
                     tr_directive directive);

#endif
