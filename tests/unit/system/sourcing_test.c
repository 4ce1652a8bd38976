/*
 * sourcing_test.c - states made of events: emitting, replay, snapshots,
 * reading them, and what happens when the store or memory fails; in memory,
 * in a file and in a database.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "core/runtime.h"
#include "unit/storage/each_store.h"

enum { EVERY = 4, PAGES_OF_EVENTS = 2500, SCENARIO_MAX = 400 };

/* ---- what happens ---- */

TR_MESSAGE(Deposited, (int64_t, cents), (const char *, memo),
           (uint32_t, branch));
TR_MESSAGE(Withdrawn, (int64_t, cents));
TR_MESSAGE(Noted, (const char *, line));
TR_MESSAGE(Unknown, (int64_t, x));

TR_MESSAGE(Line, (const char *, text));
TR_STATE(Ledger, (int64_t, cents), (const char *, memo), (uint32_t, branch),
         (list, Line, lines));

static void deposited(Ledger *self, const Deposited *e)
{
    self->cents += e->cents;
    self->memo = e->memo;  // into the event: it is copied
    self->branch = e->branch;
}

static void withdrawn(Ledger *self, const Withdrawn *e)
{
    self->cents -= e->cents;
}

static void noted(tr_ctx *ctx, Ledger *self, const Noted *e)
{
    Line *lines =
        tr_scratch(ctx, (self->lines.count + 1) * sizeof(*lines));
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

TR_MESSAGE(Value, (int64_t, cents), (const char *, memo),
           (uint64_t, sequence), (uint32_t, starts), (const char *, lines));
TR_REQUEST(Deposit, Value, (int64_t, cents), (const char *, memo),
           (uint32_t, times));
TR_REQUEST(Move, Value, (int64_t, in), (int64_t, out));
TR_REQUEST(Write, Value, (const char *, line));
TR_REQUEST(Misuse, Value, (int32_t, how));
TR_REQUEST(Get, Value);
TR_MESSAGE(Crash);

static tr_err answer(tr_ctx *ctx, const Ledger *self, const void *m)
{
    char *lines = tr_textf(ctx, "%s", "");
    for (size_t i = 0; i < self->lines.count; i++) {
        lines = tr_textf(ctx, "%s%s", lines, self->lines.at[i].text);
    }
    return (tr_reply)(ctx, m,
                      &(Value){.cents = self->cents, .memo = self->memo,
                               .sequence = tr_sequence(ctx),
                               .starts = tr_incarnation(ctx),
                               .lines = lines});
}

static tr_err end_with(tr_ctx *ctx, const Ledger *self, const void *m,
                       tr_err err)
{
    return err == TR_OK ? answer(ctx, self, m)
                        : tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
}

static tr_err on_deposit(tr_ctx *ctx, Ledger *self, const Deposit *m)
{
    tr_err err = TR_OK;
    for (uint32_t i = 0; i <= m->times && err == TR_OK; i++) {
        int64_t before = self->cents;
        uint64_t sequence = tr_sequence(ctx);
        err = tr_emit(ctx, self, Deposited, .cents = m->cents,
                      .memo = m->memo);
        assert_int_equal(self->cents,
                         before + (err == TR_OK ? m->cents : 0));
        assert_int_equal(tr_sequence(ctx), sequence + (err == TR_OK));
    }
    return end_with(ctx, self, m, err);
}

static tr_err on_move(tr_ctx *ctx, Ledger *self, const Move *m)
{
    return end_with(ctx, self, m,
                    tr_emit_all(ctx, self,
                                TR_EVENT(Deposited, .cents = m->in),
                                TR_EVENT(Withdrawn, .cents = m->out)));
}

static tr_err on_write(tr_ctx *ctx, Ledger *self, const Write *m)
{
    return end_with(ctx, self, m,
                    tr_emit(ctx, self, Noted, .line = m->line));
}

static tr_err on_misuse(tr_ctx *ctx, Ledger *self, const Misuse *m)
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

static tr_err on_get(tr_ctx *ctx, const Ledger *self, const Get *m)
{
    return answer(ctx, self, m);
}

static tr_err on_crash(tr_ctx *ctx, Ledger *self, const Crash *m)
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

/* ---- a store that holds appends back ---- */

typedef struct slow_store {
    tr_storage base;
    tr_storage *inner;
    tri_lock lock;
    bool holds;
    tri_list held;
    _Atomic(uint32_t) count;  // held so far
} slow_store;

static void slow_submit(tr_storage *storage, tri_list *ops)
{
    slow_store *store = tri_container_of(storage, slow_store, base);
    tri_link *link;
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        tri_lock_take(&store->lock);
        bool hold = store->holds && op->call == TR_STORE_APPEND;
        if (hold) {
            tri_list_push_back(&store->held, link);
        }
        tri_lock_drop(&store->lock);
        if (!hold) {
            tri_storage_submit(store->inner, op);
            continue;
        }
        tri_world *world = tri_world_posix();
        // Release: pairs with slow_wait.
        atomic_fetch_add_explicit(&store->count, 1, memory_order_release);
        world->ops->wake(world, &store->count, 1);
    }
}

