/*
 * intercept.c - code around handlers, and what a call carries along.
 *
 * An actor with interceptors has another behaviour: the same table, but each
 * entry leads to `enter`, which finds the plain one again. So whoever has none
 * pays nothing: no turn asks whether there are any. Such behaviours are made
 * once for each pair of lists and live as long as the system.
 *
 * A context stands in front of the messages that carry it (message.h) and is
 * copied into the turn; TRI_CTX_CONTEXT says that there is one, and ends with
 * the turn like the other flags. Meanwhile the turn has no quick_tag, so that
 * the quick way of tr_tell, which knows of no contexts, is not taken.
 *
 * Invariant: a wrapped behaviour is written before it is linked, under
 * sys->behaviours_lock, and never after.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"

/* ---- behaviours ---- */

static tr_err enter(tr_ctx *ctx, void *self, const void *argument);

static tri_behaviour *wrap(tr_system *sys, const tri_behaviour *plain,
                           const tr_interceptor *const *outer,
                           const tr_interceptor *const *inner)
{
    size_t size =
        sizeof(*plain) + ((size_t)plain->mask + 1) * sizeof(plain->slots[0]);
    tri_behaviour *made = tri_mem_calloc(&sys->mem, size);
    if (made == NULL) {
        return NULL;
    }
    made->def = plain->def;
    made->interleaves = plain->interleaves;
    made->plain_life = plain->plain_life;
    made->state_class = plain->state_class;
    made->mask = plain->mask;
    made->kind = plain->kind;
    made->plain = plain;
    made->outer = outer;
    made->inner = inner;
    if (plain->any != NULL) {
        made->any_wrapped = *plain->any;
        made->any_wrapped.fn = enter;
        made->any = &made->any_wrapped;
    }
    for (uint32_t i = 0; i <= plain->mask; i++) {
        const tri_slot *slot = &plain->slots[i];
        if (slot->fn != NULL) {
            made->slots[i].schema = slot->schema;
            made->slots[i].type = slot->type;
            made->slots[i].flags = slot->flags;
            made->slots[i].kind = slot->kind;
            made->slots[i].fn = enter;
        }
    }
    return made;
}

const tri_behaviour *tri_behaviour_wrap(tr_system *sys,
                                        const tri_behaviour *plain,
                                        const tr_interceptor *const *outer,
                                        const tr_interceptor *const *inner)
{
    TRI_CHECK(plain->plain == NULL);
    tri_lock_take(&sys->behaviours_lock);
    tri_behaviour *found = plain->wrapped;
    while (found != NULL && (found->outer != outer || found->inner != inner)) {
        found = found->wrapped;
    }
    if (found == NULL) {
        found = wrap(sys, plain, outer, inner);
        if (found != NULL) {
            found->wrapped = plain->wrapped;
            ((tri_behaviour *)(uintptr_t)plain)->wrapped = found;
        }
    }
    tri_lock_drop(&sys->behaviours_lock);
    return found;
}

/* ---- calls ---- */

/* One step of a call; on the stack of the turn, one in the frame of another. */
struct tr_call {
    tr_ctx *ctx;
    tr_handler_fn handler;
    void *self;
    const void *argument;
    const tr_interceptor *const *next;   // the first that has not run
    const tr_interceptor *const *later;  // the list after that, or NULL
    bool taken;
};

static tr_err go_on(tr_call call)
{
    while (call.next == NULL || *call.next == NULL) {
        if (call.later == NULL) {
            return call.handler(call.ctx, call.self, call.argument);
        }
        call.next = call.later;
        call.later = NULL;
    }
    const tr_interceptor *mine = *call.next++;
    call.taken = false;
    return mine->around(call.ctx, tri_msg_of(call.argument), &call, mine->user);
}

tr_err tr_proceed(tr_call *call)
{
    if (call->taken) {
        tri_error_set(call->ctx, "tr_proceed: the handler has run already");
        return TR_EINVAL;
    }
    call->taken = true;
    return go_on(*call);
}

/* In the place of the handler. */
static tr_err enter(tr_ctx *ctx, void *self, const void *argument)
{
    const tri_behaviour *wrapped = tri_cell_behaviour(ctx->cell);
    const tri_behaviour *plain = wrapped->plain;
    const tri_slot *slot = tri_behaviour_find(plain, ctx->msg->node.type);
    return go_on((tr_call){.ctx = ctx,
                           .self = self,
                           .argument = argument,
                           .handler = slot != NULL ? slot->fn : plain->any->fn,
                           .next = wrapped->outer,
                           .later = wrapped->inner});
}

/* ---- contexts ---- */

const tr_context *tr_context_of(tr_ctx *ctx)
{
    return tri_ctx_context(ctx);
}

void tr_context_set(tr_ctx *ctx, const tr_context *context)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (context == NULL) {
        tri_ctx_carry_nothing(ctx);
        return;
    }
    TRI_CHECK(context->deadline >= 0);
    tri_ctx_carry(ctx, context);
}
