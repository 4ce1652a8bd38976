/*
 * sourcing_fails_test.c - a kill, a second turn, and every call of the store
 * and of memory that fails, while events are on their way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/core.h"
#include "unit/system/ledger.h"

enum { SCENARIO_MAX = 400 };

/* ---- kill and stop while events are on their way ---- */

/* A store that holds appends back until it is told to let them go. */
typedef struct slow_store {
    tr_storage base;
    tr_storage *inner;
    tri_lock lock;
    bool holds;
    tri_list held;
    _Atomic(uint32_t) count;  // held so far
} slow_store;

static void slow_submit(tr_storage *storage, tri_list *ops)
{
    slow_store *store = tri_container_of(storage, slow_store, base);
    tri_link *link;
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        tri_lock_take(&store->lock);
        bool hold = store->holds && op->call == TR_STORE_APPEND;
        if (hold) {
            tri_list_push_back(&store->held, link);
        }
        tri_lock_drop(&store->lock);
        if (!hold) {
            tri_storage_submit(store->inner, op);
            continue;
        }
        tri_world *world = tri_world_posix();
        // Release: pairs with slow_wait.
        atomic_fetch_add_explicit(&store->count, 1, memory_order_release);
        world->ops->wake(world, &store->count, 1);
    }
}

static void slow_close(tr_storage *storage)
{
    (void)storage;
}

static void slow_open(slow_store *store, tr_storage *inner)
{
    static const tri_storage_ops ops = {"slow", slow_submit, slow_close};
    *store = (slow_store){.inner = inner, .holds = true};
    tri_storage_init(&store->base, &ops);
    tri_lock_init(&store->lock);
    tri_list_init(&store->held);
}

static void slow_release(slow_store *store)
{
    tri_link *link;
    for (;;) {
        tri_lock_take(&store->lock);
        store->holds = false;
        link = tri_list_pop_front(&store->held);
        tri_lock_drop(&store->lock);
        if (link == NULL) {
            return;
        }
        tri_storage_submit(store->inner,
                           tri_container_of(link, tri_store_op, link));
    }
}

/* Waits until an append is held. */
static void slow_wait(slow_store *store)
{
    tri_world *world = tri_world_posix();
    // Acquire: pairs with slow_submit.
    while (atomic_load_explicit(&store->count, memory_order_acquire) == 0) {
        (void)world->ops->park(world, &store->count, 0, TR_FOREVER);
    }
}

static void test_rule_28_kill_while_events_are_in_flight(void **state)
{
    fixture *f = *state;
    static slow_store slow;  // outlives the system
    slow_open(&slow, f->inner);
    tr_ref ref = tr_spawn(f->sys, ledger, .name = "ray", .storage = &slow.base);
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, f->sys));
    tr_probe_watch(probe, ref);
    tr_tell(probe, ref, Deposit, .cents = 5, .memo = "late");
    slow_wait(&slow);
    tr_kill(f->sys, ref);
    tr_ref next =
        tr_spawn(f->sys, ledger, .name = "ray", .storage = &slow.base);
    assert_int_equal(tr_ref_err(next), TR_EEXIST);  // it has not ended
    slow_release(&slow);
    assert_int_equal(tr_expect(probe, TR_SECONDS(60), tr_terminated)->reason,
                     TR_KILLED);
    next = tr_spawn(f->sys, ledger, .name = "ray", .joinable = true,
                    .storage = &slow.base);
    expect(f, next, 5, "late", 1);  // it has landed, and nothing is lost
    end(f, next);
    tr_probe_free(probe);
}

static tr_err emit_on_run(tr_ctx *ctx, Ledger *self)
{
    return tr_emit(ctx, self, Deposited, .cents = 100, .memo = "run");
}

TR_ACTOR(runner, Ledger, LEDGER, TR_HOOK(on_run, emit_on_run));

