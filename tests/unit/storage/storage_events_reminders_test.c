/*
 * storage_events_reminders_test.c - what every store promises about events and
 * reminders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/all_stores.h"

/* ---- events ---- */

static tr_err append_events(tr_storage *store, uint64_t last,
                            const tri_store_bytes *events, uint32_t count)
{
    asked append = ask_for(TR_STORE_APPEND, "a::b/log");

    append.op.number = last;
    append.op.events = events;
    append.op.event_count = count;
    return asked_run(&append, store);
}

/* "1=one 2=two", then "+" if there is more, then the last number. */
static void assert_events(tr_storage *store, uint64_t from, uint32_t limit,
                          const char *expected)
{
    asked read = ask_for(TR_STORE_READ, "a::b/log");
    char text[256] = "";
    tri_store_row row;
    size_t at = 0, length = 0;

    read.op.number = from;
    read.op.limit = limit;
    assert_int_equal(asked_run(&read, store), TR_OK);
    while (tri_store_row_next(&read.op, &at, &row)) {
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "%llu=%.*s ",
                             (unsigned long long)row.number,
                             (int)row.bytes.size, (const char *)row.bytes.at);
    }
    snprintf(text + length, sizeof(text) - length, "%slast %llu",
             read.op.more ? "+ " : "", (unsigned long long)read.op.version);
    assert_string_equal(text, expected);
    tri_store_op_fini(&read.op);
}

static void test_events_are_numbered(void **state)
{
    tr_storage *store = store_of(state);
    const tri_store_bytes events[] = {bytes_of("one"), bytes_of("two"),
                                      bytes_of("")};

    assert_events(store, 1, 0, "last 0");
    assert_int_equal(append_events(store, 0, events, 2), TR_OK);
    assert_int_equal(append_events(store, 0, events, 1), TR_EFENCED);
    assert_int_equal(append_events(store, 2, events + 2, 1), TR_OK);
    assert_int_equal(append_events(store, 3, NULL, 0), TR_OK);
    assert_events(store, 0, 0, "1=one 2=two 3= last 3");
    assert_events(store, 2, 1, "2=two + last 3");
    assert_events(store, 4, 0, "last 3");
    // The state of the same key is independent of its events.
    assert_stored(store, "a::b/log", "none");
    assert_int_equal(save_text(store, "a::b/log", 0, "snapshot"), TR_OK);
    assert_events(store, 3, 0, "3= last 3");
}

static void test_trimming_keeps_the_last_event(void **state)
{
    tr_storage *store = store_of(state);
    const tri_store_bytes events[] = {bytes_of("a"), bytes_of("b"),
                                      bytes_of("c")};
    asked trim = ask_for(TR_STORE_TRIM, "a::b/log");

    trim.op.number = 9;
    assert_int_equal(asked_run(&trim, store), TR_OK);
    assert_false(trim.op.found);
    assert_int_equal(append_events(store, 0, events, 3), TR_OK);
    trim.op.number = 1;
    assert_int_equal(asked_run(&trim, store), TR_OK);
    assert_events(store, 1, 0, "2=b 3=c last 3");
    trim.op.number = 9;
    assert_int_equal(asked_run(&trim, store), TR_OK);
    assert_events(store, 1, 0, "3=c last 3");
    assert_int_equal(append_events(store, 3, events, 1), TR_OK);
    assert_events(store, 1, 0, "3=c 4=a last 4");
}

/* ---- reminders ---- */

static void remind(tr_storage *store, uint32_t shard, const char *key,
                   const char *name, uint64_t due)
{
    asked it = ask_for(TR_STORE_REMIND, key);

    it.op.shard = shard;
    it.op.name = bytes_of(name);
    it.op.number = due;
    it.op.bytes = bytes_of(name);
    assert_int_equal(asked_run(&it, store), TR_OK);
}

