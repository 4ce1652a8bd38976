/*
 * supervise.c - what a parent does about a child that has failed.
 *
 * A child that fails suspends itself and sends its `notice` to the parent.
 * While the notice travels and until the decision is back the child is FAILED
 * and runs nothing, so the parent may look at its extension. The decision
 * goes back as a signal: neither way needs memory.
 *
 * Siblings that are restarted together (X44) are all suspended at once, then
 * stop one by one, the newest first, and start one by one, the oldest first.
 * The parent lets each of them go on by its `group` stage; each reports with
 * TRI_SIG_GROUP when it is there, or ends. The delay is waited for once,
 * before the first starts.
 */
#include "core/lifecycle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"
#include "schema/print.h"

static const tr_supervision defaults = {
    .size = sizeof(tr_supervision),
    .on_failure = TR_RESTART,
    .scope = TR_ONE_FOR_ONE,
    .max_restarts = 3,
    .within = TR_SECONDS(1),
    .backoff_min = TR_MS(10),
    .backoff_max = TR_SECONDS(1),
    .backoff_factor = 2.0,
    .on_limit = TR_ESCALATE,
};

bool tri_supervision_fill(tr_supervision *policy)
{
    if (policy->within < 0 || policy->backoff_min < 0 ||
        policy->backoff_max < 0 || policy->backoff_factor < 0 ||
        policy->jitter < 0 || policy->jitter > 1 ||
        (unsigned)policy->on_failure > TR_ESCALATE ||
        (unsigned)policy->on_limit > TR_ESCALATE ||
        policy->on_limit == TR_RESTART || policy->on_limit == TR_RESUME ||
        (unsigned)policy->scope > TR_REST_FOR_ONE) {
        return false;
    }
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
    return true;
}

const tr_supervision *tri_supervision_of(tr_system *sys, tri_cell *cell)
{
    if (cell->props != NULL && cell->props->has_supervision) {
        return &cell->props->supervision;
    }
    // SV24: /user carries what its children are treated with.
    tri_cell *user = sys->user;
    bool custom = user != NULL && tri_cell_parent(cell) == user &&
                  user->props != NULL && user->props->has_supervision;
    return custom ? &user->props->supervision : &sys->supervision;
}

/* ---- showing a failure ---- */

/* As much as fits, and a zero. By hand: each save writes a path. */
static size_t path_add(char *buf, size_t size, size_t length, const char *text)
{
    size_t more = strnlen(text, size - length - 1);
    memcpy(buf + length, text, more);
    buf[length + more] = '\0';
    return length + more;
}

void tri_path_write(tr_system *sys, tri_cell *cell, char *buf, size_t size)
{
    TRI_CHECK(size > 0);
    if (cell == NULL || cell == sys->root) {
        (void)path_add(buf, size, 0, "/");
        return;
    }
    if (tri_cell_is_virtual(cell)) {
        (void)path_add(buf, size, 0, cell->name);
        return;
    }
    tri_cell *parent = tri_cell_parent(cell);
    size_t length = 0;
    if (parent != NULL && parent != sys->root) {
        tri_path_write(sys, parent, buf, size);
        length = strlen(buf);
    }
    if (length + 1 >= size) {
        return;
    }
    if (cell->name != NULL) {
        length = path_add(buf, size, length, "/");
        (void)path_add(buf, size, length, cell->name);
    } else {
        // Relaxed: the cell is alive.
        snprintf(buf + length, size - length, "/$%llx",
                 (unsigned long long)atomic_load_explicit(
                     &cell->id, memory_order_relaxed));
    }
}

void tri_failure_show(tr_system *sys, tri_cell *cell, tri_failure_view *view)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_failure none = {.err = TR_ENOMEM, .phase = TR_IN_HANDLER};
    tri_failure *f = ext != NULL ? &ext->failure : &none;

    tri_path_write(sys, cell, view->path, sizeof(view->path));
    view->failure = (tr_failure){.child = tri_cell_ref(sys, cell),
                                 .incarnation = tri_cell_incarnation(cell),
                                 .err = f->err,
                                 .phase = f->phase,
                                 .text = f->text,
                                 .site = f->site,
                                 .path = view->path};
    if (f->msg != NULL && f->msg->node.type != NULL) {
        tri_print(f->msg->node.type, f->msg->payload, view->message,
                  sizeof(view->message), NULL);
        view->failure.message = view->message;
    }
    const tr_type *state = tri_cell_behaviour(cell)->def->state;
    if (cell->state != NULL && state != NULL && state->size != 0) {
        tri_print(state, cell->state, view->state, sizeof(view->state), NULL);
        view->failure.state = view->state;
    }
}

