/*
 * rules_failure_test.c - the rules about failing: 11 to 16.
 */
#include "support/stage.h"

#include <stdlib.h>
#include <string.h>

static void tell_beside(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActBeside, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

static void count_up(void *object)
{
    ++*(int *)object;
}

/* ---- rule 11 ---- */

static __attribute__((noinline)) int deep(tr_ctx *ctx, int depth)
{
    char room[64];
    memset(room, depth, sizeof(room));
    if (depth < 0) {
        return depth;
    }
    if (depth == 0) {
        tr_panic(ctx, "at the bottom, %d", room[0]);
    }
    return deep(ctx, depth - 1) + room[1];
}

static tr_err act_deep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)tr_scratch(ctx, 100);
    tr_on_end(ctx, count_up, arg);
    (void)tr_alloc(ctx, 100);
    return deep(ctx, 20) == 0 ? TR_OK : TR_EUSER;
}

static void test_rule_11_a_panic_leaves_from_any_depth(void **state)
{
    stage it;
    int closed = 0;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_deep, &closed), TR_EPANIC);
    assert_non_null(strstr(tr_error_text(it.sys), "at the bottom, 0"));
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(closed, 1);
    assert_int_equal(atomic_load(&it.restarts), 1);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

static tr_err act_nap_then_panic(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    TR_ASSERT(ctx, 1 + 1 == 3);
    return TR_OK;
}

static void test_rule_11_a_panic_after_a_wait_has_its_own_stack(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.two, act_nap_then_panic, NULL);
    expect_err(stage_ask(&it, it.one, act_nap_then_panic, NULL), TR_EPANIC);
    assert_non_null(strstr(tr_error_text(it.sys), "1 + 1 == 3"));
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.restarts), 2);
    stage_close(&it);
}

typedef struct fragile {
    int *phase;
    int where;
} fragile;

static tr_err fragile_start(tr_ctx *ctx, fragile *self)
{
    if (self->where == TR_IN_START) {
        tr_panic(ctx, "in start");
    }
    return TR_OK;
}

static tr_err fragile_run(tr_ctx *ctx, fragile *self)
{
    if (self->where == TR_IN_RUN) {
        TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
        tr_panic(ctx, "in run");
    }
    return TR_OK;
}

TR_ACTOR(fragiles, fragile, TR_HOOK(pre_start, fragile_start),
         TR_HOOK(on_run, fragile_run));

static void test_rule_11_a_panic_tells_its_phase(void **state)
{
    static const int phases[] = {TR_IN_START, TR_IN_RUN};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        stage it;
        tr_result result;
        stage_open(&it);
        tr_ref ref =
            tr_spawn(it.sys, fragiles, TR_INIT(fragiles, .where = phases[i]),
                     .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                     .joinable = true);
        expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
        assert_int_equal(result.phase, phases[i]);
        expect_err(result.err, TR_EPANIC);
        stage_close(&it);
    }
}

/* ---- rule 12 ---- */

static tr_err act_long(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = tr_sleep(ctx, TR_SECONDS(2));
    stage_note(self->stage, 2);
    return TR_OK;
}

static void test_rule_12_resume_lets_the_parked_turn_go_on(void **state)
{
    stage it;
    tr_err err = TR_EUSER;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    stage_tell(&it, ref, act_long, &err);
    stage_settle(&it);
    tell_beside(&it, ref, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(err, TR_OK);
    expect_notes(&it, 2);
    assert_int_equal(atomic_load(&it.restarts), 0);
    stage_close(&it);
}

static void test_rule_12_stop_lets_it_finish(void **state)
{
    stage it;
    tr_err err = TR_EUSER;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    stage_tell(&it, ref, act_long, &err);
    stage_settle(&it);
    tell_beside(&it, ref, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(err, TR_OK);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* ---- rule 13 ---- */

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
    stage_settle(&it);
    assert_int_equal(own.closed, 0);
    expect_ok(tr_ask(it.sys, ref, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_read_heap));
    assert_int_equal(done.value, 0);
    tr_stop(it.sys, it.three);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1000 + TR_STOPPED, 8);
    tr_stop(it.sys, ref);
    stage_settle(&it);
    assert_int_equal(own.closed, 1);
    stage_close(&it);
}

/* ---- rule 14 ---- */

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
    stage_settle(&it);
    expect_ok(tr_thread_start(it.sys, &thread, ask_later, &kept));
    stage_settle(&it);
    stage_tell(&it, it.one, act_fail, NULL);
    tr_tell(it.sys, it.one, Note, .value = 3);
    tr_stop(it.sys, it.three);
    stage_pass(&it, TR_MS(900));
    tr_thread_join(it.sys, thread);
    expect_err(kept.err, TR_ERESTARTED);
    assert_int_equal(own.closed, 1);
    stage_pass(&it, TR_SECONDS(10));
    // Stashed mail first, the first behaviour, no timers, no own watch.
    expect_notes(&it, 1, 2, 3);
    expect_ok(tr_ask(it.sys, it.one, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_value));
    assert_int_equal(done.value, 0);
    // Who watches it is untouched (X4).
    tr_kill(it.sys, it.one);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    stage_close(&it);
}

/* ---- rule 15 ---- */

static tr_err act_fail_undelivered(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    return tr_fail(ctx, TR_ENOENT, "not what it seems");
}

static tr_err act_refuse(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    return tr_refuse(ctx, m, (tr_err)(uintptr_t)arg, "because %d", 5);
}

static void test_rule_15_the_asker_hears_before_the_supervisor(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_nanos before = tr_now(it.sys);
    expect_err(stage_ask(&it, it.one, act_fail, NULL), TR_EUSER);
    assert_int_equal(tr_now(it.sys), before);  // no delay of the restart
    expect_err(stage_ask(&it, it.two, act_fail_undelivered, NULL), TR_EFAILED);
    stage_close(&it);
}

static void test_rule_15_a_refusal_is_no_failure(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_refuse, (void *)TR_EUSER), TR_EUSER);
    assert_non_null(strstr(tr_error_text(it.sys), "because 5"));
    expect_err(stage_ask(&it, it.one, act_refuse, (void *)TR_EGONE),
               TR_EFAILED);
    assert_false(tr_undelivered(TR_EFAILED));
    stage_settle(&it);
    assert_int_equal(atomic_load(&it.restarts), 0);
    stage_close(&it);
}

/* ---- rule 16 ---- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_11_a_panic_leaves_from_any_depth),
        cmocka_unit_test(test_rule_11_a_panic_after_a_wait_has_its_own_stack),
        cmocka_unit_test(test_rule_11_a_panic_tells_its_phase),
        cmocka_unit_test(test_rule_12_resume_lets_the_parked_turn_go_on),
        cmocka_unit_test(test_rule_12_stop_lets_it_finish),
        cmocka_unit_test(test_rule_13_resume_keeps_what_the_failed_turn_made),
        cmocka_unit_test(test_rule_14_restart_frees_all_but_the_mail),
        cmocka_unit_test(test_rule_15_the_asker_hears_before_the_supervisor),
        cmocka_unit_test(test_rule_15_a_refusal_is_no_failure),
        cmocka_unit_test(test_rule_16_the_scope_is_that_of_the_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
