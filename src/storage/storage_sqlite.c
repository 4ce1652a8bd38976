/*
 * storage_sqlite.c - the store in an SQLite file: opening, submitting, closing.
 * See storage_sqlite.h for its parts.
 */
#include "storage/storage_sqlite.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_journal_sync.h"
#include "storage/sqlite_layout.h"
#include "storage/vfs_sqlite.h"
#include "troupe/storage.h"

#if defined(TRI_TORTURE)
#define BATCH            3
#define FOLD_ROWS        5
#define FOLD_SIZE        UINT64_C(4096)
#define SLICE            2
#define CHECKPOINT_PAGES 4
#define LOG_PAGES        16
#define VERSIONS         8
#else
#define BATCH            4096
#define FOLD_ROWS        32768
#define FOLD_SIZE        (UINT64_C(16) << 20)
#define SLICE            512
#define CHECKPOINT_PAGES 4096
#define LOG_PAGES        16384
#define VERSIONS         (UINT32_C(1) << 20)
#endif
#define IDLE TR_SECONDS(1)
#define BUSY TR_SECONDS(10)

static tri_sqlite_store *store_of(tr_storage *storage)
{
    return tri_container_of(storage, tri_sqlite_store, base);
}

static void sqlite_submit(tr_storage *storage, tri_list *ops)
{
    tri_sqlite_store *store = store_of(storage);

    tri_inbox_push_both(&store->reader.inbox, &store->writer.inbox, ops);
}

/* Frees a store, also one that is only partly open. */
static void dismantle(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;
    tri_inbox *inboxes[] = {&store->writer.inbox, &store->reader.inbox,
                            &store->checkpointer.inbox};
    tri_thread *threads[] = {store->writer.thread, store->reader.thread,
                             store->checkpointer.thread};

    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    // In this order: the writer wakes the other two until it ends.
    for (size_t i = 0; i < TRI_COUNT_OF(threads); i++) {
        tri_inbox_close(inboxes[i]);
        if (threads[i] != NULL) {
            world->ops->thread_join(world, threads[i]);
        }
        TRI_CHECK(tri_list_is_empty(&inboxes[i]->ops));
    }
    tri_sqlite_db_close(&store->writer.db);
    tri_journal_fini(&store->journal);
    tri_versions_fini(&store->versions);
    tri_sqlite_vfs_close(store->file.vfs);
    tri_map_fini(&store->writer.fences);
    free(store->file.path);
    free(store);
}

static void sqlite_close(tr_storage *storage)
{
    dismantle(store_of(storage));
}

/* Makes limits small, so that a short simulation reaches rare cases. */
static void shrink_limits(tri_world *world, tri_sqlite_limits *limits)
{
    if (TRI_BUGGIFY(world, 0.5)) {
        limits->batch = 2;
    }
    if (TRI_BUGGIFY(world, 0.5)) {
        limits->fold_rows = 5;
        limits->slice = 2;
    }
    if (TRI_BUGGIFY(world, 0.5)) {
        limits->versions = 8;
    }
    if (TRI_BUGGIFY(world, 0.5)) {
        limits->checkpoint_pages = 4;
        limits->log_pages = 16;
    }
}

static tri_sqlite_limits limits_of(tri_world *world,
                                   const tri_sqlite_limits *given)
{
    tri_sqlite_limits limits = {0};

    if (given != NULL) {
        limits = *given;
    } else {
        shrink_limits(world, &limits);
    }
#define DEFAULT(field, value)                                                  \
    if (limits.field == 0) {                                                   \
        limits.field = (value);                                                \
    }
    DEFAULT(batch, BATCH)
    DEFAULT(fold_rows, FOLD_ROWS)
    DEFAULT(fold_size, FOLD_SIZE)
    DEFAULT(slice, SLICE)
    DEFAULT(checkpoint_pages, CHECKPOINT_PAGES)
    DEFAULT(log_pages, LOG_PAGES)
    DEFAULT(versions, VERSIONS)
    DEFAULT(idle, IDLE)
    DEFAULT(busy, BUSY)
#undef DEFAULT
    return limits;
}

