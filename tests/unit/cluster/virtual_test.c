/*
 * virtual_test.c - virtual actors as a program sees them: names, activation,
 * the catalog. Their ends are in deactivation_test.c.
 */
#include "cluster/virtual/activation.h"
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/catalog.h"
#include "support/core.h"
#include "unit/cluster/counter.h"

/* ---- names ---- */

EVERYWHERE(T17_a_ref_activates_nothing)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_CREATED);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).virtual_names, 1);
}

EVERYWHERE(VA6_same_names_same_actor)
{
    char path[64];
    tr_ref a = named(w, "a");
    assert_true(tr_ref_eq(a, named(w, "a")));
    assert_false(tr_ref_eq(a, named(w, "b")));
    assert_false(tr_ref_eq(a, tr_virtual(w->sys, "other", "a")));
    tr_ref_path(w->sys, a, path, sizeof(path));
    assert_string_equal(path, NS "::counter/a");
    assert_true(tr_ref_eq(tr_virtual_named(w->sys, path), a));
}

EVERYWHERE(VA7_VA8_one_namespace)
{
    tr_ref ref = tr_virtual_named(w->sys, "other::counter/a");
    assert_int_equal(tr_ref_err(ref), TR_EFOREIGN);
    assert_non_null(strstr(tr_error_text(w->sys), NS));
    ref = tr_virtual_named(w->sys, NS "2::counter/a");
    assert_int_equal(tr_ref_err(ref), TR_EFOREIGN);
    assert_int_equal(metrics(w).virtual_names, 0);
}

EVERYWHERE(VA3_VA4_VA5_invalid_names_give_an_error_ref)
{
    static const char *const bad[] = {"", "a/b", "a::b", "a b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tr_ref_err(tr_virtual(w->sys, "counter", bad[i])),
                         TR_EINVAL);
        assert_int_equal(tr_ref_err(tr_virtual(w->sys, bad[i], "a")),
                         TR_EINVAL);
        assert_non_null(strstr(tr_error_text(w->sys), "not a name"));
    }
    assert_int_equal(tr_ref_err(tr_virtual_named(w->sys, "counter/a")),
                     TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_virtual_named(w->sys, NULL)), TR_EINVAL);
}

EVERYWHERE(rule33_names_are_limited)
{
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        named(w, key);
    }
    assert_int_equal(tr_ref_err(tr_virtual(w->sys, "counter", "one-more")),
                     TR_ELIMIT);
    assert_int_equal(metrics(w).virtual_names, 100);
    named(w, "k7");  // names that are known still work
}

static void test_VA7_an_invalid_namespace_is_an_error(void **state)
{
    tr_system *sys;
    (void)state;
    assert_int_equal(tr_system_open(&sys, .ns = "a b", .workers = 1),
                     TR_EINVAL);
    assert_null(sys);
}

/* ---- activation ---- */

EVERYWHERE(AC12_first_message_activates)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    stage.tells = true;
    tr_tell(w->sys, a, Add, .number = 5);
    heard(w, "start", 0);
    heard(w, "add", 5);
    assert_int_equal(get(w, a), 5);
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_RUNNING);
    assert_int_equal(tri_activation_state_of(tri_virtual_of(tri_ref_cell(a))),
                     TRI_ACTIVATION_VALID);
    assert_int_equal(metrics(w).activations, 1);
}

EVERYWHERE(T14_T15_calls_and_sends)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "alice");
    for (int i = 0; i < 10; i++) {
        tr_tell(w->sys, a, Add, .number = 2);
    }
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_OK);
    assert_int_equal(count.number, 20);
    assert_string_equal(count.key, "alice");
    assert_int_equal(count.epoch, 1);
    assert_true(tr_ref_eq(count.self, a));
    tr_drop(Count, &count);
}

VIRTUALLY(T14_a_call_waits_30_s_unless_told)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_nanos before = tr_now(w->sys);
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Nap, .span = TR_MINUTES(2)),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_now(w->sys) - before, TR_SECONDS(30));
    before = tr_now(w->sys);
    assert_int_equal(tr_ask(w->sys, named(w, "b"), &count, TR_SECONDS(2), Nap,
                            .span = TR_MINUTES(2)),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_now(w->sys) - before, TR_SECONDS(2));
    // The error of a call that fails is the answer.
    assert_int_equal(
        tr_ask(w->sys, named(w, "c"), &count, 0, Call, .to = TR_NOBODY),
        TR_EFAILED);
}

EVERYWHERE(T18_the_sender_is_the_virtual_actor)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Greet, .to = stage.probe);
    const tr_msg *msg = tr_expect_any(w->probe, TR_SECONDS(60));
    assert_true(tr_ref_eq(msg->sender, a));
    assert_true(tr_ref_eq(((const Note *)tr_msg_payload(msg))->ref, a));
}

VIRTUALLY(AC2_messages_wait_while_it_starts)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    stage.start_for = TR_SECONDS(20);
    tr_ref a = named(w, "a");
    for (int i = 1; i <= 3; i++) {
        tr_tell(w->sys, a, Add, .number = i);
        tr_sim_advance(w->sim, TR_SECONDS(1));
        assert_int_equal(
            tri_activation_state_of(tri_virtual_of(tri_ref_cell(a))),
            TRI_ACTIVATION_ACTIVATING);
    }
    heard(w, "start", 0);
    heard(w, "add", 1);
    heard(w, "add", 2);
    heard(w, "add", 3);
}

EVERYWHERE(AC13_a_failed_start_answers_its_callers)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    stage.start_err = TR_EIO;
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_EIO);
    assert_non_null(strstr(tr_error_text(w->sys), "no start today"));
    stage.start_err = TR_OK;
    assert_int_equal(get(w, a), 0);
}

