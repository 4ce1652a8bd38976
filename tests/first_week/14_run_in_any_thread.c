/*
 * 14_run_in_any_thread.c - SIGTERM and SIGINT end tr_system_run in whatever
 * thread it was called; they do not kill the process.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>

#include <troupe/troupe.h>

enum { LOOKS = 5000 };  // at the disposition, one each millisecond

static void *run(void *arg)
{
    return tr_system_run(arg) == TR_OK ? arg : NULL;
}

/* Waits until the signal would not kill the process, for some seconds. */
static void await_handler(int number)
{
    struct sigaction now = {.sa_handler = SIG_DFL};
    for (int i = 0; i < LOOKS && now.sa_handler == SIG_DFL; i++) {
        sigaction(number, NULL, &now);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Runs a system in a thread, gets the signal, closes; the exit status is 0. */
static void child_process(int number)
{
    tr_system *sys;
    pthread_t thread;
    void *result = NULL;
    if (tr_system_open(&sys) != TR_OK ||
        pthread_create(&thread, NULL, run, sys) != 0) {
        _exit(2);
    }
    await_handler(number);
    kill(getpid(), number);
    pthread_join(thread, &result);
    struct sigaction after;
    sigaction(number, NULL, &after);
    _exit(result != sys || after.sa_handler != SIG_DFL ||
          tr_system_close(sys, 0) != TR_OK);
}

static void survives(int number)
{
    pid_t pid = fork();
    if (pid == 0) {
        child_process(number);
    }
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_first_week_14_a_signal_ends_run_in_any_thread(void **state)
{
    (void)state;
    survives(SIGTERM);
    survives(SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_14_a_signal_ends_run_in_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
