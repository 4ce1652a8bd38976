/*
 * outside_resources_test.c - calls on sockets, signals, processes and files
 * when memory or descriptors run out: an error, and nothing is left half made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <troupe/troupe.h>
#include <unistd.h>

#include "support/starve.h"

#define ANY  "udp://127.0.0.1:0"
#define LONG TR_SECONDS(60)

enum { STEPS_MAX = 1000 };  // allocations, or descriptors, of one scenario

/* What a scenario has open; closed after it, whatever happened. */
typedef struct stage {
    tr_system *sys;
    const char *path;
    tr_udp *a, *b;
    tr_signals *signals;
    tr_process *process;
    tr_stream *in, *out;
    tr_file *file;
} stage;

static void stage_close(tr_from from, stage *it)
{
    tr_udp_close(from, it->a);
    tr_udp_close(from, it->b);
    tr_signals_close(from, it->signals);
    tr_process_close(from, it->process);
    tr_stream_close(from, it->in);
    tr_stream_close(from, it->out);
    tr_file_close(from, it->file);
    *it = (stage){.sys = it->sys, .path = it->path};
}

static tr_err use_datagrams(tr_from from, stage *it)
{
    char at[TR_ADDRESS_SIZE], text[4];
    size_t got;
    TR_TRY(tr_udp_open(from, &it->a, ANY));
    TR_TRY(tr_udp_open(from, &it->b, ANY));
    (void)tr_udp_address(it->b, at, sizeof(at));
    TR_TRY(tr_udp_send(from, it->a, at, LONG, {"four", 4}));
    TR_TRY(tr_udp_receive(from, it->b, text, 4, LONG, &got, NULL));
    return got == 4 ? TR_OK : TR_EFAILED;
}

static tr_err use_signals(tr_from from, stage *it)
{
    int number;
    TR_TRY(tr_signals_open(from, &it->signals, SIGUSR1, SIGUSR2));
    tr_err err = tr_signals_wait(from, it->signals, -1, &number);
    return err == TR_ETIMEDOUT ? TR_OK : err;
}

static tr_err use_process(tr_from from, stage *it)
{
    static const char *const argv[] = {"cat", NULL};
    tr_process_status status;
    char text[4];
    size_t got;
    TR_TRY(tr_process_start(from, &it->process, argv, .in = &it->in,
                            .out = &it->out));
    TR_TRY(tr_write(from, it->in, LONG, {"four", 4}));
    tr_stream_close(from, it->in);
    it->in = NULL;
    TR_TRY(tr_read_exactly(from, it->out, text, 4, LONG, &got));
    TR_TRY(tr_process_wait(from, it->process, LONG, &status));
    return status.code == 0 && got == 4 ? TR_OK : TR_EFAILED;
}

static tr_err use_files(tr_from from, stage *it)
{
    char text[4];
    size_t got;
    TR_TRY(tr_file_save(from, it->path, "four", 4));
    TR_TRY(tr_file_load(from, it->path, text, 4, &got));
    TR_TRY(tr_file_open(from, &it->file, it->path, TR_FILE_WRITE));
    TR_TRY(tr_file_write(from, it->file, "more", 4, 4));
    TR_TRY(tr_file_read(from, it->file, text, 4, 4, &got));
    return memcmp(text, "more", 4) == 0 ? TR_OK : TR_EFAILED;
}

typedef tr_err (*scenario)(tr_from from, stage *it);

static const struct {
    scenario run;
    bool in_simulation;
} scenarios[] = {
    {use_datagrams, true},
    {use_signals, true},
    {use_process, false},
    {use_files, false},  // a simulated disk without memory ends the process
};

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

/* Runs it without memory for the n-th allocation, for every n. */
static void starve(stage *it, scenario run, bool simulated)
{
    bool failed = true;
    assert_int_equal(run((tr_from){.sys = it->sys}, it),
                     TR_OK);  // starts the threads of the system
    stage_close((tr_from){.sys = it->sys}, it);
    for (int64_t n = 0; failed; n++) {
        assert_in_range(n, 0, STEPS_MAX);
        starve_arm(n);
        tr_err err = run((tr_from){.sys = it->sys}, it);
        failed = starve_end();
        // A simulated socket without memory drops a datagram.
        assert_true(failed ? err == TR_ENOMEM || err == TR_OK ||
                                 (simulated && err == TR_ETIMEDOUT)
                           : err == TR_OK);
        stage_close((tr_from){.sys = it->sys}, it);
    }
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char folder[] = "/tmp/troupe-outside-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    for (int simulated = 0; simulated < 2; simulated++) {
        tr_sim *sim = NULL;
        stage it = {.path = path};
        if (simulated) {
            assert_int_equal(tr_sim_new(&sim, 3), TR_OK);
        }
        assert_int_equal(
            tr_system_open(&it.sys,
                           .world = simulated ? tr_sim_world(sim) : NULL),
            TR_OK);
        for (int i = 0; i < SCENARIOS; i++) {
            if (!simulated || scenarios[i].in_simulation) {
                starve(&it, scenarios[i].run, simulated);
            }
        }
        assert_int_equal(tr_system_close(it.sys, 0), TR_OK);
        tr_sim_free(sim);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);  // no second file is left
}

