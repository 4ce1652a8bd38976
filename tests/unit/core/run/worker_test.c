/*
 * worker_test.c - dispatchers and their threads: how many there are, who runs
 * on them, when they end.
 */
#define _GNU_SOURCE  // names of threads

#include <stdatomic.h>

#include "support/stage.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "support/core.h"

static tr_err act_thread(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    *(pthread_t *)arg = pthread_self();
    return tr_reply(ctx, m, .value = 1);
}

static pthread_t thread_of(stage *it, tr_ref ref)
{
    pthread_t thread = pthread_self();
    expect_ok(stage_ask(it, ref, act_thread, &thread));
    assert_false(pthread_equal(thread, pthread_self()));
    return thread;
}

static void test_DP1_a_pinned_actor_has_a_thread_of_its_own(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    tr_ref a = stage_spawn(&it, .dispatcher = "pinned");
    tr_ref b = stage_spawn(&it, .dispatcher = "pinned");
    pthread_t first = thread_of(&it, a), second = thread_of(&it, b);
    assert_false(pthread_equal(first, second));
    for (int i = 0; i < 20; i++) {
        expect_ok(stage_ask(&it, a, act_sleep, (void *)TR_MS(1)));
        assert_true(pthread_equal(thread_of(&it, a), first));
        assert_true(pthread_equal(thread_of(&it, b), second));
    }
    stage_close(&it);
}

/* Returns how many threads the dispatcher of ref has. */
static uint32_t threads_behind(stage *it, tr_ref ref)
{
    // Relaxed: fixed at spawn.
    uint32_t flags =
        atomic_load_explicit(&tri_ref_cell(ref)->flags, memory_order_relaxed);
    tri_pool *pool = it->sys->pools[(flags >> TRI_CELL_POOL_SHIFT) & 0xff];
    // Acquire: pairs with tri_worker_new and tri_workers_start.
    assert_true(atomic_load_explicit(&pool->started, memory_order_acquire));
    return atomic_load_explicit(&pool->count, memory_order_acquire);
}

static void test_DP3_concurrent_actors_share_one_thread(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    tr_ref refs[4];
    for (int i = 0; i < 4; i++) {
        refs[i] = stage_spawn(&it, .dispatcher = "concurrent");
    }
    pthread_t one = thread_of(&it, refs[0]);
    for (int i = 0; i < 4; i++) {
        assert_true(pthread_equal(thread_of(&it, refs[i]), one));
    }
    assert_int_equal(threads_behind(&it, refs[0]), 1);
    stage_close(&it);
}

typedef struct starter {
    tr_system *sys;
    tri_pool *pool;
    pthread_barrier_t *barrier;
    tr_err err;
    pthread_t thread;
} starter;

static void *start_pool(void *arg)
{
    starter *it = arg;
    pthread_barrier_wait(it->barrier);
    it->err = tri_workers_start(it->sys, it->pool);
    return NULL;
}

static void test_DP3_a_pool_is_started_once_by_several_threads(void **state)
{
    enum { STARTERS = 4 };
    stage it;
    pthread_barrier_t barrier;
    starter starters[STARTERS];
    (void)state;
    stage_open_real(&it, NULL);
    tri_pool *pool = tri_pool_find(it.sys, "blocking");
    assert_false(atomic_load_explicit(&pool->started, memory_order_relaxed));
    assert_int_equal(pthread_barrier_init(&barrier, NULL, STARTERS), 0);
    for (int i = 0; i < STARTERS; i++) {
        starters[i] = (starter){it.sys, pool, &barrier, TR_EUSER, 0};
        assert_int_equal(
            pthread_create(&starters[i].thread, NULL, start_pool, &starters[i]),
            0);
    }
    for (int i = 0; i < STARTERS; i++) {
        pthread_join(starters[i].thread, NULL);
        expect_ok(starters[i].err);
    }
    pthread_barrier_destroy(&barrier);
    // A worker that was started twice has failed a check of tri_worker_start.
    tr_ref ref = stage_spawn(&it, .dispatcher = "blocking");
    assert_false(pthread_equal(thread_of(&it, ref), pthread_self()));
    assert_true(threads_behind(&it, ref) > 0);
    stage_close(&it);
}

static bool is_thread_of_mine(pthread_t thread)
{
    char name[16] = "";
    assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
    return strncmp(name, "tr-mine", 7) == 0;
}

