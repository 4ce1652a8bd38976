/*
 * supervise.c - what a parent does about a child that has failed.
 *
 * A child that fails suspends itself and sends its `notice` to the parent. From
 * then on until the decision is back the child is FAILED and runs nothing, so
 * the parent may read its extension. The decision goes back as a signal:
 * neither direction needs memory. cohort.c has the siblings that restart
 * together.
 *
 * Invariant: each notice is answered by exactly one TRI_SIG_NOTICE_BACK. After
 * it the parent must not touch the child.
 */
#include "core/life/supervise.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/props.h"
#include "core/life/cohort.h"
#include "core/life/failure.h"
#include "core/life/lifecycle.h"
#include "core/life/restart.h"
#include "core/life/signal.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/system.h"

static const tr_supervision defaults = {
    .size = sizeof(tr_supervision),
    .on_failure = TR_RESTART,
    .scope = TR_ONE_FOR_ONE,
    .max_restarts = 3,
    .within = TR_SECONDS(1),
    .backoff_min = TR_MS(10),
    .backoff_max = TR_SECONDS(1),
    .backoff_factor = 2.0,
    .on_limit = TR_STOP,
};

const char *tri_supervision_fill(tr_supervision *policy)
{
    TRI_CHECK(policy != NULL);
    const char *why =
        policy->within < 0        ? "within is negative"
        : policy->backoff_min < 0 ? "backoff_min is negative"
        : policy->backoff_max < 0 ? "backoff_max is negative"
        : policy->backoff_max > 0 && policy->backoff_min > policy->backoff_max
            ? "backoff_min is above backoff_max"
        : !(policy->backoff_factor >= 0)
            ? "backoff_factor is not a number from 0"
        : !(policy->jitter >= 0 && policy->jitter <= 1)
            ? "jitter is not between 0.0 and 1.0"
        : (unsigned)policy->on_failure > TR_ESCALATE
            ? "on_failure is not a tr_directive"
        : (unsigned)policy->on_limit > TR_ESCALATE ||
                policy->on_limit == TR_RESTART || policy->on_limit == TR_RESUME
            ? "on_limit is not TR_STOP or TR_ESCALATE"
        : (unsigned)policy->scope > TR_REST_FOR_ONE ? "scope is not a tr_scope"
                                                    : NULL;
    if (why != NULL) {
        return why;
    }
    tr_nanos min = policy->backoff_min, max = policy->backoff_max;
#define FILL(field)                                                            \
    if (policy->field == 0) policy->field = defaults.field
    FILL(on_failure);
    FILL(max_restarts);
    FILL(within);
    FILL(backoff_min);
    FILL(backoff_max);
    FILL(backoff_factor);
    FILL(on_limit);
#undef FILL
    // If one of the two is given, the other follows it.
    if (max == 0 && min > policy->backoff_max) {
        policy->backoff_max = min;
    } else if (min == 0 && max != 0 && max < policy->backoff_min) {
        policy->backoff_min = max;
    }
    return NULL;
}

/* True for a guardian; not for an actor of tr_top_level. */
static bool is_guardian(tr_system *sys, tri_cell *child)
{
    // Relaxed: fixed at spawn.
    return tri_cell_parent(child) == sys->root &&
           (child == sys->user ||
            (atomic_load_explicit(&child->flags, memory_order_relaxed) &
             TRI_CELL_SYSTEM) != 0);
}

const tr_supervision *tri_supervision_of(tr_system *sys, tri_cell *cell)
{
    if (is_guardian(sys, cell)) {
        return &defaults;  // a policy of the program is for its actors
    }
    if (cell->props != NULL && cell->props->has_supervision) {
        return &cell->props->supervision;
    }
    // The options of /user have the policy for its children.
    tri_cell *user = sys->user;
    bool custom = user != NULL && tri_cell_parent(cell) == user &&
                  user->props != NULL && user->props->has_supervision;
    return custom ? &user->props->supervision : &sys->supervision;
}

/* Returns min * factor^(attempt - 1), at most max, spread by the jitter. */
static tr_nanos backoff(tr_system *sys, const tr_supervision *policy,
                        uint32_t attempt)
{
    TRI_CHECK(attempt > 0);
    double span = (double)policy->backoff_min;
    for (uint32_t i = 1; i < attempt && span < (double)policy->backoff_max;
         i++) {
        span *= policy->backoff_factor;
    }
    if (span > (double)policy->backoff_max) {
        span = (double)policy->backoff_max;
    }
    if (policy->jitter > 0) {
        uint64_t random = sys->world->ops->random(sys->world) >> 11;
        double unit = (double)random / (double)(UINT64_C(1) << 53);
        span *= 1.0 + policy->jitter * (2.0 * unit - 1.0);
    }
    return (tr_nanos)span;
}

