/*
 * io_test.c - descriptors, blocking calls, and systems driven by tr_poll
 * (rule 34), in the real world.
 *
 * Nothing is measured: each test waits for what must happen, with a limit far
 * beyond what it takes.
 */
#include "support/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- tr_wait_fd ---- */

typedef struct fd_plan {
    int fd;
    uint32_t events;
    tr_nanos timeout;
    tr_err err;
    uint32_t ready;
    char text[16];
} fd_plan;

static tr_err act_wait(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    fd_plan *it = arg;
    (void)self;
    it->err = tr_wait_fd(ctx, it->fd, it->events, it->timeout, &it->ready);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_read_text(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    fd_plan *it = arg;
    (void)self;
    TR_TRY(tr_wait_fd(ctx, it->fd, TR_FD_READ, TR_FOREVER, &it->ready));
    ssize_t got = read(it->fd, it->text, sizeof(it->text) - 1);
    it->text[got > 0 ? got : 0] = '\0';
    return tr_reply(ctx, m, .value = 1);
}

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
    // Another actor is served meanwhile.
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    assert_int_equal(write(ends[1], "hello", 5), 5);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_string_equal(plan.text, "hello");
    assert_true(plan.ready & TR_FD_READ);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_socket_tells_both_ways_and_its_end(void **state)
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

static void test_wait_fd_times_out_and_refuses(void **state)
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
    plan.events = TR_FD_READ;  // no such descriptor any more
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
    do {  // the other one may have been faster, but not for long
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
    // It has said that it will wait; now or soon it does.
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
    // The first is not disturbed, and when it has its event others may wait.
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
    // The descriptor is free again for somebody else.
    plan.err = TR_EUSER;
    stage_tell(&it, it.two, act_wait, &plan);
    assert_int_equal(write(ends[1], "x", 1), 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    expect_ok(plan.err);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

/* Readiness, time-out and kill race; nobody may touch a dead stack. */
static void test_descriptors_race_with_everything(void **state)
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

typedef struct job_plan {
    sem_t begun, go;
    tr_err result, err;
    _Atomic(int) ran;
} job_plan;

static void job_plan_init(job_plan *it, tr_err result)
{
    memset(it, 0, sizeof(*it));
    assert_int_equal(sem_init(&it->begun, 0, 0), 0);
    assert_int_equal(sem_init(&it->go, 0, 0), 0);
    it->result = result;
}

static void take(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR) {
    }
}

static tr_err block(void *arg)
{
    job_plan *it = arg;
    sem_post(&it->begun);
    take(&it->go);
    atomic_fetch_add(&it->ran, 1);
    return it->result;
}

static tr_err act_block(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    job_plan *it = arg;
    (void)self;
    it->err = tr_blocking(ctx, block, it);
    return tr_reply(ctx, m, .value = 1);
}

static void test_blocking_gives_the_result(void **state)
{
    stage it;
    job_plan plan;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    job_plan_init(&plan, TR_EUSER);
    stage_open_real(&it, &options);
    stage_tell(&it, it.one, act_block, &plan);
    take(&plan.begun);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));  // DP8
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

/* The second job ends the first; both must run, also on a warm pool. */
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
    sem_post(&plan.go);  // it runs to its end all the same
    stage_close(&it);
    assert_int_equal(atomic_load(&plan.ran), 1);
}

/* ---- rule 34: tr_poll ---- */

static const tr_system_options polled = {.size = sizeof(polled), .poll = true};

static bool readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int got;
    do {
        got = poll(&one, 1, timeout_ms);
    } while (got < 0 && errno == EINTR);
    return got == 1;
}

static void drain(stage *it, int fd)
{
    while (readable(fd, 0)) {
        expect_ok(tr_poll(it->sys, 0));
    }
}

static void test_rule_34_an_ask_on_the_polling_thread_polls(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, &polled);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    // Parked handlers go on in a later poll; their timers are followed.
    expect_ok(stage_ask_for(&it, it.one, act_sleep, (void *)TR_MS(5),
                            TR_SECONDS(60)));
    stage_close(&it);
}

static void test_rule_34_the_descriptor_tells_of_a_timer(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, &polled);
    int fd = tr_poll_fd(it.sys);
    assert_true(fd >= 0);
    drain(&it, fd);
    stage_tell(&it, it.one, act_sleep, (void *)TR_MS(20));
    tr_tell(it.sys, it.one, Note, .value = 7);
    drain(&it, fd);
    while (atomic_load(&it.note_count) == 0) {
        assert_true(readable(fd, 60000));
        expect_ok(tr_poll(it.sys, 0));
    }
    expect_notes(&it, 7);
    stage_close(&it);
}

