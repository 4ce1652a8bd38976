/*
 * rules_sending_test.c - the rules about sending, spawning, watching and
 * identity: 23 to 27, 30 to 32, 35.
 */
#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/runtime.h"
#include "support/dying.h"

/* ---- rule 23 ---- */

static tr_err act_tell_five(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    for (int i = 1; i <= 5; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    stage_note(self->stage, 100);
    return TR_OK;
}

static tr_ref spawn_blocking(stage *it, uint32_t limit)
{
    tr_ref ref = stage_spawn(it, .name = "full", .mailbox_limit = limit,
                             .overflow = TR_OVERFLOW_BLOCK);
    stage_settle(it);
    return ref;
}

static void test_rule_23_a_full_mailbox_parks_the_sender(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(5));
    stage_settle(&it);
    stage_tell(&it, it.one, act_tell_five, &full);
    stage_settle(&it);
    expect_notes(&it);
    assert_int_equal(stage_depth(&it, full), 2);
    stage_pass(&it, TR_SECONDS(6));
    assert_int_equal(atomic_load(&it.note_count), 6);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
    stage_close(&it);
}

static void test_rule_23_the_wait_is_capped_by_the_ask_timeout(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options),
                                 .ask_timeout = TR_SECONDS(2)};
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(100));
    stage_settle(&it);
    stage_tell(&it, it.one, act_tell_five, &full);
    stage_pass(&it, TR_SECONDS(7));
    expect_notes(&it, 100);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static tr_err act_fill_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    tr_tell(ctx, tr_self(ctx), Note, .value = 1);
    tr_tell(ctx, tr_self(ctx), Note, .value = 2);
    tr_tell(ctx, tr_self(ctx), Note, .value = 3);
    *out = tr_try_tell(ctx, tr_self(ctx), Note, .value = 4);
    return TR_OK;
}

static void test_rule_23_a_sender_never_waits_for_itself(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    expect_ok(stage_ask(&it, full, act_fill_self, &err));
    stage_settle(&it);
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 1);
    assert_true(err == TR_EFULL || err == TR_EDEADLOCK);
    stage_close(&it);
}

static tr_err act_fill_asker(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, self->peer, Note, .value = i);
    }
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_ask_filler(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    return act_ask(ctx, self->peer, act_fill_asker, arg, 0);
}

static void test_rule_23_nor_for_one_who_waits_for_it(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    expect_ok(stage_ask(&it, full, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.one, act_meet, &full));
    expect_ok(stage_ask(&it, full, act_ask_filler, NULL));
    stage_settle(&it);
    expect_notes(&it, 0, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static void tell_outside(void *arg)
{
    stage *it = arg;
    tr_ref full = tr_lookup(it->sys, "/user/full");
    for (int i = 0; i < 5; i++) {
        tr_tell(it->sys, full, Note, .value = i);
    }
    stage_note(it, 100);
}

static void test_rule_23_an_outside_thread_blocks(void **state)
{
    stage it;
    tr_thread *thread;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(5));
    stage_settle(&it);
    expect_ok(tr_thread_start(it.sys, &thread, tell_outside, &it));
    stage_settle(&it);
    expect_notes(&it);
    stage_pass(&it, TR_SECONDS(6));
    tr_thread_join(it.sys, thread);
    stage_settle(&it);
    assert_int_equal(atomic_load(&it.note_count), 6);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
    stage_close(&it);
}

/* ---- rule 24 ---- */

typedef struct leaver {
    stage *stage;
    tr_ref peer;
    tr_err *out;  // of: ask in post_stop, spawn in post_stop, in pre_stop
} leaver;

static tr_err leaver_pre_stop(tr_ctx *ctx, leaver *self)
{
    puppet first = {.stage = self->stage};
    tr_ref ref =
        tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    self->out[2] = tr_ref_err(ref);
    return TR_OK;
}

static tr_err leaver_post_stop(tr_ctx *ctx, leaver *self, tr_reason reason)
{
    puppet first = {.stage = self->stage};
    (void)reason;
    tr_tell(ctx, self->peer, Note, .value = 1);
    tr_tell(ctx, tr_self(ctx), Note, .value = 2);
    self->out[0] = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    self->out[1] = tr_ref_err(
        tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first)));
    return TR_OK;
}

static tr_err leaver_note(tr_ctx *ctx, leaver *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, -m->value);
    return TR_OK;
}

TR_ACTOR(leavers, leaver, TR_ON(Note, leaver_note),
         TR_HOOK(pre_stop, leaver_pre_stop),
         TR_HOOK(post_stop, leaver_post_stop));

