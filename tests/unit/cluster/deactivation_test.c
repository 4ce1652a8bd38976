/*
 * deactivation_test.c - how activations end: when they are stopped or idle,
 * when they are busy, and what mail goes to the next activation.
 */
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/catalog.h"
#include "support/core.h"
#include "unit/cluster/counter.h"

EVERYWHERE(AC7_stop_deactivates)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_stop(w->sys, a);  // nothing to stop
    tr_tell(w->sys, a, Add, .number = 5);
    assert_int_equal(get(w, a), 5);
    tr_probe_watch(w->probe, a);
    tr_stop(w->sys, a);
    const tr_terminated *t = tr_expect(w->probe, TR_SECONDS(60), tr_terminated);
    assert_int_equal(t->reason, TR_STOPPED);
    assert_true(tr_ref_eq(t->actor, a));
    assert_int_equal(get(w, a), 0);  // another activation
    assert_int_equal(metrics(w).activations, 2);
    stage.tells = true;
    tr_stop(w->sys, a);
    heard(w, "stop", TR_STOPPED);
    get(w, a);
    heard(w, "start", 0);
    tr_kill(w->sys, a);
    heard(w, "stop", TR_KILLED);
}

EVERYWHERE(AC7_shutdown_deactivates)
{
    // The fixture closes the system while these are active.
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", i);
        tr_tell(w->sys, named(w, key), Add, .number = 1);
    }
    assert_int_equal(get(w, named(w, "k0")), 1);
}

VIRTUALLY(AC5_AC6_idle_actors_are_deactivated)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    stage.tells = true;
    for (int i = 1; i <= 8; i++) {  // each one restarts the idle time
        tr_tell(w->sys, a, Add, .number = i);
        if (i == 1) {
            heard(w, "start", 0);
        }
        heard(w, "add", i);
        tr_sim_advance(w->sim, IDLE / 2);
    }
    tr_sim_advance(w->sim, IDLE + 1);
    heard(w, "stop", TR_IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_CREATED);
    assert_int_equal(get(w, a), 0);
    heard(w, "start", 0);
}

VIRTUALLY(AC6_no_deactivation_before_the_idle_time)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(get(w, a), 0);
    tr_sim_advance(w->sim, IDLE - TR_SECONDS(1));
    assert_int_equal(metrics(w).virtual_active, 1);
    tr_sim_advance(w->sim, IDLE / 2 + TR_SECONDS(2));
    assert_int_equal(metrics(w).virtual_active, 0);
}

VIRTUALLY(MS11_quiet_messages_do_not_keep_an_actor_active)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(get(w, a), 0);
    for (int i = 0; i < 15; i++) {
        if (metrics(w).virtual_active == 1) {
            tr_tell(w->sys, a, Tick, .number = 1);
        }
        tr_sim_advance(w->sim, TR_MINUTES(1));
    }
    tr_sim_advance(w->sim, 1);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).activations, 1);
}

VIRTUALLY(rule29_an_actor_that_waits_is_busy)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 3);
    assert_int_equal(tr_ask(w->sys, a, &count, 4 * IDLE, Nap, .span = 3 * IDLE),
                     TR_OK);
    assert_int_equal(count.number, 3);
    assert_int_equal(metrics(w).activations, 1);
}

static tr_err ask_hold(tr_ctx *ctx, void *self, const Greet *m)
{
    Count count;
    (void)self;
    TR_TRY(tr_ask(ctx, m->to, &count, TR_SECONDS(86400), Hold));
    tr_tell(ctx, stage.probe, Note, .text = "answered", .number = count.number);
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Greet, ask_hold));

VIRTUALLY(rule29_an_actor_with_a_kept_request_is_busy)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 3);
    tr_tell(w->sys, tr_spawn(w->sys, asker), Greet, .to = a);
    tr_sim_advance(w->sim, 5 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 1);
    tr_tell(w->sys, a, Release);
    heard(w, "answered", 3);
    tr_sim_advance(w->sim, 2 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
}

