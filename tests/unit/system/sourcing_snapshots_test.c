/*
 * sourcing_snapshots_test.c - snapshots shorten the replay; one that is lost,
 * damaged, or of other events is replaced or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/system/ledger.h"

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
    uint64_t dropped = snapshot_version(f, KEY("ken"));
    ref = spawn_with(f, ledger, .name = "ken");
    expect(f, ref, 9, "k", 9);
    assert_int_equal(deposit(f, ref, 1, "k", EVERY), TR_OK);
    assert_true(snapshot_version(f, KEY("ken")) > dropped);
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
    expect_no_start(f, spawn_failing(f, trimmed, .name = "max"), key,
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
    assert_int_equal(
        save_text(f->inner, KEY("ned"), 0, "Ledger@9 {\"cents\":9}"), TR_OK);
    append_raw(f, KEY("ned"), 0, "Withdrawn {\"cents\":1}");
    expect_no_start(f, spawn_failing(f, ledger, .name = "ned"), KEY("ned"),
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
    expect_no_start(f, spawn_failing(f, trimmed, .name = "sue"), key,
                    "event 5 does not follow", "restore a backup");
    // One of an older layout does not say which events it is of.
    assert_int_equal(save_text(f->inner, key, snapshot_version(f, key),
                               "Ledger@4 {\"cents\":44}"),
                     TR_OK);
    ref = spawn_with(f, trimmed, .name = "sue");
    expect(f, ref, 45, "s", EVERY + 1);
}

static void test_a_snapshot_with_a_strange_head_is_replaced(void **state)
{
    static const char *const heads[] = {"#",    "#x1", "#1A",
                                        "#1#2", "1#",  "#11112222333344445"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH_STORE(test_snapshots_shorten_the_replay),
        IN_EACH_STORE(test_a_damaged_snapshot_is_replaced),
        IN_EACH_STORE(test_trimmed_events_need_their_snapshot),
        IN_EACH_STORE(test_a_failed_snapshot_is_no_failure),
        IN_EACH_STORE(test_a_snapshot_ahead_of_its_events_is_refused),
        {"sqlite: test_ST9_ST15_a_snapshot_of_other_events_is_refused",
         test_ST9_ST15_a_snapshot_of_other_events_is_refused, open_all_sqlite,
         close_all, NULL},
        IN_EACH_STORE(test_a_snapshot_with_a_strange_head_is_replaced),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
