/*
 * mistake_aborts_test.c - mistakes that end the process, or that only the log
 * reports: no open system, a store that cannot be opened, the wrong order of
 * closing, options without a size. Each runs in a child process, whose
 * standard error must say what happened, where, and what to do.
 */
#include "unit/system/mistakes.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "support/dying.h"

TR_MESSAGE(Number, (int64_t, n));
TR_REQUEST(Ask, Number);
TR_REQUEST(Wrong, Number);
TR_MESSAGE(Stray);
TR_STATE(Novice, (int64_t, n));

static tr_err on_ask(tr_ctx *ctx, Novice *self, const Ask *m)
{
    return tr_reply(ctx, m, .n = self->n);
}

TR_ACTOR(novice, Novice, TR_ON(Ask, on_ask));

/* Runs act in a child and stores what it says on standard error. */
static int said(void (*act)(void), char *text, size_t size)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        dying_child();
        act();
        _exit(0);
    }
    close(ends[1]);
    while (used + 1 < size &&
           (got = read(ends[0], text + used, size - used - 1)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* A closed one is memory with anything in it; here: with zeros. */
static void tell_as_nothing(void)
{
    static uint64_t zeros[64];
    tr_tell((tr_system *)(void *)zeros, TR_NOBODY, Stray);
}

static void test_a_closed_system_is_reported(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    int status = said(tell_as_nothing, text, sizeof(text));
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    SAYS(text, "no open system", "closed", "neither a ctx, a sys nor a probe");
}

static void tell_as_null(void)
{
    tr_tell((tr_system *)NULL, TR_NOBODY, Stray);
}

static void ask_as_null(void)
{
    if (tr_ask((tr_ctx *)NULL, TR_NOBODY, NULL, 0, Ask) != TR_OK) {
        fprintf(stderr, "asked");
    }
}

static void look_as_null(void)
{
    (void)tr_lookup((tr_system *)NULL, "/user");
}

static void spawn_as_null(void)
{
    (void)tr_spawn((tr_system *)NULL, novice);
}

static void watch_the_clock_as_null(void)
{
    (void)tr_now((tr_probe *)NULL);
}

static void stop_as_null(void)
{
    tr_stop((tr_ctx *)NULL, TR_NOBODY);
}

static void test_a_null_system_is_reported(void **state)
{
    void (*const acts[])(void) = {tell_as_null, ask_as_null,
                                  look_as_null, spawn_as_null,
                                  stop_as_null, watch_the_clock_as_null};
    char text[TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        int status = said(acts[i], text, sizeof(text));
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        SAYS(text, "no open system", "it is NULL");
    }
    assert_non_null(tr_error_text((tr_system *)NULL));  // of this thread
}

/* ---- a store that does not open, without room for a text ---- */

static void open_nowhere(void)
{
    tr_storage *store;
    if (tr_storage_sqlite(&store, "/nowhere/bank.db") != TR_ESTORAGE) {
        fprintf(stderr, "opened");
    }
}

static void open_no_server(void)
{
    tr_storage *store;
    if (tr_storage_postgres(&store, "host=/nowhere port=7 dbname=bank") !=
        TR_ESTORAGE) {
        fprintf(stderr, "opened");
    }
}

/* In a simulation it is the disk of a node that fails, and no folder. */
static void open_on_a_bad_disk(void)
{
    tr_sim *sim;
    tr_storage *store;
    tr_faults faults = {.size = sizeof(faults), .disk_error = 1.0};
    TR_MUST(tr_sim_new(&sim, 1));
    tri_sim_set_faults(sim, &faults);
    tr_storage_options options = {.size = sizeof(options),
                                  .world = tr_sim_world(sim)};
    if (tr_storage_sqlite_with(&store, "bank.db", &options) != TR_ESTORAGE) {
        fprintf(stderr, "opened");
    }
    tr_sim_free(sim);
}

static void test_store_on_a_bad_disk_is_in_the_log(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    assert_int_equal(said(open_on_a_bad_disk, text, sizeof(text)), 0);
    SAYS(text, "ERROR", "node 0, bank.db", "unable to open database file",
         "input or output failed");
    assert_null(strstr(text, "folder"));
}

static void test_store_without_a_folder_is_in_the_log(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    assert_int_equal(said(open_nowhere, text, sizeof(text)), 0);
    SAYS(text, "ERROR", "/nowhere/bank.db", "the folder must exist");
}

static void test_no_postgres_is_in_the_log(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    assert_int_equal(said(open_no_server, text, sizeof(text)), 0);
    SAYS(text, "ERROR", "/nowhere/.s.PGSQL.7", "start the server");
}

/* ---- the order of closing, and options without a size ---- */

static void close_store_first(void)
{
    tr_system *sys;
    tr_storage *store;
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys, .workers = 1));
    TR_MUST(tr_host(sys, novice, .storage = store));
    tr_storage_close(store);
}

