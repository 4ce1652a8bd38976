/*
 * history_test.c - the checker of histories finds each planted violation, and
 * none where there is none.
 */
#include "history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "token.h"

enum { RECORDS_MAX = 32 };

static record records[RECORDS_MAX];
static size_t used;
static verdict out;

static record *note(record_what what, uint64_t op, int64_t begin, int64_t end,
                    uint64_t value)
{
    assert_true(used < RECORDS_MAX);
    records[used] = (record){.op = op,
                             .begin = begin,
                             .end = end,
                             .value = value,
                             .writer = op,
                             .epoch = 1,
                             .key = 7,
                             .host = 100,
                             .what = (uint8_t)what,
                             .count = what < RECORD_READ,
                             .owned = true};
    return &records[used++];
}

static record *add(uint64_t op, int64_t begin, int64_t end, uint64_t value)
{
    note(RECORD_BEGIN, op, begin, 0, 0);
    return note(RECORD_ADD, op, begin, end, value);
}

static void see(int64_t begin, int64_t end, uint64_t value, uint64_t writer)
{
    note(RECORD_READ, 0, begin, end, value)->writer = writer;
}

/* The read after everything has ended. */
static void end_with(uint64_t value, uint64_t writer)
{
    note(RECORD_FINAL, 0, 1000, 1001, value)->writer = writer;
}

/* Checks what was noted; only this sort of fault is expected, or FAULTS. */
static void expect(fault which)
{
    history_check(records, used, &out);
    for (fault i = 0; i < FAULTS; i++) {
        assert_true((out.faults[i] > 0) == (i == which));
        assert_true((out.text[i][0] != '\0') == (i == which));
    }
    used = 0;
}

static void test_a_history_in_order_has_no_fault(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    see(21, 22, 1, 1);
    add(2, 30, 50, 2);
    see(31, 32, 1, 1);  // while the update is under way both are right
    see(33, 60, 2, 2);
    end_with(2, 2);
    expect(FAULTS);
    assert_int_equal(out.updates, 2);
    assert_int_equal(out.reads, 3);
    assert_int_equal(out.unknown, 0);
}

static void test_counters_are_checked_apart(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    end_with(1, 1);
    records[used - 1].key = records[0].key;
    note(RECORD_READ, 0, 30, 40, 0)->key = 8;
    note(RECORD_FINAL, 0, 1000, 1001, 0)->key = 8;
    expect(FAULTS);
}

static void test_an_unknown_update_may_be_stored_or_not(void **state)
{
    (void)state;
    for (uint64_t value = 1; value <= 2; value++) {
        add(1, 10, 20, 1);
        note(RECORD_BEGIN, 2, 30, 0, 0);  // its process was killed
        end_with(value, value);
        expect(FAULTS);
        assert_int_equal(out.unknown, 1);
    }
}

static void test_an_unknown_update_may_be_stored_late(void **state)
{
    (void)state;
    note(RECORD_BEGIN, 2, 10, 0, 0);
    add(1, 30, 40, 1);
    see(50, 60, 1, 1);
    see(70, 80, 2, 2);
    end_with(2, 2);
    expect(FAULTS);
}

static void test_a_lost_update_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    add(2, 15, 25, 2);
    end_with(1, 1);
    history_check(records, used, &out);
    assert_int_equal(out.faults[FAULT_LOST], 1);
    assert_int_equal(out.faults[FAULT_STALE], 1);  // the final read is stale
    used = 0;
}

static void test_two_updates_with_one_value_are_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    add(2, 15, 25, 1);
    note(RECORD_BEGIN, 3, 10, 0, 0);
    end_with(2, 3);
    history_check(records, used, &out);
    assert_int_equal(out.faults[FAULT_DOUBLED], 1);
    assert_int_equal(out.faults[FAULT_FORKED], 1);
    used = 0;
}

static void test_an_update_done_twice_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    end_with(2, 1);
    expect(FAULT_DOUBLED);
}

