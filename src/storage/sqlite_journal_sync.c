/*
 * sqlite_journal_sync.c - reads the rows of the journal that the index lacks.
 */
#include "storage/sqlite_journal_sync.h"

#include <sqlite3.h>
#include <stddef.h>

#include "base/check.h"
#include "storage/sqlite_sum.h"
#include "storage/store_op.h"
#include "troupe/base.h"

/* Adds the current row of the statement to the index. */
static int put_row(tri_journal *journal, sqlite3_stmt *statement)
{
    tri_store_bytes key = tri_sqlite_column(statement, 1);
    tri_store_bytes bytes = tri_sqlite_column(statement, 3);
    uint64_t version = (uint64_t)sqlite3_column_int64(statement, 2);

    if (sqlite3_column_int64(statement, 0) <= 0 ||
        !tri_sqlite_sum_fits(statement, 4,
                             tri_sqlite_sum(key, version, bytes))) {
        return SQLITE_CORRUPT;
    }
    uint64_t row = (uint64_t)sqlite3_column_int64(statement, 0);
    return tri_journal_put(journal, key, row, version, bytes) == TR_OK
               ? SQLITE_OK
               : SQLITE_NOMEM;
}

/* Adds all rows after `known` to the index. */
static int put_rows(tri_sqlite_db *db, tri_journal *journal, uint64_t known)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_JOURNAL_AFTER);
    int code = SQLITE_OK;

    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    tri_sqlite_bind(statement, 1, known);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = put_row(journal, statement);
        if (code != SQLITE_OK) {
            sqlite3_reset(statement);
            return code;
        }
    }
    int reset = sqlite3_reset(statement);
    return code == SQLITE_DONE ? reset : code;
}

int tri_sqlite_journal_sync(tri_sqlite_db *db, tri_journal *journal,
                            uint64_t *folded, uint64_t *last)
{
    TRI_CHECK(db->handle != NULL);
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_MARKS);

    *folded = 0;
    *last = 0;
    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *folded = (uint64_t)sqlite3_column_int64(statement, 0);
        *last = (uint64_t)sqlite3_column_int64(statement, 1);
        if (*folded > TRI_STORE_NUMBER_MAX || *last > TRI_STORE_NUMBER_MAX) {
            code = SQLITE_CORRUPT;
        }
    }
    int reset = sqlite3_reset(statement);
    if (code != SQLITE_ROW) {
        return code == SQLITE_DONE ? SQLITE_CORRUPT : code;
    }
    uint64_t known = TRI_MAX(tri_journal_known(journal), *folded);
    if (reset != SQLITE_OK || *last <= known) {
        return reset;
    }
    code = put_rows(db, journal, known);
    if (code == SQLITE_OK) {
        tri_journal_set_known(journal, *last);
    }
    return code;
}
