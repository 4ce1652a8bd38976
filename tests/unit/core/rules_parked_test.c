/*
 * rules_parked_test.c - the rules about actors whose turn waits: 1 to 10.
 *
 * On virtual time, with puppets (support/stage.h). Each test is named after
 * the rule it holds the runtime to.
 */
#include "support/stage.h"

#include <sched.h>
#include <string.h>

#include "core/runtime.h"

typedef struct nap {  // sleeps between two notes; keeps what the sleep gave
    tr_nanos span;
    int64_t before, after;
    tr_err err;
} nap;

static tr_err act_nap(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    nap *it = arg;
    (void)m;
    stage_note(self->stage, it->before);
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return it->err;
}

static tr_err act_note(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)m;
    stage_note(self->stage, (int64_t)(intptr_t)arg);
    return TR_OK;
}

static void tell_read(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActRead, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

static void tell_beside(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActBeside, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

/* ---- rule 1 ---- */

static void test_rule_01_X50_interleave_beside_a_parked_writer(void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_tell(&it, it.one, act_note, (void *)4);
    tell_beside(&it, it.one, act_note, (void *)3);
    stage_settle(&it);
    expect_notes(&it, 1, 3);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 3, 2, 4);
    stage_close(&it);
}

static void test_rule_01_X50_reads_run_beside_readers_only(void **state)
{
    stage it;
    nap reader = {TR_SECONDS(1), 1, 2, TR_OK};
    nap writer = {TR_SECONDS(1), 5, 6, TR_OK};
    (void)state;
    stage_open(&it);
    tell_read(&it, it.one, act_nap, &reader);
    tell_read(&it, it.one, act_note, (void *)3);
    stage_settle(&it);
    expect_notes(&it, 1, 3);
    // A writer in the queue: later readers wait behind it.
    stage_tell(&it, it.one, act_nap, &writer);
    tell_read(&it, it.one, act_note, (void *)4);
    stage_settle(&it);
    expect_notes(&it, 1, 3);
    // Beside a writer no reader runs.
    stage_pass(&it, TR_MS(1500));
    expect_notes(&it, 1, 3, 2, 5);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 3, 2, 5, 6, 4);
    stage_close(&it);
}

static void test_rule_01_bookkeeping_goes_on_while_parked(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_settle(&it);
    tr_probe_watch(it.probe, it.one);
    stage_settle(&it);
    tr_stop(it.sys, it.one);
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_STOPPING);
    const tr_terminated *end =
        tr_expect(it.probe, TR_SECONDS(5), tr_terminated);
    assert_int_equal(end->reason, TR_STOPPED);
    stage_close(&it);
}

static tr_err act_keep_and_count(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    TR_TRY(act_keep(ctx, self, m, arg));
    stage_note(self->stage, 0);
    return TR_OK;
}

static tr_err act_answer_kept(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    const Act *kept = self->kept;
    self->kept = NULL;
    return tr_reply(ctx, kept, .value = (int64_t)(intptr_t)arg);
}

typedef struct wait_for {
    tr_ref whom;
    _Atomic(int64_t) got;
} wait_for;

static tr_err act_wait_for(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    wait_for *it = arg;
    Acted out;
    (void)self;
    (void)m;
    TR_TRY(tr_ask(ctx, it->whom, &out, TR_FOREVER, Act,
                  .fn = (uint64_t)(uintptr_t)act_keep_and_count));
    atomic_store(&it->got, out.value);
    return TR_OK;
}

/* On a thread of its own, which has a short way for one that waits alone. */
static void test_rule_01_X50_of_two_parked_turns_each_goes_on(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, TR_OPTIONS(tr_system_options, .workers = 1));
    wait_for first = {.whom = it.two}, second = {.whom = it.three};
    tell_beside(&it, it.one, act_wait_for, &first);
    tell_beside(&it, it.one, act_wait_for, &second);
    while (atomic_load(&it.note_count) < 2) {
        sched_yield();
    }
    // In the order of their waits, and against it.
    expect_ok(stage_ask(&it, it.two, act_answer_kept, (void *)22));
    while (atomic_load(&first.got) != 22) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&second.got), 0);
    tell_beside(&it, it.one, act_wait_for, &first);
    while (atomic_load(&it.note_count) < 3) {
        sched_yield();
    }
    expect_ok(stage_ask(&it, it.two, act_answer_kept, (void *)23));
    while (atomic_load(&first.got) != 23) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&second.got), 0);
    expect_ok(stage_ask(&it, it.three, act_answer_kept, (void *)33));
    while (atomic_load(&second.got) != 33) {
        sched_yield();
    }
    stage_close(&it);
}

