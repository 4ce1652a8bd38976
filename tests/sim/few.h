/*
 * few.h - what a scenario does when it is given no arguments.
 *
 * The tests run each scenario with a few seeds; `make sim` gives it more. A
 * scenario's main ends with few_seeds instead of tr_sim_main.
 */
#ifndef TROUPE_TESTS_FEW_H
#define TROUPE_TESTS_FEW_H

#include <troupe/sim.h>

/* `few` is the number of seeds as text. Returns an exit status. */
static inline int few_seeds(int argc, char **argv, const char *few,
                            const tr_sim_options *options)
{
    char seeds[] = "--seeds", count[16] = "1";
    char *args[] = {argv[0], seeds, count, NULL};

    if (argc > 1) {
        return tr_sim_main(argc, argv, options);
    }
    for (size_t i = 0; i + 1 < sizeof(count) && (i == 0 || few[i - 1]); i++) {
        count[i] = few[i];
    }
    return tr_sim_main(3, args, options);
}

#endif
