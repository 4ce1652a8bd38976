/*
 * postgres_write.c - batches of writes, each one fenced transaction.
 *
 *     [ENSURE]  rows for shards that have none yet
 *     [SAVE]    all saves in one statement
 *     ...       every other write in one of its own
 *
 * No key is twice in a batch: the second one begins the next batch, so that
 * writes of one key keep their order. An operation whose epoch is beyond the
 * fence, as far as known, is a batch of its own (postgres_sql.h says why).
 *
 * `fences` holds what is known of each fence: its epoch is at least that, as
 * fences never fall. It is read anew with each connection, and moved only by
 * what was committed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "storage/storage_postgres.h"

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

/* Whether the op would raise the fence; FENCE has its own way to do that. */
static bool is_raising(const tri_pg_lane *lane, const tri_store_op *op)
{
    uint64_t known = lane->fences[op->shard];

    return op->call != TR_STORE_FENCE && op->epoch > 0 && op->epoch + 1 > known;
}

static bool is_alone(const tri_pg_batch *batch)
{
    return batch->group_count == 0 && batch->step_count == 0;
}

static bool add(tri_pg_lane *lane, tri_pg_batch *batch, tri_store_op *op)
{
    bool raising = is_raising(lane, op);

    if (batch->raising || (raising && !is_alone(batch))) {
        return false;
    }
    if (op->call != TR_STORE_FENCE &&
        tri_map_put_bytes(&lane->keys, op->key.at, op->key.size, op) != TR_OK) {
        return false;  // the same key; there is room for all
    }
    batch->raising = raising;
    if (lane->fences[op->shard] == 0 && op->call != TR_STORE_FENCE) {
        batch->missing[batch->missing_count++] = op->shard;
    }
    if (op->call == TR_STORE_SAVE) {
        batch->group[batch->group_count++] = op;
    } else {
        // A form that raises stands behind the one that does not.
        tri_pg_step_add(batch, sql_of(op->call) + (raising ? 1 : 0), op);
    }
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const tri_store_op *one = *(tri_store_op *const *)a;
    const tri_store_op *two = *(tri_store_op *const *)b;
    size_t common = TRI_MIN(one->key.size, two->key.size);
    int order = memcmp(one->key.at, two->key.at, common);

    if (order != 0 || one->key.size == two->key.size) {
        return order;
    }
    return one->key.size < two->key.size ? -1 : 1;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, two = *(const uint32_t *)b;

    return (one > two) - (one < two);
}

static void list_shards(tri_pg_batch *batch)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < batch->group_count; i++) {
        batch->shards[i] = batch->group[i]->shard;
    }
    qsort(batch->shards, batch->group_count, sizeof(*batch->shards),
          compare_numbers);
    for (uint32_t i = 0; i < batch->group_count; i++) {
        if (i == 0 || batch->shards[i] != batch->shards[i - 1]) {
            batch->shards[count++] = batch->shards[i];
        }
    }
    batch->shard_count = count;
}

/* Puts a step before all others. */
static void add_first(tri_pg_batch *batch, tri_pg_sql sql)
{
    memmove(batch->steps + 1, batch->steps,
            batch->step_count * sizeof(*batch->steps));
    batch->steps[0] = (tri_pg_step){.sql = sql};
    batch->step_count++;
}

static void complete(tri_pg_lane *lane, tri_pg_batch *batch)
{
    if (batch->group_count > 0) {
        qsort(batch->group, batch->group_count, sizeof(*batch->group),
              compare_keys);
        list_shards(batch);
        memset(batch->done, 0, batch->group_count * sizeof(*batch->done));
        add_first(batch, batch->raising ? TRI_PG_SAVE_RAISE : TRI_PG_SAVE);
    }
    if (batch->missing_count > 0) {
        add_first(batch, TRI_PG_ENSURE);
    }
    for (uint32_t i = 0; i < batch->group_count; i++) {
        (void)tri_map_remove_bytes(&lane->keys, batch->group[i]->key.at,
                                   batch->group[i]->key.size);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        const tri_store_op *op = batch->steps[i].op;
        if (op != NULL && op->call != TR_STORE_FENCE) {
            (void)tri_map_remove_bytes(&lane->keys, op->key.at, op->key.size);
        }
    }
    TRI_CHECK(tri_map_count(&lane->keys) == 0);
}