/* Spare stacks of the worker, which has been idle for a moment. */
static tr_err act_spare(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(10)));
    *(uint32_t *)arg = ctx->worker->fibers.spare_count;
    return tr_reply(ctx, m, .value = 1);
}

/* The stacks of many that waited at once are not kept for ever. */
static void test_rule_04_stacks_of_many_waits_are_given_back(void **state)
{
    enum { MANY = 2 * TRI_FIBER_SPARE_WARM };
    stage it;
    uint32_t spare = 0;
    (void)state;
    stage_open_real(&it, TR_OPTIONS(tr_system_options, .workers = 1));
    static nap naps[MANY];
    for (int i = 0; i < MANY; i++) {
        naps[i] = (nap){.span = TR_MINUTES(60)};
        tell_beside(&it, it.one, act_nap, &naps[i]);
    }
    while (atomic_load(&it.note_count) < MANY) {
        sched_yield();
    }
    tr_kill(it.sys, it.one);
    while (atomic_load(&it.note_count) < 2 * MANY) {
        sched_yield();
    }
    do {
        expect_ok(stage_ask(&it, it.two, act_spare, &spare));
    } while (spare > TRI_FIBER_SPARE_WARM);
    stage_close(&it);
}

/* ---- rule 2 ---- */

static tr_err act_spawn(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    puppet first = {.stage = self->stage};
    tr_ref *out = arg;
    (void)m;
    *out = tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first),
                    .watch = true);
    return TR_OK;
}

static void test_rule_02_terminated_waits_for_the_parked_turn(void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    tr_ref child;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_spawn, &child));
    stage_tell(&it, it.one, act_nap, &first);
    tr_tell(it.sys, it.one, Note, .value = 3);
    stage_settle(&it);
    tr_stop(it.sys, child);
    stage_settle(&it);
    expect_notes(&it, 1);
    assert_int_equal(tr_state_of(it.sys, child), TR_STATE_TERMINATED);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 2, 1000 + TR_STOPPED, 3);  // DW5
    stage_close(&it);
}

static tr_directive always_resume(const puppet *self, const tr_failure *f)
{
    (void)f;
    stage_note(self->stage, 7);
    return TR_RESUME;
}

static tr_err parent_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    return ((act_fn)(uintptr_t)m->fn)(ctx, self, m, (void *)(uintptr_t)m->arg);
}

TR_ACTOR(resuming_parent, puppet, TR_ON(Act, parent_act),
         TR_HOOK(decide, always_resume));

static void test_rule_02_a_parked_parent_decides_at_once(void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    tr_ref child;
    (void)state;
    stage_open(&it);
    tr_ref parent = tr_spawn(it.sys, resuming_parent,
                             TR_INIT(resuming_parent, .stage = &it));
    expect_ok(stage_ask(&it, parent, act_spawn, &child));
    stage_tell(&it, parent, act_nap, &first);
    stage_settle(&it);
    expect_err(stage_ask(&it, child, act_fail, NULL), TR_EUSER);
    stage_settle(&it);
    expect_notes(&it, 1, 7);
    expect_ok(stage_ask(&it, child, act_nothing, NULL));
    assert_int_equal(tr_state_of(it.sys, child), TR_STATE_RUNNING);
    stage_close(&it);
}

/* ---- rules 3 and 8 ---- */

static void test_rule_03_X49_stop_lets_a_parked_turn_finish(void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 1, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_settle(&it);
    tr_stop(it.sys, it.one);
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_STOPPING);
    tr_tell(it.sys, it.one, Note, .value = 9);  // new mail: a dead letter
    stage_settle(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_STOPPING), 1);
    stage_pass(&it, TR_SECONDS(3));
    expect_notes(&it, 1, 2);
    expect_err(first.err, TR_OK);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    stage_close(&it);
}