static void test_DP4_dispatchers_are_found_by_name(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .kind = TR_DISPATCH_PARALLEL,
                                .threads = 1));
    expect_err(tr_dispatcher_add(it.sys, "mine"), TR_EEXIST);
    expect_err(tr_dispatcher_add(it.sys, "not a name"), TR_EINVAL);
    tr_ref a = stage_spawn(&it, .dispatcher = "mine");
    tr_ref b = stage_spawn(&it, .dispatcher = "mine");
    // Only the name: a worker that seems stuck may have got a helper.
    assert_true(is_thread_of_mine(thread_of(&it, a)));
    assert_true(is_thread_of_mine(thread_of(&it, b)));
    assert_false(is_thread_of_mine(thread_of(&it, it.one)));
    tr_ref none = stage_spawn(&it, .dispatcher = "nobody's");
    assert_int_not_equal(tr_ref_err(none), TR_OK);
    stage_close(&it);
}

static void test_DP2_any_number_of_workers(void **state)
{
    tri_world *world = tri_world_posix();
    uint32_t cpus = world->ops->cpus(world);
    static const uint32_t counts[] = {1, 2, 24, 0};  // 0: one for each CPU
    (void)state;
    for (int i = 0; i < 4; i++) {
        stage it;
        tr_system_options options = {.size = sizeof(options),
                                     .workers = counts[i]};
        stage_open_real(&it, &options);
        // At least: when all are blocked for a while, another one is added.
        assert_true(threads_behind(&it, it.one) >=
                    (counts[i] != 0 ? counts[i] : cpus));
        for (int n = 0; n < 50; n++) {
            tr_ref ref = stage_spawn(&it, .soft_limit = 0);
            expect_ok(stage_ask(&it, ref, act_nothing, NULL));
        }
        stage_close(&it);
    }
}

static void test_X28_the_number_of_workers_is_an_option(void **state)
{
    (void)state;
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .workers = 24), TR_OK);
    assert_int_equal(sys->options.workers, 24);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    assert_int_equal(tr_system_open(&sys), TR_OK);
    assert_int_equal(sys->options.workers, sys->world->ops->cpus(sys->world));
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

typedef struct errand {
    _Atomic(uint32_t) arrived;
    tr_ref other;
} errand;

static tr_err act_arrive(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    errand *it = arg;
    (void)self;
    atomic_fetch_add(&it->arrived, 1);
    return tr_reply(ctx, m, .value = 1);
}

/* Sends to a sleeping actor on another dispatcher. */
static tr_err act_tell_other(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    errand *it = arg;
    act_tell(ctx, it->other, act_arrive, it);
    // Blocks sent to another dispatcher do not come back: this message leaves
    // one in the cache of this worker for the next send.
    act_tell(ctx, self->stage->two, act_nothing, NULL);
    return tr_reply(ctx, m, .value = 1);
}

static void test_DP5_a_message_to_another_dispatcher(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .kind = TR_DISPATCH_PARALLEL,
                                .threads = 1));
    errand all = {0};
    for (uint32_t i = 1; i <= 10; i++) {
        all.other = stage_spawn(&it, .dispatcher = i % 2 ? "mine" : "pinned");
        expect_ok(stage_ask(&it, all.other, act_nothing, NULL));
        expect_ok(stage_ask(&it, it.one, act_tell_other, &all));
        while (atomic_load(&all.arrived) < i) {
            tri_world_posix()->ops->yield(tri_world_posix());
        }
    }
    stage_close(&it);
}

static int thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    int count = 0;
    for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
        count += e->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

static void test_DP7_dispatchers_end_with_the_system(void **state)
{
    static const char *const names[] = {"parallel", "pinned", "concurrent",
                                        "blocking", "mine"};
    stage it;
    (void)state;
    int before = thread_count();
    stage_open_real(&it, NULL);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .threads = 2));
    for (int i = 0; i < 5; i++) {
        tr_ref ref = stage_spawn(&it, .dispatcher = names[i]);
        expect_ok(stage_ask(&it, ref, act_nothing, NULL));
    }
    assert_true(thread_count() > before);
    stage_close(&it);
    while (thread_count() > before) {  // a thread ends after the join returns
        sched_yield();
    }
}

static tr_err note_thread(void *arg)
{
    pthread_t *main_thread = arg;
    return pthread_equal(*main_thread, pthread_self()) ? TR_OK : TR_EUSER;
}

static tr_err act_note_thread(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    TR_TRY(note_thread(arg));
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    TR_TRY(note_thread(arg));
    TR_TRY(tr_blocking(ctx, note_thread, arg));
    stage_note(self->stage, 1);
    return tr_reply(ctx, m, .value = 1);
}

static void test_DP11_a_simulation_runs_on_one_thread(void **state)
{
    static const char *const names[] = {"parallel", "pinned", "concurrent",
                                        "blocking"};
    stage it;
    pthread_t me = pthread_self();
    (void)state;
    int before = thread_count();
    stage_open(&it);
    for (int i = 0; i < 4; i++) {
        tr_ref ref = stage_spawn(&it, .dispatcher = names[i]);
        expect_ok(stage_ask(&it, ref, act_note_thread, &me));
    }
    expect_notes(&it, 1, 1, 1, 1);
    assert_int_equal(thread_count(), before);
    stage_close(&it);
}

