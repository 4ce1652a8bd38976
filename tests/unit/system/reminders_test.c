/*
 * reminders_test.c - reminders on virtual time: systems come and go over one
 * store, handlers fail, stores fail, memory ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "../storage/store_calls.h"
#include "core/runtime.h"

enum { SCENARIO_MAX = 600, RANG_MAX = 2048 };

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

static void up(fixture *f)
{
    TR_MUST(
        tr_system_open(&f->sys, .world = tr_sim_world(f->sim), .log_level = 9));
    TR_MUST(tr_host(
        f->sys, timepiece, .storage = f->store, .idle = TR_SECONDS(20),
        .spawn = TR_OPTIONS(tr_spawn_options,
                            .supervision = TR_SUPERVISE(.backoff_min = 1))));
}

static void down(fixture *f)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
    f->sys = NULL;
}

static int open_all(void **state)
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

static int close_all(void **state)
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

static tr_err remind(fixture *f, const char *key, const char *name,
                     tr_nanos delay, tr_nanos period, int64_t number)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "timepiece", key), NULL,
                  TR_SECONDS(5), Ask, .delay = delay, .period = period,
                  .name = name, .number = number);
}

static tr_err forget(fixture *f, const char *key, const char *name)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "timepiece", key), NULL,
                  TR_SECONDS(5), Drop, .name = name);
}

static void pass(fixture *f, tr_nanos span)
{
    tr_sim_advance(f->sim, span);
}

static void expect_at(int i, tr_nanos at)
{
    assert_true(i < seen.rang);
    assert_true(seen.at[i] >= at);
    assert_true(seen.at[i] < at + TR_MS(200));
}

static void test_a_reminder_activates_its_actor_once(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    assert_int_equal(remind(f, "a", "r", TR_MINUTES(2), 0, 1), TR_OK);
    pass(f, TR_SECONDS(119));
    assert_int_equal(seen.rang, 0);
    tr_ref ref = tr_virtual(f->sys, "timepiece", "a");
    assert_int_equal(tr_state_of(f->sys, ref), TR_STATE_CREATED);  // idle
    pass(f, TR_SECONDS(2));
    assert_int_equal(seen.rang, 1);
    assert_int_equal(seen.number[0], 1);
    expect_at(0, start + TR_MINUTES(2));
    pass(f, TR_MINUTES(60));
    assert_int_equal(seen.rang, 1);
}

static void test_a_period_does_not_drift(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(10), TR_SECONDS(7), 1),
                     TR_OK);
    pass(f, TR_SECONDS(10 + 7 * 100 + 1));
    assert_int_equal(seen.rang, 101);
    for (int i = 0; i < seen.rang; i++) {
        expect_at(i, start + TR_SECONDS(10) + i * TR_SECONDS(7));
    }
}

static void test_reminders_survive_restarts_of_the_system(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    assert_int_equal(remind(f, "a", "once", TR_SECONDS(30), 0, 1), TR_OK);
    assert_int_equal(remind(f, "a", "often", TR_SECONDS(40), TR_SECONDS(60), 2),
                     TR_OK);
    assert_int_equal(remind(f, "b", "late", TR_MINUTES(60), 0, 3), TR_OK);
    down(f);
    pass(f, TR_SECONDS(200));
    assert_int_equal(seen.rang, 0);
    up(f);
    pass(f, TR_SECONDS(1));
    assert_int_equal(seen.rang, 2);  // those missed: each comes once
    assert_int_equal(seen.number[0] + seen.number[1], 3);
    pass(f, TR_SECONDS(60));
    assert_int_equal(seen.rang, 3);
    expect_at(2, start + TR_SECONDS(220));  // on its grid
    assert_int_equal(forget(f, "a", "often"), TR_OK);
    down(f);
    up(f);
    pass(f, TR_MINUTES(50));
    assert_int_equal(seen.rang, 3);
    pass(f, TR_MINUTES(10));
    assert_int_equal(seen.rang, 4);  // beyond the first look into the store
    assert_int_equal(seen.number[3], 3);
    expect_at(3, start + TR_MINUTES(60));
}

static void test_setting_again_replaces_and_forgetting_lasts(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(10), 0, 1), TR_OK);
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(20), 0, 2), TR_OK);
    assert_int_equal(remind(f, "a", "x", TR_SECONDS(30), 0, 3), TR_OK);
    assert_int_equal(forget(f, "a", "x"), TR_OK);
    assert_int_equal(forget(f, "a", "nothing"), TR_OK);
    pass(f, TR_SECONDS(60));
    assert_int_equal(seen.rang, 1);
    assert_int_equal(seen.number[0], 2);
    expect_at(0, start + TR_SECONDS(20));
    down(f);
    up(f);
    pass(f, TR_SECONDS(60));
    assert_int_equal(seen.rang, 1);
}

/* The handler itself sets it anew, or ends it: its word is the last. */
static void test_a_handler_may_set_and_forget_its_own(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    seen.then = 1;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 1), TR_OK);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 2);
    assert_int_equal(seen.number[1], 100);
    expect_at(1, start + TR_SECONDS(6));
    seen.then = 2;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), TR_SECONDS(1), 1),
                     TR_OK);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 3);
    down(f);
    up(f);
    pass(f, TR_SECONDS(60));
    assert_int_equal(seen.rang, 3);
}

