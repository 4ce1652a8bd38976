/*
 * storage_postgres_test.c - what is PostgreSQL's own: refused connections,
 * several stores on one database, and sizes. What every store promises is in
 * storage_test.c; servers that die are in storage_postgres_cut_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "troupe/sim.h"
#include "unit/storage/hands.h"
#include "unit/storage/pg_database.h"

/* ---- opening ---- */

/* The connection is refused, and the text has all of these words. */
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

static void test_ST15_no_server_says_what_was_tried(void **state)
{
    (void)state;
    assert_refused(
        "host=/nowhere port=7 dbname=shop user=shop",
        (const char *const[]){"/nowhere/.s.PGSQL.7", "start the server", NULL});
    // A port that nobody listens on.
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
    // With the right one it may come in, but not make a schema.
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

/* All find an empty database, one makes the tables. */
static void test_several_may_make_the_tables(void **state)
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
    asked it = ask_for(TR_STORE_FENCE, NULL);

    it.op.shard = shard;
    it.op.epoch = epoch;
    return it;
}

/* The old owner knows the version, but not that it was replaced. */
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

/* Whoever holds the fence comes first; the other one looks again after it. */
static void test_ST10_a_fence_waits_for_saves_on_their_way(void **state)
{
    tr_storage *store = open_store();
    PGconn *admin = admin_open();
    asked fence = ask_fence(0, 7);
    asked save = ask_save("a::b/c", 1, "late");

    (void)state;
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    PGconn *owner = admin_open();
    char text[TEXT_SIZE];
    (void)admin_ask(owner, "BEGIN", text);
    (void)admin_ask(owner, "UPDATE troupe.fence SET epoch = 6", text);
    asked_submit(&save, store);
    admin_until(admin, WAITING_SESSIONS, "1");
    (void)admin_ask(owner, "COMMIT", text);
    asked_wait(&save);
    assert_int_equal(save.op.err, TR_EFENCED);
    assert_stored(store, "a::b/c", "1:one");
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_string_equal(
        admin_ask(admin, "SELECT epoch FROM troupe.fence WHERE shard = 0",
                  text),
        "7");
    PQfinish(owner);
    PQfinish(admin);
    tr_storage_close(store);
}

/* Each increment is won exactly once, whichever store it came through. */
static void test_ST10_stores_compete_for_keys(void **state)
{
    tr_storage *stores[2] = {open_store(), open_store()};

    (void)state;
    hands_compete(stores, 2, 100);
    tr_storage_close(stores[0]);
    tr_storage_close(stores[1]);
}

/* ---- sizes ---- */

/* Two writers of one stream: the second one adds nothing at all. */
static void test_events_are_not_torn(void **state)
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
    append.op.event_count = 3;  // beyond what is there, from the start again
    assert_int_equal(asked_run(&append, store), TR_EFENCED);
    assert_string_equal(append.op.text,
                        "OperationFailed(version 2 is stored, 0 was expected)");
    PGconn *admin = admin_open();
    assert_string_equal(
        admin_ask(admin, "SELECT count(*) FROM troupe.event", text), "2");
    PQfinish(admin);
    tr_storage_close(store);
}

/* An answer has a limit; what is beyond is left out, and that is said. */
static void test_many_bytes_of_events_are_cut(void **state)
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

/* More than one batch, shards without a fence, large and empty states. */
static void test_a_crowd_saves_at_once(void **state)
{
    enum { CROWD = 3000 };
    tr_storage *store = open_store();
    asked *saves = calloc(CROWD, sizeof(*saves));
    char(*keys)[32] = calloc(CROWD, sizeof(*keys));
    char *bytes = calloc(1, CROWD * 2);
    tri_list list;

    (void)state;
    for (uint64_t round = 0; round < 3; round++) {
        tri_list_init(&list);
        for (uint32_t i = 0; i < CROWD; i++) {
            snprintf(keys[i], sizeof(keys[i]), "crowd::key/%u",
                     i * 7919 % CROWD);
            saves[i] = ask_save(keys[i], round, NULL);
            saves[i].op.bytes = (tri_store_bytes){bytes, i * 2};
            saves[i].op.shard = i % 700;
            saves[i].op.epoch = i % 700 % 2 == 0 ? 0 : round;
            tri_list_push_back(&list, &saves[i].op.link);
        }
        tri_storage_submit_all(store, &list);
        for (uint32_t i = 0; i < CROWD; i++) {
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
        EMPTY(test_ST15_no_server_says_what_was_tried),
        EMPTY(test_ST15_a_wrong_password_is_refused),
        EMPTY(test_ST15_a_missing_database_is_named),
        EMPTY(test_a_newer_layout_is_refused),
        EMPTY(test_tables_of_another_program_are_left_alone),
        EMPTY(test_a_simulated_world_is_refused),
        EMPTY(test_several_may_make_the_tables),
        EMPTY(test_ST9_states_survive_a_restart),
        EMPTY(test_ST10_a_replaced_owner_is_fenced),
        EMPTY(test_ST10_a_fence_waits_for_saves_on_their_way),
        EMPTY(test_ST10_stores_compete_for_keys),
        EMPTY(test_events_are_not_torn),
        EMPTY(test_many_bytes_of_events_are_cut),
        EMPTY(test_a_crowd_saves_at_once),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
