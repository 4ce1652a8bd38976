/*
 * postgres_pipeline.c - sending batches, receiving results, reconnecting.
 *
 * An operation is answered when the end of its batch has come back from the
 * server, because only then is the transaction committed. If the connection
 * breaks before, the outcome of a batch that was sent is unknown: TR_EUNKNOWN.
 * A batch that was sent in part lacks its end, so the server drops it:
 * TR_ESTORAGE.
 *
 * Connecting: the pipeline connects when it has something to send. Between two
 * tries it waits, longer each time, and the operations wait with it, but no
 * longer than limits->patience. After that each failed try answers all
 * operations that wait, so that none waits long for a server that stays away.
 */
#include "storage/postgres_pipeline.h"

#include <string.h>

#include "base/check.h"
#include "storage/postgres_sql.h"
#include "storage/postgres_wire.h"
#include "storage/store_op.h"
#include "troupe/storage.h"

#define BACKOFF_MIN TR_MS(20)
#define BACKOFF_MAX TR_SECONDS(1)

/* ---- failing ---- */

static void fail(tri_store_op *op, tr_err err, const tri_pg_fault *why)
{
    tri_store_fail(op, err, why->fault, "%s", why->text);
    tri_store_done(op);
}

static void fail_list(tri_list *list, const tri_pg_fault *why)
{
    tri_link *link;

    while ((link = tri_list_pop_front(list)) != NULL) {
        fail(tri_container_of(link, tri_store_op, link), why->err, why);
    }
}

/* Fails an op. An op that was refused was not written in any case. */
static void fail_one(tri_store_op *op, bool unknown, bool refused,
                     const tri_pg_fault *why)
{
    bool is_unknown = unknown && !refused && op->err == TR_OK;

    fail(op, is_unknown ? TR_EUNKNOWN : why->err, why);
}

/* Fails all ops of a batch. unknown: they may have been written. */
static void fail_batch(tri_pg_batch *batch, bool unknown,
                       const tri_pg_fault *why)
{
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        fail_one(batch->bulk[i], unknown, false, why);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        if (batch->steps[i].op != NULL) {
            const tri_pg_step *step = &batch->steps[i];
            fail_one(step->op, unknown,
                     tri_pg_step_is_query(step) || step->refused, why);
        }
    }
    tri_pg_batch_clear(batch);
}

/* Closes a connection that is lost and fails the batches in flight. */
static void drop_connection(tri_pg_pipeline *pipeline, const tri_pg_fault *why)
{
    static const tri_pg_fault changed = {
        .err = TR_EFENCED,
        .fault = TRI_STORE_FAULT_OPERATION_FAILED,
        .text = "another version is stored",
    };
    tri_world *world = pipeline->server->world;

    bool all_sent = pipeline->db.all_sent;
    tri_pg_close(&pipeline->db);
    while (pipeline->in_flight > 0) {
        tri_pg_batch *batch = &pipeline->batches[pipeline->oldest];
        pipeline->oldest = (pipeline->oldest + 1) % TRI_PG_DEPTH;
        pipeline->in_flight--;
        // If another batch was begun after it, it may be sent completely.
        bool is_sent = all_sent || pipeline->in_flight > 0;
        fail_batch(batch, pipeline->ops->is_writing && is_sent, why);
    }
    fail_list(&pipeline->refused, &changed);
    pipeline->lost_since = world->ops->mono(world);
    pipeline->not_before = 0;
    pipeline->failures = 0;
}

/* ---- sending ---- */

static bool send_steps(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    for (uint32_t i = 0; i < batch->step_count; i++) {
        tri_pg_begin(&pipeline->params);
        pipeline->ops->bind(pipeline, batch, &batch->steps[i]);
        if (!tri_pg_send(&pipeline->db, batch->steps[i].sql,
                         &pipeline->params)) {
            return false;
        }
    }
    return tri_pg_send_sync(&pipeline->db);
}

