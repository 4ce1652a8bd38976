/*
 * storage_test.c - what every store promises, asked of each of them: the one
 * in memory, the one in a file, the one in a database, and the latter two with
 * limits so small that every batch is cut and every row folded at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/storage_postgres.h"
#include "storage/storage_sqlite.h"
#include "support/postgres.h"
#include "unit/storage/hands.h"
#include "unit/storage/store_calls.h"

static pg_server *server;  // for the whole group

typedef struct fixture {
    folder folder;
    tr_storage *store;
} fixture;

static int open_with(void **state, bool in_file,
                     const tri_sqlite_limits *limits)
{
    fixture *it = calloc(1, sizeof(*it));
    tri_sqlite_fault why;
    tr_err err;

    if (it == NULL || !folder_make(&it->folder)) {
        return -1;
    }
    *state = it;
    err = in_file ? tri_storage_sqlite_open(&it->store, tri_world_posix(),
                                            it->folder.database, limits, &why)
                  : tr_storage_memory(&it->store);
    return err == TR_OK ? 0 : -1;
}

static int open_memory(void **state)
{
    return open_with(state, false, NULL);
}

static int open_sqlite(void **state)
{
    return open_with(state, true, NULL);
}

static int open_tiny(void **state)
{
    static const tri_sqlite_limits tiny = {
        .batch = 2,
        .fold_rows = 1,
        .slice = 1,
        .checkpoint_pages = 1,
        .log_pages = 8,
        .idle = 1,
    };

    return open_with(state, true, &tiny);
}

/* A database without our tables, as it is before the first start. */
static bool empty_database(void)
{
    PGconn *conn = PQconnectdb(pg_server_conninfo(server));
    PGresult *result = PQexec(conn, "SET client_min_messages = warning;"
                                    "DROP SCHEMA IF EXISTS troupe CASCADE");
    bool is_done = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!is_done) {
        print_error("%s\n", PQerrorMessage(conn));
    }
    PQclear(result);
    PQfinish(conn);
    return is_done;
}

static int open_server(void **state, const tri_pg_limits *limits)
{
    fixture *it = calloc(1, sizeof(*it));
    tri_pg_fault why;

    if (it == NULL || !folder_make(&it->folder) || !empty_database()) {
        return -1;
    }
    *state = it;
    if (tri_storage_postgres_open(&it->store, tri_world_posix(),
                                  pg_server_conninfo(server), limits,
                                  &why) != TR_OK) {
        print_error("%s\n", why.text);
        return -1;
    }
    return 0;
}

static int open_postgres(void **state)
{
    return open_server(state, NULL);
}

static int open_postgres_tiny(void **state)
{
    static const tri_pg_limits tiny = {.batch = 2, .batch_size = 1};

    return open_server(state, &tiny);
}

static int start_server(void **state)
{
    (void)state;
    server = pg_server_new();
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    pg_server_free(server);
    return 0;
}

static int close_store(void **state)
{
    fixture *it = *state;

    tr_storage_close(it->store);
    int result = folder_remove(&it->folder);
    free(it);
    return result;
}

static tr_storage *store_of(void **state)
{
    return ((fixture *)*state)->store;
}

/* ---- states ---- */

static void test_ST3_a_save_replaces_all_of_the_state(void **state)
{
    tr_storage *store = store_of(state);

    assert_int_equal(save_text(store, "a::b/c", 0, "a long first state"),
                     TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "short"), TR_OK);
    assert_stored(store, "a::b/c", "2:short");
    assert_int_equal(save_text(store, "a::b/c", 2, ""), TR_OK);
    assert_stored(store, "a::b/c", "3:");
}

static void test_ST4_missing_state_is_none(void **state)
{
    asked load = ask_for(TR_STORE_LOAD, "a::b/never");

    assert_int_equal(asked_run(&load, store_of(state)), TR_OK);
    assert_false(load.op.found);
    assert_int_equal(load.op.version, 0);
    assert_null(load.op.out);
    assert_string_equal(load.op.text, "");
}

