/*
 * membership.c - the thread of a membership, its tasks and its requests.
 *
 * The thread never waits for the engine: it submits tasks, parks until an
 * answer, a request or a time has come, and takes one step of each part.
 */
#include "cluster/membership/membership.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/membership/member_parts.h"

tri_member_state tri_member_state_of(const tri_membership *it)
{
    // Relaxed: only this thread writes it.
    return (tri_member_state)atomic_load_explicit(&it->state,
                                                  memory_order_relaxed);
}

void tri_member_set_state(tri_membership *it, tri_member_state state)
{
    if (state != tri_member_state_of(it)) {
        // Release: pairs with the acquire in tri_membership_state.
        atomic_store_explicit(&it->state, state, memory_order_release);
        it->world->ops->wake(it->world, &it->state, UINT32_MAX);
    }
}

/* True if the node has a record that it must renew. */
bool tri_member_has_lease(const tri_membership *it)
{
    tri_member_state state = tri_member_state_of(it);

    return state == TRI_MEMBER_JOINING || state == TRI_MEMBER_UP ||
           state == TRI_MEMBER_LEAVING || state == TRI_MEMBER_REMOVING;
}

static void wake(tri_membership *it)
{
    // Release: pairs with the acquire in member_loop.
    atomic_fetch_add_explicit(&it->wakes, 1, memory_order_release);
    it->world->ops->wake(it->world, &it->wakes, 1);
}

void tri_member_set_why(tri_membership *it, const char *text)
{
    tri_lock_take(&it->lock);
    (void)snprintf(it->why, sizeof(it->why), "%s", text);
    tri_lock_drop(&it->lock);
}

/* ---- tasks ---- */

/* On a thread of the engine. */
static void on_answer(tri_engine_op *op)
{
    tri_member_task *task = tri_container_of(op, tri_member_task, op);
    tri_membership *it = task->owner;
    tri_world *world = it->world;
    _Atomic(uint32_t) *wakes = &it->wakes;

    tri_lock_take(&it->lock);
    task->is_answered = true;
    // Release: pairs with the acquire in member_loop.
    atomic_fetch_add_explicit(wakes, 1, memory_order_release);
    tri_lock_drop(&it->lock);
    // From here on the thread may end and free *it: only the address is used.
    world->ops->wake(world, wakes, 1);
}

void tri_member_task_submit(tri_member_task *task, tr_nanos now)
{
    TRI_CHECK(!task->is_busy);
    task->is_busy = true;
    task->is_stale = false;
    task->sent = now;
    task->op.done = on_answer;
    tri_engine_submit(task->owner->engine, &task->op);
}

/* Returns true if the task's answer has come; it is idle again. */
static bool take_answer(tri_member_task *task)
{
    tri_membership *it = task->owner;

    tri_lock_take(&it->lock);
    bool is = task->is_answered;
    task->is_answered = false;
    tri_lock_drop(&it->lock);
    if (is) {
        task->is_busy = false;
        if (task->op.answer == TRI_ENGINE_UNKNOWN && !it->is_stopping) {
            tri_member_set_why(it, task->op.text);
        }
    }
    return is;
}

/* ---- the thread ---- */

/* Copies what others have asked for. */
static void take_requests(tri_membership *it)
{
    tri_lock_take(&it->lock);
    it->is_stopping = it->wants_stop;
    it->is_leaving = it->wants_leave;
    bool tells_again = it->wants_news;
    it->wants_news = false;
    it->needs_read |= it->wants_revision > it->rows.table_revision;
    it->wants_revision = 0;
    bool changed = tri_member_has_lease(it) &&
                   strcmp(it->kinds, it->written_record.kinds) != 0;
    tri_lock_drop(&it->lock);
    if (changed) {
        it->renew_due = 0;
    }
    if (tells_again) {
        it->published = 0;
        if (tri_member_state_of(it) == TRI_MEMBER_UP) {
            it->calls->up(it->user, it->self);
        }
    }
}

static tr_nanos watch_due(const tri_membership *it)
{
    return it->watch.sent + it->lease / TRI_LEASE_HINTS;
}

static void watch_step(tri_membership *it, tr_nanos now)
{
    if (it->watch.is_busy || it->needs_read || it->read.is_busy ||
        !it->rows.is_read || it->is_stopping || now < watch_due(it)) {
        return;
    }
    it->watch.op = (tri_engine_op){.call = TRI_ENGINE_WATCH,
                                   .key = it->table_prefix,
                                   .after = it->rows.revision};
    tri_member_task_submit(&it->watch, now);
}

