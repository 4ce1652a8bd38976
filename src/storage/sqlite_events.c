/*
 * sqlite_events.c - events in the SQLite file: append, trim, read.
 *
 * A disk may lose a page, and with it a part of an append. A part that is lost
 * at the front or in the middle leaves a gap in the numbers. A part that is
 * lost at the end would not be noticed, and the next append would follow half
 * an append. Therefore each event stores the number of the last event of its
 * append, `upto`, which is part of its sum.
 *
 * A page may also come back with old contents: the file lost its end, other
 * events were appended, and then a page with the lost events appears again.
 * These events are complete and their numbers fit, but they followed other
 * events. Therefore each event stores the chain sum of the event before it,
 * `prev`, which is part of its own sum: a chain sum covers all events up to
 * its own. Callers keep the chain sum, also in their snapshots, and give it
 * back with the next request (`chain` and `behind` in store_op.h).
 *
 * Invariant: the event numbers of a key have no gap, all events of one append
 * have the same `upto`, the last event of a key is the last of its append, and
 * `prev` of each event is the sum of the event before. An operation that finds
 * it violated fails and names the event. It never repairs or skips events.
 */
#include "storage/sqlite_events.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "storage/sqlite_sum.h"
#include "troupe/base.h"
#include "troupe/storage.h"

/* The columns of an event without its bytes. */
typedef struct event_head {
    uint64_t number;  // 0: no event
    uint64_t upto;
    uint64_t sum;
    uint64_t prev;
    bool chained;  // false: an event of an older layout, without prev
} event_head;

/* The columns with which EVENT_LAST and EVENT_READ begin. */
enum { NUMBER, UPTO, SUM, PREV, BYTES };

static event_head head_of(sqlite3_stmt *statement)
{
    return (event_head){
        .number = (uint64_t)sqlite3_column_int64(statement, NUMBER),
        .upto = (uint64_t)sqlite3_column_int64(statement, UPTO),
        .sum = (uint64_t)sqlite3_column_int64(statement, SUM),
        .prev = (uint64_t)sqlite3_column_int64(statement, PREV),
        .chained = sqlite3_column_type(statement, PREV) != SQLITE_NULL,
    };
}

/* Fails the op: event `missing` is lost, and `before` is the one before it. */
static void fail_missing(tri_store_op *op, uint64_t missing, event_head before)
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

/* Fails the op: the event does not follow the events before it. */
static void fail_not_chained(tri_store_op *op, uint64_t number)
{
    tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_SERIALIZATION,
                   "event %llu does not follow the events before it; "
                   "restore a backup",
                   (unsigned long long)number);
}

/*
 * Reads the last event of the key. If its append is not complete, the op has
 * failed, and SQLITE_OK is returned.
 */
static int read_last(tri_sqlite_db *db, tri_store_op *op, event_head *last)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_LAST);

    *last = (event_head){.number = 0};
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *last = head_of(statement);
        if (last->number == 0 || last->number > TRI_STORE_NUMBER_MAX ||
            last->upto == 0 || last->sum > TRI_STORE_NUMBER_MAX) {
            return tri_sqlite_end(statement, SQLITE_CORRUPT);
        }
    }
    code = tri_sqlite_end(statement, code);
    if (code == SQLITE_OK && last->number != 0 && last->upto != last->number) {
        fail_missing(op, last->number + 1, *last);
    }
    return code;
}

/*
 * Returns whether the last event is the one that the caller knows; if not, the
 * op has failed.
 */
static bool check_chain(tri_store_op *op, event_head last)
{
    if (op->behind == 0 || op->behind == last.sum) {
        return true;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "event %llu is not the one that was expected",
                   (unsigned long long)last.number);
    return false;
}

int tri_sqlite_append(tri_sqlite_db *db, tri_store_op *op)
{
    TRI_CHECK(op->call == TR_STORE_APPEND);
    event_head last;
    int code = read_last(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK ||
        !tri_store_check_version(op, last.number) || !check_chain(op, last)) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_ADD);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    uint64_t number = last.number, upto = number + op->event_count;
    uint64_t prev = last.sum;
    code = SQLITE_DONE;
    for (uint32_t i = 0; i < op->event_count && code == SQLITE_DONE; i++) {
        tri_store_bytes bytes = op->events[i];
        number++;
        uint64_t sum = tri_sqlite_chain_sum(
            tri_sqlite_event_sum(op->key, number, upto, bytes), prev);
        tri_sqlite_bind_text(statement, 1, op->key);
        tri_sqlite_bind(statement, 2, number);
        tri_sqlite_bind_bytes(statement, 3, bytes.at, bytes.size);
        tri_sqlite_bind(statement, 4, sum);
        tri_sqlite_bind(statement, 5, upto);
        tri_sqlite_bind(statement, 6, prev);
        code = tri_sqlite_step(statement);
        prev = sum;
    }
    op->version = upto;
    op->chain = prev;
    op->found = upto > 0;
    return code;
}