static void slow_close(tr_storage *storage)
{
    (void)storage;
}

static void slow_open(slow_store *store, tr_storage *inner)
{
    static const tri_storage_ops ops = {"slow", slow_submit, slow_close};
    *store = (slow_store){.inner = inner, .holds = true};
    tri_storage_init(&store->base, &ops);
    tri_lock_init(&store->lock);
    tri_list_init(&store->held);
}

static void slow_release(slow_store *store)
{
    tri_link *link;
    for (;;) {
        tri_lock_take(&store->lock);
        store->holds = false;
        link = tri_list_pop_front(&store->held);
        tri_lock_drop(&store->lock);
        if (link == NULL) {
            return;
        }
        tri_storage_submit(store->inner,
                           tri_container_of(link, tri_store_op, link));
    }
}

/* Waits until an append is held. */
static void slow_wait(slow_store *store)
{
    tri_world *world = tri_world_posix();
    // Acquire: pairs with slow_submit.
    while (atomic_load_explicit(&store->count, memory_order_acquire) == 0) {
        (void)world->ops->park(world, &store->count, 0, TR_FOREVER);
    }
}

/* ---- fixture ---- */

typedef struct fixture {
    tr_system *sys;
    tr_storage *inner, *store;
    each_store each;
} fixture;

static int open_all(void **state, each_kind kind)
{
    static fixture f;
    each_new(&f.each, kind);
    f.inner = f.each.store;
    TR_MUST(tr_storage_capture(&f.store, f.inner));
    TR_MUST(tr_system_open(&f.sys, .workers = 2, .log_level = 9));
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    tr_err err = tr_system_close(f->sys, 0);
    tr_storage_close(f->store);
    return each_free(&f->each) != 0 || err != TR_OK;
}

EACH_OPEN(open_all)

#define spawn_with(f, A, ...)                                                  \
    tr_spawn((f)->sys, A, .storage = (f)->store, .joinable = true,             \
             .supervision = TR_SUPERVISE(.backoff_min = 1), __VA_ARGS__)
#define KEY(name) "local::ledger//user/" name

static tr_err deposit(fixture *f, tr_ref ref, int64_t cents,
                      const char *memo, uint32_t times)
{
    return tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Deposit, .cents = cents,
                  .memo = memo, .times = times - 1);
}

static void expect(fixture *f, tr_ref ref, int64_t cents, const char *memo,
                   uint64_t sequence)
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

static void end(fixture *f, tr_ref ref)
{
    tr_stop(f->sys, ref);
    assert_int_equal(tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL), TR_OK);
}

/* A start that fails; its text must say all of these. */
static void expect_no_start(fixture *f, tr_ref ref, const char *a,
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

#define spawn_doomed(f, A, ...)                                                \
    tr_spawn((f)->sys, A, .storage = (f)->store, .joinable = true,             \
             .supervision = TR_SUPERVISE(.on_failure = TR_STOP), __VA_ARGS__)

static size_t count_calls(fixture *f, tr_store_call call)
{
    tr_captured seen;
    size_t count = 0;
    for (size_t i = 0; tr_storage_captured(f->store, i, &seen); i++) {
        count += seen.call == call && seen.err == TR_OK;
    }
    return count;
}

static void append_raw(fixture *f, const char *key, uint64_t last,
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

static uint64_t snapshot_version(fixture *f, const char *key)
{
    asked it = ask_for(TR_STORE_LOAD, key);
    assert_int_equal(asked_run(&it, f->inner), TR_OK);
    uint64_t version = it.op.found ? it.op.version : 0;
    tri_store_op_fini(&it.op);
    return version;
}

static void drop_snapshot(fixture *f, const char *key)
{
    asked it = ask_for(TR_STORE_DELETE, key);
    it.op.number = snapshot_version(f, key);
    assert_true(it.op.number > 0);
    assert_int_equal(asked_run(&it, f->inner), TR_OK);
    tri_store_op_fini(&it.op);
}

/* ---- emitting and replay ---- */

static void test_ST9_ST19_events_are_replayed_at_start(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "ann");
    expect(f, ref, 0, NULL, 0);
    assert_int_equal(deposit(f, ref, 5, "rent", 1), TR_OK);
    assert_int_equal(deposit(f, ref, 7, "salary", 2), TR_OK);
    expect(f, ref, 19, "salary", 3);
    end(f, ref);
    ref = spawn_with(f, ledger, .name = "ann");
    expect(f, ref, 19, "salary", 3);
    assert_int_equal(deposit(f, ref, 1, NULL, 1), TR_OK);
    expect(f, ref, 20, NULL, 4);
}

static void test_ST20_restart_replays(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "bob",
                            TR_INIT(ledger, .cents = 1000));
    assert_int_equal(deposit(f, ref, 5, "five", 3), TR_OK);
    tr_tell(f->sys, ref, Crash);
    expect(f, ref, 1015, "five", 3);
    assert_int_equal(deposit(f, ref, 5, "more", 3), TR_OK);
    tr_tell(f->sys, ref, Crash);
    expect(f, ref, 1030, "more", 6);
}

