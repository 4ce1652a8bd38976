/*
 * 06_flaky_actor_ends_alone.c - an actor that fails too often is stopped, with
 * a log line, an event and a metric; the rest of the system goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Break);
TR_MESSAGE(Pong, (uint32_t, incarnation));
TR_REQUEST(Ping, Pong);
TR_MESSAGE(Born, (tr_ref, ref));
TR_REQUEST(Bear, Born, (bool, escalates));

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "flaky");
}

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m, .incarnation = tr_incarnation(ctx));
}

TR_ACTOR(flaky, void, TR_ON(Break, on_break), TR_ON(Ping, on_ping));

static tr_err on_bear(tr_ctx *ctx, void *self, const Bear *m)
{
    (void)self;
    const tr_supervision *policy =
        m->escalates ? TR_SUPERVISE(.on_limit = TR_ESCALATE) : NULL;
    return tr_reply(ctx, m, tr_spawn(ctx, flaky, .supervision = policy));
}

TR_ACTOR(parent, void, TR_ON(Bear, on_bear), TR_ON(Ping, on_ping));

static _Atomic(int) errors_logged;

static void count_errors(void *user, const tr_log_record *record)
{
    (void)user;
    if (record->level == TR_LOG_ERROR &&
        strstr(record->text, "decision: stop") != NULL) {
        // Relaxed: the join orders it before the look.
        atomic_fetch_add_explicit(&errors_logged, 1, memory_order_relaxed);
    }
}

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
} world;

static void open_world(world *w)
{
    atomic_store_explicit(&errors_logged, 0, memory_order_relaxed);
    assert_int_equal(tr_sim_new(&w->sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log = count_errors),
                     TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
}

static void close_world(world *w)
{
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

/* Makes the actor fail four times and waits for what becomes of it. */
static void break_often(world *w, tr_ref ref)
{
    for (int i = 0; i < 4; i++) {
        tr_tell(w->sys, ref, Break);
    }
    tr_sim_advance(w->sim, TR_SECONDS(5));
    assert_int_equal(tr_state_of(w->sys, ref), TR_STATE_TERMINATED);
}

static uint64_t given_up(tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    return m.given_up;
}

static void test_first_week_06_a_top_level_actor_ends_alone(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    tr_ref steady = tr_spawn(w.sys, flaky, .name = "steady");
    tr_ref bad = tr_spawn(w.sys, flaky, .name = "bad", .joinable = true);
    tr_probe_subscribe(w.probe, tr_supervision_event);
    break_often(&w, bad);
    for (int i = 0; i < 4; i++) {
        const tr_supervision_event *e =
            tr_expect(w.probe, TR_SECONDS(1), tr_supervision_event);
        assert_int_equal(e->directive, i < 3 ? TR_RESTART : TR_STOP);
    }
    tr_result result;
    assert_int_equal(tr_join(w.sys, bad, 0, &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_FAILED);
    assert_int_equal(result.err, TR_EUSER);
    assert_int_equal(given_up(w.sys), 1);
    // Relaxed: the world has stopped.
    assert_int_equal(atomic_load_explicit(&errors_logged, memory_order_relaxed),
                     1);
    assert_int_equal(tr_ask(w.sys, steady, NULL, 0, Ping), TR_OK);
    close_world(&w);
}

static void test_first_week_06_a_child_ends_alone(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    tr_ref p = tr_spawn(w.sys, parent);
    Born born;
    assert_int_equal(tr_ask(w.sys, p, &born, 0, Bear), TR_OK);
    break_often(&w, born.ref);
    Pong pong;
    assert_int_equal(tr_ask(w.sys, p, &pong, 0, Ping), TR_OK);
    assert_int_equal(pong.incarnation, 1);
    close_world(&w);
}

static void test_first_week_06_escalation_is_a_choice(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    tr_ref p = tr_spawn(w.sys, parent);
    Born born;
    assert_int_equal(tr_ask(w.sys, p, &born, 0, Bear, .escalates = true),
                     TR_OK);
    break_often(&w, born.ref);
    Pong pong;
    assert_int_equal(tr_ask(w.sys, p, &pong, 0, Ping), TR_OK);
    assert_int_equal(pong.incarnation, 2);
    assert_int_equal(given_up(w.sys), 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_06_a_top_level_actor_ends_alone),
        cmocka_unit_test(test_first_week_06_a_child_ends_alone),
        cmocka_unit_test(test_first_week_06_escalation_is_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
