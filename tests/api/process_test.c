/*
 * process_test.c - child processes: their pipes, their end, and their end with
 * the actor that has started them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/troupe.h>
#include <unistd.h>

#define LONG TR_SECONDS(60)

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static tr_system *sys;

static int open_system(void **state)
{
    (void)state;
    return tr_system_open(&sys) != TR_OK;
}

static int close_system(void **state)
{
    (void)state;
    return tr_system_close(sys, 0) != TR_OK;
}

static void read_all(tr_stream *from, char *text, size_t size)
{
    size_t got = 0, all = 0;
    do {
        assert_int_equal(
            tr_read(sys, from, text + all, size - all - 1, LONG, &got), TR_OK);
        all += got;
    } while (got > 0);
    text[all] = '\0';
}

static void expect_status(tr_process *process, int code, int number)
{
    tr_process_status status;
    assert_int_equal(tr_process_wait(sys, process, LONG, &status), TR_OK);
    assert_int_equal(status.code, code);
    assert_int_equal(status.signal, number);
}

/* True if there is no such process any more, not even a zombie. */
static bool is_gone(pid_t id)
{
    return kill(id, 0) != 0 && errno == ESRCH;
}

/* ---- outside of actors ---- */

static void test_a_filter_gets_its_input_and_ends(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *in, *out;
    char text[64];

    assert_int_equal(
        tr_process_start(sys, &process, ARGS("cat"), .in = &in, .out = &out),
        TR_OK);
    assert_int_equal(tr_write(sys, in, 0, {"one\n", 4}, {"two\n", 4}), TR_OK);
    assert_int_equal(tr_shutdown(sys, in), TR_EINVAL);
    tr_stream_close(sys, in);  // the end of its input
    read_all(out, text, sizeof(text));
    assert_string_equal(text, "one\ntwo\n");
    expect_status(process, 0, 0);
    expect_status(process, 0, 0);  // the status stays
    tr_stream_close(sys, out);
    tr_process_close(sys, process);
}

/* More than a pipe holds, in both directions at once. */
static void test_pipes_have_back_pressure(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    tr_process *process;
    tr_stream *in, *out;
    char *sent = malloc(SIZE), *got = malloc(SIZE);
    size_t there = 0, part;
    tr_err err = TR_OK;

    for (size_t i = 0; i < SIZE; i++) {
        sent[i] = (char)(i * 31 >> 3);
    }
    assert_int_equal(
        tr_process_start(sys, &process, ARGS("cat"), .in = &in, .out = &out),
        TR_OK);
    // Nobody reads: the write must time out, not block for ever.
    err = tr_write(sys, in, TR_MS(20), {sent, SIZE});
    assert_int_equal(err, TR_ETIMEDOUT);
    tr_stream_close(sys, in);
    while ((err = tr_read(sys, out, got + there, SIZE - there, LONG, &part)) ==
               TR_OK &&
           part > 0) {
        there += part;
    }
    assert_int_equal(err, TR_OK);
    assert_true(there > 0);
    assert_memory_equal(sent, got, there);
    expect_status(process, 0, 0);
    tr_stream_close(sys, out);
    tr_process_close(sys, process);
    free(sent);
    free(got);
}

static void test_status_and_options(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *out, *err;
    char text[64];
    const char *const env[] = {"WORD=green", "PATH=/usr/bin:/bin", NULL};

    assert_int_equal(
        tr_process_start(sys, &process, ARGS("sh", "-c", "exit 7")), TR_OK);
    expect_status(process, 7, 0);
    tr_process_close(sys, process);

    assert_int_equal(
        tr_process_start(sys, &process,
                         ARGS("sh", "-c", "echo $WORD; echo no >&2; pwd"),
                         .out = &out, .err = &err, .env = env, .folder = "/"),
        TR_OK);
    read_all(out, text, sizeof(text));
    assert_string_equal(text, "green\n/\n");
    read_all(err, text, sizeof(text));
    assert_string_equal(text, "no\n");
    expect_status(process, 0, 0);
    tr_stream_close(sys, out);
    tr_stream_close(sys, err);
    tr_process_close(sys, process);

    assert_int_equal(tr_process_start(sys, &process,
                                      ARGS("sh", "-c", "echo a; echo b >&2"),
                                      .out = &out, .merge = true),
                     TR_OK);
    read_all(out, text, sizeof(text));
    assert_string_equal(text, "a\nb\n");
    expect_status(process, 0, 0);
    tr_stream_close(sys, out);
    tr_process_close(sys, process);

    // Without `in` the input is empty; quiet output goes nowhere.
    assert_int_equal(
        tr_process_start(sys, &process,
                         ARGS("sh", "-c", "cat; echo lost; test -e /dev/stdin"),
                         .quiet = true),
        TR_OK);
    expect_status(process, 0, 0);
    tr_process_close(sys, process);
}

