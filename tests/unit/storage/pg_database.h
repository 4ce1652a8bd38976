/*
 * pg_database.h - a database server for a group of tests, a store on it, and
 * an administrator's session beside the store.
 *
 * The server belongs to the group of tests: start_server and end_server. EMPTY
 * makes a row of a test whose database has none of our tables.
 */
#ifndef TEST_STORAGE_PG_DATABASE_H
#define TEST_STORAGE_PG_DATABASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/storage_postgres.h"
#include "support/postgres.h"
#include "unit/storage/store_calls.h"

#define TEXT_SIZE 600

static pg_server *server;  // of the whole group of tests

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

/* ---- the administrator's session ---- */

static inline PGconn *admin_open(void)
{
    PGconn *conn = PQconnectdb(pg_server_conninfo(server));

    if (PQstatus(conn) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(conn));
    }
    return conn;
}

/* Returns the first value of the last statement, or "". */
static const char *admin_ask(PGconn *conn, const char *sql, char out[TEXT_SIZE])
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    }
    snprintf(out, TEXT_SIZE, "%s",
             PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return out;
}

static inline void admin_do(const char *sql)
{
    char ignored[TEXT_SIZE];
    PGconn *conn = admin_open();

    (void)admin_ask(conn, sql, ignored);
    PQfinish(conn);
}

/* Repeats the query until its answer is the expected one. */
static inline void admin_until(PGconn *conn, const char *sql,
                               const char *expected)
{
    char answer[TEXT_SIZE];

    while (strcmp(admin_ask(conn, sql, answer), expected) != 0) {
        tri_world *world = tri_world_posix();
        world->ops->yield(world);
    }
}

#define WAITING_SESSIONS                                                       \
    "SELECT count(*) FROM pg_stat_activity"                                    \
    " WHERE application_name = 'troupe' AND wait_event_type = 'Lock'"

static inline int empty_database(void **state)
{
    (void)state;
    admin_do("SET client_min_messages = warning;"
             "DROP SCHEMA IF EXISTS troupe CASCADE");
    return 0;
}

#define EMPTY(test) cmocka_unit_test_setup(test, empty_database)

static inline tr_storage *open_with(const tri_pg_limits *limits)
{
    tr_storage *store;
    tri_pg_fault why;

    if (tri_storage_postgres_open(&store, tri_world_posix(),
                                  pg_server_conninfo(server), limits,
                                  &why) != TR_OK) {
        fail_msg("%s", why.text);
    }
    return store;
}

static inline tr_storage *open_store(void)
{
    return open_with(NULL);
}

#endif
