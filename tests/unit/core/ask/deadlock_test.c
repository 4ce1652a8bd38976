/*
 * deadlock_test.c - a wait that would close a cycle is refused at once, and no
 * other wait is.
 */
#include "support/stage.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* ---- cycles ---- */

static bool said(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/*
 * A handler cannot refuse with TR_EDEADLOCK: that error is for the runtime
 * alone. The tests pass it on as an error of the program.
 */
#define AS_USER_ERROR(err)                                                     \
    ((tr_err)((err) >= TR_EUSER ? (err) : TR_EUSER + (err)))

static tr_err answer_with(tr_ctx *ctx, const Act *m, tr_err err)
{
    return err == TR_OK ? tr_reply(ctx, m, .value = 1)
                        : tr_refuse(ctx, m, AS_USER_ERROR(err), "%s",
                                    tr_error_text(ctx));
}

/* Asks its peer to ask its own peer, and so on, arg times. */
static tr_err act_chain(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    tr_err err = left == 0 ? act_ask(ctx, self->peer, act_nothing, NULL, 0)
                           : act_ask(ctx, self->peer, act_chain, left - 1, 0);
    return answer_with(ctx, m, err);
}

static void ring_of(stage *it, tr_ref *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_ok(stage_ask(it, refs[i], act_meet, &refs[(i + 1) % count]));
    }
}

static void expect_cycle(stage *it, size_t count)
{
    tr_ref refs[] = {it->one, it->two, it->three};
    ring_of(it, refs, count);
    tr_nanos before = tr_now(it->sys);
    expect_err(stage_ask(it, it->one, act_chain, (void *)(count - 1)),
               AS_USER_ERROR(TR_EDEADLOCK));
    assert_int_equal(tr_now(it->sys), before);  // at once, without a time-out
    const char *text = tr_error_text(it->sys);
    assert_true(said(text, "/user/one"));
    assert_true(said(text, "deadlock_test.c:"));
    if (count > 1) {
        assert_true(said(text, "/user/two"));
    }
    // All actors of the cycle go on.
    for (size_t i = 0; i < count; i++) {
        expect_ok(stage_ask(it, refs[i], act_nothing, NULL));
    }
}

static void test_rule_19_a_cycle_of_two_is_refused_at_once(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_cycle(&it, 2);
    stage_close(&it);
}

static void test_rule_19_a_cycle_of_three_is_refused_at_once(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_cycle(&it, 3);
    stage_close(&it);
}

static tr_err act_ask_back(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_err err = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return answer_with(ctx, m, err);
}

/* Opens a stage on which one and two are each other's peer. */
static void open_two(stage *it)
{
    stage_open(it);
    ring_of(it, (tr_ref[]){it->one, it->two}, 2);
}

static tr_err act_future_chain(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)arg;
    tr_future future = tr_async(ctx, self->peer, 0, Act,
                                .fn = (uint64_t)(uintptr_t)act_ask_back);
    tr_err err = tr_await(ctx, future, Act, (Acted *)NULL);
    return answer_with(ctx, m, err);
}

static void test_rule_19_futures_are_edges_when_awaited(void **state)
{
    stage it;
    (void)state;
    open_two(&it);
    expect_err(stage_ask(&it, it.one, act_future_chain, NULL),
               AS_USER_ERROR(TR_EDEADLOCK));
    assert_true(said(tr_error_text(it.sys), "/user/two"));
    stage_close(&it);
}

static tr_err act_meet_other(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)m;
    self->other = *(tr_ref *)arg;
    return TR_OK;
}

/* The notice of the watch is in the system mail when the wait begins. */
static tr_err act_future_with_mail(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    tr_watch(ctx, self->other);
    return act_future_chain(ctx, self, m, arg);
}

static void test_rule_19_other_system_mail_hides_no_cycle(void **state)
{
    stage it;
    (void)state;
    open_two(&it);
    expect_ok(stage_ask(&it, it.one, act_meet_other, &it.three));
    tr_kill(it.sys, it.three);
    tr_sim_advance(it.sim, TR_MS(1));
    expect_err(stage_ask(&it, it.one, act_future_with_mail, NULL),
               AS_USER_ERROR(TR_EDEADLOCK));
    stage_close(&it);
}

