/*
 * cohort.c - siblings that restart together (TR_ALL_FOR_ONE, TR_REST_FOR_ONE).
 *
 * All members are suspended at once, then they stop one by one, the youngest
 * first, and start one by one, the oldest first. The parent lets a member go on
 * by its stage and TRI_SIG_COHORT; a member that has stopped, started or ended
 * reports with the same signal to the parent. The delay is waited for once,
 * before the first member starts.
 *
 * Invariant: at most one member of a cohort stops or starts at a time. A
 * member's stage is written by its parent, under the parent's lock or while the
 * member is FAILED, and by the member itself.
 */
#include "core/life/cohort.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/life/family.h"
#include "core/life/restart.h"
#include "core/life/signal.h"
#include "core/run/context.h"

void tri_cohort_stage_set(tri_cell *cell, tri_cohort_stage stage)
{
    TRI_CHECK(tri_ext_of(cell) != NULL);
    // Release: pairs with tri_cohort_stage_of.
    atomic_store_explicit(&tri_ext_of(cell)->cohort.stage, (uint8_t)stage,
                          memory_order_release);
}

void tri_cohort_report(tri_worker *worker, tri_cell *cell,
                       tri_cohort_stage stage)
{
    tri_cell_assert_owned(cell);
    if (tri_cohort_stage_of(cell) != TRI_COHORT_NONE) {
        tri_cohort_stage_set(cell, stage);
        tri_parent_signal(worker, cell, TRI_SIG_COHORT);
    }
}

void tri_cohort_started(tri_worker *worker, tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    uint8_t starting = TRI_COHORT_STARTING;
    if (tri_cell_life(cell) != TR_STATE_FAILED) {
        tri_cohort_report(worker, cell, TRI_COHORT_NONE);
    } else if (ext != NULL &&
               // The parent may know of the failure already and have formed
               // the cohort again; then its stage stays. Release: pairs with
               // tri_cohort_stage_of. Relaxed: on failure nothing is read.
               atomic_compare_exchange_strong_explicit(
                   &ext->cohort.stage, &starting, TRI_COHORT_NONE,
                   memory_order_release, memory_order_relaxed)) {
        tri_parent_signal(worker, cell, TRI_SIG_COHORT);
    }
}

/* Lets a member go on to a stage. With the parent's lock. */
static void advance(tri_worker *worker, tri_cell *child, tri_cohort_stage stage)
{
    // Relaxed: a linked child keeps its id.
    uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
    tri_cohort_stage_set(child, stage);
    tri_signal(worker, child, id, TRI_SIG_COHORT);
}

/*
 * Lets the youngest suspended member stop. Returns true if a member is
 * stopping. With the lock of the parent.
 */
static bool stop_next(tri_worker *worker, tri_ext *ext)
{
    tri_lock_assert_held(&ext->lock);
    for (tri_cell *c = tri_child_newest(ext); c != NULL;
         c = tri_child_older(ext, c)) {
        tri_cohort_stage stage = tri_cohort_stage_of(c);
        if (stage == TRI_COHORT_SUSPENDED) {
            advance(worker, c, TRI_COHORT_STOPPING);
        }
        if (stage == TRI_COHORT_SUSPENDED || stage == TRI_COHORT_STOPPING) {
            return true;
        }
    }
    return false;
}

void tri_cohort_next(tr_ctx *parent)
{
    tri_ext *ext = tri_ext_of(parent->cell);
    tri_cell_assert_owned(parent->cell);
    if (ext == NULL) {
        return;
    }
    tri_lock_take(&ext->lock);
    bool stops = stop_next(parent->worker, ext);
    for (tri_cell *c = stops ? NULL : tri_child_oldest(ext); c != NULL;
         c = tri_child_younger(ext, c)) {
        tri_cohort_stage stage = tri_cohort_stage_of(c);
        if (stage == TRI_COHORT_STARTING) {
            break;
        }
        if (stage == TRI_COHORT_STOPPED) {
            tri_ext_of(c)->restarts.backoff = ext->cohort.backoff;
            ext->cohort.backoff = 0;
            advance(parent->worker, c, TRI_COHORT_STARTING);
            break;
        }
    }
    tri_lock_drop(&ext->lock);
}

/* Suspends a member, unless it has stopped in an earlier round already. */
static void add_member(tri_worker *worker, tri_cell *child)
{
    if (tri_ext_need(worker, child) != NULL &&
        tri_cohort_stage_of(child) != TRI_COHORT_STOPPED) {
        tri_cohort_stage_set(child, TRI_COHORT_SUSPENDED);
    }
}

/*
 * Restarts a sibling, or stops it if it is never restarted. With the parent's
 * lock.
 */
static void apply_to_sibling(tri_worker *worker, tri_cell *sibling,
                             tr_directive directive)
{
    TRI_CHECK(directive == TR_RESTART || directive == TR_STOP);
    // Relaxed: a linked child keeps its id.
    uint64_t id = atomic_load_explicit(&sibling->id, memory_order_relaxed);
    bool restart = directive == TR_RESTART && tri_restart_is_allowed(sibling);
    if (restart) {
        add_member(worker, sibling);
    }
    tri_signal(worker, sibling, id, restart ? TRI_SIG_RESTART : TRI_SIG_STOP);
}

void tri_cohort_form(tr_ctx *parent, tri_cell *child, tr_scope scope,
                     tr_directive directive)
{
    if (scope == TR_ONE_FOR_ONE ||
        (directive != TR_RESTART && directive != TR_STOP)) {
        return;
    }
    tri_ext *ext = tri_ext_of(parent->cell);
    tri_cell_assert_owned(parent->cell);
    tri_lock_take(&ext->lock);
    if (directive == TR_RESTART) {
        add_member(parent->worker, child);
    }
    for (tri_cell *other = tri_child_newest(ext);
         other != NULL && other != child; other = tri_child_older(ext, other)) {
        apply_to_sibling(parent->worker, other, directive);
    }
    if (scope == TR_ALL_FOR_ONE) {
        for (tri_cell *other = tri_child_older(ext, child); other != NULL;
             other = tri_child_older(ext, other)) {
            apply_to_sibling(parent->worker, other, directive);
        }
    }
    tri_lock_drop(&ext->lock);
}
