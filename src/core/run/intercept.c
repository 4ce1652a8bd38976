/*
 * intercept.c - interceptors around handlers, and the context of a turn.
 *
 * An actor with interceptors has a copy of its behaviour in which each slot
 * calls `intercepted`, which finds the handler in the original. So an actor
 * without interceptors pays nothing: no turn checks whether there are any. The
 * copies are made once for each pair of lists and freed with the system.
 *
 * A message with a context has it in front (message.h). It is copied into the
 * tr_ctx of the turn, where TRI_CTX_CONTEXT says that there is one, and is
 * cleared when the turn ends. Meanwhile fast_tag is TRI_NO_TAG, so tr_tell
 * does not take its fast path, which does not copy a context.
 *
 * Invariant: a copy of a behaviour is filled before it is linked, under
 * sys->behaviours_lock, and never changed after.
 */
#include "core/run/intercept.h"

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/run/context.h"
#include "core/system.h"

static tr_err intercepted(tr_ctx *ctx, void *self, const void *argument);

/* Makes the copy; sys->behaviours_lock is held. NULL without memory. */
static tri_behaviour *wrap(tr_system *sys, const tri_behaviour *plain,
                           const tr_interceptor *const *outer,
                           const tr_interceptor *const *inner)
{
    tri_lock_assert_held(&sys->behaviours_lock);
    size_t size =
        sizeof(*plain) + ((size_t)plain->mask + 1) * sizeof(plain->slots[0]);
    tri_behaviour *made = tri_mem_calloc(&sys->mem, size);
    if (made == NULL) {
        return NULL;
    }
    made->def = plain->def;
    made->interleaves = plain->interleaves;
    made->no_hooks = plain->no_hooks;
    made->state_class = plain->state_class;
    made->mask = plain->mask;
    made->kind = plain->kind;
    made->plain = plain;
    made->outer = outer;
    made->inner = inner;
    if (plain->any != NULL) {
        made->any_wrapped = *plain->any;
        made->any_wrapped.fn = intercepted;
        made->any = &made->any_wrapped;
    }
    for (uint32_t i = 0; i <= plain->mask; i++) {
        const tri_slot *slot = &plain->slots[i];
        if (slot->fn != NULL) {
            made->slots[i].schema = slot->schema;
            made->slots[i].type = slot->type;
            made->slots[i].flags = slot->flags;
            made->slots[i].kind = slot->kind;
            made->slots[i].fn = intercepted;
        }
    }
    return made;
}

const tri_behaviour *tri_behaviour_wrap(tr_system *sys,
                                        const tri_behaviour *plain,
                                        const tr_interceptor *const *outer,
                                        const tr_interceptor *const *inner)
{
    TRI_CHECK(plain != NULL && plain->plain == NULL);
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

/*
 * One step of a call: what the next interceptor gets. Each step is on the stack;
 * the steps of the outer interceptors are in the frames of its callers.
 */
struct tr_call {
    tr_ctx *ctx;
    tr_handler_fn handler;
    void *self;
    const void *argument;
    const tr_interceptor *const *next;  // the interceptors that have not run
    const tr_interceptor *const
        *later;  // a second list, which runs after `next`; or NULL
    bool taken;  // tr_proceed has been called
};

/* Runs the next interceptor, or the handler after the last one. */
static tr_err call_next(tr_call call)
{
    while (call.next == NULL || *call.next == NULL) {
        if (call.later == NULL) {
            return call.handler(call.ctx, call.self, call.argument);
        }
        call.next = call.later;
        call.later = NULL;
    }
    const tr_interceptor *first = *call.next++;
    call.taken = false;
    return first->around(call.ctx, tri_msg_of(call.argument), &call,
                         first->user);
}

tr_err tr_proceed(tr_call *call)
{
    TRI_CHECK(call != NULL && call->ctx->magic == TRI_CTX_MAGIC);
    if (call->taken) {
        tri_error_set(call->ctx, "tr_proceed: the handler has run already");
        return TR_EINVAL;
    }
    call->taken = true;
    return call_next(*call);
}

/* Stands in the place of each handler of a copy. */
static tr_err intercepted(tr_ctx *ctx, void *self, const void *argument)
{
    const tri_behaviour *wrapped = tri_cell_behaviour(ctx->cell);
    const tri_behaviour *plain = wrapped->plain;
    TRI_CHECK(plain != NULL);
    const tri_slot *slot = tri_behaviour_find(plain, ctx->msg->item.type);
    return call_next(
        (tr_call){.ctx = ctx,
                  .self = self,
                  .argument = argument,
                  .handler = slot != NULL ? slot->fn : plain->any->fn,
                  .next = wrapped->outer,
                  .later = wrapped->inner});
}

const tr_context *tr_context_of(tr_ctx *ctx)
{
    return tri_ctx_context(ctx);
}

void tr_context_set(tr_ctx *ctx, const tr_context *context)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (context == NULL) {
        tri_ctx_clear_context(ctx);
        return;
    }
    TRI_CHECK(context->deadline >= 0);
    tri_ctx_set_context(ctx, context);
}
