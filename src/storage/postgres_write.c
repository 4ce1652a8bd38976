/*
 * postgres_write.c - batches of writes, each one fenced transaction.
 *
 *     [ENSURE]  rows for fences that have none yet
 *     [SAVE]    all saves in one statement
 *     ...       every other write in one of its own
 *
 * A key is at most once in a batch: the second write of a key begins the next
 * batch, so that writes of one key keep their order. An operation whose epoch
 * is above the known fence is a batch of its own (postgres_sql.h says why).
 *
 * `fences` holds a lower bound of the epoch of each fence; fences only rise.
 * It is read after each connect, and raised by committed writes.
 */
#include "storage/postgres_write.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "storage/postgres_batch.h"
#include "storage/postgres_db.h"
#include "storage/postgres_sql.h"
#include "storage/postgres_wire.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

/* ---- making a batch ---- */

static tri_pg_sql sql_of(tr_store_call call)
{
    switch (call) {
    case TR_STORE_DELETE:
        return TRI_PG_DELETE;
    case TR_STORE_APPEND:
        return TRI_PG_APPEND;
    case TR_STORE_TRIM:
        return TRI_PG_TRIM;
    case TR_STORE_REMIND:
        return TRI_PG_REMIND;
    case TR_STORE_FORGET:
        return TRI_PG_FORGET;
    case TR_STORE_FENCE:
        return TRI_PG_FENCE;
    default:
        TRI_CHECK(call == TR_STORE_SAVE);
        return TRI_PG_SAVE;
    }
}

/* Returns what is known of a fence: its epoch + 1 at least; 0: nothing. */
static uint64_t known_fence(const tri_pg_pipeline *pipeline, uint64_t number)
{
    return (uintptr_t)tri_map_get(&pipeline->fences, number);
}

/* Notes epoch + 1 of a fence. Without memory nothing is known of it. */
static void note_fence(tri_pg_pipeline *pipeline, uint64_t number,
                       uint64_t known)
{
    TRI_CHECK(known > 0);
    if (known > known_fence(pipeline, number)) {
        (void)tri_map_remove(&pipeline->fences, number);
        (void)!tri_map_put(&pipeline->fences, number, (void *)(uintptr_t)known);
    }
}

/* Returns whether the op needs the form that raises the fence. */
static bool is_raising(const tri_pg_pipeline *pipeline, const tri_store_op *op)
{
    uint64_t known = known_fence(pipeline, tri_store_fence_of(op));

    return op->call != TR_STORE_FENCE && op->epoch > 0 && op->epoch + 1 > known;
}

static bool add(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                tri_store_op *op)
{
    bool raising = is_raising(pipeline, op);

    if (batch->raising || (raising && !tri_pg_batch_is_empty(batch))) {
        return false;
    }
    if (op->call != TR_STORE_FENCE &&
        tri_map_put_bytes(&pipeline->keys, op->key.at, op->key.size, op) !=
            TR_OK) {
        return false;  // the key is there: the map has room for all ops
    }
    batch->raising = raising;
    uint64_t fence = tri_store_fence_of(op);
    if (known_fence(pipeline, fence) == 0 && op->call != TR_STORE_FENCE) {
        batch->missing[batch->missing_count++] = fence;
    }
    if (op->call == TR_STORE_SAVE) {
        tri_pg_batch_add_bulk(batch, op);
    } else {
        // In the enum the form that raises comes after the one that does not.
        tri_pg_batch_add(batch, sql_of(op->call) + (raising ? 1 : 0), op);
    }
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const tri_store_op *one = *(tri_store_op *const *)a;
    const tri_store_op *two = *(tri_store_op *const *)b;

    return tri_store_compare(one->key, two->key);
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

    return (one > two) - (one < two);
}

