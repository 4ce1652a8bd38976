/*
 * rules_asking_test.c - the rules about asking: 17 to 22.
 */
#include "support/stage.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

static bool said(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/*
 * Only the runtime may say TR_EDEADLOCK (rule 15): what a function was told is
 * handed on as the program's own error.
 */
#define TOLD(err) ((tr_err)((err) >= TR_EUSER ? (err) : TR_EUSER + (err)))

static tr_err hand_on(tr_ctx *ctx, const Act *m, tr_err err)
{
    return err == TR_OK
               ? tr_reply(ctx, m, .value = 1)
               : tr_refuse(ctx, m, TOLD(err), "%s", tr_error_text(ctx));
}

/* ---- rule 17 ---- */

static tr_err act_text(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1,
                    .text = tr_textf(ctx, "text %s", (const char *)arg));
}

static tr_err act_read_two(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    Acted first, second;
    (void)m;
    (void)arg;
    TR_TRY(tr_ask(ctx, self->stage->two, &first, 0, Act,
                  .fn = (uint64_t)(uintptr_t)act_text,
                  .arg = (uint64_t)(uintptr_t)"a"));
    TR_TRY(tr_ask(ctx, self->stage->three, &second, 0, Act,
                  .fn = (uint64_t)(uintptr_t)act_text,
                  .arg = (uint64_t)(uintptr_t)"b"));
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    TR_ASSERT(ctx, strcmp(first.text, "text a") == 0);
    TR_ASSERT(ctx, strcmp(second.text, "text b") == 0);
    return TR_OK;
}

static void test_rule_17_reply_text_lives_until_the_turn_ends(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_read_two, NULL));
    stage_close(&it);
}

static void test_rule_17_an_outside_caller_owns_the_text(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.two, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_text,
                     .arg = (uint64_t)(uintptr_t)"out"));
    tr_kill(it.sys, it.two);
    stage_settle(&it);
    assert_string_equal(done.text, "text out");
    tr_drop(Acted, &done);
    memset(&done, 1, sizeof(done));
    expect_err(tr_ask(it.sys, it.one, &done, 0, Act,
                      .fn = (uint64_t)(uintptr_t)act_fail), TR_EUSER);
    assert_null(done.text);
    assert_int_equal(done.value, 0);
    stage_close(&it);
}

/* ---- rule 18 ---- */

static tr_err then_note(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    puppet *me = self;
    (void)ctx;
    stage_note(me->stage, err != TR_OK ? -(int64_t)err
                                       : ((const Acted *)reply)->value);
    return TR_OK;
}

static tr_err act_tell_then_reply(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    (void)arg;
    tr_tell(ctx, tr_sender(ctx), Note, .value = 5);
    (void)self;
    return tr_reply(ctx, m, .value = 6);
}

static tr_err act_then(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    tr_ask_then(ctx, self->stage->two, TR_SECONDS(1), then_note, Act,
                .fn = (uint64_t)(uintptr_t)arg,
                .arg = (uint64_t)TR_SECONDS(5));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_rule_18_a_callback_comes_after_mail_of_its_sender(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_tell_then_reply);
    stage_settle(&it);
    expect_notes(&it, 1, 5, 6);
    stage_close(&it);
}

static void test_rule_18_a_callback_runs_exactly_once(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);  // times out
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, -TR_ETIMEDOUT);
    stage_pass(&it, TR_SECONDS(10));
    expect_notes(&it, 1, -TR_ETIMEDOUT);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_tell(&it, it.one, act_then, act_fail);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, -TR_ETIMEDOUT, 1, -TR_EUSER);
    tr_stop(it.sys, it.two);
    stage_settle(&it);
    stage_tell(&it, it.one, act_then, act_nothing);
    stage_settle(&it);
    expect_notes(&it, 1, -TR_ETIMEDOUT, 1, -TR_EUSER, 1, -TR_EGONE);
    stage_close(&it);
}

static void test_rule_18_a_callback_dies_with_the_incarnation(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);
    stage_settle(&it);
    stage_tell(&it, it.one, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(20));
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

