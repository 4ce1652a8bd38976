/*
 * load_queue_test.c - more virtual actors than may load their states at a time.
 *
 * The store keeps every request until the test answers it, so the test sees
 * how many wait, and nothing depends on time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "cluster/virtual/cluster.h"
#include "storage/storage.h"

enum { NAMES = 400, EACH = 3, PARKED = 40 };

TR_MESSAGE(Add, (int64_t, number));
TR_MESSAGE(Nothing);
TR_REQUEST(Flush, Nothing);
TR_STATE(Tally, (int64_t, last));

static struct {
    _Atomic(uint32_t) handled, wrong;
} stage;

static tr_err on_add(tr_ctx *ctx, Tally *self, const Add *m)
{
    (void)ctx;
    // Relaxed, all: read when all is over.
    atomic_fetch_add_explicit(&stage.wrong, m->number != self->last + 1,
                              memory_order_relaxed);
    self->last = m->number;
    atomic_fetch_add_explicit(&stage.handled, 1, memory_order_relaxed);
    return TR_OK;
}

static tr_err on_flush(tr_ctx *ctx, Tally *self, const Flush *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(tally, Tally, TR_ON(Add, on_add), TR_ON(Flush, on_flush));

/* ---- a store that waits for the test ---- */

typedef struct slow_store {
    tr_storage base;
    tri_lock lock;
    tri_list ops;
    uint32_t count, most;
} slow_store;

static void slow_submit(tr_storage *storage, tri_list *ops)
{
    slow_store *s = (slow_store *)storage;
    tri_link *link;
    tri_lock_take(&s->lock);
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_list_push_back(&s->ops, link);
        s->count++;
        s->most = TRI_MAX(s->most, s->count);
    }
    tri_lock_drop(&s->lock);
}

static void slow_close(tr_storage *storage)
{
    (void)storage;
}

static const tri_storage_ops slow_ops = {
    .name = "slow", .submit = slow_submit, .close = slow_close};

/* Answers the oldest store request; returns false if there is none. */
static bool answer(slow_store *s, tr_err err)
{
    tri_lock_take(&s->lock);
    tri_link *link = tri_list_pop_front(&s->ops);
    s->count -= link != NULL;
    tri_lock_drop(&s->lock);
    if (link != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (err != TR_OK) {
            tri_store_fail(op, err, TRI_STORE_FAULT_IO, "as told");
        }
        tri_store_done(op);
    }
    return link != NULL;
}

/* ---- the stage ---- */

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    slow_store store;
    tri_load_queue *queue;
} world;

static void quiet_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void open_world(world *w)
{
    memset(&stage, 0, sizeof(stage));
    memset(w, 0, sizeof(*w));
    tri_storage_init(&w->store.base, &slow_ops);
    tri_list_init(&w->store.ops);
    assert_int_equal(tr_sim_new(&w->sim, 7), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .max_parked = PARKED, .log = quiet_log),
                     TR_OK);
    assert_int_equal(tr_host(w->sys, tally, .storage = &w->store.base), TR_OK);
    w->queue = &tri_cluster_of(w->sys)->load_queue;
    assert_true(w->queue->max < NAMES / 2);
}

static void tell_all(world *w)
{
    for (int round = 1; round <= EACH; round++) {
        for (int i = 0; i < NAMES; i++) {
            char key[16];
            snprintf(key, sizeof(key), "k%d", i);
            tr_tell_virtual(w->sys, "tally", key, Add, .number = round);
        }
        tr_sim_advance(w->sim, 1);
    }
}

static tr_metrics_snapshot metrics(world *w)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(w->sys, &m);
    return m;
}

static void close_world(world *w)
{
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_storage_close(&w->store.base);
    tr_sim_free(w->sim);
}

/* ---- tests ---- */

static void test_AC11_AC12_activations_wait_in_the_load_queue(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    tell_all(&w);
    assert_int_equal(w.store.count, w.queue->max);
    assert_int_equal(metrics(&w).virtual_active, w.queue->max);
    assert_int_equal(metrics(&w).virtual_names, NAMES);
    while (answer(&w.store, TR_OK)) {
        tr_sim_advance(w.sim, 1);
    }
    assert_int_equal(w.store.most, w.queue->max);
    assert_int_equal(stage.handled, NAMES * EACH);
    assert_int_equal(stage.wrong, 0);
    assert_int_equal(metrics(&w).dead_letters, 0);
    assert_int_equal(metrics(&w).virtual_active, NAMES);
    assert_int_equal(w.queue->loading, 0);
    close_world(&w);
}

static void test_AC13_a_failed_start_makes_room_in_the_load_queue(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    tell_all(&w);
    uint32_t count = 0;
    while (answer(&w.store, count % 2 == 0 ? TR_EIO : TR_OK)) {
        tr_sim_advance(w.sim, 1);
        count++;
    }
    assert_true(stage.handled < NAMES * EACH);
    assert_int_equal(w.queue->loading, 0);
    assert_null(w.queue->first);
    // Each message was handled, or is a dead letter.
    assert_int_equal(stage.handled + metrics(&w).dead_letters, NAMES * EACH);
    close_world(&w);
}

