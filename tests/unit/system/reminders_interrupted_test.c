/*
 * reminders_interrupted_test.c - reminders where something ends at a bad time: the
 * turn that handles one, the service, memory, an answer of the store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "../storage/store_calls.h"
#include "support/core.h"

enum { SEEDS = 20, ALLOCATIONS_MAX = 200 };

/* ---- the actors ---- */

TR_MESSAGE(Ring, (int64_t, number));
TR_REQUEST(Ask, tr_none, (int64_t, delay), (const char *, name));
TR_REQUEST(Drop, tr_none, (const char *, name));
TR_STATE(Clock, (int64_t, count));
TR_STATE(Deaf, (int64_t, count));

/* What the tests look at; everything runs in one thread. */
static struct {
    int began, rang;
    tr_nanos naps;  // so long the first one takes
} seen;

/* Does not care why it wakes up. */
static tr_err on_ring(tr_ctx *ctx, Clock *self, const Ring *m)
{
    (void)self;
    (void)m;
    seen.began++;
    if (seen.naps > 0) {
        tr_nanos naps = seen.naps;
        seen.naps = 0;
        (void)!tr_sleep(ctx, naps);
    }
    seen.rang++;
    return TR_OK;
}

static tr_err on_ask(tr_ctx *ctx, Clock *self, const Ask *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_remind(ctx, m->name, m->delay, 0, Ring, .number = 1));
    return tr_reply(ctx, m);
}

TR_ACTOR(timepiece, Clock, TR_ON_REMINDER(Ring, on_ring), TR_ON(Ask, on_ask));

static tr_err on_drop(tr_ctx *ctx, Deaf *self, const Drop *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, m->name));
    return tr_reply(ctx, m);
}

TR_ACTOR(deaf, Deaf, TR_ON(Drop, on_drop));

/* ---- a store that answers some calls when it is told to ---- */

typedef struct late_store {
    tr_storage base;
    tr_storage *inner;
    tri_list held;  // those that were to forget something
    bool holds;
} late_store;

static void late_submit(tr_storage *storage, tri_list *ops)
{
    late_store *store = tri_container_of(storage, late_store, base);
    tri_link *link;
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (store->holds && op->call == TR_STORE_FORGET) {
            tri_list_push_back(&store->held, link);
        } else {
            tri_storage_submit(store->inner, op);
        }
    }
}

static void late_close(tr_storage *storage)
{
    (void)storage;
}

static void late_open(late_store *store, tr_storage *inner)
{
    static const tri_storage_ops ops = {"late", late_submit, late_close};
    *store = (late_store){.inner = inner, .holds = true};
    tri_storage_init(&store->base, &ops);
    tri_list_init(&store->held);
}

static void late_answer(late_store *store)
{
    tri_link *link;
    store->holds = false;
    while ((link = tri_list_pop_front(&store->held)) != NULL) {
        tri_storage_submit(store->inner,
                           tri_container_of(link, tri_store_op, link));
    }
}

/* ---- one store, one world, a system ---- */

typedef struct fixture {
    tr_sim *sim;
    tr_system *sys;
    tr_storage *memory, *store;
} fixture;

static tr_err host(fixture *f)
{
    return tr_host(
        f->sys, timepiece, .storage = f->store,
        .spawn = TR_OPTIONS(tr_spawn_options,
                            .supervision = TR_SUPERVISE(.backoff_min = 1)));
}

static void system_up(fixture *f)
{
    TR_MUST(
        tr_system_open(&f->sys, .world = tr_sim_world(f->sim), .log_level = 9));
}

static void system_down(fixture *f)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
}

static void up(fixture *f, uint64_t seed)
{
    memset(&seen, 0, sizeof(seen));
    TR_MUST(tr_sim_new(&f->sim, seed));
    TR_MUST(tr_storage_memory(&f->memory));
    TR_MUST(tr_storage_capture(&f->store, f->memory));
    system_up(f);
}

static void down(fixture *f)
{
    system_down(f);
    tr_storage_close(f->store);
    tr_storage_close(f->memory);
    tr_sim_free(f->sim);
}

static tr_err remind(fixture *f, const char *name, tr_nanos delay)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "timepiece", "a"), NULL,
                  TR_SECONDS(5), Ask, .delay = delay, .name = name);
}

static void store_row(fixture *f, int number)
{
    char name[16];
    asked it = ask_for(TR_STORE_REMIND, "local::timepiece//user/tower");
    snprintf(name, sizeof(name), "n%d", number);
    it.op.name = bytes_of(name);
    it.op.number = 1;
    it.op.bytes = bytes_of("Ring {\"number\":1}");
    assert_int_equal(asked_run(&it, f->memory), TR_OK);
}

/* ---- tests ---- */

/*
 * The actor is stopped in the middle of its handler, which goes on as if
 * nothing had been: the turn must not wait for the store any more, which
 * would answer to nobody. The reminder is not done, and comes again.
 */
