/*
 * sqlite_file.h - a store in a file of its own, for tests, and SQL on that
 * file.
 *
 * IN_FOLDER makes a row of a test whose *state is a new folder.
 */
#ifndef TEST_STORAGE_SQLITE_FILE_H
#define TEST_STORAGE_SQLITE_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>
#include <cmocka.h>

#include "storage/storage_sqlite.h"
#include "unit/storage/store_calls.h"

static inline int make_folder(void **state)
{
    folder *it = calloc(1, sizeof(*it));

    *state = it;
    return it != NULL && folder_make(it) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    int result = folder_remove(*state);

    free(*state);
    return result;
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static inline tr_storage *open_on(tri_world *world, const folder *it,
                                  const tri_sqlite_limits *limits)
{
    tr_storage *store;
    tri_sqlite_fault why;

    if (tri_storage_sqlite_open(&store, world, it->database, limits, &why) !=
        TR_OK) {
        fail_msg("%s", why.text);
    }
    return store;
}

static inline tr_storage *open_limited(const folder *it,
                                       const tri_sqlite_limits *limits)
{
    return open_on(tri_world_posix(), it, limits);
}

static inline tr_storage *open_store(const folder *it)
{
    return open_limited(it, NULL);
}

/* Runs SQL on the file through SQLite's own VFS. Returns the first number. */
static inline int64_t sql_number(const folder *it, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    int64_t number = -1;

    assert_int_equal(sqlite3_open(it->database, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    if (sqlite3_step(statement) == SQLITE_ROW) {
        number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return number;
}

static inline void assert_intact(const folder *it)
{
    assert_int_equal(sql_number(it,
                                "SELECT count(*) FROM pragma_integrity_check"
                                " WHERE integrity_check = 'ok'"),
                     1);
}

static inline void assert_refused(const folder *it, const char *expected)
{
    tr_storage *store = (tr_storage *)1;
    char text[256] = "";
    tr_storage_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};

    assert_int_equal(tr_storage_sqlite_with(&store, it->database, &options),
                     TR_ESTORAGE);
    assert_null(store);
    if (strstr(text, expected) == NULL || strstr(text, it->database) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", expected, text);
    }
}

static inline void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t size;

    assert_non_null(in);
    assert_non_null(out);
    while ((size = fread(bytes, 1, sizeof(bytes), in)) > 0) {
        assert_int_equal(fwrite(bytes, 1, size, out), size);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* ---- events ---- */

/* Appends `one` and, unless it is NULL, `two` in the same append. */
static inline tr_err append_texts(tr_storage *store, const char *key,
                                  uint64_t last, const char *one,
                                  const char *two)
{
    tri_store_bytes events[] = {bytes_of(one), bytes_of(two)};
    asked it = ask_for(TR_STORE_APPEND, key);

    it.op.number = last;
    it.op.events = events;
    it.op.event_count = two == NULL ? 1 : 2;
    return asked_run(&it, store);
}

/* Reads all events as "1:one 2:two", or the error text. */
static inline void read_texts(tr_storage *store, const char *key,
                              char out[LOADED_SIZE])
{
    asked it = ask_for(TR_STORE_READ, key);
    tri_store_row row;
    size_t size = 0;

    it.op.number = 1;
    out[0] = '\0';
    if (asked_run(&it, store) != TR_OK) {
        snprintf(out, LOADED_SIZE, "%s", it.op.text);
    }
    for (size_t at = 0; tri_store_row_next(&it.op, &at, &row);) {
        size += (size_t)snprintf(
            out + size, LOADED_SIZE - size, "%s%llu:%.*s", size > 0 ? " " : "",
            (unsigned long long)row.number, (int)row.bytes.size,
            (const char *)row.bytes.at);
    }
    tri_store_op_fini(&it.op);
}

#define assert_events(store, key, expected)                                    \
    do {                                                                       \
        char read_[LOADED_SIZE];                                               \
        read_texts(store, key, read_);                                         \
        assert_string_equal(read_, expected);                                  \
    } while (0)

static inline void assert_damaged(tr_storage *store, const char *key)
{
    char read[LOADED_SIZE];

    read_texts(store, key, read);
    assert_non_null(strstr(read, "the file is damaged"));
}

#endif