static void test_ST5_a_key_has_at_most_512_bytes(void **state)
{
    char key[TRI_STORE_KEY_MAX + 2];
    tr_storage *store = store_of(state);

    memset(key, 'k', sizeof(key));
    key[TRI_STORE_KEY_MAX] = '\0';
    assert_int_equal(save_text(store, key, 0, "x"), TR_OK);
    assert_stored(store, key, "1:x");
    key[TRI_STORE_KEY_MAX] = 'k';
    key[TRI_STORE_KEY_MAX + 1] = '\0';
    assert_int_equal(save_text(store, key, 0, "x"), TR_EINVAL);
    assert_int_equal(save_text(store, "", 0, "x"), TR_EINVAL);
}

/* Any bytes, among them zeros and what is no text. */
static void test_ST7_a_store_sees_only_bytes(void **state)
{
    static const char bytes[] = {0, 1, (char)0xff, 0, '"', (char)0x80, 0};
    asked save = ask_for(TR_STORE_SAVE, "a::b/c");
    asked load = ask_for(TR_STORE_LOAD, "a::b/c");

    save.op.bytes = (tri_store_bytes){bytes, sizeof(bytes)};
    assert_int_equal(asked_run(&save, store_of(state)), TR_OK);
    assert_int_equal(asked_run(&load, store_of(state)), TR_OK);
    assert_int_equal(load.op.out_size, sizeof(bytes));
    assert_memory_equal(load.op.out, bytes, sizeof(bytes));
    tri_store_op_fini(&load.op);
}

static void test_ST8_spaces_and_types_are_apart(void **state)
{
    tr_storage *store = store_of(state);
    static const char *const keys[] = {"a::b/c", "a::c/c", "b::b/c", "a::b/c2",
                                       "a::b/C"};
    char expected[8];

    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        snprintf(expected, sizeof(expected), "%zu", i);
        assert_int_equal(save_text(store, keys[i], 0, expected), TR_OK);
    }
    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        snprintf(expected, sizeof(expected), "1:%zu", i);
        assert_stored(store, keys[i], expected);
    }
}

static void test_ST9_what_is_saved_is_loaded(void **state)
{
    tr_storage *store = store_of(state);
    char key[32], text[512];

    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "a::b/%d", i);
        memset(text, 'a' + i % 26, sizeof(text));
        text[i * 10] = '\0';
        assert_int_equal(save_text(store, key, 0, text), TR_OK);
        asked load = ask_for(TR_STORE_LOAD, key);
        assert_int_equal(asked_run(&load, store), TR_OK);
        assert_int_equal(load.op.out_size, i * 10);
        assert_memory_equal(load.op.out, text, (size_t)i * 10);
        tri_store_op_fini(&load.op);
    }
}

static void test_ST10_only_the_winner_of_a_race_writes(void **state)
{
    tr_storage *store = store_of(state);

    assert_int_equal(save_text(store, "a::b/c", 0, "first"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "late"), TR_EFENCED);
    assert_stored(store, "a::b/c", "1:first");
    assert_int_equal(save_text(store, "a::b/c", 1, "winner"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "loser"), TR_EFENCED);
    assert_stored(store, "a::b/c", "2:winner");
}

static void test_ST10_a_lower_epoch_is_fenced(void **state)
{
    tr_storage *store = store_of(state);
    asked save = ask_save("a::b/c", 0, "old owner");
    asked fence = ask_for(TR_STORE_FENCE, NULL);

    save.op.shard = 7;
    save.op.epoch = 4;
    assert_int_equal(asked_run(&save, store), TR_OK);
    fence.op.shard = 7;
    fence.op.epoch = 5;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(fence.op.version, 5);

    // The old owner wakes up and knows the right version.
    save.op.number = 1;
    assert_int_equal(asked_run(&save, store), TR_EFENCED);
    assert_string_equal(
        save.op.text, "OperationFailed(shard 7 belongs to epoch 5, this is 4)");
    assert_stored(store, "a::b/c", "1:old owner");
    fence.op.epoch = 4;
    assert_int_equal(asked_run(&fence, store), TR_EFENCED);

    // Other shards have fences of their own; a save raises one, too.
    save.op.epoch = 6;
    save.op.bytes = bytes_of("new owner");
    assert_int_equal(asked_run(&save, store), TR_OK);
    save.op.number = 2;
    save.op.epoch = 5;
    assert_int_equal(asked_run(&save, store), TR_EFENCED);
    save.op.shard = 8;
    assert_int_equal(asked_run(&save, store), TR_OK);
}

