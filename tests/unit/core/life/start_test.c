/*
 * start_test.c - starting an actor: the order of its hooks, a start that
 * fails, a stop that comes early.
 */
#include "support/fixture.h"

static void start_order(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS, .count = 7));
    assert_int_equal(tr_ref_err(a), TR_OK);
    // The state is filled before the hook.
    assert_int_equal(heard(s, "a pre_start"), 7);
    heard(s, "a post_start");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_RUNNING);
    quiet(s);
}

typedef struct Waking {
    tr_ref probe;
} Waking;

static tr_err waking_pre_start(tr_ctx *ctx, Waking *self)
{
    tr_tell(ctx, self->probe, Note, .text = "before",
            .number = tr_state_of(ctx, tr_self(ctx)));
    return TR_OK;
}

static tr_err waking_post_start(tr_ctx *ctx, Waking *self)
{
    tr_tell(ctx, self->probe, Note, .text = "after",
            .number = tr_state_of(ctx, tr_self(ctx)));
    return TR_OK;
}

TR_ACTOR(waking, Waking, TR_HOOK(pre_start, waking_pre_start),
         TR_HOOK(post_start, waking_post_start));

/* The actor is RUNNING between the two hooks. */
static void start_states(stage *s)
{
    (void)tr_spawn(s->sys, waking, TR_INIT(waking, .probe = s->to));
    assert_int_equal(heard(s, "before"), TR_STATE_STARTING);
    assert_int_equal(heard(s, "after"), TR_STATE_RUNNING);
}

static void test_L13_L15_L16_L22_X51_the_order_of_a_start(void **state)
{
    (void)state;
    everywhere(start_states);
    everywhere(start_order);
}

enum { WORDS = 64 * 1024 };  // half a megabyte

TR_MESSAGE(Put, (uint32_t, index), (int64_t, value));
TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Total, Sum);
TR_MESSAGE(Fall);

typedef struct Ledger {
    int64_t words[WORDS];
} Ledger;

static tr_err on_put(tr_ctx *ctx, Ledger *self, const Put *m)
{
    (void)ctx;
    self->words[m->index] = m->value;
    return TR_OK;
}

static tr_err on_total(tr_ctx *ctx, Ledger *self, const Total *m)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < WORDS; i++) {
        sum += self->words[i];
    }
    return tr_reply(ctx, m, .value = sum);
}

static tr_err on_fall(tr_ctx *ctx, Ledger *self, const Fall *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to");
}

TR_ACTOR(ledger, Ledger, TR_ON(Put, on_put), TR_ON(Total, on_total),
         TR_ON(Fall, on_fall));

static int64_t total(tr_system *sys, tr_ref ref)
{
    Sum sum;
    TR_MUST(tr_ask(sys, ref, &sum, TR_SECONDS(5), Total));
    return sum.value;
}

static void test_X51_a_large_state_is_reset_for_each_incarnation(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
    for (int round = 0; round < 3; round++) {  // in memory of the actor before
        tr_ref ref = tr_spawn(sys, ledger);
        assert_int_equal(total(sys, ref), 0);
        tr_tell(sys, ref, Put, .index = 0, .value = 5);
        tr_tell(sys, ref, Put, .index = WORDS - 1, .value = 7);
        assert_int_equal(total(sys, ref), 12);
        tr_tell(sys, ref, Fall);
        tr_sim_advance(sim, TR_SECONDS(5));
        assert_int_equal(total(sys, ref), 0);
        tr_tell(sys, ref, Put, .index = 1, .value = 1);
        tr_stop(sys, ref);
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* ---- a start that fails ---- */

static void start_fails(stage *s, Player as, tr_err wanted)
{
    as.probe = s->to;
    as.says = ALL_HOOKS;
    tr_ref a =
        tr_spawn(s->sys, player, .name = "a", .joinable = true, .init = &as,
                 .init_type = player.state, .init_size = sizeof(as));
    watch_end(s, a);
    heard(s, "a pre_start");
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_FAILED || reason == TR_NO_SUCH_ACTOR);
    assert_int_equal(tr_started(s->sys, a, 0), TR_ENOENT);
    tr_result result;
    assert_int_equal(tr_join(s->sys, a, 0, &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_FAILED);
    assert_int_equal(result.err, wanted);
    assert_int_equal(result.phase, TR_IN_START);
    // The name is free: the caller may try again.
    assert_int_equal(tr_ref_err(PLAY(s, "a", ())), TR_OK);
    quiet(s);
}

static void pre_start_fails(stage *s)
{
    start_fails(s, (Player){.fails = PRE_START}, TR_EIO);
}

static void pre_start_panics(stage *s)
{
    start_fails(s, (Player){.panics = PRE_START}, TR_EPANIC);
}

static void test_L14_L23_SP15_a_start_that_fails_ends_the_actor(void **state)
{
    (void)state;
    everywhere(pre_start_fails);
    everywhere(pre_start_panics);
}

static void started_tells_the_error(stage *s)
{
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START, .sleepy = true, .fails = PRE_START));
    assert_int_equal(tr_started(s->sys, a, TR_MINUTES(5)), TR_EIO);
    tr_ref b = PLAY(s, "b", (.says = PRE_START, .sleepy = true));
    assert_int_equal(tr_started(s->sys, b, TR_SECONDS(1)), TR_ETIMEDOUT);
    assert_int_equal(tr_started(s->sys, b, TR_MINUTES(5)), TR_OK);
    assert_int_equal(tr_started(s->sys, b, 0), TR_OK);
    tr_ref c = PLAY(s, "not/a/name", ());
    assert_int_equal(tr_started(s->sys, c, 0), TR_EINVAL);
    heard(s, "a pre_start");
    heard(s, "b pre_start");
}

