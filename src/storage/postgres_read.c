/*
 * postgres_read.c - batches of reads.
 *
 * All loads of a batch are one statement; events and reminders are one each.
 * The answer to a load is whatever is committed when it is carried out, and
 * so never older than what was answered before it was asked.
 */
#include "base/check.h"
#include "storage/storage_postgres.h"

static tr_err connected(tri_pg_lane *lane, tri_pg_fault *why)
{
    (void)lane;
    (void)why;
    return TR_OK;
}

static bool add(tri_pg_lane *lane, tri_pg_batch *batch, tri_store_op *op)
{
    (void)lane;
    if (op->call == TR_STORE_LOAD) {
        batch->group[batch->group_count++] = op;
        return true;
    }
    bool is_events = op->call == TR_STORE_READ;
    TRI_CHECK(is_events || op->call == TR_STORE_REMINDERS);
    tri_pg_step_add(batch, is_events ? TRI_PG_READ : TRI_PG_REMINDERS, op);
    return true;
}

static void complete(tri_pg_lane *lane, tri_pg_batch *batch)
{
    (void)lane;
    if (batch->group_count > 0) {
        tri_pg_step_add(batch, TRI_PG_LOAD, NULL);
    }
}

static void bind(tri_pg_lane *lane, tri_pg_batch *batch,
                 const tri_pg_step *step)
{
    tri_pg_params *params = &lane->params;
    const tri_store_op *op = step->op;

    if (op == NULL) {
        tri_pg_add_array(params, TRI_PG_OID_BYTEA, batch->group_count);
        for (uint32_t i = 0; i < batch->group_count; i++) {
            tri_pg_put_bytes(params, batch->group[i]->key);
        }
        return;
    }
    if (op->call == TR_STORE_READ) {
        tri_pg_add_bytes(params, op->key);
        tri_pg_add8(params, op->number);
    } else {
        tri_pg_add4(params, op->shard);
        tri_pg_add8(params, op->number);
        tri_pg_add8(params, op->after);
        tri_pg_add_bytes(params, op->key);
        tri_pg_add_bytes(params, op->name);
    }
    tri_pg_add8(params, tri_store_limit(op) + UINT64_C(1));
}

static void answer_loads(tri_pg_batch *batch, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        uint64_t number = tri_pg_number(result, row, 0);
        tri_store_bytes bytes = tri_pg_bytes(result, row, 2);
        TRI_CHECK(number >= 1);
        TRI_CHECK(number <= batch->group_count);
        (void)tri_store_give(batch->group[number - 1], bytes.at, bytes.size,
                             tri_pg_number(result, row, 1));
    }
}

/* Adds rows until the answer is full; bytes that did not fit are NULL. */
static void give_rows(tri_store_op *op, const PGresult *result,
                      tri_store_row (*row_of)(const PGresult *result, int row))
{
    int count = PQntuples(result);
    int bytes = PQnfields(result) - 1;
    uint32_t left = tri_store_limit(op);

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

static void answer(tri_pg_lane *lane, tri_pg_batch *batch, tri_pg_step *step,
                   const PGresult *result)
{
    tri_store_op *op = step->op;

    (void)lane;
    if (op == NULL) {
        answer_loads(batch, result);
        return;
    }
    if (op->call == TR_STORE_REMINDERS) {
        give_rows(op, result, reminder_of);
        return;
    }
    if (PQntuples(result) == 0) {
        return;
    }
    // A stream without events behind `number` is a row of one column.
    if (!PQgetisnull(result, 0, 1)) {
        give_rows(op, result, event_of);
    }
    if (op->err == TR_OK) {
        op->version = tri_pg_number(result, 0, 0);
    }
}

static void committed(tri_pg_lane *lane, tri_pg_batch *batch)
{
    (void)lane;
    (void)batch;
}

const tri_pg_lane_ops tri_pg_reading = {
    .name = "tr-store-read",
    .connected = connected,
    .add = add,
    .complete = complete,
    .bind = bind,
    .answer = answer,
    .committed = committed,
};