static tr_err act_two_naps(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    out[0] = tr_sleep(ctx, TR_SECONDS(100));
    out[1] = tr_sleep(ctx, TR_SECONDS(100));
    out[2] = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return TR_OK;
}

static void test_rule_03_X49_waits_end_at_the_deadline(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .stop_timeout = TR_SECONDS(7));
    expect_ok(stage_ask(&it, ref, act_meet, &it.two));
    stage_tell(&it, ref, act_two_naps, errs);
    stage_settle(&it);
    tr_stop(it.sys, ref);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(errs[0], TR_EUSER);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(errs[0], TR_ESTOPPED);
    expect_err(errs[1], TR_ESTOPPED);
    expect_err(errs[2], TR_ESTOPPED);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* ---- rule 4 ---- */

static void test_rule_04_X49_kill_ends_every_wait_at_once(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_two_naps, errs);
    stage_settle(&it);
    tr_probe_watch(it.probe, it.one);
    tr_kill(it.sys, it.one);
    stage_settle(&it);
    expect_err(errs[0], TR_EKILLED);
    expect_err(errs[1], TR_EKILLED);
    expect_err(errs[2], TR_EKILLED);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    stage_close(&it);
}

static tr_err act_ask_nap(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_sleep, (uintptr_t)TR_SECONDS(50), 0);
    return TR_OK;
}

static void test_rule_04_the_asker_of_a_killed_turn_hears_it(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_ask_nap, &err);
    stage_settle(&it);
    tr_kill(it.sys, it.two);
    stage_settle(&it);
    expect_err(err, TR_EKILLED);
    stage_close(&it);
}

/* ---- rule 5 ---- */

static tr_err act_fail_beside(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    return tr_fail(ctx, TR_EUSER, "beside");
}

static void test_rule_05_X49_restart_ends_waits_at_once(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_two_naps, errs);
    stage_settle(&it);
    tell_beside(&it, it.one, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(1));
    expect_err(errs[0], TR_ERESTARTED);
    expect_err(errs[1], TR_ERESTARTED);
    expect_err(errs[2], TR_ERESTARTED);
    assert_int_equal(atomic_load(&it.restarts), 1);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_RUNNING);
    stage_close(&it);
}

static tr_err act_unwind(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    *out = tr_sleep(ctx, TR_SECONDS(100));
    return *out;
}

static void test_rule_05_an_interrupted_message_is_a_dead_letter(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_unwind, &err);
    stage_settle(&it);
    tell_beside(&it, it.one, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(1));
    expect_err(err, TR_ERESTARTED);
    assert_int_equal(stage_dead(&it, TR_DEAD_RESTARTED), 1);
    stage_close(&it);
}

/* ---- rule 6 ---- */

static tr_err act_short_ask(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_sleep, (uintptr_t)TR_SECONDS(3),
                   TR_SECONDS(1));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_rule_06_X42_a_late_reply_is_a_dead_letter(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_short_ask, &err);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(err, TR_ETIMEDOUT);
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 0);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

static void test_rule_06_an_expired_request_is_skipped(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(5));
    stage_settle(&it);
    stage_tell(&it, it.one, act_short_ask, &err);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(err, TR_ETIMEDOUT);
    assert_int_equal(stage_dead(&it, TR_DEAD_EXPIRED), 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    stage_close(&it);
}

static void test_rule_06_a_request_of_an_ended_asker_is_cancelled(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(5));
    stage_settle(&it);
    stage_tell(&it, it.one, act_ask_nap, &err);
    stage_settle(&it);
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(err, TR_EKILLED);
    assert_int_equal(stage_dead(&it, TR_DEAD_CANCELLED), 1);
    // It was not run: the mailbox is free again at once.
    expect_ok(stage_ask_for(&it, it.two, act_nothing, NULL, TR_SECONDS(1)));
    stage_close(&it);
}

/* ---- rule 7 ---- */

static void test_rule_07_shutdown_waits_for_parked_turns(void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 1, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_settle(&it);
    stage_close(&it);
    expect_err(first.err, TR_OK);
    expect_notes(&it, 1, 2);
}