static void test_ST11_ST12_events_are_stored_all_or_none(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "cid");
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 50,
                            .out = 20),
                     TR_OK);
    expect(f, ref, 30, NULL, 2);
    assert_int_equal(count_calls(f, TR_STORE_APPEND), 1);
    tr_storage_fail_nth(f->store, 1, TR_ESTORAGE);
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 9,
                            .out = 1),
                     TR_ESTORAGE);
    expect(f, ref, 30, NULL, 2);
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 9,
                            .out = 1),
                     TR_OK);
    expect(f, ref, 38, NULL, 4);
}

static void test_rule_28_unknown_outcome_replays(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "dan");
    assert_int_equal(deposit(f, ref, 1, "one", 1), TR_OK);
    tr_storage_fail_nth(f->store, 1, TR_EUNKNOWN);  // it is carried out
    assert_int_equal(deposit(f, ref, 2, "three", 1), TR_EUNKNOWN);
    expect(f, ref, 3, "three", 2);
    assert_int_equal(deposit(f, ref, 1, "four", 1), TR_OK);
    expect(f, ref, 4, "four", 3);
}

static void test_ST10_second_writer_of_events_is_fenced(void **state)
{
    fixture *f = *state;
    tr_system *other;
    TR_MUST(tr_system_open(&other, .workers = 1, .log_level = 9));
    fixture g = {other, f->inner, f->store, {.store = NULL}};
    tr_ref ref = spawn_with(f, ledger, .name = "eve");
    assert_int_equal(deposit(f, ref, 1, "a", 1), TR_OK);
    tr_ref twin = spawn_with(&g, ledger, .name = "eve");
    assert_int_equal(deposit(&g, twin, 1, "b", 1), TR_OK);
    assert_int_equal(deposit(f, ref, 1, "c", 1), TR_EFENCED);
    expect(f, ref, 1, "a", 1);
    tr_tell(f->sys, ref, Crash);  // loads again, and may write again
    expect(f, ref, 2, "b", 2);
    assert_int_equal(deposit(f, ref, 1, "c", 1), TR_OK);
    assert_int_equal(deposit(&g, twin, 1, "d", 1), TR_EFENCED);
    TR_MUST(tr_system_close(other, 0));
}

static void test_events_lists_and_texts_are_copied(void **state)
{
    fixture *f = *state;
    Value v;
    tr_ref ref = spawn_with(f, ledger, .name = "fay");
    for (int i = 0; i < 6; i++) {
        assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Write,
                                .line = i % 2 ? "odd" : "even"),
                         TR_OK);
    }
    for (int round = 0; round < 2; round++) {
        assert_int_equal(tr_ask(f->sys, ref, &v, TR_SECONDS(60), Get), TR_OK);
        assert_string_equal(v.lines,
                            "<even><odd><even><odd><even><odd>");
        tr_drop(Value, &v);
        tr_tell(f->sys, ref, Crash);
    }
}

static void test_misuse_of_events_is_refused(void **state)
{
    static const tr_err wanted[] = {TR_EINVAL, TR_ESTORAGE, TR_EINVAL,
                                    TR_ELIMIT, TR_OK};
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "gil");
    for (int32_t how = 0; how < 5; how++) {
        assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Misuse,
                                .how = how),
                         wanted[how]);
    }
    expect(f, ref, 0, NULL, 0);
    assert_int_equal(count_calls(f, TR_STORE_APPEND), 0);
    tr_ref none = tr_spawn(f->sys, ledger, .name = "hal");
    assert_int_equal(deposit(f, none, 1, "x", 1), TR_ESTORAGE);
    tr_ref other = spawn_with(f, plain, .name = "ida");
    assert_int_equal(deposit(f, other, 1, "x", 1), TR_EINVAL);
}

static void test_more_events_than_a_page_are_replayed(void **state)
{
    fixture *f = *state;
    char text[64];
    for (uint64_t i = 0; i < PAGES_OF_EVENTS; i++) {
        snprintf(text, sizeof(text),
                 "Deposited {\"cents\":%d,\"memo\":\"m%d\"}", (int)i % 7,
                 (int)i);
        append_raw(f, KEY("jim"), i, text);
    }
    int64_t cents = 0;
    for (int i = 0; i < PAGES_OF_EVENTS; i++) {
        cents += i % 7;
    }
    tr_ref ref = spawn_with(f, ledger, .name = "jim");
    expect(f, ref, cents, "m2499", PAGES_OF_EVENTS);
}

/* ---- snapshots ---- */

