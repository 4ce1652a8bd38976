/*
 * engine.c - what all engines share: submitting, the thread, watches, opening.
 *
 * Every engine has a thread of its own that takes one operation after another
 * and answers it. Between operations, and every TRI_ENGINE_POLL while there
 * are watches, the thread looks whether a watch is to be answered.
 */
#include "cluster/engine/engine.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "base/owner.h"

enum { REPORT_MAX = 1024, PLACE_MAX = 32 };

/* ---- operations ---- */

/* Aborts if a CAS is not what the contract allows. */
static void check_changes(const tri_engine_op *op)
{
    TRI_CHECK(op->change_count > 0);
    TRI_CHECK(op->change_count <= TRI_ENGINE_CHANGES_MAX);
    for (uint32_t i = 0; i < op->change_count; i++) {
        const tri_engine_change *change = &op->changes[i];
        TRI_CHECK(strlen(change->key) <= TRI_ENGINE_KEY_MAX);
        TRI_CHECK(change->size <= TRI_ENGINE_VALUE_MAX);
        // Deleting what must not exist changes nothing.
        TRI_CHECK(change->value != NULL || change->expected != 0);
        for (uint32_t k = 0; k < i; k++) {
            TRI_CHECK(strcmp(change->key, op->changes[k].key) != 0);
        }
    }
}

void tri_engine_submit(tr_engine *engine, tri_engine_op *op)
{
    tri_list one;

    TRI_CHECK(engine->magic == TRI_ENGINE_MAGIC);
    TRI_CHECK(op->done != NULL);
    if (op->call == TRI_ENGINE_CAS) {
        check_changes(op);
    } else {
        TRI_CHECK(strlen(op->key) <= TRI_ENGINE_KEY_MAX);
    }
    op->answer = 0;
    op->err = TR_OK;
    op->text[0] = '\0';
    op->row_count = 0;
    tri_list_init(&op->rows);
    // Relaxed: the inbox publishes it.
    atomic_store_explicit(&op->cancelled, false, memory_order_relaxed);
    tri_list_init(&one);
    tri_list_push_back(&one, &op->link);
    tri_inbox_push(&engine->inbox, &one);
}

void tri_engine_cancel(tr_engine *engine, tri_engine_op *op)
{
    TRI_CHECK(engine->magic == TRI_ENGINE_MAGIC);
    TRI_CHECK(op->call == TRI_ENGINE_WATCH);
    // Relaxed: the lock of the inbox publishes it to the thread it wakes.
    atomic_store_explicit(&op->cancelled, true, memory_order_relaxed);
    tri_inbox_wake(&engine->inbox);
}

void tri_engine_op_fini(tri_engine_op *op)
{
    if (op->rows.head.next == NULL) {
        return;  // it was never submitted
    }
    while (!tri_list_is_empty(&op->rows)) {
        free(
            tri_list_item(tri_list_pop_front(&op->rows), tri_engine_row, link));
    }
    op->row_count = 0;
}

tri_engine_row *tri_engine_op_row(const tri_engine_op *op)
{
    TRI_CHECK(op->row_count <= 1);
    return tri_list_item(tri_list_first(&op->rows), tri_engine_row, link);
}

bool tri_engine_add_row(tri_engine_op *op, const char *key, uint64_t revision,
                        const void *value, size_t size)
{
    size_t key_size = strlen(key) + 1;

    if (op->row_count == TRI_ENGINE_ROWS_MAX) {
        tri_engine_fail(op, TR_ELIMIT, "more than %d rows begin with '%s'",
                        TRI_ENGINE_ROWS_MAX, op->key);
        return false;
    }
    tri_engine_row *row = malloc(sizeof(*row) + key_size + size);
    if (row == NULL) {
        tri_engine_fail(op, TR_ENOMEM, "no memory for the answer");
        return false;
    }
    char *bytes = (char *)(row + 1);
    *row = (tri_engine_row){.revision = revision,
                            .key = bytes,
                            .value = bytes + key_size,
                            .size = size};
    memcpy(bytes, key, key_size);
    if (size > 0) {
        memcpy(bytes + key_size, value, size);
    }
    tri_list_push_back(&op->rows, &row->link);
    op->row_count++;
    return true;
}

