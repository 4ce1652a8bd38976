/*
 * wl_sqlite.c - saves and loads in an SQLite file, compared with a plain C loop
 * that writes the same journal, folds it in the same way and waits for the same
 * sync.
 */
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "saves.h"
#include "virtuals.h"

#define FOLD_ROWS 32768  // as the store does
/* The loop writes the eight bytes of a checksum, but does not compute it. */
#define RAW_SUM INT64_C(0x1234567890abcdef)

/* ---- a file of its own ---- */

typedef struct place {
    char folder[128];
    char file[160];
} place;

static void place_make(place *it)
{
    const char *base = getenv("TMPDIR");
    snprintf(it->folder, sizeof(it->folder), "%.100s/troupe-bench-XXXXXX",
             base == NULL ? "/var/tmp" : base);
    bench_verify(mkdtemp(it->folder) != NULL, "no folder for the file");
    snprintf(it->file, sizeof(it->file), "%s/db", it->folder);
}

static void place_remove(const place *it)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", it->file, endings[i]);
        (void)unlink(path);
    }
    (void)rmdir(it->folder);
}

/* ---- the plain loop ---- */

typedef struct raw {
    sqlite3 *handle;
    sqlite3_stmt *begin, *commit, *add, *put, *trim;
    char (*keys)[SAVES_KEY_SIZE];
    int64_t *version, *touched;  // touched: keys that are in the journal
    int64_t touched_count, row, folded;
    char state[SAVES_STATE_SIZE];
} raw;

static sqlite3_stmt *raw_prepare(raw *r, const char *sql)
{
    sqlite3_stmt *statement;
    bench_verify(sqlite3_prepare_v2(r->handle, sql, -1, &statement, NULL) ==
                     SQLITE_OK,
                 sqlite3_errmsg(r->handle));
    return statement;
}

static void raw_step(raw *r, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    bench_verify(code == SQLITE_DONE || code == SQLITE_ROW,
                 sqlite3_errmsg(r->handle));
    sqlite3_reset(statement);
}

