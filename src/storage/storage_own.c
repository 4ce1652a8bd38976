/*
 * storage_own.c - a store of the program's own, behind a table of functions.
 *
 * A thread of the store takes operations one after the other and calls the
 * functions, which may block. They keep states only: a store of one's own has
 * no events and no reminders, so reading these finds none, and writing them
 * fails.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/options.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/message.h"
#include "troupe/storage.h"

enum { BATCH = 64 };  // operations that are taken at once

typedef struct own_store {
    tr_storage base;
    tr_store_ops ops;
    void *user;
    tri_world *world;
    tri_thread *thread;  // NULL: not started
    tri_inbox inbox;
} own_store;

/* The answer that a function fills in. */
struct tr_store_answer {
    tri_store_op *op;
    uint32_t left;  // keys that a scan may still add
    bool is_full;
    char text[TRI_STORE_TEXT_SIZE];
};

static own_store *store_of(tr_storage *storage)
{
    return tri_container_of(storage, own_store, base);
}

/* ---- what the functions call ---- */

void tr_store_answer_state(tr_store_answer *answer, uint64_t version,
                           const void *bytes, size_t size)
{
    TRI_CHECK(answer->op->call == TR_STORE_LOAD);
    TRI_CHECK(version > 0);
    tri_store_op_fini(answer->op);  // of an earlier call
    (void)tri_store_set_state(answer->op, bytes, size, version);
}

bool tr_store_answer_key(tr_store_answer *answer, const char *key)
{
    TRI_CHECK(answer->op->call == TR_STORE_SCAN);
    TRI_CHECK(key != NULL);
    tri_store_row row = {.key = {key, strlen(key)}};

    if (answer->left == 0) {
        answer->op->more = true;
        answer->is_full = true;
    }
    if (answer->is_full || answer->op->err != TR_OK) {
        return false;
    }
    answer->left--;
    answer->is_full = !tri_store_add_row(answer->op, &row);
    return !answer->is_full;
}

void tr_store_answer_text(tr_store_answer *answer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(answer->text, sizeof(answer->text), format, args);
    va_end(args);
}

/* ---- one operation ---- */

static tr_store_fn *function_of(const own_store *store, tr_store_call call)
{
    switch (call) {
    case TR_STORE_LOAD:
        return store->ops.load;
    case TR_STORE_SAVE:
        return store->ops.save;
    case TR_STORE_DELETE:
        return store->ops.remove;
    case TR_STORE_FENCE:
        return store->ops.fence;
    case TR_STORE_SCAN:
        return store->ops.scan;
    default:
        return NULL;
    }
}

/* Answers an operation on events or reminders, of which there are none. */
static void run_without(const own_store *store, tri_store_op *op)
{
    if (op->call == TR_STORE_APPEND || op->call == TR_STORE_REMIND) {
        tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED,
                       "the store %s keeps no %s", store->ops.name,
                       op->call == TR_STORE_APPEND ? "events" : "reminders");
    }
}

/* Turns what the function returned into the answer. */
static void finish(const own_store *store, const tr_store_answer *answer,
                   tr_err err)
{
    tri_store_op *op = answer->op;
    bool is_known = err == TR_EFENCED || err == TR_ENOENT || err == TR_EIO ||
                    err == TR_ESTORAGE || err == TR_EUNKNOWN ||
                    err == TR_ENOMEM || err == TR_ELIMIT;

    if (op->err != TR_OK) {
        return;  // without memory for the answer
    }
    if (err != TR_OK) {
        tri_store_fail(op, is_known ? err : TR_ESTORAGE,
                       err == TR_ENOENT ? TRI_STORE_FAULT_NOT_FOUND
                                        : TRI_STORE_FAULT_OPERATION_FAILED,
                       "%s: %s", store->ops.name,
                       answer->text[0] != '\0' ? answer->text
                                               : tr_strerror(err));
    } else if (op->call == TR_STORE_SAVE) {
        op->version = op->number + 1;
        op->found = true;
    } else if (op->call == TR_STORE_DELETE) {
        op->found = op->number > 0;
    } else if (op->call == TR_STORE_FENCE) {
        op->version = op->epoch;
    }
}

