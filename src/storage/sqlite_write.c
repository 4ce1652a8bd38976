/*
 * sqlite_write.c - the writer: one transaction for all that wait.
 *
 * A batch is everything in the inbox. Each operation is checked against the
 * fence and the version inside the transaction, states are appended to the
 * journal, the rest goes to its table, and one commit makes all of it durable.
 * Only then are the states put into the index in memory, and only then does a
 * caller hear of it.
 *
 * Invariant: between transactions the index, the fences in memory and the
 * file agree; a transaction that fails changes neither of the first two.
 *
 * A commit that fails leaves its frames in the log, where a restart would
 * find them, so its outcome is unknown. The next commit overwrites them: it
 * is made at once, by opening the file anew (sqlite_db.c), so that whoever
 * loads after an unknown answer learns what stays true.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "storage/storage_sqlite.h"

#define SHARED_SPAN TR_SECONDS(1)
#define SHARED_NAP  INT64_C(150000)  // longer than most naps of on_busy
#define GATE_WAIT   TR_MS(100)
#define SETTLE_SPAN TR_MS(100)  // between two tries, if nobody writes
/* How long a batch may wait for those who are due; see wait_for_more. */
#define FILL_SHARE  4                // of a commit's time: a quarter
#define FILL_MAX    TR_MS(4)         // in all
#define FILL_NAP    INT64_C(100000)  // between two looks
#define CROWD_SHARE 8                // by which it shrinks, and may be missed

/* ---- transactions ---- */

/* What is known of the file by heart. */
static void forget_file(tri_sqlite_store *store)
{
    tri_sqlite_writer *writer = &store->writer;

    tri_versions_forget(&store->versions);
    memset(writer->fences, 0, writer->fence_top * sizeof(*writer->fences));
    writer->fence_top = 0;
}

static void wait_for_gate(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    // Acquire: pairs with open_gate; nothing is shared but the word itself.
    while (atomic_load_explicit(&store->gate, memory_order_acquire) != 0) {
        (void)world->ops->park(world, &store->gate, 1, GATE_WAIT);
    }
}

int tri_sqlite_write_changes(tri_sqlite_store *store, uint64_t *changes)
{
    tri_sqlite_db *db = &store->writer.db;
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_CHANGES);

    *changes = 0;
    return statement == NULL ? sqlite3_extended_errcode(db->handle)
                             : tri_sqlite_number(statement, changes);
}

/* Learns what other processes did since our last transaction. */
static int look_around(tri_sqlite_store *store)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    uint64_t changes;
    int code = tri_sqlite_write_changes(store, &changes);

    if (code != SQLITE_OK) {
        return code;
    }
    if (changes != writer->changes) {
        if (writer->changes != 0) {
            writer->shared_until = world->ops->mono(world) + SHARED_SPAN;
        }
        writer->changes = changes;
        forget_file(store);
    }
    return tri_sqlite_db_sync(&writer->db, &store->journal, &writer->folded,
                              &writer->last);
}

static int on_commit(void *arg, sqlite3 *handle, const char *name, int pages)
{
    tri_sqlite_store *store = arg;
    tri_sqlite_writer *writer = &store->writer;
    uint32_t now = (uint32_t)pages;

    (void)handle;
    (void)name;
    if (now < writer->log_pages) {
        // The log began anew.
        writer->checkpoint_at = store->limits.checkpoint_pages;
    }
    writer->log_pages = now;
    if (now >= writer->checkpoint_at) {
        writer->checkpoint_at = now + store->limits.checkpoint_pages;
        tri_inbox_nudge(&store->checkpointer.inbox);
    }
    return SQLITE_OK;
}

/* Opens the connection again if a failure has closed it, which settles. */
static tr_err ensure_open(tri_sqlite_store *store, tri_sqlite_fault *why)
{
    tri_sqlite_writer *writer = &store->writer;

    if (writer->db.handle == NULL) {
        TR_TRY(tri_sqlite_db_open(&writer->db, &store->file, true, why));
        writer->changes = 0;
        forget_file(store);
        // Relaxed: a load that comes after an answer of ours came through
        // the reader's inbox, whose lock orders it behind the store below.
        atomic_store_explicit(&store->unsettled, 0, memory_order_relaxed);
    }
    (void)sqlite3_wal_hook(writer->db.handle, on_commit, store);
    return TR_OK;
}

int tri_sqlite_write_begin(tri_sqlite_store *store)
{
    tri_sqlite_db *db = &store->writer.db;

    TRI_CHECK(db->handle != NULL);
    wait_for_gate(store);
    int code = tri_sqlite_db_run(db, TRI_SQL_BEGIN_WRITE);
    if (code == SQLITE_OK) {
        code = look_around(store);
    }
    return code;
}

