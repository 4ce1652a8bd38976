/*
 * check.h - checks that stay on in release builds, and the few macros that
 * every file may use.
 *
 * A check guards against a programmer's error: a broken invariant, a NULL
 * where none is allowed. What can go wrong from outside is a tr_err instead.
 *
 * Threads: everything here may be used from any thread.
 */
#ifndef TRI_BASE_CHECK_H
#define TRI_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

#define TRI_LIKELY(cond)   __builtin_expect(!!(cond), 1)
#define TRI_UNLIKELY(cond) __builtin_expect(!!(cond), 0)

/* Names the failed condition with file:line on stderr and aborts. */
#define TRI_CHECK(cond)                                                        \
    (TRI_LIKELY(cond) ? (void)0 : tr_abort(TR_HERE, "check failed: " #cond))

/*
 * For checks that cost more than the code they guard: debug and torture
 * builds only. Elsewhere the condition is compiled but not evaluated.
 */
#if !defined(NDEBUG) || defined(TRI_TORTURE)
#define TRI_SLOW_CHECKS      1
#define TRI_CHECK_SLOW(cond) TRI_CHECK(cond)
#else
#define TRI_CHECK_SLOW(cond) ((void)sizeof(!(cond)))
#endif

/*
 * What two threads write must be this far apart. The same on x86-64 and on
 * the aarch64 cores we meet; those that fetch pairs of lines only lose speed.
 */
#define TRI_CACHE_LINE 64

/* The object of this type whose member is at `pointer`. */
#define tri_container_of(pointer, type, member)                                \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

#define TRI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Of unsigned 64-bit numbers; each argument is evaluated once. */
#define TRI_MIN(a, b) tri_min(a, b)
#define TRI_MAX(a, b) tri_max(a, b)

static inline uint64_t tri_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tri_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
