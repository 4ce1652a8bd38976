/*
 * failure_test.c - what a failure leaves behind after resume and restart, and
 * failures in a cohort.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

/* ---- resume and restart ---- */

static void count_up(void *object)
{
    ++*(int *)object;
}

typedef struct belongings {
    int closed;
    char *heap;
} belongings;

static tr_err act_own_and_fail(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    belongings *it = arg;
    self->kept = it->heap = tr_dup(ctx, "mine");
    tr_on_end(ctx, count_up, &it->closed);
    (void)tr_textf(ctx, "scratch %d", 1);
    (void)tr_after(ctx, TR_SECONDS(1), Note, .value = 8);
    tr_watch(ctx, self->stage->three);
    (void)tr_keep(ctx, m);
    return tr_fail(ctx, TR_EUSER, "after all that");
}

static tr_err act_read_heap(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    return tr_reply(ctx, m, .value = strcmp(self->kept, "mine"));
}

static void test_rule_13_resume_keeps_what_the_failed_turn_made(void **state)
{
    stage it;
    belongings own = {0, NULL};
    Acted done;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    stage_tell(&it, ref, act_own_and_fail, &own);
    stage_run_ready(&it);
    assert_int_equal(own.closed, 0);
    expect_ok(tr_ask(it.sys, ref, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_read_heap));
    assert_int_equal(done.value, 0);
    tr_stop(it.sys, it.three);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1000 + TR_STOPPED, 8);
    tr_stop(it.sys, ref);
    stage_run_ready(&it);
    assert_int_equal(own.closed, 1);
    stage_close(&it);
}

static tr_err on_other(tr_ctx *ctx, puppet *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, -m->value);
    return TR_OK;
}

static tr_err other_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    return ((act_fn)(uintptr_t)m->fn)(ctx, self, m, (void *)(uintptr_t)m->arg);
}

TR_ACTOR(others, puppet, TR_ON(Note, on_other), TR_ON(Act, other_act));

static tr_err act_become_own(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    belongings *it = arg;
    (void)m;
    self->value = 77;
    (void)tr_alloc(ctx, 1000);
    tr_on_end(ctx, count_up, &it->closed);
    (void)tr_every(ctx, TR_SECONDS(1), Note, .value = 8);
    tr_receive_timeout(ctx, TR_SECONDS(1));
    tr_watch(ctx, self->stage->three);
    tr_become(ctx, self, others);
    return TR_OK;
}

static tr_err act_stash(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    if (self->value == 77) {
        return tr_stash(ctx, m);
    }
    stage_note(self->stage, (int64_t)(intptr_t)arg);
    return TR_OK;
}

static tr_err act_value(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    return tr_reply(ctx, m, .value = self->value);
}

typedef struct later {
    tr_system *sys;
    tr_ref to;
    act_fn fn;
    tr_err err;
} later;

static void ask_later(void *arg)
{
    later *it = arg;
    it->err = tr_ask(it->sys, it->to, NULL, TR_SECONDS(50), Act,
                     .fn = (uint64_t)(uintptr_t)it->fn);
}

static void test_rule_14_restart_frees_all_but_the_mail(void **state)
{
    stage it;
    belongings own = {0, NULL};
    Acted done;
    tr_thread *thread;
    (void)state;
    stage_open(&it);
    tr_probe_watch(it.probe, it.one);
    later kept = {it.sys, it.one, act_keep, TR_OK};
    stage_tell(&it, it.one, act_become_own, &own);
    stage_tell(&it, it.one, act_stash, (void *)1);
    stage_tell(&it, it.one, act_stash, (void *)2);
    stage_run_ready(&it);
    expect_ok(tr_thread_start(it.sys, &thread, ask_later, &kept));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_fail, NULL);
    tr_tell(it.sys, it.one, Note, .value = 3);
    tr_stop(it.sys, it.three);
    stage_pass(&it, TR_MS(900));
    tr_thread_join(it.sys, thread);
    expect_err(kept.err, TR_ERESTARTED);
    assert_int_equal(own.closed, 1);
    stage_pass(&it, TR_SECONDS(10));
    // The watch stays, and its notice comes first; then stashed mail. Behaviour
    // and timers are reset.
    expect_notes(&it, 1000 + TR_STOPPED, 1, 2, 3);
    expect_ok(tr_ask(it.sys, it.one, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_value));
    assert_int_equal(done.value, 0);
    // Those who watch it still do.
    tr_kill(it.sys, it.one);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    stage_close(&it);
}

/* ---- parents and siblings ---- */

static tr_err act_two_children(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tr_ref *out = arg;
    puppet first = {.stage = self->stage};
    (void)m;
    out[0] = tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first),
                      .supervision = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE));
    out[1] = tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    return TR_OK;
}