static tr_err act_await_any(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_future futures[2];
    size_t index;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        futures[i] = tr_async(ctx, i == 0 ? self->peer : self->other, 0, Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    }
    tr_err err = tr_await_any(ctx, futures, 2, &index);
    return answer_with(ctx, m, err);
}

/* Asks its peer to wait for any of two futures. */
static tr_err act_ask_any(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_err err = act_ask(ctx, self->peer, act_await_any, NULL, 0);
    return answer_with(ctx, m, err);
}

static void test_rule_19_await_any_is_refused_only_if_all_lead_back(
    void **state)
{
    stage it;
    (void)state;
    open_two(&it);
    expect_ok(stage_ask(&it, it.two, act_meet_other, &it.one));
    expect_err(stage_ask(&it, it.one, act_ask_any, NULL),
               AS_USER_ERROR(TR_EDEADLOCK));
    expect_ok(stage_ask(&it, it.two, act_meet_other, &it.three));
    expect_ok(stage_ask(&it, it.one, act_ask_any, NULL));
    stage_close(&it);
}

/* ---- where there is no edge ---- */

static tr_err act_interleaved_back(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)arg;
    tr_err err = tr_ask(ctx, self->peer, NULL, 0, ActBeside,
                        .fn = (uint64_t)(uintptr_t)act_nothing);
    return answer_with(ctx, m, err);
}

static tr_err act_ask_peer_for(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tr_err err = act_ask(ctx, self->peer, arg, NULL, 0);
    return answer_with(ctx, m, err);
}

static void test_rule_19_interleaving_requests_are_exempt(void **state)
{
    stage it;
    (void)state;
    open_two(&it);
    expect_ok(stage_ask(&it, it.one, act_ask_peer_for, act_interleaved_back));
    stage_close(&it);
}

/*
 * `one` sends an interleaving request to `two`; the parked turn of `two` then
 * asks `one` for a write. That turn waits for the turn of `one`, which waits
 * only for the interleaved answer: there is no cycle.
 */
static tr_err act_nap_then_ask(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    *(tr_err *)arg = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return TR_OK;
}

static tr_err act_slow_beside(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(2)));
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_ask_beside(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    *(tr_err *)arg = tr_ask(ctx, self->peer, NULL, 0, ActBeside,
                            .fn = (uint64_t)(uintptr_t)act_slow_beside);
    return TR_OK;
}

static void test_rule_19_an_interleaving_request_is_no_edge(void **state)
{
    stage it;
    tr_err first = TR_EUSER, second = TR_EUSER;
    (void)state;
    open_two(&it);
    stage_tell(&it, it.two, act_nap_then_ask, &second);
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_ask_beside, &first);
    stage_pass(&it, TR_SECONDS(5));
    expect_ok(first);
    expect_ok(second);
    stage_close(&it);
}

static tr_err act_reply_then_ask(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    tr_err *out = arg;
    TR_TRY(tr_reply(ctx, m, .value = 1));
    *out = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return TR_OK;
}

static tr_err act_ask_replier(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    return act_ask(ctx, self->peer, act_reply_then_ask, arg, 0);
}

static void test_rule_19_an_answered_request_is_no_edge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 50; seed++) {
        stage it;
        tr_err err = TR_EUSER;
        stage_open_seed(&it, seed, NULL);
        ring_of(&it, (tr_ref[]){it.one, it.two}, 2);
        stage_tell(&it, it.one, act_ask_replier, &err);
        stage_run_ready(&it);
        expect_ok(err);
        stage_close(&it);
    }
}