void tri_failure_clear(tri_worker *worker, tri_cell *cell, uint32_t reason)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    free(ext->failure.text);
    if (ext->failure.msg != NULL) {
        tri_dead(worker, tri_cell_ref(worker->sys, cell), ext->failure.msg,
                 reason);
    }
    tr_phase phase = ext->failure.phase;
    tr_err err = ext->failure.err;
    ext->failure = (tri_failure){.err = err, .phase = phase};
}

void tri_failure_retry(tr_ctx *ctx, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tr_msg *msg = ext->failure.msg;
    if (msg != NULL && tri_supervision_of(ctx->sys, cell)->retry_message &&
        !msg->node.again && !(msg->node.flags & TRI_MSG_ASK)) {
        ext->failure.msg = NULL;
        msg->node.again = true;
        msg->node.next = cell->queue;
        cell->queue = &msg->node;
        tri_count_again(cell, 1);
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&cell->queued, 1, memory_order_relaxed);
    }
    tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
    ext->failure = (tri_failure){0};
}

/* ---- deciding ---- */

/* min * factor^(attempt - 1), at most max, spread by the jitter (SV7, SV8). */
static tr_nanos backoff(tr_system *sys, const tr_supervision *policy,
                        uint32_t attempt)
{
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

/* Counts a restart into the window; false: that would be too many (SV9). */
static bool count_restart(uint32_t *restarts, tr_nanos *start,
                          const tr_supervision *policy, tr_nanos now)
{
    if (*restarts == 0 || now - *start > policy->within) {
        *start = now;
        *restarts = 0;
    }
    if (*restarts >= policy->max_restarts) {
        return false;
    }
    (*restarts)++;
    return true;
}

/* X21: for itself, or as a group, whose parent then counts. */
static bool may_restart(tr_ctx *parent, tri_cell *child,
                        const tr_supervision *policy)
{
    tri_ext *ext = tri_ext_of(child);
    tri_ext *group = tri_ext_of(parent->cell);
    tr_nanos now = tri_clock(parent->worker);
    bool alone = policy->scope == TR_ONE_FOR_ONE;
    if (ext == NULL) {
        return true;  // no memory to count with
    }
    uint32_t *restarts = alone ? &ext->restarts : &group->group_restarts;
    tr_nanos *start = alone ? &ext->window_start : &group->group_start;
    if (!count_restart(restarts, start, policy, now)) {
        return false;
    }
    *(alone ? &ext->backoff : &group->group_backoff) =
        backoff(parent->sys, policy, *restarts);
    return true;
}

static tr_directive decide(tr_ctx *parent, tri_cell *child,
                           const tr_supervision *policy)
{
    tri_ext *ext = tri_ext_of(child);
    tri_ext *parent_ext = tri_ext_of(parent->cell);
    tr_state life = tri_cell_life(parent->cell);
    if (parent->cell == parent->sys->root || life == TR_STATE_STOPPING ||
        life == TR_STATE_STOPPED || life == TR_STATE_TERMINATED) {
        return TR_STOP;  // SV23; or its time is over anyway
    }
    const tr_actor_def *def = tri_cell_behaviour(parent->cell)->def;
    if (parent_ext != NULL && parent_ext->first != NULL) {
        def = parent_ext->first->def;
    }
    tr_directive directive = TR_BY_POLICY;
    // Rule 9: no code of a parent that has failed itself.
    bool sane = life == TR_STATE_RUNNING || life == TR_STATE_STARTING;
    if (def->decide != NULL && sane && parent->cell->state != NULL) {
        tri_failure_view view;
        tri_failure_show(parent->sys, child, &view);
        directive = def->decide(parent->cell->state, &view.failure);
    }
    if (directive != TR_BY_POLICY) {
        return directive;
    }
    // A service of the library whose policy is its own: nobody would make it
    // again.
    bool service = parent->cell == parent->sys->system &&
                   child->props != NULL && child->props->has_supervision;
    // L14: one that never started is not tried again by itself.
    if (ext != NULL && ext->failure.phase == TR_IN_START &&
        tri_cell_incarnation(child) == 1 && !service) {
        return TR_STOP;
    }
    return policy->on_failure;
}

static void send_decision(tri_worker *worker, tri_cell *child,
                          tr_directive directive)
{
    // Relaxed: a failed child cannot retire its id.
    uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
    uint32_t signal = directive == TR_RESTART  ? TRI_SIG_RESTART
                      : directive == TR_RESUME ? TRI_SIG_RESUME
                      : directive == TR_STOP   ? TRI_SIG_DOOM
                                               : 0;
    tri_signal(worker, child, id, TRI_SIG_NOTED | signal);
}

/* ---- groups ---- */

tri_group_stage tri_group_of(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: what the parent wrote before it let us go on.
    return ext != NULL ? (tri_group_stage)atomic_load_explicit(
                             &ext->group, memory_order_acquire)
                       : TRI_GROUP_NONE;
}

static void set_group(tri_cell *cell, tri_group_stage stage)
{
    // Release: pairs with tri_group_of.
    atomic_store_explicit(&tri_ext_of(cell)->group, (uint8_t)stage,
                          memory_order_release);
}

void tri_group_reached(tri_worker *worker, tri_cell *cell,
                       tri_group_stage stage)
{
    if (tri_group_of(cell) != TRI_GROUP_NONE) {
        set_group(cell, stage);
        tri_signal_parent(worker, cell, TRI_SIG_GROUP);
    }
}

void tri_group_started(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    uint8_t starting = TRI_GROUP_STARTING;
    if (tri_cell_life(cell) != TR_STATE_FAILED) {
        tri_group_reached(worker, cell, TRI_GROUP_NONE);
    } else if (ext != NULL &&
               // Release: pairs with tri_group_of. Relaxed: nothing is read
               // behind it. A parent that has heard of the failure already
               // may have begun with the group anew: its word is the last.
               atomic_compare_exchange_strong_explicit(
                   &ext->group, &starting, TRI_GROUP_NONE, memory_order_release,
                   memory_order_relaxed)) {
        tri_signal_parent(worker, cell, TRI_SIG_GROUP);
    }
}

static void let_go_on(tri_worker *worker, tri_cell *child,
                      tri_group_stage stage)
{
    // Relaxed: a linked child has its id.
    uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
    set_group(child, stage);
    tri_signal(worker, child, id, TRI_SIG_GROUP);
}

/* With the parent's lock. True: somebody stops, or has just been let. */
static bool next_stops(tri_worker *worker, tri_ext *ext)
{
    for (tri_cell *c = ext->last_child; c != NULL; c = c->sibling_prev) {
        tri_group_stage stage = tri_group_of(c);
        if (stage == TRI_GROUP_SUSPENDED) {
            let_go_on(worker, c, TRI_GROUP_STOPPING);
        }
        if (stage == TRI_GROUP_SUSPENDED || stage == TRI_GROUP_STOPPING) {
            return true;
        }
    }
    return false;
}

void tri_group_next(tr_ctx *parent)
{
    tri_ext *ext = tri_ext_of(parent->cell);
    if (ext == NULL) {
        return;
    }
    tri_lock_take(&ext->lock);
    bool stops = next_stops(parent->worker, ext);
    for (tri_cell *c = stops ? NULL : ext->first_child; c != NULL;
         c = c->sibling_next) {
        tri_group_stage stage = tri_group_of(c);
        if (stage == TRI_GROUP_STARTING) {
            break;
        }
        if (stage == TRI_GROUP_STOPPED) {
            tri_ext_of(c)->backoff = ext->group_backoff;
            ext->group_backoff = 0;
            let_go_on(parent->worker, c, TRI_GROUP_STARTING);
            break;
        }
    }
    tri_lock_drop(&ext->lock);
}

/* One that has stopped already, in a round before, stays so. */
static void join_group(tri_worker *worker, tri_cell *child)
{
    if (tri_ext_need(worker, child) != NULL &&
        tri_group_of(child) != TRI_GROUP_STOPPED) {
        set_group(child, TRI_GROUP_SUSPENDED);
    }
}

/* With the parent's lock: the sibling is restarted, or else stopped. */
static void sibling_too(tri_worker *worker, tri_cell *sibling,
                        tr_directive directive)
{
    // Relaxed: a linked child has its id.
    uint64_t id = atomic_load_explicit(&sibling->id, memory_order_relaxed);
    bool restart =
        directive == TR_RESTART &&
        (sibling->props == NULL || sibling->props->restart != TR_TEMPORARY);
    if (restart) {
        join_group(worker, sibling);
    }
    tri_signal(worker, sibling, id, restart ? TRI_SIG_RESTART : TRI_SIG_STOP);
}

/* Applies a directive to the siblings that the scope names (rule 16). */
static void siblings_too(tr_ctx *parent, tri_cell *child, tr_scope scope,
                         tr_directive directive)
{
    if (scope == TR_ONE_FOR_ONE ||
        (directive != TR_RESTART && directive != TR_STOP)) {
        return;
    }
    tri_ext *ext = tri_ext_of(parent->cell);
    tri_lock_take(&ext->lock);
    if (directive == TR_RESTART) {
        join_group(parent->worker, child);
    }
    for (tri_cell *other = ext->last_child; other != NULL && other != child;
         other = other->sibling_prev) {
        sibling_too(parent->worker, other, directive);
    }
    if (scope == TR_ALL_FOR_ONE) {
        for (tri_cell *other = child->sibling_prev; other != NULL;
             other = other->sibling_prev) {
            sibling_too(parent->worker, other, directive);
        }
    }
    tri_lock_drop(&ext->lock);
}

/* The parent takes the failure as its own (SV18). */
static void escalate(tr_ctx *parent, tri_cell *child, tr_directive for_child)
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
    // The child first: what becomes of us must not be quicker. From here on
    // it is not ours to look at.
    send_decision(parent->worker, child, for_child);
    tri_life_fail(parent, err);
}

