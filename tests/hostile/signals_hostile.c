/*
 * signals_hostile.c - a process that is stopped for seconds, gets signals in
 * storms, forks, or jumps inside a handler: the system goes on.
 */
#include "child.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

TR_MESSAGE(Pong, (uint64_t, number));
TR_REQUEST(Ping, Pong, (uint64_t, number));
TR_MESSAGE(Tick);

typedef struct Server {
    atomic_uint *ticks;
} Server;

static tr_err on_ping(tr_ctx *ctx, Server *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m, .number = m->number);
}

static tr_err start(tr_ctx *ctx, Server *self)
{
    if (self->ticks != NULL) {
        (void)tr_every(ctx, TR_MS(10), Tick);
    }
    return TR_OK;
}

static tr_err on_tick(tr_ctx *ctx, Server *self, const Tick *m)
{
    (void)ctx;
    (void)m;
    atomic_fetch_add(self->ticks, 1);
    return TR_OK;
}

TR_ACTOR(server, Server, TR_ON(Ping, on_ping), TR_ON(Tick, on_tick),
         TR_HOOK(pre_start, start));

static void ping(tr_system *sys, tr_ref to)
{
    Pong pong;

    MUST_BE(tr_ask(sys, to, &pong, TR_SECONDS(30), Ping, .number = 3) == TR_OK);
    MUST_BE(pong.number == 3);
}

/* ---- stopped ---- */

static void pause_me(void)
{
    tr_system *sys;
    atomic_uint ticks = 0;

    TR_MUST(tr_system_open(&sys, .workers = 2));
    tr_ref ref = tr_spawn(sys, server, TR_INIT(server, .ticks = &ticks));
    ping(sys, ref);
    kill(getpid(), SIGSTOP);
    uint32_t before = atomic_load(&ticks);
    ping(sys, ref);
    // Messages of a periodic timer do not pile up: rule 38 (timers).
    MUST_BE(atomic_load(&ticks) - before < 50);
    while (atomic_load(&ticks) < before + 3) {
        ping(sys, ref);
    }
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_a_stopped_process_goes_on(void **state)
{
    int status;

    (void)state;
    pid_t pid = child_begin(pause_me);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    // The time that the child misses is what is tested.
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    assert_int_equal(kill(pid, SIGCONT), 0);
    child_end(pid);
}

/* ---- signals in storms ---- */

static void on_signal(int number)
{
    (void)number;
}

static tr_err blocks(void *arg)
{
    (void)arg;
    // A system call that signals interrupt; nothing depends on its length.
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return TR_OK;
}

typedef struct Waiter {
    int fd;
} Waiter;

/* Waits in every way; each is interrupted many times. */
static tr_err waits(tr_ctx *ctx, Waiter *self, const Ping *m)
{
    uint32_t ready = 0;
    tr_nanos from = tr_now(ctx);

    TR_TRY(tr_sleep(ctx, TR_MS(5)));
    TR_ASSERT(ctx, tr_now(ctx) - from >= TR_MS(5));
    TR_TRY(tr_blocking(ctx, blocks, NULL));
    TR_ASSERT(ctx, tr_wait_fd(ctx, self->fd, TR_FD_READ, TR_MS(5), &ready) ==
                       TR_ETIMEDOUT);
    return tr_reply(ctx, m, .number = m->number);
}

TR_ACTOR(waiter, Waiter, TR_ON(Ping, waits));

static void be_interrupted(void)
{
    int pipes[2];
    tr_system *sys;
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval often = {.it_interval = {.tv_usec = 200},
                              .it_value = {.tv_usec = 200}};

    MUST_BE(pipe(pipes) == 0);
    MUST_BE(sigaction(SIGPROF, &action, NULL) == 0);
    MUST_BE(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST_BE(sigaction(SIGVTALRM, &action, NULL) == 0);
    MUST_BE(setitimer(ITIMER_PROF, &often, NULL) == 0);
    TR_MUST(tr_system_open(&sys, .workers = 2));
    tr_ref ref = tr_spawn(sys, waiter, TR_INIT(waiter, .fd = pipes[0]));
    pid_t me = getpid(), sender = fork();
    if (sender == 0) {
        for (int i = 0; i < 20000 && kill(me, SIGUSR1) == 0; i++) {
            // Without a pause pending signals become one.
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
        _exit(0);
    }
    for (int i = 0; i < 50; i++) {
        ping(sys, ref);
    }
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_a_storm_of_signals_changes_nothing(void **state)
{
    (void)state;
    in_child(be_interrupted);
}

/* ---- fork ---- */

static tr_err forks(void *arg)
{
    int status;
    pid_t pid = fork();

    (void)arg;
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    MUST_BE(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? TR_OK : TR_EFAILED;
}

typedef struct Forker {
    int unused;
} Forker;

static tr_err on_fork(tr_ctx *ctx, Forker *self, const Ping *m)
{
    (void)self;
    TR_TRY(tr_blocking(ctx, forks, NULL));
    return tr_reply(ctx, m, .number = m->number);
}

TR_ACTOR(forker, Forker, TR_ON(Ping, on_fork));

static void fork_often(void)
{
    tr_system *sys;

    TR_MUST(tr_system_open(&sys, .workers = 2));
    tr_ref from_handler = tr_spawn(sys, forker), ref = tr_spawn(sys, server);
    for (int i = 0; i < 20; i++) {
        ping(sys, from_handler);
        MUST_BE(forks(NULL) == TR_OK);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(0);  // a copy without the system's threads just leaves
        }
        MUST_BE(waitpid(pid, NULL, 0) == pid);
        ping(sys, ref);
    }
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_a_program_with_a_system_may_fork(void **state)
{
    (void)state;
    in_child(fork_often);
}

/* ---- longjmp ---- */

typedef struct Jumper {
    int unused;
} Jumper;

static __attribute__((noinline)) void jump(jmp_buf *back)
{
    longjmp(*back, 1);
}

/* The target is in the same handler, and the handler has waited meanwhile. */
static tr_err on_jump(tr_ctx *ctx, Jumper *self, const Ping *m)
{
    jmp_buf back;

    (void)self;
    if (setjmp(back) == 0) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
        jump(&back);
    }
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    return tr_reply(ctx, m, .number = m->number);
}

TR_ACTOR(jumper, Jumper, TR_ON(Ping, on_jump));

static void jump_often(void)
{
    tr_system *sys;
    tr_ref refs[8];

    TR_MUST(tr_system_open(&sys, .workers = 2));
    for (int i = 0; i < 8; i++) {
        refs[i] = tr_spawn(sys, jumper);
    }
    for (int i = 0; i < 80; i++) {
        ping(sys, refs[i % 8]);
    }
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_a_handler_may_jump_inside_itself(void **state)
{
    (void)state;
    in_child(jump_often);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_process_goes_on),
        cmocka_unit_test(test_a_storm_of_signals_changes_nothing),
        cmocka_unit_test(test_a_program_with_a_system_may_fork),
        cmocka_unit_test(test_a_handler_may_jump_inside_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
