/*
 * sourcing_test.c - states made of events: emitting and replay, in memory, in
 * a file and in a database.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/system/ledger.h"

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
    tr_ref ref =
        spawn_with(f, ledger, .name = "bob", TR_INIT(ledger, .cents = 1000));
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
    assert_int_equal(
        tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 50, .out = 20),
        TR_OK);
    expect(f, ref, 30, NULL, 2);
    assert_int_equal(count_calls(f, TR_STORE_APPEND), 1);
    tr_storage_fail_nth(f->store, 1, TR_ESTORAGE);
    assert_int_equal(
        tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 9, .out = 1),
        TR_ESTORAGE);
    expect(f, ref, 30, NULL, 2);
    assert_int_equal(
        tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Move, .in = 9, .out = 1),
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
        assert_string_equal(v.lines, "<even><odd><even><odd><even><odd>");
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
        assert_int_equal(
            tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Misuse, .how = how),
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
    expect_no_start(f, spawn_failing(f, ledger, .name = "pam"), KEY("pam"),
                    "event 2, a Deposited", "cents");
    append_raw(f, KEY("pia"), 0, "Renamed {}");
    expect_no_start(f, spawn_failing(f, ledger, .name = "pia"), KEY("pia"),
                    "event 1, a Renamed", "TR_APPLY");
    append_raw(f, KEY("pat"), 0, "\1\2\3");
    expect_no_start(f, spawn_failing(f, ledger, .name = "pat"), KEY("pat"),
                    "event 1", "name of a type");
}

static void test_a_panic_while_applying_stores_nothing(void **state)
{
    fixture *f = *state;
    tr_ref ref = spawn_with(f, ledger, .name = "quo");
    assert_int_equal(deposit(f, ref, 1, "q", 1), TR_OK);
    assert_int_equal(
        tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Write, .line = "panic"),
        TR_EPANIC);
    expect(f, ref, 1, "q", 1);
    end(f, ref);
    append_raw(f, KEY("quo"), 1, "Noted {\"line\":\"panic\"}");
    tr_result result;
    ref = spawn_failing(f, ledger, .name = "quo");
    assert_int_equal(tr_join(f->sys, ref, TR_SECONDS(60), &result, NULL),
                     TR_OK);
    assert_int_equal(result.err, TR_EPANIC);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH_STORE(test_ST9_ST19_events_are_replayed_at_start),
        IN_EACH_STORE(test_ST20_restart_replays),
        IN_EACH_STORE(test_ST11_ST12_events_are_stored_all_or_none),
        IN_EACH_STORE(test_rule_28_unknown_outcome_replays),
        IN_EACH_STORE(test_ST10_second_writer_of_events_is_fenced),
        IN_EACH_STORE(test_events_lists_and_texts_are_copied),
        IN_EACH_STORE(test_misuse_of_events_is_refused),
        IN_EACH_STORE(test_more_events_than_a_page_are_replayed),
        IN_EACH_STORE(test_events_evolve_by_schema),
        IN_EACH_STORE(test_an_undecodable_event_fails_the_start),
        IN_EACH_STORE(test_a_panic_while_applying_stores_nothing),
        IN_EACH_STORE(test_AC11_virtual_actors_replay_when_activated),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