/* Fills a batch: first with queries for refused ops, then with pending ops. */
static void fill_batch(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    tri_link *link;

    tri_pg_batch_clear(batch);
    while (batch->step_count < pipeline->limits->batch &&
           (link = tri_list_pop_front(&pipeline->refused)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        bool is_event = op->call == TR_STORE_APPEND;
        tri_pg_batch_add(batch, is_event ? TRI_PG_LAST : TRI_PG_VERSION, op);
    }
    while (batch->step_count + batch->bulk_count < pipeline->limits->batch &&
           (batch->size < pipeline->limits->batch_size) &&
           (link = tri_list_first(&pipeline->pending)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (!pipeline->ops->add(pipeline, batch, op)) {
            break;
        }
        tri_list_remove(link);
        batch->size += op->bytes.size;
        for (uint32_t i = 0; i < op->event_count; i++) {
            batch->size += op->events[i].size;
        }
    }
    pipeline->ops->complete(pipeline, batch);
}

static bool has_work(const tri_pg_pipeline *pipeline)
{
    return !tri_list_is_empty(&pipeline->pending) ||
           !tri_list_is_empty(&pipeline->refused);
}

static void send_batches(tri_pg_pipeline *pipeline)
{
    tri_pg_fault why;

    TRI_CHECK(!has_work(pipeline) || pipeline->db.conn != NULL);
    while (pipeline->in_flight < TRI_PG_DEPTH && has_work(pipeline)) {
        uint32_t at = (pipeline->oldest + pipeline->in_flight) % TRI_PG_DEPTH;
        tri_pg_batch *batch = &pipeline->batches[at];
        fill_batch(pipeline, batch);
        TRI_CHECK(!tri_pg_batch_is_empty(batch));
        pipeline->in_flight++;
        if (!send_steps(pipeline, batch)) {
            // A part of a batch cannot be taken back: end the connection.
            tri_pg_explain_unsent(&pipeline->db, &why);
            drop_connection(pipeline, &why);
            return;
        }
        (void)tri_pg_flush(&pipeline->db);
    }
}

/* ---- receiving ---- */

/* Answers an op, unless it is in a list again: then it is answered later. */
static void complete_op(tri_store_op *op)
{
    if (op != NULL && !tri_link_is_linked(&op->link)) {
        tri_store_done(op);
    }
}

/* Answers the ops of the oldest batch, whose transaction has ended. */
static void end_batch(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    TRI_CHECK(pipeline->in_flight > 0);
    pipeline->oldest = (pipeline->oldest + 1) % TRI_PG_DEPTH;
    pipeline->in_flight--;
    if (batch->fault.err != TR_OK) {
        fail_batch(batch, false, &batch->fault);
        return;
    }
    pipeline->ops->committed(pipeline, batch);
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        complete_op(batch->bulk[i]);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        complete_op(batch->steps[i].op);
    }
    tri_pg_batch_clear(batch);
}

/*
 * Handles one result of a batch. Returns false if the result is not one that
 * can come now.
 */
static bool on_result(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                      const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        if (batch->answered || batch->step >= batch->step_count) {
            return false;
        }
        pipeline->ops->answer(pipeline, batch, &batch->steps[batch->step],
                              result);
        batch->answered = true;
        return true;
    case PGRES_FATAL_ERROR:
        tri_pg_explain(result, &batch->fault);
        batch->answered = true;
        return true;
    case PGRES_PIPELINE_ABORTED:
        batch->answered = true;
        return batch->fault.err != TR_OK;
    default:
        return false;
    }
}

/* Handles the end of the results of one statement; returns as on_result. */
static bool on_separator(tri_pg_batch *batch)
{
    bool was_answered = batch->answered;

    batch->answered = false;
    batch->step++;
    return was_answered;
}

/* Waits for all results of the oldest batch. */
static void receive_batch(tri_pg_pipeline *pipeline)
{
    TRI_CHECK(pipeline->in_flight > 0);
    tri_pg_batch *batch = &pipeline->batches[pipeline->oldest];
    tri_pg_fault why = {.err = TR_ESTORAGE,
                        .fault = TRI_STORE_FAULT_UNAVAILABLE,
                        .text = "the server sent an unexpected answer"};
    PGresult *result;

    for (bool ok = true; ok;) {
        if (!tri_pg_next(&pipeline->db, &result, &why)) {
            break;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            end_batch(pipeline, batch);
            return;
        }
        ok = result == NULL ? on_separator(batch)
                            : on_result(pipeline, batch, result);
        PQclear(result);
    }
    drop_connection(pipeline, &why);
}

/* ---- the thread ---- */

/* Takes ops from the inbox to `pending`. */
static void take(tri_pg_pipeline *pipeline, tr_nanos timeout)
{
    (void)tri_inbox_take(&pipeline->inbox, &pipeline->pending, UINT32_MAX,
                         timeout);
}

/*
 * Notes a failed try to connect. Fails the pending ops if they have waited for
 * long enough, or if trying again is useless.
 */
