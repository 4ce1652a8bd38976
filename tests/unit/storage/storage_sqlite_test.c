/*
 * storage_sqlite_test.c - the store in a file: it is there after a restart,
 * refuses files it does not understand, folds its journal, shares its file,
 * and loses nothing it has acknowledged, whatever fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "storage/storage_sqlite.h"
#include "support/fail_world.h"
#include "unit/storage/store_calls.h"

#define POINTS_MAX 20000  // file operations of the largest scenario, far off

static int make_folder(void **state)
{
    folder *it = calloc(1, sizeof(*it));

    *state = it;
    return it != NULL && folder_make(it) ? 0 : -1;
}

static int remove_folder(void **state)
{
    int result = folder_remove(*state);

    free(*state);
    return result;
}

static tr_storage *open_limited(const folder *it,
                                const tri_sqlite_limits *limits)
{
    tr_storage *store;
    tri_sqlite_fault why;

    if (tri_storage_sqlite_open(&store, tri_world_posix(), it->database, limits,
                                &why) != TR_OK) {
        fail_msg("%s", why.text);
    }
    return store;
}

static tr_storage *open_store(const folder *it)
{
    return open_limited(it, NULL);
}

/* Runs SQL on the file with SQLite's own files; the first number it gives. */
static int64_t sql_number(const folder *it, const char *sql)
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

static void assert_intact(const folder *it)
{
    assert_int_equal(sql_number(it,
                                "SELECT count(*) FROM pragma_integrity_check"
                                " WHERE integrity_check = 'ok'"),
                     1);
}

/* ---- opening ---- */

static void test_states_survive_a_restart(void **state)
{
    tr_storage *store = open_store(*state);
    asked fence = ask_for(TR_STORE_FENCE, NULL);

    fence.op.shard = 1;
    fence.op.epoch = 3;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "two"), TR_OK);
    assert_int_equal(save_text(store, "a::b/d", 0, "other"), TR_OK);
    tr_storage_close(store);

    store = open_store(*state);
    assert_stored(store, "a::b/c", "2:two");
    assert_stored(store, "a::b/d", "1:other");
    assert_int_equal(save_text(store, "a::b/c", 1, "stale"), TR_EFENCED);
    fence.op.epoch = 2;
    assert_int_equal(asked_run(&fence, store), TR_EFENCED);
    tr_storage_close(store);
    assert_intact(*state);
}

static void assert_refused(const folder *it, const char *expected)
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

static tr_err append_texts(tr_storage *store, const char *key, uint64_t last,
                           const char *one, const char *two)
{
    tri_store_bytes events[] = {bytes_of(one), bytes_of(two)};
    asked it = ask_for(TR_STORE_APPEND, key);

    it.op.number = last;
    it.op.events = events;
    it.op.event_count = two == NULL ? 1 : 2;
    return asked_run(&it, store);
}

/* "1:one 2:two", or what went wrong. */
static void read_texts(tr_storage *store, const char *key,
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
        size += (size_t)snprintf(out + size, LOADED_SIZE - size,
                                 "%s%llu:%.*s", size > 0 ? " " : "",
                                 (unsigned long long)row.number,
                                 (int)row.bytes.size,
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

static void assert_damaged(tr_storage *store, const char *key)
{
    char read[LOADED_SIZE];

    read_texts(store, key, read);
    assert_non_null(strstr(read, "the file is damaged"));
}

/* What layout 2 wrote is read, sums and all, and new events go behind it. */
static void test_an_older_file_is_brought_to_our_layout(void **state)
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
    assert_damaged(store, "a::b/d");  // and so it was before
    tr_storage_close(store);
    assert_int_equal(sql_number(*state, "PRAGMA user_version"), 4);
    assert_intact(*state);
}

/* The same of layout 3, whose events do not say what they follow. */
static void test_a_file_of_layout_3_is_brought_to_ours(void **state)
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
    // What is new says what it follows, also behind what is old.
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
    // And it was not touched.
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

static void test_what_is_no_database_is_refused(void **state)
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

/* ---- the journal ---- */

#define KEYS 40

static const tri_sqlite_limits small = {
    .batch = 8,
    .fold_rows = 16,
    .slice = 3,
    .checkpoint_pages = 4,
    .log_pages = 32,
};

/* Saves rounds of all keys, each round at once; then all must be there. */
static void save_rounds(tr_storage *store, uint32_t from, uint32_t to)
{
    asked ops[KEYS];
    char keys[KEYS][32], texts[KEYS][32];
    tri_list list;

    for (uint32_t round = from; round < to; round++) {
        tri_list_init(&list);
        for (uint32_t i = 0; i < KEYS; i++) {
            snprintf(keys[i], sizeof(keys[i]), "a::b/%u", i);
            snprintf(texts[i], sizeof(texts[i]), "%u in %u", i, round);
            ops[i] = ask_save(keys[i], round, texts[i]);
            tri_list_push_back(&list, &ops[i].op.link);
        }
        tri_storage_submit_all(store, &list);
        for (uint32_t i = 0; i < KEYS; i++) {
            asked_wait(&ops[i]);
            assert_int_equal(ops[i].op.err, TR_OK);
        }
    }
}

static void check_round(tr_storage *store, uint32_t round)
{
    char key[32], expected[48];

    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "a::b/%u", i);
        snprintf(expected, sizeof(expected), "%u:%u in %u", round + 1, i,
                 round);
        assert_stored(store, key, expected);
    }
}

