/*
 * ledger.h - an account book made of events, for tests: the events, the actor,
 * and a system with a store of each kind under one that captures and fails.
 */
#ifndef TEST_SYSTEM_LEDGER_H
#define TEST_SYSTEM_LEDGER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "unit/storage/each_store.h"

enum { EVERY = 4, PAGES_OF_EVENTS = 2500 };

/* ---- what happens ---- */

TR_MESSAGE(Deposited, (int64_t, cents), (const char *, memo),
           (uint32_t, branch));
TR_MESSAGE(Withdrawn, (int64_t, cents));
TR_MESSAGE(Noted, (const char *, line));
TR_MESSAGE(Unknown, (int64_t, x));

TR_MESSAGE(Line, (const char *, text));
TR_STATE(Ledger, (int64_t, cents), (const char *, memo), (uint32_t, branch),
         (list, Line, lines));

static inline void deposited(Ledger *self, const Deposited *e)
{
    self->cents += e->cents;
    self->memo = e->memo;  // into the event: it is copied
    self->branch = e->branch;
}

static inline void withdrawn(Ledger *self, const Withdrawn *e)
{
    self->cents -= e->cents;
}

static inline void noted(tr_ctx *ctx, Ledger *self, const Noted *e)
{
    Line *lines = tr_scratch(ctx, (self->lines.count + 1) * sizeof(*lines));
    for (size_t i = 0; i < self->lines.count; i++) {
        lines[i] = self->lines.at[i];
    }
    if (strcmp(e->line, "panic") == 0) {
        tr_panic(ctx, "this line cannot be applied");
    }
    lines[self->lines.count].text = tr_textf(ctx, "<%s>", e->line);
    self->lines.at = lines;
    self->lines.count++;
}

/* ---- the actor ---- */

TR_MESSAGE(Value, (int64_t, cents), (const char *, memo), (uint64_t, sequence),
           (uint32_t, starts), (const char *, lines));
TR_REQUEST(Deposit, Value, (int64_t, cents), (const char *, memo),
           (uint32_t, times));
TR_REQUEST(Move, Value, (int64_t, in), (int64_t, out));
TR_REQUEST(Write, Value, (const char *, line));
TR_REQUEST(Misuse, Value, (int32_t, how));
TR_REQUEST(Get, Value);
TR_MESSAGE(Crash);

static inline tr_err answer(tr_ctx *ctx, const Ledger *self, const void *m)
{
    char *lines = tr_textf(ctx, "%s", "");
    for (size_t i = 0; i < self->lines.count; i++) {
        lines = tr_textf(ctx, "%s%s", lines, self->lines.at[i].text);
    }
    return (tr_reply)(ctx, m,
                      &(Value){.cents = self->cents,
                               .memo = self->memo,
                               .sequence = tr_sequence(ctx),
                               .starts = tr_incarnation(ctx),
                               .lines = lines});
}

static inline tr_err end_with(tr_ctx *ctx, const Ledger *self, const void *m,
                              tr_err err)
{
    return err == TR_OK ? answer(ctx, self, m)
                        : tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
}

static inline tr_err on_deposit(tr_ctx *ctx, Ledger *self, const Deposit *m)
{
    tr_err err = TR_OK;
    for (uint32_t i = 0; i <= m->times && err == TR_OK; i++) {
        int64_t before = self->cents;
        uint64_t sequence = tr_sequence(ctx);
        err = tr_emit(ctx, self, Deposited, .cents = m->cents, .memo = m->memo);
        assert_int_equal(self->cents, before + (err == TR_OK ? m->cents : 0));
        assert_int_equal(tr_sequence(ctx), sequence + (err == TR_OK));
    }
    return end_with(ctx, self, m, err);
}

static inline tr_err on_move(tr_ctx *ctx, Ledger *self, const Move *m)
{
    return end_with(ctx, self, m,
                    tr_emit_all(ctx, self, TR_EVENT(Deposited, .cents = m->in),
                                TR_EVENT(Withdrawn, .cents = m->out)));
}

static inline tr_err on_write(tr_ctx *ctx, Ledger *self, const Write *m)
{
    return end_with(ctx, self, m, tr_emit(ctx, self, Noted, .line = m->line));
}

static inline tr_err on_misuse(tr_ctx *ctx, Ledger *self, const Misuse *m)
{
    static const tr_event many[1025];
    Ledger copy = *self;
    tr_err err = m->how == 0   ? tr_emit(ctx, self, Unknown, .x = 1)
                 : m->how == 1 ? tr_persist(ctx, self, &copy)
                 : m->how == 2 ? tr_emit(ctx, &copy, Withdrawn, .cents = 1)
                 : m->how == 3 ? (tr_emit)(ctx, self, many, 1025, TR_HERE)
                               : (tr_emit)(ctx, self, many, 0, TR_HERE);
    return end_with(ctx, self, m, err);
}

static inline tr_err on_get(tr_ctx *ctx, const Ledger *self, const Get *m)
{
    return answer(ctx, self, m);
}

static inline tr_err on_crash(tr_ctx *ctx, Ledger *self, const Crash *m)
{
    (void)m;
    self->cents = -1;  // what no event says is lost
    return tr_fail(ctx, TR_EFAILED, "on purpose");
}