/* A save that is refused raises no fence. */
static void test_a_refused_save_changes_nothing(void **state)
{
    tr_storage *store = store_of(state);
    asked save = ask_save("a::b/c", 3, "x");

    save.op.epoch = 9;
    assert_int_equal(asked_run(&save, store), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "epoch 0"), TR_OK);
}

static void test_ST15_errors_have_a_text(void **state)
{
    asked save = ask_save("a::b/c", 3, "x");

    assert_int_equal(asked_run(&save, store_of(state)), TR_ENOENT);
    assert_int_equal(save.op.fault, TRI_STORE_FAULT_NOT_FOUND);
    assert_string_equal(save.op.text, "NotFound(a::b/c)");
    save.op.number = 0;
    assert_int_equal(asked_run(&save, store_of(state)), TR_OK);
    assert_string_equal(save.op.text, "");
    assert_int_equal(asked_run(&save, store_of(state)), TR_EFENCED);
    assert_string_equal(save.op.text,
                        "OperationFailed(version 1 is stored, 0 was expected)");
}

static void test_delete_checks_the_version(void **state)
{
    tr_storage *store = store_of(state);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/c");

    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_false(delete.op.found);
    assert_int_equal(save_text(store, "a::b/c", 0, "x"), TR_OK);
    assert_int_equal(asked_run(&delete, store), TR_EFENCED);
    delete.op.number = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_true(delete.op.found);
    assert_stored(store, "a::b/c", "none");
    assert_int_equal(asked_run(&delete, store), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "again"), TR_OK);
    assert_stored(store, "a::b/c", "1:again");
}

/* Writes of one thread on one key keep their order within a batch. */
static void test_a_batch_sees_its_own_writes(void **state)
{
    tr_storage *store = store_of(state);
    asked ops[12];
    tri_list list;

    tri_list_init(&list);
    for (uint32_t i = 0; i < TRI_COUNT_OF(ops); i++) {
        ops[i] = ask_save("a::b/c", i, "same");
        tri_list_push_back(&list, &ops[i].op.link);
    }
    tri_storage_submit_all(store, &list);
    for (uint32_t i = 0; i < TRI_COUNT_OF(ops); i++) {
        asked_wait(&ops[i]);
        assert_int_equal(ops[i].op.err, TR_OK);
        assert_int_equal(ops[i].op.version, i + 1);
    }
    assert_stored(store, "a::b/c", "12:same");
}

/* What is wrong with a question is said at once; the others go on. */
static void test_a_bad_question_spoils_no_batch(void **state)
{
    asked good = ask_save("a::b/c", 0, "good");
    asked bad = ask_save("", 0, "bad");
    asked high = ask_save("a::b/d", 0, "bad");
    tri_list list;

    high.op.shard = TRI_STORE_SHARDS_MAX;
    tri_list_init(&list);
    tri_list_push_back(&list, &bad.op.link);
    tri_list_push_back(&list, &good.op.link);
    tri_list_push_back(&list, &high.op.link);
    tri_storage_submit_all(store_of(state), &list);
    asked_wait(&good);
    assert_int_equal(good.op.err, TR_OK);
    assert_int_equal(bad.op.err, TR_EINVAL);
    assert_int_equal(high.op.err, TR_EINVAL);
}

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
    // The state of the same key is something else.
    assert_stored(store, "a::b/log", "none");
    assert_int_equal(save_text(store, "a::b/log", 0, "snapshot"), TR_OK);
    assert_events(store, 3, 0, "3= last 3");
}

static void test_trimmed_events_leave_the_last(void **state)
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

/* "due key name=bytes;" for each, page by page of two. */
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
    // Setting it again moves it.
    remind(store, 3, "a::b/1", "x", 95);
    forget.op.name = bytes_of("y");
    assert_int_equal(asked_run(&forget, store), TR_OK);
    assert_true(forget.op.found);
    assert_int_equal(asked_run(&forget, store), TR_OK);
    assert_false(forget.op.found);
    assert_reminders(store, 3, 100,
                     "10 a::b/2 soon=soon;90 a::b/2 late=late;95 a::b/1 x=x;");
}