/* Keeps the last event: its number says where the next append goes. */
int tri_sqlite_trim(tri_sqlite_db *db, tri_store_op *op)
{
    TRI_CHECK(op->call == TR_STORE_TRIM);
    event_head last;
    int code = read_last(db, op, &last);

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

int tri_sqlite_last_event(tri_sqlite_db *db, tri_store_op *op, uint64_t *number)
{
    event_head last;
    int code = read_last(db, op, &last);

    *number = last.number;
    return code;
}

int tri_sqlite_clear_events(tri_sqlite_db *db, tri_store_bytes key)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_CLEAR);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, key);
    return tri_sqlite_step(statement);
}

/*
 * Returns whether the numbers of `at` fit those of `before`, the event before
 * it. before.number 0: it is not known.
 */
static bool numbers_fit(event_head before, event_head at)
{
    if (at.upto < at.number) {
        return false;
    }
    if (before.number == 0) {
        return true;
    }
    bool same_append = before.upto > before.number;
    return at.number == before.number + 1 &&
           (!same_append || at.upto == before.upto);
}

/*
 * Returns whether `at` was appended after the event `before`. If that one was
 * trimmed (before.number 0), the caller may know its chain sum.
 */
static bool chain_fits(const tri_store_op *op, event_head before, event_head at)
{
    if (before.number == 0) {
        bool known = op->behind != 0 && at.number == op->number;
        if (at.number > 1 && !known) {
            return true;
        }
        before.sum = at.number > 1 ? op->behind : 0;
    }
    return at.chained ? at.prev == before.sum : !before.chained;
}

static bool sum_fits(const tri_store_op *op, sqlite3_stmt *statement,
                     event_head at, tri_store_bytes bytes)
{
    uint64_t sum = tri_sqlite_event_sum(op->key, at.number, at.upto, bytes);

    if (at.chained) {
        sum = tri_sqlite_chain_sum(sum, at.prev);
    }
    return tri_sqlite_sum_fits(statement, SUM, sum);
}

/*
 * Checks the event before the first one wanted, then checks the wanted events
 * and adds them to the answer. *before becomes the last event that was added.
 * Returns an SQLite code; SQLITE_ROW if it stopped early.
 */
static int add_rows(tri_store_op *op, sqlite3_stmt *statement,
                    event_head *before)
{
    uint32_t left = tri_store_row_limit(op);
    int code;

    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        event_head at = head_of(statement);
        if (at.number < op->number) {
            // A damaged row may have any number, in any position.
            if (before->number != 0 || at.number == 0 ||
                at.number != op->number - 1) {
                return SQLITE_CORRUPT;
            }
            if (op->behind != 0 && op->behind != at.sum) {
                fail_not_chained(op, op->number);
                break;
            }
            *before = at;
            continue;
        }
        tri_store_row row = {.number = at.number,
                             .bytes = tri_sqlite_column(statement, BYTES)};
        if (!sum_fits(op, statement, at, row.bytes)) {
            return SQLITE_CORRUPT;
        }
        if (!numbers_fit(*before, at)) {
            fail_missing(op, before->number + 1, *before);
            break;
        }
        if (!chain_fits(op, *before, at)) {
            fail_not_chained(op, at.number);
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
    TRI_CHECK(op->call == TR_STORE_READ);
    event_head last, before = {.number = 0};
    int code = read_last(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_READ);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    // Two rows more than the limit: the event before the first one wanted, and
    // the one that tells that there are more.
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind(statement, 2, op->number > 0 ? op->number - 1 : 0);
    tri_sqlite_bind(statement, 3, (uint64_t)tri_store_row_limit(op) + 2);
    code = tri_sqlite_end(statement, add_rows(op, statement, &before));
    if (code != SQLITE_OK || op->err != TR_OK) {
        return code;
    }
    // A search from the end and the walk must find the same last event.
    if (!op->more && op->number <= last.number &&
        before.number != last.number) {
        fail_missing(op, last.number, before);
        return SQLITE_OK;
    }
    op->version = last.number;
    op->chain = before.number != 0 ? before.sum : op->behind;
    return SQLITE_OK;
}