static void close_with_a_probe(void)
{
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_system_open(&sys, .workers = 1));
    TR_MUST(tr_probe_new(&probe, sys));
    TR_MUST(tr_system_close(sys, 0));
}

static void free_the_world_first(void)
{
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    tr_sim_free(sim);
}

static void give_the_simulation_itself(void)
{
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = sim));
}

static void must_find_an_actor(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .workers = 1));
    tr_ref ref = tr_spawn(sys, novice, .name = "novice");
    TR_MUST(tr_ask(sys, ref, NULL, 0, Wrong));
}

static void must_not_tell_old_news(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .workers = 1));
    (void)tr_lookup(sys, "/user/nobody");
    TR_MUST(TR_EIO);
}

static void must_hold(void (*act)(void), char *text)
{
    int status = said(act, text, TEXT_MAX);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_wrong_order_of_closing(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    must_hold(close_store_first, text);
    SAYS(text, "tr_storage_close", "still uses it", "close that first");
    must_hold(close_with_a_probe, text);
    SAYS(text, "tr_system_close", "a probe is open", "tr_probe_free");
    must_hold(free_the_world_first, text);
    SAYS(text, "tr_sim_free", "a system is open", "tr_system_close");
}

static void test_simulation_in_place_of_its_world(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    must_hold(give_the_simulation_itself, text);
    SAYS(text, "tr_system_open", "is not a world", "tr_sim_world(sim)");
}

static void test_must_says_all_that_is_known(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    must_hold(must_find_an_actor, text);
    SAYS(text, "mistake_aborts_test.c:", "TR_EUNHANDLED",
         "Wrong of /user/novice", "no TR_ON for it");
    must_hold(must_not_tell_old_news, text);
    SAYS(text, "mistake_aborts_test.c:", "TR_EIO", tr_strerror(TR_EIO));
    assert_null(strstr(text, "nobody"));
}

static void open_without_a_size(void)
{
    tr_storage *store;
    tr_storage_options options = {.world = NULL};
    if (tr_storage_sqlite_with(&store, "bank.db", &options) != TR_EINVAL) {
        fprintf(stderr, "opened");
    }
}

static void simulate_without_a_size(void)
{
    tr_sim_options options = {.seed = 1};
    if (tr_sim_run(&options) != TR_EINVAL) {
        fprintf(stderr, "run");
    }
}

static void test_options_without_a_size(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    assert_int_equal(said(open_without_a_size, text, sizeof(text)), 0);
    SAYS(text, "ERROR", ".size is not sizeof(tr_storage_options)");
    assert_int_equal(said(simulate_without_a_size, text, sizeof(text)), 0);
    SAYS(text, "ERROR", ".size is not sizeof(tr_sim_options)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closed_system_is_reported),
        cmocka_unit_test(test_a_null_system_is_reported),
        cmocka_unit_test(test_store_on_a_bad_disk_is_in_the_log),
        cmocka_unit_test(test_store_without_a_folder_is_in_the_log),
        cmocka_unit_test(test_no_postgres_is_in_the_log),
        cmocka_unit_test(test_wrong_order_of_closing),
        cmocka_unit_test(test_simulation_in_place_of_its_world),
        cmocka_unit_test(test_must_says_all_that_is_known),
        cmocka_unit_test(test_options_without_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