static void on_connect_failed(tri_pg_pipeline *pipeline,
                              const tri_pg_fault *why)
{
    tri_world *world = pipeline->server->world;
    tr_nanos now = world->ops->mono(world);
    uint32_t shift = TRI_MIN(pipeline->failures, 16u);
    tr_nanos wait = TRI_MIN(BACKOFF_MIN << shift, BACKOFF_MAX);

    // A random part, so that not all clients connect at once.
    wait += (tr_nanos)(world->ops->random(world) % (uint64_t)(wait / 2));
    pipeline->failures++;
    pipeline->not_before = now + wait;
    if (why->is_final || tri_inbox_is_closed(&pipeline->inbox) ||
        now - pipeline->lost_since >= pipeline->limits->patience) {
        fail_list(&pipeline->pending, why);
    }
}

/* Connects if needed. Returns whether the pipeline is connected. */
static bool ensure_connected(tri_pg_pipeline *pipeline)
{
    tri_world *world = pipeline->server->world;
    tri_pg_fault why = {.err = TR_ESTORAGE,
                        .fault = TRI_STORE_FAULT_UNAVAILABLE,
                        .text = "the server has closed the connection"};

    if (pipeline->db.conn != NULL) {
        if (pipeline->in_flight > 0 || tri_pg_is_alive(&pipeline->db)) {
            return true;
        }
        drop_connection(pipeline, &why);  // no batch was in flight
    }
    tr_nanos now = world->ops->mono(world);
    if (now < pipeline->not_before && !tri_inbox_is_closed(&pipeline->inbox)) {
        take(pipeline, pipeline->not_before - now);
        return false;
    }
    tr_err err = tri_pg_open(&pipeline->db, pipeline->server, false, &why);
    if (err == TR_OK) {
        err = pipeline->ops->connected(pipeline, &why);
    }
    if (err != TR_OK) {
        tri_pg_close(&pipeline->db);
        on_connect_failed(pipeline, &why);
        return false;
    }
    pipeline->failures = 0;
    return true;
}

void tri_pg_pipeline_run(void *arg)
{
    tri_pg_pipeline *pipeline = arg;

    for (;;) {
        bool is_idle = pipeline->in_flight == 0 && !has_work(pipeline);
        if (is_idle && tri_inbox_is_closed(&pipeline->inbox)) {
            take(pipeline, 0);
            if (!has_work(pipeline)) {
                break;
            }
        }
        take(pipeline, is_idle ? TR_FOREVER : 0);
        if (has_work(pipeline) && !ensure_connected(pipeline)) {
            continue;
        }
        send_batches(pipeline);
        if (pipeline->in_flight > 0) {
            receive_batch(pipeline);
        }
    }
    tri_pg_close(&pipeline->db);
}

static bool op_has_key(const void *value, const void *key, size_t size)
{
    const tri_store_op *op = value;

    return op->key.size == size && memcmp(op->key.at, key, size) == 0;
}

tr_err tri_pg_pipeline_init(tri_pg_pipeline *pipeline,
                            const tri_pg_pipeline_ops *ops,
                            const tri_pg_server *server,
                            const tri_pg_limits *limits)
{
    TRI_CHECK(ops->add != NULL);
    TRI_CHECK(ops->bind != NULL);
    TRI_CHECK(limits->batch > 0);
    pipeline->ops = ops;
    pipeline->server = server;
    pipeline->limits = limits;
    tri_inbox_init(&pipeline->inbox, server->world);
    tri_list_init(&pipeline->pending);
    tri_list_init(&pipeline->refused);
    tri_map_init(&pipeline->keys, op_has_key, NULL);
    tri_map_init(&pipeline->fences, NULL, NULL);
    for (uint32_t i = 0; i < TRI_PG_DEPTH; i++) {
        TR_TRY(tri_pg_batch_init(&pipeline->batches[i], limits->batch));
    }
    if (ops->is_writing) {
        TR_TRY(tri_map_reserve(&pipeline->keys, limits->batch));
    }
    return TR_OK;
}

void tri_pg_pipeline_fini(tri_pg_pipeline *pipeline)
{
    TRI_CHECK(pipeline->in_flight == 0);
    TRI_CHECK(pipeline->thread == NULL ||
              tri_inbox_is_closed(&pipeline->inbox));
    tri_pg_close(&pipeline->db);
    for (uint32_t i = 0; i < TRI_PG_DEPTH; i++) {
        tri_pg_batch_fini(&pipeline->batches[i]);
    }
    tri_map_fini(&pipeline->keys);
    tri_pg_params_fini(&pipeline->params);
    tri_map_fini(&pipeline->fences);
}
