/*
 * shrink.c - runs programs in processes of their own, and reduces one that
 * fails.
 *
 * A failing program is reduced by leaving out parts of its numbers, first
 * large ones, then single numbers, as long as it still fails. With real
 * threads a program does not fail every time, so a candidate is run as often
 * as the failure needs.
 */
#include "shrink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "trial.h"

enum {
    HANG_SECONDS = 120,    // of one program
    SHRINK_SECONDS = 300,  // of one reduction
    TRIES_MAX = 200,       // runs of one candidate
    REST_SECONDS = 3,      // of a candidate
    CERTAIN = 3,           // times the runs that one failure took
};

/* Written by the child, read by the parent. */
typedef struct progress {
    volatile uint64_t seed;
    volatile uint32_t runs;
    char rule[BROKEN_SIZE];  // that was broken
} progress;

static void run_child(const batch *b, progress *at)
{
    static plan p;

    if (b->silent) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    for (uint64_t seed = b->first; seed < b->first + b->count; seed++) {
        for (uint32_t i = 0; i < b->repeat; i++) {
            at->seed = seed;
            at->runs++;
            plan_make(&p, seed, b->mode, b->without);
            p.rest_seconds = b->rest_seconds;
            p.log = b->log;
            trial_run(&p);
        }
    }
    exit(0);  // with the leak check of the address sanitizer
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Waits for the child; ends it if it makes no progress. Returns its status. */
static int watch_child(pid_t pid, const progress *at, bool *hung)
{
    uint32_t runs = 0;
    time_t since = seconds();
    int status = 0;

    *hung = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (at->runs != runs) {
            runs = at->runs;
            since = seconds();
        } else if (seconds() - since > HANG_SECONDS) {
            *hung = true;
            kill(pid, SIGABRT);
            since = seconds();
        }
        // Between two looks: a child that hangs makes no event.
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return status;
}

bool batch_run(const batch *b, uint64_t *failed, char how[64])
{
    static progress *at;
    bool hung;

    if (at == NULL) {
        at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    at->seed = b->first;
    at->runs = 0;
    at->rule[0] = '\0';
    broken_rule = at->rule;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run_child(b, at);
    }
    int status = watch_child(pid, at, &hung);
    *failed = at->seed;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    if (at->rule[0] != '\0') {
        snprintf(how, 64, "%s", at->rule);
    } else if (hung) {
        snprintf(how, 64, "it does not end within %d s", HANG_SECONDS);
    } else if (WIFSIGNALED(status)) {
        snprintf(how, 64, "signal %d", WTERMSIG(status));
    } else {
        snprintf(how, 64, "exit status %d", WEXITSTATUS(status));
    }
    return false;
}

/* Runs a candidate at most `tries` times; true if it fails in the same way. */
static bool fails(uint64_t seed, mode m, const without *w, uint32_t tries,
                  const char *same)
{
    uint64_t at;
    char how[64];
    batch b = {.first = seed,
               .count = 1,
               .repeat = tries,
               .mode = m,
               .without = w,
               .rest_seconds = REST_SECONDS,
               .silent = true};

    return !batch_run(&b, &at, how) && strcmp(how, same) == 0;
}

/* Returns how many runs a candidate needs to fail almost certainly. */
static uint32_t tries_for(uint64_t seed, mode m, const without *w,
                          const char *same)
{
    uint32_t runs = 0;

    if (m == MODE_SIM) {
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t some = 1;
        while (some < TRIES_MAX && !fails(seed, m, w, some, same)) {
            runs += some;
            some *= 2;
        }
        runs++;
    }
    runs = runs / 4 * CERTAIN + 2;
    return runs < TRIES_MAX ? runs : TRIES_MAX;
}

void shrink(uint64_t seed, mode m, without *w, const char *same)
{
    static plan p;
    static without candidate;
    time_t end = seconds() + SHRINK_SECONDS;

    plan_make(&p, seed, m, w);
    uint32_t tries = tries_for(seed, m, w, same);
    for (uint32_t size = p.numbers / 2u; size > 0; size /= 2) {
        for (uint32_t from = 0; from < p.numbers; from += size) {
            bool changes = false;
            candidate = *w;
            for (uint32_t i = from; i < from + size && i < p.numbers; i++) {
                changes |= !candidate.out[i];
                candidate.out[i] = true;
            }
            if (changes && seconds() < end &&
                fails(seed, m, &candidate, tries, same)) {
                *w = candidate;
            }
        }
    }
}
