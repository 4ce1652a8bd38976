/*
 * shrink.h - runs programs in processes of their own, and reduces one that
 * fails.
 */
#ifndef TROUPE_RANDOM_SHRINK_H
#define TROUPE_RANDOM_SHRINK_H

#include "plan.h"

/* Programs that one process runs, one after the other. */
typedef struct batch {
    uint64_t first;
    uint32_t count;   // seeds
    uint32_t repeat;  // runs of each
    mode mode;
    const without *without;
    uint32_t rest_seconds;  // how long a program may take to come to rest
    bool log;               // the log of the systems is printed
    bool silent;            // what the process prints is thrown away
} batch;

/*
 * Runs a batch. Returns true if all programs passed; otherwise *failed is the
 * seed that was run when the process ended, and *how says how it ended.
 */
bool batch_run(const batch *b, uint64_t *failed, char how[64]);

/* Leaves out of *w all that a failure of the kind `same` does not need. */
void shrink(uint64_t seed, mode m, without *w, const char *same);

#endif
