/*
 * options_test.c - options one at a time and next to each other, subscriptions
 * of two kinds, a system that is left behind, one that is run on virtual time.
 */
#include "support/stage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/runtime.h"
#include "support/dying.h"

/* Each alone, and all but one with the one before: nothing is shared wrongly. */
static void test_SP4_each_option_alone(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    const tr_spawn_options all[] = {
        {.size = sizeof(all[0]), .inherit_supervision = true},
        {.size = sizeof(all[0]), .restart = TR_TEMPORARY},
        {.size = sizeof(all[0]), .soft_limit = 7},
        {.size = sizeof(all[0]), .mailbox_limit = 7},
        {.size = sizeof(all[0]),
         .mailbox_limit = 7,
         .overflow = TR_OVERFLOW_DROP_OLD},
        {.size = sizeof(all[0]),
         .mailbox_limit = 7,
         .overflow = TR_OVERFLOW_DROP_OLD,
         .heap_limit = 100000},
        {.size = sizeof(all[0]), .heap_limit = 100000},
        {.size = sizeof(all[0]), .stop_timeout = TR_SECONDS(2)},
        {.size = sizeof(all[0]), .drain = TR_DRAIN_DROP},
        {.size = sizeof(all[0]), .joinable = true},
        {.size = sizeof(all[0]), .auto_stop = true},
    };
    enum { COUNT = sizeof(all) / sizeof(all[0]) };
    for (int round = 0; round < 2; round++) {
        tr_ref refs[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            refs[i] = stage_puppet(&it, &all[i]);
            expect_ok(tr_ref_err(refs[i]));
        }
        for (size_t i = 0; i < COUNT; i++) {
            expect_ok(stage_ask(&it, refs[i], act_nothing, NULL));
            const tri_props *props = tri_ref_cell(refs[i])->props;
            if (props != NULL) {
                assert_int_equal(props->mailbox_limit, all[i].mailbox_limit);
                assert_int_equal(props->overflow, all[i].overflow);
                assert_int_equal(props->heap_limit, all[i].heap_limit);
                assert_int_equal(props->drain, all[i].drain);
                assert_int_equal(props->restart, all[i].restart);
                assert_int_equal(props->joinable, all[i].joinable);
            }
        }
    }
    stage_close(&it);
}

/* ---- events ---- */

static tr_err act_two_kinds(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    tr_subscribe(ctx, Note);
    tr_subscribe(ctx, Stranger);
    tr_unsubscribe(ctx, Stranger);
    tr_unsubscribe(ctx, tr_overload);  // it never did
    return tr_reply(ctx, m, .value = 1);
}

static void test_EV2_one_kind_of_two_is_left(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);  // its own callbacks listen to dead letters
    tr_probe_subscribe(it.probe, tr_dead_letter);
    expect_ok(stage_ask(&it, it.one, act_two_kinds, NULL));
    tr_publish(it.sys, Note, .value = 5);
    tr_publish(it.sys, Stranger, .value = 6);
    stage_settle(&it);
    expect_notes(&it, 5);
    // A callback and a subscriber of the same: both, once.
    tr_tell(it.sys, TR_NOBODY, Note, .value = 7);
    assert_string_equal(
        tr_expect(it.probe, TR_SECONDS(1), tr_dead_letter)->type, "Note");
    tr_expect_nothing(it.probe, TR_SECONDS(1));
    uint32_t dead = 0;
    for (int i = 0; i < STAGE_REASONS; i++) {
        dead += stage_dead(&it, (tr_dead_reason)i);
    }
    assert_int_equal(dead, 1);
    stage_close(&it);
}

/* ---- routers ---- */

static void test_PA2_a_router_of_as_many_as_there_are_workers(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 3};
    tr_actor_info all[32];
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref r = tr_router(
        it.sys, puppets, .name = "r",
        .worker = TR_OPTIONS(tr_spawn_options, TR_INIT(puppets, .stage = &it)));
    expect_ok(tr_ref_err(r));
    stage_settle(&it);
    size_t before = tr_actors(it.sys, all, 32);
    tr_tell(it.sys, r, tr_resize, .count = 0);  // at least one: refused
    stage_settle(&it);
    assert_int_equal(tr_actors(it.sys, all, 32), before);
    tr_tell(it.sys, r, tr_resize, .count = 5);
    stage_settle(&it);
    assert_int_equal(tr_actors(it.sys, all, 32), before + 2);
    tr_tell(it.sys, r, tr_resize, .count = 1);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(tr_actors(it.sys, all, 32), before - 2);
    stage_close(&it);
}

/* ---- running and leaving ---- */

static tr_err act_terminate(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(5)));
    tr_system_terminate(self->stage->sys);
    return TR_OK;
}

static void test_SH10_a_system_runs_on_virtual_time(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_terminate, NULL);
    tr_nanos start = tr_now(it.sys);
    expect_ok(tr_system_run(it.sys));
    assert_true(tr_now(it.sys) - start >= TR_SECONDS(5));
    stage_close(&it);
}

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static tr_err act_never_returns(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)ctx;
    (void)self;
    (void)m;
    atomic_store((_Atomic(bool) *)arg, true);
    pthread_mutex_lock(&never);  // the test has it and keeps it
    return TR_OK;
}

/* In a child: what a handler may still touch is never freed. */
static void test_X15_SH13_a_system_with_a_zombie_is_left_behind(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static stage it;
        static _Atomic(bool) in;
        tr_close_report report = {.size = sizeof(report)};
        tr_system_options options = {.size = sizeof(options), .workers = 2};
        pthread_mutex_lock(&never);
        stage_open_real(&it, &options);
        tr_ref ref = stage_spawn(&it, .stop_timeout = TR_MS(20));
        stage_tell(&it, ref, act_never_returns, &in);
        while (!atomic_load(&in)) {
            tri_lock_yield();
        }
        tr_probe_free(it.probe);
        tr_err err = tr_system_close_report(it.sys, TR_SECONDS(8), &report);
        bool good =
            err == TR_ETIMEDOUT && report.zombies == 1 && report.forced == 1;
        if (__gcov_dump != NULL) {
            __gcov_dump();
        }
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SP4_each_option_alone),
        cmocka_unit_test(test_EV2_one_kind_of_two_is_left),
        cmocka_unit_test(test_PA2_a_router_of_as_many_as_there_are_workers),
        cmocka_unit_test(test_SH10_a_system_runs_on_virtual_time),
        cmocka_unit_test(test_X15_SH13_a_system_with_a_zombie_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
