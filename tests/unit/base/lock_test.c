/*
 * lock_test.c - the lock excludes other threads, and a waiter gets it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct shared {
    tri_lock lock;
    uint64_t count;  // not atomic: only the lock protects it
    uint64_t twin;   // always equal to count outside the lock
} shared;

static void *count_up(void *arg)
{
    shared *data = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 != 0 || !tri_lock_try(&data->lock)) {
            tri_lock_take(&data->lock);
        }
        tri_lock_assert_held(&data->lock);
        TRI_CHECK(data->count == data->twin);
        data->count++;
        data->twin++;
        tri_lock_drop(&data->lock);
    }
    return NULL;
}

static void test_try_fails_while_held(void **state)
{
    (void)state;
    tri_lock lock;

    tri_lock_init(&lock);
    assert_true(tri_lock_try(&lock));
    assert_false(tri_lock_try(&lock));
    tri_lock_assert_held(&lock);
    tri_lock_drop(&lock);
    tri_lock_take(&lock);
    assert_false(tri_lock_try(&lock));
    tri_lock_drop(&lock);
    assert_true(tri_lock_try(&lock));
}

static void test_excludes_threads(void **state)
{
    (void)state;
    shared data = {0};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &data), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(data.count, THREADS * ROUNDS);
    assert_int_equal(data.twin, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try_fails_while_held),
        cmocka_unit_test(test_excludes_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
