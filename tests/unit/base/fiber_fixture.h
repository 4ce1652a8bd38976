/*
 * fiber_fixture.h - a thread with a pool of fibers, for the tests of fibers.
 *
 * With TRI_TEST_BARE the tests do not need cmocka, so that they can be compiled
 * for another CPU and run under an emulator: `-DTRI_TEST_BARE -static -pthread`.
 */
#ifndef TEST_BASE_FIBER_FIXTURE_H
#define TEST_BASE_FIBER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/fiber.h"

#ifdef TRI_TEST_BARE
#define EXPECT(cond) TRI_CHECK(cond)
#define TEST(name)   ((bare_test){#name, name})

typedef struct bare_test {
    const char *name;
    void (*run)(void **state);
} bare_test;

static inline int run_all(const char *group, const bare_test *tests,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("%s: %s\n", group, tests[i].name);
        tests[i].run(NULL);
    }
    printf("%zu passed, 0 failed\n", count);
    return 0;
}
#else
#include <cmocka.h>

#define EXPECT(cond) assert_true(cond)
#define TEST(name)   cmocka_unit_test(name)

typedef struct CMUnitTest bare_test;

#define run_all(group, tests, count)                                           \
    ((void)(count), cmocka_run_group_tests_name(group, tests, NULL, NULL))
#endif

#define PLENTY                                                                 \
    (1000 + 16 * TRI_FIBER_SPARE_MAX)  // more fibers than a test uses

#if TRI_FIBER_ASAN
/* Frames then live on fake stacks, of which each fiber needs its own. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=1";
}
#endif

/* A thread with a pool; each fiber runs job(fixture) in a loop. */
typedef struct fixture {
    tri_fiber thread;
    tri_fiber_pool pool;
    _Atomic(uint32_t) live;
    tri_fiber *running;
    void (*job)(struct fixture *fixture);
    uint64_t steps;
    void *arg;
} fixture;

/* The loop of a worker in small: it never returns. */
static inline void fixture_entry(void *arg)
{
    fixture *b = arg;

    for (;;) {
        b->job(b);
        tri_fiber_switch(b->running, &b->thread);
    }
}

static inline void fixture_init(fixture *b, void (*job)(fixture *b))
{
    memset(b, 0, sizeof(*b));
    b->job = job;
    tri_fiber_thread_init(&b->thread);
    tri_fiber_pool_init(&b->pool, 0, PLENTY, &b->live, fixture_entry, b);
}

static inline void fixture_fini(fixture *b)
{
    tri_fiber_pool_fini(&b->pool);
    EXPECT(b->live == 0);
    tri_fiber_thread_fini(&b->thread);
}

/* The same with one fiber taken. */
static inline tri_fiber *fixture_init_one(fixture *b, void (*job)(fixture *b))
{
    fixture_init(b, job);
    tri_fiber *fiber = tri_fiber_take(&b->pool);

    EXPECT(fiber != NULL);
    return fiber;
}

static inline void fixture_fini_one(fixture *b, tri_fiber *fiber)
{
    tri_fiber_give(&b->pool, fiber);
    fixture_fini(b);
}

static inline void take_all(tri_fiber_pool *pool, tri_fiber **taken,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        taken[i] = tri_fiber_take(pool);
        TRI_CHECK(taken[i] != NULL);
    }
}

static inline void give_all(tri_fiber_pool *pool, tri_fiber **taken,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tri_fiber_give(pool, taken[i]);
    }
}

static inline void resume(fixture *b, tri_fiber *fiber)
{
    b->running = fiber;
    tri_fiber_switch(&b->thread, fiber);
}

static inline void suspend(fixture *b)
{
    tri_fiber_switch(b->running, &b->thread);
}

static inline void job_count(fixture *b)
{
    b->steps++;
}

#endif