/* ---- parameters ---- */

static uint32_t place_of(const tri_pg_batch *batch, uint32_t shard)
{
    const uint32_t *at = bsearch(&shard, batch->shards, batch->shard_count,
                                 sizeof(*batch->shards), compare_numbers);

    return (uint32_t)(at - batch->shards) + 1;
}

static void bind_saves(tri_pg_params *params, const tri_pg_batch *batch)
{
    uint32_t count = batch->group_count;
    tri_store_op *const *ops = batch->group;

    tri_pg_add_array(params, TRI_PG_OID_INT4, batch->shard_count);
    for (uint32_t i = 0; i < batch->shard_count; i++) {
        tri_pg_put4(params, batch->shards[i]);
    }
    tri_pg_add_array(params, TRI_PG_OID_INT4, count);
    for (uint32_t i = 0; i < count; i++) {
        tri_pg_put4(params, place_of(batch, ops[i]->shard));
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
    tri_pg_add4(params, op->shard);
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
        break;
    case TR_STORE_FORGET:
        tri_pg_add_bytes(params, op->name);
        tri_pg_add8(params, op->after);
        break;
    default:
        tri_pg_add8(params, op->number);
        break;
    }
}

static void bind(tri_pg_lane *lane, tri_pg_batch *batch,
                 const tri_pg_step *step)
{
    tri_pg_params *params = &lane->params;

    if (step->sql == TRI_PG_VERSION || step->sql == TRI_PG_LAST) {
        tri_pg_add_bytes(params, step->op->key);
    } else if (step->op != NULL) {
        bind_one(params, step->op);
    } else if (step->sql == TRI_PG_ENSURE) {
        tri_pg_add_array(params, TRI_PG_OID_INT4, batch->missing_count);
        for (uint32_t i = 0; i < batch->missing_count; i++) {
            tri_pg_put4(params, batch->missing[i]);
        }
    } else {
        bind_saves(params, batch);
    }
}

/* ---- answers ---- */

static void fence_is_gone(tri_store_op *op)
{
    tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED,
                   "the fence of shard %u was taken out of the database: "
                   "start again",
                   op->shard);
}

/* Reads which saves were done; see TRI_PG_DO_SAVE. */
static void mark_done(tri_pg_batch *batch, const PGresult *result)
{
    tri_pg_walk replaced = tri_pg_walk_begin(result, 0, 1);
    tri_pg_walk added = tri_pg_walk_begin(result, 0, 2);
    tri_store_bytes element;

    while (tri_pg_walk_next(&replaced, &element)) {
        uint64_t number = tri_pg_number_of(element);
        TRI_CHECK(number >= 1);
        TRI_CHECK(number <= batch->group_count);
        batch->done[number - 1] = true;
    }
    while (tri_pg_walk_next(&added, &element)) {
        tri_store_op wanted = {.key = element};
        tri_store_op *pointer = &wanted;
        tri_store_op **at = bsearch(&pointer, batch->group, batch->group_count,
                                    sizeof(*batch->group), compare_keys);
        TRI_CHECK(at != NULL);
        batch->done[at - batch->group] = true;
    }
}

static void answer_saves(tri_pg_batch *batch, const PGresult *result)
{
    tri_pg_walk walk = tri_pg_walk_begin(result, 0, 0);
    bool is_complete = walk.left == batch->shard_count;
    tri_store_bytes element;

    for (uint32_t i = 0; is_complete && i < batch->shard_count; i++) {
        is_complete = tri_pg_walk_next(&walk, &element);
        batch->epochs[i] = is_complete ? tri_pg_number_of(element) : 0;
    }
    mark_done(batch, result);
    for (uint32_t i = 0; i < batch->group_count; i++) {
        tri_store_op *op = batch->group[i];
        if (batch->done[i]) {
            op->version = op->number + 1;
            op->found = true;
        } else if (!is_complete) {
            fence_is_gone(op);
        } else {
            uint32_t place = place_of(batch, op->shard);
            (void)tri_store_passes(op, batch->epochs[place - 1]);
        }
    }
}

