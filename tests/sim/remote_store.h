/*
 * remote_store.h - a store on another machine, like a database server.
 *
 * Systems use the front, which lives as long as the run. It passes calls on to
 * an SQLite file on the disk of one simulated node. While that node is down
 * each call fails at once. When the node is killed, writes in progress have an
 * unknown outcome, and reads in progress fail.
 *
 * Invariant: an operation of a caller completes once; the SQLite store works on
 * copies, which may outlive it.
 */
#ifndef TROUPE_TESTS_REMOTE_STORE_H
#define TROUPE_TESTS_REMOTE_STORE_H

#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#include "base/list.h"
#include "storage/storage.h"

typedef struct remote_store {
    tr_storage base;     // first
    tr_storage *behind;  // the SQLite store; NULL: down
    tri_list under_way;  // calls whose callers wait
    uint64_t lost;       // calls that a kill has ended
} remote_store;

/* One call, with the copy that the SQLite store works on. */
typedef struct relay {
    tri_link link;
    tri_store_op op;
    tri_store_op *asked;  // of the caller; NULL: completed
    remote_store *front;
    char bytes[];
} relay;

static inline tri_store_bytes relay_keep(char **at, tri_store_bytes from)
{
    tri_store_bytes kept = {from.at != NULL ? *at : NULL, from.size};

    if (from.size > 0) {
        memcpy(*at, from.at, from.size);
        *at += from.size;
    }
    return kept;
}

static inline void relay_done(tri_store_op *op)
{
    relay *it = op->user;
    tri_store_op *to = it->asked;

    if (to == NULL) {
        tri_store_op_fini(op);
        free(it);
        return;
    }
    tri_list_remove(&it->link);
    to->err = op->err;
    to->fault = op->fault;
    to->found = op->found;
    to->more = op->more;
    to->version = op->version;
    to->out = op->out;
    to->out_size = op->out_size;
    memcpy(to->text, op->text, sizeof(to->text));
    free(it);
    tri_store_done(to);
}

static inline void remote_refuse(tri_store_op *op, tr_err err)
{
    tri_store_fail(op, err, TRI_STORE_FAULT_UNAVAILABLE, "it is down");
    tri_store_done(op);
}

static inline void remote_ask(remote_store *front, tri_store_op *op)
{
    TRI_CHECK(op->event_count == 0);  // only states are supported
    relay *it =
        calloc(1, sizeof(*it) + op->key.size + op->name.size + op->bytes.size);
    TRI_CHECK(it != NULL);
    char *at = it->bytes;

    it->op = *op;
    it->op.key = relay_keep(&at, op->key);
    it->op.name = relay_keep(&at, op->name);
    it->op.bytes = relay_keep(&at, op->bytes);
    it->op.done = relay_done;
    it->op.user = it;
    it->asked = op;
    it->front = front;
    tri_list_push_back(&front->under_way, &it->link);
    tri_storage_submit(front->behind, &it->op);
}

static inline void remote_submit(tr_storage *storage, tri_list *ops)
{
    remote_store *front = (remote_store *)(void *)storage;
    tri_link *link;

    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (front->behind == NULL) {
            remote_refuse(op, TR_EIO);
        } else {
            remote_ask(front, op);
        }
    }
}

static inline void remote_close(tr_storage *storage)
{
    free(storage);
}

static inline tr_err remote_new(tr_storage **out)
{
    static const tri_storage_ops ops = {
        .name = "remote", .submit = remote_submit, .close = remote_close};
    remote_store *front = calloc(1, sizeof(*front));

    if (front == NULL) {
        return TR_ENOMEM;
    }
    tri_storage_init(&front->base, &ops);
    tri_list_init(&front->under_way);
    *out = &front->base;
    return TR_OK;
}

/* Ends all calls, because the machine was killed or has shut down. */
static inline void remote_down(remote_store *front)
{
    tri_link *link;

    front->behind = NULL;
    while ((link = tri_list_pop_front(&front->under_way)) != NULL) {
        relay *it = tri_container_of(link, relay, link);
        tri_store_op *op = it->asked;
        it->asked = NULL;
        front->lost++;
        remote_refuse(op, op->call == TR_STORE_LOAD ? TR_EIO : TR_EUNKNOWN);
    }
}

static inline void remote_closed(void *arg)
{
    remote_down(arg);
}

/* Call it when the store's node boots. */
static inline tr_err remote_up(remote_store *front, tr_system *sys)
{
    tr_storage *store;
    char why[TRI_STORE_TEXT_SIZE];  // not reported: faults are expected

    TR_TRY(tr_storage_sqlite_with(&store, "cluster.db",
                                  TR_OPTIONS(tr_storage_options, .system = sys,
                                             .text = why,
                                             .text_size = sizeof(why))));
    // Runs before the store is closed.
    TR_TRY(tr_system_on_closed(sys, remote_closed, front));
    front->behind = store;
    return TR_OK;
}

#endif
