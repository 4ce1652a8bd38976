/*
 * costs_test.c - what a spawn, a send, a lookup and a run cost does not grow
 * with the number of other actors and messages.
 *
 * Time says little on a busy machine, so instructions are counted: the work is
 * done in a child process, one instruction at a time. Its system is polled, so
 * all of it is on that one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "../support/sanitizer.h"

enum { FEW = 40, MANY = 4000, WORK = 3 };

TR_MESSAGE(Item, (int64_t, number));

typedef struct Idle {
    int64_t sum;
} Idle;

static tr_err on_item(tr_ctx *ctx, Idle *self, const Item *m)
{
    (void)ctx;
    self->sum += m->number;
    return TR_OK;
}

TR_ACTOR(idle, Idle, TR_ON(Item, on_item));

/* ---- the work, in the child ---- */

typedef struct bench {
    tr_system *sys;
    tr_ref one;
    char path[32];
} bench;

static void run_all(bench *it)
{
    TR_MUST(tr_poll(it->sys, TR_SECONDS(3600)));
}

static void spawn_named(bench *it, const char *name)
{
    if (tr_ref_err(tr_spawn(it->sys, idle, .name = name)) != TR_OK) {
        tr_abort(TR_HERE, "spawn");
    }
    run_all(it);
}

static void crowd(bench *it, int others)
{
    for (int i = 0; i < others; i++) {
        char name[32];
        snprintf(name, sizeof(name), "a%d", i);
        spawn_named(it, name);
    }
    snprintf(it->path, sizeof(it->path), "/user/a%d", others / 2);
}

static void step_spawn(bench *it, int i)
{
    char name[] = {'n', (char)('a' + i), '\0'};
    spawn_named(it, name);
}

static void step_lookup(bench *it, int i)
{
    (void)i;
    if (tr_ref_err(tr_lookup(it->sys, it->path)) != TR_OK) {
        tr_abort(TR_HERE, "lookup");
    }
}

static void step_send(bench *it, int i)
{
    (void)i;
    tr_tell(it->sys, it->one, Item, .number = 1);
}

static void queue_up(bench *it, int others)
{
    for (int i = 0; i < others; i++) {
        step_send(it, i);
    }
}

static void step_run(bench *it, int i)
{
    step_send(it, i);
    run_all(it);
}

typedef struct work {
    const char *name;
    void (*before)(bench *it, int others);
    void (*step)(bench *it, int i);
} work;

static const work works[] = {
    {"a spawn beside actors", crowd, step_spawn},
    {"a lookup among actors", crowd, step_lookup},
    {"a send beside actors", crowd, step_send},
    {"a send behind messages", queue_up, step_send},
    {"a run beside actors", crowd, step_run},
};

static void child(const work *w, int others)
{
    bench it;
    TR_MUST(tr_system_open(&it.sys, .poll = true, .log_level = TR_LOG_ERROR + 1,
                           .soft_limit = 1u << 30));
    it.one = tr_spawn(it.sys, idle, .name = "one");
    run_all(&it);
    w->before(&it, others);
    w->step(&it, WORK);  // the first one meets cold paths
    raise(SIGSTOP);
    for (int i = 0; i < WORK; i++) {
        w->step(&it, i);
    }
    raise(SIGSTOP);
    _exit(0);  // the system goes with the process
}

/* ---- counting ---- */

/* Waits until the child stops; returns the signal. */
static int stopped(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

static pid_t start_child(const work *w, int others)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(1);
        }
        child(w, others);
    }
    return pid;
}

/* Returns the instructions of WORK steps beside so many others. */
static uint64_t instructions(const work *w, int others)
{
    pid_t pid = start_child(w, others);
    assert_int_equal(stopped(pid), SIGSTOP);
    uint64_t count = 0;
    for (int signal = SIGTRAP; signal != SIGSTOP; count++) {
        assert_int_equal(signal, SIGTRAP);
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        signal = stopped(pid);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return count;
}

static void test_PA6_costs_do_not_grow_with_the_others(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // it counts mostly its own instructions, for minutes
    }
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        uint64_t few = instructions(&works[i], FEW);
        uint64_t many = instructions(&works[i], MANY);
        if (many > few + few / 2) {
            fail_msg("%s: %llu instructions with %d, %llu with %d",
                     works[i].name, (unsigned long long)few, FEW,
                     (unsigned long long)many, MANY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA6_costs_do_not_grow_with_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
