/*
 * timepiece.h - an actor with reminders, over one store, in one world in which
 * systems come and go: for the tests of reminders on virtual time.
 */
#ifndef TEST_UNIT_SYSTEM_TIMEPIECE_H
#define TEST_UNIT_SYSTEM_TIMEPIECE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "support/core.h"
#include "unit/storage/store_calls.h"

enum { RANG_MAX = 2048 };

/* ---- the actor ---- */

TR_MESSAGE(Ring, (int64_t, number), (const char *, text));
TR_MESSAGE(Plain, (int64_t, number));
TR_REQUEST(Ask, tr_none, (int64_t, delay), (int64_t, period),
           (const char *, name), (int64_t, number));
TR_REQUEST(Drop, tr_none, (const char *, name));
TR_REQUEST(Wrong, tr_none, (int32_t, how));
TR_STATE(Clock, (int64_t, count));

/* What the tests look at; everything runs in one thread. */
static struct {
    tr_nanos at[RANG_MAX];
    int64_t number[RANG_MAX];
    int rang;
    tr_sim *sim;
    int fails;  // so many handlers fail
    int then;   // 1: sets it anew, 2: forgets it, 3: puts it aside,
                // 4: sets another
} seen;

static tr_err on_ring(tr_ctx *ctx, Clock *self, const Ring *m)
{
    (void)self;
    assert_string_equal(m->text, "ding");
    if (seen.fails > 0) {
        seen.fails--;
        return tr_fail(ctx, TR_EFAILED, "not now");
    }
    if (seen.then == 3) {
        seen.then = 0;
        (void)tr_after(ctx, TR_SECONDS(30), Plain, .number = 3);
        return tr_stash(ctx, m);
    }
    assert_true(seen.rang < RANG_MAX);
    seen.at[seen.rang] = tr_sim_now(seen.sim);
    seen.number[seen.rang++] = m->number;
    int then = seen.then;
    seen.then = 0;
    return then == 1   ? tr_remind(ctx, "r", TR_SECONDS(5), 0, Ring,
                                   .number = 100, .text = "ding")
           : then == 4 ? tr_remind(ctx, "s", TR_SECONDS(5), 0, Ring,
                                   .number = 200, .text = "ding")
           : then == 2 ? tr_forget(ctx, "r")
                       : TR_OK;
}

static tr_err on_ask(tr_ctx *ctx, Clock *self, const Ask *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_remind(ctx, m->name, m->delay, m->period, Ring,
                           .number = m->number, .text = "ding"));
    return tr_reply(ctx, m);
}

static tr_err on_drop(tr_ctx *ctx, Clock *self, const Drop *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, m->name));
    return tr_reply(ctx, m);
}

static tr_err on_wrong(tr_ctx *ctx, Clock *self, const Wrong *m)
{
    char name[130];
    (void)self;
    memset(name, 'x', sizeof(name));
    name[129] = '\0';
    TR_OR_REFUSE(ctx, m,
                 m->how == 0   ? tr_remind(ctx, "r", 1, 0, Plain)
                 : m->how == 1 ? tr_remind(ctx, "r", -1, 0, Ring)
                 : m->how == 2 ? tr_remind(ctx, "r", 1, -1, Ring)
                 : m->how == 3 ? tr_remind(ctx, "", 1, 0, Ring)
                 : m->how == 4 ? tr_remind(ctx, name, 1, 0, Ring)
                               : tr_remind(ctx, "r", INT64_MAX, 0, Ring));
    return tr_reply(ctx, m);
}

static tr_err on_plain(tr_ctx *ctx, Clock *self, const Plain *m)
{
    (void)self;
    (void)m;
    tr_unstash_all(ctx);
    return TR_OK;
}

TR_ACTOR(timepiece, Clock, TR_ON_REMINDER(Ring, on_ring), TR_ON(Ask, on_ask),
         TR_ON(Drop, on_drop), TR_ON(Wrong, on_wrong), TR_ON(Plain, on_plain));

/* ---- one store, one world, systems that come and go ---- */

typedef struct fixture {
    tr_sim *sim;
    tr_system *sys;
    tr_storage *memory, *store;
} fixture;

static inline void up(fixture *f)
{
    TR_MUST(
        tr_system_open(&f->sys, .world = tr_sim_world(f->sim), .log_level = 9));
    TR_MUST(tr_host(
        f->sys, timepiece, .storage = f->store, .idle = TR_SECONDS(20),
        .spawn = TR_OPTIONS(tr_spawn_options,
                            .supervision = TR_SUPERVISE(.backoff_min = 1))));
}

static inline void down(fixture *f)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
    f->sys = NULL;
}

static inline int open_all(void **state)
{
    static fixture f;
    memset(&seen, 0, sizeof(seen));
    TR_MUST(tr_sim_new(&f.sim, 7));
    seen.sim = f.sim;
    TR_MUST(tr_storage_memory(&f.memory));
    TR_MUST(tr_storage_capture(&f.store, f.memory));
    up(&f);
    *state = &f;
    return 0;
}

static inline int close_all(void **state)
{
    fixture *f = *state;
    if (f->sys != NULL) {
        down(f);
    }
    tr_storage_close(f->store);
    tr_storage_close(f->memory);
    tr_sim_free(f->sim);
    return 0;
}

static inline tr_err remind(fixture *f, const char *key, const char *name,
                            tr_nanos delay, tr_nanos period, int64_t number)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "timepiece", key), NULL,
                  TR_SECONDS(5), Ask, .delay = delay, .period = period,
                  .name = name, .number = number);
}

static inline tr_err forget(fixture *f, const char *key, const char *name)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "timepiece", key), NULL,
                  TR_SECONDS(5), Drop, .name = name);
}

static inline void pass(fixture *f, tr_nanos span)
{
    tr_sim_advance(f->sim, span);
}

static inline void expect_at(int i, tr_nanos at)
{
    assert_true(i < seen.rang);
    assert_true(seen.at[i] >= at);
    assert_true(seen.at[i] < at + TR_MS(200));
}

#endif