/* "due key name=bytes;" for each reminder, read in pages of two. */
static void assert_reminders(tr_storage *store, uint32_t shard, uint64_t until,
                             const char *expected)
{
    char text[256] = "", key[64] = "", name[64] = "";
    asked list = ask_for(TR_STORE_REMINDERS, key);
    size_t length = 0;
    bool more = true;

    list.op.shard = shard;
    list.op.number = until;
    list.op.limit = 2;
    while (more) {
        tri_store_row row;
        size_t at = 0;
        list.op.key = bytes_of(key);
        list.op.name = bytes_of(name);
        assert_int_equal(asked_run(&list, store), TR_OK);
        while (tri_store_row_next(&list.op, &at, &row)) {
            snprintf(key, sizeof(key), "%.*s", (int)row.key.size,
                     (const char *)row.key.at);
            snprintf(name, sizeof(name), "%.*s", (int)row.name.size,
                     (const char *)row.name.at);
            list.op.after = row.number;
            length += (size_t)snprintf(
                text + length, sizeof(text) - length, "%llu %s %s=%.*s;",
                (unsigned long long)row.number, key, name, (int)row.bytes.size,
                (const char *)row.bytes.at);
        }
        more = list.op.more;
        tri_store_op_fini(&list.op);
    }
    assert_string_equal(text, expected);
}

static void test_reminders_are_listed_by_time(void **state)
{
    tr_storage *store = store_of(state);
    asked forget = ask_for(TR_STORE_FORGET, "a::b/1");

    assert_reminders(store, 3, 100, "");
    remind(store, 3, "a::b/2", "late", 90);
    remind(store, 3, "a::b/1", "y", 20);
    remind(store, 3, "a::b/1", "x", 20);
    remind(store, 3, "a::b/2", "soon", 10);
    remind(store, 4, "a::b/9", "other", 1);
    assert_reminders(store, 3, 100,
                     "10 a::b/2 soon=soon;20 a::b/1 x=x;20 a::b/1 y=y;"
                     "90 a::b/2 late=late;");
    assert_reminders(store, 3, 20,
                     "10 a::b/2 soon=soon;20 a::b/1 x=x;20 a::b/1 y=y;");
    // Setting a reminder again changes its due time.
    remind(store, 3, "a::b/1", "x", 95);
    forget.op.name = bytes_of("y");
    assert_int_equal(asked_run(&forget, store), TR_OK);
    assert_true(forget.op.found);
    assert_int_equal(asked_run(&forget, store), TR_OK);
    assert_false(forget.op.found);
    assert_reminders(store, 3, 100,
                     "10 a::b/2 soon=soon;90 a::b/2 late=late;95 a::b/1 x=x;");
}

/* Of two changes that expect the same due time the second one fails. */
static void test_ST9_a_reminder_changes_only_if_it_is_due_as_expected(
    void **state)
{
    tr_storage *store = store_of(state);
    asked it = ask_for(TR_STORE_REMIND, "a::b/c");

    it.op.name = bytes_of("n");
    it.op.number = 20;
    it.op.after = 10;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_false(it.op.found);  // no such reminder
    it.op.number = 10;
    it.op.after = 0;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_true(it.op.found);
    it.op.number = 20;
    it.op.after = 10;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_true(it.op.found);
    it.op.number = 30;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_false(it.op.found);  // it is due at 20

    it = ask_for(TR_STORE_FORGET, "a::b/c");
    it.op.name = bytes_of("n");
    it.op.after = 10;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_false(it.op.found);
    it.op.after = 20;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_true(it.op.found);
}

static void test_reminders_are_fenced(void **state)
{
    asked it = ask_for(TR_STORE_FENCE, "a::b/c");

    it.op.epoch = 2;
    assert_int_equal(asked_run(&it, store_of(state)), TR_OK);
    it = ask_for(TR_STORE_REMIND, "a::b/c");
    it.op.name = bytes_of("n");
    it.op.epoch = 1;
    assert_int_equal(asked_run(&it, store_of(state)), TR_EFENCED);
    it = ask_for(TR_STORE_REMIND, "a::b/c");
    assert_int_equal(asked_run(&it, store_of(state)), TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ALL(test_events_are_numbered),
        IN_ALL(test_trimming_keeps_the_last_event),
        IN_ALL(test_reminders_are_listed_by_time),
        IN_ALL(test_reminders_are_fenced),
        IN_ALL(test_ST9_a_reminder_changes_only_if_it_is_due_as_expected),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
