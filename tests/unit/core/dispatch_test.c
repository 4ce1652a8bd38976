/*
 * dispatch_test.c - which thread runs what: DP1 to DP8, DP10, X28, MB2, MB3,
 * MB18, X26, X37.
 */
#define _GNU_SOURCE  // names of threads

#include "support/stage.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "core/runtime.h"

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

static void test_dp01_a_pinned_actor_has_a_thread_of_its_own(void **state)
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

/* How many threads the dispatcher of ref has. */
static uint32_t threads_behind(stage *it, tr_ref ref)
{
    // Relaxed: fixed at spawn.
    uint32_t flags =
        atomic_load_explicit(&tri_ref_cell(ref)->flags, memory_order_relaxed);
    tri_group *group = it->sys->groups[(flags >> TRI_CELL_GROUP_SHIFT) & 0xff];
    // Acquire: pairs with tri_worker_new and tri_workers_start.
    assert_true(atomic_load_explicit(&group->started, memory_order_acquire));
    return atomic_load_explicit(&group->count, memory_order_acquire);
}

static void test_dp03_concurrent_actors_share_one_thread(void **state)
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

static bool is_thread_of_mine(pthread_t thread)
{
    char name[16] = "";
    assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
    return strncmp(name, "tr-mine", 7) == 0;
}

static void test_dp04_dispatchers_are_found_by_name(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, NULL);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .kind = TR_DISPATCH_PARALLEL,
                                .threads = 1));
    expect_err(tr_dispatcher_add(it.sys, "mine"), TR_EEXIST);
    expect_err(tr_dispatcher_add(it.sys, "not a name"), TR_EINVAL);
    tr_ref a = stage_spawn(&it, .dispatcher = "mine");  // DP5
    tr_ref b = stage_spawn(&it, .dispatcher = "mine");
    // Not the same thread: one that seems stuck may have got a helper.
    assert_true(is_thread_of_mine(thread_of(&it, a)));
    assert_true(is_thread_of_mine(thread_of(&it, b)));
    assert_false(is_thread_of_mine(thread_of(&it, it.one)));
    tr_ref none = stage_spawn(&it, .dispatcher = "nobody's");
    assert_int_not_equal(tr_ref_err(none), TR_OK);
    stage_close(&it);
}

/* DP2, X28: as many workers as one says, 24 too. */
static void test_dp02_any_number_of_workers(void **state)
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
        // At least: all of them held up for a while bring another.
        assert_true(threads_behind(&it, it.one) >=
                    (counts[i] != 0 ? counts[i] : cpus));
        for (int n = 0; n < 50; n++) {
            tr_ref ref = stage_spawn(&it, .soft_limit = 0);
            expect_ok(stage_ask(&it, ref, act_nothing, NULL));
        }
        stage_close(&it);  // DP7
    }
}

/* DP8: handlers that block all workers do not stop the rest. */
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

static void test_dp08_blocked_workers_are_replaced(void **state)
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
 * The same on a machine that has no processor for the worker: to add another
 * would not help. Its threads are what the test says they are.
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

/* Its worker blocks, with an actor behind it. */
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
    } else {  // or has computed for long
        atomic_store(&world.ran, TRI_MONITOR);
    }
    while (sem_wait(&all.entered) != 0) {  // the helper's
    }
    assert_int_equal(threads_behind(&it, it.one), 2);
    sem_post(&all.open);
    sem_post(&all.open);
    stage_close(&it);
}

static void test_dp08_one_that_lacks_a_processor_is_not_blocked(void **state)
{
    (void)state;
    expect_no_helper(true);
    expect_no_helper(false);
}

/*
 * Many new actors come before whoever has spawned them, but not before one
 * that waits for nothing but the processor. Now and then it is the other way
 * round, lest somebody starve: hence several tries.
 */
enum { NEWBORN = 400, FEW = 20, TRIES = 40 };

typedef struct births {
    _Atomic(uint64_t) started;
    _Atomic(uint64_t) before;  // so many when the other ran last
    _Atomic(uint32_t) counted;
    tr_ref other;
} births;

typedef struct Newborn {
    births *all;
} Newborn;

static tr_err newborn_start(tr_ctx *ctx, Newborn *self)
{
    (void)ctx;
    atomic_fetch_add(&self->all->started, 1);
    return TR_OK;
}

