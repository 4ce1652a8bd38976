/*
 * postgres_lane.c - a thread that moves operations through a connection.
 *
 * An operation is answered when the end of its batch has come back, because
 * only then is the transaction committed. If the connection breaks before,
 * nobody knows what became of a batch that was sent: TR_EUNKNOWN. A batch that
 * was not sent whole has no end, so the server forgets it: TR_ESTORAGE.
 *
 * Connecting: a lost connection is looked for when there is something to send.
 * Between tries the lane waits, longer each time; operations wait with it, but
 * not beyond their patience. After that each failed try answers all of them,
 * so a server that stays away makes nobody wait for long.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "storage/storage_postgres.h"

#define BACKOFF_MIN TR_MS(20)
#define BACKOFF_MAX TR_SECONDS(1)

/* ---- batches ---- */

static tr_err batch_init(tri_pg_batch *batch, uint32_t count)
{
    batch->group = calloc(count, sizeof(*batch->group));
    batch->done = calloc(count, sizeof(*batch->done));
    batch->steps = calloc(count + 2, sizeof(*batch->steps));
    batch->shards = calloc(count, sizeof(*batch->shards));
    batch->epochs = calloc(count, sizeof(*batch->epochs));
    batch->missing = calloc(count, sizeof(*batch->missing));
    bool is_well = batch->group != NULL && batch->done != NULL &&
                   batch->steps != NULL && batch->shards != NULL &&
                   batch->epochs != NULL && batch->missing != NULL;
    return is_well ? TR_OK : TR_ENOMEM;
}

static void batch_fini(tri_pg_batch *batch)
{
    free(batch->group);
    free(batch->done);
    free(batch->steps);
    free(batch->shards);
    free(batch->epochs);
    free(batch->missing);
}

static void batch_clear(tri_pg_batch *batch)
{
    batch->group_count = 0;
    batch->step_count = 0;
    batch->shard_count = 0;
    batch->missing_count = 0;
    batch->size = 0;
    batch->raising = false;
    batch->step = 0;
    batch->answered = false;
    batch->fault = (tri_pg_fault){0};
}

void tri_pg_step_add(tri_pg_batch *batch, tri_pg_sql sql, tri_store_op *op)
{
    batch->steps[batch->step_count++] = (tri_pg_step){.sql = sql, .op = op};
}

static bool is_empty(const tri_pg_batch *batch)
{
    return batch->step_count == 0 && batch->group_count == 0;
}

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

/* What was refused was not written, whatever became of the others. */
static void fail_one(tri_store_op *op, bool unknown, bool refused,
                     const tri_pg_fault *why)
{
    bool is_unknown = unknown && !refused && op->err == TR_OK;

    fail(op, is_unknown ? TR_EUNKNOWN : why->err, why);
}

static void fail_batch(tri_pg_batch *batch, bool unknown,
                       const tri_pg_fault *why)
{
    for (uint32_t i = 0; i < batch->group_count; i++) {
        fail_one(batch->group[i], unknown, false, why);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        if (batch->steps[i].op != NULL) {
            bool is_question = batch->steps[i].sql == TRI_PG_VERSION ||
                               batch->steps[i].sql == TRI_PG_LAST;
            fail_one(batch->steps[i].op, unknown,
                     is_question || batch->steps[i].refused, why);
        }
    }
    batch_clear(batch);
}

/* The connection is gone, and with it what was on its way. */
static void lose(tri_pg_lane *lane, const tri_pg_fault *why)
{
    static const tri_pg_fault changed = {
        .err = TR_EFENCED,
        .fault = TRI_STORE_FAULT_OPERATION_FAILED,
        .text = "another version is stored",
    };
    tri_world *world = lane->place->world;

    bool all_sent = lane->db.all_sent;
    tri_pg_close(&lane->db);
    while (lane->flying > 0) {
        tri_pg_batch *batch = &lane->batches[lane->oldest];
        lane->oldest = (lane->oldest + 1) % TRI_PG_DEPTH;
        lane->flying--;
        // One behind which another was begun may have gone out whole.
        bool is_sent = all_sent || lane->flying > 0;
        fail_batch(batch, lane->ops->is_writing && is_sent, why);
    }
    fail_list(&lane->refused, &changed);
    lane->lost_since = world->ops->mono(world);
    lane->not_before = 0;
    lane->failures = 0;
}

/* ---- sending ---- */