static void test_the_journal_is_bounded_and_folded(void **state)
{
    tr_storage *store = open_limited(*state, &small);
    const uint32_t rounds = 30;

    for (uint32_t round = 0; round < rounds; round++) {
        save_rounds(store, round, round + 1);
        check_round(store, round);
        // Twice the limit forces a fold; a round comes on top of that, and
        // while a generation is folded half as much comes in again.
        assert_in_range(sql_number(*state, "SELECT count(*) FROM journal"), 1,
                        5 * KEYS);
    }
    assert_true(sql_number(*state, "SELECT folded FROM mark") > 0);
    assert_in_range(sql_number(*state, "SELECT count(*) FROM state"), 1, KEYS);
    tr_storage_close(store);
    // What was not folded yet is found in the journal again.
    store = open_store(*state);
    check_round(store, rounds - 1);
    tr_storage_close(store);
    assert_intact(*state);
}

static void test_an_idle_store_folds_everything(void **state)
{
    static const tri_sqlite_limits idle = {.idle = 1};
    tr_storage *store = open_limited(*state, &idle);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/0");

    save_rounds(store, 0, 2);
    delete.op.number = 2;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    // The last row stays in the journal; see sqlite_fold.c.
    while (sql_number(*state, "SELECT count(*) FROM journal") > 1) {
    }
    assert_int_equal(sql_number(*state, "SELECT count(*) FROM state"),
                     KEYS - 1);
    assert_stored(store, "a::b/0", "none");
    assert_stored(store, "a::b/1", "2:1 in 1");
    tr_storage_close(store);
}

/* SQLite sums its log only: a flipped bit in a page is for us to find. */
static void test_ST16_a_damaged_row_is_an_error(void **state)
{
    static const tri_sqlite_limits idle = {.idle = 1};
    tr_storage *store = open_limited(*state, &idle);

    save_rounds(store, 0, 2);
    while (sql_number(*state, "SELECT count(*) FROM journal") > 1) {
    }
    tr_storage_close(store);
    (void)sql_number(*state, "UPDATE state SET bytes = '1 in 2'"
                             " WHERE key = 'a::b/1'");
    (void)sql_number(*state, "UPDATE state SET version = 7"
                             " WHERE key = 'a::b/2'");
    store = open_store(*state);
    assert_stored(store, "a::b/1", "TR_ESTORAGE");
    assert_stored(store, "a::b/2", "TR_ESTORAGE");
    assert_stored(store, "a::b/3", "2:3 in 1");
    tr_storage_close(store);
    // Of the journal it is found at once.
    (void)sql_number(*state, "UPDATE journal SET bytes = 'x'");
    (void)sql_number(*state, "UPDATE mark SET folded = 0");
    assert_refused(*state, "the file is damaged");
}

static void lose(const folder *it, const char *where)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "DELETE FROM event WHERE %s", where);
    (void)sql_number(it, sql);
}

