/*
 * store_calls.h - calls of a store that wait for their answer, for tests.
 */
#ifndef TEST_STORAGE_STORE_CALLS_H
#define TEST_STORAGE_STORE_CALLS_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world.h"
#include "storage/storage.h"

/* A store request, and the word that its caller waits on. */
typedef struct asked {
    tri_store_op op;
    _Atomic(uint32_t) answers;
} asked;

static inline void on_answer(tri_store_op *op)
{
    asked *it = tri_container_of(op, asked, op);
    tri_world *world = tri_world_posix();

    // Release: pairs with the acquire in asked_wait.
    atomic_fetch_add_explicit(&it->answers, 1, memory_order_release);
    world->ops->wake(world, &it->answers, 1);
}

static inline tri_store_bytes bytes_of(const char *text)
{
    return (tri_store_bytes){text, text == NULL ? 0 : strlen(text)};
}

static inline asked ask_for(tr_store_call call, const char *key)
{
    return (asked){
        .op = {.call = call, .key = bytes_of(key), .done = on_answer}};
}

static inline void asked_submit(asked *it, tr_storage *store)
{
    atomic_store_explicit(&it->answers, 0, memory_order_relaxed);
    tri_storage_submit(store, &it->op);
}

static inline void asked_wait(asked *it)
{
    tri_world *world = tri_world_posix();

    while (atomic_load_explicit(&it->answers, memory_order_acquire) == 0) {
        (void)world->ops->park(world, &it->answers, 0, TR_FOREVER);
    }
}

/* Submits and waits. Returns the error. */
static inline tr_err asked_run(asked *it, tr_storage *store)
{
    asked_submit(it, store);
    asked_wait(it);
    return it->op.err;
}

static inline asked ask_save(const char *key, uint64_t version,
                             const char *text)
{
    asked it = ask_for(TR_STORE_SAVE, key);

    it.op.number = version;
    it.op.bytes = bytes_of(text);
    return it;
}

static inline tr_err save_text(tr_storage *store, const char *key,
                               uint64_t version, const char *text)
{
    asked it = ask_save(key, version, text);

    return asked_run(&it, store);
}

#define LOADED_SIZE 256

/* Loads as "version:state", "none", or the name of the error. */
static inline const char *load_text(tr_storage *store, const char *key,
                                    char out[LOADED_SIZE])
{
    asked it = ask_for(TR_STORE_LOAD, key);

    if (asked_run(&it, store) != TR_OK) {
        snprintf(out, LOADED_SIZE, "%s", tr_errname(it.op.err));
    } else if (!it.op.found) {
        snprintf(out, LOADED_SIZE, "none");
    } else {
        snprintf(out, LOADED_SIZE, "%llu:%.*s",
                 (unsigned long long)it.op.version, (int)it.op.out_size,
                 (const char *)it.op.out);
    }
    tri_store_op_fini(&it.op);
    return out;
}

#define assert_stored(store, key, expected)                                    \
    do {                                                                       \
        char loaded_[LOADED_SIZE];                                             \
        assert_string_equal(load_text(store, key, loaded_), expected);         \
    } while (0)

/* ---- a folder for one test ---- */

#define FOLDER_SIZE 256

typedef struct folder {
    char path[FOLDER_SIZE];
    char database[FOLDER_SIZE + 8];
} folder;

static inline bool folder_make(folder *it)
{
    const char *base = getenv("TMPDIR");

    snprintf(it->path, sizeof(it->path), "%s/troupe-XXXXXX",
             base == NULL ? P_tmpdir : base);
    if (mkdtemp(it->path) == NULL) {
        return false;
    }
    snprintf(it->database, sizeof(it->database), "%s/db", it->path);
    return true;
}

static inline void folder_clean(const folder *it)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char path[FOLDER_SIZE + 32];

    for (size_t i = 0; i < TRI_COUNT_OF(suffixes); i++) {
        snprintf(path, sizeof(path), "%s%s", it->database, suffixes[i]);
        (void)unlink(path);
    }
}

/* Removes the folder; fails if it has other files than a database's. */
static inline int folder_remove(const folder *it)
{
    folder_clean(it);
    return rmdir(it->path);
}

/* Returns by how much long tests are multiplied: TR_TEST_SCALE, or 1. */
static inline uint32_t test_scale(void)
{
    const char *text = getenv("TR_TEST_SCALE");
    long scale = text == NULL ? 1 : strtol(text, NULL, 10);

    return scale < 1 ? 1 : (uint32_t)scale;
}

#endif