static void test_ST9_a_handler_that_was_cut_short_gets_the_reminder_again(
    void **state)
{
    fixture f;
    late_store late;
    (void)state;
    up(&f, 1);
    late_open(&late, f.store);
    TR_MUST(tr_host(f.sys, timepiece, .storage = &late.base));
    seen.naps = TR_MINUTES(1);
    assert_int_equal(remind(&f, "r", TR_SECONDS(1)), TR_OK);
    tr_sim_advance(f.sim, TR_SECONDS(5));
    assert_int_equal(seen.began, 1);
    tr_kill(f.sys, tr_virtual(f.sys, "timepiece", "a"));
    tr_sim_advance(f.sim, TR_MS(500));
    assert_int_equal(seen.rang, 1);
    late_answer(&late);  // to a turn that is over, if it had been asked
    tr_sim_advance(f.sim, TR_SECONDS(30));
    assert_int_equal(seen.began, 2);
    assert_int_equal(seen.rang, 2);
    tr_sim_advance(f.sim, TR_MINUTES(20));
    assert_int_equal(seen.rang, 2);
    down(&f);
}

/*
 * The service begins again, with one reminder on its way and one to come:
 * both are delivered, and what its handler has done is not repeated later.
 */
static void test_ST9_the_service_may_begin_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture f;
        up(&f, seed);
        TR_MUST(host(&f));
        seen.naps = TR_SECONDS(10);
        assert_int_equal(remind(&f, "a", TR_SECONDS(1)), TR_OK);
        assert_int_equal(remind(&f, "b", TR_SECONDS(60)), TR_OK);
        tr_sim_advance(f.sim, TR_SECONDS(5));
        assert_int_equal(seen.began, 1);
        tr_ref service = tr_lookup(f.sys, "/system/reminders");
        assert_int_equal(tr_ref_err(service), TR_OK);
        tri_caller who = tri_enter((tr_from){.sys = f.sys});
        tri_signal(who.worker, tri_ref_cell(service), service.id,
                   TRI_SIG_RESTART);
        tri_leave(&who);
        tr_sim_advance(f.sim, TR_SECONDS(40));
        assert_true(seen.rang == 1 || seen.rang == 2);  // at least once
        int before = seen.rang;
        tr_sim_advance(f.sim, TR_MINUTES(20));
        assert_int_equal(seen.rang, before + 1);
        down(&f);
    }
}

/* Forgetting needs no TR_ON_REMINDER, and no service that would hear of it. */
static void test_an_actor_without_reminders_may_forget(void **state)
{
    fixture f;
    (void)state;
    up(&f, 1);
    tr_ref ref = tr_spawn(f.sys, deaf, .name = "deaf", .storage = f.store);
    assert_int_equal(
        tr_ask(f.sys, ref, NULL, TR_SECONDS(5), Drop, .name = "nothing"),
        TR_OK);
    assert_true(tr_ref_eq(tr_lookup(f.sys, "/system/reminders"), TR_NOBODY));
    down(&f);
}

/* Hosting says so when there is no memory, and can be tried again. */
static void test_rule_27_hosting_reminders_without_memory(void **state)
{
    int64_t n = 0;
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    for (bool reached = true; reached; n++) {
        fixture f;
        up(&f, 1);
        tri_mem_fail_after(&f.sys->mem, n);
        tr_err err = host(&f);
        // Relaxed: one thread.
        reached =
            atomic_load_explicit(&f.sys->mem.fail_at, memory_order_relaxed) < 0;
        tri_mem_fail_after(&f.sys->mem, -1);
        assert_true(err == TR_OK || err == TR_ENOMEM);
        assert_true(reached || err == TR_OK);
        if (err != TR_OK) {
            assert_int_equal(host(&f), TR_OK);
        }
        assert_int_equal(remind(&f, "r", TR_SECONDS(1)), TR_OK);
        tr_sim_advance(f.sim, TR_MINUTES(12));
        assert_int_equal(seen.rang, 1);
        down(&f);
        assert_true(n < ALLOCATIONS_MAX);
    }
    assert_true(n > 3);
}

/*
 * More than two answers of the store hold; each of the first calls fails once,
 * for whatever it asks. All come in the end.
 */
static void test_ST9_a_read_of_the_store_that_failed_is_repeated(void **state)
{
    enum { MANY = 2100, CALLS = 3 };
    (void)state;
    for (uint64_t nth = 1; nth <= CALLS; nth++) {
        fixture f;
        up(&f, nth);
        for (int i = 0; i < MANY; i++) {
            store_row(&f, i);
        }
        tr_ref ref =
            tr_spawn(f.sys, timepiece, .name = "tower", .storage = f.store);
        assert_int_equal(tr_ref_err(ref), TR_OK);
        assert_int_equal(tr_started(f.sys, ref, TR_SECONDS(5)), TR_OK);
        tr_storage_fail_nth(f.store, nth, TR_ESTORAGE);
        tr_sim_advance(f.sim, TR_MINUTES(30));
        if (seen.rang < MANY) {
            fail_msg("%d came, call %d", seen.rang, (int)nth);
        }
        down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_ST9_a_handler_that_was_cut_short_gets_the_reminder_again),
        cmocka_unit_test(test_ST9_the_service_may_begin_again),
        cmocka_unit_test(test_an_actor_without_reminders_may_forget),
        cmocka_unit_test(test_rule_27_hosting_reminders_without_memory),
        cmocka_unit_test(test_ST9_a_read_of_the_store_that_failed_is_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
