/*
 * sqlite_events.h - the operations on events, inside a transaction.
 *
 * Each function returns an SQLite code. If the events of the key are damaged,
 * the op has failed and the code is SQLITE_OK: the connection can go on.
 */
#ifndef TRI_STORAGE_SQLITE_EVENTS_H
#define TRI_STORAGE_SQLITE_EVENTS_H

#include "storage/sqlite_db.h"
#include "storage/store_op.h"

int tri_sqlite_append(tri_sqlite_db *db, tri_store_op *op);
int tri_sqlite_trim(tri_sqlite_db *db, tri_store_op *op);
int tri_sqlite_read_events(tri_sqlite_db *db, tri_store_op *op);
/* Sets *number to that of the last event of the op's key; 0: none. */
int tri_sqlite_last_event(tri_sqlite_db *db, tri_store_op *op,
                          uint64_t *number);
/* Removes all events of the key. */
int tri_sqlite_clear_events(tri_sqlite_db *db, tri_store_bytes key);

#endif
