/*
 * bank.c - the demo: a bank on a cluster whose nodes are killed, leave and join
 * again, and that loses no cent.
 *
 *   bank [seconds]
 *
 * Environment: SECONDS; KEEP=1 runs until Ctrl-C; STORE=sqlite or postgres;
 * ACCOUNTS, BRANCHES, TELLERS; SEED; SIM=1 runs the same bank on simulated
 * nodes, where the seed decides everything, SEEDS=n that many seeds, in shorter
 * runs; VERBOSE=1 shows the log.
 * The exit status is 0 only if every promise was kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum {
    SECONDS_DEFAULT = 32,
    SECONDS_SIMULATED = 60,
    SECONDS_OF_A_SEED = 15,  // with SEEDS
    SECONDS_MAX = 1000000,
    ACCOUNTS_DEFAULT = 2000,
    ACCOUNTS_SIMULATED = 300,
    ACCOUNTS_OF_A_SEED = 40,
    BRANCHES_DEFAULT = 8,
    BRANCHES_SIMULATED = 2,
    TELLERS_DEFAULT = 8,
    TELLERS_OF_A_SEED = 2,
    COUNT_MAX = 1000,
    SEEDS_MAX = 1000000,
};

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

static uint32_t count(const char *name, const char *text, uint64_t fallback,
                      uint64_t least, uint64_t most)
{
    uint64_t value = number(name, text, fallback);
    if (value < least || value > most) {
        fprintf(stderr, "bank: %s must be %" PRIu64 " to %" PRIu64 "\n", name,
                least, most);
        exit(2);
    }
    return (uint32_t)value;
}

static bool is_set(const char *name)
{
    return number(name, getenv(name), 0) != 0;
}

/* True for STORE=postgres; any other value than sqlite is an error. */
static bool wants_postgres(void)
{
    const char *store = getenv("STORE");
    if (store == NULL || *store == '\0' || strcmp(store, "sqlite") == 0) {
        return false;
    }
    if (strcmp(store, "postgres") != 0) {
        fprintf(stderr, "bank: STORE must be sqlite or postgres\n");
        exit(2);
    }
    return true;
}

typedef struct Defaults {
    uint32_t seconds, accounts, branches, tellers;
} Defaults;

static Defaults defaults_of(bool simulated, uint32_t seeds)
{
    if (!simulated) {
        return (Defaults){SECONDS_DEFAULT, ACCOUNTS_DEFAULT, BRANCHES_DEFAULT,
                          TELLERS_DEFAULT};
    }
    return seeds == 1 ? (Defaults){SECONDS_SIMULATED, ACCOUNTS_SIMULATED,
                                   BRANCHES_SIMULATED, TELLERS_DEFAULT}
                      : (Defaults){SECONDS_OF_A_SEED, ACCOUNTS_OF_A_SEED,
                                   BRANCHES_SIMULATED, TELLERS_OF_A_SEED};
}

static Bank read_bank(bool simulated, const Defaults *defaults)
{
    return (Bank){
        .accounts = count("ACCOUNTS", getenv("ACCOUNTS"), defaults->accounts, 2,
                          BANK_ACCOUNTS_MAX),
        .branches = count("BRANCHES", getenv("BRANCHES"), defaults->branches, 1,
                          COUNT_MAX),
        .tellers = count("TELLERS", getenv("TELLERS"), defaults->tellers, 1,
                         COUNT_MAX),
        .seed = number("SEED", getenv("SEED"), 1),
        // On virtual time work takes no time, so the tellers pause.
        .think = simulated ? TR_MS(50) : 0,
        .watch = simulated ? TR_SECONDS(1) : TR_MS(50),
    };
}

static Options read_options(int argc, char **argv)
{
    bool simulated = is_set("SIM");
    uint32_t seeds = count("SEEDS", getenv("SEEDS"), 1, 1, SEEDS_MAX);
    const char *seconds = argc > 1 ? argv[1] : getenv("SECONDS");
    if (argc > 2) {
        fprintf(stderr, "usage: %s [seconds]\n", argv[0]);
        exit(2);
    }
    Defaults defaults = defaults_of(simulated, seeds);
    uint32_t span = count("SECONDS", seconds, defaults.seconds, 1, SECONDS_MAX);
    return (Options){
        .bank = read_bank(simulated, &defaults),
        .duration = is_set("KEEP") ? TR_FOREVER : TR_SECONDS(span),
        .simulated = simulated,
        .seeds = seeds,
        .postgres = wants_postgres(),
        .verbose = is_set("VERBOSE"),
    };
}

int main(int argc, char **argv)
{
    Options options = read_options(argc, argv);
    return options.simulated ? bank_simulated(&options)
                             : bank_on_processes(&options);
}
