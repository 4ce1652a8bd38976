/*
 * postgres_db.h - one connection to a PostgreSQL server.
 *
 * Threads: a connection has one user at a time. All calls may wait for the
 * server, none longer than the limits of its place.
 */
#ifndef TRI_STORAGE_POSTGRES_DB_H
#define TRI_STORAGE_POSTGRES_DB_H

#include "base/world.h"
#include "storage/postgres_wire.h"

#define TRI_PG_TEXT_SIZE 512

/* Why something failed. */
typedef struct tri_pg_fault {
    tr_err err;
    tri_store_fault fault;
    bool is_final;  // trying again will not help: a person must act
    char text[TRI_PG_TEXT_SIZE];
} tri_pg_fault;

/* Where the server is, and how long it may be silent. */
typedef struct tri_pg_place {
    tri_world *world;
    const char *conninfo;
    tr_nanos silence;
} tri_pg_place;

typedef struct tri_pg_db {
    const tri_pg_place *place;
    PGconn *conn;   // NULL: not connected
    bool was_null;  // the last result; two of them are the end of all
    bool ended;     // the server is gone; what it said before may be left
    bool all_sent;  // of what was queued nothing is left here
} tri_pg_db;

/*
 * Connects, checks the tables (and makes them if `create`), prepares all
 * statements, and is in pipeline mode then.
 * Errors: TR_ESTORAGE, TR_EIO, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_pg_open(tri_pg_db *db, const tri_pg_place *place,
                                bool create, tri_pg_fault *why);
/* Closing what is closed does nothing. */
void tri_pg_close(tri_pg_db *db);

/* Whether a connection that nobody waits on still has its server. */
bool tri_pg_is_alive(tri_pg_db *db);

/* Queues a statement, or the end of a transaction. False: no memory. */
TR_NODISCARD bool tri_pg_send(tri_pg_db *db, tri_pg_sql sql,
                              tri_pg_params *params);
TR_NODISCARD bool tri_pg_send_sync(tri_pg_db *db);
/* Writes what is queued, as far as it goes. True: all of it has been. */
bool tri_pg_flush(tri_pg_db *db);

/*
 * Waits for the next result; the caller owns it. *out is NULL after the last
 * one of a statement. False: the connection is lost, *why says how.
 */
TR_NODISCARD bool tri_pg_next(tri_pg_db *db, PGresult **out, tri_pg_fault *why);

/* What the server says about a result that is an error. */
void tri_pg_why(const PGresult *result, tri_pg_fault *why);
/* Why a send was refused: no connection any more, or no memory. */
void tri_pg_not_sent(tri_pg_db *db, tri_pg_fault *why);

#endif
