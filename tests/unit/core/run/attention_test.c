/*
 * attention_test.c - what the runtime sends to actors: signals and system mail
 * come before user mail and are offered to on_signal.
 */
#include "support/fixture.h"

#include <stdlib.h>

#include "support/core.h"

/* ---- before user mail ---- */

/* A stop that is sent last is handled first. */
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
    // A full mailbox takes system mail.
    watch_end(s, a);
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

static void test_S1_S2_S4_S7_S10_SP19_MB13_a_stop_overtakes_user_mail(
    void **state)
{
    (void)state;
    virtually(before_the_queue);
}

static tr_err stops_itself(tr_ctx *ctx, Player *self, const Say *m)
{
    note(ctx, self, m->text, m->number, TR_NOBODY);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(brief, Player, TR_ON(Say, stops_itself));

static void after_each_message(stage *s)
{
    uint64_t before, after;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    before = m.dead_letters;
    tr_ref a =
        tr_spawn(s->sys, brief, .name = "a", TR_INIT(brief, .probe = s->to));
    watch_end(s, a);
    for (int i = 0; i < 10; i++) {
        tr_tell(s->sys, a, Say, .text = "one", .number = i);
    }
    assert_int_equal(heard(s, "a one"), 0);
    (void)ended(s, a);
    quiet(s);  // the other nine were queued and not handled
    tr_metrics(s->sys, &m);
    after = m.dead_letters;
    assert_int_equal(after - before, 9);
}

static void test_X26_K3_system_mail_is_handled_after_each_message(void **state)
{
    (void)state;
    everywhere(after_each_message);
}

static void failed_is_suspended(stage *s)
{
    // Until the parent decides to resume, nothing is handled.
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

static void while_stopping(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_MINUTES(60));
    tr_ref slow = CHILD(s, p, "slow", (), .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, slow, Nap, .span = TR_MINUTES(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, p);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    // A stopping actor takes watches, joins and the end of a child.
    watch_end(s, p);
    tr_result r;
    assert_int_equal(tr_join(s->sys, p, TR_SECONDS(1), &r, NULL), TR_ETIMEDOUT);
    assert_int_equal(tr_join(s->sys, p, TR_MINUTES(30), &r, NULL), TR_OK);
    assert_int_equal(r.reason, TR_STOPPED);
    heard(s, "slow woke");
    heard(s, "p post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_S12_system_mail_is_handled_while_stopping(void **state)
{
    (void)state;
    virtually(while_stopping);
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
    assert_true(tr_ref_eq(n->ref, TR_NOBODY));  // a signal has no sender
    // A user message is not a signal.
    tr_tell(s->sys, e, Strange);
    assert_int_equal(gotten(s, e).incarnation, 1);
    quiet(s);
    // An error of the hook is a failure.
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

typedef struct Listener {
    tr_ref probe, watched;
} Listener;

/* Causes one signal of each kind. */
static tr_err listener_says(tr_ctx *ctx, Listener *self, const Say *m)
{
    (void)m;
    tr_watch(ctx, self->watched);
    tr_receive_timeout(ctx, TR_SECONDS(1));
    tr_ask_pipe(ctx, TR_NOBODY, TR_SECONDS(1), Get);
    return TR_OK;
}

static tr_err listener_signal(tr_ctx *ctx, Listener *self, const tr_msg *m)
{
    const tr_type *type = tr_msg_type(m);
    tr_tell(ctx, self->probe, Note, .text = type->name);
    if (type->schema == tr_timeout_tr_type.schema) {
        tr_receive_timeout(ctx, 0);
    }
    return TR_OK;
}

TR_ACTOR(listener, Listener, TR_ON(Say, listener_says),
         TR_HOOK(on_signal, listener_signal));
TR_ACTOR(without_on_signal, Listener, TR_ON(Say, listener_says));

static void each_signal(stage *s)
{
    tr_ref watched = PLAY(s, "watched", ());
    tr_ref a = tr_spawn(s->sys, listener,
                        TR_INIT(listener, .probe = s->to, .watched = watched));
    tr_ref b = tr_spawn(
        s->sys, without_on_signal,
        TR_INIT(without_on_signal, .probe = s->to, .watched = watched));
    tr_tell(s->sys, a, Say, .text = "");
    tr_tell(s->sys, b, Say, .text = "");
    tr_sim_advance(s->sim, 0);
    tr_tell(s->sys, a, Strange);  // a user message: not a signal
    tr_stop(s->sys, watched);
    int ends = 0, timeouts = 0, failed_asks = 0;
    for (int i = 0; i < 3; i++) {  // in any order
        const Note *n = tr_expect(s->probe, patience(s), Note);
        ends += strcmp(n->text, "tr_terminated") == 0;
        timeouts += strcmp(n->text, "tr_timeout") == 0;
        failed_asks += strcmp(n->text, "tr_ask_failed") == 0;
    }
    assert_int_equal(ends, 1);
    assert_int_equal(timeouts, 1);
    assert_int_equal(failed_asks, 1);
    tr_expect_nothing(s->probe, TR_SECONDS(3));
}

static void test_S11_each_signal_is_offered_to_the_hook(void **state)
{
    (void)state;
    virtually(each_signal);
}

/* ---- the system lane ---- */

static void sent_or_not(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    (void)gotten(s, a);
    tri_cell *cell = tri_ref_cell(a);
    tri_watch *item = calloc(1, sizeof(*item));
    assert_non_null(item);
    item->item.kind = TRI_ITEM_WATCH_FOR;  // without a target: ignored
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    assert_true(tri_push_system(who.worker, cell, &item->item));
    tri_leave(&who);
    (void)gotten(s, a);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    // The lane of an ended actor is closed: the sender keeps its item.
    item = calloc(1, sizeof(*item));
    assert_non_null(item);
    item->item.kind = TRI_ITEM_WATCH_FOR;
    who = tri_enter((tr_from){.sys = s->sys});
    while (tri_cell_life(cell) != TR_STATE_TERMINATED) {
    }
    bool taken = tri_push_system(who.worker, cell, &item->item);
    tri_leave(&who);
    assert_false(taken);
    free(item);
}

static void test_S14_a_system_message_is_taken_or_returned(void **state)
{
    (void)state;
    everywhere(sent_or_not);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_S1_S2_S4_S7_S10_SP19_MB13_a_stop_overtakes_user_mail),
        cmocka_unit_test(test_X26_K3_system_mail_is_handled_after_each_message),
        cmocka_unit_test(test_S4_S7_SV22_a_failure_suspends_until_the_decision),
        cmocka_unit_test(test_S12_system_mail_is_handled_while_stopping),
        cmocka_unit_test(
            test_S5_S11_S15_C8_SV1_signals_are_offered_to_on_signal),
        cmocka_unit_test(test_S11_each_signal_is_offered_to_the_hook),
        cmocka_unit_test(test_S14_a_system_message_is_taken_or_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
