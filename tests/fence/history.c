/*
 * history.c - checks what clients of counters have seen.
 *
 * Each counter is checked alone. An acknowledgement, and a read, is a floor for
 * every request that begins after it has ended. Updates of unknown outcome
 * allow for a higher final value, and are no floor for anybody.
 */
#include "history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The records of one counter, in the order of their begins. */
typedef struct counter {
    record *records;
    size_t count;
    const record **seen;  // room for `count`: those that show a value
    size_t seen_count;
    verdict *out;
} counter;

const char *fault_name(fault which)
{
    static const char *const names[FAULTS] = {
        "lost", "doubled", "stale", "forked", "epoch", "token", "missing"};
    return names[which];
}

__attribute__((format(printf, 3, 4))) static void report(verdict *out,
                                                         fault which,
                                                         const char *format,
                                                         ...)
{
    va_list args;

    out->fault_count++;
    if (out->faults[which]++ == 0) {
        va_start(args, format);
        (void)vsnprintf(out->text[which], VERDICT_TEXT_SIZE, format, args);
        va_end(args);
    }
}

/* ---- orders ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_key_and_begin(const void *x, const void *y)
{
    const record *a = x, *b = y;

    return a->key != b->key
               ? compare_u64(a->key, b->key)
               : compare_u64((uint64_t)a->begin, (uint64_t)b->begin);
}

static int by_end(const void *x, const void *y)
{
    const record *a = *(const record *const *)x, *b = *(const record *const *)y;

    return compare_u64((uint64_t)a->end, (uint64_t)b->end);
}

/* The acknowledgement of a value comes before the reads of it. */
static int by_value(const void *x, const void *y)
{
    const record *a = *(const record *const *)x, *b = *(const record *const *)y;

    return a->value != b->value ? compare_u64(a->value, b->value)
                                : compare_u64(a->what, b->what);
}

/* ---- checks of one counter ---- */

static bool shows_value(const record *r)
{
    return r->what == RECORD_READ || r->what == RECORD_FINAL ||
           (r->what == RECORD_ADD && r->count > 0);
}

/* Returns the first value that a request may show at all after `floor`. */
static uint64_t lowest_allowed(const record *r, uint64_t floor)
{
    return r->what == RECORD_ADD ? floor + r->count : floor;
}

static void check_floors(counter *it)
{
    const record *highest = NULL;
    size_t ended = 0;

    qsort(it->seen, it->seen_count, sizeof(it->seen[0]), by_end);
    for (size_t i = 0; i < it->count; i++) {
        const record *r = &it->records[i];
        for (; ended < it->seen_count && it->seen[ended]->end < r->begin;
             ended++) {
            if (highest == NULL || it->seen[ended]->value > highest->value) {
                highest = it->seen[ended];
            }
        }
        if (shows_value(r) && highest != NULL &&
            r->value < lowest_allowed(r, highest->value)) {
            report(it->out, FAULT_STALE,
                   "counter %" PRIu32 ": a%s that began %.3f ms after %" PRIu64
                   " was %s (process %" PRIu32 ", epoch %" PRIu64
                   ") shows %" PRIu64 " (process %" PRIu32 ", epoch %" PRIu64
                   ")",
                   r->key, r->what == RECORD_ADD ? "n update" : " read",
                   (double)(r->begin - highest->end) / 1e6, highest->value,
                   highest->what == RECORD_ADD ? "acknowledged" : "read",
                   highest->host, highest->epoch, r->value, r->host, r->epoch);
        }
    }
}

/* Compares two acknowledgements, the second with a value not below. */
static void check_neighbours(counter *it, const record *a, const record *b)
{
    if (b->value - b->count < a->value) {
        report(it->out, FAULT_DOUBLED,
               "counter %" PRIu32 ": requests %" PRIx64 " and %" PRIx64
               " were both acknowledged with value %" PRIu64,
               a->key, a->op, b->op, a->value);
    }
    if (a->epoch > b->epoch) {
        report(it->out, FAULT_EPOCH,
               "counter %" PRIu32 ": value %" PRIu64 " has epoch %" PRIu64
               ", value %" PRIu64 " epoch %" PRIu64,
               a->key, a->value, a->epoch, b->value, b->epoch);
    }
    if (a->owned && a->epoch == b->epoch && a->host != b->host) {
        report(it->out, FAULT_EPOCH,
               "counter %" PRIu32 ": processes %" PRIu32 " and %" PRIu32
               " have both written in epoch %" PRIu64,
               a->key, a->host, b->host, a->epoch);
    }
}