void tri_sqlite_write_cancel(tri_sqlite_store *store)
{
    tri_sqlite_db *db = &store->writer.db;

    // After a failed read or write SQLite's view of the file, and our locks
    // on it, are not worth saving: a new connection begins from nothing.
    if (db->handle != NULL && !sqlite3_get_autocommit(db->handle)) {
        (void)tri_sqlite_db_run(db, TRI_SQL_ROLLBACK);
    }
    tri_sqlite_db_close(db);
    forget_file(store);
}

/* ---- one operation; each returns an SQLite code ---- */

static int fence_of(tri_sqlite_writer *writer, uint32_t shard, uint64_t *fence)
{
    *fence = 0;
    if (writer->fences[shard] > 0) {
        *fence = writer->fences[shard] - 1;
        return SQLITE_OK;
    }
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FENCE_GET);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, shard);
    int code = tri_sqlite_number(statement, fence);
    if (code == SQLITE_OK) {
        writer->fences[shard] = *fence + 1;
        writer->fence_top = (uint32_t)TRI_MAX(writer->fence_top, shard + 1);
    }
    return code;
}

static int raise_fence(tri_sqlite_writer *writer, const tri_store_op *op)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FENCE_PUT);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, op->shard);
    tri_sqlite_bind(statement, 2, op->epoch);
    writer->fences[op->shard] = op->epoch + 1;
    return tri_sqlite_step(statement);
}

/*
 * The stored version: of this transaction, of the journal, of the table by
 * key. *entry is the key's in the index, or NULL.
 */
static int version_of(tri_sqlite_store *store, const tri_store_op *op,
                      tri_journal_entry **entry, uint64_t *version)
{
    tri_sqlite_writer *writer = &store->writer;
    bool known;

    *entry = tri_journal_claim(&store->journal, op->key, writer->folded,
                               &writer->claims, &known, version);
    if (known || tri_versions_get(&store->versions, op->key, version)) {
        return SQLITE_OK;
    }
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_STATE_VERSION);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    *version = 0;
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = tri_sqlite_number(statement, version);
    if (code == SQLITE_OK) {
        tri_versions_put(&store->versions, op->key, *version);
    }
    return code;
}

static int add_row(tri_sqlite_writer *writer, const tri_store_op *op,
                   uint64_t key_hash, uint64_t version)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_JOURNAL_ADD);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, writer->last);
    tri_sqlite_bind_text(statement, 2, op->key);
    tri_sqlite_bind(statement, 3, version);
    tri_store_bytes bytes = {NULL, 0};
    if (version == 0) {
        (void)sqlite3_bind_null(statement, 4);
    } else {
        bytes = op->bytes;
        tri_sqlite_bind_bytes(statement, 4, bytes.at, bytes.size);
    }
    tri_sqlite_bind(statement, 5,
                    tri_sqlite_sum_hashed(key_hash, version, bytes));
    return tri_sqlite_step(statement);
}

/* Appends a row to the journal; version 0: the state is deleted. */
static int journal(tri_sqlite_store *store, tri_store_op *op,
                   tri_journal_entry *entry, uint64_t version)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_store_bytes none = {NULL, 0};

    if (entry == NULL) {
        entry =
            tri_journal_claim_new(&store->journal, op->key, &writer->claims);
    }
    if (entry == NULL ||
        tri_journal_stage(entry, writer->last + 1, version,
                          version == 0 ? none : op->bytes) != TR_OK) {
        tri_store_fail(op, TR_ENOMEM, TRI_STORE_FAULT_UNAVAILABLE,
                       "out of memory");
        return SQLITE_OK;
    }
    writer->last++;
    op->version = version;
    op->found = true;
    return add_row(writer, op, entry->hash, version);
}

static int save(tri_sqlite_store *store, tri_store_op *op)
{
    tri_journal_entry *entry;
    uint64_t stored;
    int code = version_of(store, op, &entry, &stored);

    if (code != SQLITE_OK || !tri_store_matches(op, stored)) {
        return code;
    }
    return journal(store, op, entry, stored + 1);
}

static int delete_state(tri_sqlite_store *store, tri_store_op *op)
{
    tri_journal_entry *entry;
    uint64_t stored;
    int code = version_of(store, op, &entry, &stored);

    if (code != SQLITE_OK || !tri_store_matches(op, stored) || stored == 0) {
        return code;
    }
    return journal(store, op, entry, 0);
}

