/*
 * must_fail.c - mistakes that the compiler must refuse.
 *
 * Each CASE must be an error without any warning option; CASE 0 must compile
 * without a warning. must_fail.sh compiles them. A case that compiles is a gap
 * in the type checks of the macros.
 */
#include "bank.h"

TR_MESSAGE(Tick, (uint32_t, n));
TR_STATE(Other, (uint32_t, x));
typedef struct Holder {
    Account *bad;
} Holder;

static tr_err on_tick(tr_ctx *ctx, Account *self, const Tick *m)
{
    (void)self;
    tr_tell(ctx, tr_self(ctx), Tick, .n = m->n);
    return TR_OK;
}
static tr_err on_tick_read(tr_ctx *ctx, const Account *self, const Tick *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
static tr_err start(tr_ctx *ctx, Account *self)
{
    (void)ctx, (void)self;
    return TR_OK;
}
static void returns_nothing(tr_ctx *ctx, Account *self, const Tick *m)
{
    (void)ctx, (void)self, (void)m;
}
static tr_err takes_other_state(tr_ctx *ctx, Other *self, const Tick *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
static tr_err takes_mutable(tr_ctx *ctx, Account *self, Tick *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
static tr_err on_any(tr_ctx *ctx, Account *self, const tr_msg *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
static void on_event(void *user, const tr_type *type, const void *event)
{
    (void)user, (void)type, (void)event;
}
TR_ACTOR(good, Account, TR_ON(Tick, on_tick), TR_HOOK(pre_start, start));
TR_ACTOR(other, Other, TR_ON(Tick, takes_other_state));

#if CASE == 1 /* handler takes another message */
TR_ACTOR(bad, Account, TR_ON(Deposit, on_tick));
#endif
#if CASE == 2 /* handler of another state */
TR_ACTOR(bad, Account, TR_ON(Tick, takes_other_state));
#endif
#if CASE == 3 /* handler returns nothing */
TR_ACTOR(bad, Account, TR_ON(Tick, returns_nothing));
#endif
#if CASE == 4 /* handler could write to the message */
TR_ACTOR(bad, Account, TR_ON(Tick, takes_mutable));
#endif
#if CASE == 5 /* a read-only handler with a writable state */
TR_ACTOR(bad, Account, TR_ON_READ(Tick, on_tick));
#endif
#if CASE == 6 /* no such hook */
TR_ACTOR(bad, Account, TR_HOOK(pre_strat, start));
#endif
#if CASE == 7 /* hook of the wrong shape */
TR_ACTOR(bad, Account, TR_HOOK(post_stop, start));
#endif
#if CASE == 8 /* the same message twice */
TR_ACTOR(bad, Account, TR_ON(Tick, on_tick), TR_ON_READ(Tick, on_tick_read));
#endif
#if CASE == 9 /* a field whose type has no schema */
TR_MESSAGE(Bad, (Account *, pointer));
#endif
#if CASE == 10 /* writable text in a message */
TR_MESSAGE(Bad, (char *, text));
#endif
#if CASE == 11 /* reply type not declared */
TR_REQUEST(Bad, Nothing, (uint32_t, n));
#endif
#if CASE == 12 /* list of something that is no message */
TR_MESSAGE(Bad, (list, Holder, holders));
#endif
#if CASE == 42 /* text is always optional */
TR_MESSAGE(Bad, (optional, const char *, text));
#endif
#if CASE == 43 /* an optional message without the word nested */
TR_MESSAGE(Bad, (optional, Tick, tick));
#endif
#if CASE == 13 /* a message name the wire has no room for */
TR_MESSAGE(a_name_that_is_longer_than_all_of_32, (uint32_t, n));
#endif
#if CASE == 14 /* two handlers for the rest */
TR_ACTOR(bad, Account, TR_ON_ANY(on_any), TR_ON_ANY(on_any));
#endif

tr_err body(tr_ctx *ctx, tr_system *sys, Account *self, const Account *seen,
            const Deposit *m, const Tick *tick, AccountRef typed);
tr_err body(tr_ctx *ctx, tr_system *sys, Account *self, const Account *seen,
            const Deposit *m, const Tick *tick, AccountRef typed)
{
    Balance b = {0};
    Other o = {0};
    tr_ref to = tr_spawn(ctx, good, TR_INIT(good, .cents = 1));
    tr_tell_to(ctx, typed, Deposit, .cents = 1);
    TR_TRY(tr_ask(sys, to, &b, 0, Deposit, .cents = 1));
    TR_TRY(tr_ask(ctx, to, NULL, 0, Deposit));
    tr_become(ctx, self, good);
    TR_TRY(tr_persist(ctx, self, seen));
    TR_TRY(tr_reply(ctx, m, .cents = 1));
    tr_tell_urgent(ctx, to, 3, Tick, .n = 1);
    tr_ask_pipe(ctx, to, 0, Deposit, .cents = 1);
    tr_topic_publish(sys, "ticks", Tick, .n = 1);
    TR_TRY(tr_dispatcher_add(sys, "db", .kind = TR_DISPATCH_BLOCKING));
    TR_TRY(tr_on_event(sys, tr_dead_letter, on_event, NULL));
    (void)o, (void)tick, (void)other;
    (void)on_tick_read, (void)returns_nothing, (void)takes_mutable;
    (void)on_any;
#if CASE == 15 /* wrong field of a message */
    tr_tell(ctx, to, Deposit, .amount = 1);
#endif
#if CASE == 16 /* no such message */
    tr_tell(ctx, to, Depozit, .cents = 1);
#endif
#if CASE == 17 /* the protocol has no such message */
    tr_tell_to(ctx, typed, Tick, .n = 1);
#endif
#if CASE == 18 /* reply into the wrong type */
    TR_TRY(tr_ask(ctx, to, &o, 0, Deposit, .cents = 1));
#endif
#if CASE == 19 /* asking with a one-way message */
    TR_TRY(tr_ask(ctx, to, NULL, 0, Tick));
#endif
#if CASE == 20 /* replying with a field the reply does not have */
    return tr_reply(ctx, m, .total = 1);
#endif
#if CASE == 21 /* replying to a one-way message */
    return tr_reply(ctx, tick, .cents = 1);
#endif
#if CASE == 22 /* persisting another type */
    return tr_persist(ctx, self, &o);
#endif
#if CASE == 23 /* persisting from a read-only handler */
    return tr_persist(ctx, seen, &b);
#endif
#if CASE == 24 /* becoming a behaviour of another state */
    tr_become(ctx, self, other);
#endif
#if CASE == 25 /* acting as something that cannot act */
    tr_tell(to, to, Tick);
#endif
#if CASE == 26 /* replying from outside */
    return tr_reply(sys, m, .cents = 1);
#endif
#if CASE == 27 /* wrong spawn option */
    to = tr_spawn(ctx, good, .nmae = "x");
#endif
#if CASE == 28 /* initial state of another type */
    to = tr_spawn(ctx, good, TR_INIT(good, .x = 1));
#endif
#if CASE == 29 /* writing to a message */
    m->cents = 0;
#endif
#if CASE == 30 /* spawning something that is no actor */
    to = tr_spawn(ctx, b);
#endif
#if CASE == 31 /* await of another request's reply */
    return tr_await(ctx, tr_async(ctx, to, 0, Deposit), Deposit, &o);
#endif
#if CASE == 32 /* wrong field of an urgent message */
    tr_tell_urgent(ctx, to, 3, Tick, .m = 1);
#endif
#if CASE == 33 /* a reply piped from a one-way message */
    tr_ask_pipe(ctx, to, 0, Tick, .n = 1);
#endif
#if CASE == 34 /* a future of a one-way message */
    (void)tr_async(ctx, to, 0, Tick);
#endif
#if CASE == 35 /* piping to something that has no turn */
    tr_ask_pipe(sys, to, 0, Deposit);
#endif
#if CASE == 36 /* publishing a field the message does not have */
    tr_topic_publish(sys, "ticks", Tick, .m = 1);
#endif
#if CASE == 37 /* events of no known type */
    return tr_on_event(sys, Nothing, on_event, NULL);
#endif
#if CASE == 38 /* dropping a value as another type */
    tr_drop(Other, &b);
#endif
#if CASE == 39 /* an option of another struct */
    return tr_dispatcher_add(sys, "db", .workers = 1);
#endif
#if CASE == 40 /* asking with a message outside the protocol */
    return tr_ask_to(ctx, typed, NULL, 0, Tick);
#endif
#if CASE == 41 /* subscribing without a turn */
    tr_subscribe(sys, Tick);
#endif
#if CASE == 44 /* serving a kind whose state has no stream */
    return tr_ref_err(tr_serve(sys, "tcp://127.0.0.1:0", account));
#endif
    return TR_OK;
}
