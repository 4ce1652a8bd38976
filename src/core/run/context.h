/*
 * context.h - tr_ctx: an actor's view of itself during a turn.
 *
 * A tr_ctx is on the stack of a fiber and used for all turns of that fiber.
 * It is clean between turns and stays as it is while a turn is parked.
 *
 * Threads: the worker that runs the turn; while the turn is parked, the owner
 * of the cell.
 *
 * Invariant: while TRI_CTX_CONTEXT is set, `fast_tag` is TRI_NO_TAG, so no
 * send takes the fast path, which does not copy a context.
 */
#ifndef TRI_CORE_RUN_CONTEXT_H
#define TRI_CORE_RUN_CONTEXT_H

#include "base/check.h"
#include "base/fiber.h"
#include "core/system.h"
#include "core/types.h"

#define TRI_CTX_MAGIC UINT64_C(0x6374785472a1d002)

/*
 * With TRI_BARE_TURNS turns neither check for failures nor count anything;
 * tools/turn_cost.py builds such a library to measure what that costs.
 */
#ifdef TRI_BARE_TURNS
enum { TRI_BARE = 1 };
#else
enum { TRI_BARE = 0 };
#endif

typedef enum tri_turn_kind {
    TRI_TURN_WRITE = 1,
    TRI_TURN_READ,
    TRI_TURN_INTERLEAVE,
    TRI_TURN_ON_RUN,  // on_run
    TRI_TURN_HOOK,
} tri_turn_kind;

/* tr_ctx.flags: what the end of the turn must do. */
enum {
    TRI_CTX_SCRATCH = 1,    // frees `scratch`
    TRI_CTX_REPLIES = 2,    // frees `replies`
    TRI_CTX_FUTURES = 4,    // cancels futures
    TRI_CTX_MSG_TAKEN = 8,  // leaves `msg`: it is kept, stashed or forwarded
    TRI_CTX_CONTEXT = 16,   // clears `context`, which is set
};

/* In front of each block of tr_scratch. */
typedef struct tri_scratch {
    struct tri_scratch *next;
    const tr_type *holds;  // type of a value whose blobs it holds, or NULL
} tri_scratch;

struct tr_ctx {
    uint64_t magic;
    tr_system *sys;
    tri_worker *worker;
    tri_cell *cell;
    tr_msg *msg;        // being handled, or NULL
    tr_ref self;        // of the cell
    uint64_t fast_tag;  // sys->tag; TRI_NO_TAG: sends take the slow path
    uint8_t kind;       // tri_turn_kind
    uint8_t phase;      // tr_phase
    uint8_t flags;      // TRI_CTX_*
    bool ready;         // parked, and its wait is over
    bool parked;        // in ext->parked
    bool in_turn;       // user code runs, so it may wait and panic
    uint16_t texts;     // error_text.c: number of error texts so far
    tr_err cancel;      // not TR_OK: waits of this turn return it at once
    uint32_t budget;    // messages until the clock is read again
    tr_nanos started;   // beginning of the batch; 0: clock not read yet
    tr_nanos timed;     // beginning of a sampled handler; 0: not sampled
    uint32_t timed_kind, timed_depth;  // for tri_tally_sample
    tr_ctx *next;                      // in ext->parked
    tri_fiber *fiber;                  // the stack, while parked
    tri_wait *wait;                    // what the turn is parked on, or NULL
    tri_scratch *scratch;
    tri_item *replies;      // whose texts the turn may read until its end
    const char *fail_site;  // file:line of tr_fail or tr_panic, or NULL
    const char *site;       // of tr_at: file:line of the next call, or NULL
    char *fail_text;        // of tr_fail or tr_panic; from malloc, or NULL
    char *fail_reason;      // part of it for people; from malloc, or NULL
    tr_context context;     // valid if TRI_CTX_CONTEXT
    tri_jump_buf jump;      // where tr_panic jumps to
};

#define TRI_NO_TAG UINT64_MAX  // equal to no tag of a ref

/* Makes all messages that the turn sends from now on carry the context. */
static inline void tri_ctx_set_context(tr_ctx *ctx, const tr_context *context)
{
    TRI_CHECK(context != NULL);
    ctx->context = *context;
    ctx->flags |= TRI_CTX_CONTEXT;
    ctx->fast_tag = TRI_NO_TAG;
}

/* Returns the context that messages of this turn carry, or NULL. */
static inline const tr_context *tri_ctx_context(const tr_ctx *ctx)
{
    return ctx != NULL && (ctx->flags & TRI_CTX_CONTEXT) ? &ctx->context : NULL;
}

/* Makes messages carry no context from now on. */
static inline void tri_ctx_clear_context(tr_ctx *ctx)
{
    ctx->flags &= (uint8_t)~TRI_CTX_CONTEXT;
    ctx->fast_tag = ctx->sys->tag;
}

#endif