/* That the service has not heard of another yet says nothing of this one. */
static void test_ST6_a_handler_may_set_another(void **state)
{
    fixture *f = *state;
    tr_nanos start = tr_sim_now(f->sim);
    seen.then = 4;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 1), TR_OK);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 2);
    assert_int_equal(seen.number[1], 200);
    expect_at(1, start + TR_SECONDS(6));
    down(f);
    up(f);
    pass(f, TR_MINUTES(20));
    assert_int_equal(seen.rang, 2);  // both are done
}

static void test_what_was_put_aside_is_not_done(void **state)
{
    fixture *f = *state;
    seen.then = 3;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 1), TR_OK);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 0);
    down(f);  // before it was handled
    up(f);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 1);
}

static void test_a_failed_handler_gets_it_again(void **state)
{
    fixture *f = *state;
    seen.fails = 3;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 9), TR_OK);
    pass(f, TR_SECONDS(20));
    assert_int_equal(seen.fails, 0);
    assert_int_equal(seen.rang, 1);
    pass(f, TR_MINUTES(20));
    assert_int_equal(seen.rang, 1);
}

static void test_what_is_not_stored_as_done_comes_again(void **state)
{
    static const tr_err errs[] = {TR_ESTORAGE, TR_EUNKNOWN};
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        seen.rang = 0;
        assert_int_equal(remind(f, "a", "r", TR_SECONDS(2), 0, 1), TR_OK);
        pass(f, TR_SECONDS(1));  // the service has looked into the store
        tr_storage_fail_nth(f->store, 1, errs[i]);
        pass(f, TR_SECONDS(20));
        assert_int_equal(seen.rang, 2);
        down(f);
        up(f);
        pass(f, TR_SECONDS(20));
        assert_int_equal(seen.rang, 2);
    }
}

static void test_a_reminder_that_is_not_stored_is_an_error(void **state)
{
    fixture *f = *state;
    tr_ref ref = tr_virtual(f->sys, "timepiece", "a");
    assert_int_equal(forget(f, "a", "r"), TR_OK);  // it is active
    tr_storage_fail_nth(f->store, 1, TR_EIO);
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 1), TR_ESTORAGE);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 0);
    for (int32_t how = 0; how < 6; how++) {
        assert_int_equal(
            tr_ask(f->sys, ref, NULL, TR_SECONDS(5), Wrong, .how = how),
            TR_EINVAL);
    }
}

static void test_reading_fails_and_is_tried_again(void **state)
{
    fixture *f = *state;
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(1), 0, 1), TR_OK);
    down(f);
    pass(f, TR_SECONDS(10));
    tr_storage_fail_nth(f->store, 100, TR_ESTORAGE);
    up(f);
    pass(f, TR_SECONDS(10));
    assert_int_equal(seen.rang, 1);
}