/* Its time-out is queued behind a parked turn when the actor restarts. */
static void test_rule_18_a_queued_timeout_dies_with_the_incarnation(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_MS(1500));
    tr_tell(it.sys, it.one, ActBeside, .fn = (uint64_t)(uintptr_t)act_fail);
    stage_pass(&it, TR_SECONDS(20));
    expect_notes(&it, 1);
    stage_close(&it);
}

static tr_err act_leave_future(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    (void)tr_async(ctx, self->stage->two, 0, Act,
                   .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static void test_rule_18_a_future_ends_with_its_turn(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_leave_future, NULL);
    stage_settle(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

static tr_err on_piped(tr_ctx *ctx, puppet *self, const Acted *m)
{
    (void)ctx;
    stage_note(self->stage, m->value);
    return TR_OK;
}

static tr_err on_pipe_failed(tr_ctx *ctx, puppet *self,
                             const tr_ask_failed *m)
{
    (void)ctx;
    assert_true(said(m->text, tr_strerror((tr_err)m->err)) || *m->text != 0);
    stage_note(self->stage, -(int64_t)m->err);
    return TR_OK;
}

static tr_err pipe_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    act_fn fn = m->value == 0 ? act_nothing : m->value == 1 ? act_sleep
                                                            : act_fail;
    tr_ask_pipe(ctx, self->stage->two, TR_SECONDS(1), Act,
                .fn = (uint64_t)(uintptr_t)fn, .arg = (uint64_t)TR_SECONDS(5));
    return TR_OK;
}

TR_ACTOR(pipers, puppet, TR_ON(Acted, on_piped), TR_ON(Note, pipe_note),
         TR_ON(tr_ask_failed, on_pipe_failed));

static void test_rule_18_a_pipe_gives_one_message_or_one_failure(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, pipers, TR_INIT(pipers, .stage = &it));
    for (int i = 0; i < 3; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
        stage_pass(&it, TR_SECONDS(10));
    }
    expect_notes(&it, 1, -TR_ETIMEDOUT, -TR_EUSER);
    stage_close(&it);
}

/* ---- rule 19 ---- */

static tr_err act_ask_back(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_err err = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return hand_on(ctx, m, err);
}

/* Asks peer to ask its own peer, and so on, arg times. */
static tr_err act_chain(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    tr_err err = left == 0
                     ? act_ask(ctx, self->peer, act_nothing, NULL, 0)
                     : act_ask(ctx, self->peer, act_chain, left - 1, 0);
    return hand_on(ctx, m, err);
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
               TOLD(TR_EDEADLOCK));
    assert_int_equal(tr_now(it->sys), before);  // at once, not by time-out
    const char *text = tr_error_text(it->sys);
    assert_true(said(text, "/user/one"));
    assert_true(said(text, "rules_asking_test.c:"));
    if (count > 1) {
        assert_true(said(text, "/user/two"));
    }
    // All of them go on.
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

static tr_err act_future_chain(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)arg;
    tr_future future = tr_async(ctx, self->peer, 0, Act,
                                .fn = (uint64_t)(uintptr_t)act_ask_back);
    tr_err err = tr_await(ctx, future, Act, (Acted *)NULL);
    return hand_on(ctx, m, err);
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
    return hand_on(ctx, m, err);
}

static void test_rule_19_futures_are_edges_when_awaited(void **state)
{
    stage it;
    tr_ref refs[2];
    (void)state;
    stage_open(&it);
    refs[0] = it.one;
    refs[1] = it.two;
    ring_of(&it, refs, 2);
    expect_err(stage_ask(&it, it.one, act_future_chain, NULL),
               TOLD(TR_EDEADLOCK));
    assert_true(said(tr_error_text(it.sys), "/user/two"));
    stage_close(&it);
}

static tr_err act_meet_other(tr_ctx *ctx, puppet *self, const Act *m,
                             void *arg)
{
    (void)ctx;
    (void)m;
    self->other = *(tr_ref *)arg;
    return TR_OK;
}

/* The notice of the watch is in its system mail when it begins to wait. */
static tr_err act_future_with_mail(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    tr_watch(ctx, self->other);
    return act_future_chain(ctx, self, m, arg);
}

