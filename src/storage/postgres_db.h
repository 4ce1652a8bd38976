/*
 * postgres_db.h - one connection to a PostgreSQL server.
 *
 * Threads: a connection is used by one thread at a time. All calls may wait
 * for the server, but not longer than server->silence.
 */
#ifndef TRI_STORAGE_POSTGRES_DB_H
#define TRI_STORAGE_POSTGRES_DB_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/world.h"
#include "storage/postgres_sql.h"
#include "storage/postgres_wire.h"
#include "storage/store_op.h"
#include "troupe/base.h"

#define TRI_PG_TEXT_SIZE 512

/* Why something failed. */
typedef struct tri_pg_fault {
    tr_err err;  // TR_OK: nothing failed
    tri_store_fault fault;
    bool is_final;  // trying again is useless: a person must act
    char text[TRI_PG_TEXT_SIZE];
} tri_pg_fault;

/* Where the server is. */
typedef struct tri_pg_server {
    tri_world *world;
    const char *conninfo;
    tr_nanos silence;  // without an answer, then the connection is lost
} tri_pg_server;

typedef struct tri_pg_db {
    const tri_pg_server *server;
    PGconn *conn;   // NULL: not connected
    bool was_null;  // the last result was NULL; after `ended` two end it all
    bool ended;     // the server is gone; results from before may be left
    bool all_sent;  // libpq's queue was written to the socket completely
} tri_pg_db;

/*
 * Connects, checks the tables (makes them if `create`), enters pipeline mode
 * and prepares all statements. Errors: TR_ESTORAGE, TR_EIO, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_pg_open(tri_pg_db *db, const tri_pg_server *server,
                                bool create, tri_pg_fault *why);
/* Closes the connection, if it is open. */
void tri_pg_close(tri_pg_db *db);

/* Returns whether a connection without batches in flight is still alive. */
bool tri_pg_is_alive(tri_pg_db *db);

/*
 * Queues a statement, or the end of a transaction. Returns false without
 * memory, or if the connection is lost: tri_pg_explain_unsent.
 */
TR_NODISCARD bool tri_pg_send(tri_pg_db *db, tri_pg_sql sql,
                              tri_pg_params *params);
TR_NODISCARD bool tri_pg_send_sync(tri_pg_db *db);
/* Writes the queue to the socket without waiting. True: all was written. */
bool tri_pg_flush(tri_pg_db *db);

/*
 * Waits for the next result; the caller owns it. *out is NULL after the last
 * result of a statement. Returns false if the connection is lost; *why says
 * how.
 */
TR_NODISCARD bool tri_pg_next(tri_pg_db *db, PGresult **out, tri_pg_fault *why);

/* Describes a result that is an error. */
void tri_pg_explain(const PGresult *result, tri_pg_fault *why);
/* Describes why a send failed: the connection is lost, or no memory. */
void tri_pg_explain_unsent(tri_pg_db *db, tri_pg_fault *why);

#endif
