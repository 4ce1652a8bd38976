/*
 * check.h - checks that stay on in release builds, and a few macros for every
 * file.
 *
 * A check guards against an error of the programmer, such as a broken invariant
 * or a NULL that the contract forbids. A failure that input or the system can
 * cause is a tr_err instead.
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

/* Aborts if `cond` is false, after writing it and its file:line to stderr. */
#define TRI_CHECK(cond)                                                        \
    (TRI_LIKELY(cond) ? (void)0 : tr_abort(TR_HERE, "check failed: " #cond))

/*
 * For checks that cost more than the code they guard: evaluated in debug and
 * torture builds, only compiled in others.
 */
#if !defined(NDEBUG) || defined(TRI_TORTURE)
#define TRI_SLOW_CHECKS      1
#define TRI_CHECK_SLOW(cond) TRI_CHECK(cond)
#else
#define TRI_CHECK_SLOW(cond) ((void)sizeof(!(cond)))
#endif

/*
 * Bytes that two threads write are this far apart, so that they do not share a
 * cache line. The size on x86-64 and on common aarch64 cores; cores that fetch
 * lines in pairs run correctly, only slower.
 */
#define TRI_CACHE_LINE 64

/* Returns the object of type `type` whose `member` is at `pointer`. */
#define tri_container_of(pointer, type, member)                                \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

#define TRI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* For unsigned 64-bit numbers; each argument is evaluated once. */
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