static int remind(tri_sqlite_writer *writer, tri_store_op *op)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(
        &writer->db, op->after == 0 ? TRI_SQL_REMIND : TRI_SQL_REMIND_IF);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind_text(statement, 2, op->name);
    tri_sqlite_bind(statement, 3, op->shard);
    tri_sqlite_bind(statement, 4, op->number);
    tri_sqlite_bind_bytes(statement, 5, op->bytes.at, op->bytes.size);
    tri_sqlite_bind(statement, 6,
                    tri_sqlite_sum(op->key, op->number, op->bytes));
    if (op->after != 0) {
        tri_sqlite_bind(statement, 7, op->after);
    }
    int code = tri_sqlite_step(statement);
    op->found = sqlite3_changes(writer->db.handle) > 0;
    return code;
}

static int forget(tri_sqlite_writer *writer, tri_store_op *op)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FORGET);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind_text(statement, 2, op->name);
    tri_sqlite_bind(statement, 3, op->after);
    int code = tri_sqlite_step(statement);
    op->found = sqlite3_changes(writer->db.handle) > 0;
    return code;
}

static int carry_out(tri_sqlite_store *store, tri_store_op *op)
{
    tri_sqlite_writer *writer = &store->writer;

    switch (op->call) {
    case TR_STORE_SAVE:
        return save(store, op);
    case TR_STORE_DELETE:
        return delete_state(store, op);
    case TR_STORE_APPEND:
        return tri_sqlite_append(&writer->db, op);
    case TR_STORE_TRIM:
        return tri_sqlite_trim(&writer->db, op);
    case TR_STORE_REMIND:
        return remind(writer, op);
    case TR_STORE_FORGET:
        return forget(writer, op);
    default:
        TRI_CHECK(op->call == TR_STORE_FENCE);
        op->version = op->epoch;
        return SQLITE_OK;
    }
}

static int write_one(tri_sqlite_store *store, tri_store_op *op)
{
    uint64_t fence;
    int code = fence_of(&store->writer, op->shard, &fence);

    if (code != SQLITE_OK || !tri_store_passes(op, fence)) {
        return code;
    }
    code = carry_out(store, op);
    if (code != SQLITE_OK && code != SQLITE_DONE) {
        return code;
    }
    if (op->err == TR_OK && op->epoch > fence) {
        code = raise_fence(&store->writer, op);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* ---- a batch ---- */

/* Puts the committed rows into the index, or forgets them. */
static void end_rows(tri_sqlite_store *store, bool committed)
{
    tri_sqlite_writer *writer = &store->writer;

    tri_journal_end(&store->journal, &writer->claims, committed);
    if (committed) {
        tri_journal_set_known(&store->journal, writer->last);
    }
}

static void fail_all(tri_list *batch, const tri_sqlite_fault *why, bool unknown)
{
    TRI_LIST_EACH (link, batch) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        // What was refused was not written, whatever became of the others.
        bool is_unknown = unknown && op->err == TR_OK;
        tri_store_fail(op, is_unknown ? TR_EUNKNOWN : why->err, why->fault,
                       "%s", why->text);
    }
}

/*
 * See the file's comment. If the disk does not let us, loads are refused until
 * it does: what they would find may not stay.
 */
static void settle(tri_sqlite_store *store)
{
    tri_sqlite_fault why;

    // Relaxed: see ensure_open.
    atomic_store_explicit(&store->unsettled, 1, memory_order_relaxed);
    tri_sqlite_write_cancel(store);
    (void)!ensure_open(store, &why);
}

/* After a commit of `count`: how many there are, and how long it took. */
static void learn_pace(tri_sqlite_store *store, uint32_t count, tr_nanos began)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    tr_nanos span = world->ops->mono(world) - began;
    uint32_t here = count + tri_inbox_count(&writer->inbox);
    uint32_t fewer = writer->crowd - writer->crowd / CROWD_SHARE;

    writer->commit_span += (span - writer->commit_span) / CROWD_SHARE;
    writer->crowd =
        (uint32_t)TRI_MAX(here, fewer < writer->crowd ? fewer : here);
}

/*
 * Those who were answered with the last commit work while this batch is
 * written, and mostly come back a little too late for it: then two halves
 * would take turns, each with a sync of its own. So a batch that is far from
 * all waits for a part of the time that a commit takes. A single caller, or
 * one whose others are slow, waits for nobody: they do not count as a crowd.
 * Nor does anybody wait while other processes want the lock. *left is what
 * remains of the batch's time. It naps, since a wake for each that comes
 * would cost those who come.
 */
static uint32_t wait_for_more(tri_sqlite_store *store, tri_list *batch,
                              uint32_t count, tr_nanos *left)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    uint32_t enough = writer->crowd - writer->crowd / CROWD_SHARE;
    uint32_t more = 0;

    while (more == 0 && count < enough && *left >= FILL_NAP &&
           writer->shared_until == 0) {
        tr_nanos began = world->ops->mono(world);
        tri_sqlite_nap(world, FILL_NAP);
        *left -= TRI_MAX(world->ops->mono(world) - began, FILL_NAP);
        more = tri_inbox_take(&writer->inbox, batch,
                              store->limits.batch - count, 0);
    }
    return more;
}

