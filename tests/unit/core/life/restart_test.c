/*
 * restart_test.c - restarts: their hooks, what they keep, and what ends with
 * an incarnation.
 */
#include "support/fixture.h"

/* ---- hooks ---- */

static void restart_hooks_fail(stage *s)
{
    tr_nanos start = s->sim != NULL ? tr_sim_now(s->sim) : 0;
    tr_ref a = PLAY(s, "a", (.panics = PRE_RESTART, .says = POST_RESTART));
    tr_ref child = CHILD(s, a, "child", ());
    tr_tell(s->sys, a, Fail);
    assert_int_equal(heard(s, "a post_restart"), 2);
    assert_int_equal(tr_state_of(s->sys, child), TR_STATE_TERMINATED);
    tr_ref b =
        PLAY(s, "b", (.fails = PRE_RESTART | POST_STOP, .says = POST_RESTART));
    tr_tell(s->sys, b, Fail);
    assert_int_equal(heard(s, "b post_restart"), 2);
    // An error of post_restart is a failure like any other.
    tr_ref c =
        PLAY(s, "c", (.fails = POST_RESTART, .times = 2, .says = POST_RESTART));
    tr_tell(s->sys, c, Fail);
    assert_int_equal(heard(s, "c post_restart"), 2);
    assert_int_equal(heard(s, "c post_restart"), 3);
    if (s->sim != NULL) {
        assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    }
}

static void test_SV15_a_restart_goes_on_when_its_hooks_fail(void **state)
{
    (void)state;
    everywhere(restart_hooks_fail);
}

static void restart_start_fails(stage *s)
{
    // A start that fails in a restart is one more failure.
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_RESTART));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    heard(s, "a pre_start");
    assert_int_equal(heard(s, "a post_restart"), 2);
}

static tr_err start_the_third_time(tr_ctx *ctx, Player *self)
{
    note(ctx, self, "pre_start", tr_incarnation(ctx), TR_NOBODY);
    return tr_incarnation(ctx) == 2 ? TR_EIO : TR_OK;
}

TR_ACTOR(third, Player, TR_HOOK(pre_start, start_the_third_time),
         TR_ON(Fail, on_fail), TR_ON(Get, on_get));

static void second_start_fails(stage *s)
{
    restart_start_fails(s);
    tr_ref b =
        tr_spawn(s->sys, third, .name = "b", TR_INIT(third, .probe = s->to));
    assert_int_equal(heard(s, "b pre_start"), 1);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(heard(s, "b pre_start"), 2);
    assert_int_equal(heard(s, "b pre_start"), 3);
    assert_int_equal(gotten(s, b).incarnation, 3);
}

static void test_SV15_L14_a_start_that_fails_in_a_restart_is_tried_again(
    void **state)
{
    (void)state;
    everywhere(second_start_fails);
}

/* The stop comes in the delay, after the hooks of the restart. */
static void stop_in_delay(stage *s)
{
    tr_nanos start = tr_sim_now(s->sim);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~POST_START),
                    .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(10),
                                                .backoff_max = TR_SECONDS(10)));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    heard(s, "a pre_restart");
    assert_int_equal(heard(s, "a post_stop"), TR_RESTARTING);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    watch_end(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(ended(s, a), TR_STOPPED);
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(5));
    quiet(s);
}

static void test_X24_a_stop_ends_the_wait_for_a_restart(void **state)
{
    (void)state;
    virtually(stop_in_delay);
}

/* ---- what a restart keeps ---- */

static void mailbox_is_kept(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Fail);
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell(s->sys, a, Say, .text = "two");
    const tr_dead_letter *dead =
        tr_expect(s->probe, patience(s), tr_dead_letter);
    assert_string_equal(dead->type, "Fail");
    assert_int_equal(dead->reason, TR_DEAD_FAILED);
    heard(s, "a one");
    heard(s, "a two");
    quiet(s);
}

static void test_X3_SV13_the_mailbox_is_kept(void **state)
{
    (void)state;
    everywhere(mailbox_is_kept);
}

static void mailbox_is_cleared(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = POST_RESTART),
                    .supervision =
                        TR_SUPERVISE(.clear_mailbox = true, .backoff_min = 1));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_probe_subscribe(s->probe, tr_dead_letter);
    // The actor sleeps until all three messages have arrived.
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(s->sim, TR_MS(1));
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell_urgent(s->sys, a, 1, Say, .text = "two");
    tr_tell_urgent(s->sys, a, 7, Fail);  // handled first
    heard(s, "a woke");
    int said = 0, failed = 0;
    for (int i = 0; i < 3; i++) {
        const tr_dead_letter *dead = tr_expect(s->probe, 0, tr_dead_letter);
        said +=
            strcmp(dead->type, "Say") == 0 && dead->reason == TR_DEAD_RESTARTED;
        failed += strcmp(dead->type, "Fail") == 0;
    }
    assert_true(said == 2 && failed == 1);
    heard(s, "a post_restart");
    quiet(s);
}

static void test_X3_SV13_the_mailbox_is_cleared_into_dead_letters(void **state)
{
    (void)state;
    virtually(mailbox_is_cleared);
}

typedef struct Sieve {
    tr_ref probe;
} Sieve;

