/*
 * lock.c - how a thread waits for a lock, and gives its CPU away.
 */
#include "base/lock.h"

#include <sched.h>

/*
 * Pauses double from 1 to 2^DOUBLINGS, a few microseconds in all: much longer
 * than any section the lock is meant for. A holder that takes longer has
 * probably lost its CPU, so the waiter yields from then on.
 */
enum { DOUBLINGS = 6 };

void tri_lock_yield(void)
{
    (void)sched_yield();
}

void tri_lock_wait(tri_lock *lock)
{
    uint32_t round = 0;
    do {
        if (round == DOUBLINGS) {
            tri_lock_yield();
        } else {
            for (uint32_t i = 0; i < UINT32_C(1) << round; i++) {
                TRI_CPU_RELAX();
            }
            round++;
        }
    } while (!tri_lock_try(lock));
}