static void test_rule_24_the_last_hook_may_tell_and_ask(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_OK, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref =
        tr_spawn(it.sys, leavers,
                 TR_INIT(leavers, .stage = &it, .peer = it.one, .out = errs));
    expect_ok(tr_started(it.sys, ref, 0));
    tr_stop(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, NULL, NULL));
    expect_notes(&it, 1);
    expect_ok(errs[0]);
    expect_err(errs[1], TR_ESTOPPED);
    expect_ok(errs[2]);
    assert_int_equal(stage_dead(&it, TR_DEAD_STOPPING), 1);
    // The child of pre_stop was stopped with its parent.
    assert_int_equal(atomic_load(&it.starts), atomic_load(&it.stops) + 3);
    stage_close(&it);
}

/* ---- rule 25 ---- */

static tr_err act_spawn_twice(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    puppet first = {.stage = self->stage};
    char path[TR_PATH_SIZE];
    (void)arg;
    tr_ref ref = tr_spawn(ctx, puppets, .name = "kid", .init = &first,
                          .init_size = sizeof(first));
    tr_ref again = tr_spawn(ctx, puppets, .name = "kid", .init = &first,
                            .init_size = sizeof(first));
    TR_ASSERT(ctx, tr_ref_err(again) == TR_EEXIST);
    TR_ASSERT(ctx, strcmp(tr_ref_path(ctx, ref, path, sizeof(path)),
                          "/user/one/kid") == 0);
    TR_ASSERT(ctx, tr_ref_eq(tr_child(ctx, "kid"), ref));
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_25_spawn_takes_the_name_at_once(void **state)
{
    stage it;
    char path[TR_PATH_SIZE];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_spawn_twice, NULL));
    tr_ref ref = stage_spawn(&it, .name = "mine");
    assert_string_equal(tr_ref_path(it.sys, ref, path, sizeof(path)),
                        "/user/mine");
    tr_ref taken = stage_spawn(&it, .name = "mine");
    expect_err(tr_ref_err(taken), TR_EEXIST);
    // Nobody takes mail: a dead letter.
    tr_tell(it.sys, taken, Note, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 1);
    tr_system_terminate(it.sys);
    expect_err(tr_ref_err(stage_spawn(&it, .name = "late")), TR_ECLOSED);
    stage_close(&it);
}

/* ---- rule 26 ---- */

static tr_err act_watch_dead(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)self;
    tr_watch(ctx, *(tr_ref *)arg);
    return TR_OK;
}

static void test_rule_26_watching_nobody_tells_once(void **state)
{
    stage it, far;
    (void)state;
    stage_open(&it);
    stage_open_seed(&far, 2, NULL);
    tr_ref dead = stage_spawn(&it, .name = "short");
    tr_kill(it.sys, dead);
    stage_settle(&it);
    tr_ref refs[] = {TR_NOBODY, dead, far.one};
    for (int i = 0; i < 3; i++) {
        stage_tell(&it, it.one, act_watch_dead, &refs[i]);
        stage_settle(&it);
    }
    expect_notes(&it, 1000 + TR_NO_SUCH_ACTOR, 1000 + TR_NO_SUCH_ACTOR,
                 1000 + TR_NO_SUCH_ACTOR);
    // On behalf of another, by a thread.
    tr_watch_for(it.sys, it.one, it.two);
    stage_settle(&it);
    tr_stop(it.sys, it.two);
    stage_settle(&it);
    assert_int_equal(it.notes[3], 1000 + TR_STOPPED);
    stage_close(&far);
    stage_close(&it);
}

/* ---- rule 27 ---- */

static void test_rule_27_out_of_memory_in_tell(void **state)
{
    stage it;
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    stage_open(&it);
    tr_metrics(it.sys, &before);
    tri_mem_fail_after(&it.sys->mem, 0);
    tr_tell(it.sys, it.one, Note, .value = 1);
    tri_mem_fail_after(&it.sys->mem, 0);
    expect_err(tr_try_tell(it.sys, it.one, Note, .value = 2), TR_ENOMEM);
    tri_mem_fail_after(&it.sys->mem, -1);
    stage_settle(&it);
    expect_notes(&it);
    tr_metrics(it.sys, &after);
    assert_int_equal(after.dead_letters, before.dead_letters + 1);
    stage_close(&it);
}

/* ---- rule 30 ---- */

TR_STATE(Remember, (const char *, text));

static tr_err on_remember(tr_ctx *ctx, Remember *self, const Acted *m)
{
    self->text = m->value == 1 ? m->text : tr_dup(ctx, m->text);
    return TR_OK;
}

TR_ACTOR(remembering, Remember, TR_ON(Acted, on_remember));

static void test_rule_30_a_copy_may_be_stored(void **state)
{
    stage it;
    Remember kept;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, remembering, .joinable = true);
    tr_tell(it.sys, ref, Acted, .value = 2, .text = "copied");
    tr_poison(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, NULL, &kept));
    assert_string_equal(kept.text, "copied");
    tr_drop(Remember, &kept);
    stage_close(&it);
}