/* Lists the fences of the bulk, sorted and without duplicates. */
static void list_fences(tri_pg_batch *batch)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        batch->fences[i] = tri_store_fence_of(batch->bulk[i]);
    }
    qsort(batch->fences, batch->bulk_count, sizeof(*batch->fences),
          compare_numbers);
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        if (i == 0 || batch->fences[i] != batch->fences[i - 1]) {
            batch->fences[count++] = batch->fences[i];
        }
    }
    batch->fence_count = count;
}

static void complete(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    if (batch->bulk_count > 0) {
        qsort(batch->bulk, batch->bulk_count, sizeof(*batch->bulk),
              compare_keys);
        list_fences(batch);
        memset(batch->bulk_done, 0,
               batch->bulk_count * sizeof(*batch->bulk_done));
        tri_pg_batch_add_first(batch, batch->raising ? TRI_PG_SAVE_RAISE
                                                     : TRI_PG_SAVE);
    }
    if (batch->missing_count > 0) {
        tri_pg_batch_add_first(batch, TRI_PG_ENSURE);
    }
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        (void)tri_map_remove_bytes(&pipeline->keys, batch->bulk[i]->key.at,
                                   batch->bulk[i]->key.size);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        const tri_store_op *op = batch->steps[i].op;
        if (op != NULL && op->call != TR_STORE_FENCE) {
            (void)tri_map_remove_bytes(&pipeline->keys, op->key.at,
                                       op->key.size);
        }
    }
    TRI_CHECK(tri_map_count(&pipeline->keys) == 0);
}

/* ---- parameters ---- */

/* Returns the position of an op's fence in batch->fences, from 1. */
static uint32_t position_of(const tri_pg_batch *batch, const tri_store_op *op)
{
    uint64_t fence = tri_store_fence_of(op);
    const uint64_t *at = bsearch(&fence, batch->fences, batch->fence_count,
                                 sizeof(*batch->fences), compare_numbers);

    TRI_CHECK(at != NULL);
    return (uint32_t)(at - batch->fences) + 1;
}

static void bind_saves(tri_pg_params *params, const tri_pg_batch *batch)
{
    uint32_t count = batch->bulk_count;
    tri_store_op *const *ops = batch->bulk;

    tri_pg_add_array(params, TRI_PG_OID_INT8, batch->fence_count);
    for (uint32_t i = 0; i < batch->fence_count; i++) {
        tri_pg_put8(params, batch->fences[i]);
    }
    tri_pg_add_array(params, TRI_PG_OID_INT4, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put4(params, position_of(batch, ops[i]));
    }
    tri_pg_add_array(params, TRI_PG_OID_INT8, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put8(params, ops[i]->epoch);
    }
    tri_pg_add_array(params, TRI_PG_OID_BYTEA, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put_bytes(params, ops[i]->key);
    }
    tri_pg_add_array(params, TRI_PG_OID_INT8, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put8(params, ops[i]->number);
    }
    tri_pg_add_array(params, TRI_PG_OID_BYTEA, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put_bytes(params, ops[i]->bytes);
    }
}

static void bind_events(tri_pg_params *params, const tri_store_op *op)
{
    tri_pg_add8(params, op->number);
    tri_pg_add_array(params, TRI_PG_OID_BYTEA, op->event_count);
    for (uint32_t i = 0; i < op->event_count; i++) {
        tri_pg_put_bytes(params, op->events[i]);
    }
    tri_pg_add8(params, op->event_count);
}

static void bind_one(tri_pg_params *params, const tri_store_op *op)
{
    tri_pg_add8(params, tri_store_fence_of(op));
    tri_pg_add8(params, op->epoch);
    if (op->call == TR_STORE_FENCE) {
        return;
    }
    tri_pg_add_bytes(params, op->key);
    switch (op->call) {
    case TR_STORE_APPEND:
        bind_events(params, op);
        break;
    case TR_STORE_REMIND:
        tri_pg_add_bytes(params, op->name);
        tri_pg_add8(params, op->number);
        tri_pg_add_bytes(params, op->bytes);
        tri_pg_add8(params, op->after);
        tri_pg_add4(params, op->shard);
        break;
    case TR_STORE_FORGET:
        tri_pg_add_bytes(params, op->name);
        tri_pg_add8(params, op->after);
        break;
    case TR_STORE_DELETE:
        tri_pg_add8(params, op->number);
        tri_pg_add8(params, op->after);
        break;
    default:
        tri_pg_add8(params, op->number);
        break;
    }
}