static void test_snapshots_shorten_the_replay(void **state)
{
    fixture *f = *state;
    tr_captured seen;
    tr_ref ref = spawn_with(f, ledger, .name = "ken");
    assert_int_equal(deposit(f, ref, 1, "k", 2 * EVERY + 1), TR_OK);
    assert_int_equal(count_calls(f, TR_STORE_SAVE), 2);
    assert_int_equal(count_calls(f, TR_STORE_TRIM), 0);
    bool found = false;
    for (size_t i = 0; tr_storage_captured(f->store, i, &seen); i++) {
        const char *text = seen.bytes;
        found |= seen.call == TR_STORE_SAVE &&
                 strncmp(text, "Ledger@8", 8) == 0 &&
                 strchr(" #", text[8]) != NULL &&
                 strncmp(strchr(text, ' '), " {\"cents\":8", 11) == 0;
    }
    assert_true(found);
    end(f, ref);
    ref = spawn_with(f, ledger, .name = "ken");
    expect(f, ref, 9, "k", 9);
    end(f, ref);
    // Lost: the same from all the events.
    drop_snapshot(f, KEY("ken"));
    ref = spawn_with(f, ledger, .name = "ken");
    expect(f, ref, 9, "k", 9);
    assert_int_equal(deposit(f, ref, 1, "k", EVERY), TR_OK);
    assert_true(snapshot_version(f, KEY("ken")) > 0);
}

static void test_a_damaged_snapshot_is_replaced(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "lea");
    assert_int_equal(deposit(f, ref, 1, "l", EVERY + 1), TR_OK);
    end(f, ref);
    assert_int_equal(save_text(f->inner, KEY("lea"),
                               snapshot_version(f, KEY("lea")),
                               "Ledger@4 {\"cents\":\"four\"}"),
                     TR_OK);
    ref = spawn_with(f, ledger, .name = "lea");
    expect(f, ref, 5, "l", 5);
    assert_int_equal(deposit(f, ref, 1, "l", EVERY), TR_OK);
    end(f, ref);
    ref = spawn_with(f, ledger, .name = "lea");
    expect(f, ref, 9, "l", 9);
}

static void test_trimmed_events_need_their_snapshot(void **state)
{
    fixture *f = *state;
    const char *key = "local::trimmed//user/max";
    tr_ref ref = spawn_with(f, trimmed, .name = "max");
    assert_int_equal(deposit(f, ref, 1, "m", 2 * EVERY + 2), TR_OK);
    assert_int_equal(count_calls(f, TR_STORE_TRIM), 2);
    end(f, ref);
    ref = spawn_with(f, trimmed, .name = "max");
    expect(f, ref, 10, "m", 10);
    end(f, ref);
    drop_snapshot(f, key);
    expect_no_start(f, spawn_doomed(f, trimmed, .name = "max"), key,
                    "event 1 is missing", "snapshot");
}

static void test_a_failed_snapshot_is_no_failure(void **state)
{
    static const tr_err errs[] = {TR_ESTORAGE, TR_EUNKNOWN, TR_EIO};
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        char name[] = {'n', (char)('0' + i), '\0'};
        tr_ref ref = spawn_with(f, trimmed, .name = name);
        assert_int_equal(deposit(f, ref, 1, "n", EVERY - 1), TR_OK);
        tr_storage_fail_nth(f->store, 2, errs[i]);
        assert_int_equal(deposit(f, ref, 1, "n", 1), TR_OK);
        expect(f, ref, EVERY, "n", EVERY);
        size_t saves = count_calls(f, TR_STORE_SAVE);
        assert_int_equal(deposit(f, ref, 1, "n", EVERY), TR_OK);
        assert_int_equal(count_calls(f, TR_STORE_SAVE), saves + 1);
        end(f, ref);
        ref = spawn_with(f, trimmed, .name = name);
        expect(f, ref, 2 * EVERY, "n", 2 * EVERY);
        end(f, ref);
    }
}

static void test_a_snapshot_ahead_of_its_events_is_refused(void **state)
{
    fixture *f = *state;
    assert_int_equal(save_text(f->inner, KEY("ned"), 0,
                               "Ledger@9 {\"cents\":9}"),
                     TR_OK);
    append_raw(f, KEY("ned"), 0, "Withdrawn {\"cents\":1}");
    expect_no_start(f, spawn_doomed(f, ledger, .name = "ned"), KEY("ned"),
                    "event 9", "1");
}

/* Its number fits, and its bytes are whole: but it is of other events. */
static void test_ST9_ST15_a_snapshot_of_other_events_is_refused(void **state)
{
    fixture *f = *state;
    const char *key = "local::trimmed//user/sue";
    tr_ref ref = spawn_with(f, trimmed, .name = "sue");
    assert_int_equal(deposit(f, ref, 1, "s", EVERY + 1), TR_OK);
    end(f, ref);
    assert_int_equal(save_text(f->inner, key, snapshot_version(f, key),
                               "Ledger@4#5c09e1f2 {\"cents\":44}"),
                     TR_OK);
    expect_no_start(f, spawn_doomed(f, trimmed, .name = "sue"), key,
                    "event 5 is of another time", "restore a backup");
    // One of an older layout does not say which events it is of.
    assert_int_equal(save_text(f->inner, key, snapshot_version(f, key),
                               "Ledger@4 {\"cents\":44}"),
                     TR_OK);
    ref = spawn_with(f, trimmed, .name = "sue");
    expect(f, ref, 45, "s", EVERY + 1);
}