static void take_answers(tri_membership *it, tr_nanos now)
{
    if (take_answer(&it->own)) {
        tri_member_own_answered(it, now);
    }
    if (take_answer(&it->read)) {
        tri_member_read_answered(it, now);
    }
    if (take_answer(&it->write)) {
        tri_member_write_answered(it);
    }
    if (take_answer(&it->watch)) {
        it->needs_read |= it->watch.op.answer == TRI_ENGINE_YES;
    }
}

static tr_nanos earlier(tr_nanos a, tr_nanos b)
{
    return a < b ? a : b;
}

/* Returns how long there is nothing to do, unless somebody wakes us. */
static tr_nanos idle_span(const tri_membership *it, tr_nanos now)
{
    tr_nanos due = now + tri_member_renewal_span(it);

    if (!it->read.is_busy) {
        due = earlier(due, it->read_due);
    }
    if (!it->own.is_busy && tri_member_state_of(it) != TRI_MEMBER_LEFT) {
        due = earlier(due, it->renew_due);
    }
    if (!it->watch.is_busy) {
        due = earlier(due, watch_due(it));
    }
    if (tri_member_has_lease(it)) {
        due = earlier(due, it->lease_until);
    }
    // At least a little: a time that has passed but may not be acted on, such
    // as a renewal that waits for a read, must not keep the thread busy.
    tr_nanos least = it->lease / TRI_LEASE_HINTS;
    return due - now > least ? due - now : least;
}

static bool is_idle(const tri_membership *it)
{
    return !it->own.is_busy && !it->read.is_busy && !it->write.is_busy &&
           !it->watch.is_busy;
}

static void steps(tri_membership *it, tr_nanos now)
{
    take_requests(it);
    take_answers(it, now);
    tri_member_publish(it);
    tri_member_own_step(it, now);
    tri_member_read_step(it, now);
    tri_member_write_step(it, now);
    watch_step(it, now);
}

static void member_loop(void *arg)
{
    tri_membership *it = arg;
    bool is_cancelled = false;

    for (;;) {
        // Acquire: pairs with the release in wake and on_answer.
        uint32_t seen = atomic_load_explicit(&it->wakes, memory_order_acquire);
        tr_nanos now = tri_membership_clock(it->world);
        steps(it, now);
        if (it->is_stopping) {
            if (is_idle(it)) {
                return;
            }
            if (it->watch.is_busy && !is_cancelled) {
                is_cancelled = true;
                tri_engine_cancel(it->engine, &it->watch.op);
            }
        }
        (void)it->world->ops->park(it->world, &it->wakes, seen,
                                   idle_span(it, now));
    }
}

/* ---- starting and stopping ---- */

static void membership_free(tri_membership *it)
{
    tri_member_task *tasks[] = {&it->own, &it->read, &it->write, &it->watch};

    for (size_t i = 0; i < TRI_COUNT_OF(tasks); i++) {
        tri_engine_op_fini(&tasks[i]->op);
    }
    tri_view_drop(it->view);
    tri_rows_fini(&it->rows);
    free(it);
}

static tr_err membership_init(tri_membership *it,
                              const tri_membership_options *options)
{
    const char *kinds = options->kinds != NULL ? options->kinds : "";
    tri_member_task *tasks[] = {&it->own, &it->read, &it->write, &it->watch};

    it->world = options->world;
    it->engine = options->engine;
    it->calls = options->calls;
    it->user = options->user;
    it->is_client = options->is_client;
    it->lease = options->lease == 0 ? TRI_LEASE_DEFAULT : options->lease;
    for (size_t i = 0; i < TRI_COUNT_OF(tasks); i++) {
        tasks[i]->owner = it;
    }
    if (it->lease < TRI_LEASE_MIN || options->address == NULL ||
        options->address[0] == '\0' || strchr(options->address, ' ') != NULL ||
        strlen(options->address) >= sizeof(it->address) ||
        strlen(kinds) >= sizeof(it->kinds)) {
        return TR_EINVAL;
    }
    (void)snprintf(it->address, sizeof(it->address), "%s", options->address);
    (void)snprintf(it->kinds, sizeof(it->kinds), "%s", kinds);
    TR_TRY(tri_rows_init(&it->rows, options->ns));
    tri_rows_key(&it->rows, it->prefix, "/");
    tri_rows_key(&it->rows, it->table_prefix, "/table/");
    it->needs_read = true;
    return TR_OK;
}

