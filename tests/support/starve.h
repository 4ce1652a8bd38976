/*
 * starve.h - makes the n-th allocation of a thread fail.
 *
 * Included by a test program, once: it defines malloc, calloc, realloc and
 * aligned_alloc for the whole process (strdup calls them, too). All calls but
 * the chosen one go to the C library, or to the sanitizer that replaces it.
 * Memory of tri_mem_* has a hook of its own with the same effect; this header
 * also reaches allocations before there is a system, and those of other
 * libraries.
 *
 *     for (n = 0;; n++) {
 *         starve_arm(n);
 *         scenario();
 *         if (!starve_end()) break;
 *     }
 *
 * Threads: only calls of the thread that armed it are counted. TSan calls
 * malloc too early for another definition of it: under TSan nothing fails, and
 * the scenario runs once. ASan finds the memory errors.
 */
#ifndef TEST_SUPPORT_STARVE_H
#define TEST_SUPPORT_STARVE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static _Thread_local int64_t starve_left;  // 0: not armed; 1: the next fails
static _Thread_local bool starve_failed;

static inline void starve_arm(int64_t n)
{
    starve_failed = false;
    starve_left = n + 1;
}

/* Disarms it; returns true if a call has failed. */
static inline bool starve_end(void)
{
    starve_left = 0;
    return starve_failed;
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if !defined(__SANITIZE_THREAD__) && !__has_feature(thread_sanitizer)
#define STARVE_WORKS 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);
/* Defined under a sanitizer, whose free expects memory of these. */
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *at, size_t size) __attribute__((weak));
void *__interceptor_aligned_alloc(size_t align, size_t size)
    __attribute__((weak));

static bool starve_now(void)
{
    if (starve_left == 0 || --starve_left > 0) {
        return false;
    }
    starve_failed = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return starve_now()                   ? NULL
           : __interceptor_malloc != NULL ? __interceptor_malloc(size)
                                          : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return starve_now()                   ? NULL
           : __interceptor_calloc != NULL ? __interceptor_calloc(count, size)
                                          : __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
    return starve_now()                    ? NULL
           : __interceptor_realloc != NULL ? __interceptor_realloc(at, size)
                                           : __libc_realloc(at, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return starve_now() ? NULL
           : __interceptor_aligned_alloc != NULL
               ? __interceptor_aligned_alloc(align, size)
               : __libc_memalign(align, size);
}

#else
#define STARVE_WORKS 0
#endif

#endif
