/*
 * shutdown_late_test.c - the end of a system in which something takes its
 * time: the program's tr_system_run, a virtual actor, a handler that never
 * returns. shutdown_test.c has the order of the end.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/core.h"
#include "support/dying.h"

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

/* Runs in a child: what a handler may still touch is never freed. */
static void in_a_child(bool (*test)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool good = test();
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

/* Opens a system with an actor whose handler never returns. */
static void open_stuck(stage *it, const tr_system_options *options)
{
    static _Atomic(bool) in;
    pthread_mutex_lock(&never);
    stage_open_real(it, options);
    tr_ref ref = stage_spawn(it, .stop_timeout = TR_MS(20));
    stage_tell(it, ref, act_never_returns, &in);
    while (!atomic_load(&in)) {
        tri_lock_yield();
    }
    tr_probe_free(it->probe);
}

static bool leave_a_zombie_behind(void)
{
    static stage it;
    tr_close_report report = {.size = sizeof(report)};
    open_stuck(&it, TR_OPTIONS(tr_system_options, .workers = 2));
    tr_err err = tr_system_close_report(it.sys, TR_SECONDS(8), &report);
    return err == TR_ETIMEDOUT && report.zombies == 1 && report.forced == 1;
}

static void test_X15_SH13_a_system_with_a_zombie_is_left_behind(void **state)
{
    (void)state;
    in_a_child(leave_a_zombie_behind);
}

/* ---- a close that waits for nothing ---- */

/* The real world; notes how long the closing thread wants to wait at the end. */
static struct {
    tri_world world;
    tri_world_ops ops;
    tr_nanos start;  // of the close: its first look at the clock
    tr_nanos until;  // the latest end of a wait for the last actors
} watched;

/* The word that counts the last actors, in the thread that closes; else NULL. */
static _Thread_local const _Atomic(uint32_t) *last_word;

static tr_nanos watched_mono(tri_world *world)
{
    tr_nanos now = tri_world_posix()->ops->mono(world);
    if (last_word != NULL && watched.start == 0) {
        watched.start = now;
    }
    return now;
}

static bool watched_park(tri_world *world, _Atomic(uint32_t) *word,
                         uint32_t expected, tr_nanos timeout)
{
    const tri_world_ops *real = tri_world_posix()->ops;
    if (word == last_word) {
        tr_nanos until = real->mono(world) + timeout;
        watched.until = until > watched.until ? until : watched.until;
    }
    return real->park(world, word, expected, timeout);
}

static bool close_in_time(void)
{
    static stage it;
    const tr_nanos span = TR_MS(20);
    watched.ops = *tri_world_posix()->ops;
    watched.ops.mono = watched_mono;
    watched.ops.park = watched_park;
    watched.world = (tri_world){.magic = TRI_WORLD_MAGIC, .ops = &watched.ops};
    open_stuck(&it, TR_OPTIONS(tr_system_options, .workers = 2,
                               .world = &watched.world));
    last_word = &it.sys->live_word;
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(it.sys, span, &report);
    return err == TR_ETIMEDOUT && report.zombies == 1 && watched.start != 0 &&
           watched.until <= watched.start + span;
}

/*
 * The grace after the deadline is for actors that are about to end; a handler
 * that never returns gets none.
 */
static void test_SH12_a_close_does_not_wait_for_zombies(void **state)
{
    (void)state;
    in_a_child(close_in_time);
}

/* ---- virtual actors ---- */

typedef struct Slow {
    int64_t value;
} Slow;

static tr_err slow_act(tr_ctx *ctx, Slow *self, const Act *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_MINUTES(600));
}

TR_ACTOR(slow, Slow, TR_ON(Act, slow_act));

/* SH: a virtual actor that takes its time is not given all of it. */
static void test_SH_virtual_actors_are_ended_in_half_of_the_time(void **state)
{
    stage it;
    tr_close_report report = {.size = sizeof(report)};
    (void)state;
    stage_open(&it);
    expect_ok(tr_host(
        it.sys, slow,
        .spawn = TR_OPTIONS(tr_spawn_options, .stop_timeout = TR_MINUTES(60))));
    tr_tell(it.sys, tr_virtual(it.sys, "slow", "a"), Act, .fn = 0);
    stage_pass(&it, TR_SECONDS(1));
    tr_probe_free(it.probe);
    tr_nanos start = tr_sim_now(it.sim);
    tr_err err = tr_system_close_report(it.sys, TR_SECONDS(20), &report);
    assert_true(err == TR_OK || err == TR_ETIMEDOUT);
    assert_int_equal(report.zombies, 0);
    assert_true(tr_sim_now(it.sim) - start <= TR_SECONDS(30));
    tr_sim_free(it.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SH10_a_system_runs_on_virtual_time),
        cmocka_unit_test(test_X15_SH13_a_system_with_a_zombie_is_left_behind),
        cmocka_unit_test(test_SH12_a_close_does_not_wait_for_zombies),
        cmocka_unit_test(test_SH_virtual_actors_are_ended_in_half_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