static tr_err sieve_say(tr_ctx *ctx, Sieve *self, const Say *m)
{
    tr_tell(ctx, self->probe, Note, .text = m->text,
            .number = tr_incarnation(ctx));
    return strcmp(m->text, "bad") == 0 && tr_incarnation(ctx) <= 2 ? TR_EIO
                                                                   : TR_OK;
}

TR_ACTOR(sieve, Sieve, TR_ON(Say, sieve_say));

static void message_is_retried(stage *s)
{
    tr_ref a = tr_spawn(s->sys, sieve, TR_INIT(sieve, .probe = s->to),
                        .supervision = TR_SUPERVISE(.retry_message = true));
    tr_tell(s->sys, a, Say, .text = "bad");
    tr_tell(s->sys, a, Say, .text = "next");
    assert_int_equal(heard(s, "bad"), 1);
    assert_int_equal(heard(s, "bad"), 2);   // retried before other mail
    assert_int_equal(heard(s, "next"), 3);  // not retried again
    quiet(s);
}

static void test_X3_the_failed_message_is_retried_once(void **state)
{
    (void)state;
    everywhere(message_is_retried);
}

static void children_at_restart(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = POST_RESTART));
    tr_ref a = CHILD(s, p, "a", ());
    tr_tell(s->sys, p, Watch, .ref = a);
    (void)gotten(s, p);
    watch_end(s, a);
    tr_tell(s->sys, p, Fail);
    heard(s, "p post_restart");
    assert_int_equal(ended(s, a), TR_STOPPED);
    quiet(s);  // the watch of a child ended with the incarnation

    tr_ref q = PLAY(s, "q", (.says = POST_RESTART),
                    .supervision = TR_SUPERVISE(.keep_children = true));
    tr_ref b = CHILD(s, q, "b", ());
    tr_ref other = PLAY(s, "other", ());
    tr_tell(s->sys, q, Watch, .ref = b);
    tr_tell(s->sys, q, Watch, .ref = other);
    tr_tell(s->sys, q, Fail);
    heard(s, "q post_restart");
    assert_int_equal(gotten(s, b).incarnation, 1);
    tr_stop(s->sys, other);
    heard(s, "q terminated");  // both are still watched
    tr_stop(s->sys, b);
    heard(s, "q terminated");
    quiet(s);
}

static void test_X45_SV11_children_are_stopped_or_kept(void **state)
{
    (void)state;
    everywhere(children_at_restart);
}

/* ---- what ends with an incarnation ---- */

typedef struct Owner {
    tr_ref probe;
} Owner;

typedef struct closing {
    tr_ref probe;
    tr_system *sys;
    const char *text;
} closing;

static void close_it(void *object)
{
    closing *it = object;
    tr_tell(it->sys, it->probe, Note, .text = it->text);
}

static tr_err owner_start(tr_ctx *ctx, Owner *self)
{
    static const char *const texts[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        closing *it = tr_alloc(ctx, sizeof(*it));
        *it = (closing){self->probe, tr_system_of(ctx), texts[i]};
        tr_on_end(ctx, close_it, it);
    }
    (void)tr_after(ctx, TR_SECONDS(5), Say, .text = "timer");
    return tr_topic_join(ctx, "news");
}

static tr_err owner_post_stop(tr_ctx *ctx, Owner *self, tr_reason reason)
{
    tr_tell(ctx, self->probe, Note, .text = "post_stop", .number = reason);
    return TR_OK;
}

static tr_err owner_says(tr_ctx *ctx, Owner *self, const Say *m)
{
    tr_tell(ctx, self->probe, Note, .text = m->text);
    return TR_OK;
}

static tr_err owner_fails(tr_ctx *ctx, Owner *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(owner, Owner, TR_HOOK(pre_start, owner_start),
         TR_HOOK(post_stop, owner_post_stop), TR_ON(Say, owner_says),
         TR_ON(Fail, owner_fails));

static void things_end(stage *s)
{
    tr_ref a = tr_spawn(s->sys, owner, TR_INIT(owner, .probe = s->to));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(heard(s, "post_stop"), TR_RESTARTING);
    heard(s, "second");  // newest first
    heard(s, "first");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_topic_publish(s->sys, "news", Say, .text = "once");
    heard(s, "once");   // the new incarnation has joined the topic once
    heard(s, "timer");  // only the timer of the new incarnation
    quiet(s);
    tr_stop(s->sys, a);
    heard(s, "post_stop");
    heard(s, "second");
    heard(s, "first");
}

static void test_SV11_X51_closers_and_timers_end_with_the_incarnation(
    void **state)
{
    (void)state;
    virtually(things_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SV15_a_restart_goes_on_when_its_hooks_fail),
        cmocka_unit_test(
            test_SV15_L14_a_start_that_fails_in_a_restart_is_tried_again),
        cmocka_unit_test(test_X24_a_stop_ends_the_wait_for_a_restart),
        cmocka_unit_test(test_X3_SV13_the_mailbox_is_kept),
        cmocka_unit_test(test_X3_SV13_the_mailbox_is_cleared_into_dead_letters),
        cmocka_unit_test(test_X3_the_failed_message_is_retried_once),
        cmocka_unit_test(test_X45_SV11_children_are_stopped_or_kept),
        cmocka_unit_test(
            test_SV11_X51_closers_and_timers_end_with_the_incarnation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