static void test_more_reminders_than_an_answer_holds(void **state)
{
    enum { MANY = 1100 };
    fixture *f = *state;
    down(f);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        asked it = ask_for(TR_STORE_REMIND, "local::timepiece//user/tower");
        snprintf(name, sizeof(name), "n%d", i);
        it.op.name = bytes_of(name);
        it.op.number = 1;
        it.op.bytes = bytes_of("Ring {\"number\":1,\"text\":\"ding\"}");
        assert_int_equal(asked_run(&it, f->memory), TR_OK);
    }
    up(f);
    tr_ref ref =
        tr_spawn(f->sys, timepiece, .name = "tower", .storage = f->store);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    pass(f, TR_SECONDS(60));
    assert_true(seen.rang >= MANY);
    asked left = ask_for(TR_STORE_REMINDERS, NULL);
    left.op.number = TRI_STORE_NUMBER_MAX / 2;
    left.op.key = left.op.name = (tri_store_bytes){NULL, 0};
    assert_int_equal(asked_run(&left, f->memory), TR_OK);
    tri_store_row row;
    size_t at = 0;
    while (tri_store_row_next(&left.op, &at, &row)) {
        fail_msg("%.*s is left, %d came", (int)row.name.size,
                 (const char *)row.name.at, seen.rang);
    }
    tri_store_op_fini(&left.op);
}

static void test_a_message_that_cannot_be_read_stays(void **state)
{
    static const char *const bad[] = {"Ring {\"number\":\"x\"}", "Gone {}",
                                      "\1\2"};
    fixture *f = *state;
    down(f);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        asked it = ask_for(TR_STORE_REMIND, "local::timepiece//user/t");
        it.op.name = bytes_of(name);
        it.op.number = 1;
        it.op.bytes = bytes_of(bad[i]);
        assert_int_equal(asked_run(&it, f->memory), TR_OK);
    }
    up(f);
    (void)tr_spawn(f->sys, timepiece, .name = "t", .storage = f->store);
    assert_int_equal(remind(f, "a", "r", TR_SECONDS(5), 0, 1), TR_OK);
    pass(f, TR_SECONDS(60));
    assert_int_equal(seen.rang, 1);  // the good one is not held up
}

/* Another program wrote a period that tr_remind refuses: it rings once. */
static void test_ST6_a_stored_period_beyond_all_time(void **state)
{
    fixture *f = *state;
    down(f);
    asked it = ask_for(TR_STORE_REMIND, "local::timepiece/a");
    it.op.name = bytes_of("r");
    it.op.number = 1;
    it.op.bytes = bytes_of("Ring@9223372036854775807 "
                           "{\"number\":1,\"text\":\"ding\"}");
    assert_int_equal(asked_run(&it, f->memory), TR_OK);
    up(f);
    pass(f, TR_MINUTES(60));
    assert_int_equal(seen.rang, 1);
    down(f);
    up(f);
    pass(f, TR_MINUTES(60));
    assert_int_equal(seen.rang, 1);  // stored with its next time
}

static void test_plain_actors_get_theirs_while_they_live(void **state)
{
    fixture *f = *state;
    tr_ref ref =
        tr_spawn(f->sys, timepiece, .name = "wall", .storage = f->store);
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(5), Ask,
                            .delay = TR_SECONDS(10), .name = "r", .number = 4),
                     TR_OK);
    assert_int_equal(tr_ask(f->sys, ref, NULL, TR_SECONDS(5), Ask,
                            .delay = TR_SECONDS(20), .name = "s", .number = 5),
                     TR_OK);
    pass(f, TR_SECONDS(11));
    assert_int_equal(seen.rang, 1);
    tr_stop(f->sys, ref);
    pass(f, TR_MINUTES(5));
    assert_int_equal(seen.rang, 1);
    ref = tr_spawn(f->sys, timepiece, .name = "wall", .storage = f->store);
    pass(f, TR_SECONDS(1));
    assert_int_equal(seen.rang, 2);  // as soon as it is back
    assert_int_equal(seen.number[1], 5);
}

/* How often it came between two times. */
static int rings_between(tr_nanos from, tr_nanos until)
{
    int count = 0;
    for (int i = 0; i < seen.rang; i++) {
        count += seen.at[i] >= from && seen.at[i] < until;
    }
    return count;
}

/*
 * Two systems over one store that know nothing of each other: each delivers
 * what it finds, once, at the due time; what is done is done for both, and a
 * period stays on its grid.
 */