static void test_a_snapshot_with_a_strange_head_is_replaced(void **state)
{
    static const char *const heads[] = {"#", "#x1", "#1A", "#1#2", "1#",
                                        "#11112222333344445"};
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "tom");
    assert_int_equal(deposit(f, ref, 1, "t", EVERY + 1), TR_OK);
    end(f, ref);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "Ledger@4%s {\"cents\":44}", heads[i]);
        assert_int_equal(save_text(f->inner, KEY("tom"),
                                   snapshot_version(f, KEY("tom")), text),
                         TR_OK);
        ref = spawn_with(f, ledger, .name = "tom");
        expect(f, ref, EVERY + 1, "t", EVERY + 1);
        end(f, ref);
    }
}

/* ---- types change, bytes rot ---- */

static void test_events_evolve_by_schema(void **state)
{
    fixture *f = *state;
    append_raw(f, KEY("oda"), 0, "Deposited {\"cents\":5}");  // an older one
    append_raw(f, KEY("oda"), 1,
               "Deposited {\"cents\":6,\"memo\":\"x\",\"branch\":3,"
               "\"later\":{\"a\":[1]}}");  // a newer one
    tr_ref ref = spawn_with(f, ledger, .name = "oda");
    expect(f, ref, 11, "x", 2);
}

static void test_an_undecodable_event_fails_the_start(void **state)
{
    fixture *f = *state;
    append_raw(f, KEY("pam"), 0, "Withdrawn {\"cents\":5}");
    append_raw(f, KEY("pam"), 1, "Deposited {\"cents\":\"five\"}");
    expect_no_start(f, spawn_doomed(f, ledger, .name = "pam"), KEY("pam"),
                    "event 2, a Deposited", "cents");
    append_raw(f, KEY("pia"), 0, "Renamed {}");
    expect_no_start(f, spawn_doomed(f, ledger, .name = "pia"), KEY("pia"),
                    "event 1, a Renamed", "TR_APPLY");
    append_raw(f, KEY("pat"), 0, "\1\2\3");
    expect_no_start(f, spawn_doomed(f, ledger, .name = "pat"), KEY("pat"),
                    "event 1", "name of a type");
}

static void test_a_panic_while_applying_stores_nothing(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "quo");
    assert_int_equal(deposit(f, ref, 1, "q", 1), TR_OK);
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Write,
                            .line = "panic"),
                     TR_EPANIC);
    expect(f, ref, 1, "q", 1);
    end(f, ref);
    append_raw(f, KEY("quo"), 1, "Noted {\"line\":\"panic\"}");
    tr_result result;
    ref = spawn_doomed(f, ledger, .name = "quo");
    assert_int_equal(tr_join(f->sys, ref, TR_SECONDS(60), &result, NULL),
                     TR_OK);
    assert_int_equal(result.err, TR_EPANIC);
}

/* ---- kill and stop while events are on their way ---- */

static void test_rule_28_kill_while_events_are_in_flight(void **state)
{
    fixture *f = *state;
    static slow_store slow;  // outlives the system
    slow_open(&slow, f->inner);
    tr_ref ref = tr_spawn(f->sys, ledger, .name = "ray",
                          .storage = &slow.base);
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, f->sys));
    tr_probe_watch(probe, ref);
    tr_tell(probe, ref, Deposit, .cents = 5, .memo = "late");
    slow_wait(&slow);
    tr_kill(f->sys, ref);
    tr_ref next = tr_spawn(f->sys, ledger, .name = "ray",
                           .storage = &slow.base);
    assert_int_equal(tr_ref_err(next), TR_EEXIST);  // it has not ended
    slow_release(&slow);
    assert_int_equal(tr_expect(probe, TR_SECONDS(60), tr_terminated)->reason,
                     TR_KILLED);
    next = tr_spawn(f->sys, ledger, .name = "ray", .joinable = true,
                    .storage = &slow.base);
    expect(f, next, 5, "late", 1);  // it has landed, and nothing is lost
    end(f, next);
    tr_probe_free(probe);
}

static tr_err emit_on_run(tr_ctx *ctx, Ledger *self)
{
    return tr_emit(ctx, self, Deposited, .cents = 100, .memo = "run");
}

TR_ACTOR(runner, Ledger, LEDGER, TR_HOOK(on_run, emit_on_run));

/* Two turns of one actor: the second one is told, nothing is mixed up. */
static void test_two_turns_do_not_emit_at_once(void **state)
{
    fixture *f = *state;
    static slow_store slow;  // outlives the system
    slow_open(&slow, f->inner);
    tr_ref ref = tr_spawn(f->sys, runner, .name = "rex", .joinable = true,
                          .storage = &slow.base);
    slow_wait(&slow);
    assert_int_equal(deposit(f, ref, 1, "late", 1), TR_EWOULDBLOCK);
    slow_release(&slow);
    while (deposit(f, ref, 1, "later", 1) == TR_EWOULDBLOCK) {
    }
    expect(f, ref, 101, "later", 2);
    end(f, ref);
}

/* ---- everything that can fail fails once ---- */

