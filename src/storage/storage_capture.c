/*
 * storage_capture.c - a store for tests: remembers all calls, fails by plan.
 *
 * It stands in front of another store and puts itself into the way of `done`.
 *
 * Invariant: a call is in the list of those that were captured before its
 * caller hears of the answer. So a test that has the answer finds the call.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/rand.h"
#include "storage/storage.h"

/* A call on its way, or captured. */
typedef struct call {
    tri_link link;  // in `captured` once it is answered
    struct capture *capture;
    tr_captured seen;
    tri_store_done_fn done;  // the caller's own
    void *user;
    tr_err replace;  // TR_OK: the answer stays
    char *key;       // with a zero
    void *bytes;
} call;

typedef struct capture {
    tr_storage base;
    tr_storage *inner;
    tri_lock lock;  // over all that follows
    tri_list captured;
    size_t count;
    size_t on_their_way;
    uint64_t nth;  // calls until the one that fails; 0: none
    tr_err nth_err;
    double save_fails;
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

/* NULL: no memory. */
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

static void injected(tri_store_op *op, tr_err err)
{
    tri_store_fail(op, err, TRI_STORE_FAULT_OPERATION_FAILED,
                   "Simulated failure");
}

/* Files the call and gives the op back. */
static void answered(call *it, tri_store_op *op)
{
    capture *store = it->capture;

    if (it->replace != TR_OK) {
        injected(op, it->replace);
    }
    it->seen.err = op->err;
    op->done = it->done;
    op->user = it->user;
    tri_lock_take(&store->lock);
    tri_list_push_back(&store->captured, &it->link);
    store->count++;
    store->on_their_way--;
    tri_lock_drop(&store->lock);
    tri_store_done(op);
}

static void on_inner_done(tri_store_op *op)
{
    answered(op->user, op);
}

/* Counts a call in. What the plan says about it; TR_OK: let it pass. */
static tr_err plan(capture *store, const tri_store_op *op)
{
    tr_err err = TR_OK;

    tri_lock_take(&store->lock);
    store->on_their_way++;
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
        tri_store_fail(op, TR_ENOMEM, TRI_STORE_FAULT_UNAVAILABLE,
                       "out of memory");
        tri_store_done(op);
        return;
    }
    it->replace = plan(store, op);
    if (it->replace != TR_OK && it->replace != TR_EUNKNOWN) {
        answered(it, op);
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

    TRI_CHECK(store->on_their_way == 0);
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

static capture *checked(tr_storage *storage)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    TRI_CHECK(storage->ops == &capture_ops);
    return capture_of(storage);
}

size_t tr_storage_captured_count(tr_storage *storage)
{
    capture *store = checked(storage);

    tri_lock_take(&store->lock);
    size_t count = store->count;
    tri_lock_drop(&store->lock);
    return count;
}

bool tr_storage_captured(tr_storage *storage, size_t index, tr_captured *out)
{
    capture *store = checked(storage);
    bool found = false;

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
    capture *store = checked(storage);

    TRI_CHECK(nth == 0 || err != TR_OK);
    tri_lock_take(&store->lock);
    store->nth = nth;
    store->nth_err = err;
    tri_lock_drop(&store->lock);
}

void tr_storage_fail_saves(tr_storage *storage, double p, uint64_t seed)
{
    capture *store = checked(storage);

    tri_lock_take(&store->lock);
    store->save_fails = p;
    tri_rand_init(&store->rand, seed);
    tri_lock_drop(&store->lock);
}