static void test_rule_19_other_system_mail_hides_no_cycle(void **state)
{
    stage it;
    tr_ref refs[2];
    (void)state;
    stage_open(&it);
    refs[0] = it.one;
    refs[1] = it.two;
    ring_of(&it, refs, 2);
    expect_ok(stage_ask(&it, it.one, act_meet_other, &it.three));
    tr_kill(it.sys, it.three);
    tr_sim_advance(it.sim, TR_MS(1));
    expect_err(stage_ask(&it, it.one, act_future_with_mail, NULL),
               TOLD(TR_EDEADLOCK));
    stage_close(&it);
}

/* Asks two, who waits for any of one and one: all lead back. */
static tr_err act_ask_any(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_err err = act_ask(ctx, self->peer, act_await_any, NULL, 0);
    return hand_on(ctx, m, err);
}

static void test_rule_19_any_of_several_needs_all_to_lead_back(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.two, act_meet_other, &it.one));
    expect_err(stage_ask(&it, it.one, act_ask_any, NULL), TOLD(TR_EDEADLOCK));
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
    return hand_on(ctx, m, err);
}

static tr_err act_ask_peer_for(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tr_err err = act_ask(ctx, self->peer, arg, NULL, 0);
    return hand_on(ctx, m, err);
}

static void test_rule_19_interleaving_requests_are_exempt(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.one, act_ask_peer_for, act_interleaved_back));
    stage_close(&it);
}

/*
 * one asks two for something that interleaves while two, parked, asks one for
 * a write: two's turn needs one, whose turn needs only the interleaved answer.
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

static tr_err act_ask_beside(tr_ctx *ctx, puppet *self, const Act *m,
                             void *arg)
{
    (void)m;
    *(tr_err *)arg = tr_ask(ctx, self->peer, NULL, 0, ActBeside,
                            .fn = (uint64_t)(uintptr_t)act_slow_beside);
    return TR_OK;
}

static void test_rule_19_no_alarm_through_an_interleaving_request(
    void **state)
{
    stage it;
    tr_err first = TR_EUSER, second = TR_EUSER;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    stage_tell(&it, it.two, act_nap_then_ask, &second);
    stage_settle(&it);
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

static void test_rule_19_no_alarm_after_the_answer_was_sent(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 50; seed++) {
        stage it;
        tr_err err = TR_EUSER;
        stage_open_seed(&it, seed, NULL);
        expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
        expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
        stage_tell(&it, it.one, act_ask_replier, &err);
        stage_settle(&it);
        expect_ok(err);
        stage_close(&it);
    }
}

/* Awaits three answers that are there, the newest neither first nor second. */
static tr_err act_await_come(tr_ctx *ctx, puppet *self, const Act *m,
                             void *arg)
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
    do {  // the peer has a thread of its own
        sched_yield();
        expect_ok(tr_actor_info_of(ctx, tr_self(ctx), &info));
    } while (info.depth == 0);
    for (int i = 0; i < COME; i++) {
        errs[i] = tr_await(ctx, futures[order[i]], Act, &out);
    }
    return TR_OK;
}

/* Who has answered may ask: what is awaited is in the mail already. */
static void test_rule_19_no_alarm_for_an_answer_that_has_come(void **state)
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

static void test_rule_19_a_kept_request_blocks_only_who_is_parked(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.three, act_meet, &it.one));
    // one waits for two, which has kept the request and is not parked: three
    // may wait for one.
    stage_tell(&it, it.one, act_ask_peer_for, act_keep);
    stage_settle(&it);
    stage_tell(&it, it.three, act_ask_peer_for, act_nothing);
    stage_settle(&it);
    expect_ok(stage_ask(&it, it.two, act_run_kept, NULL));
    stage_settle(&it);
    expect_ok(stage_ask(&it, it.three, act_nothing, NULL));
    // Kept and parked on the asker: the edge is still there.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    stage_tell(&it, it.one, act_ask_peer_for, act_keep);
    stage_settle(&it);
    expect_err(stage_ask(&it, it.two, act_ask_back, NULL), TOLD(TR_EDEADLOCK));
    expect_ok(stage_ask(&it, it.two, act_run_kept, NULL));
    stage_close(&it);
}