/* Copies a text and a terminating zero. Returns out. */
static const char *copy_text(char out[TR_KEY_SIZE], tri_store_bytes from)
{
    TRI_CHECK(from.size < TR_KEY_SIZE);
    if (from.size > 0) {
        memcpy(out, from.at, from.size);
    }
    out[from.size] = '\0';
    return out;
}

static void run_op(const own_store *store, tri_store_op *op)
{
    char key[TR_KEY_SIZE], prefix[TR_KEY_SIZE];
    tr_store_fn *fn = function_of(store, op->call);
    bool is_scan = op->call == TR_STORE_SCAN;

    if (fn == NULL) {
        run_without(store, op);
        return;
    }
    tr_store_answer answer = {.op = op, .left = tri_store_row_limit(op)};
    tr_store_request request = {
        .key = copy_text(key, op->key),
        .prefix = is_scan ? copy_text(prefix, op->bytes) : NULL,
        .version = op->number,
        .shard = op->shard,
        .fence = tri_store_fence_of(op),
        .epoch = op->epoch,
        .limit = is_scan ? answer.left + 1 : 0,
    };
    if (op->call == TR_STORE_SAVE) {
        request.state = (tr_bytes){op->bytes.at, op->bytes.size};
    }
    // A delete names the last event: there are none.
    if (op->call == TR_STORE_DELETE && !tri_store_check_last(op, 0)) {
        return;
    }
    finish(store, &answer, fn(store->user, &request, &answer));
}

static void run_loop(void *arg)
{
    own_store *store = arg;
    tri_list batch;
    tri_link *link;

    tri_list_init(&batch);
    while (tri_inbox_take(&store->inbox, &batch, BATCH, TR_FOREVER) > 0 ||
           !tri_inbox_is_closed(&store->inbox)) {
        while ((link = tri_list_pop_front(&batch)) != NULL) {
            tri_store_op *op = tri_container_of(link, tri_store_op, link);
            run_op(store, op);
            tri_store_done(op);
        }
    }
}

/* ---- the store ---- */

static void own_submit(tr_storage *storage, tri_list *ops)
{
    tri_inbox_push(&store_of(storage)->inbox, ops);
}

static void own_close(tr_storage *storage)
{
    own_store *store = store_of(storage);

    tri_inbox_close(&store->inbox);
    store->world->ops->thread_join(store->world, store->thread);
    TRI_CHECK(tri_list_is_empty(&store->inbox.ops));
    if (store->ops.close != NULL) {
        store->ops.close(store->user);
    }
    free(store);
}

static const tri_storage_ops own_ops = {
    .name = "own",
    .submit = own_submit,
    .close = own_close,
};

static tr_err own_open(tr_storage **out, tri_world *world,
                       const tr_store_ops *ops, void *user)
{
    own_store *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return TR_ENOMEM;
    }
    tri_storage_init(&store->base, &own_ops);
    store->ops = *ops;
    store->user = user;
    store->world = world;
    tri_inbox_init(&store->inbox, world);
    tr_err err = world->ops->thread_start(world, &store->thread, "tr-store-own",
                                          run_loop, store);
    if (err != TR_OK) {
        free(store);
        return err;
    }
    *out = &store->base;
    return TR_OK;
}

tr_err tr_storage_own(tr_storage **out, const tr_store_ops *ops, void *user,
                      const tr_storage_options *options)
{
    tr_storage_options own;
    tr_store_ops table;
    tr_storage *store = NULL;

    TRI_CHECK(out != NULL);
    *out = NULL;
    tri_world *world = tri_storage_options(&own, options);
    if (world == NULL) {
        return TR_EINVAL;
    }
    bool fits = tri_options_copy(&table, sizeof(table),
                                 TRI_SIZE_THROUGH(tr_store_ops, close), ops);
    if (!fits || table.name == NULL || table.load == NULL ||
        table.save == NULL || table.remove == NULL || table.fence == NULL ||
        table.scan == NULL) {
        return tri_storage_opened(&store, &own, world, TR_EINVAL,
                                  "tr_store_ops",
                                  "a function or the name is missing, or .size "
                                  "is not sizeof(tr_store_ops)");
    }
    tr_err err = own_open(&store, world, &table, user);
    err = tri_storage_opened(&store, &own, world, err, table.name, "");
    *out = store;
    return err;
}
