/*
 * sqlite_events.c - events in the SQLite file: append, trim, read.
 *
 * Events lie by key and number in pages that a disk may lose one by one, so
 * an append may come back in part. What is lost at the front or in the middle
 * leaves a gap; what is lost at the end would not be missed, and the next
 * append would go on behind a half. Therefore each event says up to which
 * number its append goes, under its sum.
 *
 * Invariant: the numbers of a key are without a gap, all events of one append
 * say the same number, and the last event of a key is the last of its append.
 * Whoever finds it broken fails the operation and names the missing event; a
 * part is never completed or passed over.
 */
#include "base/check.h"
#include "storage/storage_sqlite.h"

/* An event's place, without its bytes. */
typedef struct place {
    uint64_t number;  // 0: none
    uint64_t upto;    // 0: written before layout 3, which did not say
} place;

static place place_at(sqlite3_stmt *statement, int upto)
{
    return (place){(uint64_t)sqlite3_column_int64(statement, 0),
                   (uint64_t)sqlite3_column_int64(statement, upto)};
}

static void fail_missing(tri_store_op *op, uint64_t missing, place before)
{
    if (before.upto > before.number) {
        tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_SERIALIZATION,
                       "event %llu is lost, a part of its append is there; "
                       "restore a backup, or drop that part: DELETE FROM "
                       "event WHERE upto = %llu AND key = ...",
                       (unsigned long long)missing,
                       (unsigned long long)before.upto);
    } else {
        tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_SERIALIZATION,
                       "event %llu is lost; restore a backup",
                       (unsigned long long)missing);
    }
}

/* The last event, and whether its append is whole; else the op has failed. */
static int last_event(tri_sqlite_db *db, tri_store_op *op, place *last)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_LAST);

    *last = (place){0, 0};
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *last = place_at(statement, 1);
        if (last->number == 0 || last->number > TRI_STORE_NUMBER_MAX) {
            return tri_sqlite_end(statement, SQLITE_CORRUPT);
        }
    }
    code = tri_sqlite_end(statement, code);
    if (code == SQLITE_OK && last->upto != 0 && last->upto != last->number) {
        fail_missing(op, last->number + 1, *last);
    }
    return code;
}

int tri_sqlite_append(tri_sqlite_db *db, tri_store_op *op)
{
    place last;
    int code = last_event(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK ||
        !tri_store_matches(op, last.number)) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_ADD);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    uint64_t number = last.number, upto = number + op->event_count;
    code = SQLITE_DONE;
    for (uint32_t i = 0; i < op->event_count && code == SQLITE_DONE; i++) {
        tri_store_bytes bytes = op->events[i];
        tri_sqlite_bind_text(statement, 1, op->key);
        tri_sqlite_bind(statement, 2, ++number);
        tri_sqlite_bind_bytes(statement, 3, bytes.at, bytes.size);
        tri_sqlite_bind(statement, 4,
                        tri_sqlite_event_sum(op->key, number, upto, bytes));
        tri_sqlite_bind(statement, 5, upto);
        code = tri_sqlite_step(statement);
    }
    op->version = upto;
    op->found = upto > 0;
    return code;
}

/* The last event stays: its number says where the next append goes. */
int tri_sqlite_trim(tri_sqlite_db *db, tri_store_op *op)
{
    place last;
    int code = last_event(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK || last.number == 0) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_TRIM);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind(statement, 2, TRI_MIN(op->number, last.number - 1));
    op->version = last.number;
    op->found = true;
    return tri_sqlite_step(statement);
}

/* Whether `at` may follow `before` (number 0: nothing is known of it). */
static bool follows(place before, place at)
{
    if (at.upto != 0 && at.upto < at.number) {
        return false;
    }
    if (before.number == 0) {
        return true;
    }
    bool within = before.upto > before.number;
    return at.number == before.number + 1 &&
           (!within || at.upto == before.upto);
}

static bool sum_fits(const tri_store_op *op, sqlite3_stmt *statement, place at,
                     tri_store_bytes bytes)
{
    uint64_t sum = at.upto == 0
                       ? tri_sqlite_sum(op->key, at.number, bytes)
                       : tri_sqlite_event_sum(op->key, at.number, at.upto,
                                              bytes);

    return tri_sqlite_sum_fits(statement, 2, sum);
}

/* Adds the rows; *before becomes the last one that was added. */
static int add_rows(tri_store_op *op, sqlite3_stmt *statement, place *before)
{
    uint32_t left = tri_store_limit(op);
    int code;

    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        place at = place_at(statement, 3);
        tri_store_row row = {.number = at.number,
                             .bytes = tri_sqlite_column(statement, 1)};
        if (!sum_fits(op, statement, at, row.bytes)) {
            return SQLITE_CORRUPT;
        }
        if (!follows(*before, at)) {
            fail_missing(op, before->number + 1, *before);
            break;
        }
        if (!tri_sqlite_add_row(op, &row, &left)) {
            break;
        }
        *before = at;
    }
    return code;
}

int tri_sqlite_read_events(tri_sqlite_db *db, tri_store_op *op)
{
    place last, before = {0, 0};
    int code = last_event(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_READ);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind(statement, 2, op->number);
    tri_sqlite_bind(statement, 3, tri_store_limit(op) + 1);
    code = tri_sqlite_end(statement, add_rows(op, statement, &before));
    if (code != SQLITE_OK || op->err != TR_OK) {
        return code;
    }
    // Both ends of the tree must tell the same.
    if (!op->more && op->number <= last.number &&
        before.number != last.number) {
        fail_missing(op, last.number, before);
        return SQLITE_OK;
    }
    op->version = last.number;
    return SQLITE_OK;
}
