/*
 * scheduler_test.c - which cell a worker runs next.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "support/core.h"

/*
 * Many newborn actors run before the actor that has spawned them, but not
 * before another actor that is ready. Now and then the scheduler picks the
 * other way round so that nobody starves: hence several tries.
 */
enum { NEWBORN = 400, FEW = 20, TRIES = 40 };

typedef struct births {
    _Atomic(uint64_t) started;
    _Atomic(uint64_t) before;  // started when the other actor ran last
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

/* Lets a newborn actor spawn the others in its first turn. */
static tr_err act_spawn_one(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    births *all = arg;
    (void)m;
    tr_ref ref = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = self->stage));
    act_tell(ctx, ref, act_spawn_many, all);
    // The other actor is in the queue before the newborn one.
    act_tell(ctx, all->other, act_nothing, NULL);
    return TR_OK;
}

static uint64_t births_before(act_fn spawner)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    stage_open_real(&it, &options);
    births all = {.other = it.two};
    // The other actor has started and sleeps.
    expect_ok(stage_ask(&it, it.two, act_count, &all));
    stage_tell(&it, it.one, spawner, &all);
    while (atomic_load(&all.started) < NEWBORN ||
           atomic_load(&all.counted) < 2) {
        tri_world_posix()->ops->yield(tri_world_posix());
    }
    stage_close(&it);
    return atomic_load(&all.before);
}

static void test_X26_newborn_actors_overtake_only_their_spawner(void **state)
{
    (void)state;
    int tries = 0;
    while (births_before(act_spawn_one) >= FEW) {
        assert_true(++tries < TRIES);
    }
#ifndef TRI_TORTURE  // torture builds switch actors sooner
    while (births_before(act_spawn_many) < FEW) {
        assert_true(++tries < TRIES);
    }
#endif
}

/* Sends itself two messages for each it handles: never runs dry. */
static tr_err act_never_run_dry(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)self;
    (void)m;
    act_tell(ctx, tr_self(ctx), act_never_run_dry, arg);
    act_tell(ctx, tr_self(ctx), act_nothing, NULL);
    return TR_OK;
}

static void test_X26_a_busy_actor_lets_others_run(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    stage_tell(&it, it.one, act_never_run_dry, NULL);
    for (int i = 0; i < 20; i++) {
        expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    }
    tr_kill(it.sys, it.one);
    stage_close(&it);
}

/*
 * A chain of newborn actors, each of which spawns the next. The first actor
 * of all, the victim, must run before the chain has become long.
 */
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
        // As a child of /user, so that this link can end before it.
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

static void test_X26_a_new_actor_does_not_starve(void **state)
{
    stage it;
    chain one = {0};
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    // All on one thread; "concurrent" never gets a second one.
    tr_ref first = stage_spawn(&it, .dispatcher = "concurrent");
    expect_ok(stage_ask(&it, first, act_begin_chain, &one));
    while (!atomic_load(&one.started)) {
        expect_ok(stage_ask(&it, first, act_nothing, NULL));
    }
    assert_true(atomic_load(&one.links) < LINKS_MAX / 2);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X26_newborn_actors_overtake_only_their_spawner),
        cmocka_unit_test(test_X26_a_busy_actor_lets_others_run),
        cmocka_unit_test(test_X26_a_new_actor_does_not_starve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
