/*
 * sqlite_checkpoint.c - copies the write-ahead log into the database.
 *
 * A checkpoint copies pages while the writer adds others. SQLite can restart
 * the log from its beginning only when all pages are copied and none was added
 * in that time, so beside a busy writer the log would grow without limit. When
 * it is too long, the gate stops the writer until the last pages are copied.
 */
#include "storage/sqlite_checkpoint.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_fold.h"
#include "storage/storage_sqlite.h"
#include "troupe/base.h"

/* How long the writer may wait at the gate for readers of other processes. */
#define GATE_LIMIT TR_MS(200)

/* Closes (1) or opens (0) the gate at which the writer waits. */
static void set_gate(tri_sqlite_store *store, uint32_t value)
{
    tri_world *world = store->file.world;

    // Release: pairs with the acquire in wait_for_gate of the writer.
    atomic_store_explicit(&store->gate, value, memory_order_release);
    if (value == 0) {
        world->ops->wake(world, &store->gate, 1);
    }
}

/* Returns an SQLite code. */
static int checkpoint(tri_sqlite_store *store)
{
    sqlite3 *handle = store->checkpointer.db.handle;
    int pages = 0;

    TRI_CHECK(handle != NULL);
    int code = sqlite3_wal_checkpoint_v2(
        handle, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, NULL);

    if (code != SQLITE_OK || pages < (int)store->limits.log_pages) {
        return code;
    }
    store->checkpointer.db.busy_limit = GATE_LIMIT;
    set_gate(store, 1);
    code = sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_RESTART,
                                     NULL, NULL);
    set_gate(store, 0);
    return code;
}

/* After a failure the log stays as it is until the next checkpoint. */
static void checkpoint_once(tri_sqlite_store *store)
{
    tri_sqlite_db *db = &store->checkpointer.db;
    tri_sqlite_fault why;

    if (db->handle == NULL &&
        tri_sqlite_db_open(db, &store->file, false, &why) != TR_OK) {
        return;
    }
    int code = checkpoint(store);
    if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
        tri_sqlite_db_close(db);
    }
}

void tri_sqlite_checkpoint_loop(void *arg)
{
    tri_sqlite_store *store = arg;
    tri_inbox *inbox = &store->checkpointer.inbox;
    tri_list none;

    tri_list_init(&none);
    for (;;) {
        (void)tri_inbox_take(inbox, &none, 1, TR_FOREVER);
        if (tri_inbox_is_closed(inbox)) {
            break;
        }
        checkpoint_once(store);
    }
    tri_sqlite_db_close(&store->checkpointer.db);
}