TR_ACTOR(newborn, Newborn, TR_HOOK(pre_start, newborn_start));

static tr_err act_count(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    births *all = arg;
    (void)self;
    atomic_store(&all->before, atomic_load(&all->started));
    atomic_fetch_add(&all->counted, 1);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_spawn_many(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    births *all = arg;
    (void)self;
    (void)m;
    for (int i = 0; i < NEWBORN; i++) {
        tr_ref ref = tr_spawn(ctx, newborn, TR_INIT(newborn, .all = all));
        if (tr_ref_err(ref) != TR_OK) return TR_ENOMEM;
    }
    act_tell(ctx, all->other, act_count, all);
    return TR_OK;
}

/* Has a new one, in its first turn, do what the spawner would. */
static tr_err act_spawn_one(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    births *all = arg;
    (void)m;
    tr_ref ref = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = self->stage));
    act_tell(ctx, ref, act_spawn_many, all);
    act_tell(ctx, all->other, act_nothing, NULL);  // before the new one
    return TR_OK;
}

static uint64_t births_before(act_fn spawner)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    stage_open_real(&it, &options);
    births all = {.other = it.two};
    expect_ok(stage_ask(&it, it.two, act_count, &all));  // it sleeps
    stage_tell(&it, it.one, spawner, &all);
    while (atomic_load(&all.started) < NEWBORN ||
           atomic_load(&all.counted) < 2) {
        tri_world_posix()->ops->yield(tri_world_posix());
    }
    stage_close(&it);
    return atomic_load(&all.before);
}

static void test_x26_who_spawns_waits_and_others_do_not(void **state)
{
    (void)state;
    int tries = 0;
    while (births_before(act_spawn_one) >= FEW) {
        assert_true(++tries < TRIES);
    }
#ifndef TRI_TORTURE  // where another has its turn sooner
    while (births_before(act_spawn_many) < FEW) {
        assert_true(++tries < TRIES);
    }
#endif
}

/* DP5: from a turn to an actor that sleeps, on another dispatcher. */
static tr_err act_tell_other(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    births *all = arg;
    act_tell(ctx, all->other, act_count, all);
    // Leaves a block behind, for the next of those: theirs do not come back.
    act_tell(ctx, self->stage->two, act_nothing, NULL);
    return tr_reply(ctx, m, .value = 1);
}

static void test_dp05_a_message_to_another_dispatcher(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .kind = TR_DISPATCH_PARALLEL,
                                .threads = 1));
    births all = {0};
    for (uint32_t i = 1; i <= 10; i++) {
        all.other = stage_spawn(&it, .dispatcher = i % 2 ? "mine" : "pinned");
        expect_ok(stage_ask(&it, all.other, act_nothing, NULL));
        expect_ok(stage_ask(&it, it.one, act_tell_other, &all));
        while (atomic_load(&all.counted) < i) {
            tri_world_posix()->ops->yield(tri_world_posix());
        }
    }
    stage_close(&it);
}

/* X26: a mailbox that never empties does not keep the others from running. */
static tr_err act_for_ever(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    act_tell(ctx, tr_self(ctx), act_for_ever, arg);
    act_tell(ctx, tr_self(ctx), act_nothing, NULL);
    return TR_OK;
}

static void test_x26_a_busy_actor_is_fair(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    stage_tell(&it, it.one, act_for_ever, NULL);
    for (int i = 0; i < 20; i++) {
        expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    }
    tr_kill(it.sys, it.one);
    stage_close(&it);
}

/* An actor that waits for its first turn is not passed by for ever. */
enum { LINKS_MAX = 1000000 };

typedef struct chain {
    _Atomic(bool) started;
    _Atomic(uint64_t) links;
} chain;

typedef struct chain_link {
    chain *chain;
    bool victim;
} chain_link;

static tr_err link_start(tr_ctx *ctx, chain_link *self);

TR_ACTOR(links, chain_link, TR_HOOK(pre_start, link_start));

