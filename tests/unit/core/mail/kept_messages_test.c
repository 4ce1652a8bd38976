/*
 * kept_messages_test.c - tr_keep, tr_release, tr_forward, tr_stash: a message
 * is in one place at a time.
 */
#include "support/stage.h"

#include "support/core.h"

/* ---- keep, release and forward ---- */

typedef struct later {
    stage *stage;
    tr_ref to;
    act_fn fn;
    tr_err err;
    int64_t value;
} later;

static void ask_in_thread(void *arg)
{
    later *it = arg;
    Acted done;
    it->err = tr_ask(it->stage->sys, it->to, &done, TR_SECONDS(50), Act,
                     .fn = (uint64_t)(uintptr_t)it->fn);
    it->value = done.value;
    tr_drop(Acted, &done);
}

static tr_thread *begin(later *it)
{
    tr_thread *thread;
    expect_ok(tr_thread_start(it->stage->sys, &thread, ask_in_thread, it));
    stage_run_ready(it->stage);
    return thread;
}

static tr_err act_answer_kept(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    const Act *kept = self->kept;
    (void)m;
    TR_TRY(tr_reply(ctx, kept, .value = (int64_t)(intptr_t)arg));
    tr_release(ctx, kept);
    tr_release(ctx, m);  // not kept: no effect
    self->kept = NULL;
    return TR_OK;
}

static tr_err act_release_kept(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    tr_release(ctx, self->kept);
    return TR_OK;
}

static tr_err act_forward_kept(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    tr_forward(ctx, *(tr_ref *)arg, self->kept);
    return TR_OK;
}

static tr_err act_keep_here(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    if (tr_ref_eq(tr_self(ctx), self->stage->one)) {
        return act_keep(ctx, self, m, arg);
    }
    return tr_reply(ctx, m, .value = 22);
}

static void test_a_kept_request_is_answered_later(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    later ask = {&it, it.one, act_keep, TR_EUSER, 0};
    tr_thread *thread = begin(&ask);
    expect_err(ask.err, TR_EUSER);
    expect_ok(stage_ask(&it, it.one, act_answer_kept, (void *)7));
    tr_thread_join(it.sys, thread);
    expect_ok(ask.err);
    assert_int_equal(ask.value, 7);
    // Released without an answer: the asker gets an error.
    thread = begin(&ask);
    expect_ok(stage_ask(&it, it.one, act_release_kept, NULL));
    tr_thread_join(it.sys, thread);
    expect_err(ask.err, TR_ENOREPLY);
    // A kept request is forwarded; its answer goes to the asker.
    ask.fn = act_keep_here;
    thread = begin(&ask);
    expect_ok(stage_ask(&it, it.one, act_forward_kept, &it.two));
    tr_thread_join(it.sys, thread);
    expect_ok(ask.err);
    assert_int_equal(ask.value, 22);
    // Kept until the actor ends.
    ask.fn = act_keep;
    thread = begin(&ask);
    tr_stop(it.sys, it.one);
    tr_thread_join(it.sys, thread);
    expect_err(ask.err, TR_ESTOPPED);
    stage_close(&it);
}

/* Keeps and stashes twice; the message comes back once. */
static tr_err act_keep_and_stash_twice(tr_ctx *ctx, puppet *self, const Act *m,
                                       void *arg)
{
    (void)arg;
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = 5);
    }
    const Act *kept = tr_keep(ctx, m);
    TR_ASSERT(ctx, kept == m);
    TR_ASSERT(ctx, tr_keep(ctx, m) == m);
    TR_TRY(tr_stash(ctx, m));
    TR_TRY(tr_stash(ctx, m));
    tr_unstash_all(ctx);
    tr_unstash_all(ctx);
    return TR_OK;
}

static void test_a_message_is_kept_or_stashed_once(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_keep_and_stash_twice));
    assert_int_equal(done.value, 5);
    stage_close(&it);
}

static tr_err act_keep_and_release(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)arg;
    const Act *kept = tr_keep(ctx, m);
    TR_ASSERT(ctx, tr_keep(ctx, kept) == kept);
    tr_release(ctx, kept);
    tr_release(ctx, kept);  // it belongs to the turn again: no effect
    return tr_reply(ctx, kept, .value = 7);
}

static tr_err act_keep_and_forward(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), self->stage->two)) {
        return tr_reply(ctx, m, .value = 8);
    }
    const Act *kept = tr_keep(ctx, m);
    tr_forward(ctx, self->stage->two, kept);
    return TR_OK;
}