static void test_a_refused_update_that_was_stored_is_found(void **state)
{
    (void)state;
    record *refused = add(1, 10, 20, 0);
    refused->count = 0;
    refused->refused = 1;
    end_with(1, 1);
    expect(FAULT_DOUBLED);
    assert_int_equal(out.refused, 1);
}

static void test_a_stale_read_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    add(2, 21, 30, 2);
    see(31, 40, 1, 1);
    end_with(2, 2);
    expect(FAULT_STALE);
}

static void test_a_read_older_than_a_read_is_found(void **state)
{
    (void)state;
    add(1, 10, 100, 1);
    see(20, 30, 1, 1);
    see(31, 40, 0, 0);
    end_with(1, 1);
    expect(FAULT_STALE);
}

static void test_a_read_of_a_state_never_stored_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    see(15, 30, 1, 9);
    end_with(1, 1);
    expect(FAULT_FORKED);
}

static void test_an_epoch_that_goes_back_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1)->epoch = 2;
    add(2, 30, 40, 2)->epoch = 1;
    end_with(2, 2);
    expect(FAULT_EPOCH);
}

static void test_two_owners_in_one_epoch_are_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1)->host = 1;
    add(2, 30, 40, 2)->host = 2;
    end_with(2, 2);
    expect(FAULT_EPOCH);
}

static void test_updates_sent_together_have_a_range_of_values(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        add(1, 10, 20, 1);
        add(2, 15, 40, 4 + 1 - (uint64_t)lost)->count = 4;
        records[used - 2].count = 4;
        end_with(5, 2);
        if (lost == 0) {
            expect(FAULTS);
            assert_int_equal(out.updates, 5);
        }
    }
    expect(FAULT_DOUBLED);
}

static void test_a_token_that_is_used_too_late_is_found(void **state)
{
    (void)state;
    note(RECORD_TOKEN, 0, 10, 10, 0);
    end_with(0, 0);
    expect(FAULT_TOKEN);
}

static void test_a_token_tells_an_activation_from_its_successor(void **state)
{
    token_guard guard = 0;
    (void)state;
    token_begin(&guard, 1, 5);
    assert_int_equal(token_check(&guard, 1, 5), TOKEN_TAKEN);
    token_begin(&guard, 2, 6);
    assert_int_equal(token_check(&guard, 1, 5), TOKEN_REFUSED);
    assert_int_equal(token_check(&guard, 1, 6), TOKEN_TOO_LATE);
    token_begin(&guard, 3, 5);  // too late: 2 stays
    assert_int_equal(token_check(&guard, 2, 6), TOKEN_TAKEN);
    assert_int_equal(token_check(&guard, 3, 5), TOKEN_REFUSED);
}

static void test_a_counter_without_a_final_value_is_found(void **state)
{
    (void)state;
    add(1, 10, 20, 1);
    expect(FAULT_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_history_in_order_has_no_fault),
        cmocka_unit_test(test_counters_are_checked_apart),
        cmocka_unit_test(test_an_unknown_update_may_be_stored_or_not),
        cmocka_unit_test(test_an_unknown_update_may_be_stored_late),
        cmocka_unit_test(test_a_lost_update_is_found),
        cmocka_unit_test(test_two_updates_with_one_value_are_found),
        cmocka_unit_test(test_an_update_done_twice_is_found),
        cmocka_unit_test(test_a_refused_update_that_was_stored_is_found),
        cmocka_unit_test(test_a_stale_read_is_found),
        cmocka_unit_test(test_a_read_older_than_a_read_is_found),
        cmocka_unit_test(test_a_read_of_a_state_never_stored_is_found),
        cmocka_unit_test(test_an_epoch_that_goes_back_is_found),
        cmocka_unit_test(test_two_owners_in_one_epoch_are_found),
        cmocka_unit_test(test_updates_sent_together_have_a_range_of_values),
        cmocka_unit_test(test_a_token_that_is_used_too_late_is_found),
        cmocka_unit_test(test_a_token_tells_an_activation_from_its_successor),
        cmocka_unit_test(test_a_counter_without_a_final_value_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
