/*
 * signals_test.c - actors and threads wait for signals of the process, in the
 * real world and in a simulated one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <troupe/troupe.h>
#include <unistd.h>

#define LONG TR_SECONDS(60)

typedef struct place {
    tr_sim *sim;  // NULL: the real world
    tr_system *sys;
} place;

static void place_open(place *it, bool simulated)
{
    *it = (place){0};
    if (simulated) {
        assert_int_equal(tr_sim_new(&it->sim, 7), TR_OK);
    }
    assert_int_equal(
        tr_system_open(&it->sys,
                       .world = simulated ? tr_sim_world(it->sim) : NULL),
        TR_OK);
}

static void place_close(place *it)
{
    assert_int_equal(tr_system_close(it->sys, 0), TR_OK);
    tr_sim_free(it->sim);
}

static void in_both_worlds(void (*check)(place *it))
{
    for (int simulated = 0; simulated < 2; simulated++) {
        place it;
        place_open(&it, simulated);
        check(&it);
        place_close(&it);
    }
}

/* Sends a signal to the program, as another one would. */
static void send(place *it, int number)
{
    if (it->sim != NULL) {
        tr_sim_signal(it->sim, 0, number);
    } else {
        assert_int_equal(kill(getpid(), number), 0);
    }
}

static struct sigaction action_of(int number)
{
    struct sigaction now;
    assert_int_equal(sigaction(number, NULL, &now), 0);
    return now;
}

/* ---- outside of actors ---- */

static void check_waiting(place *it)
{
    tr_signals *signals;
    int number;

    assert_int_equal(tr_signals_open(it->sys, &signals, SIGUSR1, SIGHUP),
                     TR_OK);
    assert_int_equal(tr_signals_wait(it->sys, signals, -1, &number),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_signals_wait(it->sys, signals, TR_MS(5), &number),
                     TR_ETIMEDOUT);
    send(it, SIGHUP);
    assert_int_equal(tr_signals_wait(it->sys, signals, LONG, &number), TR_OK);
    assert_int_equal(number, SIGHUP);
    send(it, SIGUSR1);
    assert_int_equal(tr_signals_wait(it->sys, signals, LONG, &number), TR_OK);
    assert_int_equal(number, SIGUSR1);
    assert_int_equal(tr_signals_wait(it->sys, signals, -1, &number),
                     TR_ETIMEDOUT);
    tr_signals_close(it->sys, signals);
    tr_signals_close(it->sys, NULL);
}

/* Each of several listeners is told of its own signals. */
static void check_several(place *it)
{
    tr_signals *both, *one;
    int number;

    assert_int_equal(tr_signals_open(it->sys, &both, SIGUSR1, SIGUSR2), TR_OK);
    assert_int_equal(tr_signals_open(it->sys, &one, SIGUSR2), TR_OK);
    send(it, SIGUSR2);
    assert_int_equal(tr_signals_wait(it->sys, both, LONG, &number), TR_OK);
    assert_int_equal(number, SIGUSR2);
    assert_int_equal(tr_signals_wait(it->sys, one, LONG, &number), TR_OK);
    send(it, SIGUSR1);
    assert_int_equal(tr_signals_wait(it->sys, both, LONG, &number), TR_OK);
    assert_int_equal(number, SIGUSR1);
    assert_int_equal(tr_signals_wait(it->sys, one, -1, &number), TR_ETIMEDOUT);
    tr_signals_close(it->sys, both);
    send(it, SIGUSR2);
    assert_int_equal(tr_signals_wait(it->sys, one, LONG, &number), TR_OK);
    tr_signals_close(it->sys, one);
}

static void check_errors(place *it)
{
    tr_signals *none;

    assert_int_equal(tr_signals_open(it->sys, &none, 0), TR_EINVAL);
    assert_null(none);
    assert_int_equal(tr_signals_open(it->sys, &none, SIGUSR1, 65), TR_EINVAL);
    assert_int_equal(__extension__(tr_signals_open)(it->sys, &none, NULL, 0),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(it->sys), "signals"));
}

static void test_outside_threads_wait_for_signals(void **state)
{
    (void)state;
    in_both_worlds(check_waiting);
    in_both_worlds(check_several);
    in_both_worlds(check_errors);
}

