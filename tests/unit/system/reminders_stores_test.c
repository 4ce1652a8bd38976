/*
 * reminders_stores_test.c - reminders on each store and in real time: what is
 * set survives the system and the store, and comes when it is due or, if
 * nobody was there, at once. reminders_test.c has the rest, on virtual time.
 *
 * Nothing here asks how late a reminder comes, only that it does.
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

#include "cluster/virtual/shard.h"
#include "unit/storage/each_store.h"

enum { MANY = 40 };

TR_MESSAGE(Ring, (int64_t, number), (const char *, text),
           (optional, int64_t, detail));
TR_REQUEST(Set, tr_none, (const char *, name), (int64_t, delay),
           (int64_t, period), (int64_t, number));
TR_REQUEST(Drop, tr_none, (const char *, name));
TR_STATE(Clock, (int64_t, rings));

/* What has come; the test waits for the count. */
static struct {
    _Atomic(uint32_t) rings;
    _Atomic(int64_t) sum;
    _Atomic(int) fails;
} heard;

static tr_err on_ring(tr_ctx *ctx, Clock *self, const Ring *m)
{
    tri_world *world = tri_world_posix();
    assert_string_equal(m->text, "ding");
    assert_true(m->detail.has);
    assert_int_equal(m->detail.value, -m->number);
    if (atomic_fetch_sub_explicit(&heard.fails, 1, memory_order_relaxed) > 0)
        return tr_fail(ctx, TR_EFAILED, "not now");
    TR_TRY(tr_persist(ctx, self, &(Clock){.rings = self->rings + 1}));
    atomic_fetch_add_explicit(&heard.sum, m->number, memory_order_relaxed);
    // Release: pairs with wait_for.
    atomic_fetch_add_explicit(&heard.rings, 1, memory_order_release);
    world->ops->wake(world, &heard.rings, 1);
    return TR_OK;
}

static tr_err on_set(tr_ctx *ctx, Clock *self, const Set *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_remind(ctx, m->name, m->delay, m->period, Ring,
                           .number = m->number, .text = "ding",
                           .detail = TR_SOME(-m->number)));
    return tr_reply(ctx, m);
}

static tr_err on_drop(tr_ctx *ctx, Clock *self, const Drop *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, m->name));
    return tr_reply(ctx, m);
}

TR_ACTOR(clockwork, Clock, TR_ON_REMINDER(Ring, on_ring), TR_ON(Set, on_set),
         TR_ON(Drop, on_drop));

typedef struct fixture {
    each_store each;
    tr_system *sys;
} fixture;

static void up(fixture *f)
{
    TR_MUST(tr_system_open(&f->sys, .workers = 2, .log_level = 9));
    TR_MUST(tr_host(
        f->sys, clockwork, .storage = f->each.store,
        .spawn = TR_OPTIONS(tr_spawn_options,
                            .supervision = TR_SUPERVISE(.backoff_min = 1))));
}

static void down(fixture *f)
{
    assert_int_equal(tr_system_close(f->sys, TR_SECONDS(60)), TR_OK);
    f->sys = NULL;
}

static int open_all(void **state, each_kind kind)
{
    static fixture f;
    each_new(&f.each, kind);
    atomic_store(&heard.rings, 0);
    atomic_store(&heard.sum, 0);
    atomic_store(&heard.fails, 0);
    up(&f);
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    if (f->sys != NULL) {
        down(f);
    }
    return each_free(&f->each);
}

EACH_OPEN(open_all)

static tr_err set(fixture *f, const char *key, const char *name, tr_nanos delay,
                  tr_nanos period, int64_t number)
{
    return tr_ask(f->sys, tr_virtual(f->sys, "clockwork", key), NULL,
                  TR_SECONDS(60), Set, .name = name, .delay = delay,
                  .period = period, .number = number);
}

