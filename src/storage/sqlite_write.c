/*
 * sqlite_write.c - the writer: one transaction for all operations that wait.
 *
 * A batch is all operations in the inbox. Each is carried out inside the
 * transaction (sqlite_write_op.c), and one commit makes all of them durable.
 * After the commit the states are put into the index of the journal, and then
 * the callers get their answers.
 *
 * Invariant: between transactions the index and the fences in memory agree
 * with the file. A transaction that fails changes neither of them.
 *
 * A commit that fails leaves its frames in the log, where a restart would find
 * them: its outcome is in doubt. The barrier commit (sqlite_layout.c) replaces
 * these frames. It is made at once, by closing and opening the file, so that a
 * load after TR_EUNKNOWN answers with what stays true.
 */
#include "storage/sqlite_write.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "storage/sqlite_checkpoint.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_journal.h"
#include "storage/sqlite_journal_sync.h"
#include "storage/sqlite_versions.h"
#include "storage/sqlite_write_op.h"
#include "storage/storage_sqlite.h"
#include "storage/store_op.h"

#define SHARED_SPAN  TR_SECONDS(1)
#define SHARED_SLEEP INT64_C(150000)  // longer than most sleeps of on_busy
#define GATE_WAIT    TR_MS(100)
#define DOUBT_SPAN   TR_MS(100)  // between two tries to open, without writes
/* How long a batch waits for more operations; see wait_for_more. */
#define FILL_SHARE  4                // a quarter of the duration of a commit
#define FILL_MAX    TR_MS(4)         // in all
#define FILL_SLEEP  INT64_C(100000)  // one sleep
#define DECAY_SHARE 8                // recent_ops shrinks by an eighth

/* ---- transactions ---- */

/* Clears what is cached of the file: versions and fences. */
static void clear_caches(tri_sqlite_store *store)
{
    tri_sqlite_writer *writer = &store->writer;

    tri_versions_clear(&store->versions);
    tri_map_fini(&writer->fences);
}

static void wait_for_gate(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    // Acquire: pairs with the release in set_gate of the checkpointer; only
    // the word itself is shared.
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

/* Reads what other processes wrote since our last transaction. */
static int sync_with_others(tri_sqlite_store *store)
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
        clear_caches(store);
    }
    return tri_sqlite_journal_sync(&writer->db, &store->journal,
                                   &writer->folded, &writer->last);
}

/* SQLite calls this after each commit; `pages` is the length of the log. */
static int on_commit(void *arg, sqlite3 *handle, const char *name, int pages)
{
    tri_sqlite_store *store = arg;
    tri_sqlite_writer *writer = &store->writer;
    uint32_t now = (uint32_t)pages;

    (void)handle;
    (void)name;
    if (now < writer->log_pages) {
        // SQLite has restarted the log.
        writer->checkpoint_at = store->limits.checkpoint_pages;
    }
    writer->log_pages = now;
    if (now >= writer->checkpoint_at) {
        writer->checkpoint_at = now + store->limits.checkpoint_pages;
        tri_inbox_wake(&store->checkpointer.inbox);
    }
    return SQLITE_OK;
}

/*
 * Opens the connection again if a failure has closed it. The barrier commit
 * of the opening ends the doubt about an earlier commit.
 */
static tr_err ensure_open(tri_sqlite_store *store, tri_sqlite_fault *why)
{
    tri_sqlite_writer *writer = &store->writer;

    if (writer->db.handle == NULL) {
        TR_TRY(tri_sqlite_db_open(&writer->db, &store->file, true, why));
        writer->changes = 0;
        clear_caches(store);
        // Relaxed: a load that is submitted after an answer of the writer goes
        // through the reader's inbox, whose lock orders it after this store
        // and after the one in resolve_doubt.
        atomic_store_explicit(&store->in_doubt, 0, memory_order_relaxed);
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
        code = sync_with_others(store);
    }
    return code;
}

