/*
 * storage_postgres_test.c - what is PostgreSQL's own: refused connections,
 * servers that die, sessions that are cut, and several stores on one database.
 * What every store promises is in storage_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/storage_postgres.h"
#include "support/postgres.h"
#include "troupe/sim.h"
#include "unit/storage/store_calls.h"

#define TEXT_SIZE 600

static pg_server *server;  // for the whole group

/* ---- the other side ---- */

static PGconn *admin_open(void)
{
    PGconn *conn = PQconnectdb(pg_server_conninfo(server));

    if (PQstatus(conn) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(conn));
    }
    return conn;
}

/* The first value of the last statement, or "". */
static const char *admin_ask(PGconn *conn, const char *sql, char out[TEXT_SIZE])
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    }
    snprintf(out, TEXT_SIZE, "%s",
             PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return out;
}

static void admin_do(const char *sql)
{
    char ignored[TEXT_SIZE];
    PGconn *conn = admin_open();

    (void)admin_ask(conn, sql, ignored);
    PQfinish(conn);
}

/* Asks until the answer is the expected one. */
static void admin_until(PGconn *conn, const char *sql, const char *expected)
{
    char answer[TEXT_SIZE];

    while (strcmp(admin_ask(conn, sql, answer), expected) != 0) {
        tri_world *world = tri_world_posix();
        world->ops->yield(world);
    }
}

static int empty_database(void **state)
{
    (void)state;
    admin_do("SET client_min_messages = warning;"
             "DROP SCHEMA IF EXISTS troupe CASCADE");
    return 0;
}

static tr_storage *open_with(const tri_pg_limits *limits)
{
    tr_storage *store;
    tri_pg_fault why;

    if (tri_storage_postgres_open(&store, tri_world_posix(),
                                  pg_server_conninfo(server), limits,
                                  &why) != TR_OK) {
        fail_msg("%s", why.text);
    }
    return store;
}

static tr_storage *open_store(void)
{
    return open_with(NULL);
}

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

/* ---- connections that break ---- */

#define ITS_SESSIONS                                                           \
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'troupe'"
#define CUT_SESSIONS                                                           \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"            \
    " WHERE application_name = 'troupe'"

/* A session that ends while nothing is on its way harms nobody. */
static void test_an_idle_session_may_be_cut(void **state)
{
    PGconn *admin = admin_open();
    char text[TEXT_SIZE];

    (void)state;
    // Those of the tests before end a little later than their stores.
    admin_until(admin, ITS_SESSIONS, "0");
    tr_storage *store = open_store();
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_string_equal(admin_ask(admin, CUT_SESSIONS, text), "2");
    admin_until(admin, ITS_SESSIONS, "0");
    assert_int_equal(save_text(store, "a::b/c", 1, "two"), TR_OK);
    assert_stored(store, "a::b/c", "2:two");
    pg_server_stop(server);
    PQfinish(admin);
    pg_server_start(server);
    assert_stored(store, "a::b/c", "2:two");
    assert_int_equal(save_text(store, "a::b/c", 2, "three"), TR_OK);
    tr_storage_close(store);
}

/* Locks the fence of shard 0, so that a save waits at the server. */
static PGconn *hold_fence(void)
{
    char text[TEXT_SIZE];
    PGconn *holder = admin_open();

    (void)admin_ask(holder, "BEGIN", text);
    (void)admin_ask(holder, "SELECT epoch FROM troupe.fence FOR UPDATE", text);
    return holder;
}

#define WAITING_SESSIONS                                                       \
    "SELECT count(*) FROM pg_stat_activity"                                    \
    " WHERE application_name = 'troupe' AND wait_event_type = 'Lock'"

