/*
 * blocking.c - calls that block, on threads of their own (tr_blocking).
 *
 * As in io.c, the turn parks on a wait on its own stack. The job is a record
 * of its own, because its function may still run when the turn was cut short.
 *
 * Invariant: turn and thread share the job until one of them moves its state
 * away from SHARED. If the thread does (DONE), it wakes the turn, which frees
 * the job; if the turn does (LEFT), the thread frees it after the call.
 *
 * Invariant: jobs wait in the queue only while a slot is STARTING or RUNNING.
 * A slot is reserved with the lock and its thread is started without: that is
 * a system call. If it fails and no other slot is left, the jobs are answered.
 */
#include "system/blocking.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/ask/wait.h"
#include "core/cell/mem.h"
#include "core/life/failure.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/waiting.h"
#include "core/system.h"
#include "system/io.h"
#include "troupe/actor.h"
#include "troupe/system.h"

enum { SHARED, LEFT, DONE };  // job.state

typedef enum slot_state { FREE, STARTING, RUNNING } slot_state;

typedef struct job {
    struct job *next;
    tri_wait *wait;  // valid unless LEFT
    _Atomic(uint32_t) state;
    tr_err (*fn)(void *arg);
    void *arg;
} job;

typedef struct job_wait {
    tri_wait wait;  // first: job_cancel casts it back
    job *job;
    bool left;  // the thread frees the job
} job_wait;

void tri_blocking_init(tri_blocking *blocking, tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    blocking->sys = sys;
}

/* The cancel function of the wait: the thread frees the job. */
static bool job_cancel(tri_wait *wait)
{
    job_wait *mine = (job_wait *)(void *)wait;
    uint32_t shared = SHARED;
    // Acquire and release: pairs with job_done; one of the two frees the job.
    mine->left = atomic_compare_exchange_strong_explicit(
        &mine->job->state, &shared, LEFT, memory_order_acq_rel,
        memory_order_acquire);
    return mine->left;
}