static void test_ST9_two_systems_on_one_store_deliver_once_each(void **state)
{
    fixture *f = *state;
    fixture other = *f;
    up(&other);
    pass(f, TR_SECONDS(1));
    tr_nanos begun = tr_sim_now(f->sim);
    // Beyond the look that comes after five minutes, so both know it.
    assert_int_equal(remind(f, "m", "r", TR_MINUTES(7), 0, 1), TR_OK);
    pass(f, TR_MINUTES(6));
    assert_int_equal(seen.rang, 0);
    pass(f, TR_MINUTES(30));
    assert_int_equal(seen.rang, 2);
    expect_at(0, begun + TR_MINUTES(7));
    expect_at(1, begun + TR_MINUTES(7));

    seen.rang = 0;
    begun = tr_sim_now(f->sim);
    assert_int_equal(remind(f, "m", "r", TR_MINUTES(7), TR_MINUTES(7), 2),
                     TR_OK);
    pass(f, TR_MINUTES(50));
    for (int i = 1; i <= 7; i++) {
        tr_nanos due = begun + i * TR_MINUTES(7);
        int count = rings_between(due, due + TR_SECONDS(30));
        assert_true(count == 1 || count == 2);
        seen.number[0] -= count;  // counted down, to see that no other came
    }
    assert_int_equal(seen.number[0], 2 - seen.rang);
    assert_int_equal(forget(f, "m", "r"), TR_OK);
    // The other one may have it in memory until its next look.
    pass(f, TR_MINUTES(15));
    seen.rang = 0;
    pass(f, TR_MINUTES(60));
    assert_int_equal(seen.rang, 0);
    down(&other);
}

/* True when the n-th allocation was reached. */
static bool run_without_memory(fixture *f, int64_t n)
{
    seen.rang = 0;
    pass(f, TR_SECONDS(1));  // the service is there
    tri_mem_fail_after(&f->sys->mem, n);
    tr_err err = remind(f, "m", "r", TR_SECONDS(1), 0, 1);
    pass(f, TR_MINUTES(6));
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&f->sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    pass(f, TR_MINUTES(6));
    if (err == TR_OK) {
        if (seen.rang == 0) {
            fail_msg("it never came, allocation %d", (int)n);
        }
    }
    assert_true(seen.rang <= 2);
    down(f);
    up(f);
    return reached;
}

/*
 * A reminder is stored; the next system's service has no memory at its start.
 * True when the n-th allocation was reached.
 */
static bool start_without_memory(fixture *f, int64_t n)
{
    assert_int_equal(remind(f, "m", "r", TR_SECONDS(30), 0, 1), TR_OK);
    down(f);
    seen.rang = 0;
    up(f);
    tri_mem_fail_after(&f->sys->mem, n);
    pass(f, TR_SECONDS(20));
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&f->sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    pass(f, TR_MINUTES(12));
    if (seen.rang != 1) {
        fail_msg("it came %d times, allocation %d", seen.rang, (int)n);
    }
    return reached;
}

static void test_ST9_a_service_without_memory_at_its_start(void **state)
{
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (start_without_memory(*state, n) && n < SCENARIO_MAX) {
        n++;
    }
    assert_true(n > 3);
}

static void test_the_nth_allocation_fails(void **state)
{
    fixture *f = *state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (run_without_memory(f, n) && n < SCENARIO_MAX) {
        n++;
    }
    assert_true(n > 10);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(test_a_reminder_activates_its_actor_once),
        TEST(test_a_period_does_not_drift),
        TEST(test_reminders_survive_restarts_of_the_system),
        TEST(test_setting_again_replaces_and_forgetting_lasts),
        TEST(test_a_handler_may_set_and_forget_its_own),
        TEST(test_ST6_a_handler_may_set_another),
        TEST(test_what_was_put_aside_is_not_done),
        TEST(test_a_failed_handler_gets_it_again),
        TEST(test_what_is_not_stored_as_done_comes_again),
        TEST(test_a_reminder_that_is_not_stored_is_an_error),
        TEST(test_reading_fails_and_is_tried_again),
        TEST(test_more_reminders_than_an_answer_holds),
        TEST(test_a_message_that_cannot_be_read_stays),
        TEST(test_ST6_a_stored_period_beyond_all_time),
        TEST(test_plain_actors_get_theirs_while_they_live),
        TEST(test_ST9_two_systems_on_one_store_deliver_once_each),
        TEST(test_the_nth_allocation_fails),
        TEST(test_ST9_a_service_without_memory_at_its_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