/* Awaits three answers that have arrived, in an order of its own. */
static tr_err act_await_come(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    enum { COME = 3 };
    static const int order[COME] = {1, 0, 2};
    tr_err *errs = arg;
    tr_future futures[COME];
    Acted out;
    (void)m;
    for (int i = 0; i < COME; i++) {
        futures[i] = tr_async(ctx, self->peer, TR_MINUTES(5), Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    }
    act_tell(ctx, self->peer, act_ask_back, NULL);
    tr_actor_info info = {.size = sizeof(info)};
    do {  // until the request of the peer, on its own thread, has arrived
        sched_yield();
        expect_ok(tr_actor_info_of(ctx, tr_self(ctx), &info));
    } while (info.depth == 0);
    for (int i = 0; i < COME; i++) {
        errs[i] = tr_await(ctx, futures[order[i]], Act, &out);
    }
    return TR_OK;
}

/* The peer has answered before it asks: the answers are in the mail. */
static void test_rule_19_an_answer_in_the_mail_is_no_edge(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open_real(&it, TR_OPTIONS(tr_system_options, .workers = 1));
    tr_ref peer = stage_spawn(&it, .dispatcher = "pinned");
    expect_ok(stage_ask(&it, it.one, act_meet, &peer));
    expect_ok(stage_ask(&it, peer, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.one, act_await_come, errs));
    for (int i = 0; i < 3; i++) {
        expect_ok(errs[i]);
    }
    stage_close(&it);
}

static tr_err act_run_kept(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    const Act *kept = self->kept;
    TR_TRY(tr_reply(ctx, kept, .value = 4));
    tr_release(ctx, kept);
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_19_a_kept_request_is_an_edge_while_its_holder_waits(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.three, act_meet, &it.one));
    // `one` waits for `two`, which has kept the request and is not parked:
    // `three` may wait for `one`.
    stage_tell(&it, it.one, act_ask_peer_for, act_keep);
    stage_run_ready(&it);
    stage_tell(&it, it.three, act_ask_peer_for, act_nothing);
    stage_run_ready(&it);
    expect_ok(stage_ask(&it, it.two, act_run_kept, NULL));
    stage_run_ready(&it);
    expect_ok(stage_ask(&it, it.three, act_nothing, NULL));
    // `two` has kept the request and waits for the asker: that is a cycle.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    stage_tell(&it, it.one, act_ask_peer_for, act_keep);
    stage_run_ready(&it);
    expect_err(stage_ask(&it, it.two, act_ask_back, NULL),
               AS_USER_ERROR(TR_EDEADLOCK));
    expect_ok(stage_ask(&it, it.two, act_run_kept, NULL));
    stage_close(&it);
}

static tr_err act_forward(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_forward(ctx, self->peer, m);
    return TR_OK;
}

/* Forwards in the actor that arg names; answers in every other one. */
static tr_err act_forward_once(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    if (tr_ref_eq(tr_self(ctx), *(tr_ref *)arg)) {
        return act_forward(ctx, self, m, NULL);
    }
    return tr_reply(ctx, m, .value = 3);
}

static tr_err act_ask_forwarder(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    tr_err err = act_ask(ctx, self->stage->two, act_forward_once, arg, 0);
    return answer_with(ctx, m, err);
}

static void test_rule_19_a_forward_moves_the_edge(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    // `two` forwards to `three`, which answers.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.three));
    expect_ok(stage_ask(&it, it.one, act_ask_forwarder, &it.two));
    // `two` forwards to the asker itself, which could never answer.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    tr_nanos before = tr_now(it.sys);
    expect_err(stage_ask(&it, it.one, act_ask_forwarder, &it.two),
               AS_USER_ERROR(TR_EDEADLOCK));
    assert_int_equal(tr_now(it.sys), before);
    stage_close(&it);
}

static void test_rule_19_a_forward_to_an_actor_that_waits_for_the_asker(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    // `three` waits for `one`, which asks `two`, which forwards to `three`.
    expect_ok(stage_ask(&it, it.three, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.three));
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(1));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_ask_forwarder, &it.two);
    stage_tell(&it, it.three, act_ask_back, NULL);
    tr_nanos before = tr_now(it.sys);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_true(tr_now(it.sys) - before <= TR_SECONDS(1));
    stage_close(&it);
}

static tr_err act_sleepy_ask(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    *(tr_err *)arg = act_ask(ctx, self->peer, act_chain, (void *)1, TR_MS(10));
    return TR_OK;
}

static void test_rule_19_a_timeout_does_not_excuse_a_cycle(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    open_two(&it);
    stage_tell(&it, it.one, act_sleepy_ask, &err);
    stage_run_ready(&it);
    expect_err(err, AS_USER_ERROR(TR_EDEADLOCK));
    stage_close(&it);
}

/* ---- cycles of any length ---- */

