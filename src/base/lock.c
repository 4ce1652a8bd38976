/*
 * lock.c - how a thread that waits for a lock gives its CPU away.
 */
#include "base/lock.h"

#include <sched.h>

void tri_lock_yield(void)
{
    (void)sched_yield();
}