tr_err tri_membership_start(tri_membership **out,
                            const tri_membership_options *options)
{
    TRI_CHECK(options->world->magic == TRI_WORLD_MAGIC);
    TRI_CHECK(options->calls != NULL);
    tri_membership *it = calloc(1, sizeof(*it));

    *out = NULL;
    if (it == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = membership_init(it, options);
    if (err == TR_OK) {
        tri_engine_hold(it->engine);
        *out = it;  // before the thread: it may call back at once
        err = it->world->ops->thread_start(it->world, &it->thread, "tr-member",
                                           member_loop, it);
        if (err != TR_OK) {
            tri_engine_drop(it->engine);
        }
    }
    if (err != TR_OK) {
        *out = NULL;
        membership_free(it);
    }
    return err;
}

void tri_membership_stop(tri_membership *it)
{
    if (it->thread == NULL) {
        return;
    }
    tri_lock_take(&it->lock);
    it->wants_stop = true;
    tri_lock_drop(&it->lock);
    wake(it);
    it->world->ops->thread_join(it->world, it->thread);
    it->thread = NULL;
    tri_engine_drop(it->engine);
}

void tri_membership_free(tri_membership *it)
{
    if (it != NULL) {
        tri_membership_stop(it);
        membership_free(it);
    }
}

void tri_membership_tell_again(tri_membership *it)
{
    tri_lock_take(&it->lock);
    it->wants_news = true;
    tri_lock_drop(&it->lock);
    wake(it);
}

/* Waits until the state is `wanted` or the node has left. */
static bool wait_for(tri_membership *it, tri_member_state wanted,
                     tr_nanos timeout)
{
    tr_nanos begin = it->world->ops->mono(it->world);
    tr_nanos left = timeout;

    for (;;) {
        tri_member_state state = tri_membership_state(it);
        if (state == wanted || state == TRI_MEMBER_LEFT) {
            return true;
        }
        if (left <= 0) {
            return false;
        }
        (void)it->world->ops->park(it->world, &it->state, state, left);
        if (timeout != TR_FOREVER) {
            left = timeout - (it->world->ops->mono(it->world) - begin);
        }
    }
}

tr_err tri_membership_wait_up(tri_membership *it, tr_nanos timeout)
{
    if (!wait_for(it, TRI_MEMBER_UP, timeout)) {
        return TR_ETIMEDOUT;
    }
    return tri_membership_state(it) == TRI_MEMBER_LEFT ? TR_EINVAL : TR_OK;
}

tr_err tri_membership_wait_left(tri_membership *it, tr_nanos timeout)
{
    return wait_for(it, TRI_MEMBER_LEFT, timeout) ? TR_OK : TR_ETIMEDOUT;
}

/* ---- requests ---- */

void tri_membership_why(tri_membership *it, char *out, size_t size)
{
    tri_lock_take(&it->lock);
    (void)snprintf(out, size, "%s", it->why);
    tri_lock_drop(&it->lock);
}

void tri_membership_leave(tri_membership *it)
{
    tri_lock_take(&it->lock);
    it->wants_leave = true;
    tri_lock_drop(&it->lock);
    wake(it);
}

tr_err tri_membership_set_kinds(tri_membership *it, const char *kinds)
{
    TRI_CHECK(kinds != NULL);
    if (strlen(kinds) >= sizeof(it->kinds)) {
        return TR_ELIMIT;
    }
    tri_lock_take(&it->lock);
    (void)snprintf(it->kinds, sizeof(it->kinds), "%s", kinds);
    tri_lock_drop(&it->lock);
    wake(it);
    return TR_OK;
}

void tri_membership_refresh(tri_membership *it, uint64_t revision)
{
    tri_lock_take(&it->lock);
    if (revision > it->wants_revision) {
        it->wants_revision = revision;
    }
    tri_lock_drop(&it->lock);
    wake(it);
}

void tri_membership_handed_over(tri_membership *it, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lock_take(&it->lock);
    it->handed[shard / 64] |= UINT64_C(1) << (shard % 64);
    it->has_requests = true;
    tri_lock_drop(&it->lock);
    wake(it);
}

void tri_membership_raise_epoch(tri_membership *it, uint32_t shard,
                                uint64_t epoch)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lock_take(&it->lock);
    it->raise[shard] = epoch + 1;
    it->has_requests = true;
    tri_lock_drop(&it->lock);
    wake(it);
}

tri_view *tri_membership_view(tri_membership *it)
{
    tri_lock_take(&it->lock);
    tri_view *view = it->view != NULL ? tri_view_hold(it->view) : NULL;
    tri_lock_drop(&it->lock);
    return view;
}
