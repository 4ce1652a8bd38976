/*
 * cluster_test.c - threads that need virtual actors of one system at the same
 * time, for the first time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include <troupe/troupe.h>

#include "cluster/virtual/catalog.h"

enum { THREADS = 4, ROUNDS = 50, WORKERS = 3 };

TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Get, Sum);

static tr_err on_get(tr_ctx *ctx, void *self, const Get *q)
{
    (void)self;
    return tr_reply(ctx, q, .value = 1);
}

TR_ACTOR(zero, void, TR_ON(Get, on_get));
TR_ACTOR(one, void, TR_ON(Get, on_get));
TR_ACTOR(two, void, TR_ON(Get, on_get));
TR_ACTOR(three, void, TR_ON(Get, on_get));

static const tr_actor_def *const kinds[THREADS] = {&zero, &one, &two, &three};

static tr_system *sys;
static pthread_barrier_t start;

typedef struct result {
    uint32_t thread;
    tr_err hosted;
    tr_ref shared;  // a name that all threads ask for
} result;

static void *use(void *user)
{
    result *r = user;
    pthread_barrier_wait(&start);
    tr_host_options o = {.size = sizeof(o), .workers = WORKERS};
    r->shared = tr_virtual(sys, "zero", "shared");
    r->hosted = (tr_host)(sys, kinds[r->thread], &o);
    return NULL;
}

/* There is one cluster, one sweeper, one record: all get the same ref. */
static void test_threads_make_one_cluster(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        result results[THREADS];
        TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = TR_LOG_ERROR));
        assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
        for (uint32_t i = 0; i < THREADS; i++) {
            results[i] = (result){.thread = i};
            assert_int_equal(
                pthread_create(&threads[i], NULL, use, &results[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(results[i].hosted, TR_OK);
            assert_true(tr_ref_eq(results[i].shared, results[0].shared));
        }
        Sum sum;
        assert_int_equal(tr_ask(sys, results[0].shared, &sum, 0, Get), TR_OK);
        pthread_barrier_destroy(&start);
        tri_catalog_check(sys, 0, TRI_SHARDS);
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_make_one_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