/* ---- blocked workers ---- */

typedef struct gate {
    sem_t entered, open;
} gate;

static tr_err act_block_thread(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    gate *it = arg;
    (void)ctx;
    (void)self;
    (void)m;
    sem_post(&it->entered);
    while (sem_wait(&it->open) != 0) {
    }
    return TR_OK;
}

static void test_DP8_blocked_workers_are_replaced(void **state)
{
    stage it;
    gate all;
    tr_system_options options = {.size = sizeof(options), .workers = 2};
    (void)state;
    assert_int_equal(sem_init(&all.entered, 0, 0), 0);
    assert_int_equal(sem_init(&all.open, 0, 0), 0);
    stage_open_real(&it, &options);
    for (int i = 0; i < 3; i++) {
        stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_block_thread,
                   &all);
    }
    for (int i = 0; i < 3; i++) {  // the third only if a worker was added
        while (sem_wait(&all.entered) != 0) {
        }
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    for (int i = 0; i < 3; i++) {
        sem_post(&all.open);
    }
    stage_close(&it);
}

/*
 * A world in which the test decides whether the worker is runnable and how
 * long it has run. A worker that only lacks a CPU needs no helper.
 */
typedef struct busy_world {
    tri_world base;
    tri_world_ops ops;
    _Atomic(bool) runnable;
    _Atomic(int64_t) ran;
    _Atomic(uint32_t) looks;
} busy_world;

static tr_nanos busy_ran(tri_world *world, tri_thread *thread)
{
    busy_world *it = tri_container_of(world, busy_world, base);
    (void)thread;
    atomic_fetch_add(&it->looks, 1);
    return atomic_load(&it->ran);
}

static bool busy_is_runnable(tri_world *world, tri_thread *thread)
{
    (void)thread;
    return atomic_load(&tri_container_of(world, busy_world, base)->runnable);
}

/* The worker blocks while another actor waits in its queue. */
static void expect_no_helper(bool until_it_blocks)
{
    enum { LOOKS = 5 };
    tri_world *real = tri_world_posix();
    busy_world world = {.base = *real, .ops = *real->ops, .runnable = true};
    world.base.ops = &world.ops;
    world.ops.thread_ran = busy_ran;
    world.ops.thread_is_runnable = busy_is_runnable;
    gate all;
    assert_int_equal(sem_init(&all.entered, 0, 0), 0);
    assert_int_equal(sem_init(&all.open, 0, 0), 0);
    stage it;
    tr_system_options options = {
        .size = sizeof(options), .workers = 1, .world = &world.base};
    stage_open_real(&it, &options);
    stage_tell(&it, it.one, act_block_thread, &all);
    while (sem_wait(&all.entered) != 0) {
    }
    stage_tell(&it, it.two, act_block_thread, &all);
    while (atomic_load(&world.looks) < LOOKS) {
        real->ops->yield(real);
    }
    assert_int_equal(threads_behind(&it, it.one), 1);
    if (until_it_blocks) {
        atomic_store(&world.runnable, false);
    } else {  // or until it has computed for long
        atomic_store(&world.ran, TRI_MONITOR_PERIOD);
    }
    while (sem_wait(&all.entered) != 0) {  // the helper has entered
    }
    // More of them if the first one was long in getting a CPU.
    assert_true(threads_behind(&it, it.one) >= 2);
    sem_post(&all.open);
    sem_post(&all.open);
    stage_close(&it);
}

static void test_DP8_a_worker_that_waits_for_a_cpu_is_not_blocked(void **state)
{
    (void)state;
    expect_no_helper(true);
    expect_no_helper(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP1_a_pinned_actor_has_a_thread_of_its_own),
        cmocka_unit_test(test_DP3_concurrent_actors_share_one_thread),
        cmocka_unit_test(test_DP3_a_pool_is_started_once_by_several_threads),
        cmocka_unit_test(test_DP4_dispatchers_are_found_by_name),
        cmocka_unit_test(test_DP2_any_number_of_workers),
        cmocka_unit_test(test_X28_the_number_of_workers_is_an_option),
        cmocka_unit_test(test_DP5_a_message_to_another_dispatcher),
        cmocka_unit_test(test_DP7_dispatchers_end_with_the_system),
        cmocka_unit_test(test_DP11_a_simulation_runs_on_one_thread),
        cmocka_unit_test(test_DP8_blocked_workers_are_replaced),
        cmocka_unit_test(test_DP8_a_worker_that_waits_for_a_cpu_is_not_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
