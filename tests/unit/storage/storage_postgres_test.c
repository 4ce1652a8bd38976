/*
 * storage_postgres_test.c - what only the store in PostgreSQL does: refused
 * connections, several stores on one database, and sizes. Tests for every
 * store are in storage_test.c, lost connections in
 * storage_postgres_outage_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "troupe/sim.h"
#include "unit/storage/pg_database.h"
#include "unit/storage/shared_counters.h"

/* ---- opening ---- */

/* The connection is refused, and the error text has all of these words. */
static void assert_refused(const char *conninfo, const char *const words[])
{
    char text[TEXT_SIZE];
    tr_storage *store = (tr_storage *)text;
    tr_storage_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};

    assert_int_equal(tr_storage_postgres_with(&store, conninfo, &options),
                     TR_ESTORAGE);
    assert_null(store);
    for (; *words != NULL; words++) {
        if (strstr(text, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, text);
        }
    }
    assert_null(strchr(text, '\n'));
}

static void test_ST15_a_missing_server_is_named_in_the_error(void **state)
{
    (void)state;
    assert_refused(
        "host=/nowhere port=7 dbname=shop user=shop",
        (const char *const[]){"/nowhere/.s.PGSQL.7", "start the server", NULL});
    // A port without a server.
    assert_refused("host=127.0.0.1 port=1 dbname=shop user=shop",
                   (const char *const[]){"127.0.0.1", "port 1", "refused",
                                         "start the server", NULL});
}

static void test_ST15_a_wrong_password_is_refused(void **state)
{
    char conninfo[TEXT_SIZE];

    (void)state;
    admin_do("SET client_min_messages = warning; DROP ROLE IF EXISTS locked;"
             "CREATE ROLE locked LOGIN PASSWORD 'right'");
    snprintf(conninfo, sizeof(conninfo),
             "host=%s dbname=postgres user=locked password=wrong",
             pg_server_folder(server));
    assert_refused(conninfo,
                   (const char *const[]){"password authentication",
                                         "\"locked\"", "correct user", NULL});
    snprintf(conninfo, sizeof(conninfo),
             "host=%s dbname=postgres user=locked passfile=/nowhere",
             pg_server_folder(server));
    assert_refused(conninfo, (const char *const[]){"no password supplied",
                                                   "PGPASSWORD", NULL});
    // With the right password the user may connect, but not make a schema.
    snprintf(conninfo, sizeof(conninfo),
             "host=%s dbname=postgres user=locked password=right",
             pg_server_folder(server));
    assert_refused(conninfo, (const char *const[]){"permission denied",
                                                   "needs CREATE", NULL});
}

static void test_ST15_a_missing_database_is_named(void **state)
{
    char conninfo[TEXT_SIZE];

    (void)state;
    snprintf(conninfo, sizeof(conninfo), "host=%s dbname=missing user=troupe",
             pg_server_folder(server));
    assert_refused(conninfo,
                   (const char *const[]){"\"missing\"", "dbname", NULL});
    assert_refused("host=", (const char *const[]){"start the server", NULL});
    assert_refused("no=such option", (const char *const[]){"\"no\"", NULL});
}

static void test_a_newer_layout_is_refused(void **state)
{
    (void)state;
    tr_storage_close(open_store());
    admin_do("UPDATE troupe.mark SET layout = 9");
    assert_refused(pg_server_conninfo(server),
                   (const char *const[]){"database postgres", "layout 9",
                                         "knows 1", "newer Troupe", NULL});
    admin_do("UPDATE troupe.mark SET layout = 1");
    tr_storage_close(open_store());
}

static void test_tables_of_another_program_are_left_alone(void **state)
{
    (void)state;
    admin_do("CREATE SCHEMA troupe; CREATE TABLE troupe.actors (name text)");
    assert_refused(pg_server_conninfo(server),
                   (const char *const[]){"another program", NULL});
}

static void test_a_simulated_world_is_refused(void **state)
{
    char text[TEXT_SIZE];
    tr_sim *sim;
    tr_storage *store;

    (void)state;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    tr_storage_options options = {.size = sizeof(options),
                                  .world = tr_sim_world(sim),
                                  .text = text,
                                  .text_size = sizeof(text)};
    assert_int_equal(
        tr_storage_postgres_with(&store, pg_server_conninfo(server), &options),
        TR_EINVAL);
    assert_non_null(strstr(text, "tr_storage_memory"));
    tr_sim_free(sim);
    options.size = 0;
    assert_int_equal(
        tr_storage_postgres_with(&store, pg_server_conninfo(server), &options),
        TR_EINVAL);
}