static void test_rule_07_shutdown_ends_waits_in_time(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .stop_timeout = TR_SECONDS(1000));
    expect_ok(stage_ask(&it, ref, act_meet, &it.two));
    stage_tell(&it, ref, act_two_naps, errs);
    stage_settle(&it);
    tr_probe_free(it.probe);
    expect_err(tr_system_close(it.sys, TR_SECONDS(20)), TR_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        expect_err(errs[i], TR_ECLOSED);
    }
    tr_sim_free(it.sim);
}

/* ---- rule 8 ---- */

static tr_err act_stop_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    nap *it = arg;
    (void)m;
    assert_false(tr_stopping(ctx));
    tr_stop(ctx, tr_self(ctx));
    assert_true(tr_stopping(ctx));
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return TR_OK;
}

static void test_rule_08_self_stop_then_await(void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 0, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_stop_self, &first);
    stage_tell(&it, it.one, act_note, (void *)3);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(first.err, TR_OK);
    expect_notes(&it, 2);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);
    stage_close(&it);
}

/* ---- rule 9 ---- */

static tr_directive after_a_look(const puppet *self, const tr_failure *f)
{
    (void)f;
    stage_note(self->stage, 5);
    return TR_RESUME;
}

TR_ACTOR(looking_parent, puppet, TR_ON(Act, parent_act),
         TR_HOOK(decide, after_a_look));

static void test_rule_09_replies_are_held_until_the_decision(void **state)
{
    // The decision itself takes no time; what can be seen is the order: a
    // turn whose wait ends while its actor is FAILED runs after the decider.
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_EUSER};
    tr_ref child;
    (void)state;
    stage_open(&it);
    tr_ref parent =
        tr_spawn(it.sys, looking_parent, TR_INIT(looking_parent, .stage = &it));
    expect_ok(stage_ask(&it, parent, act_spawn, &child));
    stage_tell(&it, child, act_nap, &first);
    stage_settle(&it);
    tell_beside(&it, child, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(first.err, TR_OK);
    expect_notes(&it, 1, 5, 2);
    stage_close(&it);
}

/* ---- rule 10, OR1 to OR5 ---- */

typedef struct runner {
    stage *stage;
    tr_nanos span;
    tr_err end;       // what on_run returns after its loop
    uint32_t rounds;  // 0: until it is stopped
} runner;

static tr_err runner_run(tr_ctx *ctx, runner *self)
{
    stage_note(self->stage, 100);
    for (uint32_t i = 0; self->rounds == 0 || i < self->rounds; i++) {
        tr_err err = tr_sleep(ctx, self->span);
        if (err != TR_OK) {
            stage_note(self->stage, 200 + (int64_t)err);
            return err;
        }
        stage_note(self->stage, 101);
    }
    return self->end;
}

static tr_err runner_act(tr_ctx *ctx, runner *self, const Act *m)
{
    nap *it = (nap *)(uintptr_t)m->arg;
    stage_note(self->stage, it->before);
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return TR_OK;
}

static tr_err runner_note(tr_ctx *ctx, runner *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return m->value < 0 ? tr_fail(ctx, TR_EUSER, "told to") : TR_OK;
}

TR_ACTOR(runners, runner, TR_ON(Act, runner_act), TR_ON(Note, runner_note),
         TR_HOOK(on_run, runner_run));

static tr_ref spawn_runner(stage *it, tr_nanos span, uint32_t rounds,
                           tr_err end)
{
    tr_ref ref = tr_spawn(it->sys, runners,
                          TR_INIT(runners, .stage = it, .span = span,
                                  .rounds = rounds, .end = end),
                          .joinable = true);
    stage_settle(it);
    return ref;
}

static void test_rule_10_OR1_OR2_X36_mail_runs_while_it_waits(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(1), 0, TR_OK);  // OR1
    tr_tell(it.sys, ref, Note, .value = 1);                   // OR2
    stage_settle(&it);
    expect_notes(&it, 100, 1);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 100, 1, 101);
    stage_close(&it);
}

