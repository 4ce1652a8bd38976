/*
 * program.h - what all printed random programs have in common: messages, the
 * actor kind and the helpers of the lines that print.c writes.
 *
 * A printed program includes it and defines run (the scripts) and hook (the
 * hooks of the slots); then
 *
 *     cc -Iinclude -Itests/random -x c - -ltroupe
 *
 * Threads: as in any program; the tables of kept messages and timers are not
 * guarded, because a program keeps few.
 */
#ifndef TROUPE_RANDOM_PROGRAM_H
#define TROUPE_RANDOM_PROGRAM_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <troupe/cluster.h>
#include <troupe/storage.h>
#include <troupe/troupe.h>

#include "plan.h"

TR_MESSAGE(Answer, (uint32_t, value));
TR_MESSAGE(Work, (uint32_t, script));
TR_REQUEST(Ask, Answer, (uint32_t, script));
TR_REQUEST(Read, Answer, (uint32_t, script));
TR_REQUEST(Beside, Answer, (uint32_t, script));
TR_MESSAGE(Tick, (uint32_t, timer));
TR_MESSAGE(Event, (uint32_t, number));

typedef struct Player {
    unsigned slot;
} Player;

/* Of the program: `m` is the request or NULL, `any` any message. */
static tr_err run(tr_ctx *ctx, const Ask *m, const void *any, unsigned script);
static tr_err hooked(tr_ctx *ctx, unsigned slot, unsigned at);

static tr_ref actor[SLOTS] __attribute__((unused));
static tr_timer last __attribute__((unused));

#define HELPER static inline __attribute__((unused))

HELPER void ignore(tr_err err)
{
    (void)err;
}

/* ---- the actor kind ---- */

HELPER tr_err on_work(tr_ctx *ctx, Player *self, const Work *m)
{
    (void)self;
    return run(ctx, NULL, m, m->script);
}

HELPER tr_err on_ask(tr_ctx *ctx, Player *self, const Ask *m)
{
    (void)self;
    return run(ctx, m, m, m->script);
}

HELPER tr_err on_read(tr_ctx *ctx, const Player *self, const Read *m)
{
    (void)self;
    return run(ctx, (const void *)m, m, m->script);
}

HELPER tr_err on_beside(tr_ctx *ctx, const Player *self, const Beside *m)
{
    (void)self;
    return run(ctx, (const void *)m, m, m->script);
}