static tr_err act_forward(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    tr_forward(ctx, self->peer, m);
    return TR_OK;
}

/* What a forwarded Act does where it ends: here it must be harmless. */
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
    return hand_on(ctx, m, err);
}

static void test_rule_19_a_forward_moves_the_edge(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    // two passes it on to three: fine.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.three));
    expect_ok(stage_ask(&it, it.one, act_ask_forwarder, &it.two));
    // two passes it back to the asker: nobody could ever answer.
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    tr_nanos before = tr_now(it.sys);
    expect_err(stage_ask(&it, it.one, act_ask_forwarder, &it.two),
               TOLD(TR_EDEADLOCK));
    assert_int_equal(tr_now(it.sys), before);
    stage_close(&it);
}

static void test_rule_19_a_forward_to_one_who_waits_for_the_asker(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    // three waits for one's answer; one asks two; two forwards to three.
    expect_ok(stage_ask(&it, it.three, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.three));
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(1));
    stage_settle(&it);
    stage_tell(&it, it.one, act_ask_forwarder, &it.two);
    stage_tell(&it, it.three, act_ask_back, NULL);
    tr_nanos before = tr_now(it.sys);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_true(tr_now(it.sys) - before <= TR_SECONDS(1));
    stage_close(&it);
}

static tr_err act_sleepy_ask(tr_ctx *ctx, puppet *self, const Act *m,
                             void *arg)
{
    (void)m;
    *(tr_err *)arg = act_ask(ctx, self->peer, act_chain, (void *)1,
                             TR_MS(10));
    return TR_OK;
}

static void test_rule_19_a_timeout_does_not_excuse_a_cycle(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    stage_tell(&it, it.one, act_sleepy_ask, &err);
    stage_settle(&it);
    expect_err(err, TOLD(TR_EDEADLOCK));
    stage_close(&it);
}

/* ---- cycles of any length ---- */

enum { LONG_CYCLE = 40, TOO_LONG_CYCLE = 70 };  // the runtime follows 64