void tri_engine_fail(tri_engine_op *op, tr_err err, const char *format, ...)
{
    va_list args;

    TRI_CHECK(err != TR_OK);
    tri_engine_op_fini(op);
    op->answer = TRI_ENGINE_UNKNOWN;
    op->err = err;
    va_start(args, format);
    (void)vsnprintf(op->text, sizeof(op->text), format, args);
    va_end(args);
}

/* ---- the thread ---- */

/* Returns true if the watch is to be answered now, and fills the answer in. */
static bool is_over(tr_engine *engine, tri_engine_op *watch)
{
    uint64_t now = watch->after;

    // Relaxed: the inbox's lock was taken since it was set.
    if (atomic_load_explicit(&watch->cancelled, memory_order_relaxed)) {
        tri_engine_fail(watch, TR_ESTOPPED, "the watch was cancelled");
        return true;
    }
    if (!engine->ops->changed(engine, watch->key, watch->after, &now)) {
        return false;
    }
    watch->answer = TRI_ENGINE_YES;
    watch->revision = now;
    return true;
}

static void answer_watches(tr_engine *engine)
{
    TRI_LIST_EACH_SAFE (link, &engine->watches) {
        tri_engine_op *watch = tri_container_of(link, tri_engine_op, link);
        if (is_over(engine, watch)) {
            tri_list_remove(link);
            watch->done(watch);
        }
    }
}

/* Answers an operation, or puts a watch among the others. */
static void take_op(tr_engine *engine, tri_engine_op *op)
{
    if (op->call == TRI_ENGINE_WATCH) {
        tri_list_push_back(&engine->watches, &op->link);
        return;
    }
    engine->ops->execute(engine, op);
    TRI_CHECK(op->answer != 0);
    TRI_CHECK(op->answer != TRI_ENGINE_NO || op->call == TRI_ENGINE_CAS);
    op->done(op);
}

/* Answers all operations until the engine is closed and none is left. */
static void engine_loop(void *arg)
{
    tr_engine *engine = arg;
    tri_list ops;
    bool more = true;

    tri_list_init(&ops);
    while (more) {
        tr_nanos wait =
            tri_list_is_empty(&engine->watches) ? TR_FOREVER : TRI_ENGINE_POLL;
        more = tri_inbox_take(&engine->inbox, &ops, 1, wait) > 0 ||
               !tri_inbox_is_closed(&engine->inbox);
        if (!tri_list_is_empty(&ops)) {
            take_op(engine, tri_list_item(tri_list_pop_front(&ops),
                                          tri_engine_op, link));
        }
        answer_watches(engine);
    }
    while (!tri_list_is_empty(&engine->watches)) {
        tri_engine_op *watch = tri_list_item(
            tri_list_pop_front(&engine->watches), tri_engine_op, link);
        tri_engine_fail(watch, TR_ECLOSED, "the engine was closed");
        watch->done(watch);
    }
}

/* ---- opening and closing ---- */

void tri_engine_hold(tr_engine *engine)
{
    TRI_CHECK(engine->magic == TRI_ENGINE_MAGIC);
    // Relaxed: the caller already has a valid pointer to the engine.
    atomic_fetch_add_explicit(&engine->users, 1, memory_order_relaxed);
}

void tri_engine_drop(tr_engine *engine)
{
    TRI_CHECK(engine->magic == TRI_ENGINE_MAGIC);
    // Release: pairs with the acquire in tr_engine_close.
    uint32_t before =
        atomic_fetch_sub_explicit(&engine->users, 1, memory_order_release);
    TRI_CHECK(before > 0);
}