/* A disk may lose a page, and with it any part of an append. */
static void test_ST16_a_part_of_an_append_is_an_error(void **state)
{
    tr_storage *store = open_store(*state);

    assert_int_equal(append_texts(store, "a::b/c", 0, "one", "two"), TR_OK);
    assert_int_equal(append_texts(store, "a::b/d", 0, "one", "two"), TR_OK);
    assert_int_equal(append_texts(store, "a::b/d", 2, "three", NULL), TR_OK);
    assert_int_equal(append_texts(store, "a::b/e", 0, "one", "two"), TR_OK);
    tr_storage_close(store);
    lose(*state, "key = 'a::b/c' AND number = 2");
    lose(*state, "key = 'a::b/d' AND number = 2");

    store = open_store(*state);
    assert_events(store, "a::b/c",
                  "Serialization(event 2 is lost, a part of its append is "
                  "there; restore a backup, or drop that part: DELETE FROM "
                  "event WHERE upto = 2 AND key = ...)");
    assert_events(store, "a::b/d",
                  "Serialization(event 2 is lost, a part of its append is "
                  "there; restore a backup, or drop that part: DELETE FROM "
                  "event WHERE upto = 2 AND key = ...)");
    assert_events(store, "a::b/e", "1:one 2:two");
    // Nothing goes behind a part, whatever number the caller knows.
    assert_int_equal(append_texts(store, "a::b/c", 1, "x", NULL), TR_ESTORAGE);
    assert_int_equal(append_texts(store, "a::b/c", 2, "x", NULL), TR_ESTORAGE);
    tr_storage_close(store);

    lose(*state, "key = 'a::b/c' AND upto = 2");  // as the text says
    store = open_store(*state);
    assert_events(store, "a::b/c", "");
    assert_int_equal(append_texts(store, "a::b/c", 0, "x", NULL), TR_OK);
    assert_events(store, "a::b/c", "1:x");
    tr_storage_close(store);
}

/* `chain` of the last event, by an append of one that knows `behind`. */
static tr_err append_behind(tr_storage *store, uint64_t last, uint64_t behind,
                            const char *text, uint64_t *chain)
{
    tri_store_bytes event = bytes_of(text);
    asked it = ask_for(TR_STORE_APPEND, "a::b/c");

    it.op.number = last;
    it.op.behind = behind;
    it.op.events = &event;
    it.op.event_count = 1;
    tr_err err = asked_run(&it, store);
    *chain = it.op.chain;
    return err;
}

/* Reads from `first` on, `behind` an event; how many, `chain` of the last. */
static tr_err read_behind(tr_storage *store, uint64_t first, uint64_t behind,
                          uint32_t limit, uint32_t *count, uint64_t *chain)
{
    asked it = ask_for(TR_STORE_READ, "a::b/c");
    tri_store_row row;

    it.op.number = first;
    it.op.behind = behind;
    it.op.limit = limit;
    tr_err err = asked_run(&it, store);
    *count = 0;
    for (size_t at = 0; tri_store_row_next(&it.op, &at, &row);) {
        (*count)++;
    }
    *chain = it.op.chain;
    tri_store_op_fini(&it.op);
    return err;
}

#define STRANGE(number)                                                        \
    "Serialization(event " number " is of another time than those before it; " \
    "restore a backup)"

/* Four events; then the last two are lost, and two others are there. */
static void append_twice(const folder *it, uint64_t first[5],
                         uint64_t second[5])
{
    static const char *const texts[] = {"", "1", "2", "3", "4"};
    tr_storage *store = open_store(it);

    first[0] = 0;
    for (uint64_t i = 1; i <= 4; i++) {
        assert_int_equal(
            append_behind(store, i - 1, first[i - 1], texts[i], &first[i]),
            TR_OK);
        assert_int_not_equal(first[i], first[i - 1]);
        second[i] = first[i];
    }
    tr_storage_close(store);
    (void)sql_number(it, "CREATE TABLE before AS SELECT * FROM event");
    lose(it, "number > 2");
    store = open_store(it);
    assert_int_equal(append_behind(store, 2, second[2], "three", &second[3]),
                     TR_OK);
    // The same as before, but it follows another one.
    assert_int_equal(append_behind(store, 3, second[3], "4", &second[4]),
                     TR_OK);
    assert_int_not_equal(first[4], second[4]);
    assert_events(store, "a::b/c", "1:1 2:2 3:three 4:4");
    tr_storage_close(store);
}

