/*
 * bank.c - the demo: a bank under load whose tellers fail, and no cent is lost.
 *
 *   bank [seconds]
 *
 * Environment: BANK_SECONDS, ACCOUNTS, BRANCHES, TELLERS; KEEP=1 stays until
 * Ctrl-C; SEED; SIM=1 runs the same bank on virtual time, where the seed
 * decides everything; VERBOSE=1 shows the log. The exit status is 0 only if
 * every invariant held (director.c).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bank.h"

enum {
    SECONDS_DEFAULT = 20,
    SECONDS_SIMULATED = 60,
    ACCOUNTS_DEFAULT = 10000,
    BRANCHES_DEFAULT = 8,
    TELLERS_DEFAULT = 8,
    COUNT_MAX = 1000000,
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;  // the second one ends the process: SA_RESETHAND
}

static bool asked_to_end(void)
{
    return interrupted;
}

static void listen_to_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- options ---- */

static uint64_t number(const char *name, const char *text, uint64_t fallback)
{
    if (text == NULL || *text == '\0') {
        return fallback;
    }
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*end != '\0' || *text == '-') {
        fprintf(stderr, "bank: %s is not a number: %s\n", name, text);
        exit(2);
    }
    return value;
}

static uint32_t count(const char *name, uint64_t fallback, uint64_t least)
{
    uint64_t value = number(name, getenv(name), fallback);
    if (value < least || value > COUNT_MAX) {
        fprintf(stderr, "bank: %s must be %" PRIu64 " to %d\n", name, least,
                COUNT_MAX);
        exit(2);
    }
    return (uint32_t)value;
}

static bool is_set(const char *name)
{
    return number(name, getenv(name), 0) != 0;
}

static Bank read_options(int argc, char **argv, bool simulated)
{
    const char *seconds = argc > 1 ? argv[1] : getenv("BANK_SECONDS");
    if (argc > 2) {
        fprintf(stderr, "usage: %s [seconds]\n", argv[0]);
        exit(2);
    }
    Bank bank = {
        .accounts = count("ACCOUNTS", ACCOUNTS_DEFAULT, 2),
        .branches = count("BRANCHES", BRANCHES_DEFAULT, 1),
        .tellers = count("TELLERS", TELLERS_DEFAULT, 1),
        .seed = number("SEED", getenv("SEED"), 1),
        .duration = is_set("KEEP")
                        ? TR_FOREVER
                        : TR_SECONDS((int64_t)number(
                              "seconds", seconds,
                              simulated ? SECONDS_SIMULATED : SECONDS_DEFAULT)),
        // On virtual time work takes none, so somebody has to pause.
        .think = simulated ? TR_MS(5) : 0,
        .terminal = isatty(STDOUT_FILENO) == 1,
        .asked_to_end = asked_to_end,
    };
    bank.refs = calloc(bank.accounts, sizeof(tr_ref));
    if (bank.refs == NULL) {
        tr_abort(TR_HERE, "out of memory");
    }
    return bank;
}

/* ---- running ---- */

/* True if every invariant held. */
static bool run(const Bank *bank, const void *world)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .name = "bank", .world = world,
                           .log_level = is_set("VERBOSE") ? TR_LOG_DEBUG
                                                          : TR_LOG_ERROR));
    tr_ref ref = tr_spawn(sys, director, .name = "director", .joinable = true,
                          TR_INIT(director, .bank = bank),
                          .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    Director last = {0};
    tr_result result;
    TR_MUST(tr_join(sys, ref, TR_FOREVER, &result, &last));
    if (result.reason != TR_STOPPED) {
        printf("the director failed: %s %s\n", tr_errname(result.err),
               result.text);
    }
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(sys, TR_SECONDS(30), &report);
    bool closed = err == TR_OK && report.forced == 0;
    printf("  %-4s the system closed in time\n", closed ? "yes" : "NO");
    return last.right && closed;
}

static bool run_simulated(const Bank *bank)
{
    tr_sim *sim;
    TR_MUST(tr_sim_new(&sim, bank->seed));
    printf("simulated, seed %" PRIu64 ": times are virtual\n", bank->seed);
    bool right = run(bank, tr_sim_world(sim));
    printf("%" PRIu64 " steps, trace %016" PRIx64
           ": the same in every run with this seed\n",
           tr_sim_steps(sim), tr_sim_trace_hash(sim));
    tr_sim_free(sim);
    return right;
}

int main(int argc, char **argv)
{
    bool simulated = is_set("SIM");
    Bank bank = read_options(argc, argv, simulated);
    listen_to_signals();
    bool right = simulated ? run_simulated(&bank) : run(&bank, NULL);
    free(bank.refs);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
