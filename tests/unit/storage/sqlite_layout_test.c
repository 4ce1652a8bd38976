/*
 * sqlite_layout_test.c - the store opens files of its layout, upgrades older
 * ones, and refuses all others with a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/sqlite_sum.h"
#include "unit/storage/sqlite_file.h"

static void test_a_newer_file_is_refused(void **state)
{
    tr_storage_close(open_store(*state));
    (void)sql_number(*state, "PRAGMA user_version=5");
    assert_refused(*state, "layout 5 and this Troupe knows 2 to 4; use the "
                           "Troupe that wrote it, or a newer one");
}

static void test_a_file_too_old_is_refused(void **state)
{
    tr_storage_close(open_store(*state));
    (void)sql_number(*state, "PRAGMA user_version=1");
    assert_refused(*state, "layout 1 and this Troupe knows 2 to 4; use the "
                           "Troupe that wrote it, or begin a new file");
}

/* Events of layout 2 are read, and new events can be appended. */
static void test_a_file_of_layout_2_is_upgraded(void **state)
{
    char sql[200];
    tri_store_bytes key = bytes_of("a::b/c");

    tr_storage_close(open_store(*state));
    (void)sql_number(*state, "ALTER TABLE mark DROP COLUMN settled");
    (void)sql_number(*state, "ALTER TABLE event DROP COLUMN prev");
    (void)sql_number(*state, "ALTER TABLE event DROP COLUMN upto");
    snprintf(sql, sizeof(sql),
             "INSERT INTO event VALUES ('a::b/c', 1, 'one', %lld),"
             " ('a::b/d', 1, 'other', 1)",
             (long long)tri_sqlite_sum(key, 1, bytes_of("one")));
    (void)sql_number(*state, sql);
    (void)sql_number(*state, "PRAGMA user_version=2");

    tr_storage *store = open_store(*state);
    assert_events(store, "a::b/c", "1:one");
    assert_int_equal(append_texts(store, "a::b/c", 1, "two", "three"), TR_OK);
    tr_storage_close(store);
    store = open_store(*state);
    assert_events(store, "a::b/c", "1:one 2:two 3:three");
    assert_damaged(store, "a::b/d");  // as before the upgrade
    tr_storage_close(store);
    assert_int_equal(sql_number(*state, "PRAGMA user_version"), 4);
    assert_intact(*state);
}

/* The same for layout 3, whose events have no column prev. */
static void test_a_file_of_layout_3_is_upgraded(void **state)
{
    char sql[200];
    tri_store_bytes key = bytes_of("a::b/c");

    tr_storage_close(open_store(*state));
    (void)sql_number(*state, "ALTER TABLE event DROP COLUMN prev");
    snprintf(sql, sizeof(sql),
             "INSERT INTO event VALUES ('a::b/c', 1, 'one', %lld, 2),"
             " ('a::b/c', 2, 'two', %lld, 2)",
             (long long)tri_sqlite_event_sum(key, 1, 2, bytes_of("one")),
             (long long)tri_sqlite_event_sum(key, 2, 2, bytes_of("two")));
    (void)sql_number(*state, sql);
    (void)sql_number(*state, "PRAGMA user_version=3");

    tr_storage *store = open_store(*state);
    assert_events(store, "a::b/c", "1:one 2:two");
    assert_int_equal(append_texts(store, "a::b/c", 2, "three", NULL), TR_OK);
    assert_events(store, "a::b/c", "1:one 2:two 3:three");
    tr_storage_close(store);
    assert_int_equal(sql_number(*state, "PRAGMA user_version"), 4);
    // The new event has a prev, although the event before it has none.
    assert_int_equal(sql_number(*state,
                                "SELECT count(*) FROM event a, event b"
                                " WHERE a.number = 2 AND b.number = 3"
                                " AND a.prev IS NULL AND b.prev = a.sum"),
                     1);
    assert_intact(*state);
}

static void test_a_file_of_another_program_is_refused(void **state)
{
    (void)sql_number(*state, "CREATE TABLE theirs (x)");
    assert_refused(*state, "belongs to another program; choose another name");
    // The file was not changed.
    assert_int_equal(sql_number(*state, "SELECT journal_mode = 'delete'"
                                        " FROM pragma_journal_mode"),
                     1);
}

static void overwrite(const folder *it, long at, const char *text, int times)
{
    FILE *file = fopen(it->database, "r+");

    if (file == NULL) {
        file = fopen(it->database, "w");
    }
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    for (int i = 0; i < times; i++) {
        fputs(text, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void test_a_file_that_is_no_database_is_refused(void **state)
{
    overwrite(*state, 0, "Dear diary, ", 1000);
    assert_refused(*state, "not an SQLite file; choose another name, or "
                           "restore a backup");
}

static void test_a_damaged_file_is_refused(void **state)
{
    tr_storage_close(open_store(*state));
    overwrite(*state, 100, "garbage ", 480);
    assert_refused(*state, "restore a backup, or save what is left with: "
                           "sqlite3 FILE .recover");
}

static void test_a_missing_folder_is_refused(void **state)
{
    folder missing = *(folder *)*state;

    snprintf(missing.database, sizeof(missing.database), "/nowhere/at/all");
    assert_refused(&missing, "the folder must exist and be writable");
}

static void test_options_without_a_size_are_refused(void **state)
{
    folder *it = *state;
    tr_storage *store;
    tr_storage_options options = {0};

    assert_int_equal(tr_storage_sqlite_with(&store, it->database, &options),
                     TR_EINVAL);
    assert_int_equal(tr_storage_sqlite(&store, it->database), TR_OK);
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_newer_file_is_refused),
        IN_FOLDER(test_a_file_too_old_is_refused),
        IN_FOLDER(test_a_file_of_layout_2_is_upgraded),
        IN_FOLDER(test_a_file_of_layout_3_is_upgraded),
        IN_FOLDER(test_a_file_of_another_program_is_refused),
        IN_FOLDER(test_a_file_that_is_no_database_is_refused),
        IN_FOLDER(test_a_damaged_file_is_refused),
        IN_FOLDER(test_a_missing_folder_is_refused),
        IN_FOLDER(test_options_without_a_size_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