static void test_signals_reach_the_process_and_its_group(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *out;
    tr_process_status status;
    char line[16];
    size_t got;

    assert_int_equal(
        tr_process_start(sys, &process,
                         ARGS("sh", "-c", "sleep 100 & echo ready; wait"),
                         .out = &out),
        TR_OK);
    assert_int_equal(
        tr_read_until(sys, out, '\n', line, sizeof(line), LONG, &got), TR_OK);
    assert_int_equal(tr_process_wait(sys, process, -1, &status), TR_ETIMEDOUT);
    assert_int_equal(tr_process_signal(sys, process, 1000), TR_EINVAL);
    assert_int_equal(tr_process_signal(sys, process, SIGTERM), TR_OK);
    // `sleep` had the pipe, too: its end is the end of the group.
    assert_int_equal(tr_read(sys, out, line, 1, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    expect_status(process, 0, SIGTERM);
    assert_int_equal(tr_process_signal(sys, process, SIGTERM), TR_ESTOPPED);
    tr_stream_close(sys, out);
    tr_process_close(sys, process);
}

/* Signals that the program blocks or ignores are as usual in a child. */
static void test_no_signal_is_blocked_or_ignored_in_it(void **state)
{
    (void)state;
    tr_process *process;
    sigset_t usr1, before;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &usr1, &before), 0);
    assert_true(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    for (int i = 0; i < 2; i++) {
        int number = i == 0 ? SIGUSR1 : SIGUSR2;
        assert_int_equal(tr_process_start(sys, &process, ARGS("sleep", "100"),
                                          .quiet = true),
                         TR_OK);
        assert_int_equal(tr_process_signal(sys, process, number), TR_OK);
        expect_status(process, 0, number);
        tr_process_close(sys, process);
    }
    (void)signal(SIGUSR2, SIG_DFL);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void test_what_cannot_be_started(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *in, *err;

    assert_int_equal(tr_process_start(sys, &process,
                                      ARGS("no-such-program-anywhere"),
                                      .in = &in),
                     TR_ENOENT);
    assert_null(process);
    assert_null(in);
    assert_non_null(strstr(tr_error_text(sys), "no-such-program-anywhere"));
    assert_int_equal(tr_process_start(sys, &process, ARGS("/etc/passwd")),
                     TR_EINVAL);
    assert_int_equal(tr_process_start(sys, &process, ARGS("cat"),
                                      .folder = "/no/such/folder"),
                     TR_ENOENT);
    assert_int_equal(tr_process_start(sys, &process, ARGS("cat"), .err = &err,
                                      .merge = true),
                     TR_EINVAL);
    const char *const nothing[] = {NULL};
    assert_int_equal(tr_process_start(sys, &process, nothing), TR_EINVAL);
}

/* A process that reads no more is an error of the write, not a signal. */
static void test_a_write_to_a_process_that_has_ended(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *in;

    assert_int_equal(tr_process_start(sys, &process, ARGS("true"), .in = &in),
                     TR_OK);
    expect_status(process, 0, 0);
    assert_int_equal(tr_write(sys, in, LONG, {"x", 1}), TR_ERESET);
    assert_int_equal(tr_write(sys, in, LONG, {"x", 1}), TR_ERESET);
    tr_stream_close(sys, in);
    tr_process_close(sys, process);
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGPIPE));
}

/* ---- the end of a process that nobody waits for ---- */

