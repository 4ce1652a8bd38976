/*
 * restart_test.c - what a restart keeps and what ends with an incarnation
 * (SV11, SV13, X3, X45, X51).
 */
#include "support/fixture.h"

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
    // All three are there before it looks: it is asleep meanwhile.
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(s->sim, TR_MS(1));
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell_urgent(s->sys, a, 1, Say, .text = "two");
    tr_tell_urgent(s->sys, a, 7, Fail);  // the first of all
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
    assert_int_equal(heard(s, "bad"), 2);   // once more, in front
    assert_int_equal(heard(s, "next"), 3);  // but not twice
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
    mourn(s, a);
    tr_tell(s->sys, p, Fail);
    heard(s, "p post_restart");
    assert_int_equal(ended(s, a), TR_STOPPED);
    quiet(s);  // rule 14: the watch of the old incarnation is gone

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
    (void)joined(s, other);
    tr_stop(s->sys, b);
    heard(s, "q terminated");  // only the child is still watched
    quiet(s);
}

static void test_X45_SV11_children_are_stopped_or_kept(void **state)
{
    (void)state;
    everywhere(children_at_restart);
}

/* ---- things that go with an incarnation ---- */

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
    heard(s, "once");   // it has joined anew, and only once
    heard(s, "timer");  // the old timer is gone: one comes, not two
    quiet(s);
    tr_stop(s->sys, a);
    heard(s, "post_stop");
    heard(s, "second");
    heard(s, "first");
}

static void test_SV11_X51_what_ends_with_an_incarnation(void **state)
{
    (void)state;
    virtually(things_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X3_SV13_the_mailbox_is_kept),
        cmocka_unit_test(test_X3_SV13_the_mailbox_is_cleared_into_dead_letters),
        cmocka_unit_test(test_X3_the_failed_message_is_retried_once),
        cmocka_unit_test(test_X45_SV11_children_are_stopped_or_kept),
        cmocka_unit_test(test_SV11_X51_what_ends_with_an_incarnation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