/* What has come meanwhile goes to the end of the batch; how many. */
static uint32_t take_more(tri_sqlite_store *store, tri_list *batch,
                          uint32_t count, tr_nanos *left)
{
    uint32_t room = store->limits.batch - count;

    if (room == 0) {
        return 0;
    }
    uint32_t more = tri_inbox_take(&store->writer.inbox, batch, room, 0);
    return more > 0 ? more : wait_for_more(store, batch, count, left);
}

/*
 * The batch, and all that comes while it is written, up to the limit: those
 * who were answered just now come back one after the other, and a commit for
 * the first few of them would make the others wait for its sync.
 */
static int write_all(tri_sqlite_store *store, tri_list *batch, uint32_t *count)
{
    tr_nanos left = TRI_MIN(store->writer.commit_span / FILL_SHARE, FILL_MAX);
    int code = tri_sqlite_write_begin(store);
    tri_link *link = tri_list_first(batch);

    for (uint32_t i = 0; code == SQLITE_OK && i < *count; i++) {
        code = write_one(store, tri_container_of(link, tri_store_op, link));
        if (i + 1 == *count && code == SQLITE_OK) {
            *count += take_more(store, batch, *count, &left);
        }
        link = link->next;
    }
    return code;
}

/* *count grows by what comes meanwhile. */
static void write_batch(tri_sqlite_store *store, tri_list *batch,
                        uint32_t *count)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    tri_sqlite_fault why;

    if (ensure_open(store, &why) != TR_OK) {
        fail_all(batch, &why, false);
        return;
    }
    int code = write_all(store, batch, count);
    if (code != SQLITE_OK) {
        tri_sqlite_db_why(&writer->db, code, &why);
        end_rows(store, false);
        fail_all(batch, &why, false);
        tri_sqlite_write_cancel(store);
        return;
    }
    tr_nanos began = world->ops->mono(world);
    code = tri_sqlite_db_run(&writer->db, TRI_SQL_COMMIT);
    if (code != SQLITE_OK) {
        tri_sqlite_db_why(&writer->db, code, &why);
        end_rows(store, false);
        fail_all(batch, &why, true);
        settle(store);
        return;
    }
    learn_pace(store, *count, began);
    end_rows(store, true);
}

static void answer_all(tri_list *batch)
{
    tri_link *link;

    while ((link = tri_list_pop_front(batch)) != NULL) {
        tri_store_done(tri_container_of(link, tri_store_op, link));
    }
}

/* Lets other processes have the lock, too, if there are any. */
static void make_way(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    if (store->writer.shared_until != 0) {
        if (world->ops->mono(world) < store->writer.shared_until) {
            tri_sqlite_nap(world, SHARED_NAP);
        } else {
            store->writer.shared_until = 0;
        }
    }
}

/* How long to wait for operations. */
static tr_nanos patience(tri_sqlite_store *store)
{
    if (tri_sqlite_is_unsettled(store)) {
        return SETTLE_SPAN;
    }
    if (tri_sqlite_fold_is_due(store, true)) {
        return 0;
    }
    bool is_folded = tri_journal_known(&store->journal) <= store->writer.folded;
    return is_folded && !store->writer.fold.trimming ? TR_FOREVER
                                                     : store->limits.idle;
}

/* One round; false: the store is closed and everything was answered. */
static bool write_round(tri_sqlite_store *store)
{
    tri_sqlite_fault why;
    tri_list batch;
    tr_nanos wait = patience(store);

    tri_list_init(&batch);
    uint32_t count =
        tri_inbox_take(&store->writer.inbox, &batch, store->limits.batch, wait);
    if (count > 0) {
        write_batch(store, &batch, &count);
        answer_all(&batch);
        make_way(store);
    } else if (tri_inbox_is_closed(&store->writer.inbox)) {
        return false;
    }
    if (tri_sqlite_is_unsettled(store)) {
        (void)!ensure_open(store, &why);
        return true;
    }
    // A wait that ended with nothing was long enough to call it idle.
    bool is_idle = count == 0 && wait != TR_FOREVER;
    if (!is_idle && !tri_sqlite_fold_is_due(store, false)) {
        return true;
    }
    if (ensure_open(store, &why) == TR_OK) {
        tri_sqlite_fold_step(store,
                             (uint32_t)TRI_MAX(store->limits.slice, count * 2));
    } else {
        tri_sqlite_fold_postpone(store);
    }
    return true;
}

void tri_sqlite_write_loop(void *arg)
{
    tri_sqlite_store *store = arg;

    while (write_round(store)) {
    }
    tri_sqlite_fold_cancel(store);
    tri_sqlite_db_close(&store->writer.db);
}