/*
 * Counts a restart in the current window; returns false if it is one too
 * many.
 */
static bool count_restart(uint32_t *restarts, tr_nanos *since,
                          const tr_supervision *policy, tr_nanos now)
{
    if (*restarts == 0 || now - *since > policy->within) {
        *since = now;
        *restarts = 0;
    }
    if (*restarts >= policy->max_restarts) {
        return false;
    }
    (*restarts)++;
    return true;
}

/*
 * Returns which siblings the policy reaches. Children of the root are guardians
 * and top levels, which have nothing to do with each other.
 */
static tr_scope scope_of(const tr_ctx *parent, const tr_supervision *policy)
{
    return parent->cell == parent->sys->root ? TR_ONE_FOR_ONE : policy->scope;
}

/*
 * Counts a restart and sets the delay before it. Both are kept in the child's
 * extension; if siblings restart together, in the parent's, once for the whole
 * cohort. Returns false if the limit of restarts is reached.
 */
static bool may_restart(tr_ctx *parent, tri_cell *child,
                        const tr_supervision *policy)
{
    tri_ext *ext = tri_ext_need(parent->worker, child);
    tri_ext *parent_ext = tri_ext_of(parent->cell);
    TRI_CHECK(parent_ext != NULL);
    tr_nanos now = tri_clock(parent->worker);
    bool alone = scope_of(parent, policy) == TR_ONE_FOR_ONE;
    if (ext == NULL) {
        return false;  // there is no memory to count its restarts with
    }
    uint32_t *restarts =
        alone ? &ext->restarts.count : &parent_ext->cohort.restarts;
    tr_nanos *since = alone ? &ext->restarts.since : &parent_ext->cohort.since;
    if (!count_restart(restarts, since, policy, now)) {
        return false;
    }
    *(alone ? &ext->restarts.backoff : &parent_ext->cohort.backoff) =
        backoff(parent->sys, policy, *restarts);
    return true;
}

/* Asks the parent's `decide`; if that leaves it open, the child's policy. */
static tr_directive decide(tr_ctx *parent, tri_cell *child,
                           const tr_supervision *policy)
{
    TRI_CHECK(tri_cell_life(child) == TR_STATE_FAILED);
    bool started = !tri_failed_in_start(child);
    tr_state life = tri_cell_life(parent->cell);
    if (is_guardian(parent->sys, child) || life == TR_STATE_STOPPING ||
        life == TR_STATE_STOPPED || life == TR_STATE_TERMINATED) {
        return TR_STOP;  // the root restarts no guardian; or the parent ends
    }
    const tr_actor_def *def = tri_def_of(parent->cell);
    tr_directive directive = TR_BY_POLICY;
    // No code of a FAILED parent runs, rule 32 (while an actor is FAILED).
    bool runs = life == TR_STATE_RUNNING || life == TR_STATE_STARTING;
    if (def->decide != NULL && runs && tri_has_state(parent->cell)) {
        tri_failure_view view;
        tri_failure_show(parent->sys, child, &view);
        directive = def->decide(parent->cell->state, &view.failure);
    }
    if (directive != TR_BY_POLICY) {
        return started || directive != TR_RESUME ? directive : TR_STOP;
    }
    // A service of the library that has a policy of its own is restarted also
    // if its first start failed: no one else would spawn it again.
    bool service = parent->cell == parent->sys->system &&
                   child->props != NULL && child->props->has_supervision;
    // An actor that never started is not restarted, rule 21 (spawning).
    if (!started && tri_cell_incarnation(child) == 1 && !service) {
        return TR_STOP;
    }
    return started || policy->on_failure != TR_RESUME ? policy->on_failure
                                                      : TR_STOP;
}

/*
 * Gives the notice back with the decision; TR_ESCALATE leaves the child FAILED
 * until its parent restarts, resumes or stops.
 */
static void send_decision(tri_worker *worker, tri_cell *child,
                          tr_directive directive)
{
    TRI_CHECK(tri_cell_life(child) == TR_STATE_FAILED);
    // Relaxed: a failed child keeps its id.
    uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
    uint32_t signal = directive == TR_RESTART  ? TRI_SIG_RESTART
                      : directive == TR_RESUME ? TRI_SIG_RESUME
                      : directive == TR_STOP   ? TRI_SIG_STOP_DECIDED
                                               : 0;
    tri_signal(worker, child, id, TRI_SIG_NOTICE_BACK | signal);
}

