/*
 * storage_postgres.c - the store in PostgreSQL: opening, submitting, closing.
 * See storage_postgres.h for its parts.
 */
#include "storage/storage_postgres.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "storage/inbox.h"
#include "storage/postgres_read.h"
#include "storage/postgres_write.h"
#include "storage/storage.h"
#include "troupe/storage.h"

#if defined(TRI_TORTURE)
#define BATCH      3
#define BATCH_SIZE 256
#else
#define BATCH      512
#define BATCH_SIZE (UINT32_C(1) << 22)
#endif
#define PATIENCE TR_SECONDS(5)
#define SILENCE  TR_SECONDS(30)

typedef struct postgres_store {
    tr_storage base;
    tri_pg_server server;
    tri_pg_limits limits;
    char *conninfo;
    tri_pg_pipeline writer, reader;
} postgres_store;

static postgres_store *store_of(tr_storage *storage)
{
    return tri_container_of(storage, postgres_store, base);
}

static void postgres_submit(tr_storage *storage, tri_list *ops)
{
    postgres_store *store = store_of(storage);

    tri_inbox_push_both(&store->reader.inbox, &store->writer.inbox, ops);
}

/* Waits for the thread of a pipeline, if it was started, and frees it. */
static void end_pipeline(tri_pg_pipeline *pipeline)
{
    tri_world *world = pipeline->server->world;

    tri_inbox_close(&pipeline->inbox);
    if (pipeline->thread != NULL) {
        world->ops->thread_join(world, pipeline->thread);
    }
    tri_pg_pipeline_fini(pipeline);
}

/* Frees a store, also one that is only partly open. */
static void dismantle(postgres_store *store)
{
    end_pipeline(&store->writer);
    end_pipeline(&store->reader);
    free(store->conninfo);
    free(store);
}

static void postgres_close(tr_storage *storage)
{
    dismantle(store_of(storage));
}

static tri_pg_limits limits_of(const tri_pg_limits *given)
{
    tri_pg_limits limits = {0};

    if (given != NULL) {
        limits = *given;
    }
#define DEFAULT(field, value)                                                  \
    if (limits.field == 0) {                                                   \
        limits.field = (value);                                                \
    }
    DEFAULT(batch, BATCH)
    DEFAULT(batch_size, BATCH_SIZE)
    DEFAULT(patience, PATIENCE)
    DEFAULT(silence, SILENCE)
#undef DEFAULT
    return limits;
}

/* Makes a store without connecting. Returns NULL without memory. */
static postgres_store *store_new(tri_world *world, const char *conninfo,
                                 const tri_pg_limits *limits)
{
    static const tri_storage_ops ops = {
        .name = "postgres",
        .submit = postgres_submit,
        .close = postgres_close,
    };
    postgres_store *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return NULL;
    }
    tri_storage_init(&store->base, &ops);
    store->limits = limits_of(limits);
    store->conninfo = strdup(conninfo);
    store->server = (tri_pg_server){.world = world,
                                    .conninfo = store->conninfo,
                                    .silence = store->limits.silence};
    tr_err write_err = tri_pg_pipeline_init(&store->writer, &tri_pg_writing,
                                            &store->server, &store->limits);
    tr_err read_err = tri_pg_pipeline_init(&store->reader, &tri_pg_reading,
                                           &store->server, &store->limits);
    if (store->conninfo == NULL || write_err != TR_OK || read_err != TR_OK) {
        dismantle(store);
        return NULL;
    }
    return store;
}

/* Connects a pipeline and starts its thread. */
static tr_err start(tri_pg_pipeline *pipeline, bool create, tri_pg_fault *why)
{
    tri_world *world = pipeline->server->world;

    TRI_CHECK(pipeline->thread == NULL);
    TR_TRY(tri_pg_open(&pipeline->db, pipeline->server, create, why));
    TR_TRY(pipeline->ops->connected(pipeline, why));
    return world->ops->thread_start(world, &pipeline->thread,
                                    pipeline->ops->name, tri_pg_pipeline_run,
                                    pipeline);
}

tr_err tri_storage_postgres_open(tr_storage **out, tri_world *world,
                                 const char *conninfo,
                                 const tri_pg_limits *limits, tri_pg_fault *why)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(conninfo != NULL);
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    *out = NULL;
    *why = (tri_pg_fault){0};
    if (!world->ops->has_threads) {
        (void)snprintf(why->text, sizeof(why->text),
                       "a simulated world has no PostgreSQL; use "
                       "tr_storage_memory or tr_storage_sqlite there");
        return TR_EINVAL;
    }
    postgres_store *store = store_new(world, conninfo, limits);
    if (store == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = start(&store->writer, true, why);
    if (err == TR_OK) {
        err = start(&store->reader, false, why);
    }
    if (err != TR_OK) {
        dismantle(store);
        return err;
    }
    *out = &store->base;
    return TR_OK;
}

tr_err tr_storage_postgres(tr_storage **out, const char *conninfo)
{
    return tr_storage_postgres_with(out, conninfo, NULL);
}

tr_err tr_storage_postgres_with(tr_storage **out, const char *conninfo,
                                const tr_storage_options *options)
{
    tr_storage_options own;
    tri_pg_fault why;
    tr_storage *store = NULL;

    TRI_CHECK(out != NULL);
    *out = NULL;
    tri_world *world = tri_storage_options(&own, options);
    if (world == NULL) {
        return TR_EINVAL;
    }
    tr_err err = tri_storage_postgres_open(&store, world, conninfo, NULL, &why);
    err = tri_storage_opened(&store, &own, world, err, NULL, why.text);
    *out = store;
    return err;
}