VIRTUALLY(X30_mail_during_an_end_goes_to_the_next_activation)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    stage.stop_for = TR_SECONDS(2);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 1);
    heard(w, "start", 0);
    heard(w, "add", 1);
    tr_stop(w->sys, a);
    for (int i = 2; i <= 5; i++) {
        tr_tell(w->sys, a, Add, .number = i);
        tr_sim_advance(w->sim, TR_MS(100));
        assert_int_equal(
            tri_activation_state_of(tri_virtual_of(tri_ref_cell(a))),
            TRI_ACTIVATION_DEACTIVATING);
    }
    heard(w, "stop", TR_STOPPED);
    heard(w, "start", 0);
    for (int i = 2; i <= 5; i++) {
        heard(w, "add", i);
    }
    stage.stop_for = 0;
}

VIRTUALLY(X30_unhandled_mail_goes_to_the_next_activation)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(w->sim, TR_MS(1));
    for (int i = 1; i <= 3; i++) {
        tr_tell(w->sys, a, Add, .number = i);
    }
    tr_stop(w->sys, a);  // after the nap, and before the others
    tr_tell(w->sys, a, Add, .number = 4);
    heard(w, "start", 0);
    heard(w, "stop", TR_STOPPED);
    heard(w, "start", 0);
    for (int i = 1; i <= 4; i++) {
        heard(w, "add", i);
    }
}

EVERYWHERE(watching_an_inactive_actor_finds_none)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_probe_watch(w->probe, a);
    const tr_terminated *t = tr_expect(w->probe, TR_SECONDS(60), tr_terminated);
    assert_int_equal(t->reason, TR_NO_SUCH_ACTOR);
    assert_int_equal(tr_join(w->sys, a, 0, NULL, NULL), TR_ENOENT);
}

EVERYWHERE(a_failure_restarts_and_at_last_ends_an_activation)
{
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = 2,
                             .within = TR_MINUTES(60),
                             .backoff_min = 1,
                             .backoff_max = 1};
    tr_spawn_options s = {.size = sizeof(s), .supervision = &policy};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_OK);
    tr_ref a = named(w, "a");
    for (int i = 0; i < 3; i++) {
        tr_tell(w->sys, a, Add, .number = 1);
        tr_tell(w->sys, a, Fail);
    }
    // The restart limit is reached: this activation ends, no other.
    assert_int_equal(get(w, a), 0);
    assert_int_equal(metrics(w).activations, 2);
    assert_int_equal(get(w, named(w, "b")), 0);
}

EVERYWHERE(rule19_a_cycle_of_calls_is_found)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a"), b = named(w, "b");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Call, .to = b), TR_OK);
    // Refused by the last one, not timed out: b passes TR_EDEADLOCK on.
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Call, .to = b, .back = a),
                     TR_EFAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_AC7_stop_deactivates),
        cmocka_unit_test(test_AC7_shutdown_deactivates),
        cmocka_unit_test(test_AC5_AC6_idle_actors_are_deactivated),
        cmocka_unit_test(test_AC6_no_deactivation_before_the_idle_time),
        cmocka_unit_test(test_MS11_quiet_messages_do_not_keep_an_actor_active),
        cmocka_unit_test(test_rule29_an_actor_that_waits_is_busy),
        cmocka_unit_test(test_rule29_an_actor_with_a_kept_request_is_busy),
        cmocka_unit_test(
            test_X30_mail_during_an_end_goes_to_the_next_activation),
        cmocka_unit_test(test_X30_unhandled_mail_goes_to_the_next_activation),
        cmocka_unit_test(test_watching_an_inactive_actor_finds_none),
        cmocka_unit_test(
            test_a_failure_restarts_and_at_last_ends_an_activation),
        cmocka_unit_test(test_rule19_a_cycle_of_calls_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