/* libpq repeats the name of a wrong option, however long it is. */
static void test_ST15_a_long_message_of_libpq_is_cut(void **state)
{
    char conninfo[2048], text[4096] = "";
    tr_storage *store;
    tr_storage_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};

    (void)state;
    memset(conninfo, 'x', sizeof(conninfo));
    memcpy(conninfo + sizeof(conninfo) - 3, "=1", 3);
    assert_int_equal(tr_storage_postgres_with(&store, conninfo, &options),
                     TR_ESTORAGE);
    assert_non_null(strstr(text, "xxxx"));
}

typedef struct opener {
    bool is_open;
} opener;

static void open_and_close(void *arg)
{
    opener *it = arg;
    tr_storage *store;

    it->is_open =
        tr_storage_postgres(&store, pg_server_conninfo(server)) == TR_OK;
    tr_storage_close(store);
}

/* All stores find an empty database, and one makes the tables. */
static void test_several_stores_may_make_the_tables_at_once(void **state)
{
    tri_world *world = tri_world_posix();
    tri_thread *threads[4];
    opener openers[4] = {{false}};

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(world->ops->thread_start(world, &threads[i], "open",
                                                  open_and_close, &openers[i]),
                         TR_OK);
    }
    for (int i = 0; i < 4; i++) {
        world->ops->thread_join(world, threads[i]);
        assert_true(openers[i].is_open);
    }
}

static void test_ST9_states_survive_a_restart(void **state)
{
    (void)state;
    tr_storage *store = open_store();
    assert_int_equal(save_text(store, "a::b/c", 0, "kept"), TR_OK);
    tr_storage_close(store);
    pg_server_stop(server);
    pg_server_start(server);
    store = open_store();
    assert_stored(store, "a::b/c", "1:kept");
    assert_int_equal(save_text(store, "a::b/c", 1, "more"), TR_OK);
    tr_storage_close(store);
}

/* ---- several stores ---- */

static asked ask_fence(uint32_t shard, uint64_t epoch)
{
    asked it = ask_for(TR_STORE_FENCE, "a::b/c");

    it.op.shard = shard;
    it.op.epoch = epoch;
    return it;
}

/* The old owner has the right version, but a lower epoch. */
static void test_ST10_a_replaced_owner_is_fenced(void **state)
{
    tr_storage *before = open_store(), *after = open_store();
    asked fence = ask_fence(3, 1);
    asked save = ask_save("a::b/c", 0, "mine");

    (void)state;
    assert_int_equal(asked_run(&fence, before), TR_OK);
    save.op.shard = 3;
    save.op.epoch = 1;
    assert_int_equal(asked_run(&save, before), TR_OK);
    fence.op.epoch = 2;
    assert_int_equal(asked_run(&fence, after), TR_OK);
    save.op.number = 1;
    assert_int_equal(asked_run(&save, before), TR_EFENCED);
    assert_string_equal(
        save.op.text, "OperationFailed(shard 3 belongs to epoch 2, this is 1)");
    assert_stored(after, "a::b/c", "1:mine");
    save.op.epoch = 2;
    assert_int_equal(asked_run(&save, after), TR_OK);
    tr_storage_close(before);
    tr_storage_close(after);
}

/* The save waits for the transaction that raises the fence, and sees it. */
static void test_ST10_a_save_that_waits_for_a_raised_fence_is_refused(
    void **state)
{
    tr_storage *store = open_store();
    PGconn *admin = admin_open();
    asked fence = ask_fence(0, 7);
    asked save = ask_save("a::b/c", 0, "one");

    (void)state;
    save.op.epoch = 1;
    assert_int_equal(asked_run(&save, store), TR_OK);
    save.op.number = 1;
    save.op.bytes = bytes_of("late");
    PGconn *owner = admin_open();
    char text[TEXT_SIZE];
    (void)admin_ask(owner, "BEGIN", text);
    (void)admin_ask(owner, "UPDATE troupe.fences SET epoch = 6", text);
    asked_submit(&save, store);
    admin_until(admin, WAITING_SESSIONS, "1");
    (void)admin_ask(owner, "COMMIT", text);
    asked_wait(&save);
    assert_int_equal(save.op.err, TR_EFENCED);
    assert_stored(store, "a::b/c", "1:one");
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_string_equal(
        admin_ask(admin, "SELECT epoch FROM troupe.fences", text), "7");
    PQfinish(owner);
    PQfinish(admin);
    tr_storage_close(store);
}

/* Each version of a key is saved once, through one of the stores. */
static void test_ST10_stores_compete_for_keys(void **state)
{
    tr_storage *stores[2] = {open_store(), open_store()};

    (void)state;
    increment_in_threads(stores, 2, 100);
    tr_storage_close(stores[0]);
    tr_storage_close(stores[1]);
}

/* ---- sizes ---- */

