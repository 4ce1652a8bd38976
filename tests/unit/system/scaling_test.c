/*
 * scaling_test.c - what a spawn, a send, a lookup and a run cost (MB5, PA6), and
 * how much memory an actor and a message take (PA7).
 *
 * Time says little on a busy machine, so instructions are counted: the
 * operation runs in a child process, one instruction at a time. The system is
 * a polled one, hence all of it is on that one thread. What is compared is the
 * same work beside few and beside many times as many others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "support/core.h"
#include "support/sanitizer.h"

#if UNDER_SANITIZER
// A step is ten times as many instructions there, all of them stopped at, and
// the crowd is as slow to come: one step, still beside fifty times as many.
enum { FEW = 20, MANY = 1000, WORK = 1 };
#else
enum { FEW = 40, MANY = 4000, WORK = 10 };
#endif

TR_MESSAGE(Item, (int64_t, number));

typedef struct Idle {
    int64_t handled;
} Idle;

static tr_err on_item(tr_ctx *ctx, Idle *self, const Item *m)
{
    (void)ctx;
    self->handled += m->number;
    return TR_OK;
}

TR_ACTOR(idle, Idle, TR_ON(Item, on_item));

typedef struct bench {
    tr_system *sys;
    tr_ref one;
    char path[32];
} bench;

static bool run_one(bench *it)
{
    bool some = tri_worker_runnable(it->sys->driven_worker) > 0;
    if (some) {
        tri_worker_step(it->sys->driven_worker, 0);
    }
    return some;
}

static void run_all(bench *it)
{
    while (run_one(it)) {
    }
}

static void open_bench(bench *it)
{
    TR_MUST(tr_system_open(&it->sys, .poll = true, .log_level = 9,
                           .soft_limit = 1u << 30));
    it->one = tr_spawn(it->sys, idle, .name = "one");
    run_all(it);
}

static void spawn_some(bench *it, int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "a%d", i);
        if (tr_ref_err(tr_spawn(it->sys, idle, .name = name)) != TR_OK) {
            tr_abort(TR_HERE, "spawn");
        }
    }
    run_all(it);
}

static void send_some(bench *it, int count)
{
    for (int i = 0; i < count; i++) {
        tr_tell(it->sys, it->one, Item, .number = 1);
    }
}

/* ---- the work that is measured ---- */

typedef struct work {
    const char *name;
    void (*before)(bench *it, int others);
    void (*step)(bench *it, int i);
} work;

static void crowd(bench *it, int others)
{
    spawn_some(it, others);
    snprintf(it->path, sizeof(it->path), "/user/a%d", others / 2);
}

static void step_spawn(bench *it, int i)
{
    char name[] = {'n', (char)('a' + i), '\0'};
    (void)tr_spawn(it->sys, idle, .name = name);
    (void)run_one(it);
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

/* One message has been taken: the rest is a list already. */
static void queue_up(bench *it, int others)
{
    send_some(it, others + 2 * WORK);
    (void)run_one(it);
}

static void step_run(bench *it, int i)
{
    (void)i;
    (void)run_one(it);
}

static const work works[] = {
    {"spawn", crowd, step_spawn},   {"lookup", crowd, step_lookup},
    {"send", send_some, step_send}, {"send among many", crowd, step_send},
    {"run", queue_up, step_run},
};

/* ---- counting ---- */

static void child(const work *w, int others)
{
    bench it;
    open_bench(&it);
    w->before(&it, others);
    w->step(&it, WORK);  // the first one meets cold paths
    raise(SIGSTOP);
    for (int i = 0; i < WORK; i++) {
        w->step(&it, i);
    }
    raise(SIGSTOP);
    _exit(0);  // the system goes with the process
}

static void wait_stopped(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}

/* Instructions of WORK steps beside so many others. */
static uint64_t instructions(const work *w, int others)
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
    wait_stopped(pid);
    uint64_t count = 0;
    for (;;) {
        int status;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
        if (WSTOPSIG(status) == SIGSTOP) {
            break;
        }
        assert_int_equal(WSTOPSIG(status), SIGTRAP);
        count++;
    }
    assert_int_equal(ptrace(PTRACE_KILL, pid, NULL, NULL), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return count;
}

static void test_PA6_MB5_costs_do_not_grow_with_the_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        uint64_t few = instructions(&works[i], FEW);
        uint64_t many = instructions(&works[i], MANY);
        if (few == 0 || many > few + few / 2) {
            fail_msg("%s: %llu instructions beside %d others, %llu beside %d",
                     works[i].name, (unsigned long long)few, FEW,
                     (unsigned long long)many, MANY);
        }
    }
}

/* ---- memory ---- */

static size_t memory_of(bench *it)
{
    return atomic_load(&it->sys->mem.mapped) + atomic_load(&it->sys->mem.big);
}

static void spawn_unnamed(bench *it, tr_ref *refs, int count)
{
    for (int i = 0; i < count; i++) {
        refs[i] = tr_spawn(it->sys, idle);
        assert_int_equal(tr_ref_err(refs[i]), TR_OK);
    }
    run_all(it);
}

static void test_PA7_memory_grows_with_actors_and_mail_only(void **state)
{
    enum { N = 20000, BYTES_PER_ACTOR = 512, BYTES_PER_MESSAGE = 128 };
    static tr_ref refs[2 * N];
    bench it;
    (void)state;
    open_bench(&it);
    size_t start = memory_of(&it);
    spawn_unnamed(&it, refs, N);
    size_t first = memory_of(&it) - start;
    spawn_unnamed(&it, refs + N, N);
    size_t second = memory_of(&it) - start - first;
    assert_true(first <= (size_t)N * BYTES_PER_ACTOR);
    assert_true(second <= (size_t)N * BYTES_PER_ACTOR);

    start = memory_of(&it);
    send_some(&it, N);
    assert_true(memory_of(&it) - start <= (size_t)N * BYTES_PER_MESSAGE);
    run_all(&it);

    // What is over is used again: the same once more takes nothing new.
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2 * N; i++) {
            tr_stop(it.sys, refs[i]);
        }
        run_all(&it);
        size_t before = memory_of(&it);
        spawn_unnamed(&it, refs, 2 * N);
        send_some(&it, N);
        run_all(&it);
        assert_true(memory_of(&it) - before <= before / 10);
    }
    assert_int_equal(tr_system_close(it.sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA6_MB5_costs_do_not_grow_with_the_others),
        cmocka_unit_test(test_PA7_memory_grows_with_actors_and_mail_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