static bool send_steps(tri_pg_lane *lane, tri_pg_batch *batch)
{
    for (uint32_t i = 0; i < batch->step_count; i++) {
        tri_pg_begin(&lane->params);
        lane->ops->bind(lane, batch, &batch->steps[i]);
        if (!tri_pg_send(&lane->db, batch->steps[i].sql, &lane->params)) {
            return false;
        }
    }
    return tri_pg_send_sync(&lane->db);
}

/* Fills a batch with those that were refused, and then with what waits. */
static void gather(tri_pg_lane *lane, tri_pg_batch *batch)
{
    tri_link *link;

    batch_clear(batch);
    while (batch->step_count < lane->limits->batch &&
           (link = tri_list_pop_front(&lane->refused)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        bool is_event = op->call == TR_STORE_APPEND;
        tri_pg_step_add(batch, is_event ? TRI_PG_LAST : TRI_PG_VERSION, op);
    }
    while (batch->step_count + batch->group_count < lane->limits->batch &&
           (batch->size < lane->limits->batch_size) &&
           (link = tri_list_first(&lane->pending)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (!lane->ops->add(lane, batch, op)) {
            break;
        }
        tri_list_remove(link);
        batch->size += op->bytes.size;
        for (uint32_t i = 0; i < op->event_count; i++) {
            batch->size += op->events[i].size;
        }
    }
    lane->ops->complete(lane, batch);
}

static bool has_work(const tri_pg_lane *lane)
{
    return !tri_list_is_empty(&lane->pending) ||
           !tri_list_is_empty(&lane->refused);
}

static void send_batches(tri_pg_lane *lane)
{
    tri_pg_fault why;

    while (lane->flying < TRI_PG_DEPTH && has_work(lane)) {
        uint32_t at = (lane->oldest + lane->flying) % TRI_PG_DEPTH;
        tri_pg_batch *batch = &lane->batches[at];
        gather(lane, batch);
        TRI_CHECK(!is_empty(batch));
        lane->flying++;
        if (!send_steps(lane, batch)) {
            // Half a batch cannot be taken back, but a connection can.
            tri_pg_not_sent(&lane->db, &why);
            lose(lane, &why);
            return;
        }
        (void)tri_pg_flush(&lane->db);
    }
}

/* ---- receiving ---- */

/* Those that were put into a list again are answered later. */
static void complete_op(tri_store_op *op)
{
    if (op != NULL && !tri_link_is_linked(&op->link)) {
        tri_store_done(op);
    }
}

/* The transaction has ended; the ops that are left are answered. */
static void end_batch(tri_pg_lane *lane, tri_pg_batch *batch)
{
    lane->oldest = (lane->oldest + 1) % TRI_PG_DEPTH;
    lane->flying--;
    if (batch->fault.err != TR_OK) {
        fail_batch(batch, false, &batch->fault);
        return;
    }
    lane->ops->committed(lane, batch);
    for (uint32_t i = 0; i < batch->group_count; i++) {
        complete_op(batch->group[i]);
    }
    for (uint32_t i = 0; i < batch->step_count; i++) {
        complete_op(batch->steps[i].op);
    }
    batch_clear(batch);
}

/* One result of a batch. False: nothing makes sense any more. */
static bool on_result(tri_pg_lane *lane, tri_pg_batch *batch,
                      const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        if (batch->answered || batch->step >= batch->step_count) {
            return false;
        }
        lane->ops->answer(lane, batch, &batch->steps[batch->step], result);
        batch->answered = true;
        return true;
    case PGRES_FATAL_ERROR:
        tri_pg_why(result, &batch->fault);
        batch->answered = true;
        return true;
    case PGRES_PIPELINE_ABORTED:
        batch->answered = true;
        return batch->fault.err != TR_OK;
    default:
        return false;
    }
}

static bool on_separator(tri_pg_batch *batch)
{
    bool made_sense = batch->answered;

    batch->answered = false;
    batch->step++;
    return made_sense;
}

/* Waits for the end of the oldest batch. */
static void receive_batch(tri_pg_lane *lane)
{
    tri_pg_batch *batch = &lane->batches[lane->oldest];
    tri_pg_fault why = {.err = TR_ESTORAGE,
                        .fault = TRI_STORE_FAULT_UNAVAILABLE,
                        .text = "the server's answer makes no sense"};
    PGresult *result;

    for (bool is_well = true; is_well;) {
        if (!tri_pg_next(&lane->db, &result, &why)) {
            break;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            end_batch(lane, batch);
            return;
        }
        is_well = result == NULL ? on_separator(batch)
                                 : on_result(lane, batch, result);
        PQclear(result);
    }
    lose(lane, &why);
}

/* ---- the thread ---- */

static void take(tri_pg_lane *lane, tr_nanos timeout)
{
    (void)tri_inbox_take(&lane->inbox, &lane->pending, UINT32_MAX, timeout);
}

/* Counts a failed try, and answers those who have waited long enough. */
static void not_connected(tri_pg_lane *lane, const tri_pg_fault *why)
{
    tri_world *world = lane->place->world;
    tr_nanos now = world->ops->mono(world);
    uint32_t shift = TRI_MIN(lane->failures, 16u);
    tr_nanos wait = TRI_MIN(BACKOFF_MIN << shift, BACKOFF_MAX);

    // A random part, so that not all come at once when the server is back.
    wait += (tr_nanos)(world->ops->random(world) % (uint64_t)(wait / 2));
    lane->failures++;
    lane->not_before = now + wait;
    if (why->is_final || tri_inbox_is_closed(&lane->inbox) ||
        now - lane->lost_since >= lane->limits->patience) {
        fail_list(&lane->pending, why);
    }
}

/* True: connected. */
static bool ensure_connected(tri_pg_lane *lane)
{
    tri_world *world = lane->place->world;
    tri_pg_fault why = {.err = TR_ESTORAGE,
                        .fault = TRI_STORE_FAULT_UNAVAILABLE,
                        .text = "the server has closed the connection"};

    if (lane->db.conn != NULL) {
        if (lane->flying > 0 || tri_pg_is_alive(&lane->db)) {
            return true;
        }
        lose(lane, &why);  // nothing was on its way
    }
    tr_nanos now = world->ops->mono(world);
    if (now < lane->not_before && !tri_inbox_is_closed(&lane->inbox)) {
        take(lane, lane->not_before - now);
        return false;
    }
    tr_err err = tri_pg_open(&lane->db, lane->place, false, &why);
    if (err == TR_OK) {
        err = lane->ops->connected(lane, &why);
    }
    if (err != TR_OK) {
        tri_pg_close(&lane->db);
        not_connected(lane, &why);
        return false;
    }
    lane->failures = 0;
    return true;
}

void tri_pg_lane_run(void *arg)
{
    tri_pg_lane *lane = arg;

    for (;;) {
        bool is_idle = lane->flying == 0 && !has_work(lane);
        if (is_idle && tri_inbox_is_closed(&lane->inbox)) {
            take(lane, 0);
            if (!has_work(lane)) {
                break;
            }
        }
        take(lane, is_idle ? TR_FOREVER : 0);
        if (has_work(lane) && !ensure_connected(lane)) {
            continue;
        }
        send_batches(lane);
        if (lane->flying > 0) {
            receive_batch(lane);
        }
    }
    tri_pg_close(&lane->db);
}

static bool op_has_key(const void *value, const void *key, size_t size)
{
    const tri_store_op *op = value;

    return op->key.size == size && memcmp(op->key.at, key, size) == 0;
}

tr_err tri_pg_lane_init(tri_pg_lane *lane, const tri_pg_lane_ops *ops,
                        const tri_pg_place *place, const tri_pg_limits *limits)
{
    lane->ops = ops;
    lane->place = place;
    lane->limits = limits;
    tri_inbox_init(&lane->inbox, place->world);
    tri_list_init(&lane->pending);
    tri_list_init(&lane->refused);
    tri_map_init(&lane->keys, op_has_key, NULL);
    for (uint32_t i = 0; i < TRI_PG_DEPTH; i++) {
        TR_TRY(batch_init(&lane->batches[i], limits->batch));
    }
    if (ops->is_writing) {
        lane->fences = calloc(TRI_STORE_SHARDS_MAX, sizeof(*lane->fences));
        if (lane->fences == NULL) {
            return TR_ENOMEM;
        }
        TR_TRY(tri_map_reserve(&lane->keys, limits->batch));
    }
    return TR_OK;
}

void tri_pg_lane_fini(tri_pg_lane *lane)
{
    TRI_CHECK(lane->flying == 0);
    tri_pg_close(&lane->db);
    for (uint32_t i = 0; i < TRI_PG_DEPTH; i++) {
        batch_fini(&lane->batches[i]);
    }
    tri_map_fini(&lane->keys);
    tri_pg_params_fini(&lane->params);
    free(lane->fences);
}
