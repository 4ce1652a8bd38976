/*
 * sqlite_events.c - events in the SQLite file: append, trim, read.
 *
 * Events lie by key and number in pages that a disk may lose one by one, so
 * an append may come back in part. What is lost at the front or in the middle
 * leaves a gap; what is lost at the end would not be missed, and the next
 * append would go on behind a half. Therefore each event says up to which
 * number its append goes, under its sum.
 *
 * A page may also come back as it once was: the file has lost its end, other
 * events were appended instead, and then one of the pages of before is there
 * again. Its events are whole and their numbers fit, but they follow others.
 * Therefore each event has the sum of the event before it, under its own sum:
 * a sum stands for all events up to its own. Callers keep it, a snapshot as
 * well, and give it back with the next question (`chain` and `behind`).
 *
 * Invariant: the numbers of a key are without a gap, all events of one append
 * say the same number, the last event of a key is the last of its append, and
 * each event has the sum of the one before it. Whoever finds it broken fails
 * the operation and names the event; a part is never completed or passed over.
 */
#include "base/check.h"
#include "storage/storage_sqlite.h"

/* An event's place, without its bytes. */
typedef struct place {
    uint64_t number;  // 0: none
    uint64_t upto;
    uint64_t sum;
    uint64_t prev;  // the sum of the event before
    bool chained;   // false: before layout 4, which did not say prev
} place;

/* EVENT_LAST and EVENT_READ begin with the same columns. */
enum { NUMBER, UPTO, SUM, PREV, BYTES };

static place place_at(sqlite3_stmt *statement)
{
    return (place){
        .number = (uint64_t)sqlite3_column_int64(statement, NUMBER),
        .upto = (uint64_t)sqlite3_column_int64(statement, UPTO),
        .sum = (uint64_t)sqlite3_column_int64(statement, SUM),
        .prev = (uint64_t)sqlite3_column_int64(statement, PREV),
        .chained = sqlite3_column_type(statement, PREV) != SQLITE_NULL,
    };
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

static void fail_strange(tri_store_op *op, uint64_t number)
{
    tri_store_fail(op, TR_ESTORAGE, TRI_STORE_FAULT_SERIALIZATION,
                   "event %llu is of another time than those before it; "
                   "restore a backup",
                   (unsigned long long)number);
}

/* The last event, and whether its append is whole; else the op has failed. */
static int last_event(tri_sqlite_db *db, tri_store_op *op, place *last)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_LAST);

    *last = (place){.number = 0};
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *last = place_at(statement);
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

/* Whether the last event is the one that the caller knows; else it fails. */
static bool is_known(tri_store_op *op, place last)
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
    place last;
    int code = last_event(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK ||
        !tri_store_matches(op, last.number) || !is_known(op, last)) {
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
    if (at.upto < at.number) {
        return false;
    }
    if (before.number == 0) {
        return true;
    }
    bool within = before.upto > before.number;
    return at.number == before.number + 1 &&
           (!within || at.upto == before.upto);
}

/*
 * Whether `at` was appended behind what is before it: the event `before`, or
 * one that is not there any more, but whose sum the caller may know.
 */
static bool belongs(const tri_store_op *op, place before, place at)
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

static bool sum_fits(const tri_store_op *op, sqlite3_stmt *statement, place at,
                     tri_store_bytes bytes)
{
    uint64_t sum = tri_sqlite_event_sum(op->key, at.number, at.upto, bytes);

    if (at.chained) {
        sum = tri_sqlite_chain_sum(sum, at.prev);
    }
    return tri_sqlite_sum_fits(statement, SUM, sum);
}

/*
 * Adds the rows; *before becomes the last one that was added. The one before
 * those that are wanted is only looked at.
 */
static int add_rows(tri_store_op *op, sqlite3_stmt *statement, place *before)
{
    uint32_t left = tri_store_limit(op);
    int code;

    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        place at = place_at(statement);
        if (at.number < op->number) {
            // A row that is damaged can have any number, at any place.
            if (before->number != 0 || at.number == 0 ||
                at.number != op->number - 1) {
                return SQLITE_CORRUPT;
            }
            if (op->behind != 0 && op->behind != at.sum) {
                fail_strange(op, op->number);
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
        if (!follows(*before, at)) {
            fail_missing(op, before->number + 1, *before);
            break;
        }
        if (!belongs(op, *before, at)) {
            fail_strange(op, at.number);
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
    place last, before = {.number = 0};
    int code = last_event(db, op, &last);

    if (code != SQLITE_OK || op->err != TR_OK) {
        return code;
    }
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_EVENT_READ);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    // The row before as well, and one behind, which says that there are more.
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind(statement, 2, op->number > 0 ? op->number - 1 : 0);
    tri_sqlite_bind(statement, 3, (uint64_t)tri_store_limit(op) + 2);
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
    op->chain = before.number != 0 ? before.sum : op->behind;
    return SQLITE_OK;
}