static void bind(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                 const tri_pg_step *step)
{
    tri_pg_params *params = &pipeline->params;

    if (tri_pg_step_is_query(step)) {
        tri_pg_add_bytes(params, step->op->key);
    } else if (step->op != NULL) {
        bind_one(params, step->op);
    } else if (step->sql == TRI_PG_ENSURE) {
        tri_pg_add_array(params, TRI_PG_OID_INT8, batch->missing_count);
        for (uint32_t i = 0; i < batch->missing_count; i++) {
            tri_pg_put8(params, batch->missing[i]);
        }
    } else {
        bind_saves(params, batch);
    }
}

/* ---- answers ---- */

/* Fails the op: the row of its fence was deleted from the database. */
static void fail_without_fence(tri_store_op *op)
{
    tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED,
                   "the fence of shard %u was deleted from the database: "
                   "start again",
                   op->shard);
}

/* Sets bulk_done from the answer of TRI_PG_DO_SAVE. */
static void mark_done(tri_pg_batch *batch, const PGresult *result)
{
    tri_pg_walk replaced = tri_pg_walk_begin(result, 0, 1);
    tri_pg_walk added = tri_pg_walk_begin(result, 0, 2);
    tri_store_bytes element;

    while (tri_pg_walk_next(&replaced, &element)) {
        uint64_t number = tri_pg_number_of(element);
        TRI_CHECK(number >= 1);
        TRI_CHECK(number <= batch->bulk_count);
        batch->bulk_done[number - 1] = true;
    }
    while (tri_pg_walk_next(&added, &element)) {
        tri_store_op wanted = {.key = element};
        tri_store_op *pointer = &wanted;
        tri_store_op **at = bsearch(&pointer, batch->bulk, batch->bulk_count,
                                    sizeof(*batch->bulk), compare_keys);
        TRI_CHECK(at != NULL);
        batch->bulk_done[at - batch->bulk] = true;
    }
}

static void answer_saves(tri_pg_batch *batch, const PGresult *result)
{
    tri_pg_walk walk = tri_pg_walk_begin(result, 0, 0);
    bool is_complete = walk.left == batch->fence_count;
    tri_store_bytes element;

    for (uint32_t i = 0; is_complete && i < batch->fence_count; i++) {
        is_complete = tri_pg_walk_next(&walk, &element);
        batch->epochs[i] = is_complete ? tri_pg_number_of(element) : 0;
    }
    mark_done(batch, result);
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        tri_store_op *op = batch->bulk[i];
        if (batch->bulk_done[i]) {
            op->version = op->number + 1;
            op->found = true;
        } else if (!is_complete) {
            fail_without_fence(op);
        } else {
            uint32_t position = position_of(batch, op);
            (void)tri_store_check_epoch(op, batch->epochs[position - 1]);
        }
    }
}

/* Sets the answer of one op from the columns of TRI_PG_ANSWER. */
static void answer_one(tri_pg_step *step, const PGresult *result)
{
    tri_store_op *op = step->op;

    if (PQntuples(result) != 1 || PQgetisnull(result, 0, 0)) {
        fail_without_fence(op);
        return;
    }
    if (!tri_store_check_epoch(op, tri_pg_number(result, 0, 0))) {
        return;
    }
    if (op->call == TR_STORE_FENCE) {
        op->version = op->epoch;
        return;
    }
    step->refused = tri_pg_number(result, 0, 1) == 0;
    if (step->refused) {
        return;
    }
    uint64_t number = tri_pg_number(result, 0, 2);
    switch (op->call) {
    case TR_STORE_APPEND:
        op->version = op->number + op->event_count;
        op->found = op->version > 0;
        break;
    case TR_STORE_TRIM:
        op->version = number;
        op->found = number > 0;
        break;
    default:
        TRI_CHECK(op->call == TR_STORE_REMIND || op->call == TR_STORE_FORGET ||
                  op->call == TR_STORE_DELETE);
        op->found = number > 0;
        break;
    }
}