/* The function has returned: wakes the turn, or frees the job if it has left. */
static void job_done(tr_system *sys, job *done, tr_err err)
{
    TRI_CHECK(done != NULL);
    uint32_t shared = SHARED;
    // Acquire and release: pairs with job_cancel.
    if (atomic_compare_exchange_strong_explicit(&done->state, &shared, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        tri_io_wake_turn(sys, done->wait, err);
    } else {
        free(done);
    }
}

/* Takes the oldest job out of the queue, or NULL. With the lock. */
static job *job_pop(tri_blocking *blocking)
{
    tri_lock_assert_held(&blocking->lock);
    job *next = blocking->first;
    if (next != NULL) {
        blocking->first = next->next;
        if (blocking->first == NULL) {
            blocking->last = NULL;
        }
        blocking->queued--;
    }
    return next;
}

/* Waits for a job. Returns NULL when the system closes. */
static job *job_take(tri_blocking *blocking)
{
    tri_world *world = blocking->sys->world;
    for (;;) {
        // Acquire: read before the queue; pairs with job_put.
        uint32_t word =
            atomic_load_explicit(&blocking->word, memory_order_acquire);
        tri_lock_take(&blocking->lock);
        job *next = job_pop(blocking);
        if (next == NULL) {
            blocking->idle_threads++;
        }
        tri_lock_drop(&blocking->lock);
        if (next != NULL) {
            return next;
        }
        // Acquire: pairs with tri_blocking_close.
        bool closing =
            atomic_load_explicit(&blocking->closing, memory_order_acquire);
        if (!closing) {
            world->ops->park(world, &blocking->word, word, TR_FOREVER);
        }
        tri_lock_take(&blocking->lock);
        blocking->idle_threads--;
        tri_lock_drop(&blocking->lock);
        if (closing) {
            return NULL;
        }
    }
}

static void thread_main(void *arg)
{
    tri_blocking *blocking = arg;
    job *next;
    while ((next = job_take(blocking)) != NULL) {
        job_done(blocking->sys, next, next->fn(next->arg));
    }
}

/* Adds the job to the end of the queue. With the lock. */
static void job_push(tri_blocking *blocking, job *added)
{
    tri_lock_assert_held(&blocking->lock);
    blocking->queued++;
    if (blocking->last != NULL) {
        blocking->last->next = added;
    } else {
        blocking->first = added;
    }
    blocking->last = added;
}

/*
 * Reserves a slot for one more thread. Returns NULL if none is needed, because
 * enough threads are idle, or none is allowed. With the lock.
 */
static tri_blocking_slot *slot_reserve(tri_blocking *blocking)
{
    tri_lock_assert_held(&blocking->lock);
    uint32_t max = blocking->sys->options.blocking_threads;
    max = max < TRI_BLOCKING_MAX ? max : TRI_BLOCKING_MAX;
    if (blocking->queued < blocking->idle_threads ||
        blocking->thread_count >= max) {
        return NULL;
    }
    tri_blocking_slot *slot = blocking->slots;
    while (slot->state != FREE) {
        slot++;
    }
    TRI_CHECK(slot < blocking->slots + max);
    slot->state = STARTING;
    blocking->thread_count++;
    return slot;
}

/* Gives a slot back whose thread did not start; answers jobs without thread. */
static void slot_return(tri_blocking *blocking, tri_blocking_slot *slot)
{
    job *lost = NULL;
    tri_lock_take(&blocking->lock);
    TRI_CHECK(slot->state == STARTING);
    slot->state = FREE;
    blocking->thread_count--;
    if (blocking->thread_count == 0) {
        lost = blocking->first;
        blocking->first = blocking->last = NULL;
        blocking->queued = 0;
    }
    tri_lock_drop(&blocking->lock);
    while (lost != NULL) {
        job *next = lost->next;  // job_done may free the job
        job_done(blocking->sys, lost, TR_ELIMIT);
        lost = next;
    }
}

/* Starts the thread of a reserved slot. Without the lock: a system call. */
static void slot_start(tri_blocking *blocking, tri_blocking_slot *slot)
{
    tri_world *world = blocking->sys->world;
    if (world->ops->thread_start(world, &slot->thread, "tr-block", thread_main,
                                 blocking) != TR_OK) {
        slot_return(blocking, slot);
        return;
    }
    tri_lock_take(&blocking->lock);
    slot->state = RUNNING;
    tri_lock_drop(&blocking->lock);
}

/*
 * Queues the job, starts a thread for it if that is needed, and wakes one. The
 * turn then waits for the job, which is answered with TR_ELIMIT if there is no
 * thread at all.
 */
static void job_put(tri_blocking *blocking, job *added)
{
    TRI_CHECK(added != NULL);
    tri_world *world = blocking->sys->world;
    tri_lock_take(&blocking->lock);
    tri_blocking_slot *slot = slot_reserve(blocking);
    TRI_CHECK(blocking->thread_count > 0);  // at least one is allowed
    job_push(blocking, added);
    tri_lock_drop(&blocking->lock);
    if (slot != NULL) {
        slot_start(blocking, slot);
    }
    // Release: after the queue; pairs with job_take, whose park fails if it
    // has read the old word.
    atomic_fetch_add_explicit(&blocking->word, 1, memory_order_acq_rel);
    world->ops->wake(world, &blocking->word, 1);
}

/* Queues the job and parks until it is done. Frees it unless it is LEFT. */
static tr_err run_job(tr_ctx *ctx, tri_io *io, job_wait *wait)
{
    job *mine = wait->job;
    tr_err err = tri_wait_begin(ctx, &wait->wait, TR_FOREVER);
    if (err != TR_OK) {
        free(mine);
        return err;
    }
    job_put(&io->blocking, mine);
    err = tri_park(ctx, &wait->wait);
    tri_wait_finish(ctx, &wait->wait);
    if (!wait->left) {  // otherwise the thread may have freed it already
        // Acquire: pairs with job_done.
        TRI_CHECK(atomic_load_explicit(&mine->state, memory_order_acquire) ==
                  DONE);
        free(mine);
    }
    return err;
}

tr_err(tr_blocking)(tr_ctx *ctx, tr_err (*fn)(void *arg), void *arg)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (fn == NULL) {
        tri_misuse(ctx, "tr_blocking", "the function is NULL");
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    tri_io *io;
    TR_TRY(tri_io_need(ctx->sys, &io));
    job *mine = tri_mem_calloc(&ctx->sys->mem, sizeof(*mine));
    if (mine == NULL) {
        return TR_ENOMEM;
    }
    job_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                              .cancel = job_cancel,
                              .call = "tr_blocking",
                              .site = tri_site_take(ctx)},
                     .job = mine};
    mine->wait = &wait.wait;
    mine->fn = fn;
    mine->arg = arg;
    return run_job(ctx, io, &wait);
}

void tri_blocking_close(tri_blocking *blocking)
{
    tri_world *world = blocking->sys->world;
    // Release: pairs with job_take.
    atomic_store_explicit(&blocking->closing, true, memory_order_release);
    atomic_fetch_add_explicit(&blocking->word, 1, memory_order_acq_rel);
    world->ops->wake(world, &blocking->word, UINT32_MAX);
    for (uint32_t i = 0; i < TRI_BLOCKING_MAX; i++) {
        TRI_CHECK(blocking->slots[i].state != STARTING);  // no turn is left
        if (blocking->slots[i].state == RUNNING) {
            world->ops->thread_join(world, blocking->slots[i].thread);
        }
    }
}