/* A page is as it was before: its events are whole, and their numbers fit. */
static void test_ST9_ST15_events_of_another_time_are_an_error(void **state)
{
    uint64_t first[5], second[5], chain;
    uint32_t count;

    append_twice(*state, first, second);
    (void)sql_number(*state, "INSERT OR REPLACE INTO event"
                             " SELECT * FROM before WHERE number = 4");
    tr_storage *store = open_store(*state);
    assert_events(store, "a::b/c", STRANGE("4"));
    // Page by page, and from there on as well.
    assert_int_equal(read_behind(store, 1, 0, 2, &count, &chain), TR_OK);
    assert_int_equal(count, 2);
    assert_true(chain == second[2]);
    assert_int_equal(read_behind(store, 3, chain, 2, &count, &chain),
                     TR_ESTORAGE);
    assert_int_equal(read_behind(store, 4, 0, 2, &count, &chain),
                     TR_ESTORAGE);
    assert_int_equal(read_behind(store, 4, second[3], 2, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);

    (void)sql_number(*state, "INSERT OR REPLACE INTO event"
                             " SELECT * FROM before WHERE number = 3");
    store = open_store(*state);  // all of before: nobody can know
    assert_events(store, "a::b/c", "1:1 2:2 3:3 4:4");
    tr_storage_close(store);
}

/* Overwrites the number of the event whose text is "two", in its page. */
static void renumber(const folder *it, char from, char to)
{
    const char row[] = {'a', ':', ':', 'b', '/', 'c', from, 't', 'w', 'o'};
    size_t fits = 0;
    FILE *file = fopen(it->database, "r+");

    assert_non_null(file);
    while (fits < sizeof(row)) {
        int byte = fgetc(file);
        assert_int_not_equal(byte, EOF);
        fits = byte == row[fits] ? fits + 1 : byte == row[0];
    }
    assert_int_equal(fseek(file, -4, SEEK_CUR), 0);
    assert_int_equal(fputc(to, file), to);
    assert_int_equal(fclose(file), 0);
}

/* Whatever number a damaged row has, it is not passed over. */
static void test_ST9_ST15_an_event_out_of_place_is_an_error(void **state)
{
    static const char numbers[] = {0, 1, 3, 4, 100};
    tr_storage *store = open_store(*state);
    uint32_t count;
    uint64_t chain;

    assert_int_equal(append_texts(store, "a::b/c", 0, "one", "two"), TR_OK);
    assert_int_equal(append_texts(store, "a::b/c", 2, "three", "four"), TR_OK);
    tr_storage_close(store);
    for (size_t i = 0; i < sizeof(numbers); i++) {
        renumber(*state, 2, numbers[i]);
        store = open_store(*state);
        for (uint64_t first = 1; first <= 3; first++) {
            tr_err err = read_behind(store, first, 0, 0, &count, &chain);
            // SQLite may not find it behind the first: as if it was trimmed.
            if (err != TR_ESTORAGE && (first == 1 || count > 2)) {
                fail_msg("%u events from %u on, %d", count, (unsigned)first,
                         numbers[i]);
            }
        }
        tr_storage_close(store);
        renumber(*state, numbers[i], 2);
    }
    store = open_store(*state);
    assert_events(store, "a::b/c", "1:one 2:two 3:three 4:four");
    tr_storage_close(store);
}

/* Who knows what it has seen gets nothing that follows something else. */
static void test_ST9_ST15_a_reader_knows_what_is_before(void **state)
{
    uint64_t first[5], second[5], chain;
    uint32_t count;

    append_twice(*state, first, second);
    tr_storage *store = open_store(*state);
    assert_int_equal(read_behind(store, 4, second[3], 0, &count, &chain),
                     TR_OK);
    assert_int_equal(count, 1);
    assert_true(chain == second[4]);
    assert_int_equal(read_behind(store, 4, first[3], 0, &count, &chain),
                     TR_ESTORAGE);
    // Behind the last one, where nothing is to be read.
    assert_int_equal(read_behind(store, 5, second[4], 0, &count, &chain),
                     TR_OK);
    assert_int_equal(count, 0);
    assert_true(chain == second[4]);
    assert_int_equal(read_behind(store, 5, first[4], 0, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);

    lose(*state, "number < 4");  // as trimming does
    store = open_store(*state);
    assert_int_equal(read_behind(store, 4, second[3], 0, &count, &chain),
                     TR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(read_behind(store, 4, first[3], 0, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);
}

/* Nor does a writer go on behind an event that is not the one it knows. */
static void test_ST10_an_append_knows_what_is_before(void **state)
{
    uint64_t first[5], second[5], chain;

    append_twice(*state, first, second);
    tr_storage *store = open_store(*state);
    assert_int_equal(append_behind(store, 4, first[4], "5", &chain),
                     TR_EFENCED);
    assert_events(store, "a::b/c", "1:1 2:2 3:three 4:4");
    assert_int_equal(append_behind(store, 4, second[4], "5", &chain), TR_OK);
    assert_events(store, "a::b/c", "1:1 2:2 3:three 4:4 5:5");
    tr_storage_close(store);

    // What an event says that it follows is under its sum.
    (void)sql_number(*state, "UPDATE event SET prev = NULL WHERE number = 5");
    store = open_store(*state);
    assert_damaged(store, "a::b/c");
    tr_storage_close(store);
}

/* Both tables are alike to SQLite: a page of the one may lie in the other. */
static void test_ST9_ST15_a_state_is_no_event(void **state)
{
    static const tri_sqlite_limits idle = {.idle = 1};
    tr_storage *store = open_limited(*state, &idle);

    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_int_equal(append_texts(store, "a::b/d", 0, "one", NULL), TR_OK);
    while (sql_number(*state, "SELECT count(*) FROM state") == 0) {
    }
    tr_storage_close(store);
    (void)sql_number(*state, "INSERT INTO event (key, number, bytes, sum)"
                             " SELECT key, version, bytes, sum FROM state");
    (void)sql_number(*state, "INSERT INTO state SELECT key, number, bytes, sum"
                             " FROM event WHERE key = 'a::b/d'");
    store = open_store(*state);
    assert_damaged(store, "a::b/c");
    assert_int_equal(append_texts(store, "a::b/c", 1, "two", NULL),
                     TR_ESTORAGE);
    assert_stored(store, "a::b/d", "TR_ESTORAGE");
    tr_storage_close(store);
}

/* Trimming leaves the last event alone, which is the end of its append. */
static void test_ST12_a_trimmed_append_is_whole(void **state)
{
    tr_storage *store = open_store(*state);
    asked trim = ask_for(TR_STORE_TRIM, "a::b/c");

    assert_int_equal(append_texts(store, "a::b/c", 0, "one", "two"), TR_OK);
    trim.op.number = 2;
    assert_int_equal(asked_run(&trim, store), TR_OK);
    assert_events(store, "a::b/c", "2:two");
    assert_int_equal(append_texts(store, "a::b/c", 2, "three", "four"), TR_OK);
    assert_events(store, "a::b/c", "2:two 3:three 4:four");
    tr_storage_close(store);
}

/* ---- several stores on one file ---- */

static void test_two_stores_see_each_other(void **state)
{
    tr_storage *one = open_limited(*state, &small);
    tr_storage *two = open_limited(*state, &small);
    asked fence = ask_for(TR_STORE_FENCE, NULL);

    for (uint32_t i = 0; i < 30; i++) {
        // Both fold what the other one saved.
        save_rounds(i % 2 == 0 ? one : two, i, i + 1);
        check_round(i % 2 == 0 ? two : one, i);
        check_round(i % 2 == 0 ? one : two, i);
    }
    assert_int_equal(save_text(two, "a::b/0", 29, "stale"), TR_EFENCED);
    fence.op.epoch = 2;
    assert_int_equal(asked_run(&fence, one), TR_OK);
    assert_int_equal(save_text(two, "a::b/0", 30, "epoch 0"), TR_EFENCED);
    tr_storage_close(one);
    tr_storage_close(two);
    assert_intact(*state);
}

/*
 * What one remembers of the table by key, from its own folds and from loads,
 * is worth nothing once another has folded.
 */
static void test_ST12_a_remembered_version_is_not_trusted_for_ever(void **state)
{
    tr_storage *one = open_limited(*state, &small);
    tr_storage *two = open_limited(*state, &small);
    char key[32];

    save_rounds(one, 0, 3);
    check_round(one, 2);
    save_rounds(two, 3, 9);
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "a::b/%u", i);
        assert_int_equal(save_text(one, key, 3, "stale"), TR_EFENCED);
    }
    save_rounds(one, 9, 10);
    check_round(two, 9);
    tr_storage_close(one);
    tr_storage_close(two);
    assert_intact(*state);
}

static void test_a_load_tells_the_writer_the_version(void **state)
{
    tr_storage *store = open_store(*state);
    tri_sqlite_store *inner = tri_container_of(store, tri_sqlite_store, base);
    uint64_t version = 7;

    assert_stored(store, "a::b/c", "none");
    assert_true(
        tri_versions_get(&inner->versions, bytes_of("a::b/c"), &version));
    assert_int_equal(version, 0);
    // The writer's first transaction finds that nobody else has written.
    assert_int_equal(save_text(store, "a::b/d", 0, "other"), TR_OK);
    assert_true(
        tri_versions_get(&inner->versions, bytes_of("a::b/c"), &version));
    assert_int_equal(save_text(store, "a::b/c", 1, "stale"), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_stored(store, "a::b/c", "1:one");
    tr_storage_close(store);
    assert_intact(*state);
}

#define PROCESSES   3
#define COUNTS_EACH 60

/* Adds to a counter that all processes share; 0 if all went well. */
static int count_up(const folder *it)
{
    tr_storage *store;
    tri_sqlite_fault why;
    uint32_t won = 0;

    if (tri_storage_sqlite_open(&store, tri_world_posix(), it->database, &small,
                                &why) != TR_OK) {
        fprintf(stderr, "open: %s\n", why.text);
        return 1;
    }
    for (uint32_t i = 0; won < COUNTS_EACH; i++) {
        char key[32], next[32];
        snprintf(key, sizeof(key), "a::b/%u", i % 2);
        asked load = ask_for(TR_STORE_LOAD, key);
        if (asked_run(&load, store) != TR_OK) {
            return 2;
        }
        uint64_t version = load.op.version;
        uint64_t stored = load.op.found ? strtoull(load.op.out, NULL, 10) : 0;
        tri_store_op_fini(&load.op);
        if (stored != version) {
            return 3;
        }
        snprintf(next, sizeof(next), "%llu ", (unsigned long long)version + 1);
        tr_err err = save_text(store, key, version, next);
        if (err != TR_OK && err != TR_EFENCED) {
            return 4;
        }
        won += err == TR_OK;
    }
    tr_storage_close(store);
    return 0;
}

static void test_processes_share_a_file(void **state)
{
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(count_up(*state));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    tr_storage *store = open_store(*state);
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        asked load = ask_for(TR_STORE_LOAD, i == 0 ? "a::b/0" : "a::b/1");
        assert_int_equal(asked_run(&load, store), TR_OK);
        sum += load.op.version;
        tri_store_op_fini(&load.op);
    }
    assert_int_equal(sum, PROCESSES * COUNTS_EACH);
    tr_storage_close(store);
    assert_intact(*state);
}

#define OPENINGS 20

/* Whoever comes first makes the tables; the others find them. */
static void test_processes_open_a_new_file_at_once(void **state)
{
    for (int round = 0; round < OPENINGS; round++) {
        pid_t children[PROCESSES];
        folder_clean(*state);
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                tr_storage *store;
                tri_sqlite_fault why;
                folder *it = *state;
                tr_err err = tri_storage_sqlite_open(&store, tri_world_posix(),
                                                     it->database, NULL, &why);
                if (err != TR_OK) {
                    fprintf(stderr, "open: %s\n", why.text);
                    _exit(1);
                }
                tr_storage_close(store);
                _exit(0);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
    }
}

/* ---- what fails ---- */

#define STEPS 12

/* What a caller knows about one key. */
typedef struct known {
    uint64_t version;  // the last acknowledged one
    uint64_t maybe;    // a higher one whose outcome is unknown, or 0
} known;

static void note_answer(known *it, const asked *save)
{
    if (save->op.err == TR_OK) {
        it->version = save->op.version;
        it->maybe = 0;
    } else if (save->op.err == TR_EUNKNOWN) {
        it->maybe = save->op.number + 1;
    } else if (save->op.err == TR_EFENCED) {
        // What was unknown has been written after all.
        assert_true(it->maybe != 0);
        it->version = it->maybe;
        it->maybe = 0;
    } else {
        assert_true(save->op.err == TR_EIO || save->op.err == TR_ESTORAGE);
        assert_string_not_equal(save->op.text, "");
    }
}

/* Saves, loads and folds on a world that may fail. */
static void run_on(tri_world *world, const folder *it, known keys[KEYS])
{
    static const tri_sqlite_limits tiny = {
        .batch = 4,
        .fold_rows = 4,
        .slice = 2,
        .checkpoint_pages = 2,
        .log_pages = 8,
    };
    tr_storage *store;
    tri_sqlite_fault why;
    asked saves[3];
    char texts[3][32], loaded[LOADED_SIZE];
    static const char *const names[] = {"a::b/0", "a::b/1", "a::b/2"};

    if (tri_storage_sqlite_open(&store, world, it->database, &tiny, &why) !=
        TR_OK) {
        assert_string_not_equal(why.text, "");
        return;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 3; i++) {
            snprintf(texts[i], sizeof(texts[i]), "state %llu",
                     (unsigned long long)keys[i].version + 1);
            saves[i] = ask_save(names[i], keys[i].version, texts[i]);
            asked_submit(&saves[i], store);
        }
        for (int i = 0; i < 3; i++) {
            asked_wait(&saves[i]);
            note_answer(&keys[i], &saves[i]);
        }
        (void)load_text(store, "a::b/1", loaded);
    }
    tr_storage_close(store);
}

/* All that was acknowledged is there, and nothing that was refused. */
static void check_known(tri_world *world, const folder *it,
                        const known keys[KEYS])
{
    tr_storage *store;
    tri_sqlite_fault why;
    if (tri_storage_sqlite_open(&store, world, it->database, NULL, &why) !=
        TR_OK) {
        fail_msg("%s", why.text);
    }
    static const char *const names[] = {"a::b/0", "a::b/1", "a::b/2"};

    for (int i = 0; i < 3; i++) {
        asked load = ask_for(TR_STORE_LOAD, names[i]);
        char expected[32];
        assert_int_equal(asked_run(&load, store), TR_OK);
        uint64_t version = load.op.version;
        if (version != keys[i].version &&
            (keys[i].maybe == 0 || version != keys[i].maybe)) {
            fail_msg("key %d: version %llu is stored, %llu was acknowledged, "
                     "%llu is unknown",
                     i, (unsigned long long)version,
                     (unsigned long long)keys[i].version,
                     (unsigned long long)keys[i].maybe);
        }
        if (version > 0) {
            snprintf(expected, sizeof(expected), "state %llu",
                     (unsigned long long)version);
            assert_int_equal(load.op.out_size, strlen(expected));
            assert_memory_equal(load.op.out, expected, load.op.out_size);
        }
        tri_store_op_fini(&load.op);
    }
    tr_storage_close(store);
    assert_intact(it);
}

/* Fails the n-th file operation, for every n, until none is left to fail. */
static void fail_every(const folder *it, fail_kind kind)
{
    fail_world *world = fail_world_new(tri_world_posix());
    uint64_t n = 0;
    bool failed;

    do {
        known keys[KEYS] = {{0, 0}};
        folder_clean(it);
        fail_world_arm(world, ++n, kind);
        run_on(fail_world_of(world), it, keys);
        failed = fail_world_has_failed(world);
        fail_world_arm(world, 0, kind);
        // In the same world, which waits for no disk: there are many.
        check_known(fail_world_of(world), it, keys);
        assert_true(n < POINTS_MAX);
        // Later ones are much alike; every one is tried on longer runs.
        n += n > 200 && test_scale() == 1 ? n % 7 : 0;
    } while (failed);
    assert_true(n > 50);
    fail_world_free(world);
}

static void test_any_operation_may_fail_once(void **state)
{
    fail_every(*state, FAIL_ONCE);
}

static void test_the_disk_may_go_at_any_operation(void **state)
{
    fail_every(*state, FAIL_ON);
}

static void test_any_sync_may_fail(void **state)
{
    fail_every(*state, FAIL_SYNC);
}

/* ---- writes of unknown outcome ---- */

static void copy_file(const char *from, const char *to)
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

/* What a process would find in the file if ours and the machine ended now. */
static void load_after_crash(const folder *it, const char *key,
                             char out[LOADED_SIZE])
{
    folder other;
    char wal[sizeof(it->database) + 8], other_wal[sizeof(it->database) + 8];

    assert_true(folder_make(&other));
    snprintf(wal, sizeof(wal), "%s-wal", it->database);
    snprintf(other_wal, sizeof(other_wal), "%s-wal", other.database);
    copy_file(it->database, other.database);
    copy_file(wal, other_wal);
    tr_storage *store = open_store(&other);
    (void)load_text(store, key, out);
    tr_storage_close(store);
    assert_int_equal(folder_remove(&other), 0);
}

/*
 * The n-th operation of a save fails, for every n. If the outcome is unknown,
 * a load says what it is, and a crash does not change that.
 */
static void test_ST10_a_load_after_an_unknown_save_stays_true(void **state)
{
    const folder *it = *state;
    fail_world *world = fail_world_new(tri_world_posix());
    uint32_t unknown = 0;
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        char loaded[LOADED_SIZE], later[LOADED_SIZE];
        tr_storage *store;
        tri_sqlite_fault why;
        folder_clean(it);
        assert_int_equal(tri_storage_sqlite_open(&store, fail_world_of(world),
                                                 it->database, NULL, &why),
                         TR_OK);
        assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
        fail_world_arm(world, n, FAIL_ONCE);
        tr_err err = save_text(store, "a::b/c", 1, "two");
        failed = fail_world_has_failed(world);
        fail_world_arm(world, 0, FAIL_ONCE);
        if (err == TR_EUNKNOWN) {
            unknown++;
            (void)load_text(store, "a::b/c", loaded);
            load_after_crash(it, "a::b/c", later);
            assert_string_equal(loaded, later);
        }
        tr_storage_close(store);
        assert_true(n < POINTS_MAX);
    }
    assert_true(unknown > 1);
    fail_world_free(world);
}