void tri_sqlite_write_cancel(tri_sqlite_store *store)
{
    tri_sqlite_db *db = &store->writer.db;

    // After a failed read or write neither the cache of the connection nor its
    // locks can be trusted, so the connection is closed.
    if (db->handle != NULL && !sqlite3_get_autocommit(db->handle)) {
        (void)tri_sqlite_db_run(db, TRI_SQL_ROLLBACK);
    }
    tri_sqlite_db_close(db);
    clear_caches(store);
}

/* ---- a batch ---- */

/* Puts the committed rows into the index, or drops the staged ones. */
static void end_claims(tri_sqlite_store *store, bool committed)
{
    tri_sqlite_writer *writer = &store->writer;

    tri_journal_end_claims(&store->journal, &writer->claims, committed);
    if (committed) {
        tri_journal_set_known(&store->journal, writer->last);
    }
}

/* Fails all ops of a batch. unknown: they may have been written. */
static void fail_all(tri_list *batch, const tri_sqlite_fault *why, bool unknown)
{
    TRI_LIST_EACH (link, batch) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        // An op that was refused was not written in any case.
        bool is_unknown = unknown && op->err == TR_OK;
        tri_store_fail(op, is_unknown ? TR_EUNKNOWN : why->err, why->fault,
                       "%s", why->text);
    }
}

/*
 * Resolves the doubt about a failed commit; see the comment of this file. If
 * the file cannot be opened, loads are refused until it can be: what they find
 * may not stay.
 */
static void resolve_doubt(tri_sqlite_store *store)
{
    tri_sqlite_fault why;

    // Relaxed: see ensure_open.
    atomic_store_explicit(&store->in_doubt, 1, memory_order_relaxed);
    tri_sqlite_write_cancel(store);
    (void)!ensure_open(store, &why);
}

/* Updates recent_ops and commit_span after a commit of `count` ops. */
static void update_estimates(tri_sqlite_store *store, uint32_t count,
                             tr_nanos began)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    tr_nanos span = world->ops->mono(world) - began;
    uint32_t here = count + tri_inbox_count(&writer->inbox);
    uint32_t fewer = writer->recent_ops - writer->recent_ops / DECAY_SHARE;

    writer->commit_span += (span - writer->commit_span) / DECAY_SHARE;
    writer->recent_ops =
        (uint32_t)TRI_MAX(here, fewer < writer->recent_ops ? fewer : here);
}

/*
 * Waits for more operations. Returns how many were added to the batch.
 *
 * The callers that got their answers with the last commit work while this
 * batch is written, and most of them submit again a little too late for it.
 * Then two halves of the callers would take turns, each with a sync of its
 * own. So a batch that is much smaller than recent batches waits for a part of
 * the duration of a commit. Batches of a single caller are never smaller, so
 * it does not wait. No batch waits while other processes want the lock.
 *
 * *left is what remains of the time of this batch. The writer sleeps instead
 * of parking on its inbox, because waking it would cost each caller time.
 */
static uint32_t wait_for_more(tri_sqlite_store *store, tri_list *batch,
                              uint32_t count, tr_nanos *left)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_world *world = store->file.world;
    uint32_t enough = writer->recent_ops - writer->recent_ops / DECAY_SHARE;
    uint32_t more = 0;

    TRI_CHECK(count < store->limits.batch);
    while (more == 0 && count < enough && *left >= FILL_SLEEP &&
           writer->shared_until == 0) {
        tr_nanos began = world->ops->mono(world);
        tri_sqlite_sleep(world, FILL_SLEEP);
        *left -= TRI_MAX(world->ops->mono(world) - began, FILL_SLEEP);
        more = tri_inbox_take(&writer->inbox, batch,
                              store->limits.batch - count, 0);
    }
    return more;
}