EVERYWHERE(a_kind_that_no_node_hosts_is_an_error)
{
    Count count;
    tr_ref a = named(w, "a");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_ENOENT);
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    assert_int_equal(get(w, a), 0);
    assert_int_equal(tr_host(w->sys, counter), TR_EEXIST);
}

EVERYWHERE(hosting_refuses_options_that_make_no_sense)
{
    tr_spawn_options s = {.size = sizeof(s), .name = "x"};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    s = (tr_spawn_options){.size = sizeof(s), .mailbox_limit = 3};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    s = (tr_spawn_options){.size = sizeof(s), .joinable = true};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    assert_int_equal(tr_host(w->sys, counter, .idle = -1), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w->sys), "idle"));
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
}

/* ---- the catalog ---- */

EVERYWHERE(AC8_AC9_AC10_the_catalog_has_the_active_actors)
{
    char key[16];
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        get(w, named(w, key));
    }
    assert_int_equal(metrics(w).virtual_active, 30);
    tr_ref ref = named(w, "k3");
    tri_virtual *v = tri_virtual_of(tri_ref_cell(ref));
    uint64_t first = v->activation->order;
    tr_stop(w->sys, ref);
    (void)!tr_join(w->sys, ref, 0, NULL, NULL);
    get(w, ref);
    assert_true(v->activation->order > first);  // VA15
    assert_int_equal(metrics(w).virtual_active, 30);
}

VIRTUALLY(the_least_recently_used_are_deactivated_first)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE, .max_active = 3),
                     TR_OK);
    static const char *const key[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(w, named(w, key[i])), 0);
    }
    tr_sim_advance(w->sim, IDLE / 3);
    get(w, named(w, "a"));  // b and c are idle for longer
    get(w, named(w, "c"));
    tr_sim_advance(w->sim, IDLE / 3);
    assert_int_equal(metrics(w).virtual_active, 3);
    stage.tells = true;
    tr_tell(w->sys, named(w, "d"), Add, .number = 1);
    int stops = 0;
    for (int i = 0; i < 3; i++) {  // start and add of d, and one stop
        const Note *n = tr_expect(w->probe, TR_SECONDS(60), Note);
        if (strcmp(n->text, "stop") == 0) {
            assert_int_equal(n->number, TR_IDLE);
            assert_true(tr_ref_eq(n->ref, named(w, "b")));
            stops++;
        }
    }
    assert_int_equal(stops, 1);
    tr_sim_advance(w->sim, 1);
    assert_int_equal(metrics(w).virtual_active, 3);
}

/* ---- stateless workers ---- */

VIRTUALLY(stateless_workers_share_a_name)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter, .workers = 4, .idle = IDLE),
                     TR_OK);
    tr_ref a = named(w, "a");
    for (int i = 0; i < 8; i++) {
        tr_tell(w->sys, a, Add, .number = 1);
    }
    for (int i = 0; i < 4; i++) {  // each had two
        assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_OK);
        assert_int_equal(count.number, 2);
        assert_string_equal(count.key, "a");
        tr_drop(Count, &count);
    }
    assert_int_equal(metrics(w).virtual_active, 4);
    tr_sim_advance(w->sim, 2 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(get(w, a), 0);
}

/* ---- state ---- */

EVERYWHERE(ST_state_survives_deactivation)
{
    tr_storage *memory, *store;
    Count count;
    assert_int_equal(tr_storage_memory(&memory), TR_OK);
    assert_int_equal(tr_storage_capture(&store, memory), TR_OK);
    assert_int_equal(tr_host(w->sys, counter, .storage = store), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Store, .number = 42), TR_OK);
    tr_stop(w->sys, a);
    assert_int_equal(get(w, a), 42);
    assert_int_equal(get(w, named(w, "b")), 0);
    tr_captured call;
    bool saved = false;
    for (size_t i = 0; tr_storage_captured(store, i, &call); i++) {
        if (call.call == TR_STORE_SAVE) {
            assert_string_equal(call.key, NS "::counter/a");
            saved = true;
        }
    }
    assert_true(saved);
    close_world(w);
    tr_storage_close(store);
    tr_storage_close(memory);
    open_world(w, 1);  // for the fixture to close
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T17_a_ref_activates_nothing),
        cmocka_unit_test(test_VA6_same_names_same_actor),
        cmocka_unit_test(test_VA7_VA8_one_namespace),
        cmocka_unit_test(test_VA3_VA4_VA5_invalid_names_give_an_error_ref),
        cmocka_unit_test(test_rule33_names_are_limited),
        cmocka_unit_test(test_VA7_an_invalid_namespace_is_an_error),
        cmocka_unit_test(test_AC12_first_message_activates),
        cmocka_unit_test(test_T14_T15_calls_and_sends),
        cmocka_unit_test(test_T14_a_call_waits_30_s_unless_told),
        cmocka_unit_test(test_T18_the_sender_is_the_virtual_actor),
        cmocka_unit_test(test_AC2_messages_wait_while_it_starts),
        cmocka_unit_test(test_AC13_a_failed_start_answers_its_callers),
        cmocka_unit_test(test_a_kind_that_no_node_hosts_is_an_error),
        cmocka_unit_test(test_hosting_refuses_options_that_make_no_sense),
        cmocka_unit_test(test_AC8_AC9_AC10_the_catalog_has_the_active_actors),
        cmocka_unit_test(test_the_least_recently_used_are_deactivated_first),
        cmocka_unit_test(test_stateless_workers_share_a_name),
        cmocka_unit_test(test_ST_state_survives_deactivation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