static void test_a_fault_cannot_be_waited_for(void **state)
{
    (void)state;
    static const int forbidden[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,
                                    SIGILL,  SIGTRAP, SIGABRT, SIGSYS};
    place it;
    tr_signals *none;

    place_open(&it, false);
    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
        assert_int_equal(tr_signals_open(it.sys, &none, SIGUSR1, forbidden[i]),
                         TR_EINVAL);
    }
    // Nothing is half taken.
    assert_ptr_equal(action_of(SIGUSR1).sa_handler, SIG_DFL);
    place_close(&it);
}

static void test_the_number_of_listeners_is_limited(void **state)
{
    (void)state;
    place it;
    tr_signals *signals[65];
    int number;
    uint32_t count = 0;
    tr_err err;

    place_open(&it, false);
    while ((err = tr_signals_open(it.sys, &signals[count], SIGUSR1)) == TR_OK) {
        assert_true(++count < 65);
    }
    assert_int_equal(err, TR_ELIMIT);
    assert_int_equal(count, 64);
    tr_signals_close(it.sys, signals[0]);
    assert_int_equal(tr_signals_open(it.sys, &signals[0], SIGUSR1), TR_OK);
    send(&it, SIGUSR1);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(tr_signals_wait(it.sys, signals[i], LONG, &number),
                         TR_OK);
        tr_signals_close(it.sys, signals[i]);
    }
    place_close(&it);
}

/* ---- what the signal did before ---- */

static volatile sig_atomic_t handled;

static void count_signal(int number)
{
    (void)number;
    handled++;
}

static void test_a_handler_of_the_program_comes_back(void **state)
{
    (void)state;
    place it;
    tr_signals *first, *second;
    int number;
    struct sigaction own = {.sa_handler = count_signal};

    handled = 0;
    assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
    place_open(&it, false);
    assert_int_equal(tr_signals_open(it.sys, &first, SIGUSR1), TR_OK);
    assert_int_equal(tr_signals_open(it.sys, &second, SIGUSR1), TR_OK);
    send(&it, SIGUSR1);
    assert_int_equal(tr_signals_wait(it.sys, first, LONG, &number), TR_OK);
    assert_int_equal(handled, 0);
    tr_signals_close(it.sys, first);
    assert_ptr_not_equal(action_of(SIGUSR1).sa_handler, count_signal);
    tr_signals_close(it.sys, second);
    assert_ptr_equal(action_of(SIGUSR1).sa_handler, count_signal);
    send(&it, SIGUSR1);
    assert_int_equal(handled, 1);
    place_close(&it);
    (void)signal(SIGUSR1, SIG_DFL);
}

/* A handler that the program has set meanwhile stays. */
static void test_a_later_handler_of_the_program_stays(void **state)
{
    (void)state;
    place it;
    tr_signals *signals;
    struct sigaction own = {.sa_handler = count_signal};

    place_open(&it, false);
    assert_int_equal(tr_signals_open(it.sys, &signals, SIGUSR1), TR_OK);
    assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
    tr_signals_close(it.sys, signals);
    assert_ptr_equal(action_of(SIGUSR1).sa_handler, count_signal);
    place_close(&it);
    (void)signal(SIGUSR1, SIG_DFL);
}

/* ---- in actors ---- */

TR_MESSAGE(Told, (int32_t, number));

/* Tells another actor of every signal. */
typedef struct Watcher {
    tr_ref to;
} Watcher;

static tr_err watcher_run(tr_ctx *ctx, Watcher *self)
{
    tr_signals *signals;
    int number;
    TR_TRY(tr_signals_open(ctx, &signals, SIGHUP, SIGTERM));
    tr_tell(ctx, self->to, Told, .number = 0);
    for (;;) {
        TR_TRY(tr_signals_wait(ctx, signals, 0, &number));
        tr_tell(ctx, self->to, Told, .number = number);
    }
}

TR_ACTOR(watcher, Watcher, TR_HOOK(on_run, watcher_run));

static void check_told(tr_probe *probe, int number)
{
    const Told *told = tr_expect(probe, LONG, Told);
    assert_int_equal(told->number, number);
}