/* Of two appends after the same event the second one adds no event. */
static void test_a_refused_append_adds_no_event(void **state)
{
    tr_storage *store = open_store();
    const tri_store_bytes events[] = {bytes_of("a"), bytes_of("b"),
                                      bytes_of("c")};
    asked append = ask_for(TR_STORE_APPEND, "a::b/log");
    char text[TEXT_SIZE];

    (void)state;
    append.op.events = events;
    append.op.event_count = 2;
    assert_int_equal(asked_run(&append, store), TR_OK);
    append.op.event_count = 3;  // after event 0 again, and longer
    assert_int_equal(asked_run(&append, store), TR_EFENCED);
    assert_string_equal(append.op.text,
                        "OperationFailed(version 2 is stored, 0 was expected)");
    PGconn *admin = admin_open();
    assert_string_equal(
        admin_ask(admin, "SELECT count(*) FROM troupe.event", text), "2");
    PQfinish(admin);
    tr_storage_close(store);
}

/* Rows that do not fit are left out, and `more` is set. */
static void test_a_read_stops_at_the_size_limit_of_an_answer(void **state)
{
    tr_storage *store = open_store();
    size_t size = TRI_STORE_ROWS_SIZE + 1;
    char *bytes = calloc(1, size);
    const tri_store_bytes events[] = {{bytes, size}, {bytes, 10}, {bytes, 20}};
    asked append = ask_for(TR_STORE_APPEND, "a::b/log");
    asked read = ask_for(TR_STORE_READ, "a::b/log");
    tri_store_row row;
    size_t at = 0;

    (void)state;
    append.op.events = events;
    append.op.event_count = 3;
    assert_int_equal(asked_run(&append, store), TR_OK);
    read.op.number = 1;
    assert_int_equal(asked_run(&read, store), TR_OK);
    assert_true(read.op.more);
    assert_true(tri_store_row_next(&read.op, &at, &row));
    assert_int_equal(row.bytes.size, size);
    assert_false(tri_store_row_next(&read.op, &at, &row));
    tri_store_op_fini(&read.op);
    read.op.number = 2;
    at = 0;
    assert_int_equal(asked_run(&read, store), TR_OK);
    assert_false(read.op.more);
    assert_true(tri_store_row_next(&read.op, &at, &row));
    assert_true(tri_store_row_next(&read.op, &at, &row));
    assert_int_equal(row.bytes.size, 20);
    tri_store_op_fini(&read.op);
    free(bytes);
    tr_storage_close(store);
}

/* Several batches, shards without a fence, large and empty states. */
static void test_many_saves_at_once_go_through_several_batches(void **state)
{
    enum { SAVES = 3000 };
    tr_storage *store = open_store();
    asked *saves = calloc(SAVES, sizeof(*saves));
    char(*keys)[32] = calloc(SAVES, sizeof(*keys));
    char *bytes = calloc(1, SAVES * 2);
    tri_list list;

    (void)state;
    for (uint64_t round = 0; round < 3; round++) {
        tri_list_init(&list);
        for (uint32_t i = 0; i < SAVES; i++) {
            snprintf(keys[i], sizeof(keys[i]), "many::key/%u",
                     i * 7919 % SAVES);
            saves[i] = ask_save(keys[i], round, NULL);
            saves[i].op.bytes = (tri_store_bytes){bytes, i * 2};
            saves[i].op.shard = i % 700;
            saves[i].op.epoch = i % 700 % 2 == 0 ? 0 : round;
            tri_list_push_back(&list, &saves[i].op.link);
        }
        tri_storage_submit_all(store, &list);
        for (uint32_t i = 0; i < SAVES; i++) {
            asked_wait(&saves[i]);
            assert_string_equal(saves[i].op.text, "");
            assert_int_equal(saves[i].op.version, round + 1);
        }
    }
    free(saves);
    free(keys);
    free(bytes);
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMPTY(test_ST15_a_missing_server_is_named_in_the_error),
        EMPTY(test_ST15_a_wrong_password_is_refused),
        EMPTY(test_ST15_a_long_message_of_libpq_is_cut),
        EMPTY(test_ST15_a_missing_database_is_named),
        EMPTY(test_a_newer_layout_is_refused),
        EMPTY(test_tables_of_another_program_are_left_alone),
        EMPTY(test_a_simulated_world_is_refused),
        EMPTY(test_several_stores_may_make_the_tables_at_once),
        EMPTY(test_ST9_states_survive_a_restart),
        EMPTY(test_ST10_a_replaced_owner_is_fenced),
        EMPTY(test_ST10_a_save_that_waits_for_a_raised_fence_is_refused),
        EMPTY(test_ST10_stores_compete_for_keys),
        EMPTY(test_a_refused_append_adds_no_event),
        EMPTY(test_a_read_stops_at_the_size_limit_of_an_answer),
        EMPTY(test_many_saves_at_once_go_through_several_batches),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