static void test_rule_10_OR2_it_waits_for_a_parked_writer(void **state)
{
    stage it;
    nap first = {TR_SECONDS(3), 1, 2, TR_OK};
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(2), 0, TR_OK);
    stage_tell(&it, ref, NULL, &first);
    stage_settle(&it);
    stage_pass(&it, TR_MS(2500));
    expect_notes(&it, 100, 1);  // on_run is due but a writer is parked
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 100, 1, 2, 101);
    stage_close(&it);
}

static void test_rule_10_OR3_OR5_stop_ends_the_waits_of_on_run(void **state)
{
    stage it;
    tr_result result;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(9), 0, TR_OK);
    tr_stop(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
    assert_int_equal(result.reason, TR_STOPPED);  // OR5
    expect_notes(&it, 100, 200 + TR_ESTOPPED);    // OR3
    stage_close(&it);
}

static void test_rule_10_X36_OR5_the_actor_serves_after_its_end(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(1), 1, TR_OK);
    stage_pass(&it, TR_SECONDS(5));
    tr_tell(it.sys, ref, Note, .value = 1);
    stage_settle(&it);
    expect_notes(&it, 100, 101, 1);  // X36
    // A restart starts it anew.
    tr_tell(it.sys, ref, Note, .value = -5);
    stage_pass(&it, TR_MS(100));
    expect_notes(&it, 100, 101, 1, -5, 100);
    stage_close(&it);
}

static void test_rule_10_OR4_its_error_is_a_failure_in_run(void **state)
{
    stage it;
    tr_result result;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, runners,
                          TR_INIT(runners, .stage = &it, .span = TR_SECONDS(1),
                                  .rounds = 1, .end = TR_EUSER),
                          .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
    assert_int_equal(result.reason, TR_FAILED);  // OR4
    assert_int_equal(result.phase, TR_IN_RUN);
    expect_err(result.err, TR_EUSER);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_01_X50_interleave_beside_a_parked_writer),
        cmocka_unit_test(test_rule_01_X50_reads_run_beside_readers_only),
        cmocka_unit_test(test_rule_01_bookkeeping_goes_on_while_parked),
        cmocka_unit_test(test_rule_01_X50_of_two_parked_turns_each_goes_on),
        cmocka_unit_test(test_rule_04_stacks_of_many_waits_are_given_back),
        cmocka_unit_test(test_rule_02_terminated_waits_for_the_parked_turn),
        cmocka_unit_test(test_rule_02_a_parked_parent_decides_at_once),
        cmocka_unit_test(test_rule_03_X49_stop_lets_a_parked_turn_finish),
        cmocka_unit_test(test_rule_03_X49_waits_end_at_the_deadline),
        cmocka_unit_test(test_rule_04_X49_kill_ends_every_wait_at_once),
        cmocka_unit_test(test_rule_04_the_asker_of_a_killed_turn_hears_it),
        cmocka_unit_test(test_rule_05_X49_restart_ends_waits_at_once),
        cmocka_unit_test(test_rule_05_an_interrupted_message_is_a_dead_letter),
        cmocka_unit_test(test_rule_06_X42_a_late_reply_is_a_dead_letter),
        cmocka_unit_test(test_rule_06_an_expired_request_is_skipped),
        cmocka_unit_test(test_rule_06_a_request_of_an_ended_asker_is_cancelled),
        cmocka_unit_test(test_rule_07_shutdown_waits_for_parked_turns),
        cmocka_unit_test(test_rule_07_shutdown_ends_waits_in_time),
        cmocka_unit_test(test_rule_08_self_stop_then_await),
        cmocka_unit_test(test_rule_09_replies_are_held_until_the_decision),
        cmocka_unit_test(test_rule_10_OR1_OR2_X36_mail_runs_while_it_waits),
        cmocka_unit_test(test_rule_10_OR2_it_waits_for_a_parked_writer),
        cmocka_unit_test(test_rule_10_OR3_OR5_stop_ends_the_waits_of_on_run),
        cmocka_unit_test(test_rule_10_X36_OR5_the_actor_serves_after_its_end),
        cmocka_unit_test(test_rule_10_OR4_its_error_is_a_failure_in_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