static void test_X6_SP16_started_waits_for_running_or_the_error(void **state)
{
    (void)state;
    virtually(started_tells_the_error);
}

static void post_start_fails(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS, .fails = POST_START));
    watch_end(s, a);
    heard(s, "a pre_start");
    heard(s, "a post_start");
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    (void)ended(s, a);
    // The decider of a parent may order a restart.
    tr_ref b = PLAY(s, "b", (.decision = TR_RESTART));
    tr_ref c =
        CHILD(s, b, "c", (.says = ALL_HOOKS, .fails = POST_START, .times = 1));
    heard(s, "c pre_start");
    heard(s, "c post_start");
    assert_int_equal(heard(s, "c pre_restart"), TR_EIO);
    assert_int_equal(heard(s, "c post_stop"), TR_RESTARTING);
    heard(s, "c pre_start");
    heard(s, "c post_start");
    assert_int_equal(heard(s, "c post_restart"), 2);
    assert_int_equal(gotten(s, c).incarnation, 2);
}

/* Its failure is escalated, and the supervisor resumes. */
static void failed_start_escalates(stage *s, unsigned hook)
{
    tr_ref g = PLAY(s, "g", ());
    tr_ref p = CHILD(s, g, "p", (.count = 1, .decision = TR_ESCALATE),
                     .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP, .fails = hook));
    assert_int_equal(heard(s, "a post_stop"), TR_FAILED);
    watch_end(s, a);
    (void)ended(s, a);
    assert_int_equal(gotten(s, p).number, 1);
    quiet(s);
}

static void failed_start_is_not_resumed(stage *s)
{
    failed_start_escalates(s, PRE_START);
}

static void failed_post_start_is_not_resumed(stage *s)
{
    failed_start_escalates(s, POST_START);
}

static void test_rule_21_no_failed_start_is_resumed_with_its_parent(
    void **state)
{
    (void)state;
    everywhere(failed_start_is_not_resumed);
    everywhere(failed_post_start_is_not_resumed);
}

static void test_L17_L26_a_hook_that_fails_is_a_failure(void **state)
{
    (void)state;
    everywhere(post_start_fails);
}

/* ---- a stop before the end of the start ---- */

static void stop_before_start(stage *s)
{
    tr_ref a =
        PLAY(s, "a", (.says = PRE_START | PRE_STOP | POST_STOP, .sleepy = true),
             .stop_timeout = TR_MINUTES(10));
    watch_end(s, a);
    tr_sim_advance(s->sim, TR_SECONDS(30));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STARTING);
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STOPPING);
    heard(s, "a pre_start");  // the hook runs to its end
    heard(s, "a pre_stop");
    heard(s, "a post_stop");
    assert_int_equal(ended(s, a), TR_STOPPED);
}

static void test_X24_a_stop_waits_for_the_hook_of_the_start(void **state)
{
    (void)state;
    virtually(stop_before_start);
}

static void stop_at_once(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS));
    tr_stop(s->sys, a);
    tr_stop(s->sys, a);
    watch_end(s, a);
    tr_reason reason = ended(s, a);
    assert_true(reason == TR_STOPPED || reason == TR_NO_SUCH_ACTOR);
    tr_stop(s->sys, a);
    // Either no hook ran, or each of them once.
    tr_tell(s->sys, s->to, Note, .text = "over");
    const char *const wanted[] = {"a pre_start", "a post_start", "a pre_stop",
                                  "a post_stop", "over"};
    const Note *n = tr_expect(s->probe, patience(s), Note);
    for (int i = strcmp(n->text, "over") == 0 ? 4 : 0; i < 5; i++) {
        assert_string_equal(n->text, wanted[i]);
        n = i < 4 ? tr_expect(s->probe, patience(s), Note) : n;
    }
    quiet(s);
}

static void test_L11_L12_K13_stopping_again_changes_nothing(void **state)
{
    (void)state;
    everywhere(stop_at_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L13_L15_L16_L22_X51_the_order_of_a_start),
        cmocka_unit_test(test_X51_a_large_state_is_reset_for_each_incarnation),
        cmocka_unit_test(test_L14_L23_SP15_a_start_that_fails_ends_the_actor),
        cmocka_unit_test(test_X6_SP16_started_waits_for_running_or_the_error),
        cmocka_unit_test(
            test_rule_21_no_failed_start_is_resumed_with_its_parent),
        cmocka_unit_test(test_L17_L26_a_hook_that_fails_is_a_failure),
        cmocka_unit_test(test_X24_a_stop_waits_for_the_hook_of_the_start),
        cmocka_unit_test(test_L11_L12_K13_stopping_again_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
