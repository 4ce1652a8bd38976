/*
 * io_test.c - tr_wait_fd and tr_blocking in the real world.
 *
 * No durations are measured: each test waits for what must happen, with a
 * limit far beyond what it takes.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/core/io_plans.h"

/* ---- tr_wait_fd ---- */

static void test_a_pipe_becomes_readable(void **state)
{
    stage it;
    int ends[2];
    fd_plan plan = {0};
    (void)state;
    assert_int_equal(pipe(ends), 0);
    stage_open_real(&it, NULL);
    plan.fd = ends[0];
    stage_tell(&it, it.one, act_read_text, &plan);
    // Another actor runs meanwhile.
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    assert_int_equal(write(ends[1], "hello", 5), 5);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_string_equal(plan.text, "hello");
    assert_true(plan.ready & TR_FD_READ);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_socket_reports_readable_writable_and_closed(void **state)
{
    stage it;
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    stage_open_real(&it, NULL);
    fd_plan plan = {.fd = ends[0],
                    .events = TR_FD_READ | TR_FD_WRITE,
                    .timeout = TR_FOREVER};
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    expect_ok(plan.err);
    assert_int_equal(plan.ready & (TR_FD_READ | TR_FD_WRITE), TR_FD_WRITE);
    assert_int_equal(write(ends[1], "x", 1), 1);
    plan.events = TR_FD_READ;
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    assert_true(plan.ready & TR_FD_READ);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[1]);
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    expect_ok(plan.err);
    assert_true(plan.ready & (TR_FD_READ | TR_FD_ERROR));
    stage_close(&it);
    close(ends[0]);
}

static void test_wait_fd_times_out_and_refuses_bad_arguments(void **state)
{
    stage it;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    stage_open_real(&it, NULL);
    fd_plan plan = {.fd = ends[0], .events = TR_FD_READ, .timeout = TR_MS(1)};
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    expect_err(plan.err, TR_ETIMEDOUT);
    assert_int_equal(plan.ready, 0);
    plan.fd = -1;
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    expect_err(plan.err, TR_EINVAL);
    plan.fd = ends[0];
    plan.events = 0;
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    expect_err(plan.err, TR_EINVAL);
    close(ends[0]);
    plan.events = TR_FD_READ;  // the descriptor is closed
    plan.timeout = TR_FOREVER;
    expect_ok(stage_ask(&it, it.one, act_wait, &plan));
    assert_true(plan.err != TR_OK && plan.err != TR_ETIMEDOUT);
    close(ends[1]);
    stage_close(&it);
}