static void test_AC7_shutdown_empties_the_load_queue(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    tell_all(&w);
    uint32_t max = w.queue->max;
    (void)tri_virtual_ops_of(w.sys)->close(w.sys);  // as tr_system_close
    while (answer(&w.store, TR_OK)) {
        tr_sim_advance(w.sim, 1);
    }
    assert_int_equal(w.store.most, max);
    assert_int_equal(stage.handled, max * EACH);
    assert_int_equal(metrics(&w).virtual_names, max);
    assert_int_equal(w.queue->loading, 0);
    assert_null(w.queue->first);
    assert_int_equal(stage.handled + metrics(&w).dead_letters, NAMES * EACH);
    close_world(&w);
}

static void tell(world *w, const char *key)
{
    tr_tell_virtual(w->sys, "tally", key, Add, .number = 1);
    tr_sim_advance(w->sim, 1);
}

/*
 * "c" is counted as loading, "b" waits behind it, and "c" finds no memory. The
 * one that had loaded before has left already, so only "c" can start "b".
 * Returns true if the n-th allocation was reached.
 */
static bool fail_before_the_line(int64_t n, uint32_t *called)
{
    world w;
    open_world(&w);
    w.queue->max = 1;
    tr_ref c = tr_virtual(w.sys, "tally", "c");
    tell(&w, "a");
    tell(&w, "b");
    assert_non_null(w.queue->first);
    assert_true(tri_load_queue_leave(w.queue));
    tri_mem_fail_after(&w.sys->mem, n);
    tr_tell(w.sys, c, Add, .number = 1);
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&w.sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&w.sys->mem, -1);
    tr_sim_advance(w.sim, 1);
    // "c" had been counted, and neither "c" nor "b" is active.
    if (metrics(&w).activations > 1 && metrics(&w).virtual_active == 1) {
        fail_msg("allocation %d: nothing loads, and \"b\" waits", (int)n);
    }
    *called += w.queue->first == NULL;
    tri_load_queue_enter(w.queue);  // for "a", which leaves now
    while (answer(&w.store, TR_OK)) {
        tr_sim_advance(w.sim, 1);
    }
    assert_null(w.queue->first);
    assert_int_equal(w.queue->loading, 0);
    assert_int_equal(stage.handled + metrics(&w).dead_letters, 3);
    close_world(&w);
    return reached;
}

static void test_AC13_an_activation_without_memory_starts_the_next(void **state)
{
    enum { MOST = 100 };
    uint32_t called = 0;
    int64_t n = 0;
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    while (fail_before_the_line(n, &called)) {
        n++;
        assert_true(n < MOST);
    }
    assert_true(called > 0);
}

/* ---- events ---- */

TR_MESSAGE(Wrote, (int64_t, number));
TR_MESSAGE(Write, (int64_t, number));
TR_STATE(Book, (int64_t, sum));

static bool spoilt;  // no event can be applied

static void wrote(tr_ctx *ctx, Book *self, const Wrote *e)
{
    if (spoilt) {
        tr_panic(ctx, "this page cannot be read");
    }
    self->sum += e->number;
}

static tr_err on_write(tr_ctx *ctx, Book *self, const Write *m)
{
    stage.handled++;
    return tr_emit(ctx, self, Wrote, .number = m->number);
}

TR_ACTOR(book, Book, TR_ON(Write, on_write), TR_APPLY_CTX(Wrote, wrote));

static void test_AC13_a_panic_over_events_makes_room_in_the_load_queue(
    void **state)
{
    world w;
    tr_storage *store;
    (void)state;
    open_world(&w);
    w.queue->max = 1;
    spoilt = false;
    assert_int_equal(tr_storage_memory(&store), TR_OK);
    // The restart comes in an hour: until then the actor is FAILED.
    tr_supervision later = {.size = sizeof(later),
                            .backoff_min = TR_MINUTES(60),
                            .backoff_max = TR_MINUTES(60)};
    tr_spawn_options spawn = {.size = sizeof(spawn), .supervision = &later};
    assert_int_equal(tr_host(w.sys, book, .storage = store, .spawn = &spawn),
                     TR_OK);
    tr_ref a = tr_virtual(w.sys, "book", "a");
    tr_tell(w.sys, a, Write, .number = 1);
    tr_sim_advance(w.sim, 1);
    tr_stop(w.sys, a);
    tr_sim_advance(w.sim, 1);
    assert_int_equal(metrics(&w).virtual_active, 0);
    spoilt = true;
    tr_tell(w.sys, a, Write, .number = 1);
    tr_sim_advance(w.sim, 1);
    spoilt = false;
    assert_int_equal(stage.handled, 1);
    assert_int_equal(w.queue->loading, 0);
    tr_tell_virtual(w.sys, "book", "b", Write, .number = 1);
    tr_sim_advance(w.sim, 1);
    assert_int_equal(stage.handled, 2);
    close_world(&w);
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_AC11_AC12_activations_wait_in_the_load_queue),
        cmocka_unit_test(test_AC13_a_failed_start_makes_room_in_the_load_queue),
        cmocka_unit_test(
            test_AC13_an_activation_without_memory_starts_the_next),
        cmocka_unit_test(
            test_AC13_a_panic_over_events_makes_room_in_the_load_queue),
        cmocka_unit_test(test_AC7_shutdown_empties_the_load_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