#define LEDGER                                                                 \
    TR_ON(Deposit, on_deposit), TR_ON(Move, on_move), TR_ON(Write, on_write),  \
        TR_ON(Misuse, on_misuse), TR_ON_READ(Get, on_get),                     \
        TR_ON(Crash, on_crash), TR_APPLY(Deposited, deposited),                \
        TR_APPLY(Withdrawn, withdrawn), TR_APPLY_CTX(Noted, noted)

TR_ACTOR(ledger, Ledger, LEDGER, TR_SNAPSHOT_EVERY(EVERY));
TR_ACTOR(trimmed, Ledger, LEDGER, TR_SNAPSHOT_EVERY(EVERY), TR_TRIM_EVENTS);
TR_ACTOR(plain, Ledger, TR_ON(Deposit, on_deposit));

/* ---- fixture ---- */

typedef struct fixture {
    tr_system *sys;
    tr_storage *inner, *store;
    each_store each;
} fixture;

static inline int open_all(void **state, each_kind kind)
{
    static fixture f;
    each_new(&f.each, kind);
    f.inner = f.each.store;
    TR_MUST(tr_storage_capture(&f.store, f.inner));
    TR_MUST(tr_system_open(&f.sys, .workers = 2, .log_level = 9));
    *state = &f;
    return 0;
}

static inline int close_all(void **state)
{
    fixture *f = *state;
    tr_err err = tr_system_close(f->sys, 0);
    tr_storage_close(f->store);
    return each_free(&f->each) != 0 || err != TR_OK;
}

EACH_OPEN(open_all)

#define IN_EACH_STORE(test) IN_EACH(test, open_all, close_all)

#define spawn_with(f, A, ...)                                                  \
    tr_spawn((f)->sys, A, .storage = (f)->store, .joinable = true,             \
             .supervision = TR_SUPERVISE(.backoff_min = 1), __VA_ARGS__)
#define KEY(name) "local::ledger//user/" name

static inline tr_err deposit(fixture *f, tr_ref ref, int64_t cents,
                             const char *memo, uint32_t times)
{
    return tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Deposit, .cents = cents,
                  .memo = memo, .times = times - 1);
}

static inline void expect(fixture *f, tr_ref ref, int64_t cents,
                          const char *memo, uint64_t sequence)
{
    Value v;
    assert_int_equal(tr_ask(f->sys, ref, &v, TR_SECONDS(60), Get), TR_OK);
    assert_int_equal(v.cents, cents);
    assert_int_equal(v.sequence, sequence);
    if (memo == NULL) {
        assert_null(v.memo);
    } else {
        assert_string_equal(v.memo, memo);
    }
    tr_drop(Value, &v);
}

static inline void end(fixture *f, tr_ref ref)
{
    tr_stop(f->sys, ref);
    assert_int_equal(tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL), TR_OK);
}

/* A start that fails; its text must say all of these. */
static inline void expect_no_start(fixture *f, tr_ref ref, const char *a,
                                   const char *b, const char *c)
{
    tr_result result;
    assert_int_equal(tr_join(f->sys, ref, TR_SECONDS(60), &result, NULL),
                     TR_OK);
    assert_int_equal(result.reason, TR_FAILED);
    assert_int_equal(result.err, TR_ESTORAGE);
    assert_non_null(strstr(result.text, a));
    assert_non_null(strstr(result.text, b));
    assert_non_null(strstr(result.text, c));
}

#define spawn_failing(f, A, ...)                                               \
    tr_spawn((f)->sys, A, .storage = (f)->store, .joinable = true,             \
             .supervision = TR_SUPERVISE(.on_failure = TR_STOP), __VA_ARGS__)

static inline size_t count_calls(fixture *f, tr_store_call call)
{
    tr_captured seen;
    size_t count = 0;
    for (size_t i = 0; tr_storage_captured(f->store, i, &seen); i++) {
        count += seen.call == call && seen.err == TR_OK;
    }
    return count;
}

static inline void append_raw(fixture *f, const char *key, uint64_t last,
                              const char *text)
{
    tri_store_bytes event = bytes_of(text);
    asked it = ask_for(TR_STORE_APPEND, key);
    it.op.number = last;
    it.op.events = &event;
    it.op.event_count = 1;
    assert_int_equal(asked_run(&it, f->inner), TR_OK);
    tri_store_op_fini(&it.op);
}

static inline uint64_t snapshot_version(fixture *f, const char *key)
{
    asked it = ask_for(TR_STORE_LOAD, key);
    assert_int_equal(asked_run(&it, f->inner), TR_OK);
    uint64_t version = it.op.found ? it.op.version : 0;
    tri_store_op_fini(&it.op);
    return version;
}

/* Overwrites the snapshot; a store deletes it only together with the events. */
static inline void drop_snapshot(fixture *f, const char *key)
{
    asked it = ask_save(key, snapshot_version(f, key), "gone");
    assert_true(it.op.number > 0);
    assert_int_equal(asked_run(&it, f->inner), TR_OK);
    tri_store_op_fini(&it.op);
}

#endif
