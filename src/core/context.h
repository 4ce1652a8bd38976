/*
 * context.h - an actor's view of itself during a turn.
 *
 * A tr_ctx belongs to the stack it lives on: it is clean between turns, and
 * kept as it is while one of them is parked. It has what the turn needs at
 * hand, and what the end of the turn must look after.
 *
 * Threads: the worker that runs the turn; while it is parked, the owner of
 * the cell.
 *
 * Invariant: with TRI_CTX_CONTEXT `quick_tag` is TRI_NO_TAG, so that the quick
 * way of a send, which knows of no contexts, is not taken.
 */
#ifndef TRI_CORE_CONTEXT_H
#define TRI_CORE_CONTEXT_H

#include "base/fiber.h"
#include "core/cell.h"

#define TRI_CTX_MAGIC UINT64_C(0x6374785472a1d002)

/*
 * A library whose turns look after no failure and count nothing, to measure
 * what that costs: tools/turn_cost.py builds it, nobody else.
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
    TRI_TURN_RUN,  // on_run
    TRI_TURN_HOOK,
} tri_turn_kind;

/* tr_ctx.flags: what the end of the turn must look after. */
enum {
    TRI_CTX_SCRATCH = 1,
    TRI_CTX_REPLIES = 2,  // reply messages whose text the turn borrows
    TRI_CTX_FUTURES = 4,
    TRI_CTX_MSG_GONE = 8,  // kept, stashed or forwarded: not ours any more
    TRI_CTX_CONTEXT = 16,  // `context` is set, and travels with what is sent
};

typedef struct tri_scratch {
    struct tri_scratch *next;
    const tr_type *holds;  // it is a value, whose blobs end with it; or NULL
} tri_scratch;

/* An actor's view of itself during a turn; lives on the turn's stack. */
struct tr_ctx {
    uint64_t magic;
    tr_system *sys;
    tri_worker *worker;
    tri_cell *cell;
    tr_msg *msg;         // being handled, or NULL
    tr_ref self;         // of the cell
    uint64_t quick_tag;  // the system's; none where each send looks closer
    uint8_t kind;        // tri_turn_kind
    uint8_t phase;       // tr_phase
    uint8_t flags;       // TRI_CTX_*
    bool ready;          // parked, and may go on
    bool parked;
    bool in_turn;      // user code is running: a panic has a boundary
    uint16_t texts;    // how many fail_texts there were, around its end
    tr_err cancel;     // waits return this at once
    uint32_t budget;   // messages until the clock is read again
    tr_nanos started;  // of the activation; 0: not read yet
    tr_nanos timed;    // since then the handler runs; 0: it is not timed
    uint32_t timed_kind, timed_depth;  // tri_tally_sample
    tr_ctx *next;                      // in ext->parked
    tri_fiber *fiber;
    tri_wait *wait;  // what it is parked on
    tri_scratch *scratch;
    tri_node *replies;
    const char *fail_site;
    char *fail_text;     // malloc'd: from tr_fail or tr_panic, until used
    tr_context context;  // of the turn, where TRI_CTX_CONTEXT
    tri_jump_buf jump;
};

#define TRI_NO_TAG UINT64_MAX  // no ref has it

/* From now on what is sent carries the context. */
static inline void tri_ctx_carry(tr_ctx *ctx, const tr_context *context)
{
    ctx->context = *context;
    ctx->flags |= TRI_CTX_CONTEXT;
    ctx->quick_tag = TRI_NO_TAG;
}

/* What the messages of this turn carry along, or NULL. */
static inline const tr_context *tri_ctx_context(const tr_ctx *ctx)
{
    return ctx != NULL && (ctx->flags & TRI_CTX_CONTEXT) ? &ctx->context : NULL;
}

#endif
