/*
 * sqlite_events_test.c - the events in a file are a chain: reads and appends
 * notice events that are lost, have a wrong number, or are old.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/sqlite_file.h"

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
    // No append follows a part, whichever number the caller names.
    assert_int_equal(append_texts(store, "a::b/c", 1, "x", NULL), TR_ESTORAGE);
    assert_int_equal(append_texts(store, "a::b/c", 2, "x", NULL), TR_ESTORAGE);
    tr_storage_close(store);

    lose(*state, "key = 'a::b/c' AND upto = 2");  // as the error text says
    store = open_store(*state);
    assert_events(store, "a::b/c", "");
    assert_int_equal(append_texts(store, "a::b/c", 0, "x", NULL), TR_OK);
    assert_events(store, "a::b/c", "1:x");
    tr_storage_close(store);
}

/* Appends one event after the one with the chain `behind`. */
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

/* Reads from `first` on, after the event with the chain `behind`. */
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

#define NOT_CHAINED(number)                                                    \
    "Serialization(event " number " does not follow the events before it; "    \
    "restore a backup)"

/*
 * Appends four events, deletes the last two (the table `before` keeps all),
 * and appends two others. first, second: the chains of both times.
 */
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
    // The same event as before, but after another one.
    assert_int_equal(append_behind(store, 3, second[3], "4", &second[4]),
                     TR_OK);
    assert_int_not_equal(first[4], second[4]);
    assert_events(store, "a::b/c", "1:1 2:2 3:three 4:4");
    tr_storage_close(store);
}

/* A page is old: its events are complete, and their numbers fit. */
static void test_ST9_ST15_a_page_with_old_events_is_an_error(void **state)
{
    uint64_t first[5], second[5], chain;
    uint32_t count;

    append_twice(*state, first, second);
    (void)sql_number(*state, "INSERT OR REPLACE INTO event"
                             " SELECT * FROM before WHERE number = 4");
    tr_storage *store = open_store(*state);
    assert_events(store, "a::b/c", NOT_CHAINED("4"));
    // Also by pages of the answer, and from the fourth event on.
    assert_int_equal(read_behind(store, 1, 0, 2, &count, &chain), TR_OK);
    assert_int_equal(count, 2);
    assert_true(chain == second[2]);
    assert_int_equal(read_behind(store, 3, chain, 2, &count, &chain),
                     TR_ESTORAGE);
    assert_int_equal(read_behind(store, 4, 0, 2, &count, &chain), TR_ESTORAGE);
    assert_int_equal(read_behind(store, 4, second[3], 2, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);

    (void)sql_number(*state, "INSERT OR REPLACE INTO event"
                             " SELECT * FROM before WHERE number = 3");
    store = open_store(*state);  // all events are old: not noticed
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

/* A damaged row is noticed, whichever number it has. */
static void test_ST9_ST15_an_event_with_a_wrong_number_is_an_error(void **state)
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
            // A search may miss the row; then it is as if it was trimmed.
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

/* A caller that names its chain gets no events of another chain. */
static void test_ST9_ST15_a_read_checks_the_chain_of_its_caller(void **state)
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
    // After the last event, where there is nothing to read.
    assert_int_equal(read_behind(store, 5, second[4], 0, &count, &chain),
                     TR_OK);
    assert_int_equal(count, 0);
    assert_true(chain == second[4]);
    assert_int_equal(read_behind(store, 5, first[4], 0, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);

    lose(*state, "number < 4");  // as if they were trimmed
    store = open_store(*state);
    assert_int_equal(read_behind(store, 4, second[3], 0, &count, &chain),
                     TR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(read_behind(store, 4, first[3], 0, &count, &chain),
                     TR_ESTORAGE);
    tr_storage_close(store);
}

/* An append after an event that the caller does not know is refused. */
static void test_ST10_an_append_checks_the_chain_of_its_caller(void **state)
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

    // The column prev is part of the sum.
    (void)sql_number(*state, "UPDATE event SET prev = NULL WHERE number = 5");
    store = open_store(*state);
    assert_damaged(store, "a::b/c");
    tr_storage_close(store);
}

/* SQLite would read a misplaced page of one table as rows of the other. */
static void test_ST9_ST15_a_row_of_the_state_table_is_no_event(void **state)
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

/* After trimming, the last event is still the end of its append. */
static void test_ST12_trimming_keeps_the_last_event_of_an_append(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_ST16_a_part_of_an_append_is_an_error),
        IN_FOLDER(test_ST9_ST15_a_page_with_old_events_is_an_error),
        IN_FOLDER(test_ST9_ST15_an_event_with_a_wrong_number_is_an_error),
        IN_FOLDER(test_ST9_ST15_a_read_checks_the_chain_of_its_caller),
        IN_FOLDER(test_ST10_an_append_checks_the_chain_of_its_caller),
        IN_FOLDER(test_ST9_ST15_a_row_of_the_state_table_is_no_event),
        IN_FOLDER(test_ST12_trimming_keeps_the_last_event_of_an_append),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
