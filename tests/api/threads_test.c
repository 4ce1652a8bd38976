/*
 * threads_test.c - on which threads handlers run, and how a fast sender is
 * slowed down: by the public headers alone.
 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Go);

/* ---- as many threads as workers ---- */

enum { WORKERS = 3 };

static pthread_barrier_t meeting;

static tr_err meet(tr_ctx *ctx, void *self, const Go *m)
{
    (void)ctx, (void)self, (void)m;
    pthread_barrier_wait(&meeting);
    return TR_OK;
}

TR_ACTOR(guest, void, TR_ON(Go, meet));

/* The handlers block until so many of them run at once. */
static void test_DP2_X28_so_many_handlers_run_at_once(void **state)
{
    (void)state;
    tr_system *sys;
    pthread_barrier_init(&meeting, NULL, WORKERS + 1);
    TR_MUST(tr_system_open(&sys, .workers = WORKERS, .log_level = 9));
    for (int i = 0; i < WORKERS; i++) {
        tr_tell(sys, tr_spawn(sys, guest), Go);
    }
    pthread_barrier_wait(&meeting);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    pthread_barrier_destroy(&meeting);
}

/* ---- one thread for many actors ---- */

enum { MANY = 50 };

static struct {
    _Atomic(int) ran, strangers;
    _Atomic(bool) known;
    pthread_t thread;
    sem_t done;
} one;

static tr_err on_one_thread(tr_ctx *ctx, void *self, const Go *m)
{
    (void)ctx, (void)self, (void)m;
    if (!one.known) {
        one.thread = pthread_self();
        one.known = true;
    }
    one.strangers += !pthread_equal(one.thread, pthread_self());
    if (++one.ran == MANY) {
        sem_post(&one.done);
    }
    return TR_OK;
}

TR_ACTOR(neighbour, void, TR_ON(Go, on_one_thread));

static void test_DP3_concurrent_actors_share_a_thread(void **state)
{
    (void)state;
    tr_system *sys;
    sem_init(&one.done, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = 2));
    for (int i = 0; i < MANY; i++) {
        tr_tell(sys, tr_spawn(sys, neighbour, .dispatcher = "concurrent"), Go);
    }
    sem_wait(&one.done);
    assert_int_equal(one.strangers, 0);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- idle workers take over ---- */

static sem_t child_ran;

static tr_err child_runs(tr_ctx *ctx, void *self, const Go *m)
{
    (void)ctx, (void)self, (void)m;
    sem_post(&child_ran);
    return TR_OK;
}

TR_ACTOR(child, void, TR_ON(Go, child_runs));

/* Its worker is busy until another worker has run the child. */
static tr_err wait_for_child(tr_ctx *ctx, void *self, const Go *m)
{
    (void)self, (void)m;
    tr_tell(ctx, tr_spawn(ctx, child), Go);
    sem_wait(&child_ran);
    return TR_OK;
}

TR_ACTOR(parent, void, TR_ON(Go, wait_for_child));

static void test_MB19_another_worker_runs_what_a_busy_one_has(void **state)
{
    (void)state;
    tr_system *sys;
    sem_init(&child_ran, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = 9));
    tr_ref ref = tr_spawn(sys, parent, .joinable = true);
    for (int i = 0; i < 20; i++) {
        tr_tell(sys, ref, Go);
    }
    tr_poison(sys, ref);
    assert_int_equal(tr_join(sys, ref, TR_FOREVER, NULL, NULL), TR_OK);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- flow control ---- */

enum { LIMIT = 100, FLOOD = 5000 };

typedef struct Flooder {
    tr_ref to;
} Flooder;

static uint32_t handled, deepest;

static tr_err flood(tr_ctx *ctx, Flooder *self, const Go *m)
{
    (void)m;
    for (int i = 0; i < FLOOD; i++) {
        tr_tell(ctx, self->to, Go);
    }
    return TR_OK;
}

static tr_err swallow(tr_ctx *ctx, void *self, const Go *m)
{
    (void)self, (void)m;
    tr_actor_info info = {.size = sizeof(info)};
    handled++;
    if (handled % 50 == 0 &&
        tr_actor_info_of(ctx, tr_self(ctx), &info) == TR_OK) {
        deepest = info.depth > deepest ? info.depth : deepest;
    }
    return tr_sleep(ctx, TR_MS(1));
}

TR_ACTOR(flooder, Flooder, TR_ON(Go, flood));
TR_ACTOR(swallower, void, TR_ON(Go, swallow));

static void test_PA8_a_fast_sender_is_slowed_down(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    handled = deepest = 0;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref slow = tr_spawn(sys, swallower, .soft_limit = LIMIT);
    tr_tell(sys, tr_spawn(sys, flooder, TR_INIT(flooder, .to = slow)), Go);
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_int_equal(handled, FLOOD);
    assert_true(deepest > LIMIT / 4);
    assert_true(deepest <= 2 * LIMIT);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP2_X28_so_many_handlers_run_at_once),
        cmocka_unit_test(test_DP3_concurrent_actors_share_a_thread),
        cmocka_unit_test(test_MB19_another_worker_runs_what_a_busy_one_has),
        cmocka_unit_test(test_PA8_a_fast_sender_is_slowed_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