/* Adds new operations to the batch, up to the limit. Returns how many. */
static uint32_t take_more(tri_sqlite_store *store, tri_list *batch,
                          uint32_t count, tr_nanos *left)
{
    TRI_CHECK(count <= store->limits.batch);
    uint32_t room = store->limits.batch - count;

    if (room == 0) {
        return 0;
    }
    uint32_t more = tri_inbox_take(&store->writer.inbox, batch, room, 0);
    return more > 0 ? more : wait_for_more(store, batch, count, left);
}

/*
 * Writes the batch and all operations that come while it is written, up to the
 * limit: the callers of the last batch submit again one after the other, and a
 * commit for the first few would make the others wait for its sync. *count
 * grows by the operations that were added.
 */
static int write_all(tri_sqlite_store *store, tri_list *batch, uint32_t *count)
{
    tr_nanos left = TRI_MIN(store->writer.commit_span / FILL_SHARE, FILL_MAX);
    int code = tri_sqlite_write_begin(store);
    tri_link *link = tri_list_first(batch);

    for (uint32_t i = 0; code == SQLITE_OK && i < *count; i++) {
        code = tri_sqlite_write_op(store,
                                   tri_container_of(link, tri_store_op, link));
        if (i + 1 == *count && code == SQLITE_OK) {
            *count += take_more(store, batch, *count, &left);
        }
        link = link->next;
    }
    return code;
}

/* Writes and commits a batch, or fails its ops. *count: see write_all. */
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
        tri_sqlite_db_explain(&writer->db, code, &why);
        end_claims(store, false);
        fail_all(batch, &why, false);
        tri_sqlite_write_cancel(store);
        return;
    }
    tr_nanos began = world->ops->mono(world);
    code = tri_sqlite_db_run(&writer->db, TRI_SQL_COMMIT);
    if (code != SQLITE_OK) {
        tri_sqlite_db_explain(&writer->db, code, &why);
        end_claims(store, false);
        fail_all(batch, &why, true);
        resolve_doubt(store);
        return;
    }
    update_estimates(store, *count, began);
    end_claims(store, true);
}

static void answer_all(tri_list *batch)
{
    tri_link *link;

    while ((link = tri_list_pop_front(batch)) != NULL) {
        tri_store_done(tri_container_of(link, tri_store_op, link));
    }
}

/* Sleeps a little if other processes write, so that they get the lock. */
static void yield_to_others(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    if (store->writer.shared_until != 0) {
        if (world->ops->mono(world) < store->writer.shared_until) {
            tri_sqlite_sleep(world, SHARED_SLEEP);
        } else {
            store->writer.shared_until = 0;
        }
    }
}

/* Returns how long to wait for operations. */
static tr_nanos inbox_timeout(tri_sqlite_store *store)
{
    if (tri_sqlite_is_in_doubt(store)) {
        return DOUBT_SPAN;
    }
    if (tri_sqlite_fold_is_due(store, true)) {
        return 0;
    }
    bool is_folded = tri_journal_known(&store->journal) <= store->writer.folded;
    return is_folded && !store->writer.fold.trimming ? TR_FOREVER
                                                     : store->limits.idle;
}

/*
 * Writes one batch and folds if that is due. Returns false when the store is
 * closed and all operations were answered.
 */
static bool write_round(tri_sqlite_store *store)
{
    tri_sqlite_fault why;
    tri_list batch;
    tr_nanos wait = inbox_timeout(store);

    tri_list_init(&batch);
    uint32_t count =
        tri_inbox_take(&store->writer.inbox, &batch, store->limits.batch, wait);
    if (count > 0) {
        write_batch(store, &batch, &count);
        answer_all(&batch);
        yield_to_others(store);
    } else if (tri_inbox_is_closed(&store->writer.inbox)) {
        return false;
    }
    if (tri_sqlite_is_in_doubt(store)) {
        (void)!ensure_open(store, &why);
        return true;
    }
    // The wait ended without operations: the store is idle.
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
