/*
 * api.c - the calls of actor.h and supervise.h that are not a file's own.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "core/private.h"
#include "core/probe.h"

enum { STASH_MAX = 1 << 20 };

/* ---- sending ---- */

/*
 * Inside tr_tell the two halves of the ref go separately: as a struct they
 * would be put into memory and be read back as a whole, which stalls.
 */

static __attribute__((noinline)) void tell_slow(tr_from from, uint64_t to_cell,
                                                uint64_t to_id,
                                                const tr_type *type,
                                                const void *payload)
{
    tr_ref to = {to_cell, to_id};
    tri_actor_from who = tri_enter(from);
    tr_msg *msg = tri_msg_new_with(&who.worker->cache, type, payload, false,
                                   tri_ctx_context(who.ctx));
    if (TRI_LIKELY(msg != NULL)) {
        tri_send(&who, to, msg);
    } else {
        who.sys->up->dead_letter_lost(who.sys, to, type, TR_DEAD_NO_MEMORY);
    }
    tri_leave(&who);
}

/* The mailbox was closed: msg is no use. */
static __attribute__((noinline)) void tell_refused(tr_from from,
                                                   uint64_t to_cell,
                                                   uint64_t to_id, tr_msg *msg,
                                                   const void *payload)
{
    const tr_type *type = msg->node.type;
    tri_msg_free(&from.ctx->worker->cache, msg);
    tell_slow(from, to_cell, to_id, type, payload);
}

/* The message is on its way: what must be done now and then. */
static __attribute__((noinline)) void tell_rest(tr_ctx *ctx, uint64_t to_cell,
                                                uint64_t to_id, bool deep,
                                                bool idle)
{
    tr_ref to = {to_cell, to_id};
    if (idle) {
        tri_schedule(ctx->worker, tri_ref_cell(to));
    }
    if (deep) {
        tri_slow_down(ctx, tri_ref_cell(to), to);
    }
    if (--ctx->worker->sends_left == 0) {
        tri_yield(ctx);
    }
}

/*
 * From a turn to a mailbox without limits: what most messages are. What is
 * rare is left to others, in the last step, so this needs no stack frame.
 */
static inline __attribute__((always_inline)) void tell_quick(
    tr_ctx *ctx, uint64_t to_cell, uint64_t to_id, const tr_type *type,
    size_t size, const void *payload)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = tri_ref_cell((tr_ref){.cell = to_cell});
    uint32_t klass = tri_class_quick(sizeof(tr_msg) + size);
    tri_magazine *hot = &worker->cache.of[klass].hot;
    // Relaxed: as in tri_try_send, and tri_push_user.
    if (TRI_UNLIKELY((to_cell >> 48) != ctx->quick_tag || hot->head == NULL ||
                     (TRI_FAULTS && tri_mem_should_fail(worker->cache.mem)) ||
                     (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                      (TRI_CELL_BOUNDED | TRI_CELL_TIGHT)) != 0 ||
                     atomic_load_explicit(&cell->id, memory_order_relaxed) !=
                         to_id)) {
        tell_slow((tr_from){.ctx = ctx}, to_cell, to_id, type, payload);
        return;
    }
    tr_msg *msg = (tr_msg *)(void *)tri_magazine_take(hot, klass);
    tri_msg_init_quick(msg, type, klass, payload, size);
    msg->to_id = to_id;
    msg->sender = ctx->self;
    uintptr_t seen = TRI_MAIL_IDLE;
    uint32_t depth = 1;
    if (!tri_mail_claim(cell, msg) &&
        TRI_UNLIKELY(!tri_mail_push(cell, msg, &seen, &depth))) {
        tell_refused((tr_from){.ctx = ctx}, to_cell, to_id, msg, payload);
        return;
    }
    bool idle = (seen & TRI_MAIL_IDLE) != 0;
    bool deep = tri_looks_deep(depth);
    if (TRI_UNLIKELY(deep || worker->sends_left == 1)) {
        tell_rest(ctx, to_cell, to_id, deep, idle);
        return;
    }
    worker->sends_left--;
    if (idle) {
        tri_schedule_quick(worker, cell);
    }
}