/* Two turns of one actor: the second one is told, nothing is mixed up. */
static void test_a_second_turn_that_emits_is_refused(void **state)
{
    fixture *f = *state;
    static slow_store slow;  // outlives the system
    slow_open(&slow, f->inner);
    tr_ref ref = tr_spawn(f->sys, runner, .name = "rex", .joinable = true,
                          .storage = &slow.base);
    slow_wait(&slow);
    assert_int_equal(deposit(f, ref, 1, "late", 1), TR_EWOULDBLOCK);
    slow_release(&slow);
    while (deposit(f, ref, 1, "later", 1) == TR_EWOULDBLOCK) {
    }
    expect(f, ref, 101, "later", 2);
    end(f, ref);
}

/* ---- everything that can fail fails once ---- */

static void test_the_nth_call_of_the_store_fails(void **state)
{
    static const tr_err errs[] = {TR_ESTORAGE, TR_EUNKNOWN, TR_EFENCED};
    fixture *f = *state;
    for (uint64_t n = 1; n < 20; n++) {
        for (size_t e = 0; e < 3; e++) {
            char name[32];
            snprintf(name, sizeof(name), "s%d-%zu", (int)n, e);
            int64_t sure = 0, unknown = 0;
            tr_storage_fail_nth(f->store, n, errs[e]);
            tr_ref ref = spawn_with(f, trimmed, .name = name);
            if (tr_started(f->sys, ref, TR_SECONDS(60)) != TR_OK) {
                (void)!tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL);
                ref = spawn_with(f, trimmed, .name = name);
            }
            for (int i = 0; i < 2 * EVERY; i++) {
                tr_err err = deposit(f, ref, 1, "s", 1);
                sure += err == TR_OK;
                unknown += err == TR_EUNKNOWN;
            }
            tr_storage_fail_nth(f->store, 0, TR_OK);
            assert_true(sure >= 2 * EVERY - 1);
            end(f, ref);
            ref = spawn_with(f, trimmed, .name = name);
            expect(f, ref, sure + unknown, "s", (uint64_t)(sure + unknown));
            end(f, ref);
        }
    }
}

/* True when the n-th allocation was reached. */
static bool run_without_memory(fixture *f, int64_t n)
{
    char name[32];
    int64_t sure = 0;
    snprintf(name, sizeof(name), "n%d", (int)n);
    tr_ref ref = spawn_with(f, ledger, .name = name);
    assert_int_equal(tr_started(f->sys, ref, TR_SECONDS(60)), TR_OK);
    assert_int_equal(deposit(f, ref, 1, "first", EVERY - 2), TR_OK);
    tri_mem_fail_after(&f->sys->mem, n);
    for (int i = 0; i < 3; i++) {
        sure += deposit(f, ref, 1, "a memo", 1) == TR_OK;
    }
    tr_tell(f->sys, ref, Crash);
    (void)!tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Write, .line = "w");
    // Relaxed: it has all been answered.
    bool reached =
        atomic_load_explicit(&f->sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    tr_stop(f->sys, ref);
    (void)!tr_join(f->sys, ref, TR_SECONDS(60), NULL, NULL);
    ref = spawn_with(f, ledger, .name = name);
    Value v;
    assert_int_equal(tr_ask(f->sys, ref, &v, TR_SECONDS(60), Get), TR_OK);
    assert_true(v.cents >= EVERY - 2 + sure);
    assert_true(v.cents <= EVERY - 2 + 3);
    tr_drop(Value, &v);
    end(f, ref);
    return reached;
}

static void test_the_nth_allocation_fails(void **state)
{
    fixture *f = *state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (run_without_memory(f, n)) {
        n++;
        assert_true(n < SCENARIO_MAX);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH_STORE(test_a_second_turn_that_emits_is_refused),
        IN_EACH_STORE(test_rule_28_kill_while_events_are_in_flight),
        IN_EACH_STORE(test_the_nth_call_of_the_store_fails),
        IN_EACH_STORE(test_the_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
