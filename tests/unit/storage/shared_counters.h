/*
 * shared_counters.h - threads, or processes, that increment the same counters
 * in a store. Each counter is a state, and each increment a save that names
 * the version it replaces: so each version is saved exactly once.
 */
#ifndef TEST_STORAGE_SHARED_COUNTERS_H
#define TEST_STORAGE_SHARED_COUNTERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/store_calls.h"

#define INCREMENTERS   4
#define COUNTERS       3
#define COUNTER_SHARDS 2

typedef struct incrementer {
    tr_storage *store;
    uint32_t wanted;  // increments
    uint32_t done;
    uint32_t bad;  // answers that no store may give
} incrementer;

static inline void counter_key(char out[32], uint32_t index)
{
    snprintf(out, 32, "a::b/%u", index);
}

/* Increments by load and save until it is done, or an answer is bad. */
static inline void incrementer_run(void *arg)
{
    incrementer *it = arg;

    for (uint32_t i = 0; it->done < it->wanted && it->bad == 0; i++) {
        char key[32], text[32], next[32];
        counter_key(key, i % COUNTERS);
        asked load = ask_for(TR_STORE_LOAD, key);
        it->bad += asked_run(&load, it->store) != TR_OK;
        snprintf(text, sizeof(text), "%.*s", (int)load.op.out_size,
                 load.op.out == NULL ? "" : (const char *)load.op.out);
        uint64_t version = load.op.version;
        it->bad += strtoull(text, NULL, 10) != version;
        tri_store_op_fini(&load.op);
        snprintf(next, sizeof(next), "%llu", (unsigned long long)version + 1);
        asked save = ask_save(key, version, next);
        save.op.shard = i % COUNTERS % COUNTER_SHARDS;
        tr_err err = asked_run(&save, it->store);
        it->done += err == TR_OK;
        it->bad += err != TR_OK && err != TR_EFENCED;
    }
}

/* The sum of all counters is `wanted`. */
static inline void assert_counted(tr_storage *store, uint64_t wanted)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < COUNTERS; i++) {
        char key[32];
        counter_key(key, i);
        asked load = ask_for(TR_STORE_LOAD, key);
        assert_int_equal(asked_run(&load, store), TR_OK);
        sum += load.op.version;
        tri_store_op_fini(&load.op);
    }
    assert_int_equal(sum, wanted);
}

/* Runs threads on several stores that share their data; checks the sum. */
static inline void increment_in_threads(tr_storage *const stores[],
                                        size_t count, uint32_t wanted)
{
    tri_world *world = tri_world_posix();
    tri_thread *threads[INCREMENTERS];
    incrementer incrementers[INCREMENTERS];

    for (size_t i = 0; i < INCREMENTERS; i++) {
        incrementers[i] =
            (incrementer){.store = stores[i % count], .wanted = wanted};
        assert_int_equal(
            world->ops->thread_start(world, &threads[i], "incrementer",
                                     incrementer_run, &incrementers[i]),
            TR_OK);
    }
    for (size_t i = 0; i < INCREMENTERS; i++) {
        world->ops->thread_join(world, threads[i]);
        assert_int_equal(incrementers[i].bad, 0);
    }
    assert_counted(stores[0], INCREMENTERS * wanted);
}

#endif