static void check_actor(place *it)
{
    tr_probe *probe;
    assert_int_equal(tr_probe_new(&probe, it->sys), TR_OK);
    tr_ref ref = tr_spawn(it->sys, watcher, .joinable = true,
                          TR_INIT(watcher, .to = tr_probe_ref(probe)));

    check_told(probe, 0);
    send(it, SIGHUP);
    check_told(probe, SIGHUP);
    send(it, SIGTERM);
    check_told(probe, SIGTERM);
    tr_stop(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    // The actor had the signals; with its end they are as before.
    assert_ptr_equal(action_of(SIGTERM).sa_handler, SIG_DFL);
    tr_probe_free(probe);
}

static void test_an_actor_tells_of_signals(void **state)
{
    (void)state;
    in_both_worlds(check_actor);
}

/* ---- beside tr_system_run ---- */

static void *run_system(void *arg)
{
    (void)tr_system_run(arg);
    return NULL;
}

/* One SIGTERM ends tr_system_run and is told to the listener. */
static void test_a_run_and_a_listener_both_hear_of_sigterm(void **state)
{
    (void)state;
    for (int outside = 0; outside < 2; outside++) {
        place it;
        tr_signals *signals;
        pthread_t thread;
        sigset_t stop, before;
        int number;

        place_open(&it, false);
        assert_int_equal(tr_signals_open(it.sys, &signals, SIGTERM), TR_OK);
        // Blocked here, the signal goes to the thread in tr_system_run; else to
        // this one.
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        assert_int_equal(
            pthread_sigmask(outside ? SIG_UNBLOCK : SIG_BLOCK, &stop, &before),
            0);
        assert_int_equal(pthread_create(&thread, NULL, run_system, it.sys), 0);
        send(&it, SIGTERM);
        assert_int_equal(tr_signals_wait(it.sys, signals, LONG, &number),
                         TR_OK);
        assert_int_equal(number, SIGTERM);
        if (outside) {  // the run may have begun after the signal
            tr_system_terminate(it.sys);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
        tr_signals_close(it.sys, signals);
        place_close(&it);
        assert_ptr_equal(action_of(SIGTERM).sa_handler, SIG_DFL);
    }
}

/* ---- nodes of a simulation ---- */

typedef struct heard {
    uint32_t hups[2];
} heard;

typedef struct Node {
    uint32_t *hups;
} Node;

static tr_err node_run(tr_ctx *ctx, Node *self)
{
    tr_signals *signals;
    int number;
    TR_TRY(tr_signals_open(ctx, &signals, SIGHUP));
    for (;;) {
        TR_TRY(tr_signals_wait(ctx, signals, 0, &number));
        assert_int_equal(number, SIGHUP);
        *self->hups += 1;
    }
}

TR_ACTOR(node, Node, TR_HOOK(on_run, node_run));

static tr_err node_start(tr_system *sys, uint32_t index, void *user)
{
    heard *it = user;
    return tr_ref_err(
        tr_spawn(sys, node, TR_INIT(node, .hups = &it->hups[index])));
}

static tr_err send_signals(tr_sim *sim, void *user)
{
    const heard *it = user;
    tr_sim_advance(sim, TR_SECONDS(1));
    tr_sim_signal(sim, 1, SIGHUP);
    tr_sim_signal(sim, 1, SIGHUP);   // before it is told: told once
    tr_sim_signal(sim, 1, SIGUSR1);  // nobody has it
    tr_sim_advance(sim, TR_SECONDS(1));
    if (it->hups[0] != 0 || it->hups[1] != 1) {
        return tr_sim_fail(sim, "the wrong node was told");
    }
    tr_sim_kill(sim, 1, TR_SECONDS(1));
    tr_sim_advance(sim, TR_MS(500));
    tr_sim_signal(sim, 1, SIGHUP);  // nobody is there
    tr_sim_advance(sim, TR_SECONDS(5));
    tr_sim_signal(sim, 1, SIGHUP);
    tr_sim_signal(sim, 0, SIGHUP);
    tr_sim_advance(sim, TR_SECONDS(1));
    return it->hups[0] == 1 && it->hups[1] == 2
               ? TR_OK
               : tr_sim_fail(sim, "a signal after a kill was lost");
}

static void test_a_signal_reaches_one_simulated_node(void **state)
{
    (void)state;
    heard it = {0};
    tr_sim_options options = {.size = sizeof(options),
                              .seed = 1,
                              .node = node_start,
                              .nodes = 2,
                              .workload = send_signals,
                              .user = &it};
    assert_int_equal(tr_sim_run(&options), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_threads_wait_for_signals),
        cmocka_unit_test(test_a_fault_cannot_be_waited_for),
        cmocka_unit_test(test_the_number_of_listeners_is_limited),
        cmocka_unit_test(test_a_handler_of_the_program_comes_back),
        cmocka_unit_test(test_a_later_handler_of_the_program_stays),
        cmocka_unit_test(test_an_actor_tells_of_signals),
        cmocka_unit_test(test_a_run_and_a_listener_both_hear_of_sigterm),
        cmocka_unit_test(test_a_signal_reaches_one_simulated_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
