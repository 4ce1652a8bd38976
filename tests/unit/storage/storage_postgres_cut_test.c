/*
 * storage_postgres_cut_test.c - sessions that are cut, servers that are silent
 * or die: nothing that was acknowledged is lost, and what is unknown is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/pg_database.h"

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

/* Cuts what is there now and waits until it has ended, not only begun to. */
static void cut_to_the_end(PGconn *admin)
{
    char now[64], sql[TEXT_SIZE], text[TEXT_SIZE];

    snprintf(now, sizeof(now), "%.63s",
             admin_ask(admin, "SELECT clock_timestamp()", text));
    snprintf(sql, sizeof(sql), "%s AND backend_start < '%s'", ITS_SESSIONS,
             now);
    (void)admin_ask(admin, CUT_SESSIONS, text);
    admin_until(admin, sql, "0");
}

static void test_ST6_a_save_on_its_way_is_unknown(void **state)
{
    tr_storage *store = open_store();
    PGconn *admin = admin_open();
    asked save = ask_save("a::b/c", 1, "two");
    asked late = ask_save("a::b/d", 0, "late");

    (void)state;
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    PGconn *holder = hold_fence();
    asked_submit(&save, store);
    admin_until(admin, WAITING_SESSIONS, "1");
    asked_submit(&late, store);  // behind it; it is sent on a new connection
    cut_to_the_end(admin);
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
    for (uint32_t i = 0;
         i < KILLS * test_scale() || (i < TRIES && unknown_of(savers) == 0);
         i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMPTY(test_an_idle_session_may_be_cut),
        EMPTY(test_ST6_a_save_on_its_way_is_unknown),
        EMPTY(test_a_silent_server_is_given_up),
        EMPTY(test_ST6_without_a_server_nothing_is_done),
        EMPTY(test_closing_does_not_wait_for_the_server),
        EMPTY(test_ST9_a_killed_server_loses_nothing),
        EMPTY(test_ST9_cut_sessions_lose_nothing),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
