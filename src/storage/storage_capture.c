/*
 * storage_capture.c - a store for tests: records all calls and injects errors.
 *
 * It passes each op on to another store, with its own `done` in place of the
 * caller's.
 *
 * Invariant: a call is added to the list `captured` before its caller gets the
 * answer. So a test that has the answer finds the call.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/rand.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

/* A call: in flight, or answered and captured. */
typedef struct call {
    tri_link link;  // in `captured` once it is answered
    struct capture *capture;
    tr_captured seen;
    tri_store_done_fn done;  // the caller's
    void *user;              // the caller's
    tr_err injected;         // the answer instead; TR_OK: none
    char *key;               // with a terminating zero
    void *bytes;
} call;

typedef struct capture {
    tr_storage base;
    tr_storage *inner;
    tri_lock lock;  // over all fields below
    tri_list captured;
    size_t count;  // of captured
    size_t in_flight;
    uint64_t nth;  // calls until the one that fails; 0: none fails
    tr_err nth_err;
    double save_fails;  // probability
    tri_rand rand;
} capture;

static capture *capture_of(tr_storage *storage)
{
    return tri_container_of(storage, capture, base);
}

static void call_free(call *it)
{
    if (it != NULL) {
        free(it->key);
        free(it->bytes);
        free(it);
    }
}

/* Returns the bytes that the op writes: its state, and its events. */
static size_t size_of(const tri_store_op *op)
{
    size_t size = op->bytes.size;

    for (uint32_t i = 0; i < op->event_count; i++) {
        size += op->events[i].size;
    }
    return size;
}

static void copy_bytes(char *out, const tri_store_op *op)
{
    if (op->bytes.size > 0) {
        memcpy(out, op->bytes.at, op->bytes.size);
        out += op->bytes.size;
    }
    for (uint32_t i = 0; i < op->event_count; i++) {
        if (op->events[i].size > 0) {
            memcpy(out, op->events[i].at, op->events[i].size);
            out += op->events[i].size;
        }
    }
}

/* Makes the record of a call. Returns NULL if there is no memory. */
static call *call_new(capture *store, const tri_store_op *op)
{
    call *it = calloc(1, sizeof(*it));
    size_t size = size_of(op);

    if (it == NULL) {
        return NULL;
    }
    it->key = calloc(1, op->key.size + 1);
    it->bytes = malloc(size + 1);
    if (it->key == NULL || it->bytes == NULL) {
        call_free(it);
        return NULL;
    }
    if (op->key.size > 0) {
        memcpy(it->key, op->key.at, op->key.size);
    }
    copy_bytes(it->bytes, op);
    it->capture = store;
    it->done = op->done;
    it->user = op->user;
    it->seen = (tr_captured){
        .call = op->call,
        .key = it->key,
        .bytes = it->bytes,
        .size = size,
        .version = op->number,
    };
    return it;
}

static void inject(tri_store_op *op, tr_err err)
{
    tri_store_fail(op, err, TRI_STORE_FAULT_OPERATION_FAILED,
                   "Simulated failure");
}

/* Captures the call and gives the op back to its caller. */
static void answer(call *it, tri_store_op *op)
{
    capture *store = it->capture;

    if (it->injected != TR_OK) {
        inject(op, it->injected);
    }
    it->seen.err = op->err;
    op->done = it->done;
    op->user = it->user;
    tri_lock_take(&store->lock);
    tri_list_push_back(&store->captured, &it->link);
    store->count++;
    store->in_flight--;
    tri_lock_drop(&store->lock);
    tri_store_done(op);
}

static void on_inner_done(tri_store_op *op)
{
    answer(op->user, op);
}

/* Counts a call as in flight. Returns the error to inject, or TR_OK. */
static tr_err begin_call(capture *store, const tri_store_op *op)
{
    tr_err err = TR_OK;

    tri_lock_take(&store->lock);
    store->in_flight++;
    if (op->call == TR_STORE_SAVE && store->save_fails > 0.0 &&
        tri_rand_chance(&store->rand, store->save_fails)) {
        err = TR_ESTORAGE;
    }
    if (store->nth > 0 && --store->nth == 0) {
        err = store->nth_err;
    }
    tri_lock_drop(&store->lock);
    return err;
}

static void submit_one(capture *store, tri_store_op *op)
{
    call *it = call_new(store, op);

    if (it == NULL) {
        tri_store_fail_no_memory(op);
        tri_store_done(op);
        return;
    }
    it->injected = begin_call(store, op);
    // An op whose outcome is unknown to its caller is carried out.
    if (it->injected != TR_OK && it->injected != TR_EUNKNOWN) {
        answer(it, op);
        return;
    }
    op->done = on_inner_done;
    op->user = it;
    tri_storage_submit(store->inner, op);
}

static void capture_submit(tr_storage *storage, tri_list *ops)
{
    tri_link *link;

    while ((link = tri_list_pop_front(ops)) != NULL) {
        submit_one(capture_of(storage),
                   tri_container_of(link, tri_store_op, link));
    }
}

static void capture_close(tr_storage *storage)
{
    capture *store = capture_of(storage);
    tri_link *link;

    TRI_CHECK(store->in_flight == 0);
    while ((link = tri_list_pop_front(&store->captured)) != NULL) {
        call_free(tri_container_of(link, call, link));
    }
    tri_storage_drop(store->inner);
    free(store);
}

static const tri_storage_ops capture_ops = {
    .name = "capture",
    .submit = capture_submit,
    .close = capture_close,
};

tr_err tr_storage_capture(tr_storage **out, tr_storage *inner)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(inner != NULL);
    *out = NULL;
    capture *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return TR_ENOMEM;
    }
    tri_storage_init(&store->base, &capture_ops);
    tri_lock_init(&store->lock);
    tri_list_init(&store->captured);
    store->inner = inner;
    tri_storage_hold(inner);
    *out = &store->base;
    return TR_OK;
}

/* Returns the capturing store, after checking that it is one. */
static capture *checked_capture(tr_storage *storage)
{
    TRI_CHECK(storage != NULL);
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    TRI_CHECK(storage->ops == &capture_ops);
    return capture_of(storage);
}

size_t tr_storage_captured_count(tr_storage *storage)
{
    capture *store = checked_capture(storage);

    tri_lock_take(&store->lock);
    size_t count = store->count;
    tri_lock_drop(&store->lock);
    return count;
}

bool tr_storage_captured(tr_storage *storage, size_t index, tr_captured *out)
{
    capture *store = checked_capture(storage);
    bool found = false;

    TRI_CHECK(out != NULL);
    memset(out, 0, sizeof(*out));
    tri_lock_take(&store->lock);
    TRI_LIST_EACH (link, &store->captured) {
        if (index-- == 0) {
            *out = tri_container_of(link, call, link)->seen;
            found = true;
            break;
        }
    }
    tri_lock_drop(&store->lock);
    return found;
}

void tr_storage_fail_nth(tr_storage *storage, uint64_t nth, tr_err err)
{
    capture *store = checked_capture(storage);

    TRI_CHECK(nth == 0 || err != TR_OK);
    tri_lock_take(&store->lock);
    store->nth = nth;
    store->nth_err = err;
    tri_lock_drop(&store->lock);
}

void tr_storage_fail_saves(tr_storage *storage, double p, uint64_t seed)
{
    capture *store = checked_capture(storage);

    TRI_CHECK(p >= 0.0 && p <= 1.0);
    tri_lock_take(&store->lock);
    store->save_fails = p;
    tri_rand_init(&store->rand, seed);
    tri_lock_drop(&store->lock);
}