static tr_err link_start(tr_ctx *ctx, chain_link *self)
{
    chain *it = self->chain;
    if (self->victim) {
        atomic_store(&it->started, true);
        return TR_OK;
    }
    if (!atomic_load(&it->started) &&
        atomic_fetch_add(&it->links, 1) < LINKS_MAX) {
        // As a child of /user: it does not wait for its own.
        (void)tr_spawn(tr_system_of(ctx), links, .dispatcher = "concurrent",
                       TR_INIT(links, .chain = it));
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err act_begin_chain(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)m;
    (void)tr_spawn(ctx, links, .dispatcher = "concurrent",
                   TR_INIT(links, .chain = arg, .victim = true));
    (void)tr_spawn(ctx, links, .dispatcher = "concurrent",
                   TR_INIT(links, .chain = arg));
    return TR_OK;
}

static void test_x26_a_new_actor_does_not_starve(void **state)
{
    stage it;
    chain one = {0};
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    // All on one thread, which never gets a helper: links are counted.
    tr_ref first = stage_spawn(&it, .dispatcher = "concurrent");
    expect_ok(stage_ask(&it, first, act_begin_chain, &one));
    while (!atomic_load(&one.started)) {
        expect_ok(stage_ask(&it, first, act_nothing, NULL));
    }
    assert_true(atomic_load(&one.links) < LINKS_MAX / 2);
    stage_close(&it);
}

/* MB2, MB3: many senders, never two turns of one actor at a time. */
enum { SENDERS = 3 };

typedef struct turnstile {
    stage *stage;
    _Atomic(int) inside;
    _Atomic(uint64_t) passed, crowded;
    uint64_t each;
} turnstile;

static tr_err act_pass(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    turnstile *it = arg;
    (void)ctx;
    (void)self;
    (void)m;
    if (atomic_fetch_add(&it->inside, 1) != 0) {
        atomic_fetch_add(&it->crowded, 1);
    }
    atomic_fetch_add(&it->passed, 1);
    atomic_fetch_sub(&it->inside, 1);
    return TR_OK;
}

static void *send_many(void *arg)
{
    turnstile *it = arg;
    for (uint64_t i = 0; i < it->each; i++) {
        act_tell(it->stage->sys, it->stage->one, act_pass, it);
    }
    return NULL;
}

static void test_mb02_mb06_one_turn_at_a_time(void **state)
{
    stage it;
    turnstile gate_one = {.stage = &it, .each = stage_scaled(100000)};
    pthread_t threads[SENDERS];
    tr_system_options options = {.size = sizeof(options), .workers = 4};
    (void)state;
    stage_open_real(&it, &options);
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, send_many, &gate_one), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_int_equal(atomic_load(&gate_one.passed), SENDERS * gate_one.each);
    assert_int_equal(atomic_load(&gate_one.crowded), 0);
    stage_close(&it);
}

/* X37: an actor that ends with its last handle. */
static void test_x37_auto_stop(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .auto_stop = true);
    stage_settle(&it);
    tr_handle second = tr_handle_hold(it.sys, ref);
    tr_handle_drop(it.sys, ref);
    tr_tell(it.sys, ref, Note, .value = 1);
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RUNNING);
    tr_tell(it.sys, ref, Note, .value = 2);
    tr_handle_drop(it.sys, second.ref);
    stage_settle(&it);
    expect_notes(&it, 1, 2);  // what was sent before is handled
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    // Handles of the dead do nothing to whoever lives there now.
    tr_handle_drop(it.sys, tr_handle_hold(it.sys, ref).ref);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dp01_a_pinned_actor_has_a_thread_of_its_own),
        cmocka_unit_test(test_dp03_concurrent_actors_share_one_thread),
        cmocka_unit_test(test_dp04_dispatchers_are_found_by_name),
        cmocka_unit_test(test_dp02_any_number_of_workers),
        cmocka_unit_test(test_dp08_blocked_workers_are_replaced),
        cmocka_unit_test(test_dp08_one_that_lacks_a_processor_is_not_blocked),
        cmocka_unit_test(test_x26_who_spawns_waits_and_others_do_not),
        cmocka_unit_test(test_dp05_a_message_to_another_dispatcher),
        cmocka_unit_test(test_x26_a_busy_actor_is_fair),
        cmocka_unit_test(test_x26_a_new_actor_does_not_starve),
        cmocka_unit_test(test_mb02_mb06_one_turn_at_a_time),
        cmocka_unit_test(test_x37_auto_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