void tri_supervise(tr_ctx *parent, tri_cell *child)
{
    tr_system *sys = parent->sys;
    tri_worker *worker = parent->worker;
    const tr_supervision *policy = tri_supervision_of(sys, child);
    tri_ext *ext = tri_ext_of(child);

    // It moves only when it has its notice back.
    TRI_CHECK(tri_cell_life(child) == TR_STATE_FAILED);
    tri_group_stage group = tri_group_of(child);
    if (group == TRI_GROUP_SUSPENDED || group == TRI_GROUP_STOPPING) {
        // It is about to be restarted with the others already.
        sys->up->supervision(worker, child, ext != NULL ? &ext->failure : NULL,
                             TR_RESTART);
        send_decision(worker, child, TR_RESTART);
        return;
    }
    if (group != TRI_GROUP_NONE) {  // it has just failed in its start
        set_group(child, TRI_GROUP_NONE);
    }
    tr_directive directive = decide(parent, child, policy);
    if (directive == TR_RESTART && child->props != NULL &&
        child->props->restart == TR_TEMPORARY) {
        directive = TR_STOP;
    }
    bool limit = directive == TR_RESTART && !may_restart(parent, child, policy);
    if (limit) {
        directive = policy->on_limit;
    }
    sys->up->supervision(worker, child, ext != NULL ? &ext->failure : NULL,
                         directive);
    if (directive == TR_ESCALATE) {
        tr_state life = tri_cell_life(parent->cell);
        if (life == TR_STATE_CREATED) {  // a guardian that has not run yet
            tri_life_set(worker, parent->cell, TR_STATE_STARTING);
            life = TR_STATE_STARTING;
        }
        bool can = life == TR_STATE_RUNNING || life == TR_STATE_STARTING;
        // X20: beyond the limit the child is stopped as well. Otherwise it
        // shares what becomes of its parent.
        tr_directive for_child = limit || !can ? TR_STOP : TR_ESCALATE;
        if (can) {
            escalate(parent, child, for_child);
        } else {
            send_decision(worker, child, for_child);
        }
        if (group != TRI_GROUP_NONE) {
            tri_group_next(parent);
        }
        return;
    }
    // The policy is the child's, which may be gone once it has the decision.
    bool as_group = policy->scope != TR_ONE_FOR_ONE && directive == TR_RESTART;
    siblings_too(parent, child, policy->scope, directive);
    send_decision(worker, child, directive);
    if (as_group || group != TRI_GROUP_NONE) {
        tri_group_next(parent);
    }
}