/* One whose copy is a call, or that is special. */
static __attribute__((noinline)) void tell_larger(tr_from from,
                                                  uint64_t to_cell,
                                                  uint64_t to_id,
                                                  const tr_type *type,
                                                  const void *payload)
{
    if (TRI_LIKELY(tri_from_is_ctx(from) && type->var_count == 0 &&
                   type->size <= TRI_CLASS_QUICK - sizeof(tr_msg))) {
        tell_quick(from.ctx, to_cell, to_id, type, type->size, payload);
    } else {
        tell_slow(from, to_cell, to_id, type, payload);
    }
}

void(tr_tell)(tr_from from, tr_ref to, const tr_type *type, const void *payload)
{
    size_t size = type->size;
    if (TRI_LIKELY(tri_from_is_ctx(from) && type->var_count == 0 &&
                   size <= TRI_COPY_SMALL)) {
        tell_quick(from.ctx, to.cell, to.id, type, size, payload);
    } else {
        tell_larger(from, to.cell, to.id, type, payload);
    }
}

tr_err(tr_try_tell)(tr_from from, tr_ref to, const tr_type *type,
                    const void *payload)
{
    tri_actor_from who = tri_enter(from);
    tr_msg *msg = tri_msg_new_with(&who.worker->cache, type, payload, false,
                                   tri_ctx_context(who.ctx));
    tr_err err = TR_ENOMEM;
    if (msg != NULL) {
        err = tri_try_send(&who, to, msg);
        if (err != TR_OK) {
            tri_msg_free(&who.worker->cache, msg);
            err = err == TR_ESTOPPED ? TR_EGONE : err;
        }
    }
    tri_leave(&who);
    return err;
}

void(tr_tell_urgent)(tr_from from, tr_ref to, uint8_t priority,
                     const tr_type *type, const void *payload)
{
    TRI_CHECK(priority >= 1 && priority <= TR_PRIORITY_MAX);
    tri_actor_from who = tri_enter(from);
    tr_msg *msg = tri_msg_new_with(&who.worker->cache, type, payload, false,
                                   tri_ctx_context(who.ctx));
    tri_cell *cell = tri_ref_cell(to);
    bool here = (to.cell >> 48) == who.sys->tag;
    if (msg == NULL) {
        who.sys->up->dead_letter_lost(who.sys, to, type, TR_DEAD_NO_MEMORY);
    } else {
        msg->node.priority = priority;
        // Relaxed: a stale ref must not give another actor lanes.
        here = here &&
               atomic_load_explicit(&cell->id, memory_order_relaxed) == to.id;
        if (here && tri_ext_need(who.worker, cell) != NULL) {
            // Relaxed: the push that follows publishes it.
            atomic_fetch_or_explicit(&cell->flags, TRI_CELL_URGENT,
                                     memory_order_relaxed);
        }
        tri_send(&who, to, msg);
        if (here) {
            // Release: after the message; pairs with rush. One that meets
            // another actor by now makes it look in vain.
            atomic_fetch_or_explicit(&cell->flags, TRI_CELL_RUSH,
                                     memory_order_release);
        }
    }
    tri_leave(&who);
}

/* ---- what becomes of a message ---- */

static void gone_from_turn(tr_ctx *ctx, const tr_msg *msg)
{
    if (ctx->msg == msg) {
        ctx->flags |= TRI_CTX_MSG_GONE;
    }
}

static void no_memory(tr_ctx *ctx, const char *what)
{
    (tr_panic)(ctx, what, "out of memory");
}

/* Timer and stack messages belong to others: a copy can be kept. */
static tr_msg *own(tr_ctx *ctx, tr_msg *msg)
{
    if (!(msg->node.flags & TRI_MSG_TIMER) &&
        msg->node.klass != TRI_CLASS_STACK) {
        return msg;
    }
    tr_msg *copy =
        tri_msg_new(&ctx->worker->cache, msg->node.type, msg->payload, false);
    if (copy == NULL) {
        no_memory(ctx, "tr_keep");
    }
    copy->to_id = msg->to_id;
    copy->sender = (tr_ref){0};
    return copy;
}

const void *(tr_keep)(tr_ctx *ctx, const void *m)
{
    tr_msg *msg = tri_msg_of(m);
    if ((msg->node.flags & TRI_MSG_KEPT) ||
        (ctx->msg == msg && (ctx->flags & TRI_CTX_MSG_GONE))) {
        return m;
    }
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        no_memory(ctx, "tr_keep");
    }
    tr_msg *kept = own(ctx, msg);
    kept->node.flags |= TRI_MSG_KEPT;
    kept->node.next = ext->kept;
    ext->kept = &kept->node;
    if (kept == msg) {
        gone_from_turn(ctx, msg);
    }
    return m == (const void *)msg ? (const void *)kept : kept->payload;
}