static void test_rule_30_a_borrowed_text_in_the_state_is_found(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stage it;
        (void)freopen("/dev/null", "w", stderr);
        dying_child();
        stage_open(&it);
        tr_ref ref = tr_spawn(it.sys, remembering);
        tr_tell(it.sys, ref, Acted, .value = 1, .text = "borrowed");
        stage_settle(&it);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* ---- rules 31 and 32 ---- */

static void test_rule_31_a_foreign_ref_is_refused(void **state)
{
    stage it, far;
    (void)state;
    stage_open(&it);
    stage_open_seed(&far, 77, NULL);
    tr_ref foreign = far.one;
    assert_int_not_equal(it.sys->tag, far.sys->tag);
    tr_tell(it.sys, foreign, Note, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FOREIGN), 1);
    expect_err(tr_try_tell(it.sys, foreign, Note, .value = 1), TR_EFOREIGN);
    expect_err(stage_ask(&it, foreign, act_nothing, NULL), TR_EFOREIGN);
    expect_err(tr_join(it.sys, foreign, 0, NULL, NULL), TR_EFOREIGN);
    tr_stop(it.sys, foreign);
    tr_kill(it.sys, foreign);
    assert_int_equal(tr_state_of(it.sys, foreign), TR_STATE_TERMINATED);
    stage_settle(&far);
    assert_int_equal(tr_state_of(far.sys, foreign), TR_STATE_RUNNING);
    stage_close(&far);
    // Its system is closed: still only compared, never followed.
    expect_err(tr_try_tell(it.sys, foreign, Note, .value = 1), TR_EFOREIGN);
    stage_close(&it);
}

static tr_err act_spawn_until(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *refs = arg;  // the old one, then the young one at its place
    puppet first = {.stage = self->stage};
    (void)m;
    refs[1] = TR_NOBODY;
    for (int i = 0; i < 1000 && refs[1].cell != refs[0].cell; i++) {
        refs[1] =
            tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    }
    return TR_OK;
}

static void test_rule_32_a_reused_cell_takes_no_stale_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref old = stage_spawn(&it, .name = "old");
    stage_settle(&it);
    tr_kill(it.sys, old);
    stage_settle(&it);
    tr_ref refs[2] = {old, TR_NOBODY};
    expect_ok(stage_ask(&it, it.one, act_spawn_until, refs));
    stage_settle(&it);
    tr_ref young = refs[1];
    assert_int_equal(young.cell, old.cell);
    assert_int_not_equal(young.id, old.id);
    tr_tell(it.sys, old, Note, .value = 1);
    tr_tell_urgent(it.sys, old, 3, Note, .value = 2);
    expect_err(tr_try_tell(it.sys, old, Note, .value = 3), TR_EGONE);
    expect_err(stage_ask(&it, old, act_nothing, NULL), TR_EGONE);
    tr_stop(it.sys, old);
    tr_kill(it.sys, old);
    tr_poison(it.sys, old);
    stage_settle(&it);
    expect_notes(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 2);
    assert_int_equal(tr_state_of(it.sys, young), TR_STATE_RUNNING);
    expect_ok(stage_ask(&it, young, act_nothing, NULL));
    stage_close(&it);
}

/* ---- rule 35 ---- */

static void test_rule_35_outside_calls_run_the_world(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_nanos start = tr_now(it.sys);
    expect_ok(stage_ask(&it, it.one, act_sleep, (void *)TR_SECONDS(500)));
    assert_int_equal(tr_now(it.sys) - start, TR_SECONDS(500));
    tr_expect_nothing(it.probe, TR_SECONDS(1000));
    expect_err(tr_join(it.sys, it.two, TR_SECONDS(3000), NULL, NULL),
               TR_ETIMEDOUT);
    assert_true(tr_now(it.sys) - start >= TR_SECONDS(4500));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_23_a_full_mailbox_parks_the_sender),
        cmocka_unit_test(test_rule_23_the_wait_is_capped_by_the_ask_timeout),
        cmocka_unit_test(test_rule_23_a_sender_never_waits_for_itself),
        cmocka_unit_test(test_rule_23_nor_for_one_who_waits_for_it),
        cmocka_unit_test(test_rule_23_an_outside_thread_blocks),
        cmocka_unit_test(test_rule_24_the_last_hook_may_tell_and_ask),
        cmocka_unit_test(test_rule_25_spawn_takes_the_name_at_once),
        cmocka_unit_test(test_rule_26_watching_nobody_tells_once),
        cmocka_unit_test(test_rule_27_out_of_memory_in_tell),
        cmocka_unit_test(test_rule_30_a_copy_may_be_stored),
        cmocka_unit_test(test_rule_30_a_borrowed_text_in_the_state_is_found),
        cmocka_unit_test(test_rule_31_a_foreign_ref_is_refused),
        cmocka_unit_test(test_rule_32_a_reused_cell_takes_no_stale_mail),
        cmocka_unit_test(test_rule_35_outside_calls_run_the_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