static void test_the_nth_call_of_the_store_fails(void **state)
{
    static const tr_err errs[] = {TR_ESTORAGE, TR_EUNKNOWN, TR_EFENCED};
    fixture *f = *state;
    for (uint64_t n = 1; n < 20; n++) {
        for (size_t e = 0; e < 3; e++) {
            char name[32];
            snprintf(name, sizeof(name), "s%d-%zu", (int)n, e);
            int64_t sure = 0, unknown = 0;
            tr_storage_fail_nth(f->store, n, errs[e]);
            tr_ref ref = spawn_with(f, trimmed, .name = name);
            if (tr_started(f->sys, ref, TR_SECONDS(60)) != TR_OK) {
                (void)!tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL);
                ref = spawn_with(f, trimmed, .name = name);
            }
            for (int i = 0; i < 2 * EVERY; i++) {
                tr_err err = deposit(f, ref, 1, "s", 1);
                sure += err == TR_OK;
                unknown += err == TR_EUNKNOWN;
            }
            tr_storage_fail_nth(f->store, 0, TR_OK);
            assert_true(sure >= 2 * EVERY - 1);
            end(f, ref);
            ref = spawn_with(f, trimmed, .name = name);
            expect(f, ref, sure + unknown, "s", (uint64_t)(sure + unknown));
            end(f, ref);
        }
    }
}

/* True when the n-th allocation was reached. */
static bool run_without_memory(fixture *f, int64_t n)
{
    char name[32];
    int64_t sure = 0;
    snprintf(name, sizeof(name), "n%d", (int)n);
    tr_ref ref = spawn_with(f, ledger, .name = name);
    assert_int_equal(tr_started(f->sys, ref, TR_SECONDS(60)), TR_OK);
    assert_int_equal(deposit(f, ref, 1, "first", EVERY - 2), TR_OK);
    tri_mem_fail_after(&f->sys->mem, n);
    for (int i = 0; i < 3; i++) {
        sure += deposit(f, ref, 1, "a memo", 1) == TR_OK;
    }
    tr_tell(f->sys, ref, Crash);
    (void)!tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Write, .line = "w");
    // Relaxed: it has all been answered.
    bool reached = atomic_load_explicit(&f->sys->mem.fail_at,
                                        memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    tr_stop(f->sys, ref);
    (void)!tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL);
    ref = spawn_with(f, ledger, .name = name);
    Value v;
    assert_int_equal(tr_ask(f->sys, ref, &v, TR_SECONDS(60), Get), TR_OK);
    assert_true(v.cents >= EVERY - 2 + sure);
    assert_true(v.cents <= EVERY - 2 + 3);
    tr_drop(Value, &v);
    end(f, ref);
    return reached;
}

static void test_the_nth_allocation_fails(void **state)
{
    fixture *f = *state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (run_without_memory(f, n)) {
        n++;
        assert_true(n < SCENARIO_MAX);
    }
    assert_true(n > 20);
}

/* ---- projections ---- */

TR_MESSAGE(Sum, (int64_t, cents), (uint64_t, last), (uint32_t, pages),
           (uint32_t, others));
TR_REQUEST(Project, Sum, (const char *, kind), (const char *, key),
           (uint64_t, first));

static tr_err on_project(tr_ctx *ctx, Ledger *self, const Project *m)
{
    tr_event_page page = {.more = true};
    Sum sum = {.cents = 0};
    (void)self;
    for (uint64_t next = m->first; page.more; sum.pages++) {
        tr_err err = tr_events_read(ctx, m->kind, m->key, next, &page);
        if (err != TR_OK) {
            return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
        }
        for (size_t i = 0; i < page.count; i++) {
            const tr_stored_event *event = &page.events[i];
            Deposited d;
            if (strcmp(event->type, "Deposited") != 0) {
                assert_int_equal(tr_event_decode(ctx, event, Deposited, &d),
                                 TR_EINVAL);
                assert_non_null(strstr(tr_error_text(ctx), "not a Dep"));
                sum.others++;
                continue;
            }
            TR_TRY(tr_event_decode(ctx, event, Deposited, &d));
            assert_string_equal(d.memo, "p");
            sum.cents += d.cents;
            next = event->sequence + 1;
        }
        sum.last = page.last;
    }
    return tr_reply(ctx, m, .cents = sum.cents, .last = sum.last,
                    .pages = sum.pages, .others = sum.others);
}

TR_ACTOR(projection, Ledger, TR_ON(Project, on_project));

static void test_events_are_read_in_pages(void **state)
{
    fixture *f = *state;
    Sum sum;
    for (uint64_t i = 0; i < PAGES_OF_EVENTS; i++) {
        append_raw(f, KEY("sue"), i, "Deposited {\"cents\":2,\"memo\":\"p\"}");
    }
    append_raw(f, KEY("sue"), PAGES_OF_EVENTS, "Withdrawn {\"cents\":1}");
    tr_ref ref = spawn_with(f, projection, .name = "sum");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue"),
                     TR_OK);
    assert_int_equal(sum.cents, 2 * PAGES_OF_EVENTS);
    assert_int_equal(sum.last, PAGES_OF_EVENTS + 1);
    assert_int_equal(sum.others, 1);
    assert_true(sum.pages > 2);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue",
                            .first = PAGES_OF_EVENTS),
                     TR_OK);
    assert_int_equal(sum.cents, 2);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/nobody"),
                     TR_OK);
    assert_int_equal(sum.last, 0);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "led/ger", .key = "x"),
                     TR_EINVAL);
    tr_storage_fail_nth(f->store, 1, TR_EIO);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue"),
                     TR_ESTORAGE);
}