static void test_rule_16_the_scope_is_that_of_the_child(void **state)
{
    stage it;
    tr_ref children[2];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_two_children, children));
    expect_err(stage_ask(&it, children[1], act_fail, NULL), TR_EUSER);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.restarts), 1);
    expect_err(stage_ask(&it, children[0], act_fail, NULL), TR_EUSER);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.restarts), 3);
    stage_close(&it);
}

static tr_err act_child_fails(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *child = arg;
    (void)m;
    *child = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = self->stage));
    act_tell(ctx, *child, act_fail, NULL);
    return tr_sleep(ctx, TR_SECONDS(10));
}

static void test_SV3_a_failed_child_waits_for_its_parent(void **state)
{
    stage it;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tr_ref child;
        stage_open_seed(&it, seed, NULL);
        stage_tell(&it, it.one, act_child_fails, &child);
        stage_pass(&it, TR_SECONDS(1));
        tr_state life = tr_state_of(it.sys, child);
        tr_err err = tr_started(it.sys, child, TR_MS(1));
        assert_true(life == TR_STATE_FAILED
                        ? err == TR_EUSER
                        : err == TR_OK || err == TR_ETIMEDOUT);
        stage_pass(&it, TR_SECONDS(60));
        expect_ok(stage_ask(&it, child, act_nothing, NULL));
        stage_close(&it);
    }
}

typedef struct member {
    stage *stage;
    int64_t number;
    uint32_t bad;  // the start of this incarnation fails
} member;

TR_MESSAGE(Break, (int64_t, value));

static tr_err member_start(tr_ctx *ctx, member *self)
{
    stage_note(self->stage, self->number * 10 + tr_incarnation(ctx));
    return tr_incarnation(ctx) == self->bad
               ? tr_fail(ctx, TR_EUSER, "a bad start")
               : TR_OK;
}

static tr_err member_break(tr_ctx *ctx, member *self, const Break *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EUSER, "as told");
}

TR_ACTOR(members, member, TR_HOOK(pre_start, member_start),
         TR_ON(Break, member_break));

typedef struct cohort {
    const tr_supervision *policy;
    tr_ref all[3];
    uint32_t bad;  // `bad` of the second child
} cohort;

static tr_err act_bear_members(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    cohort *f = arg;
    (void)m;
    for (int i = 0; i < 3; i++) {
        f->all[i] =
            tr_spawn(ctx, members, .supervision = f->policy,
                     TR_INIT(members, .stage = self->stage, .number = i + 1,
                             .bad = i == 1 ? f->bad : 0));
    }
    return TR_OK;
}

/* The cohort restarts once more, again in the order of spawning. */
static void test_X44_a_failed_start_restarts_the_whole_cohort(void **state)
{
    stage it;
    cohort f = {.bad = 2,
                .policy =
                    TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 5,
                                 .backoff_min = TR_MS(1),
                                 .backoff_max = TR_MS(1))};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bear_members, &f));
    stage_pass(&it, TR_SECONDS(1));
    atomic_store(&it.note_count, 0);  // the first starts came in any order
    tr_tell(it.probe, f.all[2], Break);
    stage_pass(&it, TR_SECONDS(1));
    // The third has not started again when the second fails.
    expect_notes(&it, 12, 22, 13, 23, 32);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_state_of(it.sys, f.all[i]), TR_STATE_RUNNING);
    }
    stage_close(&it);
}

/* Beyond the limit of restarts the parent fails. */
static void test_SV9_SV18_a_failed_start_counts_against_the_limit(void **state)
{
    stage it;
    cohort f = {
        .bad = 2,
        .policy = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 1,
                               .on_limit = TR_ESCALATE, .backoff_min = TR_MS(1),
                               .backoff_max = TR_MS(1))};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bear_members, &f));
    stage_pass(&it, TR_SECONDS(1));
    tr_tell(it.probe, f.all[2], Break);
    stage_pass(&it, TR_SECONDS(5));
    assert_int_equal(atomic_load(&it.restarts), 1);  // of the parent
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_state_of(it.sys, f.all[i]), TR_STATE_TERMINATED);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_13_resume_keeps_what_the_failed_turn_made),
        cmocka_unit_test(test_rule_14_restart_frees_all_but_the_mail),
        cmocka_unit_test(test_rule_16_the_scope_is_that_of_the_child),
        cmocka_unit_test(test_SV3_a_failed_child_waits_for_its_parent),
        cmocka_unit_test(test_X44_a_failed_start_restarts_the_whole_cohort),
        cmocka_unit_test(test_SV9_SV18_a_failed_start_counts_against_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