static void test_ST6_a_save_on_its_way_is_unknown(void **state)
{
    tr_storage *store = open_store();
    PGconn *admin = admin_open();
    asked save = ask_save("a::b/c", 1, "two");
    asked late = ask_save("a::b/d", 0, "late");
    char text[TEXT_SIZE];

    (void)state;
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    PGconn *holder = hold_fence();
    asked_submit(&save, store);
    admin_until(admin, WAITING_SESSIONS, "1");
    asked_submit(&late, store);  // behind it; it is sent on a new connection
    (void)admin_ask(admin, CUT_SESSIONS, text);
    asked_wait(&save);
    assert_int_equal(save.op.err, TR_EUNKNOWN);
    assert_int_equal(save.op.fault, TRI_STORE_FAULT_UNAVAILABLE);
    assert_string_not_equal(save.op.text, "");
    PQfinish(holder);
    asked_wait(&late);
    assert_int_equal(late.op.err, TR_OK);
    assert_stored(store, "a::b/c", "1:one");  // this time it was not done
    assert_int_equal(save_text(store, "a::b/c", 1, "again"), TR_OK);
    PQfinish(admin);
    tr_storage_close(store);
}

/* A server that says nothing is as good as gone. */
static void test_a_silent_server_is_given_up(void **state)
{
    // Long enough for a busy server to let the store in, and much shorter
    // than a lock is waited for there.
    static const tri_pg_limits limits = {.silence = TR_SECONDS(2)};
    tr_storage *patient = open_store(), *store = open_with(&limits);
    asked save = ask_save("a::b/c", 1, "two");

    (void)state;
    assert_int_equal(save_text(patient, "a::b/c", 0, "one"), TR_OK);
    tr_storage_close(patient);
    PGconn *holder = hold_fence();
    assert_int_equal(asked_run(&save, store), TR_EUNKNOWN);
    assert_string_equal(save.op.text,
                        "Unavailable(the server does not answer)");
    PQfinish(holder);
    tr_storage_close(store);
}

/* Without a server: an answer in time, with the reason. */
static void test_ST6_without_a_server_nothing_is_done(void **state)
{
    static const tri_pg_limits limits = {.patience = TR_MS(50)};
    tr_storage *store = open_with(&limits);
    asked save = ask_save("a::b/c", 0, "one");
    asked load = ask_for(TR_STORE_LOAD, "a::b/c");

    (void)state;
    pg_server_stop(server);
    assert_int_equal(asked_run(&save, store), TR_ESTORAGE);
    assert_int_equal(save.op.fault, TRI_STORE_FAULT_UNAVAILABLE);
    assert_non_null(strstr(save.op.text, "Unavailable(connection to server"));
    assert_int_equal(asked_run(&load, store), TR_ESTORAGE);
    assert_int_equal(asked_run(&save, store), TR_ESTORAGE);
    pg_server_start(server);
    while (asked_run(&save, store) == TR_ESTORAGE) {
    }
    assert_int_equal(save.op.err, TR_OK);
    tr_storage_close(store);
}

/* Closing answers what waits for a server that is not there. */
static void test_closing_does_not_wait_for_the_server(void **state)
{
    tr_storage *store = open_store();
    asked save = ask_save("a::b/c", 0, "one");

    (void)state;
    pg_server_stop(server);
    asked_submit(&save, store);
    tr_storage_close(store);
    asked_wait(&save);
    assert_int_equal(save.op.err, TR_ESTORAGE);
    pg_server_start(server);
}

/* ---- a server that is killed under load ---- */

#define SAVERS 32
#define KILLS  3
#define TRIES  50  // one harm may come between two batches

typedef struct saver {
    asked asked;
    tr_storage *store;
    char key[32];
    uint64_t acked;             // the last version that was acknowledged
    _Atomic(uint64_t) answers;  // TR_OK, for the test to watch
    _Atomic(uint32_t) unknown;  // TR_EUNKNOWN, for the test to watch
    uint32_t refused;
    uint32_t bad;
    char what[128];  // of the last that was bad
    _Atomic(bool) *stop;
} saver;

static void note_bad(saver *it, const char *what, tr_err err, uint64_t version)
{
    it->bad++;
    snprintf(it->what, sizeof(it->what), "%s: %s, version %llu, acked %llu",
             what, tr_errname(err), (unsigned long long)version,
             (unsigned long long)it->acked);
}