static tr_err act_keep_and_stash(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)arg;
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = 9);
    }
    const Act *kept = tr_keep(ctx, m);
    TR_TRY(tr_stash(ctx, kept));
    TR_TRY(tr_stash(ctx, m));  // stashed already: no effect
    tr_unstash_all(ctx);
    return TR_OK;
}

static int64_t value_of(stage *it, act_fn fn)
{
    Acted out;
    expect_ok(
        tr_ask(it->sys, it->one, &out, 0, Act, .fn = (uint64_t)(uintptr_t)fn));
    int64_t value = out.value;
    tr_drop(Acted, &out);
    return value;
}

static void test_rule_13_a_message_is_kept_and_passed_on_in_one_turn(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    assert_int_equal(value_of(&it, act_keep_and_release), 7);
    assert_int_equal(value_of(&it, act_keep_and_forward), 8);
    assert_int_equal(value_of(&it, act_keep_and_stash), 9);
    stage_close(&it);
}

static tr_err act_forward_to(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_ref *to = arg;
    if (tr_ref_eq(tr_self(ctx), *to)) {
        TR_TRY(tr_sleep(ctx, TR_SECONDS(3)));
        return tr_reply(ctx, m, .value = 33);
    }
    (void)self;
    tr_forward(ctx, *to, m);
    return TR_OK;
}

static void test_T4_a_forwarded_request_keeps_its_deadline(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_forward_to,
                     .arg = (uint64_t)(uintptr_t)&it.two));
    assert_int_equal(done.value, 33);
    expect_err(
        stage_ask_for(&it, it.one, act_forward_to, &it.two, TR_SECONDS(2)),
        TR_ETIMEDOUT);
    // Forwarded to an ended actor: the asker gets an error.
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_run_ready(&it);
    expect_err(stage_ask(&it, it.one, act_forward_to, &gone), TR_EGONE);
    stage_close(&it);
}

/* ---- stash ---- */

static tr_err closed_note(tr_ctx *ctx, puppet *self, const Note *m);

static tr_err open_note(tr_ctx *ctx, puppet *self, const Note *m);

TR_ACTOR(doors, puppet, TR_ON(Note, closed_note));
TR_ACTOR(doors_open, puppet, TR_ON(Note, open_note));

static tr_err closed_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    if (m->value != 0) {
        return tr_stash(ctx, m);
    }
    tr_become(ctx, self, doors_open);
    tr_unstash_all(ctx);
    return TR_OK;
}

static tr_err open_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, m->value);
    return TR_OK;
}

static void test_PA3_stash_and_become(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, doors, TR_INIT(doors, .stage = &it));
    for (int i = 1; i <= 3; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
    }
    tr_tell(it.sys, ref, Note, .value = 0);
    tr_tell(it.sys, ref, Note, .value = 4);
    stage_run_ready(&it);
    expect_notes(&it, 1, 2, 3, 4);
    stage_close(&it);
}

/* Stashes as if a million messages had been stashed before. */
static tr_err act_stash_at_limit(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    enum { MOST = 1 << 20 };
    uint32_t *stashed = arg;
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    TR_ASSERT(ctx, ext != NULL);
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = ++*stashed);
    }
    ext->keep.stashed = MOST - (*stashed == 0);
    tr_err err = tr_stash(ctx, m);
    TR_ASSERT(ctx, ext->keep.stashed == MOST);
    ext->keep.stashed = err == TR_OK;  // the real number
    if (err != TR_OK) {
        // The message still belongs to this turn.
        return tr_refuse(ctx, m, err, "full");
    }
    tr_unstash_all(ctx);
    return TR_OK;
}

static void test_PA3_a_stash_has_a_limit(void **state)
{
    stage it;
    Acted done;
    uint32_t stashed = 0;
    (void)state;
    stage_open(&it);
    // The last message that fits comes back; the next one is refused.
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_stash_at_limit,
                     .arg = (uint64_t)(uintptr_t)&stashed));
    assert_int_equal(done.value, 1);
    expect_err(stage_ask(&it, it.two, act_stash_at_limit, &stashed), TR_ELIMIT);
    assert_int_equal(stashed, 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kept_request_is_answered_later),
        cmocka_unit_test(test_a_message_is_kept_or_stashed_once),
        cmocka_unit_test(
            test_rule_13_a_message_is_kept_and_passed_on_in_one_turn),
        cmocka_unit_test(test_T4_a_forwarded_request_keeps_its_deadline),
        cmocka_unit_test(test_PA3_stash_and_become),
        cmocka_unit_test(test_PA3_a_stash_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