/* Starts a process that tells its number and then sleeps. */
static pid_t start_sleeper(tr_process **process, tr_stream **out)
{
    char line[32] = "";
    size_t got;
    assert_int_equal(
        tr_process_start(sys, process,
                         ARGS("sh", "-c", "echo $$; exec sleep 100"),
                         .out = out, .quiet = true),
        TR_OK);
    assert_int_equal(
        tr_read_until(sys, *out, '\n', line, sizeof(line) - 1, LONG, &got),
        TR_OK);
    return (pid_t)strtol(line, NULL, 10);
}

/* Waits until the process is neither running nor a zombie. */
static void wait_until_gone(pid_t id)
{
    // Each start makes the poller's thread look for zombies.
    while (!is_gone(id)) {
        tr_process *other;
        assert_int_equal(tr_process_start(sys, &other, ARGS("true")), TR_OK);
        expect_status(other, 0, 0);
        tr_process_close(sys, other);
    }
}

static void test_a_closed_process_is_killed_and_leaves_no_zombie(void **state)
{
    (void)state;
    tr_process *process;
    tr_stream *out;
    char byte;
    size_t got;
    pid_t id = start_sleeper(&process, &out);

    tr_process_close(sys, process);
    assert_int_equal(tr_read(sys, out, &byte, 1, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    tr_stream_close(sys, out);
    wait_until_gone(id);
}

static void test_a_system_kills_what_is_left(void **state)
{
    tr_process *process;
    tr_stream *out;
    pid_t id = start_sleeper(&process, &out);

    assert_int_equal(close_system(state), 0);
    assert_true(is_gone(id));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(open_system(state), 0);
}

/* The program has waited for the process itself. */
static void test_a_status_that_somebody_else_has_taken(void **state)
{
    (void)state;
    tr_process *process;
    tr_process_status status;
    int raw;

    assert_int_equal(tr_process_start(sys, &process, ARGS("true")), TR_OK);
    assert_true(waitpid(-1, &raw, 0) > 0);
    assert_int_equal(tr_process_wait(sys, process, LONG, &status), TR_EIO);
    tr_process_close(sys, process);
}

/* ---- in actors ---- */

TR_MESSAGE(Sum, (int32_t, err), (const char *, text));
TR_REQUEST(Sort, Sum, (const char *, text));
TR_REQUEST(Begin, Sum);
TR_MESSAGE(Close);

typedef struct Runner {
    tr_process *process;
    const Begin *asked;
} Runner;

static tr_err sort(tr_ctx *ctx, const Sort *m, char *text, size_t size)
{
    tr_process *process;
    tr_stream *in, *out;
    tr_process_status status;
    size_t got;
    TR_TRY(
        tr_process_start(ctx, &process, ARGS("sort"), .in = &in, .out = &out));
    TR_TRY(tr_write(ctx, in, LONG, {m->text, strlen(m->text)}));
    tr_stream_close(ctx, in);
    TR_TRY(tr_read_exactly(ctx, out, text, size, LONG, &got));
    TR_TRY(tr_process_wait(ctx, process, LONG, &status));
    tr_stream_close(ctx, out);
    tr_process_close(ctx, process);
    return status.code == 0 ? TR_OK : TR_EFAILED;
}

static tr_err runner_sort(tr_ctx *ctx, Runner *self, const Sort *m)
{
    char text[7] = "";
    (void)self;
    tr_err err = sort(ctx, m, text, 6);
    return tr_reply(ctx, m, .err = err, .text = text);
}

/* Starts a sleeper, tells its number, and waits for it. */
static tr_err runner_begin(tr_ctx *ctx, Runner *self, const Begin *m)
{
    tr_stream *out;
    char line[32] = "";
    size_t got;
    tr_process_status status;
    TR_TRY(tr_process_start(ctx, &self->process,
                            ARGS("sh", "-c", "echo $$; exec sleep 100"),
                            .out = &out, .quiet = true));
    TR_TRY(tr_read_until(ctx, out, '\n', line, sizeof(line) - 1, LONG, &got));
    (void)tr_reply(ctx, m, .text = line);
    tr_err err = tr_process_wait(ctx, self->process, 0, &status);
    if (err == TR_ECLOSED) {
        self->process = NULL;
    }
    return err == TR_ECLOSED ? TR_OK : err;
}

static tr_err runner_close(tr_ctx *ctx, const Runner *self, const Close *m)
{
    (void)m;
    tr_process_close(ctx, self->process);
    return TR_OK;
}

TR_ACTOR(runner, Runner, TR_ON(Sort, runner_sort), TR_ON(Begin, runner_begin),
         TR_ON_INTERLEAVE(Close, runner_close));

static pid_t begin(tr_ref ref)
{
    Sum sum;
    assert_int_equal(tr_ask(sys, ref, &sum, LONG, Begin), TR_OK);
    pid_t id = (pid_t)strtol(sum.text, NULL, 10);
    tr_drop(Sum, &sum);
    return id;
}

static void test_an_actor_waits_for_a_process(void **state)
{
    (void)state;
    Sum sum;
    tr_ref ref = tr_spawn(sys, runner, .joinable = true);

    assert_int_equal(tr_ask(sys, ref, &sum, LONG, Sort, .text = "c\nb\na\n"),
                     TR_OK);
    assert_int_equal(sum.err, TR_OK);
    assert_string_equal(sum.text, "a\nb\nc\n");
    tr_drop(Sum, &sum);
    tr_stop(sys, ref);
    assert_int_equal(tr_join(sys, ref, LONG, NULL, NULL), TR_OK);
}

static void test_a_process_ends_with_its_actor(void **state)
{
    (void)state;
    tr_ref ref = tr_spawn(sys, runner, .joinable = true);
    pid_t id = begin(ref);

    assert_false(is_gone(id));
    tr_kill(sys, ref);
    assert_int_equal(tr_join(sys, ref, LONG, NULL, NULL), TR_OK);
    wait_until_gone(id);
}

static void test_another_turn_closes_a_process(void **state)
{
    (void)state;
    tr_ref ref = tr_spawn(sys, runner, .joinable = true);
    pid_t id = begin(ref);

    tr_tell(sys, ref, Close);
    wait_until_gone(id);
    tr_stop(sys, ref);
    assert_int_equal(tr_join(sys, ref, LONG, NULL, NULL), TR_OK);
}

/* ---- other worlds ---- */

static void test_a_polled_system_has_processes(void **state)
{
    assert_int_equal(close_system(state), 0);
    assert_int_equal(tr_system_open(&sys, .poll = true), TR_OK);
    tr_process *process;
    assert_int_equal(tr_process_start(sys, &process, ARGS("sleep", "0")),
                     TR_OK);
    expect_status(process, 0, 0);
    tr_process_close(sys, process);
    tr_stream *out;
    pid_t id = start_sleeper(&process, &out);
    assert_int_equal(close_system(state), 0);
    assert_true(is_gone(id));
    assert_int_equal(open_system(state), 0);
}

static void test_a_simulated_world_has_no_processes(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *simulated;
    tr_process *process;

    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&simulated, .world = tr_sim_world(sim)),
                     TR_OK);
    assert_int_equal(tr_process_start(simulated, &process, ARGS("true")),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(simulated), "simulated"));
    assert_int_equal(tr_system_close(simulated, 0), TR_OK);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_filter_gets_its_input_and_ends),
        cmocka_unit_test(test_pipes_have_back_pressure),
        cmocka_unit_test(test_status_and_options),
        cmocka_unit_test(test_signals_reach_the_process_and_its_group),
        cmocka_unit_test(test_no_signal_is_blocked_or_ignored_in_it),
        cmocka_unit_test(test_what_cannot_be_started),
        cmocka_unit_test(test_a_write_to_a_process_that_has_ended),
        cmocka_unit_test(test_a_closed_process_is_killed_and_leaves_no_zombie),
        cmocka_unit_test(test_a_system_kills_what_is_left),
        cmocka_unit_test(test_a_status_that_somebody_else_has_taken),
        cmocka_unit_test(test_an_actor_waits_for_a_process),
        cmocka_unit_test(test_a_process_ends_with_its_actor),
        cmocka_unit_test(test_another_turn_closes_a_process),
        cmocka_unit_test(test_a_polled_system_has_processes),
        cmocka_unit_test(test_a_simulated_world_has_no_processes),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