/* Gives the notice back and makes the parent fail with the child's error. */
static void fail_parent(tr_ctx *parent, tri_cell *child, tr_directive for_child)
{
    tri_failure_view view;
    tri_failure_show(parent->sys, child, &view);
    tr_err err = view.failure.err;
    char text[TRI_SHOWN_MAX + TRI_PATH_MAX + 64];
    snprintf(text, sizeof(text), "child %s failed: %s", view.path,
             view.failure.text != NULL ? view.failure.text : tr_strerror(err));
    parent->fail_text = strdup(text);
    parent->fail_site = view.failure.site;
    parent->phase = TR_IN_HANDLER;
    parent->msg = NULL;
    // The child first: it must have its notice back before the failure of the
    // parent is decided. The child must not be touched after it.
    send_decision(parent->worker, child, for_child);
    tri_life_fail(parent, err);
}

/*
 * Makes the parent fail with the error of its child, if the parent can fail;
 * else the child is stopped. past_limit: the child had too many restarts, so it
 * is stopped, too; else it stays FAILED until the parent's fate is decided.
 */
static void escalate(tr_ctx *parent, tri_cell *child, bool past_limit)
{
    tr_state life = tri_cell_life(parent->cell);
    if (life == TR_STATE_CREATED) {  // a guardian that has not run yet
        tri_life_set(parent->worker, parent->cell, TR_STATE_STARTING);
        life = TR_STATE_STARTING;
    }
    // The root does not fail: tri_up.supervision ends the system.
    bool can_fail = (life == TR_STATE_RUNNING || life == TR_STATE_STARTING) &&
                    parent->cell != parent->sys->root;
    // A child with too many restarts stops, rule 30 (too many restarts). Any
    // other one waits for the decision about its parent.
    tr_directive for_child = past_limit || !can_fail ? TR_STOP : TR_ESCALATE;
    if (can_fail) {
        fail_parent(parent, child, for_child);
    } else {
        send_decision(parent->worker, child, for_child);
    }
}

/* True for an actor of the library, without which the system must end. */
static bool is_service(tr_system *sys, tri_cell *child)
{
    // Relaxed: fixed at spawn.
    return tri_cell_parent(child) == sys->system &&
           (atomic_load_explicit(&child->flags, memory_order_relaxed) &
            TRI_CELL_SYSTEM) != 0;
}

void tri_supervise(tr_ctx *parent, tri_cell *child)
{
    tri_cell_assert_owned(parent->cell);
    tr_system *sys = parent->sys;
    tri_worker *worker = parent->worker;
    const tr_supervision *policy = tri_supervision_of(sys, child);
    tri_ext *ext = tri_ext_of(child);

    // The child changes nothing before it has its notice back.
    TRI_CHECK(tri_cell_life(child) == TR_STATE_FAILED);
    tri_cohort_stage cohort = tri_cohort_stage_of(child);
    if (cohort == TRI_COHORT_SUSPENDED || cohort == TRI_COHORT_STOPPING) {
        // The cohort restarts already, and this child with it.
        sys->up->supervision(worker, child, ext != NULL ? &ext->failure : NULL,
                             TR_RESTART, false);
        send_decision(worker, child, TR_RESTART);
        return;
    }
    if (cohort != TRI_COHORT_NONE) {  // it has failed in its start
        tri_cohort_stage_set(child, TRI_COHORT_NONE);
    }
    tr_directive directive = decide(parent, child, policy);
    if (directive == TR_RESTART && !tri_restart_is_allowed(child)) {
        directive = TR_STOP;
    }
    bool past_limit =
        directive == TR_RESTART && !may_restart(parent, child, policy);
    if (past_limit) {
        directive = is_service(sys, child) ? TR_ESCALATE : policy->on_limit;
    }
    sys->up->supervision(worker, child, ext != NULL ? &ext->failure : NULL,
                         directive, past_limit);
    if (directive == TR_ESCALATE) {
        escalate(parent, child, past_limit);
        if (cohort != TRI_COHORT_NONE) {
            tri_cohort_next(parent);
        }
        return;
    }
    // The policy belongs to the child, which may be gone after send_decision.
    tr_scope scope = scope_of(parent, policy);
    bool as_cohort = scope != TR_ONE_FOR_ONE && directive == TR_RESTART;
    tri_cohort_form(parent, child, scope, directive);
    send_decision(worker, child, directive);
    if (as_cohort || cohort != TRI_COHORT_NONE) {
        tri_cohort_next(parent);
    }
}