/* The columns of TRI_PG_ANSWER. */
static void answer_one(tri_pg_step *step, const PGresult *result)
{
    tri_store_op *op = step->op;

    if (PQntuples(result) != 1 || PQgetisnull(result, 0, 0)) {
        fence_is_gone(op);
        return;
    }
    if (!tri_store_passes(op, tri_pg_number(result, 0, 0))) {
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
    case TR_STORE_REMIND:
    case TR_STORE_FORGET:
        op->found = number > 0;
        break;
    default:
        op->found = true;
        break;
    }
}

/* Which version was in the way; by now it may be another one. */
static void answer_refused(tri_store_op *op, const PGresult *result)
{
    uint64_t stored = PQntuples(result) == 0 ? 0 : tri_pg_number(result, 0, 0);

    if (!tri_store_matches(op, stored)) {
        return;
    }
    // Nothing was to be deleted, and nothing is there.
    if (op->call == TR_STORE_DELETE && op->number == 0) {
        return;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "another version was stored, %llu was expected",
                   (unsigned long long)op->number);
}

static void answer(tri_pg_lane *lane, tri_pg_batch *batch, tri_pg_step *step,
                   const PGresult *result)
{
    (void)lane;
    if (step->sql == TRI_PG_VERSION || step->sql == TRI_PG_LAST) {
        answer_refused(step->op, result);
    } else if (step->op != NULL) {
        answer_one(step, result);
    } else if (step->sql != TRI_PG_ENSURE) {
        answer_saves(batch, result);
    }
}

/* ---- after the commit ---- */

static void note_fence(tri_pg_lane *lane, const tri_store_op *op)
{
    uint64_t *known = &lane->fences[op->shard];

    // A write that was done has raised the fence, or was not beyond it.
    *known = TRI_MAX(*known, op->epoch + 1);
}

static void settle(tri_pg_lane *lane, tri_store_op *op, bool was_done)
{
    if (op->err != TR_OK) {
        return;
    }
    if (was_done) {
        note_fence(lane, op);
    } else {
        tri_list_push_back(&lane->refused, &op->link);
    }
}

static void committed(tri_pg_lane *lane, tri_pg_batch *batch)
{
    for (uint32_t i = 0; i < batch->missing_count; i++) {
        uint64_t *known = &lane->fences[batch->missing[i]];
        *known = TRI_MAX(*known, UINT64_C(1));
    }
    for (uint32_t i = 0; i < batch->group_count; i++) {
        settle(lane, batch->group[i], batch->done[i]);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        const tri_pg_step *step = &batch->steps[i];
        bool is_question =
            step->sql == TRI_PG_VERSION || step->sql == TRI_PG_LAST;
        if (step->op != NULL && !is_question) {
            settle(lane, step->op, !step->refused);
        }
    }
}

/* ---- a new connection ---- */

static void read_fences(tri_pg_lane *lane, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        uint64_t shard = tri_pg_number(result, row, 0);
        if (shard < TRI_STORE_SHARDS_MAX) {
            lane->fences[shard] = tri_pg_number(result, row, 1) + 1;
        }
    }
}

static tr_err connected(tri_pg_lane *lane, tri_pg_fault *why)
{
    PGresult *result;
    bool is_end = false;

    // Who knows whether it is the same server, and what it remembers.
    memset(lane->fences, 0, TRI_STORE_SHARDS_MAX * sizeof(*lane->fences));
    tri_pg_begin(&lane->params);
    if (!tri_pg_send(&lane->db, TRI_PG_FENCES, &lane->params) ||
        !tri_pg_send_sync(&lane->db)) {
        tri_pg_not_sent(&lane->db, why);
        return why->err;
    }
    while (!is_end) {
        if (!tri_pg_next(&lane->db, &result, why)) {
            return why->err;
        }
        is_end = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (PQresultStatus(result) == PGRES_TUPLES_OK) {
            read_fences(lane, result);
        } else if (result != NULL &&
                   PQresultStatus(result) == PGRES_FATAL_ERROR) {
            tri_pg_why(result, why);
        }
        PQclear(result);
    }
    return why->err;
}

const tri_pg_lane_ops tri_pg_writing = {
    .name = "tr-store-write",
    .is_writing = true,
    .connected = connected,
    .add = add,
    .complete = complete,
    .bind = bind,
    .answer = answer,
    .committed = committed,
};
