/*
 * few_seeds.h - runs a scenario with a few seeds if it has no arguments.
 *
 * The test run uses a few seeds of each scenario, `make sim` many. The main
 * function of a scenario calls few_seeds in place of tr_sim_main.
 */
#ifndef TROUPE_TESTS_FEW_SEEDS_H
#define TROUPE_TESTS_FEW_SEEDS_H

#include <stdio.h>
#include <stdlib.h>

#include <troupe/sim.h>

/* Fewer under TSan, which finds little in the single thread of a run. */
#if defined(__SANITIZE_THREAD__)
#define FEW_SHARE 8
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FEW_SHARE 8
#endif
#endif
#ifndef FEW_SHARE
#define FEW_SHARE 1
#endif

/* `few`: the number of seeds, as text. Returns an exit status. */
static inline int few_seeds(int argc, char **argv, const char *few,
                            const tr_sim_options *options)
{
    char seeds[] = "--seeds", count[16];
    char *args[] = {argv[0], seeds, count, NULL};

    if (argc > 1) {
        return tr_sim_main(argc, argv, options);
    }
    int number = atoi(few) / FEW_SHARE;
    snprintf(count, sizeof(count), "%d", number > 0 ? number : 1);
    return tr_sim_main(3, args, options);
}

#endif
