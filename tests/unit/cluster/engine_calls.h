/*
 * engine_calls.h - calls of an engine that wait for their answer, for tests.
 */
#ifndef TEST_CLUSTER_ENGINE_CALLS_H
#define TEST_CLUSTER_ENGINE_CALLS_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "cluster/engine/engine.h"

/* An operation, and the word that its caller waits on. */
typedef struct posed {
    tri_engine_op op;
    tr_engine *engine;
    _Atomic(uint32_t) answers;
    tri_engine_change change;  // of a CAS of one key
} posed;

static inline void on_posed(tri_engine_op *op)
{
    posed *it = tri_container_of(op, posed, op);
    tri_world *world = it->engine->world;

    // Release: pairs with the acquire in posed_wait.
    atomic_store_explicit(&it->answers, 1, memory_order_release);
    world->ops->wake(world, &it->answers, 1);
}

static inline void posed_submit(posed *it, tr_engine *engine)
{
    it->engine = engine;
    it->op.done = on_posed;
    atomic_store_explicit(&it->answers, 0, memory_order_relaxed);
    tri_engine_submit(engine, &it->op);
}

static inline tri_engine_answer posed_wait(posed *it)
{
    tri_world *world = it->engine->world;

    while (atomic_load_explicit(&it->answers, memory_order_acquire) == 0) {
        (void)world->ops->park(world, &it->answers, 0, TR_FOREVER);
    }
    return it->op.answer;
}

static inline tri_engine_answer posed_run(posed *it, tr_engine *engine)
{
    posed_submit(it, engine);
    return posed_wait(it);
}

/* Runs a CAS of one key; `text` NULL deletes it. */
static inline tri_engine_answer cas_run(posed *it, tr_engine *engine,
                                        const char *key, uint64_t expected,
                                        const char *text)
{
    *it = (posed){
        .change = {key, expected, text, text == NULL ? 0 : strlen(text)}};
    it->op.call = TRI_ENGINE_CAS;
    it->op.changes = &it->change;
    it->op.change_count = 1;
    return posed_run(it, engine);
}

static inline tri_engine_answer cas_text(tr_engine *engine, const char *key,
                                         uint64_t expected, const char *text,
                                         uint64_t *revision)
{
    posed it;
    tri_engine_answer answer = cas_run(&it, engine, key, expected, text);

    if (answer == TRI_ENGINE_YES && revision != NULL) {
        *revision = it.op.revision;
    }
    return answer;
}

static inline tri_engine_answer read_run(posed *it, tr_engine *engine,
                                         tri_engine_call call, const char *key,
                                         uint64_t after)
{
    *it = (posed){.op = {.call = call, .key = key, .after = after}};
    return posed_run(it, engine);
}

#define ROWS_TEXT 1024

/* Reads the rows as "key=value key=value"; "unknown" if there is no answer. */
static inline const char *rows_text(tr_engine *engine, tri_engine_call call,
                                    const char *key, uint64_t after,
                                    char out[ROWS_TEXT])
{
    posed it;
    size_t used = 0;

    out[0] = '\0';
    if (read_run(&it, engine, call, key, after) != TRI_ENGINE_YES) {
        return strcpy(out, "unknown");
    }
    TRI_LIST_EACH_ITEM (row, &it.op.rows, tri_engine_row, link) {
        TRI_CHECK(used < ROWS_TEXT);
        used += (size_t)snprintf(out + used, ROWS_TEXT - used, "%s%s=%.*s",
                                 used > 0 ? " " : "", row->key, (int)row->size,
                                 (const char *)row->value);
    }
    tri_engine_op_fini(&it.op);
    return out;
}

/* Sets *revision of a key, 0 if it is not there, and returns its number. */
static inline uint64_t read_number(tr_engine *engine, const char *key,
                                   uint64_t *revision)
{
    posed it;
    uint64_t number = 0;

    while (read_run(&it, engine, TRI_ENGINE_GET, key, 0) != TRI_ENGINE_YES) {
        // The read is repeated until the engine is reached.
    }
    tri_engine_row *row = tri_engine_op_row(&it.op);
    *revision = row == NULL ? 0 : row->revision;
    if (row != NULL) {
        char text[32];
        snprintf(text, sizeof(text), "%.*s", (int)row->size,
                 (const char *)row->value);
        number = strtoull(text, NULL, 10);
    }
    tri_engine_op_fini(&it.op);
    return number;
}

#endif
