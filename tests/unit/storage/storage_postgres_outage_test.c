/*
 * storage_postgres_outage_test.c - the server ends sessions, does not answer,
 * or is killed: no acknowledged save is lost, and a save whose outcome is not
 * known is TR_EUNKNOWN.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/pg_database.h"

/* ---- connections that are lost ---- */

#define STORE_SESSIONS                                                         \
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'troupe'"
#define END_SESSIONS                                                           \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"            \
    " WHERE application_name = 'troupe'"

/* A session that ends while no batch is in flight fails no operation. */
static void test_an_idle_store_survives_the_end_of_its_sessions(void **state)
{
    PGconn *admin = admin_open();
    char text[TEXT_SIZE];

    (void)state;
    // Sessions of earlier tests end a little later than their stores.
    admin_until(admin, STORE_SESSIONS, "0");
    tr_storage *store = open_store();
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_string_equal(admin_ask(admin, END_SESSIONS, text), "2");
    admin_until(admin, STORE_SESSIONS, "0");
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
    (void)admin_ask(holder, "SELECT epoch FROM troupe.fences FOR UPDATE", text);
    return holder;
}

/*
 * Tells all present sessions of stores to end. `left` becomes a query for how
 * many of them have not ended yet.
 */
static void end_present_sessions(PGconn *admin, char left[TEXT_SIZE])
{
    char now[64], text[TEXT_SIZE];

    snprintf(now, sizeof(now), "%.63s",
             admin_ask(admin, "SELECT clock_timestamp()", text));
    snprintf(left, TEXT_SIZE, "%s AND backend_start < '%s'", STORE_SESSIONS,
             now);
    (void)admin_ask(admin, END_SESSIONS, text);
}

static void test_ST6_a_save_in_flight_is_unknown_after_a_disconnect(
    void **state)
{
    tr_storage *store = open_store();
    PGconn *admin = admin_open();
    asked save = ask_save("a::b/c", 1, "two");
    asked late = ask_save("a::b/d", 0, "late");
    char left[TEXT_SIZE];

    (void)state;
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    PGconn *holder = hold_fence();
    asked_submit(&save, store);
    admin_until(admin, WAITING_SESSIONS, "1");
    asked_submit(&late, store);  // is sent through the next connection
    end_present_sessions(admin, left);
    asked_wait(&save);
    assert_int_equal(save.op.err, TR_EUNKNOWN);
    assert_int_equal(save.op.fault, TRI_STORE_FAULT_UNAVAILABLE);
    assert_string_not_equal(save.op.text, "");
    // At once: `late` waits for that lock, no longer than lock_timeout. A busy
    // server may need as long until the old sessions have ended.
    PQfinish(holder);
    asked_wait(&late);
    assert_int_equal(late.op.err, TR_OK);
    admin_until(admin, left, "0");  // a load of the old session would fail
    assert_stored(store, "a::b/c", "1:one");  // here it was not done
    assert_int_equal(save_text(store, "a::b/c", 1, "again"), TR_OK);
    PQfinish(admin);
    tr_storage_close(store);
}

/* A server that does not answer for limits.silence is given up. */
static void test_a_server_that_does_not_answer_is_given_up(void **state)
{
    // Shorter than lock_timeout, which is 5 s, and as long as that allows: a
    // busy server must accept the connection and answer within this time.
    static const tri_pg_limits limits = {.silence = TR_SECONDS(4)};
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

/* Without a server each operation gets an answer with the reason. */
static void test_ST6_without_a_server_writes_fail_with_a_reason(void **state)
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

/* Closing answers the operations that wait for a server. */
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
#define TRIES  50  // one interruption may come between two batches

typedef struct saver {
    asked asked;
    tr_storage *store;
    char key[32];
    uint64_t acked;             // the last version that was acknowledged
    _Atomic(uint64_t) answers;  // TR_OK, for the test to watch
    _Atomic(uint32_t) unknown;  // TR_EUNKNOWN, for the test to watch
    uint32_t refused;
    uint32_t bad;
    char what[128];  // about the last bad answer
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

/* Saves as an actor does: loads after an unknown outcome. */
static void saver_run(void *arg)
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

/* Waits until so many more saves were acknowledged. */
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

/* Runs savers and interrupts them several times; then checks all states. */
static void run_savers(void (*interrupt)(void))
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
                                                  saver_run, &savers[i]),
                         TR_OK);
    }
    // Goes on until an interruption met a save in flight.
    for (uint32_t i = 0;
         i < KILLS * test_scale() || (i < TRIES && unknown_of(savers) == 0);
         i++) {
        wait_for_answers(savers, 500);
        interrupt();
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

static void end_sessions(void)
{
    admin_do(END_SESSIONS);
}

static void test_ST9_a_killed_server_loses_no_acknowledged_save(void **state)
{
    (void)state;
    run_savers(kill_and_start);
}

static void test_ST9_ended_sessions_lose_no_acknowledged_save(void **state)
{
    (void)state;
    run_savers(end_sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMPTY(test_an_idle_store_survives_the_end_of_its_sessions),
        EMPTY(test_ST6_a_save_in_flight_is_unknown_after_a_disconnect),
        EMPTY(test_a_server_that_does_not_answer_is_given_up),
        EMPTY(test_ST6_without_a_server_writes_fail_with_a_reason),
        EMPTY(test_closing_does_not_wait_for_the_server),
        EMPTY(test_ST9_a_killed_server_loses_no_acknowledged_save),
        EMPTY(test_ST9_ended_sessions_lose_no_acknowledged_save),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
