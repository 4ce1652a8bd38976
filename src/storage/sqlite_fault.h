/*
 * sqlite_fault.h - why a call of SQLite failed, in the words of an answer.
 */
#ifndef TRI_STORAGE_SQLITE_FAULT_H
#define TRI_STORAGE_SQLITE_FAULT_H

#include "storage/store_op.h"
#include "troupe/base.h"

typedef struct tri_sqlite_db tri_sqlite_db;

typedef struct tri_sqlite_fault {
    tr_err err;  // TR_OK: nothing failed
    tri_store_fault fault;
    char text[TRI_STORE_TEXT_SIZE];
} tri_sqlite_fault;

/*
 * Describes the failure of a call that returned `code` and whose message is
 * `message`; adds what a person can do about it, if that is known. The handle
 * of the db may be NULL.
 */
void tri_sqlite_fault_set(tri_sqlite_fault *why, const tri_sqlite_db *db,
                          int code, const char *message);

/* Makes the op fail with this fault. */
void tri_sqlite_fault_fail(const tri_sqlite_fault *why, tri_store_op *op);

#endif