/* While the disk takes no write, nobody is told what may not stay. */
static void test_ST10_loads_wait_until_the_outcome_is_settled(void **state)
{
    const folder *it = *state;
    fail_world *world = fail_world_new(tri_world_posix());
    tr_storage *store;
    tri_sqlite_fault why;

    assert_int_equal(tri_storage_sqlite_open(&store, fail_world_of(world),
                                             it->database, NULL, &why),
                     TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    fail_world_arm(world, 1, FAIL_SYNC);
    assert_int_equal(save_text(store, "a::b/c", 1, "two"), TR_EUNKNOWN);
    asked load = ask_for(TR_STORE_LOAD, "a::b/c");
    assert_int_equal(asked_run(&load, store), TR_ESTORAGE);
    assert_non_null(strstr(load.op.text, "whether an earlier write was done"));
    tri_store_op_fini(&load.op);
    fail_world_arm(world, 0, FAIL_SYNC);
    // Without any other call it is settled, some time.
    char loaded[LOADED_SIZE];
    while (strcmp(load_text(store, "a::b/c", loaded), "TR_ESTORAGE") == 0) {
    }
    char later[LOADED_SIZE];
    load_after_crash(it, "a::b/c", later);
    assert_string_equal(loaded, later);
    assert_true(strcmp(loaded, "1:one") == 0 || strcmp(loaded, "2:two") == 0);
    uint64_t version = loaded[0] == '1' ? 1 : 2;
    assert_int_equal(save_text(store, "a::b/c", version, "other"), TR_OK);
    tr_storage_close(store);
    fail_world_free(world);
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_states_survive_a_restart),
        IN_FOLDER(test_a_newer_file_is_refused),
        IN_FOLDER(test_a_file_too_old_is_refused),
        IN_FOLDER(test_an_older_file_is_brought_to_our_layout),
        IN_FOLDER(test_a_file_of_layout_3_is_brought_to_ours),
        IN_FOLDER(test_a_file_of_another_program_is_refused),
        IN_FOLDER(test_what_is_no_database_is_refused),
        IN_FOLDER(test_a_damaged_file_is_refused),
        IN_FOLDER(test_a_missing_folder_is_refused),
        IN_FOLDER(test_options_without_a_size_are_refused),
        IN_FOLDER(test_the_journal_is_bounded_and_folded),
        IN_FOLDER(test_an_idle_store_folds_everything),
        IN_FOLDER(test_ST16_a_damaged_row_is_an_error),
        IN_FOLDER(test_ST16_a_part_of_an_append_is_an_error),
        IN_FOLDER(test_ST9_ST15_events_of_another_time_are_an_error),
        IN_FOLDER(test_ST9_ST15_an_event_out_of_place_is_an_error),
        IN_FOLDER(test_ST9_ST15_a_reader_knows_what_is_before),
        IN_FOLDER(test_ST10_an_append_knows_what_is_before),
        IN_FOLDER(test_ST9_ST15_a_state_is_no_event),
        IN_FOLDER(test_ST12_a_trimmed_append_is_whole),
        IN_FOLDER(test_two_stores_see_each_other),
        IN_FOLDER(test_ST12_a_remembered_version_is_not_trusted_for_ever),
        IN_FOLDER(test_a_load_tells_the_writer_the_version),
        IN_FOLDER(test_processes_open_a_new_file_at_once),
        IN_FOLDER(test_processes_share_a_file),
        IN_FOLDER(test_any_operation_may_fail_once),
        IN_FOLDER(test_the_disk_may_go_at_any_operation),
        IN_FOLDER(test_any_sync_may_fail),
        IN_FOLDER(test_ST10_a_load_after_an_unknown_save_stays_true),
        IN_FOLDER(test_ST10_loads_wait_until_the_outcome_is_settled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
