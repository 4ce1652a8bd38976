/*
 * wl_postgres.c - saves in a separate PostgreSQL server, compared with a plain
 * loop in libpq's pipeline mode that writes the same rows, as many at a time.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "saves.h"
#include "support/postgres.h"

static void raw_do(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    bench_verify(PQresultStatus(result) == PGRES_COMMAND_OK,
                 PQerrorMessage(conn));
    PQclear(result);
}

static PGconn *raw_open(const char *conninfo)
{
    PGconn *conn = PQconnectdb(conninfo);
    bench_verify(PQstatus(conn) == CONNECTION_OK, PQerrorMessage(conn));
    raw_do(conn, "CREATE TABLE raw (key text PRIMARY KEY, version int8 NOT"
                 " NULL, bytes bytea NOT NULL) WITH (fillfactor = 70)");
    PGresult *result = PQprepare(conn, "put",
                                 "INSERT INTO raw VALUES ($1, 1, $2)"
                                 " ON CONFLICT (key) DO UPDATE SET"
                                 " version = raw.version + 1, bytes = $2",
                                 2, NULL);
    bench_verify(PQresultStatus(result) == PGRES_COMMAND_OK, "prepare");
    PQclear(result);
    bench_verify(PQenterPipelineMode(conn) == 1, "pipeline mode");
    return conn;
}

static void raw_batch(PGconn *conn, const bench *b, uint64_t *dice,
                      const char state[SAVES_STATE_SIZE])
{
    for (int64_t i = 0; i < b->w; i++) {
        char key[SAVES_KEY_SIZE];
        uint64_t lap = bench_below(bench_random(dice), (uint64_t)(b->n / b->w));
        snprintf(key, sizeof(key), "/user/v%lld",
                 (long long)(i + (int64_t)lap * b->w));
        const char *values[] = {key, state};
        int sizes[] = {(int)strlen(key), SAVES_STATE_SIZE};
        int forms[] = {1, 1};
        bench_verify(
            PQsendQueryPrepared(conn, "put", 2, values, sizes, forms, 1) == 1,
            "send");
    }
    bench_verify(PQpipelineSync(conn) == 1, "sync");
    for (bool ended = false; !ended;) {
        PGresult *result = PQgetResult(conn);
        ended = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        bench_verify(result == NULL || ended ||
                         PQresultStatus(result) == PGRES_COMMAND_OK,
                     "a row");
        PQclear(result);
    }
}

static double raw_saves(bench *b, const char *conninfo)
{
    PGconn *conn = raw_open(conninfo);
    char state[SAVES_STATE_SIZE];
    uint64_t dice = 1;
    int64_t rows = 0;
    memset(state, 's', sizeof(state));
    double begin = bench_now(), now;
    while ((now = bench_now()) - begin < b->seconds) {
        raw_batch(conn, b, &dice, state);
        rows += b->w;
    }
    PQfinish(conn);
    return (double)rows / (now - begin);
}

static double run_saves(bench *b)
{
    pg_server *server = pg_server_new();
    tr_storage *store;
    // The settings of a server whose commits are durable.
    pg_server_set(server, "fsync = on");
    pg_server_set(server, "shared_buffers = 256MB");
    pg_server_stop(server);
    pg_server_start(server);
    TR_MUST(tr_storage_postgres(&store, pg_server_conninfo(server)));
    double value = saves_run(b, store);
    tr_storage_close(store);
    double by_hand = raw_saves(b, pg_server_conninfo(server));
    pg_server_free(server);
    return saves_report(value, by_hand);
}

const bench_workload bench_postgres[] = {
    {"postgres_saves", 1000, 1000, "saves/s",
     "N actors, W saving at a time, against a loop in libpq's pipeline mode",
     run_saves},
    {0},
};