typedef struct cycle {
    tr_ref refs[TOO_LONG_CYCLE];
    uint32_t asked;
    tr_err err;  // of the ask that came first to an end
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

/* count actors with long names, each of which asks the next. */
static void ask_round(stage *it, cycle *c, uint32_t count)
{
    char name[100];
    *c = (cycle){.asked = 0};
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%u-%080u", i, 0);
        c->refs[i] = stage_spawn(it, .name = name);
        expect_ok(tr_ref_err(c->refs[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        expect_ok(stage_ask(it, c->refs[i], act_meet,
                            &c->refs[(i + 1) % count]));
    }
    stage_tell(it, c->refs[0], act_ask_round, c);
    stage_pass(it, TR_SECONDS(60));
    assert_int_equal(c->asked, count);
    for (uint32_t i = 0; i < count; i++) {  // they are all free again
        expect_ok(stage_ask(it, c->refs[i], act_nothing, NULL));
    }
}

/* The text has room for a part of it only. */
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

/* A longer one is not found, and no worse than any other that waits. */
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

/* ---- rule 20 ---- */

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

/* ---- rule 21 ---- */

static tr_err act_ask_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    out[0] = act_ask(ctx, tr_self(ctx), act_nothing, NULL, 0);
    out[1] = tr_ask(ctx, tr_self(ctx), NULL, 0, ActBeside,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    out[2] = tr_ask(ctx, tr_self(ctx), NULL, 0, ActRead,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static void test_rule_21_asking_oneself(void **state)
{
    stage it;
    tr_err errs[3];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_ask_self, errs));
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_OK);
    expect_err(errs[2], TR_EDEADLOCK);  // a writer is parked: us
    // From a reading turn a read runs beside it.
    expect_err(tr_ask(it.sys, it.one, NULL, 0, ActRead,
                      .fn = (uint64_t)(uintptr_t)act_ask_self,
                      .arg = (uint64_t)(uintptr_t)errs), TR_ENOREPLY);
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_OK);
    expect_err(errs[2], TR_OK);
    stage_close(&it);
}

typedef struct starter {
    tr_err *out;
} starter;

static tr_err starter_start(tr_ctx *ctx, starter *self)
{
    *self->out = tr_ask(ctx, tr_self(ctx), NULL, 0, ActBeside,
                        .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static tr_err starter_beside(tr_ctx *ctx, const starter *self,
                             const ActBeside *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(starters, starter, TR_HOOK(pre_start, starter_start),
         TR_ON_INTERLEAVE(ActBeside, starter_beside));

static void test_rule_21_nothing_runs_beside_a_hook(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, starters, TR_INIT(starters, .out = &err));
    stage_settle(&it);
    expect_err(err, TR_EDEADLOCK);
    expect_ok(tr_ask(it.sys, ref, NULL, 0, ActBeside));
    stage_close(&it);
}

/* ---- rule 22 ---- */

static tr_err act_as_sys(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    tr_system *sys = tr_system_of(ctx);
    (void)m;
    out[0] = tr_ask(sys, self->stage->two, NULL, 0, Act,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    out[1] = tr_join(sys, self->stage->two, 0, NULL, NULL);
    tr_tell(sys, self->stage->two, Note, .value = 1);
    return TR_OK;
}

static void test_rule_22_sys_inside_a_handler_does_not_wait(void **state)
{
    stage it;
    tr_err errs[2] = {TR_OK, TR_OK};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_as_sys, errs));
    expect_err(errs[0], TR_EWOULDBLOCK);
    expect_err(errs[1], TR_EWOULDBLOCK);
    stage_settle(&it);
    expect_notes(&it, 1);
    assert_true(said(it.last_log, "inside a handler"));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_17_reply_text_lives_until_the_turn_ends),
        cmocka_unit_test(test_rule_17_an_outside_caller_owns_the_text),
        cmocka_unit_test(
            test_rule_18_a_callback_comes_after_mail_of_its_sender),
        cmocka_unit_test(test_rule_18_a_callback_runs_exactly_once),
        cmocka_unit_test(test_rule_18_a_callback_dies_with_the_incarnation),
        cmocka_unit_test(
            test_rule_18_a_queued_timeout_dies_with_the_incarnation),
        cmocka_unit_test(test_rule_18_a_future_ends_with_its_turn),
        cmocka_unit_test(test_rule_18_a_pipe_gives_one_message_or_one_failure),
        cmocka_unit_test(test_rule_19_a_cycle_of_two_is_refused_at_once),
        cmocka_unit_test(test_rule_19_a_cycle_of_three_is_refused_at_once),
        cmocka_unit_test(test_rule_19_futures_are_edges_when_awaited),
        cmocka_unit_test(test_rule_19_other_system_mail_hides_no_cycle),
        cmocka_unit_test(test_rule_19_any_of_several_needs_all_to_lead_back),
        cmocka_unit_test(test_rule_19_interleaving_requests_are_exempt),
        cmocka_unit_test(
            test_rule_19_no_alarm_through_an_interleaving_request),
        cmocka_unit_test(test_rule_19_no_alarm_after_the_answer_was_sent),
        cmocka_unit_test(test_rule_19_no_alarm_for_an_answer_that_has_come),
        cmocka_unit_test(
            test_rule_19_a_kept_request_blocks_only_who_is_parked),
        cmocka_unit_test(test_rule_19_a_forward_moves_the_edge),
        cmocka_unit_test(
            test_rule_19_a_forward_to_one_who_waits_for_the_asker),
        cmocka_unit_test(test_rule_19_a_timeout_does_not_excuse_a_cycle),
        cmocka_unit_test(test_rule_19_a_long_cycle_is_refused),
        cmocka_unit_test(test_rule_19_a_cycle_beyond_the_limit_times_out),
        cmocka_unit_test(test_rule_20_join_on_oneself_or_an_ancestor),
        cmocka_unit_test(test_rule_21_asking_oneself),
        cmocka_unit_test(test_rule_21_nothing_runs_beside_a_hook),
        cmocka_unit_test(test_rule_22_sys_inside_a_handler_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