TR_REQUEST(Peek, Sum, (const char *, kind), (const char *, key));

/* Reads the first event as a deposit, whatever it is. */
static tr_err on_peek(tr_ctx *ctx, Ledger *self, const Peek *m)
{
    tr_event_page page;
    Deposited d;
    (void)self;
    tr_err err = tr_events_read(ctx, m->kind, m->key, 1, &page);
    if (err == TR_OK && page.count > 0) {
        memset(&d, 0x5a, sizeof(d));
        err = tr_event_decode(ctx, &page.events[0], Deposited, &d);
    }
    if (err != TR_OK) {
        return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
    }
    return tr_reply(ctx, m, .cents = page.count > 0 ? d.cents : 0,
                    .last = page.last);
}

static tr_err on_peek_damaged(tr_ctx *ctx, Ledger *self, const Peek *m)
{
    tr_event_page page;
    Deposited d;
    (void)self;
    TR_TRY(tr_events_read(ctx, m->kind, m->key, 1, &page));
    TR_ASSERT(ctx, page.count == 1 && page.last == 1);
    const tr_stored_event *event = &page.events[0];
    TR_ASSERT(ctx, event->sequence == 1 && event->type[0] == '\0');
    TR_ASSERT(ctx, event->stored.size == 3 &&
                       memcmp(event->stored.at, "\1\2\3", 3) == 0);
    memset(&d, 0x5a, sizeof(d));
    TR_ASSERT(ctx, tr_event_decode(ctx, event, Deposited, &d) == TR_EINVAL);
    TR_ASSERT(ctx, d.cents == 0 && d.memo == NULL);
    TR_ASSERT(ctx, strstr(tr_error_text(ctx), "event 1") != NULL);
    return tr_reply(ctx, m, .cents = -1);
}

TR_ACTOR(peeping, Ledger, LEDGER, TR_ON(Peek, on_peek));
TR_ACTOR(mending, Ledger, TR_ON(Peek, on_peek_damaged));

/* ST1: a damaged event can be looked at as it lies there. */
static void test_ST1_a_damaged_event_is_read_as_bytes(void **state)
{
    fixture *f = *state;
    Sum sum;
    append_raw(f, KEY("tim"), 0, "\1\2\3");
    tr_ref ref = spawn_with(f, mending, .name = "mender");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek,
                            .kind = "ledger", .key = "/user/tim"),
                     TR_OK);
    assert_int_equal(sum.cents, -1);
}

/* ST5: without a kind it is one's own events; a kind needs a key. */
static void test_ST5_ST9_whose_events_are_read(void **state)
{
    fixture *f = *state;
    Sum sum;
    append_raw(f, "local::peeping//user/una", 0, "Deposited {\"cents\":8}");
    append_raw(f, KEY("una"), 0, "Deposited {\"cents\":9}");
    tr_ref ref = spawn_with(f, peeping, .name = "una");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek), TR_OK);
    assert_int_equal(sum.cents, 8);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek,
                            .kind = "ledger", .key = "/user/una"),
                     TR_OK);
    assert_int_equal(sum.cents, 9);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek,
                            .kind = "ledger"),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(f->sys), "ledger/ is no key"));
}

/* ---- virtual actors ---- */

static void test_AC11_virtual_actors_replay_when_activated(void **state)
{
    fixture *f = *state;
    assert_int_equal(tr_host(f->sys, ledger, .storage = f->store), TR_OK);
    tr_ref ref = tr_virtual(f->sys, "ledger", "tom");
    assert_int_equal(deposit(f, ref, 3, "t", EVERY + 2), TR_OK);
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, f->sys));
    tr_probe_watch(probe, ref);
    tr_stop(f->sys, ref);  // deactivates it
    (void)tr_expect(probe, TR_SECONDS(60), tr_terminated);
    expect(f, ref, 3 * (EVERY + 2), "t", EVERY + 2);
    tr_probe_free(probe);
}

/* ---- another serializer (ST1) ---- */

static size_t write_hex(void *user, const tr_type *type, const void *value,
                        void *buf, size_t size)
{
    char json[512];
    size_t length = tr_json_write(type, value, json, sizeof(json));
    if (length >= sizeof(json)) {
        return SIZE_MAX;
    }
    ++*(_Atomic(int) *)user;
    for (size_t i = 0; i < length && 2 * i + 2 < size; i++) {
        snprintf((char *)buf + 2 * i, 3, "%02x", (unsigned char)json[i]);
    }
    return 2 * length;
}