HELPER tr_err on_event(tr_ctx *ctx, Player *self, const Event *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

HELPER tr_err on_timeout(tr_ctx *ctx, Player *self, const tr_timeout *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

#define HOOKED(name, at, ...)                                                  \
    HELPER tr_err name(tr_ctx *ctx, Player *self, ##__VA_ARGS__)               \
    {                                                                          \
        return hooked(ctx, self->slot, at);                                    \
    }
HOOKED(pre_start, HOOK_pre_start)
HOOKED(post_start, HOOK_post_start)
HOOKED(pre_stop, HOOK_pre_stop)
HOOKED(post_restart, HOOK_post_restart)
HOOKED(on_run, HOOK_on_run)
HOOKED(post_stop, HOOK_post_stop, tr_reason r __attribute__((unused)))
HOOKED(pre_restart, HOOK_pre_restart,
       const tr_failure *r __attribute__((unused)))
HOOKED(terminated, HOOK_terminated,
       const tr_terminated *r __attribute__((unused)))
HOOKED(ticked, HOOK_tick, const Tick *r __attribute__((unused)))
HOOKED(answered, HOOK_then, const Answer *r __attribute__((unused)))
HOOKED(ask_failed, HOOK_then, const tr_ask_failed *r __attribute__((unused)))

HELPER tr_err then(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)reply;
    (void)err;
    return hooked(ctx, ((Player *)self)->slot, HOOK_then);
}

#define HANDLERS                                                               \
    TR_ON(Work, on_work), TR_ON(Ask, on_ask), TR_ON_READ(Read, on_read),       \
        TR_ON_INTERLEAVE(Beside, on_beside), TR_ON(Event, on_event),           \
        TR_ON(tr_terminated, terminated), TR_ON(Tick, ticked),                 \
        TR_ON(Answer, answered), TR_ON(tr_ask_failed, ask_failed),             \
        TR_ON(tr_timeout, on_timeout)

TR_ACTOR(player, Player, HANDLERS, TR_HOOK(pre_start, pre_start),
         TR_HOOK(post_start, post_start), TR_HOOK(pre_stop, pre_stop),
         TR_HOOK(post_stop, post_stop), TR_HOOK(pre_restart, pre_restart),
         TR_HOOK(post_restart, post_restart), TR_HOOK(on_run, on_run));
TR_ACTOR(other, Player, HANDLERS);

HELPER tr_err passes_around(tr_ctx *ctx, const tr_msg *msg, tr_call *call,
                            void *user)
{
    (void)ctx;
    (void)msg;
    (void)user;
    return tr_proceed(call);
}

static const tr_interceptor passes = {.name = "passes",
                                      .around = passes_around};
static const tr_interceptor *const interceptors[]
    __attribute__((unused)) = {&passes, &passes, NULL};

/* ---- what single lines call ---- */

#define nap(from, n)                                                           \
    nap_(_Generic((from), tr_ctx *: (from), default: NULL), (n))
HELPER void nap_(tr_ctx *ctx, unsigned n)
{
    if (ctx != NULL) {
        ignore(tr_sleep(ctx, TR_MS(n % 4)));
    } else {
        nanosleep(&(struct timespec){.tv_nsec = TR_MS(n % 4)}, NULL);
    }
}

HELPER void await_two(tr_ctx *ctx, unsigned slot, unsigned script,
                      tr_nanos span, bool any)
{
    tr_future futures[2];
    size_t first = 0;
    for (unsigned i = 0; i < 2; i++) {
        futures[i] = tr_async(ctx, actor[(slot + i) % SLOTS], span, Ask,
                              .script = script);
    }
    if (any && tr_await_any(ctx, futures, 2, &first) != TR_OK) {
        return;
    }
    for (size_t i = first; i < (any ? first + 1 : 2); i++) {
        ignore(tr_await(ctx, futures[i], Ask, NULL));
    }
}

static struct {
    tr_ref who;
    const Ask *request;
} kept_requests[64] __attribute__((unused));

HELPER void keep(tr_ctx *ctx, const Ask *m)
{
    for (int i = 0; i < 64; i++) {
        if (kept_requests[i].request == NULL) {
            kept_requests[i].who = tr_self(ctx);
            kept_requests[i].request = tr_keep(ctx, m);
            return;
        }
    }
}

HELPER void answer(tr_ctx *ctx, unsigned value)
{
    for (int i = 63; i >= 0; i--) {
        const Ask *m = kept_requests[i].request;
        if (m != NULL && tr_ref_eq(kept_requests[i].who, tr_self(ctx))) {
            kept_requests[i].request = NULL;
            ignore(tr_reply(ctx, m, .value = value));
            tr_release(ctx, m);
            return;
        }
    }
}

HELPER tr_err blocks(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(uintptr_t)arg}, NULL);
    return TR_EUSER;
}

HELPER void closes(void *object)
{
    (void)object;
}

HELPER void set_deadline(tr_ctx *ctx, tr_nanos span)
{
    tr_context context = {.deadline = tr_now(ctx) + span};
    tr_context_set(ctx, &context);
}

HELPER void observe(tr_system *sys)
{
    static char text[4096];
    (void)tr_tree(sys, text, sizeof(text));
    (void)tr_metrics_text(sys, text, sizeof(text));
}

HELPER void probe_tells(tr_system *sys, tr_ref to, unsigned script)
{
    tr_probe *probe;
    if (tr_probe_new(&probe, sys) == TR_OK) {
        tr_tell(probe, to, Work, .script = script);
        tr_probe_watch(probe, to);
        tr_probe_free(probe);
    }
}

/* ---- purses: virtual actors with a stored state ---- */

TR_MESSAGE(Sum, (uint32_t, sum));
TR_REQUEST(Deposit, Sum);
TR_STATE(Purse, (uint32_t, sum));

HELPER tr_err on_deposit(tr_ctx *ctx, Purse *self, const Deposit *m)
{
    Purse next = {.sum = self->sum + 1};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .sum = self->sum);
}

TR_ACTOR(purse, Purse, TR_ON(Deposit, on_deposit));

HELPER void host_purses(tr_system *sys)
{
    tr_storage *store;  // closed with the process
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_host(sys, purse, .storage = store, .idle = TR_MS(3),
                    .max_active = 2));
}

HELPER tr_ref purse_of(tr_from from, unsigned n)
{
    const char key[] = {'a', (char)('0' + n % 4), '\0'};
    return tr_virtual(from, "purse", key);
}

HELPER void deposit(tr_from from, unsigned n, tr_nanos span)
{
    ignore(tr_ask(from, purse_of(from, n), NULL, span, Deposit));
}

#endif