static tr_err act_note_and_wait(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    fd_plan *it = arg;
    tr_tell(ctx, self->peer, Note, .value = 1);
    do {  // the other actor may hold the descriptor for a moment
        it->err = tr_wait_fd(ctx, it->fd, it->events, it->timeout, &it->ready);
    } while (it->err == TR_EEXIST && tr_sleep(ctx, TR_MS(1)) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_wait_and_tell_why(tr_ctx *ctx, puppet *self, const Act *m,
                                    void *arg)
{
    fd_plan *it = arg;
    (void)self;
    it->err = tr_wait_fd(ctx, it->fd, it->events, it->timeout, &it->ready);
    return tr_reply(ctx, m, .value = 1, .text = tr_error_text(ctx));
}

static tr_err act_know_peer(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    self->peer = *(tr_ref *)arg;
    return tr_reply(ctx, m, .value = 1);
}

static void test_a_descriptor_has_one_waiter(void **state)
{
    stage it;
    int ends[2];
    char path[TR_PATH_SIZE];
    Acted done;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    stage_open_real(&it, NULL);
    tr_ref to = tr_probe_ref(it.probe);
    expect_ok(stage_ask(&it, it.one, act_know_peer, &to));
    fd_plan first = {
        .fd = ends[0], .events = TR_FD_READ, .timeout = TR_FOREVER};
    fd_plan second = first;
    second.timeout = TR_MS(1);
    stage_tell(&it, it.one, act_note_and_wait, &first);
    (void)tr_expect(it.probe, TR_SECONDS(60), Note);
    // It has noted that it will wait; now or soon it does.
    do {
        expect_ok(tr_ask(it.sys, it.two, &done, 0, Act,
                         .fn = (uint64_t)(uintptr_t)act_wait_and_tell_why,
                         .arg = (uint64_t)(uintptr_t)&second));
        if (second.err == TR_ETIMEDOUT) {
            tr_drop(Acted, &done);
        }
    } while (second.err == TR_ETIMEDOUT);
    expect_err(second.err, TR_EEXIST);
    assert_non_null(strstr(done.text, "waited for already"));
    assert_non_null(
        strstr(done.text, tr_ref_path(it.sys, it.one, path, sizeof(path))));
    tr_drop(Acted, &done);
    // The first wait goes on, and after its event others may wait.
    assert_int_equal(write(ends[1], "x", 1), 1);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    expect_ok(first.err);
    second.timeout = TR_FOREVER;
    expect_ok(stage_ask(&it, it.two, act_wait, &second));
    expect_ok(second.err);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

static void test_kill_ends_a_wait_for_a_descriptor(void **state)
{
    stage it;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    stage_open_real(&it, NULL);
    fd_plan plan = {.fd = ends[0], .events = TR_FD_READ, .timeout = TR_FOREVER};
    stage_tell(&it, it.one, act_wait, &plan);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    tr_probe_watch(it.probe, it.one);
    tr_kill(it.sys, it.one);
    (void)tr_expect(it.probe, TR_SECONDS(60), tr_terminated);
    assert_true(plan.err == TR_EKILLED || plan.err == TR_OK);
    // Another actor may wait for the descriptor now.
    plan.err = TR_EUSER;
    stage_tell(&it, it.two, act_wait, &plan);
    assert_int_equal(write(ends[1], "x", 1), 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    expect_ok(plan.err);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

/* Nothing may touch the stack of a wait that has ended. */
static void test_readiness_timeout_and_kill_may_race(void **state)
{
    uint64_t rounds = stage_scaled(300);
    (void)state;
    stage it;
    stage_open_real(&it, NULL);
    for (uint64_t i = 0; i < rounds; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        fd_plan plan = {.fd = ends[0],
                        .events = TR_FD_READ,
                        .timeout = TR_MS(1) / 10 * (1 + (tr_nanos)(i % 3))};
        tr_ref ref = stage_spawn(&it, .soft_limit = 0);
        stage_tell(&it, ref, act_wait, &plan);
        assert_int_equal(write(ends[1], "x", 1), 1);
        if (i % 2 == 0) {
            tr_kill(it.sys, ref);
        } else {
            tr_poison(it.sys, ref);
        }
        tr_err err = tr_join(it.sys, ref, 0, NULL, NULL);
        assert_true(err == TR_OK || err == TR_ENOENT);
        close(ends[0]);
        close(ends[1]);
    }
    stage_close(&it);
}

/* ---- tr_blocking ---- */

static void test_blocking_returns_the_result_of_the_call(void **state)
{
    stage it;
    job_plan plan;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    job_plan_init(&plan, TR_EUSER);
    stage_open_real(&it, &options);
    stage_tell(&it, it.one, act_block, &plan);
    take(&plan.begun);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    sem_post(&plan.go);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    expect_err(plan.err, TR_EUSER);
    stage_close(&it);
}

static tr_err unblock(void *arg)
{
    job_plan *it = arg;
    take(&it->begun);
    sem_post(&it->go);
    return TR_OK;
}

static tr_err act_unblock(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    TR_TRY(tr_blocking(ctx, unblock, arg));
    return tr_reply(ctx, m, .value = 1);
}

/* The second job ends the first: both must run, in new and idle threads. */
static void test_blocking_jobs_do_not_wait_for_each_other(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    for (int i = 0; i < 50; i++) {
        job_plan plan;
        job_plan_init(&plan, TR_OK);
        stage_tell(&it, it.one, act_block, &plan);
        stage_tell(&it, it.two, act_unblock, &plan);
        expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
        expect_ok(plan.err);
        expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    }
    stage_close(&it);
}

static void test_kill_while_a_call_blocks(void **state)
{
    stage it;
    job_plan plan;
    (void)state;
    job_plan_init(&plan, TR_OK);
    stage_open_real(&it, NULL);
    stage_tell(&it, it.one, act_block, &plan);
    take(&plan.begun);
    tr_probe_watch(it.probe, it.one);
    tr_kill(it.sys, it.one);
    (void)tr_expect(it.probe, TR_SECONDS(60), tr_terminated);
    expect_err(plan.err, TR_EKILLED);
    assert_int_equal(atomic_load(&plan.ran), 0);
    sem_post(&plan.go);  // the blocking call still runs to its end
    stage_close(&it);
    assert_int_equal(atomic_load(&plan.ran), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipe_becomes_readable),
        cmocka_unit_test(test_a_socket_reports_readable_writable_and_closed),
        cmocka_unit_test(test_wait_fd_times_out_and_refuses_bad_arguments),
        cmocka_unit_test(test_a_descriptor_has_one_waiter),
        cmocka_unit_test(test_kill_ends_a_wait_for_a_descriptor),
        cmocka_unit_test(test_readiness_timeout_and_kill_may_race),
        cmocka_unit_test(test_blocking_returns_the_result_of_the_call),
        cmocka_unit_test(test_blocking_jobs_do_not_wait_for_each_other),
        cmocka_unit_test(test_kill_while_a_call_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
