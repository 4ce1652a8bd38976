/*
 * flood_stress.c - a producer that loops inside one handler against slower
 * consumers: the memory stays bounded and the order is kept.
 *
 * 100 million messages at scale 1; the resident memory must grow by less than
 * 100 MB, without the shadow memory of sanitizers.
 */
#include "support/stage.h"

#include <stdatomic.h>
#include <stdio.h>

#include "support/core.h"

enum { MAPPED_MAX = 100 << 20 };

TR_MESSAGE(Drop, (uint64_t, number));
TR_MESSAGE(Pour, (uint64_t, count), (tr_ref, to));

typedef struct flood {
    tr_system *sys;
    _Atomic(uint64_t) received, disorder;
} flood;

typedef struct bucket {
    flood *flood;
    uint64_t next;
} bucket;

static tr_err on_drop(tr_ctx *ctx, bucket *self, const Drop *m)
{
    (void)ctx;
    if (m->number != self->next++) {
        atomic_fetch_add(&self->flood->disorder, 1);
    }
    // A little work, so that the consumer is slower than the producer.
    for (volatile int i = 0; i < 20; i++) {
    }
    atomic_store_explicit(
        &self->flood->received,
        atomic_load_explicit(&self->flood->received, memory_order_relaxed) + 1,
        memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(buckets, bucket, TR_ON(Drop, on_drop));

static tr_err on_pour(tr_ctx *ctx, bucket *self, const Pour *m)
{
    (void)self;
    for (uint64_t i = 0; i < m->count; i++) {
        tr_tell(ctx, m->to, Drop, .number = i);
    }
    tr_poison(ctx, m->to);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(taps, bucket, TR_ON(Pour, on_pour));

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void pour(uint32_t workers, uint64_t count)
{
    flood it = {0};
    expect_ok(tr_system_open(&it.sys, .log = no_log, .workers = workers));
    tr_ref to = tr_spawn(it.sys, buckets, TR_INIT(buckets, .flood = &it),
                         .joinable = true);
    tr_ref tap = tr_spawn(it.sys, taps, TR_INIT(taps, .flood = &it));
    tr_tell(it.sys, tap, Pour, .count = count, .to = to);
    expect_ok(tr_join(it.sys, to, TR_SECONDS(600), NULL, NULL));
    size_t mapped = atomic_load(&it.sys->mem.mapped);
    expect_ok(tr_system_close(it.sys, TR_MINUTES(10)));
    print_message("%u workers: %llu messages in %zu KiB\n", workers,
                  (unsigned long long)it.received, mapped / 1024);
    assert_int_equal(it.received, count);
    assert_int_equal(it.disorder, 0);
    assert_true(mapped < MAPPED_MAX);
}

static void test_a_flood_on_one_worker_is_bounded(void **state)
{
    (void)state;
    pour(1, stage_scaled(50000000));
}

static void test_a_flood_on_two_workers_is_bounded(void **state)
{
    (void)state;
    pour(2, stage_scaled(50000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flood_on_one_worker_is_bounded),
        cmocka_unit_test(test_a_flood_on_two_workers_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