enum { LONG_CYCLE = 40, TOO_LONG_CYCLE = 70 };  // the runtime follows 64 edges

typedef struct cycle {
    tr_ref refs[TOO_LONG_CYCLE];
    uint32_t asked;
    tr_err err;  // of the ask that returned first
    char text[2048];
} cycle;

static tr_err act_ask_round(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    cycle *c = arg;
    (void)m;
    c->asked++;
    tr_err err = act_ask(ctx, self->peer, act_ask_round, arg, TR_SECONDS(9));
    if (c->err == TR_OK) {
        c->err = err;
        snprintf(c->text, sizeof(c->text), "%s", tr_error_text(ctx));
    }
    return TR_OK;
}

/* Makes `count` actors with long names, each of which asks the next. */
static void ask_round(stage *it, cycle *c, uint32_t count)
{
    char name[100];
    *c = (cycle){.asked = 0};
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%u-%080u", i, 0);
        c->refs[i] = stage_spawn(it, .name = name);
        expect_ok(tr_ref_err(c->refs[i]));
    }
    ring_of(it, c->refs, count);
    stage_tell(it, c->refs[0], act_ask_round, c);
    stage_pass(it, TR_SECONDS(60));
    assert_int_equal(c->asked, count);
    for (uint32_t i = 0; i < count; i++) {  // all of them serve again
        expect_ok(stage_ask(it, c->refs[i], act_nothing, NULL));
    }
}

/* The error text has room for a part of the cycle. */
static void test_rule_19_a_long_cycle_is_refused(void **state)
{
    static cycle c;
    stage it;
    (void)state;
    stage_open(&it);
    ask_round(&it, &c, LONG_CYCLE);
    expect_err(c.err, TR_EDEADLOCK);
    assert_true(said(c.text, "Act would close a cycle: /user/39-000"));
    assert_true(said(c.text, " -> /user/0-000"));
    stage_close(&it);
}

/* A cycle beyond the search limit is not found: its asks time out. */
static void test_rule_19_a_cycle_beyond_the_limit_times_out(void **state)
{
    static cycle c;
    stage it;
    (void)state;
    stage_open(&it);
    ask_round(&it, &c, TOO_LONG_CYCLE);
    expect_err(c.err, TR_ETIMEDOUT);
    stage_close(&it);
}

/* ---- tr_join ---- */

static tr_err act_join(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    out[0] = tr_join(ctx, tr_self(ctx), 0, NULL, NULL);
    out[1] = tr_join(ctx, tr_parent(ctx), 0, NULL, NULL);
    (void)self;
    return TR_OK;
}

static void test_rule_20_join_on_oneself_or_an_ancestor(void **state)
{
    stage it;
    tr_err errs[2] = {TR_OK, TR_OK};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_join, errs));
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_EDEADLOCK);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_19_a_cycle_of_two_is_refused_at_once),
        cmocka_unit_test(test_rule_19_a_cycle_of_three_is_refused_at_once),
        cmocka_unit_test(test_rule_19_futures_are_edges_when_awaited),
        cmocka_unit_test(test_rule_19_other_system_mail_hides_no_cycle),
        cmocka_unit_test(
            test_rule_19_await_any_is_refused_only_if_all_lead_back),
        cmocka_unit_test(test_rule_19_interleaving_requests_are_exempt),
        cmocka_unit_test(test_rule_19_an_interleaving_request_is_no_edge),
        cmocka_unit_test(test_rule_19_an_answered_request_is_no_edge),
        cmocka_unit_test(test_rule_19_an_answer_in_the_mail_is_no_edge),
        cmocka_unit_test(
            test_rule_19_a_kept_request_is_an_edge_while_its_holder_waits),
        cmocka_unit_test(test_rule_19_a_forward_moves_the_edge),
        cmocka_unit_test(
            test_rule_19_a_forward_to_an_actor_that_waits_for_the_asker),
        cmocka_unit_test(test_rule_19_a_timeout_does_not_excuse_a_cycle),
        cmocka_unit_test(test_rule_19_a_long_cycle_is_refused),
        cmocka_unit_test(test_rule_19_a_cycle_beyond_the_limit_times_out),
        cmocka_unit_test(test_rule_20_join_on_oneself_or_an_ancestor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
