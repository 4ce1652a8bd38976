/*
 * reminders_test.c - reminders on virtual time: systems come and go over one
 * store, handlers fail, stores fail. reminders_nomem_test.c has the rest.
 */
#include "unit/system/timepiece.h"

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
static void test_ST9_a_handler_may_set_another(void **state)
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

static void test_a_stashed_reminder_is_not_completed(void **state)
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

static void test_a_failed_handler_gets_the_reminder_again(void **state)
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

static void test_a_reminder_not_stored_as_handled_comes_again(void **state)
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

static void test_a_reminder_that_cannot_be_read_stays_stored(void **state)
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
static void test_ST9_a_stored_period_beyond_all_time(void **state)
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_reminder_activates_its_actor_once),
        TEST(test_a_period_does_not_drift),
        TEST(test_reminders_survive_restarts_of_the_system),
        TEST(test_setting_again_replaces_and_forgetting_lasts),
        TEST(test_a_handler_may_set_and_forget_its_own),
        TEST(test_ST9_a_handler_may_set_another),
        TEST(test_a_stashed_reminder_is_not_completed),
        TEST(test_a_failed_handler_gets_the_reminder_again),
        TEST(test_a_reminder_not_stored_as_handled_comes_again),
        TEST(test_a_reminder_that_is_not_stored_is_an_error),
        TEST(test_reading_fails_and_is_tried_again),
        TEST(test_more_reminders_than_an_answer_holds),
        TEST(test_a_reminder_that_cannot_be_read_stays_stored),
        TEST(test_ST9_a_stored_period_beyond_all_time),
        TEST(test_plain_actors_get_theirs_while_they_live),
        TEST(test_ST9_two_systems_on_one_store_deliver_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
