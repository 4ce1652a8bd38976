/*
 * toy_world.h - a bare simulated world, a system of a few lines in it, and two
 * threads that talk: for tests of the world without any actor.
 */
#ifndef TEST_TOY_WORLD_H
#define TEST_TOY_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/world.h"
#include "troupe/sim.h"

enum { TOY_ACTORS = 20 };

static inline tr_sim *sim_of(uint64_t seed)
{
    tr_sim *sim;

    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    return sim;
}

static inline tri_world *world_of(tr_sim *sim)
{
    return (tri_world *)tr_sim_world(sim);
}

static inline uint32_t load(_Atomic(uint32_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void store(_Atomic(uint32_t) *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* ---- a system: actors that are numbers in a run queue, and one timer ---- */

typedef struct toy {
    tri_driven driven;
    uint32_t queue[TOY_ACTORS];  // the runnable actors
    uint32_t count;
    uint32_t left;   // steps until it rests
    uint64_t order;  // a hash over the actors, in the order they ran
    tr_nanos due;
    tr_nanos fired_at;
    uint32_t fired;
    uint32_t deepest;  // the highest index that was stepped
} toy;

static inline uint32_t toy_runnable(void *system)
{
    toy *it = system;

    return it->left > 0 ? it->count : 0;
}

static inline void toy_step(void *system, uint32_t index)
{
    toy *it = system;

    assert_true(index < it->count);
    it->deepest = index > it->deepest ? index : it->deepest;
    it->left--;
    uint32_t who = it->queue[index];
    it->order = tri_hash_mix(it->order ^ who);
    memmove(&it->queue[index], &it->queue[index + 1],
            (it->count - index - 1) * sizeof(it->queue[0]));
    it->queue[it->count - 1] = who;
}

static inline tr_nanos toy_next_due(void *system)
{
    return ((toy *)system)->due;
}

static inline void toy_fire(void *system, tr_nanos now)
{
    toy *it = system;

    if (now >= it->due) {
        it->fired_at = now;
        it->fired++;
        it->due = TR_FOREVER;
    }
}

static inline void toy_init(toy *it, uint32_t actors, uint32_t steps)
{
    *it = (toy){.count = actors, .left = steps, .due = TR_FOREVER};
    it->driven = (tri_driven){.system = it,
                              .runnable = toy_runnable,
                              .step = toy_step,
                              .next_due = toy_next_due,
                              .fire = toy_fire};
    for (uint32_t i = 0; i < actors; i++) {
        it->queue[i] = i;
    }
}

/* ---- threads that talk ---- */

/* What the threads of a test share. */
typedef struct talk {
    tri_world *world;
    _Atomic(uint32_t) word;
    _Atomic(uint32_t) end;
    uint32_t turns;
    tr_nanos at;
    bool answer;
} talk;

/* Takes the even numbers, pong the odd ones. */
static inline void ping(void *arg)
{
    talk *it = arg;

    for (uint32_t i = 0; i < 100; i++) {
        while (load(&it->word) % 2 != 0) {
            it->world->ops->park(it->world, &it->word, load(&it->word),
                                 TR_FOREVER);
        }
        it->turns++;
        store(&it->word, load(&it->word) + 1);
        it->world->ops->wake(it->world, &it->word, 1);
    }
}

static inline void pong(void *arg)
{
    talk *it = arg;

    for (uint32_t i = 0; i < 100; i++) {
        while (load(&it->word) % 2 == 0) {
            it->world->ops->park(it->world, &it->word, load(&it->word),
                                 TR_FOREVER);
        }
        store(&it->word, load(&it->word) + 1);
        it->world->ops->wake(it->world, &it->word, 1);
    }
}

#endif
