/*
 * poll_test.c - systems that the program drives with tr_poll and tr_poll_fd.
 *
 * No durations are measured: each test waits for what must happen, with a
 * limit far beyond what it takes.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "unit/core/io_plans.h"

static const tr_system_options polled = {.size = sizeof(polled), .poll = true};

static void test_rule_34_an_ask_on_the_polling_thread_polls(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, &polled);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    // A parked handler continues in a later poll, when its timer fires.
    expect_ok(stage_ask_for(&it, it.one, act_sleep, (void *)TR_MS(5),
                            TR_SECONDS(60)));
    stage_close(&it);
}

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

static void test_rule_34_the_poll_descriptor_signals_a_timer(void **state)
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

static void *tell_from_thread(void *arg)
{
    stage *it = arg;
    tr_tell(it->sys, it->one, Note, .value = 8);
    return NULL;
}

static void test_rule_34_the_poll_descriptor_signals_mail_of_other_threads(
    void **state)
{
    stage it;
    pthread_t thread;
    (void)state;
    stage_open_real(&it, &polled);
    int fd = tr_poll_fd(it.sys);
    drain(&it, fd);
    assert_int_equal(pthread_create(&thread, NULL, tell_from_thread, &it), 0);
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

static void *stop_from_thread(void *arg)
{
    stage *it = arg;
    act_tell(it->sys, it->one, act_stop_self, NULL);
    return NULL;
}

static void *ask_from_thread(void *arg)
{
    stage *it = arg;
    Acted done;
    tr_err err = tr_ask(it->sys, it->two, &done, TR_SECONDS(60), Act,
                        .fn = (uint64_t)(uintptr_t)act_nothing);
    stage_note(it, err == TR_OK ? 9 : -1);
    return NULL;
}

/* The polling thread waits for something that another thread causes. */
static void test_rule_34_a_waiting_poller_is_woken_by_other_threads(
    void **state)
{
    stage it;
    pthread_t thread;
    (void)state;
    stage_open_real(&it, &polled);
    tr_probe_watch(it.probe, it.one);
    assert_int_equal(pthread_create(&thread, NULL, stop_from_thread, &it), 0);
    (void)tr_expect(it.probe, TR_SECONDS(60), tr_terminated);
    pthread_join(thread, NULL);
    // The other way round: another thread asks while this one polls.
    assert_int_equal(pthread_create(&thread, NULL, ask_from_thread, &it), 0);
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
        cmocka_unit_test(test_rule_34_an_ask_on_the_polling_thread_polls),
        cmocka_unit_test(test_rule_34_the_poll_descriptor_signals_a_timer),
        cmocka_unit_test(
            test_rule_34_the_poll_descriptor_signals_mail_of_other_threads),
        cmocka_unit_test(
            test_rule_34_a_waiting_poller_is_woken_by_other_threads),
        cmocka_unit_test(test_rule_34_descriptors_and_jobs_under_poll),
        cmocka_unit_test(test_rule_34_only_polled_systems_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