static void raw_open(raw *r, const char *file, int64_t keys)
{
    static const char setup[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 4096;"
        "CREATE TABLE journal (id INTEGER PRIMARY KEY, key TEXT NOT NULL,"
        " version INTEGER NOT NULL, bytes BLOB, sum INTEGER NOT NULL);"
        "CREATE TABLE state (key TEXT PRIMARY KEY, version INTEGER NOT NULL,"
        " bytes BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;";
    memset(r, 0, sizeof(*r));
    bench_verify(sqlite3_open(file, &r->handle) == SQLITE_OK &&
                     sqlite3_exec(r->handle, setup, NULL, NULL, NULL) ==
                         SQLITE_OK,
                 "sqlite3_open");
    r->begin = raw_prepare(r, "BEGIN IMMEDIATE");
    r->commit = raw_prepare(r, "COMMIT");
    r->add = raw_prepare(r, "INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)");
    r->put = raw_prepare(r, "INSERT INTO state VALUES (?1, ?2, ?3, ?4)"
                            " ON CONFLICT (key) DO UPDATE"
                            " SET version = ?2, bytes = ?3, sum = ?4");
    r->trim = raw_prepare(r, "DELETE FROM journal WHERE id <= ?1");
    r->keys = bench_alloc(keys, sizeof(*r->keys));
    r->version = bench_alloc(keys, sizeof(*r->version));
    r->touched = bench_alloc(keys, sizeof(*r->touched));
    memset(r->state, 's', sizeof(r->state));
    for (int64_t i = 0; i < keys; i++)
        snprintf(r->keys[i], SAVES_KEY_SIZE, "local::vault//user/v%07lld",
                 (long long)i);
}

static void raw_close(raw *r)
{
    sqlite3_stmt *all[] = {r->begin, r->commit, r->add, r->put, r->trim};
    for (int i = 0; i < 5; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(r->handle);
    free(r->keys);
    free(r->version);
    free(r->touched);
}

static void raw_save(raw *r, int64_t key)
{
    if (r->version[key] >= 0) {
        // A negative version marks a key that is in the journal.
        r->version[key] = -r->version[key] - 1;
        r->touched[r->touched_count++] = key;
    }
    r->version[key]--;
    sqlite3_bind_int64(r->add, 1, ++r->row);
    sqlite3_bind_text(r->add, 2, r->keys[key], -1, SQLITE_STATIC);
    sqlite3_bind_int64(r->add, 3, -r->version[key]);
    sqlite3_bind_blob(r->add, 4, r->state, sizeof(r->state), SQLITE_STATIC);
    sqlite3_bind_int64(r->add, 5, RAW_SUM);
    raw_step(r, r->add);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/*
 * Folds the journal. Keys are in the order of their numbers, so neighbours
 * share pages.
 */
static void raw_fold(raw *r)
{
    qsort(r->touched, (size_t)r->touched_count, sizeof(*r->touched), by_number);
    raw_step(r, r->begin);
    for (int64_t i = 0; i < r->touched_count; i++) {
        int64_t key = r->touched[i];
        r->version[key] = -r->version[key];
        sqlite3_bind_text(r->put, 1, r->keys[key], -1, SQLITE_STATIC);
        sqlite3_bind_int64(r->put, 2, r->version[key]);
        sqlite3_bind_blob(r->put, 3, r->state, sizeof(r->state), SQLITE_STATIC);
        sqlite3_bind_int64(r->put, 4, RAW_SUM);
        raw_step(r, r->put);
    }
    sqlite3_bind_int64(r->trim, 1, r->row);
    raw_step(r, r->trim);
    raw_step(r, r->commit);
    r->touched_count = 0;
    r->folded = r->row;
}

static double raw_saves(bench *b)
{
    b->n = b->n < b->w ? b->w : b->n / b->w * b->w;
    raw r;
    place at;
    uint64_t dice = 1;
    place_make(&at);
    raw_open(&r, at.file, b->n);
    double begin = bench_now(), now = begin;
    while ((now = bench_now()) - begin < b->seconds) {
        raw_step(&r, r.begin);
        for (int64_t i = 0; i < b->w; i++) {
            uint64_t lap =
                bench_below(bench_random(&dice), (uint64_t)(b->n / b->w));
            raw_save(&r, i + (int64_t)lap * b->w);
        }
        raw_step(&r, r.commit);
        if (r.row - r.folded >= FOLD_ROWS) raw_fold(&r);
    }
    double value = (double)r.row / (now - begin);
    raw_close(&r);
    place_remove(&at);
    return value;
}

/* ---- the store ---- */

static double with_store(bench *b, double (*run)(bench *, tr_storage *))
{
    place at;
    tr_storage *store;
    place_make(&at);
    TR_MUST(tr_storage_sqlite(&store, at.file));
    double value = run(b, store);
    tr_storage_close(store);
    place_remove(&at);
    return value;
}

static double run_saves(bench *b)
{
    double value = with_store(b, saves_run);
    return saves_report(value, raw_saves(b));
}

static double run_raw_saves(bench *b)
{
    return raw_saves(b);
}

static double run_loads(bench *b)
{
    return with_store(b, saves_load);
}

static double run_activate(bench *b)
{
    return with_store(b, virtuals_activate);
}

const bench_workload bench_sqlite[] = {
    {"sqlite_saves", 1000, 1000, "saves/s",
     "N actors, W saving at a time, against a C loop with the same journal",
     run_saves},
    {"sqlite_saves_1m", 1000000, 1000, "saves/s",
     "the same with a million actors, so with a million keys", run_saves},
    {"raw_sqlite_saves", 1000, 1000, "saves/s",
     "the C loop alone, to be run in turns with the two above", run_raw_saves},
    {"sqlite_loads", 100000, 1000, "loads/s",
     "N actors spawned, whose states are in the file", run_loads},
    {"virtual_activate_sqlite", 200000, 1000000, "activations/s",
     "first messages, states in the file, W of them at a time", run_activate},
    {0},
};