static void check_values(counter *it)
{
    const record *last_add = NULL;

    qsort(it->seen, it->seen_count, sizeof(it->seen[0]), by_value);
    for (size_t i = 0; i < it->seen_count; i++) {
        const record *r = it->seen[i];
        const record *before = i > 0 ? it->seen[i - 1] : r;
        if (before->value == r->value && before->writer != r->writer) {
            report(it->out, FAULT_FORKED,
                   "counter %" PRIu32 ": value %" PRIu64
                   " was stored by request %" PRIx64 " and by %" PRIx64,
                   r->key, r->value, before->writer, r->writer);
        }
        if (r->what == RECORD_ADD) {
            if (last_add != NULL) {
                check_neighbours(it, last_add, r);
            }
            last_add = r;
        }
    }
}

/* Compares the final value with the updates that were sent. */
static void check_sum(counter *it)
{
    uint64_t sent = 0, acknowledged = 0, refused = 0, highest = 0;
    const record *final = NULL;

    for (size_t i = 0; i < it->count; i++) {
        const record *r = &it->records[i];
        sent += r->what == RECORD_BEGIN ? r->count : 0;
        if (r->what == RECORD_ADD) {
            acknowledged += r->count;
            refused += r->refused;
            highest = r->count > 0 && r->value > highest ? r->value : highest;
        }
        final = r->what == RECORD_FINAL ? r : final;
    }
    it->out->updates += acknowledged;
    it->out->refused += refused;
    it->out->unknown += sent - acknowledged - refused;
    if (final == NULL) {
        report(it->out, FAULT_MISSING,
               "counter %" PRIu32 ": nobody has read its final value",
               it->records[0].key);
    } else if (final->value < highest || final->value < acknowledged) {
        report(it->out, FAULT_LOST,
               "counter %" PRIu32 ": ends with %" PRIu64 " after %" PRIu64
               " acknowledged updates, the highest %" PRIu64,
               final->key, final->value, acknowledged, highest);
    } else if (final->value > sent - refused) {
        report(it->out, FAULT_DOUBLED,
               "counter %" PRIu32 ": ends with %" PRIu64 ", but only %" PRIu64
               " updates may have been stored",
               final->key, final->value, sent - refused);
    }
}

static void check_token(counter *it, const record *r)
{
    if (r->what == RECORD_TOKEN) {
        report(it->out, FAULT_TOKEN,
               "counter %" PRIu32 ": process %" PRIu32
               " uses the token %" PRIu64 " after its successor has begun",
               r->key, r->host, r->epoch);
    }
}

static void check_counter(counter *it)
{
    for (size_t i = 0; i < it->count; i++) {
        check_token(it, &it->records[i]);
        if (shows_value(&it->records[i])) {
            it->seen[it->seen_count++] = &it->records[i];
        }
        it->out->reads += it->records[i].what == RECORD_READ;
    }
    check_floors(it);
    check_values(it);
    check_sum(it);
}

void history_check(record *records, size_t count, verdict *out)
{
    const record **seen = calloc(count + 1, sizeof(*seen));

    memset(out, 0, sizeof(*out));
    if (seen == NULL) {
        report(out, FAULT_MISSING, "no memory for %zu records", count);
        return;
    }
    qsort(records, count, sizeof(records[0]), by_key_and_begin);
    for (size_t first = 0, after; first < count; first = after) {
        for (after = first + 1;
             after < count && records[after].key == records[first].key;
             after++) {
        }
        check_counter(&(counter){.records = &records[first],
                                 .count = after - first,
                                 .seen = seen,
                                 .out = out});
    }
    free(seen);
}
