/*
 * lock.h - a lock of four bytes for sections of a few instructions.
 *
 * A waiter spins with growing pauses and then gives its CPU away, because the
 * holder may have been preempted. There is no queue, so there is no fairness:
 * hold it for list surgery, never over a wait, user code or a system call.
 *
 * All zero is unlocked. A thread must not lock what it holds already.
 */
#ifndef TRI_BASE_LOCK_H
#define TRI_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

/* Tells the core that it is spinning. gcc has no built-in for aarch64. */
#if defined(__x86_64__)
#define TRI_CPU_RELAX() __builtin_ia32_pause()
#else
#define TRI_CPU_RELAX() __asm__ __volatile__("yield" ::: "memory")
#endif

/*
 * Pauses double from 1 to 2^TRI_LOCK_DOUBLINGS, some microseconds in all: far
 * longer than any section the lock is meant for. After that a holder without
 * a CPU is the likely cause, and spinning on only keeps it waiting.
 */
#define TRI_LOCK_DOUBLINGS 6

typedef struct tri_lock {
    _Atomic(uint32_t) held;  // 0 or 1
} tri_lock;

_Static_assert(sizeof(tri_lock) == 4, "a lock is embedded by the thousand");

/* Gives the CPU to another thread; world_posix.c has it. */
void tri_lock_yield(void);

static inline void tri_lock_init(tri_lock *lock)
{
    // Relaxed: whoever hands the lock to other threads publishes this.
    atomic_store_explicit(&lock->held, 0, memory_order_relaxed);
}

/* Takes the lock if it is free; says whether it did. */
static inline bool tri_lock_try(tri_lock *lock)
{
    // Relaxed: a glance that keeps the line shared while another holds it.
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0) {
        return false;
    }
    // Acquire: pairs with tri_lock_drop; sees all the last holder wrote.
    return atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

static inline void tri_lock_take(tri_lock *lock)
{
    // Acquire: pairs with tri_lock_drop; sees all the last holder wrote.
    if (TRI_LIKELY(atomic_exchange_explicit(&lock->held, 1,
                                            memory_order_acquire) == 0)) {
        return;
    }
    uint32_t round = 0;
    do {
        if (round == TRI_LOCK_DOUBLINGS) {
            tri_lock_yield();
        } else {
            for (uint32_t i = 0; i < UINT32_C(1) << round; i++) {
                TRI_CPU_RELAX();
            }
            round++;
        }
    } while (!tri_lock_try(lock));
}

/* Somebody holds the lock; that it is the caller cannot be seen. */
static inline void tri_lock_assert_held(tri_lock *lock)
{
    // Relaxed: if the caller holds it, its own write is what it reads.
    TRI_CHECK(atomic_load_explicit(&lock->held, memory_order_relaxed) == 1);
}

static inline void tri_lock_drop(tri_lock *lock)
{
    tri_lock_assert_held(lock);
    // Release: pairs with the exchange of the next holder.
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
