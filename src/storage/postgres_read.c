/*
 * postgres_read.c - batches of reads.
 *
 * All loads of a batch are one statement; each read of events, reminders or keys
 * is a statement of its own. A load answers with what is committed when the
 * server carries it out, so it sees all writes that were answered before the
 * load was submitted.
 */
#include "storage/postgres_read.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "storage/postgres_batch.h"
#include "storage/postgres_db.h"
#include "storage/postgres_sql.h"
#include "storage/postgres_wire.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

static tr_err connected(tri_pg_pipeline *pipeline, tri_pg_fault *why)
{
    (void)pipeline;
    (void)why;
    return TR_OK;
}

static bool add(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                tri_store_op *op)
{
    (void)pipeline;
    if (op->call == TR_STORE_LOAD) {
        tri_pg_batch_add_bulk(batch, op);
        return true;
    }
    tri_pg_batch_add(batch,
                     op->call == TR_STORE_READ   ? TRI_PG_READ
                     : op->call == TR_STORE_SCAN ? TRI_PG_SCAN
                                                 : TRI_PG_REMINDERS,
                     op);
    return true;
}

static void complete(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    (void)pipeline;
    if (batch->bulk_count > 0) {
        tri_pg_batch_add(batch, TRI_PG_LOAD, NULL);
    }
}

static void bind(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                 const tri_pg_step *step)
{
    tri_pg_params *params = &pipeline->params;
    const tri_store_op *op = step->op;

    if (op == NULL) {
        tri_pg_add_array(params, TRI_PG_OID_BYTEA, batch->bulk_count);
        for (uint32_t i = 0; i < batch->bulk_count; i++) {
            tri_pg_put_bytes(params, batch->bulk[i]->key);
        }
        return;
    }
    if (op->call == TR_STORE_READ) {
        tri_pg_add_bytes(params, op->key);
        tri_pg_add8(params, op->number);
    } else if (op->call == TR_STORE_SCAN) {
        size_t size = tri_store_scan_end(op, pipeline->scan_end);
        tri_pg_add_bytes(params, op->bytes);
        tri_pg_add_bytes(params, (tri_store_bytes){pipeline->scan_end, size});
        tri_pg_add_bytes(params, op->key);
    } else {
        TRI_CHECK(op->call == TR_STORE_REMINDERS);
        tri_pg_add4(params, op->shard);
        tri_pg_add8(params, op->number);
        tri_pg_add8(params, op->after);
        tri_pg_add_bytes(params, op->key);
        tri_pg_add_bytes(params, op->name);
    }
    tri_pg_add8(params, tri_store_row_limit(op) + UINT64_C(1));
}

static void answer_loads(tri_pg_batch *batch, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        uint64_t number = tri_pg_number(result, row, 0);
        tri_store_bytes bytes = tri_pg_bytes(result, row, 2);
        TRI_CHECK(number >= 1);
        TRI_CHECK(number <= batch->bulk_count);
        (void)tri_store_set_state(batch->bulk[number - 1], bytes.at, bytes.size,
                                  tri_pg_number(result, row, 1));
    }
}

/*
 * Adds rows to the answer until it is full. The last column, the bytes, is
 * NULL for rows that do not fit.
 */
static void give_rows(tri_store_op *op, const PGresult *result,
                      tri_store_row (*row_of)(const PGresult *result, int row))
{
    int count = PQntuples(result);
    int bytes = PQnfields(result) - 1;
    uint32_t left = tri_store_row_limit(op);

    for (int row = 0; row < count; row++) {
        tri_store_row it = row_of(result, row);
        if (left-- == 0 || PQgetisnull(result, row, bytes)) {
            op->more = true;
            return;
        }
        if (!tri_store_add_row(op, &it)) {
            return;
        }
    }
}

static tri_store_row event_of(const PGresult *result, int row)
{
    return (tri_store_row){
        .number = tri_pg_number(result, row, 1),
        .bytes = tri_pg_bytes(result, row, 2),
    };
}

static tri_store_row reminder_of(const PGresult *result, int row)
{
    return (tri_store_row){
        .number = tri_pg_number(result, row, 0),
        .key = tri_pg_bytes(result, row, 1),
        .name = tri_pg_bytes(result, row, 2),
        .bytes = tri_pg_bytes(result, row, 3),
    };
}

static tri_store_row key_of(const PGresult *result, int row)
{
    return (tri_store_row){.key = tri_pg_bytes(result, row, 0)};
}

static void answer(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                   tri_pg_step *step, const PGresult *result)
{
    tri_store_op *op = step->op;

    (void)pipeline;
    if (op == NULL) {
        answer_loads(batch, result);
        return;
    }
    if (op->call == TR_STORE_REMINDERS || op->call == TR_STORE_SCAN) {
        give_rows(op, result, op->call == TR_STORE_SCAN ? key_of : reminder_of);
        return;
    }
    if (PQntuples(result) == 0) {
        return;
    }
    // Without events from `number` on the answer is one row, with only the
    // number of the last event.
    if (!PQgetisnull(result, 0, 1)) {
        give_rows(op, result, event_of);
    }
    if (op->err == TR_OK) {
        op->version = tri_pg_number(result, 0, 0);
    }
}

static void committed(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    (void)pipeline;
    (void)batch;
}

const tri_pg_pipeline_ops tri_pg_reading = {
    .name = "tr-store-read",
    .connected = connected,
    .add = add,
    .complete = complete,
    .bind = bind,
    .answer = answer,
    .committed = committed,
};
