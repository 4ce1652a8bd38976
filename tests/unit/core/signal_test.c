/*
 * signal_test.c - what the runtime sends to actors (S1..S16).
 */
#include "support/fixture.h"

#include <stdlib.h>

#include "core/lifecycle.h"

/* ---- before user mail ---- */

/* A queue of user mail; a stop, sent last, is first. */
static void before_the_queue(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP), .mailbox_limit = 3);
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(2));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    for (int i = 0; i < 3; i++) {
        tr_tell(s->sys, a, Say, .text = "queued");
    }
    assert_int_equal(tr_try_tell(s->sys, a, Strange), TR_EFULL);
    // MB13: a full mailbox does not keep it out.
    mourn(s, a);
    tr_stop(s->sys, a);
    heard(s, "a woke");
    heard(s, "a pre_stop");
    assert_int_equal(ended(s, a), TR_STOPPED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_expect(s->probe, 0, tr_dead_letter)->reason,
                         TR_DEAD_DRAINED);
    }
    quiet(s);
}

static void test_S1_S2_S4_S7_S10_SP19_MB13_control_before_user_mail(
    void **state)
{
    (void)state;
    virtually(before_the_queue);
}

static void failed_is_suspended(stage *s)
{
    // The parent's decision is the resume; until then nothing is handled.
    tr_ref a =
        PLAY(s, "a", (), .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "after");
    heard(s, "a after");
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
    assert_int_equal(info.history[0], TR_STATE_RUNNING);
    assert_int_equal(info.history[1], TR_STATE_FAILED);
}

static void test_S4_S7_SV22_a_failure_suspends_until_the_decision(void **state)
{
    (void)state;
    everywhere(failed_is_suspended);
}

/* ---- on_signal ---- */

typedef struct Ear {
    tr_ref probe;
    bool any;
} Ear;

static tr_err ear_signal(tr_ctx *ctx, Ear *self, const tr_msg *m)
{
    tr_tell(ctx, self->probe, Note, .text = tr_msg_type(m)->name,
            .ref = tr_sender(ctx));
    return self->any ? TR_OK : TR_EIO;
}

static tr_err ear_watch(tr_ctx *ctx, Ear *self, const Watch *m)
{
    (void)self;
    tr_watch(ctx, m->ref);
    return TR_OK;
}

static tr_err ear_get(tr_ctx *ctx, Ear *self, const Get *m)
{
    (void)self;
    return tr_reply(ctx, m, .incarnation = tr_incarnation(ctx));
}

TR_ACTOR(ear, Ear, TR_HOOK(on_signal, ear_signal), TR_ON(Watch, ear_watch),
         TR_ON(Get, ear_get));

static void offered(stage *s)
{
    tr_ref e = tr_spawn(s->sys, ear, TR_INIT(ear, .probe = s->to, .any = true));
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, e, Watch, .ref = a);
    (void)gotten(s, e);
    tr_stop(s->sys, a);
    const Note *n = tr_expect(s->probe, patience(s), Note);
    assert_string_equal(n->text, "tr_terminated");
    assert_true(tr_ref_eq(n->ref, TR_NOBODY));  // S15
    // A user message is not a signal.
    tr_tell(s->sys, e, Strange);
    assert_int_equal(gotten(s, e).incarnation, 1);
    quiet(s);
    // SV1: an error of the hook is a failure.
    tr_ref f = tr_spawn(s->sys, ear, TR_INIT(ear, .probe = s->to));
    tr_tell(s->sys, f, Watch, .ref = TR_NOBODY);
    heard(s, "tr_terminated");
    while (gotten(s, f).incarnation != 2) {
    }
}

static void test_S5_S11_S15_C8_SV1_signals_are_offered_to_on_signal(
    void **state)
{
    (void)state;
    everywhere(offered);
}

/* ---- while stopping ---- */

static void while_stopping(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_MINUTES(60));
    tr_ref slow = CHILD(s, p, "slow", (), .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, slow, Nap, .span = TR_MINUTES(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, p);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    // Watch, join and the end of a child are still taken.
    mourn(s, p);
    tr_result r;
    assert_int_equal(tr_join(s->sys, p, TR_SECONDS(1), &r, NULL), TR_ETIMEDOUT);
    assert_int_equal(tr_join(s->sys, p, TR_MINUTES(30), &r, NULL), TR_OK);
    assert_int_equal(r.reason, TR_STOPPED);
    heard(s, "slow woke");
    heard(s, "p post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_S12_system_mail_flows_while_stopping(void **state)
{
    (void)state;
    virtually(while_stopping);
}

/* ---- sending and size ---- */

static void sent_or_not(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    (void)gotten(s, a);
    tri_cell *cell = tri_ref_cell(a);
    tri_watch *node = calloc(1, sizeof(*node));
    assert_non_null(node);
    node->node.kind = TRI_NODE_WATCH_FOR;  // for another: ignored
    tri_actor_from who = tri_enter((tr_from){.sys = s->sys});
    assert_true(tri_push_system(who.worker, cell, &node->node));
    tri_leave(&who);
    (void)gotten(s, a);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    // The lane of the dead is closed: the sender keeps its node.
    node = calloc(1, sizeof(*node));
    assert_non_null(node);
    node->node.kind = TRI_NODE_WATCH_FOR;
    who = tri_enter((tr_from){.sys = s->sys});
    while (tri_cell_life(cell) != TR_STATE_TERMINATED) {
    }
    bool taken = tri_push_system(who.worker, cell, &node->node);
    tri_leave(&who);
    assert_false(taken);
    free(node);
}

static void test_S14_a_system_message_is_taken_or_given_back(void **state)
{
    (void)state;
    everywhere(sent_or_not);
}

static void test_S16_system_messages_do_not_enlarge_the_others(void **state)
{
    (void)state;
    // They have structs of their own behind the same small node.
    assert_int_equal(sizeof(tri_node), 24);
    assert_int_equal(sizeof(tr_msg), 48);
    assert_true(sizeof(tri_watch) > sizeof(tr_msg));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_S1_S2_S4_S7_S10_SP19_MB13_control_before_user_mail),
        cmocka_unit_test(test_S4_S7_SV22_a_failure_suspends_until_the_decision),
        cmocka_unit_test(
            test_S5_S11_S15_C8_SV1_signals_are_offered_to_on_signal),
        cmocka_unit_test(test_S12_system_mail_flows_while_stopping),
        cmocka_unit_test(test_S14_a_system_message_is_taken_or_given_back),
        cmocka_unit_test(test_S16_system_messages_do_not_enlarge_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