static void *foreign_tell(void *arg)
{
    stage *it = arg;
    tr_tell(it->sys, it->one, Note, .value = 8);
    return NULL;
}

static void test_rule_34_the_descriptor_tells_of_foreign_mail(void **state)
{
    stage it;
    pthread_t thread;
    (void)state;
    stage_open_real(&it, &polled);
    int fd = tr_poll_fd(it.sys);
    drain(&it, fd);
    assert_int_equal(pthread_create(&thread, NULL, foreign_tell, &it), 0);
    while (atomic_load(&it.note_count) == 0) {
        assert_true(readable(fd, 60000));
        expect_ok(tr_poll(it.sys, 0));
    }
    pthread_join(thread, NULL);
    expect_notes(&it, 8);
    stage_close(&it);
}

static tr_err act_stop_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static void *foreign_stop(void *arg)
{
    stage *it = arg;
    act_tell(it->sys, it->one, act_stop_self, NULL);
    return NULL;
}

static void *foreign_ask(void *arg)
{
    stage *it = arg;
    Acted done;
    tr_err err = tr_ask(it->sys, it->two, &done, TR_SECONDS(60), Act,
                        .fn = (uint64_t)(uintptr_t)act_nothing);
    stage_note(it, err == TR_OK ? 9 : -1);
    return NULL;
}

/* The driver waits, another thread makes what it waits for happen. */
static void test_rule_34_a_waiting_driver_hears_other_threads(void **state)
{
    stage it;
    pthread_t thread;
    (void)state;
    stage_open_real(&it, &polled);
    tr_probe_watch(it.probe, it.one);
    assert_int_equal(pthread_create(&thread, NULL, foreign_stop, &it), 0);
    (void)tr_expect(it.probe, TR_SECONDS(60), tr_terminated);
    pthread_join(thread, NULL);
    // And the other way: a foreign thread asks, this one polls.
    assert_int_equal(pthread_create(&thread, NULL, foreign_ask, &it), 0);
    int fd = tr_poll_fd(it.sys);
    while (atomic_load(&it.note_count) == 0) {
        (void)readable(fd, 10);
        expect_ok(tr_poll(it.sys, 0));
    }
    pthread_join(thread, NULL);
    expect_notes(&it, 9);
    stage_close(&it);
}

static void test_rule_34_descriptors_and_jobs_under_poll(void **state)
{
    stage it;
    int ends[2];
    job_plan job;
    fd_plan plan = {0};
    (void)state;
    assert_int_equal(pipe(ends), 0);
    job_plan_init(&job, TR_EUSER);
    stage_open_real(&it, &polled);
    plan.fd = ends[0];
    stage_tell(&it, it.one, act_read_text, &plan);
    stage_tell(&it, it.two, act_block, &job);
    expect_ok(tr_poll(it.sys, 0));
    assert_int_equal(write(ends[1], "poll", 4), 4);
    sem_post(&job.go);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    assert_string_equal(plan.text, "poll");
    expect_err(job.err, TR_EUSER);
    stage_close(&it);
    close(ends[0]);
    close(ends[1]);
}

static void test_rule_34_only_polled_systems_poll(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    expect_err(tr_poll(it.sys, 0), TR_EINVAL);
    assert_int_equal(tr_poll_fd(it.sys), -1);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipe_becomes_readable),
        cmocka_unit_test(test_a_socket_tells_both_ways_and_its_end),
        cmocka_unit_test(test_wait_fd_times_out_and_refuses),
        cmocka_unit_test(test_a_descriptor_has_one_waiter),
        cmocka_unit_test(test_kill_ends_a_wait_for_a_descriptor),
        cmocka_unit_test(test_descriptors_race_with_everything),
        cmocka_unit_test(test_blocking_gives_the_result),
        cmocka_unit_test(test_blocking_jobs_do_not_wait_for_each_other),
        cmocka_unit_test(test_kill_while_a_call_blocks),
        cmocka_unit_test(test_rule_34_an_ask_on_the_polling_thread_polls),
        cmocka_unit_test(test_rule_34_the_descriptor_tells_of_a_timer),
        cmocka_unit_test(test_rule_34_the_descriptor_tells_of_foreign_mail),
        cmocka_unit_test(test_rule_34_a_waiting_driver_hears_other_threads),
        cmocka_unit_test(test_rule_34_descriptors_and_jobs_under_poll),
        cmocka_unit_test(test_rule_34_only_polled_systems_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