static tr_err read_hex(void *user, const tr_type *type, void *value,
                       const void *bytes, size_t size)
{
    char json[512];
    (void)user;
    if (size / 2 >= sizeof(json)) {
        return TR_ELIMIT;
    }
    for (size_t i = 0; i + 1 < size; i += 2) {
        unsigned c;
        if (sscanf((const char *)bytes + i, "%2x", &c) != 1) {
            return TR_EINVAL;
        }
        json[i / 2] = (char)c;
    }
    return tr_json_read(type, value, json, size / 2);
}

static void test_ST1_ST2_another_serializer_can_be_plugged_in(void **state)
{
    fixture *f = *state;
    _Atomic(int) written = 0;
    const tr_serializer hex = {"hex", write_hex, read_hex, (void *)&written};
    const tr_serializer *all[] = {NULL, &hex, &hex};
    for (int i = 0; i < 3; i++) {  // each reads what those before wrote
        tr_ref ref = spawn_with(f, ledger, .name = "uma",
                                .serializer = all[i]);
        expect(f, ref, 3 * i, i ? "u" : NULL, 3 * (uint64_t)i);
        assert_int_equal(deposit(f, ref, 1, "u", 3), TR_OK);
        tr_tell(f->sys, ref, Crash);
        expect(f, ref, 3 * i + 3, "u", 3 * (uint64_t)i + 3);
        end(f, ref);
    }
    assert_true(written > 0);
    drop_snapshot(f, KEY("uma"));
    expect_no_start(f, spawn_doomed(f, ledger, .name = "uma",
                                    .serializer = &tr_serializer_binary),
                    KEY("uma"), "event 4, a Deposited", "serializer hex");
}

static void test_ST1_the_compact_form_and_json_know_each_other(void **state)
{
    fixture *f = *state;
    tr_captured seen;
    for (int i = 0; i < 4; i++) {
        tr_ref ref = spawn_with(f, ledger, .name = "vic",
                                .serializer = i % 2 ? &tr_serializer_binary
                                                    : NULL);
        expect(f, ref, 3 * i, i ? "v" : NULL, 3 * (uint64_t)i);
        assert_int_equal(deposit(f, ref, 1, "v", 3), TR_OK);
        end(f, ref);
    }
    bool binary = false, json = false;
    for (size_t i = 0; tr_storage_captured(f->store, i, &seen); i++) {
        if (seen.call == TR_STORE_APPEND) {
            binary |= seen.size > 17 &&
                      memcmp(seen.bytes, "Deposited/binary ", 17) == 0;
            json |= seen.size > 11 &&
                    memcmp(seen.bytes, "Deposited {", 11) == 0;
        }
    }
    assert_true(binary);
    assert_true(json);
}

static void test_ST1_a_serializer_needs_a_name(void **state)
{
    fixture *f = *state;
    const tr_serializer none = {"not a name", write_hex, read_hex, NULL};
    assert_int_equal(tr_ref_err(spawn_with(f, ledger, .name = "wes",
                                           .serializer = &none)),
                     TR_EINVAL);
}

int main(void)
{
#define TEST(fn) IN_EACH(fn, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(test_ST9_ST19_events_are_replayed_at_start),
        TEST(test_ST20_restart_replays),
        TEST(test_ST11_ST12_events_are_stored_all_or_none),
        TEST(test_rule_28_unknown_outcome_replays),
        TEST(test_ST10_second_writer_of_events_is_fenced),
        TEST(test_events_lists_and_texts_are_copied),
        TEST(test_misuse_of_events_is_refused),
        TEST(test_more_events_than_a_page_are_replayed),
        TEST(test_snapshots_shorten_the_replay),
        TEST(test_a_damaged_snapshot_is_replaced),
        TEST(test_trimmed_events_need_their_snapshot),
        TEST(test_a_failed_snapshot_is_no_failure),
        TEST(test_a_snapshot_ahead_of_its_events_is_refused),
        {"sqlite: test_ST9_ST15_a_snapshot_of_other_events_is_refused",
         test_ST9_ST15_a_snapshot_of_other_events_is_refused, open_all_sqlite,
         close_all, NULL},
        TEST(test_a_snapshot_with_a_strange_head_is_replaced),
        TEST(test_events_evolve_by_schema),
        TEST(test_an_undecodable_event_fails_the_start),
        TEST(test_a_panic_while_applying_stores_nothing),
        TEST(test_two_turns_do_not_emit_at_once),
        TEST(test_rule_28_kill_while_events_are_in_flight),
        TEST(test_the_nth_call_of_the_store_fails),
        TEST(test_the_nth_allocation_fails),
        TEST(test_events_are_read_in_pages),
        TEST(test_ST1_a_damaged_event_is_read_as_bytes),
        TEST(test_ST5_ST9_whose_events_are_read),
        TEST(test_AC11_virtual_actors_replay_when_activated),
        TEST(test_ST1_ST2_another_serializer_can_be_plugged_in),
        TEST(test_ST1_the_compact_form_and_json_know_each_other),
        TEST(test_ST1_a_serializer_needs_a_name),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