/*
 * Fails an op that was refused, with the version that is stored. The version
 * may have changed since the op was refused.
 */
static void answer_refused(tri_store_op *op, const PGresult *result)
{
    uint64_t stored = PQntuples(result) == 0 ? 0 : tri_pg_number(result, 0, 0);

    if (!tri_store_check_version(op, stored)) {
        return;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "another version or event was stored, %llu was expected",
                   (unsigned long long)op->number);
}

static void answer(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                   tri_pg_step *step, const PGresult *result)
{
    (void)pipeline;
    if (tri_pg_step_is_query(step)) {
        answer_refused(step->op, result);
    } else if (step->op != NULL) {
        answer_one(step, result);
    } else if (step->sql != TRI_PG_ENSURE) {
        answer_saves(batch, result);
    }
}

/* ---- after the commit ---- */

/* Raises the known fence after a write with this epoch was committed. */
static void raise_known_fence(tri_pg_pipeline *pipeline, const tri_store_op *op)
{
    TRI_CHECK(op->err == TR_OK);
    // The write has raised the fence, or its epoch was not above it.
    note_fence(pipeline, tri_store_fence_of(op), op->epoch + 1);
}

/* Handles a write after the commit: notes its fence, or that it was refused. */
static void finish_write(tri_pg_pipeline *pipeline, tri_store_op *op,
                         bool was_done)
{
    if (op->err != TR_OK) {
        return;
    }
    if (was_done) {
        raise_known_fence(pipeline, op);
    } else {
        tri_list_push_back(&pipeline->refused, &op->link);
    }
}

static void committed(tri_pg_pipeline *pipeline, tri_pg_batch *batch)
{
    for (uint32_t i = 0; i < batch->missing_count; i++) {
        note_fence(pipeline, batch->missing[i], 1);
    }
    for (uint32_t i = 0; i < batch->bulk_count; i++) {
        finish_write(pipeline, batch->bulk[i], batch->bulk_done[i]);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        const tri_pg_step *step = &batch->steps[i];
        if (step->op != NULL && !tri_pg_step_is_query(step)) {
            finish_write(pipeline, step->op, !step->refused);
        }
    }
}

/* ---- a new connection ---- */

static void read_fences(tri_pg_pipeline *pipeline, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        note_fence(pipeline, tri_pg_number(result, row, 0),
                   tri_pg_number(result, row, 1) + 1);
    }
}

static tr_err connected(tri_pg_pipeline *pipeline, tri_pg_fault *why)
{
    PGresult *result;
    bool is_end = false;

    // It may be another server, or one that was restored from a backup.
    tri_map_fini(&pipeline->fences);
    tri_pg_begin(&pipeline->params);
    if (!tri_pg_send(&pipeline->db, TRI_PG_FENCES, &pipeline->params) ||
        !tri_pg_send_sync(&pipeline->db)) {
        tri_pg_explain_unsent(&pipeline->db, why);
        return why->err;
    }
    while (!is_end) {
        if (!tri_pg_next(&pipeline->db, &result, why)) {
            return why->err;
        }
        is_end = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (PQresultStatus(result) == PGRES_TUPLES_OK) {
            read_fences(pipeline, result);
        } else if (result != NULL &&
                   PQresultStatus(result) == PGRES_FATAL_ERROR) {
            tri_pg_explain(result, why);
        }
        PQclear(result);
    }
    return why->err;
}

const tri_pg_pipeline_ops tri_pg_writing = {
    .name = "tr-store-write",
    .is_writing = true,
    .connected = connected,
    .add = add,
    .complete = complete,
    .bind = bind,
    .answer = answer,
    .committed = committed,
};