static void load_version(saver *it, uint64_t lowest, uint64_t highest)
{
    for (;;) {
        asked load = ask_for(TR_STORE_LOAD, it->key);
        tr_err err = asked_run(&load, it->store);
        uint64_t version = load.op.version;
        if (err == TR_OK) {
            if (version < lowest || version > highest) {
                note_bad(it, "load", err, version);
            }
            char text[32];
            snprintf(text, sizeof(text), "%.*s", (int)load.op.out_size,
                     load.op.found ? (const char *)load.op.out : "");
            if (strtoull(text, NULL, 10) != version) {
                note_bad(it, text, err, version);
            }
            it->acked = version;
        }
        tri_store_op_fini(&load.op);
        if (err == TR_OK) {
            return;
        }
        if (err != TR_ESTORAGE) {
            note_bad(it, "load", err, version);
        }
    }
}

/* Saves as an actor does: after an unknown outcome it loads. */
static void save_on(void *arg)
{
    saver *it = arg;

    // Acquire: pairs with the release of the test's end.
    while (!atomic_load_explicit(it->stop, memory_order_acquire)) {
        char text[32];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)it->acked + 1);
        asked save = ask_save(it->key, it->acked, text);
        tr_err err = asked_run(&save, it->store);
        switch (err) {
        case TR_OK:
            it->acked = save.op.version;
            // Relaxed: only a count.
            atomic_fetch_add_explicit(&it->answers, 1, memory_order_relaxed);
            break;
        case TR_EUNKNOWN:
            // Relaxed: only a count.
            atomic_fetch_add_explicit(&it->unknown, 1, memory_order_relaxed);
            load_version(it, it->acked, it->acked + 1);
            break;
        case TR_ESTORAGE:
            it->refused++;  // not done: the same again
            break;
        default:
            note_bad(it, "save", err, save.op.version);
            break;
        }
    }
}

static uint64_t answers_of(saver savers[SAVERS])
{
    uint64_t sum = 0;

    for (int i = 0; i < SAVERS; i++) {
        sum += atomic_load_explicit(&savers[i].answers, memory_order_relaxed);
    }
    return sum;
}

static uint32_t unknown_of(saver savers[SAVERS])
{
    uint32_t sum = 0;

    for (int i = 0; i < SAVERS; i++) {
        sum += atomic_load_explicit(&savers[i].unknown, memory_order_relaxed);
    }
    return sum;
}

/* The load goes on; returns when so many more were acknowledged. */
static void wait_for_answers(saver savers[SAVERS], uint64_t more)
{
    tri_world *world = tri_world_posix();
    uint64_t enough = answers_of(savers) + more;

    while (answers_of(savers) < enough) {
        world->ops->yield(world);
    }
}

static void end_savers(saver savers[SAVERS], tri_thread *threads[SAVERS],
                       _Atomic(bool) *stop)
{
    tri_world *world = tri_world_posix();

    atomic_store_explicit(stop, true, memory_order_release);
    for (int i = 0; i < SAVERS; i++) {
        world->ops->thread_join(world, threads[i]);
    }
    for (int i = 0; i < SAVERS; i++) {
        uint64_t acked = savers[i].acked;
        load_version(&savers[i], acked, acked);
        if (savers[i].bad != 0) {
            print_error("%s\n", savers[i].what);
        }
        assert_int_equal(savers[i].bad, 0);
    }
}

static void run_load(void (*harm)(void))
{
    tri_world *world = tri_world_posix();
    static saver savers[SAVERS];
    tri_thread *threads[SAVERS];
    _Atomic(bool) stop = false;
    tr_storage *store = open_store();

    memset(savers, 0, sizeof(savers));
    for (int i = 0; i < SAVERS; i++) {
        savers[i].store = store;
        savers[i].stop = &stop;
        snprintf(savers[i].key, sizeof(savers[i].key), "load::key/%d", i);
        assert_int_equal(world->ops->thread_start(world, &threads[i], "saver",
                                                  save_on, &savers[i]),
                         TR_OK);
    }
    // Until a save on its way was met, too.
    for (uint32_t i = 0; i < KILLS * test_scale() ||
                         (i < TRIES && unknown_of(savers) == 0); i++) {
        wait_for_answers(savers, 500);
        harm();
    }
    wait_for_answers(savers, 500);
    end_savers(savers, threads, &stop);
    assert_true(unknown_of(savers) > 0);
    tr_storage_close(store);
}

