/*
 * lock.h - a spinlock of four bytes for sections of a few instructions.
 *
 * Rule: a thread that holds a tri_lock makes no system call, waits for nothing
 * and runs no user code. It may read and write memory, such as the links of a
 * list, and take further locks in the order that ARCHITECTURE.md lists.
 *
 * Reason: there is no queue of waiters and no fairness. A waiter spins with
 * growing pauses and then yields its CPU, because the holder may have been
 * preempted; each system call of the holder would cost every waiter that time.
 *
 * Instead: collect what needs a system call under the lock, drop the lock,
 * then make the call.
 *
 * A lock whose bytes are all zero is free. A thread must not take a lock that
 * it holds already: it would wait for itself for ever.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_LOCK_H
#define TRI_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

/* Tells the CPU that this thread spins. gcc has no built-in for aarch64. */
#if defined(__x86_64__)
#define TRI_CPU_RELAX() __builtin_ia32_pause()
#else
#define TRI_CPU_RELAX() __asm__ __volatile__("yield" ::: "memory")
#endif

typedef struct tri_lock {
    _Atomic(uint32_t) held;  // 0 or 1
} tri_lock;

_Static_assert(sizeof(tri_lock) == 4, "thousands of objects embed a lock");

/* Gives the CPU to another thread that can run. */
void tri_lock_yield(void);

/*
 * Waits until the lock is free and takes it. Out of line, because a loop in
 * each function that takes a lock would cost all of them registers.
 */
void tri_lock_wait(tri_lock *lock);

static inline void tri_lock_init(tri_lock *lock)
{
    // Relaxed: whoever shares the lock with other threads publishes this.
    atomic_store_explicit(&lock->held, 0, memory_order_relaxed);
}

/* Takes the lock if it is free. Returns true if the caller now holds it. */
static inline bool tri_lock_try(tri_lock *lock)
{
    // Relaxed: only decides whether the exchange is worth trying. A read
    // leaves the cache line shared while another thread holds the lock.
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0) {
        return false;
    }
    // Acquire: pairs with tri_lock_drop; sees what the last holder wrote.
    return atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

/* Takes the lock; waits until it is free. */
static inline void tri_lock_take(tri_lock *lock)
{
    // Acquire: pairs with tri_lock_drop; sees what the last holder wrote.
    if (TRI_LIKELY(atomic_exchange_explicit(&lock->held, 1,
                                            memory_order_acquire) == 0)) {
        return;
    }
    tri_lock_wait(lock);
}

/* True if a thread holds the lock; it cannot see which one. */
static inline bool tri_lock_is_held(tri_lock *lock)
{
    // Relaxed: if the caller holds the lock, it reads its own write.
    return atomic_load_explicit(&lock->held, memory_order_relaxed) == 1;
}

/*
 * Checks that the lock is held. On the fast path, right after it was taken:
 * TRI_CHECK_SLOW(tri_lock_is_held(lock)).
 */
static inline void tri_lock_assert_held(tri_lock *lock)
{
    TRI_CHECK(tri_lock_is_held(lock));
}

/* Frees the lock, which the caller must hold. */
static inline void tri_lock_drop(tri_lock *lock)
{
    tri_lock_assert_held(lock);
    // Release: pairs with the acquire of the next holder.
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