static bool unkeep(tr_ctx *ctx, tr_msg *msg)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    for (tri_node **link = ext != NULL ? &ext->kept : NULL;
         link != NULL && *link != NULL; link = &(*link)->next) {
        if (*link == &msg->node) {
            *link = msg->node.next;
            msg->node.flags &= (uint8_t)~TRI_MSG_KEPT;
            return true;
        }
    }
    return false;
}

void tr_release(tr_ctx *ctx, const void *m)
{
    tr_msg *msg = tri_msg_of(m);
    if (!unkeep(ctx, msg)) {
        return;
    }
    if (ctx->msg == msg) {
        ctx->flags &= (uint8_t)~TRI_CTX_MSG_GONE;  // the turn's again
    } else if ((msg->node.flags & TRI_MSG_ASK) &&
               !(msg->node.flags & TRI_MSG_ANSWERED)) {
        tri_answer_error(ctx->worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&ctx->worker->cache, msg);
    }
}

void tr_forward(tr_ctx *ctx, tr_ref to, const void *m)
{
    tr_msg *msg = tri_msg_of(m);
    bool kept = unkeep(ctx, msg);
    if (ctx->msg == msg && !kept && (ctx->flags & TRI_CTX_MSG_GONE)) {
        return;  // passed on already
    }
    tr_msg *sent = own(ctx, msg);
    if (sent == msg) {
        gone_from_turn(ctx, msg);
    }
    sent->node.flags &= (uint8_t)~TRI_MSG_FOREIGN;
    tri_pass_on(ctx, sent, to);
}

tr_err tr_stash(tr_ctx *ctx, const void *m)
{
    tr_msg *msg = tri_msg_of(m);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    if (ext->stashed >= STASH_MAX) {
        return TR_ELIMIT;
    }
    if (!unkeep(ctx, msg) && ctx->msg == msg &&
        (ctx->flags & TRI_CTX_MSG_GONE)) {
        return TR_OK;  // put aside, or passed on, already
    }
    tr_msg *stashed = own(ctx, msg);
    if (stashed == msg) {
        gone_from_turn(ctx, msg);
    }
    stashed->node.next = NULL;
    if (ext->stash == NULL) {
        ext->stash = &stashed->node;
    } else {
        ext->stash_last->next = &stashed->node;
    }
    ext->stash_last = &stashed->node;
    ext->stashed++;
    return TR_OK;
}

void tr_unstash_all(tr_ctx *ctx)
{
    tri_unstash(ctx->cell);
}

/* ---- failing ---- */

static void record(tr_ctx *ctx, const char *site, const char *format,
                   va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof(text), format, args);
    free(ctx->fail_text);
    ctx->fail_text = strdup(text);
    ctx->texts++;
    ctx->fail_site = site;
}

tr_err(tr_fail)(tr_ctx *ctx, tr_err err, const char *site, const char *format,
                ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, site, format, args);
    va_end(args);
    return err;
}

void(tr_panic)(tr_ctx *ctx, const char *site, const char *format, ...)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    va_list args;
    va_start(args, format);
    record(ctx, site, format, args);
    va_end(args);
    if (!ctx->in_turn || ctx->parked) {
        tr_abort(site, "tr_panic outside a turn of its actor");
    }
    tri_jump_go(&ctx->jump);
}

/* ---- who ---- */

tr_ref tr_self(tr_ctx *ctx)
{
    return tri_cell_ref(ctx->sys, ctx->cell);
}

tr_ref tr_parent(tr_ctx *ctx)
{
    tri_cell *parent = tri_cell_parent(ctx->cell);
    return parent != NULL ? tri_cell_ref(ctx->sys, parent) : (tr_ref){0};
}

tr_ref tr_sender(tr_ctx *ctx)
{
    if (ctx->msg == NULL || (ctx->msg->node.flags & TRI_MSG_TIMER)) {
        return (tr_ref){0};
    }
    return ctx->msg->sender;
}

tr_system *tr_system_of(tr_ctx *ctx)
{
    return ctx->sys;
}

