/*
 * all_stores.h - runs one test on every store: in memory, in an SQLite file,
 * in PostgreSQL, and the latter two with limits so small that every batch is
 * split and every row is folded at once.
 *
 * IN_ALL makes the rows of a test. The database server belongs to the group of
 * tests: start_server and end_server.
 */
#ifndef TEST_STORAGE_ALL_STORES_H
#define TEST_STORAGE_ALL_STORES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/storage_postgres.h"
#include "storage/storage_sqlite.h"
#include "support/postgres.h"
#include "unit/storage/store_calls.h"

static pg_server *server;  // of the whole group of tests

typedef struct fixture {
    folder folder;
    tr_storage *store;
} fixture;

static inline int open_with(void **state, bool in_file,
                            const tri_sqlite_limits *limits)
{
    fixture *it = calloc(1, sizeof(*it));
    tri_sqlite_fault why;
    tr_err err;

    if (it == NULL || !folder_make(&it->folder)) {
        return -1;
    }
    *state = it;
    err = in_file ? tri_storage_sqlite_open(&it->store, tri_world_posix(),
                                            it->folder.database, limits, &why)
                  : tr_storage_memory(&it->store);
    return err == TR_OK ? 0 : -1;
}

static inline int open_memory(void **state)
{
    return open_with(state, false, NULL);
}

static inline int open_sqlite(void **state)
{
    return open_with(state, true, NULL);
}

static inline int open_tiny(void **state)
{
    static const tri_sqlite_limits tiny = {
        .batch = 2,
        .fold_rows = 1,
        .slice = 1,
        .checkpoint_pages = 1,
        .log_pages = 8,
        .idle = 1,
    };

    return open_with(state, true, &tiny);
}

/* Drops our tables, so that the database is as before the first start. */
static inline bool empty_database(void)
{
    PGconn *conn = PQconnectdb(pg_server_conninfo(server));
    PGresult *result = PQexec(conn, "SET client_min_messages = warning;"
                                    "DROP SCHEMA IF EXISTS troupe CASCADE");
    bool is_done = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!is_done) {
        print_error("%s\n", PQerrorMessage(conn));
    }
    PQclear(result);
    PQfinish(conn);
    return is_done;
}

static inline int open_server(void **state, const tri_pg_limits *limits)
{
    fixture *it = calloc(1, sizeof(*it));
    tri_pg_fault why;

    if (it == NULL || !folder_make(&it->folder) || !empty_database()) {
        return -1;
    }
    *state = it;
    if (tri_storage_postgres_open(&it->store, tri_world_posix(),
                                  pg_server_conninfo(server), limits,
                                  &why) != TR_OK) {
        print_error("%s\n", why.text);
        return -1;
    }
    return 0;
}

static inline int open_postgres(void **state)
{
    return open_server(state, NULL);
}

static inline int open_postgres_tiny(void **state)
{
    static const tri_pg_limits tiny = {.batch = 2, .batch_size = 1};

    return open_server(state, &tiny);
}

static inline int start_server(void **state)
{
    (void)state;
    server = pg_server_new();
    return 0;
}

static inline int end_server(void **state)
{
    (void)state;
    pg_server_free(server);
    return 0;
}

static inline int close_store(void **state)
{
    fixture *it = *state;

    tr_storage_close(it->store);
    int result = folder_remove(&it->folder);
    free(it);
    return result;
}

static inline tr_storage *store_of(void **state)
{
    return ((fixture *)*state)->store;
}

#define IN_ALL(test)                                                           \
    {"memory: " #test, test, open_memory, close_store, NULL},                  \
        {"sqlite: " #test, test, open_sqlite, close_store, NULL},              \
        {"tiny: " #test, test, open_tiny, close_store, NULL},                  \
        {"postgres: " #test, test, open_postgres, close_store, NULL},          \
    {                                                                          \
        "postgres tiny: " #test, test, open_postgres_tiny, close_store, NULL   \
    }

#endif