/* Two who know a reminder: the second one to change it finds it changed. */
static void test_ST9_a_reminder_is_changed_only_as_it_is_known(void **state)
{
    tr_storage *store = store_of(state);
    asked it = ask_for(TR_STORE_REMIND, "a::b/c");

    it.op.name = bytes_of("n");
    it.op.number = 20;
    it.op.after = 10;
    assert_int_equal(asked_run(&it, store), TR_OK);
    assert_false(it.op.found);  // there is none
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
    assert_false(it.op.found);  // it is due at 20 by now

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
    asked it = ask_for(TR_STORE_FENCE, NULL);

    it.op.epoch = 2;
    assert_int_equal(asked_run(&it, store_of(state)), TR_OK);
    it = ask_for(TR_STORE_REMIND, "a::b/c");
    it.op.name = bytes_of("n");
    it.op.epoch = 1;
    assert_int_equal(asked_run(&it, store_of(state)), TR_EFENCED);
    it = ask_for(TR_STORE_REMIND, "a::b/c");
    assert_int_equal(asked_run(&it, store_of(state)), TR_EINVAL);
}

/* ---- many threads ---- */

static void test_ST21_one_store_serves_many(void **state)
{
    tr_storage *store = store_of(state);

    hands_compete(&store, 1, 50);
}

/* ---- keys ---- */

static void test_ST8_no_two_names_make_one_key(void **state)
{
    char out[TRI_STORE_KEY_MAX + 1];
    char key[TRI_STORE_KEY_MAX];
    (void)state;

    assert_int_equal(tri_store_key(out, "shop", "cart", "a/b::c"), TR_OK);
    assert_string_equal(out, "shop::cart/a/b::c");
    assert_int_equal(tri_store_key(out, "shop:", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", ":cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "cart/x", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop/", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "cart", ""), TR_EINVAL);
    memset(key, 'k', sizeof(key));
    key[TRI_STORE_KEY_MAX - sizeof("s::c/") + 1] = '\0';
    assert_int_equal(tri_store_key(out, "s", "c", key), TR_OK);
    assert_int_equal(strlen(out), TRI_STORE_KEY_MAX);
    assert_int_equal(tri_store_key(out, "sh", "c", key), TR_ELIMIT);
    assert_string_equal(out, "");
}

/* The whole of a long text is cut, never its bracket. */
static void test_a_long_text_is_cut(void **state)
{
    tri_store_op op = {0};
    char text[2 * TRI_STORE_TEXT_SIZE];
    (void)state;

    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tri_store_fail(&op, TR_EIO, TRI_STORE_FAULT_IO, "%s", text);
    assert_int_equal(strlen(op.text), TRI_STORE_TEXT_SIZE - 1);
    assert_int_equal(op.text[TRI_STORE_TEXT_SIZE - 2], ')');
    assert_memory_equal(op.text, "Io(ttt", 6);
}

#define IN_ALL(test)                                                           \
    {"memory: " #test, test, open_memory, close_store, NULL},                  \
        {"sqlite: " #test, test, open_sqlite, close_store, NULL},              \
        {"tiny: " #test, test, open_tiny, close_store, NULL},                  \
        {"postgres: " #test, test, open_postgres, close_store, NULL},          \
    {                                                                          \
        "postgres tiny: " #test, test, open_postgres_tiny, close_store, NULL   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ALL(test_ST3_a_save_replaces_all_of_the_state),
        IN_ALL(test_ST4_missing_state_is_none),
        IN_ALL(test_ST5_a_key_has_at_most_512_bytes),
        IN_ALL(test_ST7_a_store_sees_only_bytes),
        IN_ALL(test_ST8_spaces_and_types_are_apart),
        IN_ALL(test_ST9_what_is_saved_is_loaded),
        IN_ALL(test_ST10_only_the_winner_of_a_race_writes),
        IN_ALL(test_ST10_a_lower_epoch_is_fenced),
        IN_ALL(test_a_refused_save_changes_nothing),
        IN_ALL(test_ST15_errors_have_a_text),
        IN_ALL(test_delete_checks_the_version),
        IN_ALL(test_a_batch_sees_its_own_writes),
        IN_ALL(test_a_bad_question_spoils_no_batch),
        IN_ALL(test_events_are_numbered),
        IN_ALL(test_trimmed_events_leave_the_last),
        IN_ALL(test_reminders_are_listed_by_time),
        IN_ALL(test_reminders_are_fenced),
        IN_ALL(test_ST9_a_reminder_is_changed_only_as_it_is_known),
        IN_ALL(test_ST21_one_store_serves_many),
        cmocka_unit_test(test_ST8_no_two_names_make_one_key),
        cmocka_unit_test(test_a_long_text_is_cut),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