const char *tr_name(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (cell->name != NULL) {
        return cell->name;
    }
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    if (ext == NULL) {
        return "$";
    }
    if (ext->own_name[0] == '\0') {
        // Relaxed: we own the cell.
        snprintf(ext->own_name, sizeof(ext->own_name), "$%llx",
                 (unsigned long long)atomic_load_explicit(
                     &cell->id, memory_order_relaxed));
    }
    return ext->own_name;
}

uint32_t tr_incarnation(tr_ctx *ctx)
{
    return tri_cell_incarnation(ctx->cell);
}

bool tr_stopping(tr_ctx *ctx)
{
    tr_state life = tri_cell_life(ctx->cell);
    // Relaxed: a stop that was asked for in this very turn counts as well.
    uint64_t signals =
        atomic_load_explicit(&ctx->cell->signals, memory_order_relaxed);
    return ctx->cancel != TR_OK || life == TR_STATE_STOPPING ||
           (ctx->cell->slow & TRI_SLOW_STOP) != 0 ||
           (signals & (TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE)) != 0;
}

tr_ref tr_child(tr_ctx *ctx, const char *name)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext == NULL) {
        return (tr_ref){0};
    }
    tri_lock_take(&ext->lock);
    tri_cell *child = tri_map_get_bytes(&ext->names, name, strlen(name));
    tr_ref ref = child != NULL ? tri_cell_ref(ctx->sys, child) : (tr_ref){0};
    tri_lock_drop(&ext->lock);
    return ref;
}

size_t tr_children(tr_ctx *ctx, tr_ref *out, size_t max)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    size_t count = 0;
    if (ext == NULL) {
        return 0;
    }
    tri_lock_take(&ext->lock);
    for (tri_cell *child = ext->first_child; child != NULL;
         child = child->sibling_next) {
        if (count < max) {
            out[count] = tri_cell_ref(ctx->sys, child);
        }
        count++;
    }
    tri_lock_drop(&ext->lock);
    return count;
}

const tr_type *tr_msg_type(const tr_msg *msg)
{
    return msg->node.type;
}

const void *tr_msg_payload(const tr_msg *msg)
{
    return msg->payload;
}

bool tr_ref_eq(tr_ref a, tr_ref b)
{
    // Of nobody the id is only the reason.
    return a.cell == b.cell && (a.id == b.id || a.cell == 0);
}

tr_err tr_ref_err(tr_ref ref)
{
    return ref.cell == 0 ? (tr_err)ref.id : TR_OK;
}

/* ---- life ---- */

static void send_signal(tr_from from, tr_ref ref, uint32_t signal)
{
    tri_actor_from who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) == who.sys->tag) {
        // Relaxed: fixed at spawn, or another's, whose id does not fit.
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        if ((flags & TRI_CELL_VIRTUAL) &&
            tri_virtual_ops_of(who.sys)->signal(who.worker, cell, signal)) {
            // It is on another node, and is told there.
        } else if (!(flags & TRI_CELL_SYSTEM)) {
            tri_signal(who.worker, cell, ref.id, signal);
        }
    }
    tri_leave(&who);
}

void(tr_stop)(tr_from from, tr_ref ref)
{
    tr_ctx *ctx = from.ctx;
    // Oneself: the cell is ours and awake, nobody must be poked.
    if (tri_from_is_ctx(from) && tri_ref_cell(ref) == ctx->cell &&
        tr_ref_eq(ref, tri_cell_ref(ctx->sys, ctx->cell))) {
        // Relaxed: for the monitor, if the handler does not return.
        atomic_store_explicit(&ctx->worker->stopped, ref.id,
                              memory_order_relaxed);
        ctx->cell->slow |= TRI_SLOW_STOP;
        return;
    }
    send_signal(from, ref, TRI_SIG_STOP);
}

void(tr_kill)(tr_from from, tr_ref ref)
{
    send_signal(from, ref, TRI_SIG_KILL);
}

static void poison(tr_from from, tr_ref ref, uint32_t spared)
{
    tri_actor_from who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    // Relaxed: as in send_signal.
    if ((ref.cell >> 48) == who.sys->tag &&
        !(atomic_load_explicit(&cell->flags, memory_order_relaxed) & spared)) {
        tr_none nothing = {};
        tr_msg *msg =
            tri_msg_new(&who.worker->cache, &tr_none_tr_type, &nothing, false);
        if (msg == NULL) {  // without memory: at once instead of never
            tri_signal(who.worker, cell, ref.id, TRI_SIG_STOP);
        } else {
            msg->node.kind = TRI_NODE_POISON;
            msg->sender = who.sender;
            if (tri_push(who.worker, cell, ref.id, msg) != TR_OK &&
                !(tri_cell_is_virtual(cell) &&
                  tri_virtual_ops_of(who.sys)->poison(who.worker, cell, msg))) {
                tri_msg_free(&who.worker->cache, msg);
            }
        }
    }
    tri_leave(&who);
}