static void wait_for(uint32_t rings)
{
    tri_world *world = tri_world_posix();
    for (;;) {
        // Acquire: pairs with on_ring.
        uint32_t now = atomic_load_explicit(&heard.rings, memory_order_acquire);
        if (now >= rings) {
            return;
        }
        (void)world->ops->park(world, &heard.rings, now, TR_FOREVER);
    }
}

/* How many reminders the store still has, of all times. */
static uint32_t count_stored(fixture *f)
{
    asked *shards = calloc(TRI_SHARDS, sizeof(*shards));
    uint32_t count = 0;
    assert_non_null(shards);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        shards[i] = ask_for(TR_STORE_REMINDERS, NULL);
        shards[i].op.shard = i;
        shards[i].op.number = TRI_STORE_NUMBER_MAX / 2;
        asked_submit(&shards[i], f->each.store);
    }
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_store_row row;
        asked_wait(&shards[i]);
        assert_int_equal(shards[i].op.err, TR_OK);
        for (size_t at = 0; tri_store_row_next(&shards[i].op, &at, &row);) {
            count++;
        }
        tri_store_op_fini(&shards[i].op);
    }
    free(shards);
    return count;
}

static void test_a_reminder_comes_and_is_gone(void **state)
{
    fixture *f = *state;
    assert_int_equal(set(f, "a", "r", TR_MS(20), 0, 7), TR_OK);
    wait_for(1);
    assert_int_equal(atomic_load(&heard.sum), 7);
    down(f);
    assert_int_equal(count_stored(f), 0);
}

static void test_reminders_outlive_system_and_store(void **state)
{
    fixture *f = *state;
    char key[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "k%d", i % 7);
        char name[16];
        snprintf(name, sizeof(name), "r%d", i);
        assert_int_equal(set(f, key, name, TR_MINUTES(60), 0, 1000), TR_OK);
        assert_int_equal(set(f, key, name, TR_SECONDS(1), 0, i), TR_OK);
    }
    assert_int_equal(set(f, "k0", "far", TR_MINUTES(600), 0, 1), TR_OK);
    down(f);
    uint32_t before = atomic_load(&heard.rings);  // a slow machine is late
    assert_int_equal(count_stored(f), MANY + 1 - before);
    each_reopen(&f->each);
    up(f);
    wait_for(MANY);
    assert_int_equal(atomic_load(&heard.sum), MANY * (MANY - 1) / 2);
    down(f);
    assert_int_equal(atomic_load(&heard.rings), MANY);
    assert_int_equal(count_stored(f), 1);
}

static void test_a_period_goes_on_until_it_is_forgotten(void **state)
{
    fixture *f = *state;
    assert_int_equal(set(f, "a", "r", TR_MS(5), TR_MS(30), 1), TR_OK);
    wait_for(2);
    down(f);
    assert_int_equal(count_stored(f), 1);
    uint32_t before = atomic_load(&heard.rings);
    each_reopen(&f->each);
    up(f);
    wait_for(before + 2);
    assert_int_equal(tr_ask(f->sys, tr_virtual(f->sys, "clockwork", "a"), NULL,
                            TR_SECONDS(60), Drop, .name = "r"),
                     TR_OK);
    down(f);
    assert_int_equal(count_stored(f), 0);
}

static void test_a_failed_handler_leaves_it_stored(void **state)
{
    fixture *f = *state;
    atomic_store(&heard.fails, 1);
    assert_int_equal(set(f, "a", "r", TR_MS(1), 0, 9), TR_OK);
    wait_for(1);
    assert_int_equal(atomic_load(&heard.sum), 9);
    down(f);
    assert_int_equal(count_stored(f), 0);
}

int main(void)
{
#define TEST(fn) IN_EACH(fn, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(test_a_reminder_comes_and_is_gone),
        TEST(test_reminders_outlive_system_and_store),
        TEST(test_a_period_goes_on_until_it_is_forgotten),
        TEST(test_a_failed_handler_leaves_it_stored),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
