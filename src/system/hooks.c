/*
 * hooks.c - actors that take part in the end of the system (SH1..SH7).
 *
 * Each is sent tr_termination_hook after /user has ended, and counts as done
 * when it says so or ends. The closing thread waits for the last one on
 * hooks_left.
 */
#include <stdlib.h>

#include "system/layers.h"

#define HOOK_TIMEOUT TR_SECONDS(5)  // X17

tr_err tr_on_terminate(tr_ctx *ctx)
{
    tr_system *sys = ctx->sys;
    tri_layers *layers = tri_layers_of(sys);
    tri_member *member = tri_mem_calloc(&sys->mem, sizeof(*member));
    if (member == NULL) {
        return TR_ENOMEM;
    }
    member->ref = tr_self(ctx);
    tri_lock_take(&layers->hooks_lock);
    // Acquire: pairs with tri_system_begin_end.
    bool late = atomic_load_explicit(&sys->terminating, memory_order_acquire);
    bool known = false;
    for (tri_member *m = layers->hooks; m != NULL; m = m->next) {
        known |= tr_ref_eq(m->ref, member->ref);
    }
    if (!late && !known) {
        member->next = layers->hooks;
        layers->hooks = member;
        // Relaxed: whoever ends has registered in an earlier turn.
        atomic_fetch_add_explicit(&layers->hook_count, 1, memory_order_relaxed);
    }
    tri_lock_drop(&layers->hooks_lock);
    if (late || known) {
        free(member);
    }
    return late ? TR_ECLOSED : TR_OK;
}

/* Counts one hook as done, if it is one. */
static void hook_done(tr_system *sys, tr_ref ref)
{
    tri_layers *layers = tri_layers_of(sys);
    bool found = false;
    tri_lock_take(&layers->hooks_lock);
    for (tri_member **link = &layers->hooks; *link != NULL;
         link = &(*link)->next) {
        if (tr_ref_eq((*link)->ref, ref)) {
            tri_member *member = *link;
            *link = member->next;
            free(member);
            // Relaxed: as in tr_on_terminate.
            atomic_fetch_sub_explicit(&layers->hook_count, 1,
                                      memory_order_relaxed);
            found = true;
            break;
        }
    }
    bool empty = layers->hooks == NULL;
    tri_lock_drop(&layers->hooks_lock);
    if (found && empty) {
        // Seq_cst: the closing thread sleeps on it.
        atomic_store_explicit(&layers->hooks_left, 0, memory_order_seq_cst);
        sys->world->ops->wake(sys->world, &layers->hooks_left, UINT32_MAX);
    }
}

void tr_termination_done(tr_ctx *ctx)
{
    hook_done(ctx->sys, tr_self(ctx));
}

void tri_hooks_leave(tr_system *sys, tr_ref ref)
{
    // Relaxed: as in tr_on_terminate. Most actors are none.
    if (atomic_load_explicit(&tri_layers_of(sys)->hook_count,
                             memory_order_relaxed) > 0) {
        hook_done(sys, ref);
    }
}

void tri_hooks_run(tr_system *sys, tr_nanos deadline)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_world *world = sys->world;
    tri_lock_take(&layers->hooks_lock);
    uint32_t count = 0;
    for (tri_member *m = layers->hooks; m != NULL; m = m->next) {
        count++;
    }
    tr_ref *refs = count > 0 ? calloc(count, sizeof(*refs)) : NULL;
    uint32_t n = 0;
    for (tri_member *m = layers->hooks; refs != NULL && m != NULL;
         m = m->next) {
        refs[n++] = m->ref;
    }
    // Seq_cst: before the hooks are told.
    atomic_store_explicit(&layers->hooks_left, count > 0, memory_order_seq_cst);
    tri_lock_drop(&layers->hooks_lock);
    for (uint32_t i = 0; i < n; i++) {
        tr_tell(sys, refs[i], tr_termination_hook);
    }
    free(refs);
    tr_nanos now = world->ops->mono(world);
    if (deadline > now + HOOK_TIMEOUT) {
        deadline = now + HOOK_TIMEOUT;
    }
    while (n > 0 && now < deadline &&
           atomic_load_explicit(&layers->hooks_left, memory_order_seq_cst)) {
        tri_drive_or_park(sys, &layers->hooks_left, 1, deadline - now);
        now = world->ops->mono(world);
    }
    tri_lock_take(&layers->hooks_lock);
    tri_member *left = layers->hooks;
    layers->hooks = NULL;
    atomic_store_explicit(&layers->hook_count, 0, memory_order_relaxed);
    tri_lock_drop(&layers->hooks_lock);
    while (left != NULL) {
        tri_member *next = left->next;
        char path[TRI_PATH_MAX];
        tri_logf(sys, TR_LOG_WARN, NULL,
                 tr_ref_path(sys, left->ref, path, sizeof(path)),
                 "did not answer the termination hook in time");
        free(left);
        left = next;
    }
}

void tri_hooks_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    while (layers->hooks != NULL) {
        tri_member *next = layers->hooks->next;
        free(layers->hooks);
        layers->hooks = next;
    }
}