/* Makes a store without opening its file. Returns NULL without memory. */
static tri_sqlite_store *store_new(tri_world *world, const char *path,
                                   const tri_sqlite_limits *limits)
{
    static const tri_storage_ops ops = {
        .name = "sqlite",
        .submit = sqlite_submit,
        .close = sqlite_close,
    };
    tri_sqlite_store *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return NULL;
    }
    tri_storage_init(&store->base, &ops);
    store->limits = limits_of(world, limits);
    store->file.layout = &tri_sqlite_store_layout;
    store->file.world = world;
    store->file.busy_limit = store->limits.busy;
    store->writer.checkpoint_at = store->limits.checkpoint_pages;
    tri_journal_init(&store->journal);
    tri_versions_init(&store->versions, store->limits.versions);
    tri_list_init(&store->writer.claims);
    tri_map_init(&store->writer.fences, NULL, NULL);
    tri_inbox_init(&store->writer.inbox, world);
    tri_inbox_init(&store->reader.inbox, world);
    tri_inbox_init(&store->checkpointer.inbox, world);
    store->file.path = strdup(path);
    if (store->file.path == NULL) {
        dismantle(store);
        return NULL;
    }
    return store;
}

/* Opens the file and fills the index from its journal. */
static tr_err open_file(tri_sqlite_store *store, tri_sqlite_fault *why)
{
    tri_sqlite_writer *writer = &store->writer;

    TR_TRY(tri_sqlite_vfs_open(&store->file.vfs, store->file.world));
    TR_TRY(tri_sqlite_db_open(&writer->db, &store->file, true, why));
    int code = tri_sqlite_db_run(&writer->db, TRI_SQL_BEGIN_READ);
    if (code == SQLITE_OK) {
        code = tri_sqlite_journal_sync(&writer->db, &store->journal,
                                       &writer->folded, &writer->last);
    }
    if (code == SQLITE_OK) {
        code = tri_sqlite_write_changes(store, &writer->changes);
    }
    if (code == SQLITE_OK) {
        code = tri_sqlite_db_run(&writer->db, TRI_SQL_COMMIT);
    }
    if (code != SQLITE_OK) {
        tri_sqlite_db_explain(&writer->db, code, why);
        return why->err;
    }
    return TR_OK;
}

static tr_err start_threads(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    TR_TRY(world->ops->thread_start(world, &store->writer.thread,
                                    "tr-store-write", tri_sqlite_write_loop,
                                    store));
    TR_TRY(world->ops->thread_start(world, &store->reader.thread,
                                    "tr-store-read", tri_sqlite_read_loop,
                                    store));
    return world->ops->thread_start(world, &store->checkpointer.thread,
                                    "tr-store-move", tri_sqlite_checkpoint_loop,
                                    store);
}

tr_err tri_storage_sqlite_open(tr_storage **out, tri_world *world,
                               const char *path,
                               const tri_sqlite_limits *limits,
                               tri_sqlite_fault *why)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(path != NULL);
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    *out = NULL;
    *why = (tri_sqlite_fault){0};

    tri_sqlite_store *store = store_new(world, path, limits);
    if (store == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = open_file(store, why);
    if (err == TR_OK) {
        err = start_threads(store);
    }
    if (err != TR_OK) {
        dismantle(store);
        return err;
    }
    *out = &store->base;
    return TR_OK;
}

tr_err tr_storage_sqlite(tr_storage **out, const char *file)
{
    return tr_storage_sqlite_with(out, file, NULL);
}

/*
 * SQLite takes some names for a database of one connection, in memory or in a
 * temporary file; the store has three connections, which must see the same.
 */
static bool is_file_name(const char *file)
{
    return file != NULL && file[0] != '\0' && file[0] != ':';
}

tr_err tr_storage_sqlite_with(tr_storage **out, const char *file,
                              const tr_storage_options *options)
{
    tr_storage_options own;
    tri_sqlite_fault why;
    tr_storage *store = NULL;

    TRI_CHECK(out != NULL);
    *out = NULL;
    tri_world *world = tri_storage_options(&own, options);
    if (world == NULL) {
        return TR_EINVAL;
    }
    if (!is_file_name(file)) {
        return tri_storage_opened(&store, &own, world, TR_EINVAL,
                                  "tr_storage_sqlite",
                                  "it needs the name of a file; the store in "
                                  "memory is tr_storage_memory");
    }
    tr_err err = tri_storage_sqlite_open(&store, world, file, NULL, &why);
    err = tri_storage_opened(&store, &own, world, err, file, why.text);
    *out = store;
    return err;
}