/* ---- in a handler ---- */

TR_MESSAGE(Result, (int32_t, err), (bool, failed));
TR_REQUEST(Try, Result, (int64_t, n), (int32_t, scenario));

/* Runs a scenario in a turn, on the thread that polls. */
static tr_err user_try(tr_ctx *ctx, stage *self, const Try *m)
{
    tr_from from = {.ctx = ctx};
    if (m->n >= 0) {
        starve_arm(m->n);
    }
    tr_err err = scenarios[m->scenario].run(from, self);
    bool failed = starve_end();
    stage_close(from, self);
    return tr_reply(ctx, m, .err = (int32_t)err, .failed = failed);
}

TR_ACTOR(user, stage, TR_ON(Try, user_try));

static Result try_it(tr_system *sys, tr_ref ref, int64_t n, int32_t index)
{
    Result result;
    assert_int_equal(
        tr_ask(sys, ref, &result, LONG, Try, .n = n, .scenario = index), TR_OK);
    return result;
}

static void test_every_allocation_of_a_handler_may_fail(void **state)
{
    (void)state;
    char folder[] = "/tmp/troupe-outside-XXXXXX", path[64];
    tr_system *sys;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    assert_int_equal(tr_system_open(&sys, .poll = true), TR_OK);
    tr_ref ref = tr_spawn(sys, user, TR_INIT(user, .sys = sys, .path = path));
    for (int32_t i = 0; i < SCENARIOS; i++) {
        Result result = try_it(sys, ref, -1, i);
        assert_int_equal(result.err, TR_OK);
        result.failed = true;
        for (int64_t n = 0; result.failed; n++) {
            assert_in_range(n, 0, STEPS_MAX);
            result = try_it(sys, ref, n, i);
            assert_true(result.err == TR_OK ||
                        (result.failed &&
                         (result.err == TR_ENOMEM || result.err == TR_ELIMIT)));
        }
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- descriptors ---- */

/* Returns how many descriptors are open, and the greatest of them. */
static uint32_t count_descriptors(int *greatest)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    assert_non_null(folder);
    *greatest = 0;
    while ((entry = readdir(folder)) != NULL) {
        int fd = atoi(entry->d_name);
        *greatest = fd > *greatest && fd != dirfd(folder) ? fd : *greatest;
        count++;
    }
    (void)closedir(folder);
    return count;
}

/* Lets the process have so many descriptors more. */
static void allow(struct rlimit limit, uint32_t more)
{
    int greatest;
    (void)count_descriptors(&greatest);
    limit.rlim_cur = (rlim_t)greatest + 1 + more;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void exhaust(stage *it, scenario run, struct rlimit limit)
{
    tr_err err = TR_ELIMIT;
    for (uint32_t more = 0; err != TR_OK; more++) {
        assert_in_range(more, 0, STEPS_MAX);
        allow(limit, more);
        err = run((tr_from){.sys = it->sys}, it);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(err == TR_OK || err == TR_ELIMIT);
        stage_close((tr_from){.sys = it->sys}, it);
    }
}

static void test_descriptors_may_run_out(void **state)
{
    (void)state;
    char folder[] = "/tmp/troupe-outside-XXXXXX", path[64];
    struct rlimit limit;
    int greatest;
    uint32_t before;
    stage it = {.path = path};

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    before = count_descriptors(&greatest);
    assert_int_equal(tr_system_open(&it.sys), TR_OK);
    for (int i = 0; i < SCENARIOS; i++) {
        exhaust(&it, scenarios[i].run, limit);
    }
    assert_int_equal(tr_file_remove(it.sys, path), TR_OK);
    assert_int_equal(tr_system_close(it.sys, 0), TR_OK);
    assert_int_equal(count_descriptors(&greatest), before);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_handler_may_fail),
        cmocka_unit_test(test_descriptors_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