void(tr_poison)(tr_from from, tr_ref ref)
{
    poison(from, ref, TRI_CELL_SYSTEM);
}

void tri_poison_any(tr_system *sys, tr_ref ref)
{
    poison((tr_from){.sys = sys}, ref, 0);
}

tr_state(tr_state_of)(tr_from from, tr_ref ref)
{
    tr_system *sys = tri_from_system(from);
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) != sys->tag) {
        return TR_STATE_TERMINATED;
    }
    // Acquire: the state first, then whose it is; pairs with tri_life_set.
    tr_state life =
        (tr_state)atomic_load_explicit(&cell->life, memory_order_acquire);
    return atomic_load_explicit(&cell->id, memory_order_acquire) == ref.id &&
                   !tri_cell_is_zombie(cell)
               ? life
               : TR_STATE_TERMINATED;
}

void(tr_become)(tr_ctx *ctx, const tr_actor_def *behaviour)
{
    tri_cell *cell = ctx->cell;
    const tri_behaviour *next =
        tri_behaviour_get(ctx->sys, ctx->worker, behaviour);
    const tri_behaviour *now = tri_cell_behaviour(cell);
    if (next != NULL && now->plain != NULL) {
        next = tri_behaviour_wrap(ctx->sys, next, now->outer, now->inner);
    }
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    if (next == NULL || ext == NULL) {
        (tr_panic)(ctx, "tr_become", "out of memory");
    }
    if (ext->first == NULL) {
        ext->first = tri_cell_behaviour(cell);
    }
    tri_cell_become(cell, next);
}

tr_handle(tr_handle_hold)(tr_from from, tr_ref ref)
{
    tri_actor_from who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) == who.sys->tag) {
        // Acquire: an AUTO_STOP actor is born with its extension.
        tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
        // Relaxed: the holder of a handle keeps the actor alive.
        if (ext != NULL &&
            atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id) {
            // Relaxed: only the number counts.
            atomic_fetch_add_explicit(&ext->handles, 1, memory_order_relaxed);
        }
    }
    tri_leave(&who);
    return (tr_handle){ref};
}

void(tr_handle_drop)(tr_from from, tr_ref ref)
{
    bool last = false;
    tri_actor_from who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) == who.sys->tag) {
        // Acquire: as in hold.
        tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
        // Acquire and release: the last one comes after all the others.
        last =
            ext != NULL &&
            atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id &&
            atomic_fetch_sub_explicit(&ext->handles, 1, memory_order_acq_rel) ==
                (TRI_HANDLES_COUNT | 1);
    }
    tri_leave(&who);
    if (last) {
        (tr_poison)(from, ref);
    }
}

/* ---- watching ---- */

void tr_watch(tr_ctx *ctx, tr_ref ref)
{
    if (tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, ref, false) != TR_OK) {
        (tr_panic)(ctx, "tr_watch", "out of memory");
    }
}

void tr_watch_in_order(tr_ctx *ctx, tr_ref ref)
{
    if (tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, ref, true) != TR_OK) {
        (tr_panic)(ctx, "tr_watch_in_order", "out of memory");
    }
}

void tr_unwatch(tr_ctx *ctx, tr_ref ref)
{
    tri_unwatch_ref(ctx->worker, ctx->cell, ref);
}

/* ---- time ---- */

tr_nanos(tr_now)(tr_from from)
{
    tri_world *world = tri_from_world(from);
    return world->ops->mono(world);
}

tr_nanos(tr_wall)(tr_from from)
{
    tri_world *world = tri_from_world(from);
    return world->ops->wall(world);
}

/* ---- chance ---- */

uint64_t(tr_random)(tr_from from, uint64_t below)
{
    TRI_CHECK(below > 0);
    tri_world *world = tri_from_world(from);
    // As tri_rand_below: what is left is a whole multiple of below.
    uint64_t reject = -below % below;
    uint64_t drawn;
    do {
        drawn = world->ops->random(world);
    } while (drawn < reject);
    return drawn % below;
}
