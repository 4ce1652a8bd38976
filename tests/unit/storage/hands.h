/*
 * hands.h - threads, or processes, that add to the same counters in a store:
 * each increment is won exactly once, whoever wins it.
 */
#ifndef TEST_STORAGE_HANDS_H
#define TEST_STORAGE_HANDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/store_calls.h"

#define HANDS       4
#define HAND_KEYS   3
#define HAND_SHARDS 2

typedef struct hand {
    tr_storage *store;
    uint32_t wins;  // this many, then it has done its part
    uint32_t won;
    uint32_t bad;
} hand;

static inline void hand_key(char out[32], uint32_t index)
{
    snprintf(out, 32, "a::b/%u", index);
}

/* Adds by load and save, as long as it takes; ends with what is bad. */
static inline void hand_count_up(void *arg)
{
    hand *it = arg;

    for (uint32_t i = 0; it->won < it->wins && it->bad == 0; i++) {
        char key[32], text[32], next[32];
        hand_key(key, i % HAND_KEYS);
        asked load = ask_for(TR_STORE_LOAD, key);
        it->bad += asked_run(&load, it->store) != TR_OK;
        snprintf(text, sizeof(text), "%.*s", (int)load.op.out_size,
                 load.op.out == NULL ? "" : (const char *)load.op.out);
        uint64_t version = load.op.version;
        it->bad += strtoull(text, NULL, 10) != version;
        tri_store_op_fini(&load.op);
        snprintf(next, sizeof(next), "%llu", (unsigned long long)version + 1);
        asked save = ask_save(key, version, next);
        save.op.shard = i % HAND_KEYS % HAND_SHARDS;
        tr_err err = asked_run(&save, it->store);
        it->won += err == TR_OK;
        it->bad += err != TR_OK && err != TR_EFENCED;
    }
}

/* All counters together were raised so often. */
static inline void assert_counted(tr_storage *store, uint64_t wins)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < HAND_KEYS; i++) {
        char key[32];
        hand_key(key, i);
        asked load = ask_for(TR_STORE_LOAD, key);
        assert_int_equal(asked_run(&load, store), TR_OK);
        sum += load.op.version;
        tri_store_op_fini(&load.op);
    }
    assert_int_equal(sum, wins);
}

/* HANDS threads, spread over the stores, which share what they store. */
static inline void hands_compete(tr_storage *const stores[], size_t count,
                                 uint32_t wins)
{
    tri_world *world = tri_world_posix();
    tri_thread *threads[HANDS];
    hand hands[HANDS];

    for (size_t i = 0; i < HANDS; i++) {
        hands[i] = (hand){.store = stores[i % count], .wins = wins};
        assert_int_equal(world->ops->thread_start(world, &threads[i], "hand",
                                                  hand_count_up, &hands[i]),
                         TR_OK);
    }
    for (size_t i = 0; i < HANDS; i++) {
        world->ops->thread_join(world, threads[i]);
        assert_int_equal(hands[i].bad, 0);
    }
    assert_counted(stores[0], HANDS * wins);
}

#endif
