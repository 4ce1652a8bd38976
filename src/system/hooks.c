/*
 * hooks.c - actors that take part in the end of the system (tr_on_terminate).
 *
 * Each is sent tr_termination_hook before its part of the tree is stopped: those
 * below /user first, the others when /user has ended. A hook is done when it
 * calls tr_termination_done or ends. After the last one of a part the end goes
 * on; the closing thread waits on the word `done`.
 */
#include "system/hooks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/mem.h"
#include "core/life/family.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/layers.h"
#include "system/poll.h"
#include "system/shutdown.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/system.h"

#define HOOK_TIMEOUT TR_SECONDS(5)  // for all hooks of a part together

typedef struct tri_hook {
    struct tri_hook *next;
    tr_ref ref;
    tri_hook_part part;
    bool told;  // the notice has been sent
} tri_hook;

static tri_hooks *hooks_of(tr_system *sys)
{
    return &tri_layers_of(sys)->hooks;
}

tr_err tr_on_terminate(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_system *sys = ctx->sys;
    tri_hooks *hooks = hooks_of(sys);
    tri_hook *hook = tri_mem_calloc(&sys->mem, sizeof(*hook));
    if (hook == NULL) {
        return TR_ENOMEM;
    }
    hook->ref = tr_self(ctx);
    hook->part = tri_is_ancestor(sys->user, ctx->cell) ? TRI_HOOKS_OF_USER
                                                       : TRI_HOOKS_OF_OTHERS;
    tri_lock_take(&hooks->lock);
    // Acquire: pairs with tri_shutdown_begin.
    bool late = atomic_load_explicit(&sys->terminating, memory_order_acquire);
    bool known = false;
    for (tri_hook *h = hooks->newest; h != NULL; h = h->next) {
        known |= tr_ref_eq(h->ref, hook->ref);
    }
    if (!late && !known) {
        hook->next = hooks->newest;
        hooks->newest = hook;
        hooks->left[hook->part]++;
        // Relaxed: the actor itself reads it when it ends, or its forcer.
        atomic_fetch_or_explicit(&ctx->cell->flags, TRI_CELL_HOOKED,
                                 memory_order_relaxed);
    }
    tri_lock_drop(&hooks->lock);
    if (late || known) {
        free(hook);
    }
    return late ? TR_ECLOSED : TR_OK;
}

/* Takes the hook of ref out of the list. Returns NULL if there is none. */
static tri_hook *take_hook(tri_hooks *hooks, tr_ref ref)
{
    tri_lock_assert_held(&hooks->lock);
    for (tri_hook **link = &hooks->newest; *link != NULL;
         link = &(*link)->next) {
        tri_hook *hook = *link;
        if (tr_ref_eq(hook->ref, ref)) {
            *link = hook->next;
            hooks->left[hook->part]--;
            return hook;
        }
    }
    return NULL;
}

/* Removes a hook, if ref is one. After the last of a part the end goes on. */
static void hook_done(tr_system *sys, tr_ref ref)
{
    tri_hooks *hooks = hooks_of(sys);
    tri_lock_take(&hooks->lock);
    tri_hook *hook = take_hook(hooks, ref);
    bool last = hook != NULL && hooks->left[hook->part] == 0;
    tri_lock_drop(&hooks->lock);
    if (last) {
        // Seq_cst: pairs with tri_hooks_await, which parks on the word.
        atomic_fetch_add_explicit(&hooks->done, 1, memory_order_seq_cst);
        sys->world->ops->wake(sys->world, &hooks->done, UINT32_MAX);
        tri_shutdown_go_on(sys);
    }
    free(hook);
}

void tr_termination_done(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    hook_done(ctx->sys, tr_self(ctx));
}

void tri_hooks_leave(tr_system *sys, tri_cell *cell)
{
    // Relaxed: set in a turn of this actor. A virtual actor keeps its cell, so
    // the flag must go.
    uint32_t flags = atomic_fetch_and_explicit(
        &cell->flags, ~(uint32_t)TRI_CELL_HOOKED, memory_order_relaxed);
    TRI_CHECK(flags & TRI_CELL_HOOKED);
    hook_done(sys, tri_cell_ref(sys, cell));
}

/* Returns the next hook of the part that was not told yet, or nobody. */
static tr_ref next_untold(tri_hooks *hooks, tri_hook_part part)
{
    tr_ref ref = {0};
    tri_lock_take(&hooks->lock);
    for (tri_hook *h = hooks->newest; h != NULL; h = h->next) {
        if (h->part == part && !h->told) {
            h->told = true;
            ref = h->ref;
            break;
        }
    }
    tri_lock_drop(&hooks->lock);
    return ref;
}

bool tri_hooks_left(tr_system *sys, tri_hook_part part)
{
    tri_hooks *hooks = hooks_of(sys);
    tri_lock_take(&hooks->lock);
    uint32_t left = hooks->left[part];
    tri_lock_drop(&hooks->lock);
    return left > 0;
}

void tri_hooks_tell(tr_system *sys, tri_hook_part part)
{
    tr_ref ref;
    while ((ref = next_untold(hooks_of(sys), part)).cell != 0) {
        tr_tell(sys, ref, tr_termination_hook);
    }
}

/* Takes the hooks of a part that are not done out of the list and logs them. */
static void name_late(tr_system *sys, tri_hook_part part)
{
    tri_hooks *hooks = hooks_of(sys);
    tri_hook *late = NULL;
    tri_lock_take(&hooks->lock);
    for (tri_hook **link = &hooks->newest; *link != NULL;) {
        tri_hook *hook = *link;
        if (hook->part != part) {
            link = &hook->next;
            continue;
        }
        *link = hook->next;
        hook->next = late;
        late = hook;
    }
    hooks->left[part] = 0;
    tri_lock_drop(&hooks->lock);
    while (late != NULL) {
        tri_hook *next = late->next;
        char path[TRI_PATH_MAX];
        tri_logf(sys, TR_LOG_WARN, NULL,
                 tr_ref_path(sys, late->ref, path, sizeof(path)),
                 "did not answer the termination hook in time");
        free(late);
        late = next;
    }
}

void tri_hooks_await(tr_system *sys, tri_hook_part part, tr_nanos deadline)
{
    tri_hooks *hooks = hooks_of(sys);
    tri_world *world = sys->world;
    tr_nanos now = world->ops->mono(world);
    deadline = TRI_MIN(deadline, now + HOOK_TIMEOUT);
    for (;;) {
        // Seq_cst: before the hooks are looked at; pairs with hook_done.
        uint32_t done =
            atomic_load_explicit(&hooks->done, memory_order_seq_cst);
        if (!tri_hooks_left(sys, part) || now >= deadline) {
            break;
        }
        tri_drive_or_park(sys, &hooks->done, done, deadline - now);
        now = world->ops->mono(world);
    }
    name_late(sys, part);
}

void tri_hooks_free(tr_system *sys)
{
    tri_hooks *hooks = hooks_of(sys);
    while (hooks->newest != NULL) {
        tri_hook *next = hooks->newest->next;
        free(hooks->newest);
        hooks->newest = next;
    }
}