void tr_engine_close(tr_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    TRI_CHECK(engine->magic == TRI_ENGINE_MAGIC);
    // Acquire: pairs with tri_engine_drop.
    if (atomic_load_explicit(&engine->users, memory_order_acquire) != 0) {
        tr_abort("tr_engine_close",
                 "a system still uses this engine: close that first");
    }
    engine->magic = 0;
    tri_inbox_close(&engine->inbox);
    engine->world->ops->thread_join(engine->world, engine->thread);
    engine->ops->free(engine);
}

/* Reports why an engine cannot be opened: to options->text, else to the log. */
static void report_failure(const tr_engine_options *options, tri_world *world,
                           const char *what, const char *why)
{
    char text[REPORT_MAX], place[PLACE_MAX] = "";  // which simulated process

    if (options->text_size == 0 && world->ops->place != NULL) {
        world->ops->place(world, place, sizeof(place));
    }
    (void)snprintf(text, sizeof(text), "%s%s%s: %s", place,
                   place[0] != '\0' ? ", " : "", what, why);
    if (options->text_size > 0) {
        (void)snprintf(options->text, options->text_size, "%s", text);
    } else {
        tri_log_write(TRI_LOG_ERROR, world->ops->wall(world), NULL, NULL, text);
    }
}

tri_world *tri_engine_options(tr_engine_options *own,
                              const tr_engine_options *given)
{
    TRI_CHECK(own != NULL);
    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_engine_options, system), given)) {
        report_failure(
            own, tri_world_posix(), "tr_engine_options",
            ".size is not sizeof(tr_engine_options), or of a newer version");
        return NULL;
    }
    if (own->system != NULL && own->world == NULL) {
        tri_owner *owner = tri_owner_of(own->system);
        own->world = owner->ops->world(owner);
    }
    return tri_world_given(own->world, "tr_engine_options");
}

void tri_engine_init(tr_engine *engine, const tri_engine_ops *ops,
                     tri_world *world)
{
    TRI_CHECK(ops->execute != NULL);
    TRI_CHECK(ops->changed != NULL);
    TRI_CHECK(ops->free != NULL);
    engine->ops = ops;
    engine->world = world;
    engine->thread = NULL;
    tri_inbox_init(&engine->inbox, world);
    tri_list_init(&engine->watches);
    // Relaxed: no other thread knows the engine yet.
    atomic_store_explicit(&engine->users, 0, memory_order_relaxed);
}

static void close_with_owner(void *arg)
{
    tr_engine_close(arg);
}

/* Starts the thread. From then on the engine is closed, not only freed. */
static tr_err start(tr_engine *engine, tr_system *owner_system)
{
    tri_world *world = engine->world;
    tr_err err = world->ops->thread_start(world, &engine->thread, "tr-engine",
                                          engine_loop, engine);

    if (err != TR_OK) {
        engine->ops->free(engine);
        return err;
    }
    engine->magic = TRI_ENGINE_MAGIC;
    if (owner_system != NULL) {
        tri_owner *owner = tri_owner_of(owner_system);
        err = owner->ops->on_closed(owner, close_with_owner, engine);
        if (err != TR_OK) {
            tr_engine_close(engine);
        }
    }
    return err;
}

tr_err tri_engine_open(tr_engine **out, tr_engine *engine,
                       const tr_engine_options *options, tri_world *world,
                       tr_err err, const char *what, const char *why)
{
    TRI_CHECK((err == TR_OK) == (engine != NULL));
    *out = NULL;
    if (err == TR_OK) {
        err = start(engine, options->system);
    }
    if (err != TR_OK) {
        report_failure(options, world, what,
                       why[0] != '\0' ? why : tr_strerror(err));
        return err == TR_EIO ? TR_ESTORAGE : err;
    }
    if (options->text_size > 0) {
        options->text[0] = '\0';
    }
    *out = engine;
    return TR_OK;
}