static void kill_and_start(void)
{
    pg_server_kill(server);
    pg_server_start(server);
}

static void cut_sessions(void)
{
    admin_do(CUT_SESSIONS);
}

static void test_ST9_a_killed_server_loses_nothing(void **state)
{
    (void)state;
    run_load(kill_and_start);
}

static void test_ST9_cut_sessions_lose_nothing(void **state)
{
    (void)state;
    run_load(cut_sessions);
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

#define HANDS      4
#define WINS       100
#define FEW_KEYS   3
#define FEW_SHARDS 2

typedef struct hand {
    tr_storage *store;
    uint32_t won, bad;
} hand;

static void count_up(void *arg)
{
    hand *it = arg;

    for (uint32_t i = 0; it->won < WINS; i++) {
        char key[32], next[32];
        snprintf(key, sizeof(key), "a::b/%u", i % FEW_KEYS);
        asked load = ask_for(TR_STORE_LOAD, key);
        it->bad += asked_run(&load, it->store) != TR_OK;
        uint64_t version = load.op.version;
        tri_store_op_fini(&load.op);
        snprintf(next, sizeof(next), "%llu", (unsigned long long)version + 1);
        asked save = ask_save(key, version, next);
        save.op.shard = i % FEW_KEYS % FEW_SHARDS;
        tr_err err = asked_run(&save, it->store);
        it->won += err == TR_OK;
        it->bad += err != TR_OK && err != TR_EFENCED;
    }
}

/* Each increment is won exactly once, whichever store it came through. */
static void test_ST10_stores_compete_for_keys(void **state)
{
    tri_world *world = tri_world_posix();
    tr_storage *stores[2] = {open_store(), open_store()};
    tri_thread *threads[HANDS];
    hand hands[HANDS];
    uint64_t sum = 0;

    (void)state;
    for (int i = 0; i < HANDS; i++) {
        hands[i] = (hand){.store = stores[i % 2]};
        assert_int_equal(world->ops->thread_start(world, &threads[i], "hand",
                                                  count_up, &hands[i]),
                         TR_OK);
    }
    for (int i = 0; i < HANDS; i++) {
        world->ops->thread_join(world, threads[i]);
        assert_int_equal(hands[i].bad, 0);
    }
    for (int i = 0; i < FEW_KEYS; i++) {
        char key[32];
        snprintf(key, sizeof(key), "a::b/%d", i);
        asked load = ask_for(TR_STORE_LOAD, key);
        assert_int_equal(asked_run(&load, stores[0]), TR_OK);
        sum += load.op.version;
        tri_store_op_fini(&load.op);
    }
    assert_int_equal(sum, HANDS * WINS);
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

#define EMPTY(test) cmocka_unit_test_setup(test, empty_database)

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
        EMPTY(test_an_idle_session_may_be_cut),
        EMPTY(test_ST6_a_save_on_its_way_is_unknown),
        EMPTY(test_a_silent_server_is_given_up),
        EMPTY(test_ST6_without_a_server_nothing_is_done),
        EMPTY(test_closing_does_not_wait_for_the_server),
        EMPTY(test_ST9_a_killed_server_loses_nothing),
        EMPTY(test_ST9_cut_sessions_lose_nothing),
        EMPTY(test_ST10_a_replaced_owner_is_fenced),
        EMPTY(test_ST10_a_fence_waits_for_saves_on_their_way),
        EMPTY(test_ST10_stores_compete_for_keys),
        EMPTY(test_events_are_not_torn),
        EMPTY(test_many_bytes_of_events_are_cut),
        EMPTY(test_a_crowd_saves_at_once),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
