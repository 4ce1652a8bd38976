/*
 * sqlite_fault.c - from SQLite's codes to errors, faults and advice.
 */
#include "storage/sqlite_fault.h"

#include <sqlite3.h>
#include <stdio.h>

#include "base/check.h"
#include "base/world.h"
#include "storage/sqlite_db.h"

static tr_err err_of(int code, tri_store_fault *fault)
{
    *fault = TRI_STORE_FAULT_IO;
    if (code == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM) {
        *fault = TRI_STORE_FAULT_UNAVAILABLE;
        return TR_ENOMEM;
    }
    switch (code & 0xff) {
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
        return TR_EIO;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        *fault = TRI_STORE_FAULT_UNAVAILABLE;
        return TR_ESTORAGE;
    default:
        *fault = TRI_STORE_FAULT_OPERATION_FAILED;
        return TR_ESTORAGE;
    }
}

/* Returns the advice for a file that did not open, or NULL. */
static const char *open_advice_of(const tri_sqlite_db *db)
{
    tr_err err =
        db->handle != NULL ? (tr_err)sqlite3_system_errno(db->handle) : TR_OK;

    switch ((int)err) {
    case TR_OK:
        return NULL;
    case TR_ENOENT:
        return "the folder must exist and be writable";
    case TR_EIO:
        // Every file of a simulated disk is writable.
        return db->file->world->ops->has_threads
                   ? "the file and its folder must be writable, and the disk "
                     "in order"
                   : tr_strerror(err);
    default:
        return tr_strerror(err);
    }
}

/* Returns what a person can do about it, or NULL. */
static const char *advice_of(const tri_sqlite_db *db, int code)
{
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
        return "the file is damaged; restore a backup, or save what is left "
               "with: sqlite3 FILE .recover";
    case SQLITE_NOTADB:
        return "this is not an SQLite file; choose another name, or restore "
               "a backup";
    case SQLITE_BUSY:
        return "another process keeps the file locked; end it";
    case SQLITE_CANTOPEN:
        return open_advice_of(db);
    case SQLITE_READONLY:
        return "the file and its folder must be writable";
    case SQLITE_FULL:
        return "the disk is full";
    default:
        return NULL;
    }
}

void tri_sqlite_fault_set(tri_sqlite_fault *why, const tri_sqlite_db *db,
                          int code, const char *message)
{
    const char *advice = advice_of(db, code);

    TRI_CHECK(code != SQLITE_OK);
    TRI_CHECK(message != NULL);
    why->err = err_of(code, &why->fault);
    (void)snprintf(why->text, sizeof(why->text), "%s%s%s", message,
                   advice == NULL ? "" : ": ", advice == NULL ? "" : advice);
}

void tri_sqlite_fault_fail(const tri_sqlite_fault *why, tri_store_op *op)
{
    tri_store_fail(op, why->err, why->fault, "%s", why->text);
}
