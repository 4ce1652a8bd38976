/*
 * deadlock_family_test.c - a child that waits for its parent while the parent
 * waits for the end of the child.
 *
 * A parent that stops refuses the requests in its mailbox before it waits for
 * its children. A parent that restarts keeps them: the child's wait closes a
 * cycle and is refused with TR_EDEADLOCK.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

typedef struct family {
    stage it;
    tr_ref parent, child;
    act_fn request;  // what the child asks its parent to run
    char text[512];  // error text of the child's ask
    tr_nanos at;     // when the ask returned
} family;

static tr_err act_have_child(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    family *f = arg;
    puppet first = {.stage = self->stage};
    (void)m;
    f->child =
        tr_spawn(ctx, puppets, .name = "child", .init = &first,
                 .init_size = sizeof(first), .stop_timeout = TR_MINUTES(60));
    return TR_OK;
}

/* Asks its peer to run f->request; notes the error of the ask. */
static tr_err act_ask_and_note(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    family *f = arg;
    (void)m;
    tr_err err = act_ask(ctx, self->peer, f->request, NULL, TR_MINUTES(60));
    stage_note(self->stage, err);
    const char *text = tr_error_text(ctx);
    strncpy(f->text, text != NULL ? text : "", sizeof(f->text) - 1);
    f->at = tr_now(ctx);
    return TR_OK;
}

/* Makes a parent that sleeps for a second and a child that asks meanwhile. */
static void family_open(family *f, act_fn nap, act_fn asks, act_fn request)
{
    memset(f, 0, sizeof(*f));
    f->request = request;
    stage_open(&f->it);
    f->parent =
        stage_spawn(&f->it, .name = "parent", .stop_timeout = TR_MINUTES(60));
    expect_ok(stage_ask(&f->it, f->parent, act_have_child, f));
    expect_ok(stage_ask(&f->it, f->child, act_meet, &f->parent));
    stage_tell(&f->it, f->parent, nap, (void *)TR_SECONDS(1));
    stage_run_ready(&f->it);
    stage_tell(&f->it, f->child, asks, f);
    stage_run_ready(&f->it);
}

/*
 * The ask goes on while the parent sleeps; after that second it returns
 * `wanted`.
 */
static void expect_after_nap(family *f, tr_err wanted)
{
    stage_run_ready(&f->it);
    assert_int_equal(atomic_load(&f->it.note_count), 0);
    stage_pass(&f->it, TR_SECONDS(1));
    expect_notes(&f->it, wanted);
}

static void test_rule_19_a_child_does_not_wait_for_a_stopping_parent(
    void **state)
{
    family f;
    (void)state;
    family_open(&f, act_sleep, act_ask_and_note, act_nothing);
    tr_stop(f.it.sys, f.parent);
    expect_after_nap(&f, TR_EGONE);
    assert_non_null(strstr(f.text, "/user/parent"));
    assert_non_null(strstr(f.text, "deadlock_family_test.c:"));
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_TERMINATED);
    stage_close(&f.it);
}

static tr_err act_ask_future(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    family *f = arg;
    (void)m;
    tr_future future = tr_async(ctx, self->peer, TR_MINUTES(60), Act,
                                .fn = (uint64_t)(uintptr_t)f->request);
    stage_note(self->stage, tr_await(ctx, future, Act, NULL));
    return TR_OK;
}

static tr_err act_pass_on(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    TR_TRY(act_ask(ctx, self->peer, act_nothing, NULL, TR_MINUTES(60)));
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_19_nor_by_a_future_nor_through_another_actor(void **state)
{
    family f;
    (void)state;
    family_open(&f, act_sleep, act_ask_future, act_nothing);
    tr_stop(f.it.sys, f.parent);
    expect_after_nap(&f, TR_EGONE);
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_TERMINATED);
    stage_close(&f.it);

    family_open(&f, act_sleep, act_nothing, act_pass_on);
    tr_ref middle = f.it.one;
    expect_ok(stage_ask(&f.it, middle, act_meet, &f.parent));
    expect_ok(stage_ask(&f.it, f.child, act_meet, &middle));
    stage_tell(&f.it, f.child, act_ask_and_note, &f);
    stage_run_ready(&f.it);
    tr_stop(f.it.sys, f.parent);
    expect_after_nap(&f, TR_EFAILED);  // the actor in the middle failed
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_TERMINATED);
    stage_close(&f.it);
}

static tr_err act_nap_and_fail(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    return TR_EUSER;
}

static void test_rule_19_a_child_does_not_wait_for_a_restarting_parent(
    void **state)
{
    family f;
    (void)state;
    family_open(&f, act_nap_and_fail, act_ask_and_note, act_nothing);
    tr_nanos before = tr_now(f.it.sys);
    stage_pass(&f.it, TR_SECONDS(10));
    expect_notes(&f.it, TR_EDEADLOCK);
    assert_non_null(strstr(f.text, "/user/parent/child"));
    assert_non_null(strstr(f.text, "/user/parent, which waits"));
    assert_true(f.at - before <= TR_SECONDS(2));
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_RUNNING);
    assert_int_equal(tr_state_of(f.it.sys, f.child), TR_STATE_TERMINATED);
    stage_close(&f.it);

    family_open(&f, act_nap_and_fail, act_ask_future, act_nothing);
    stage_pass(&f.it, TR_SECONDS(10));
    expect_notes(&f.it, TR_EDEADLOCK);
    stage_close(&f.it);
}

static tr_err act_nap_and_answer(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    return tr_reply(ctx, m, .value = 1);
}

/* Only the child stops, or the parent is still working on the answer. */
static void test_rule_19_an_answer_that_will_come_is_awaited(void **state)
{
    family f;
    (void)state;
    family_open(&f, act_sleep, act_ask_and_note, act_nothing);
    tr_stop(f.it.sys, f.child);
    expect_after_nap(&f, TR_OK);
    assert_int_equal(tr_state_of(f.it.sys, f.child), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_RUNNING);
    stage_close(&f.it);

    // The turn of the parent still makes the answer when both are stopped.
    family_open(&f, act_nothing, act_ask_and_note, act_nap_and_answer);
    tr_stop(f.it.sys, f.parent);
    tr_stop(f.it.sys, f.child);
    expect_after_nap(&f, TR_OK);
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_TERMINATED);
    stage_close(&f.it);
}

static tr_err act_forward_to_one(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), self->stage->one)) {
        return act_nap_and_answer(ctx, self, m, NULL);
    }
    tr_forward(ctx, self->peer, m);
    return TR_OK;
}

/* Another actor has the request now and answers it: there is no cycle. */
static void test_rule_19_a_forwarded_request_is_awaited(void **state)
{
    family f;
    (void)state;
    family_open(&f, act_nothing, act_nothing, act_forward_to_one);
    expect_ok(stage_ask(&f.it, f.parent, act_meet, &f.it.one));
    stage_tell(&f.it, f.child, act_ask_and_note, &f);
    stage_run_ready(&f.it);
    tr_stop(f.it.sys, f.parent);
    expect_after_nap(&f, TR_OK);
    assert_int_equal(tr_state_of(f.it.sys, f.parent), TR_STATE_TERMINATED);
    stage_close(&f.it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule_19_a_child_does_not_wait_for_a_stopping_parent),
        cmocka_unit_test(
            test_rule_19_nor_by_a_future_nor_through_another_actor),
        cmocka_unit_test(
            test_rule_19_a_child_does_not_wait_for_a_restarting_parent),
        cmocka_unit_test(test_rule_19_an_answer_that_will_come_is_awaited),
        cmocka_unit_test(test_rule_19_a_forwarded_request_is_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
