/*
 * each_store.h - runs a test of another layer on each store: in memory, in an
 * SQLite file, in PostgreSQL.
 *
 * EACH_OPEN makes three functions that open a fixture, IN_EACH three rows of a
 * test. The database server belongs to the group of tests: each_start and
 * each_end.
 */
#ifndef TEST_STORAGE_EACH_STORE_H
#define TEST_STORAGE_EACH_STORE_H

#include "storage/storage_postgres.h"
#include "storage/storage_sqlite.h"
#include "support/postgres.h"
#include "unit/storage/store_calls.h"

typedef enum each_kind {
    EACH_MEMORY,
    EACH_SQLITE,
    EACH_POSTGRES,
} each_kind;

/* A store, empty at first, that can be closed and opened again. */
typedef struct each_store {
    each_kind kind;
    folder folder;
    tr_storage *store;
} each_store;

static pg_server *each_server;

static inline int each_start(void **state)
{
    (void)state;
    each_server = pg_server_new();
    return 0;
}

static inline int each_end(void **state)
{
    (void)state;
    pg_server_free(each_server);
    return 0;
}

static inline void each_open(each_store *it)
{
    if (it->kind == EACH_MEMORY) {
        TR_MUST(tr_storage_memory(&it->store));
    } else if (it->kind == EACH_SQLITE) {
        TR_MUST(tr_storage_sqlite(&it->store, it->folder.database));
    } else {
        TR_MUST(
            tr_storage_postgres(&it->store, pg_server_conninfo(each_server)));
    }
}

/* Drops our tables, so that the database is as before the first start. */
static inline void each_clear_server(void)
{
    PGconn *conn = PQconnectdb(pg_server_conninfo(each_server));
    PGresult *result = PQexec(conn, "SET client_min_messages = warning;"
                                    "DROP SCHEMA IF EXISTS troupe CASCADE");

    TRI_CHECK(PQresultStatus(result) == PGRES_COMMAND_OK);
    PQclear(result);
    PQfinish(conn);
}

static inline void each_new(each_store *it, each_kind kind)
{
    *it = (each_store){.kind = kind};
    TRI_CHECK(folder_make(&it->folder));
    if (kind == EACH_POSTGRES) {
        each_clear_server();
    }
    each_open(it);
}

/* Closes and opens the store. The store in memory would be empty: not it. */
static inline void each_reopen(each_store *it)
{
    if (it->kind != EACH_MEMORY) {
        tr_storage_close(it->store);
        each_open(it);
    }
}

static inline int each_free(each_store *it)
{
    tr_storage_close(it->store);
    return folder_remove(&it->folder);
}

#define IN_EACH(test, open, close)                                             \
    {"memory: " #test, test, open##_memory, close, NULL},                      \
        {"sqlite: " #test, test, open##_sqlite, close, NULL},                  \
    {                                                                          \
        "postgres: " #test, test, open##_postgres, close, NULL                 \
    }

/* Makes open_memory and so on from open(void **state, each_kind kind). */
#define EACH_OPEN(open)                                                        \
    static int open##_memory(void **state)                                     \
    {                                                                          \
        return open(state, EACH_MEMORY);                                       \
    }                                                                          \
    static int open##_sqlite(void **state)                                     \
    {                                                                          \
        return open(state, EACH_SQLITE);                                       \
    }                                                                          \
    static int open##_postgres(void **state)                                   \
    {                                                                          \
        return open(state, EACH_POSTGRES);                                     \
    }

#endif
