/*
 * counter.h - a virtual actor that counts, for tests; its hooks do what `stage`
 * says, and tell the probe what they see.
 */
#ifndef TEST_CLUSTER_COUNTER_H
#define TEST_CLUSTER_COUNTER_H

#include <stdatomic.h>

#include "unit/cluster/scenario.h"

#define IDLE TR_MINUTES(10)

TR_MESSAGE(Note, (const char *, text), (int64_t, number), (tr_ref, ref));
TR_MESSAGE(Count, (int64_t, number), (const char *, key), (tr_ref, self),
           (uint64_t, epoch));
TR_REQUEST(Get, Count);
TR_REQUEST(Hold, Count);  // kept until Release
TR_REQUEST(Nap, Count, (int64_t, span));
TR_REQUEST(Call, Count, (tr_ref, to), (tr_ref, back));
TR_REQUEST(Store, Count, (int64_t, number));
TR_MESSAGE(Release);
TR_MESSAGE(Add, (int64_t, number));
TR_MESSAGE(Tick, (int64_t, number));  // does not keep it active
TR_MESSAGE(Fail);
TR_MESSAGE(Greet, (tr_ref, to));

TR_STATE(Counter, (int64_t, count));

/* What the hooks need to know; tests run one at a time. */
static struct {
    tr_ref probe;
    _Atomic(bool) tells;  // the hooks tell the probe
    tr_nanos start_for, stop_for;
    tr_err start_err;
    const Hold *held;
} stage;

static inline void note(tr_ctx *ctx, const char *text, int64_t number)
{
    if (stage.tells) {
        tr_tell(ctx, stage.probe, Note, .text = text, .number = number,
                .ref = tr_self(ctx));
    }
}

static inline tr_err counter_start(tr_ctx *ctx, Counter *self)
{
    if (stage.start_for > 0) {
        TR_TRY(tr_sleep(ctx, stage.start_for));
    }
    if (stage.start_err != TR_OK) {
        return tr_fail(ctx, stage.start_err, "no start today");
    }
    note(ctx, "start", self->count);
    return TR_OK;
}

static inline tr_err counter_stop(tr_ctx *ctx, Counter *self, tr_reason reason)
{
    (void)self;
    if (stage.stop_for > 0) {
        TR_TRY(tr_sleep(ctx, stage.stop_for));
    }
    note(ctx, "stop", reason);
    return TR_OK;
}

static inline tr_err on_get(tr_ctx *ctx, Counter *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->count, .key = tr_key(ctx),
                    .self = tr_self(ctx), .epoch = tr_epoch(ctx));
}

static inline tr_err on_hold(tr_ctx *ctx, Counter *self, const Hold *m)
{
    (void)self;
    stage.held = tr_keep(ctx, m);
    return TR_OK;
}

static inline tr_err on_release(tr_ctx *ctx, Counter *self, const Release *m)
{
    (void)m;
    tr_err err = tr_reply(ctx, stage.held, .number = self->count);
    tr_release(ctx, stage.held);
    return err;
}

static inline tr_err on_nap(tr_ctx *ctx, Counter *self, const Nap *m)
{
    TR_TRY(tr_sleep(ctx, m->span));
    return tr_reply(ctx, m, .number = self->count);
}

static inline tr_err on_call(tr_ctx *ctx, Counter *self, const Call *m)
{
    Count count;
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_ref_eq(m->back, TR_NOBODY)
                     ? tr_ask(ctx, m->to, &count, 0, Get)
                     : tr_ask(ctx, m->to, &count, 0, Call, .to = m->back));
    return tr_reply(ctx, m, .number = count.number);
}

static inline tr_err on_store(tr_ctx *ctx, Counter *self, const Store *m)
{
    Counter next = {.count = m->number};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .number = self->count);
}

static inline tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    note(ctx, "add", m->number);
    self->count += m->number;
    return TR_OK;
}

static inline tr_err on_tick(tr_ctx *ctx, Counter *self, const Tick *m)
{
    (void)ctx;
    self->count += m->number;
    return TR_OK;
}

static inline tr_err on_fail(tr_ctx *ctx, Counter *self, const Fail *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EUSER, "told to fail");
}

static inline tr_err on_greet(tr_ctx *ctx, Counter *self, const Greet *m)
{
    (void)self;
    tr_tell(ctx, m->to, Note, .text = "hello", .ref = tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_HOOK(pre_start, counter_start),
         TR_HOOK(post_stop, counter_stop), TR_ON(Get, on_get),
         TR_ON(Hold, on_hold), TR_ON(Release, on_release), TR_ON(Nap, on_nap),
         TR_ON(Call, on_call), TR_ON(Store, on_store), TR_ON(Add, on_add),
         TR_ON_QUIET(Tick, on_tick), TR_ON(Fail, on_fail),
         TR_ON(Greet, on_greet));

/* ---- the stage ---- */

static inline void set_stage(world *w)
{
    memset(&stage, 0, sizeof(stage));
    stage.probe = tr_probe_ref(w->probe);
}

static inline void clear_stage(world *w)
{
    (void)w;
    stage.tells = false;
}

#define EVERYWHERE(name) SCENARIO(name, 0, set_stage, clear_stage)
#define VIRTUALLY(name)  SCENARIO(name, 1, set_stage, clear_stage)

static inline tr_ref named(world *w, const char *key)
{
    tr_ref ref = tr_virtual(w->sys, "counter", key);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    return ref;
}

static inline int64_t get(world *w, tr_ref ref)
{
    Count count;
    assert_int_equal(tr_ask(w->sys, ref, &count, 0, Get), TR_OK);
    int64_t number = count.number;
    tr_drop(Count, &count);
    return number;
}

static inline void heard(world *w, const char *text, int64_t number)
{
    const Note *n = tr_expect(w->probe, TR_SECONDS(86400), Note);
    assert_string_equal(n->text, text);
    assert_int_equal(n->number, number);
}

#endif
