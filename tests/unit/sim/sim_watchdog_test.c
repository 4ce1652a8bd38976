/*
 * sim_watchdog_test.c - crashes and hangs are reported with their run.
 *
 * Each program runs in a child process, which it ends; the test reads what the
 * child wrote to standard error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "base/pages.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_watchdog.h"

enum { TEXT_MAX = 8192, BAD_SEED = 5, OWN_STATUS = 42 };

typedef enum end { BY_FAULT, BY_OVERFLOW, BY_ABORT, BY_SENT, BY_TICKS } end;

typedef struct program {
    end how;
    bool own_handler;        // of SIGSEGV
    tri_sim_watchdog watch;  // for BY_TICKS
} program;

TR_MESSAGE(Survived);
TR_REQUEST(Crash, Survived, (uint64_t, seed));

typedef struct Fragile {
    program *program;
} Fragile;

static volatile char sink;

__attribute__((noinline)) static uint64_t dive(volatile char *above)
{
    volatile char frame[1024];

    frame[0] = *above;
    if (frame[0] == 0) {  // never true, but the compiler cannot know
        return 0;
    }
    uint64_t below = dive(frame);
    return below + (uint64_t)frame[0];
}

static void write_nowhere(void)
{
    volatile char *volatile nowhere = (char *)(uintptr_t)8;

    *nowhere = 1;
}

static tr_err on_crash(tr_ctx *ctx, Fragile *self, const Crash *m)
{
    char first = 1;

    if (m->seed == BAD_SEED) {
        switch (self->program->how) {
        case BY_FAULT:
            write_nowhere();
            break;
        case BY_OVERFLOW:
            sink = (char)dive(&first);
            break;
        case BY_ABORT:
            tr_abort("test", "on purpose");
        case BY_SENT:
            (void)raise(SIGSEGV);
            break;
        case BY_TICKS:
            for (uint32_t i = 0; i < 3 * TRI_SIM_WATCHDOG_TICKS; i++) {
                tri_sim_watchdog_tick(&self->program->watch);
            }
            break;
        }
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(fragile, Fragile, TR_ON(Crash, on_crash));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    return tr_ref_err(tr_spawn(sys, fragile, .name = "fragile",
                               TR_INIT(fragile, .program = user)));
}

static uint64_t seed_now;

static void count_run(tr_sim *sim, void *user)
{
    (void)sim;
    (void)user;
    seed_now++;
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 1);

    return tr_ask(sys, tr_lookup(sys, "fragile"), NULL, 0, Crash,
                  .seed = seed_now);
}

static void on_own_signal(int number)
{
    (void)number;
    _exit(OWN_STATUS);
}

static void run_child(program *it)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    char *argv[] = {"crashing", "--seed", "1", "--seeds", "9", NULL};
    tr_sim_options options = {.size = sizeof(options),
                              .nodes = 2,
                              .node = node,
                              .workload = workload,
                              .begin = count_run,
                              .user = it};

    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    // Without the handlers of cmocka and of sanitizers.
    for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++) {
        signal(deadly[i], SIG_DFL);
    }
    if (it->own_handler) {
        signal(SIGSEGV, on_own_signal);
    }
    if (it->how != BY_TICKS) {
        _exit(tr_sim_main(5, argv, &options));
    }
    tri_sim_plan plan = {
        .seed = BAD_SEED, .program = "crashing", .watchdog = &it->watch};
    tri_sim_result result;
    seed_now = BAD_SEED - 1;
    _exit(tri_sim_run_plan(&options, &plan, &result, NULL, NULL) != TR_OK);
}

/* Returns the status of the child; *text is what it wrote. */
static int run(program *it, char text[TEXT_MAX])
{
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run_child(it);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, TEXT_MAX - 1 - length)) > 0) {
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;

    for (; (text = strstr(text, part)) != NULL; text++) {
        count++;
    }
    return count;
}

static void expect_line(const char *text, const char *what)
{
    char head[128];
    const char *tail = "; replay: crashing --seed 5 --trace; node 1, actor "
                       "/user/fragile, message Crash\n";

    snprintf(head, sizeof(head), "troupe: sim: %s seed 5, step ", what);
    if (count_of(text, head) != 1 || count_of(text, tail) != 1) {
        fail_msg("not once: %s%s in:\n%s", head, tail, text);
    }
    assert_true(strstr(text, head) < strstr(text, tail));
}

static void expect_crash(end how, int number, const char *what)
{
    program it = {.how = how};
    char text[TEXT_MAX];
    int status = run(&it, text);

    expect_line(text, what);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void test_TE5_a_crash_is_reported_with_seed_and_actor(void **state)
{
    (void)state;
    expect_crash(BY_FAULT, SIGSEGV, "SIGSEGV in");
}

/* False under an emulator that ignores madvise: it has no guard pages. */
static bool has_guards(void)
{
    char *at = tri_pages_map(tri_page_size());
    int rc = madvise(at, tri_page_size(), 12345);

    tri_pages_unmap(at, tri_page_size());
    return rc != 0;
}

/* The actor has no stack left for a handler. */
static void test_TE5_a_stack_overflow_is_reported(void **state)
{
    (void)state;
    if (!has_guards()) {
        printf("no guards under this emulator\n");
        return;
    }
    expect_crash(BY_OVERFLOW, SIGSEGV, "SIGSEGV in");
}

static void test_TE5_an_abort_is_reported(void **state)
{
    (void)state;
    expect_crash(BY_ABORT, SIGABRT, "SIGABRT in");
}

static void test_TE5_a_signal_sent_from_outside_still_kills(void **state)
{
    (void)state;
    expect_crash(BY_SENT, SIGSEGV, "SIGSEGV in");
}

static void test_TE5_the_programs_own_handler_stays(void **state)
{
    (void)state;
    program it = {.how = BY_SENT, .own_handler = true};
    char text[TEXT_MAX];
    int status = run(&it, text);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), OWN_STATUS);
    assert_int_equal(count_of(text, "troupe: sim: "), 0);
}

static void test_TE5_a_hanging_step_is_reported_once(void **state)
{
    (void)state;
    program it = {.how = BY_TICKS};
    char text[TEXT_MAX];
    int status = run(&it, text);

    expect_line(text, "a step does not end, for 10 s of real time:");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_a_crash_is_reported_with_seed_and_actor),
        cmocka_unit_test(test_TE5_a_stack_overflow_is_reported),
        cmocka_unit_test(test_TE5_an_abort_is_reported),
        cmocka_unit_test(test_TE5_a_signal_sent_from_outside_still_kills),
        cmocka_unit_test(test_TE5_the_programs_own_handler_stays),
        cmocka_unit_test(test_TE5_a_hanging_step_is_reported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
