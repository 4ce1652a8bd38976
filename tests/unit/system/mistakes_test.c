/*
 * mistakes_test.c - what a newcomer does wrong in the first hour, and whether
 * the message says what happened, where, and what to do.
 *
 * Through the public headers alone, on virtual time. A storage file of a newer
 * version is in the tests of its store, a handler that blocks in stuck_test.c.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "support/dying.h"

TR_MESSAGE(Number, (int64_t, n));
TR_REQUEST(Ask, Number);
TR_REQUEST(AskSelf, Number);
TR_REQUEST(AskAsSystem, Number);
TR_REQUEST(Save, Number);
TR_REQUEST(Assert, Number);
TR_REQUEST(Wrong, Number);
TR_REQUEST(Twice, Number);
TR_MESSAGE(Stray);
TR_STATE(Novice, (int64_t, n));

enum { TEXT_MAX = 2048 };

typedef struct scene {
    tr_sim *sim;
    tr_system *sys;
    tr_ref novice;
    char log[TEXT_MAX];     // the last line
    char inside[TEXT_MAX];  // tr_error_text of a handler
} scene;

static scene *now;  // one test at a time; handlers have no other way to it

static tr_err on_ask(tr_ctx *ctx, Novice *self, const Ask *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;  // forgot to reply
}

static tr_err on_ask_self(tr_ctx *ctx, Novice *self, const AskSelf *m)
{
    (void)self;
    tr_err err = tr_ask(ctx, tr_self(ctx), NULL, 0, Ask);
    snprintf(now->inside, sizeof(now->inside), "%s", tr_error_text(ctx));
    return tr_refuse(ctx, m, err, "as expected");
}

static tr_err on_ask_as_system(tr_ctx *ctx, Novice *self, const AskAsSystem *m)
{
    (void)self;
    tr_err err = tr_ask(tr_system_of(ctx), tr_self(ctx), NULL, 0, Ask);
    snprintf(now->inside, sizeof(now->inside), "%s",
             tr_error_text(tr_system_of(ctx)));
    return tr_refuse(ctx, m, err, "as expected");
}

static tr_err on_save(tr_ctx *ctx, Novice *self, const Save *m)
{
    Novice next = *self;
    tr_err err = tr_persist(ctx, self, &next);
    snprintf(now->inside, sizeof(now->inside), "%s", tr_error_text(ctx));
    return tr_refuse(ctx, m, err, "as expected");
}

static tr_err on_assert(tr_ctx *ctx, Novice *self, const Assert *m)
{
    (void)m;
    TR_ASSERT(ctx, self->n > 0);
    return TR_OK;
}

static tr_err on_twice(tr_ctx *ctx, Novice *self, const Twice *m)
{
    (void)self;
    TR_TRY(tr_reply(ctx, m, .n = 1));
    return tr_reply(ctx, m, .n = 2);
}

TR_ACTOR(novice, Novice, TR_ON(Ask, on_ask), TR_ON(AskSelf, on_ask_self),
         TR_ON(Twice, on_twice), TR_ON(AskAsSystem, on_ask_as_system),
         TR_ON(Save, on_save), TR_ON(Assert, on_assert));

/* Its state is a plain struct: it has no schema. */
typedef struct Plain {
    int64_t n;
} Plain;

static tr_err on_plain_ask(tr_ctx *ctx, Plain *self, const Ask *m)
{
    return tr_reply(ctx, m, .n = self->n);
}

TR_ACTOR(plain, Plain, TR_ON(Ask, on_plain_ask));

static void take_log(void *user, const tr_log_record *record)
{
    scene *s = user;
    snprintf(s->log, sizeof(s->log), "%s %s %s",
             record->path != NULL ? record->path : "-",
             record->site != NULL ? record->site : "-", record->text);
}

static int open_scene(void **state)
{
    static scene s;
    s = (scene){0};
    TR_MUST(tr_sim_new(&s.sim, 1));
    TR_MUST(tr_system_open(&s.sys, .world = tr_sim_world(s.sim),
                           .log = take_log, .log_user = &s));
    s.novice = tr_spawn(s.sys, novice, .name = "novice");
    now = &s;
    *state = &s;
    return 0;
}

static int close_scene(void **state)
{
    scene *s = *state;
    if (s->sys != NULL) {
        TR_MUST(tr_system_close(s->sys, 0));
    }
    tr_sim_free(s->sim);
    return 0;
}

/* Each part is in the text; the parts are what, where and what to do. */
static void says(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", text, *parts);
        }
    }
}

#define SAYS(text, ...) says((text), (const char *const[]){__VA_ARGS__, NULL})

/* ---- messages ---- */

static void test_wrong_type_names_type_and_actor(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Wrong), TR_EUNHANDLED);
    SAYS(tr_error_text(s->sys), "Wrong of /user/novice",
         "mistakes_test.c:", "does not take this message", "no TR_ON for it");
    // Once, not twice in one sentence.
    const char *first = strstr(tr_error_text(s->sys), "does not take");
    assert_null(strstr(first + 1, "does not take"));
    tr_tell(s->sys, s->novice, Stray);
    tr_sim_advance(s->sim, TR_MS(1));
    SAYS(s->log, "Stray to /user/novice", "does not take this message");
}

static void test_forgotten_reply_names_the_ways_to_answer(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Ask), TR_ENOREPLY);
    SAYS(tr_error_text(s->sys), "Ask of /user/novice",
         "mistakes_test.c:", "without replying", "tr_reply", "tr_keep");
}

static void test_asking_oneself_shows_the_circle(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, AskSelf),
                     TR_EFAILED);  // TR_EDEADLOCK is not a handler's to give
    SAYS(s->inside, "Ask would close a cycle", "/user/novice (",
         "mistakes_test.c:", "-> /user/novice", "tr_tell does not wait");
}

static void test_waiting_as_sys_in_a_handler(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, AskAsSystem),
                     TR_EWOULDBLOCK);
    SAYS(s->inside, "Ask at ", "mistakes_test.c:", "use its ctx");
    SAYS(s->log, "mistakes_test.c:", "inside a handler", "use its ctx");
}

static void test_assertion_says_that_it_is_one(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Assert), TR_EPANIC);
    SAYS(tr_error_text(s->sys), "Assert of /user/novice",
         "assertion failed: self->n > 0");
    tr_sim_advance(s->sim, TR_MS(1));  // the asker hears first
    SAYS(s->log, "/user/novice",
         "mistakes_test.c:", "assertion failed: self->n > 0",
         "while handling Assert", "decision: restart");
}

static void test_answering_twice_says_how_it_came(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Twice), TR_OK);
    tr_sim_advance(s->sim, TR_MS(1));
    SAYS(s->log, "/user/novice", "Twice has been answered already",
         "earlier tr_reply", "tr_keep", "decision: restart");
}

/* ---- names and spawning ---- */

static void test_duplicate_name(void **state)
{
    scene *s = *state;
    tr_ref ref = tr_spawn(s->sys, novice, .name = "novice");
    assert_int_equal(tr_ref_err(ref), TR_EEXIST);
    SAYS(tr_error_text(s->sys), "cannot spawn novice \"novice\"",
         "a sibling has the name", "tr_join");
}

static void test_names_that_cannot_be(void **state)
{
    static const char *const names[] = {"", "$mine", "a/b", "two words"};
    scene *s = *state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char shown[64];
        tr_ref ref = tr_spawn(s->sys, novice, .name = names[i]);
        assert_int_equal(tr_ref_err(ref), TR_EINVAL);
        snprintf(shown, sizeof(shown), "\"%s\"", names[i]);
        SAYS(tr_error_text(s->sys), "cannot spawn novice", shown,
             "does not begin with '$'", "no '/'");
    }
    assert_int_equal(tr_top_level(s->sys, "user", s->novice), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "/user", "reserved");
}

static void test_spawn_options_that_cannot_be(void **state)
{
    scene *s = *state;
    tr_ref ref =
        tr_spawn(s->sys, novice, .supervision = TR_SUPERVISE(.jitter = 7.0));
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "cannot spawn novice", "out of its range",
         "supervision");
    ref = tr_spawn(s->sys, novice, .init = &(Number){0}, .init_size = 1);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "TR_INIT is of another kind");
}

static void test_no_such_dispatcher(void **state)
{
    tr_system *sys;  // on real threads: simulated ones have a single worker
    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1));
    tr_ref ref = tr_spawn(sys, novice, .dispatcher = "fast");
    assert_int_equal(tr_ref_err(ref), TR_ENOENT);
    SAYS(tr_error_text(sys), "dispatcher fast", "tr_dispatcher_add");
    TR_MUST(tr_system_close(sys, 0));
}

static void test_nobody_is_nobody_whatever_the_reason(void **state)
{
    scene *s = *state;
    tr_ref ref = tr_lookup(s->sys, "/user/nobody");
    assert_true(tr_ref_eq(ref, TR_NOBODY));
    assert_false(tr_ref_eq(s->novice, TR_NOBODY));
    assert_int_equal(tr_ref_err(ref), TR_ENOENT);
    SAYS(tr_error_text(s->sys), "/user/nobody", "tr_tree");
    assert_int_equal(tr_ask(s->sys, ref, NULL, 0, Ask), TR_ENOENT);
    SAYS(tr_error_text(s->sys), "Ask of nobody", "tr_ref_err");
}

/* ---- virtual actors and storage ---- */

static void test_kind_that_nobody_hosts(void **state)
{
    scene *s = *state;
    tr_ref ref = tr_virtual(s->sys, "novice", "ann");
    assert_int_equal(tr_ask(s->sys, ref, NULL, 0, Ask), TR_ENOENT);
    SAYS(tr_error_text(s->sys), "local::novice/ann", "nobody hosts its kind",
         "tr_host");
    tr_tell(s->sys, ref, Stray);
    tr_sim_advance(s->sim, TR_MS(1));
    SAYS(s->log, "Stray to local::novice/ann", "tr_host");
    // A name that is spelled wrong stands beside the right one.
    TR_MUST(tr_host(s->sys, novice));
    TR_MUST(tr_host(s->sys, plain));
    ref = tr_virtual(s->sys, "novize", "ann");
    assert_int_equal(tr_ask(s->sys, ref, NULL, 0, Ask), TR_ENOENT);
    SAYS(tr_error_text(s->sys), "local::novize/ann", "nobody hosts its kind",
         "hosted here: plain, novice");
    tr_tell(s->sys, ref, Stray);
    tr_sim_advance(s->sim, TR_MS(1));
    SAYS(s->log, "Stray to local::novize/ann", "hosted here: plain, novice");
    assert_int_equal(tr_host(s->sys, novice), TR_EEXIST);
    SAYS(tr_error_text(s->sys), "cannot host novice", "already");
}

static void test_name_of_a_virtual_actor_that_cannot_be(void **state)
{
    scene *s = *state;
    tr_ref ref = tr_virtual(s->sys, "novice", "ann lee");
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "novice/ann lee", "letters, digits");
}

static void test_persist_without_storage(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Save), TR_ESTORAGE);
    SAYS(s->inside, "tr_persist at ", "mistakes_test.c:", "no storage",
         ".storage");
}

static void test_plain_struct_as_stored_state(void **state)
{
    scene *s = *state;
    tr_storage *store;
    TR_MUST(tr_storage_memory(&store));
    tr_ref ref = tr_spawn(s->sys, plain, .name = "p", .storage = store);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "cannot spawn plain \"p\"",
         "a stored state needs TR_STATE");
    assert_int_equal(tr_host(s->sys, plain, .storage = store), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "cannot host plain",
         "a stored state needs TR_STATE");
    // Nor by way of the options of one that can be stored.
    tr_ref good = tr_spawn(s->sys, novice, .storage = store);
    assert_int_equal(tr_ref_err(good), TR_OK);
    ref = tr_spawn(s->sys, plain, .storage = store);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    TR_MUST(tr_system_close(s->sys, 0));
    s->sys = NULL;
    tr_storage_close(store);
}

/* ---- a system that is not open ---- */

static void test_spawn_while_closing(void **state)
{
    scene *s = *state;
    tr_system_terminate(s->sys);
    tr_ref ref = tr_spawn(s->sys, novice, .name = "late");
    assert_int_equal(tr_ref_err(ref), TR_ECLOSED);
    SAYS(tr_error_text(s->sys), "cannot spawn novice \"late\"",
         "closing or closed");
}

static void test_ref_of_a_closed_system(void **state)
{
    scene *s = *state;
    tr_ref old = s->novice;
    TR_MUST(tr_system_close(s->sys, 0));
    TR_MUST(tr_system_open(&s->sys, .world = tr_sim_world(s->sim),
                           .log = take_log, .log_user = s));
    assert_int_equal(tr_ask(s->sys, old, NULL, 0, Ask), TR_EFOREIGN);
    SAYS(tr_error_text(s->sys), "another system", "closed since");
}

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

static void test_no_system_at_all(void **state)
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

static void test_null_is_no_system(void **state)
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
    SAYS(text, "tr_system_open", "is no world", "tr_sim_world(sim)");
}

static void test_must_says_all_that_is_known(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    must_hold(must_find_an_actor, text);
    SAYS(text, "mistakes_test.c:", "TR_EUNHANDLED", "Wrong of /user/novice",
         "no TR_ON for it");
    must_hold(must_not_tell_old_news, text);
    SAYS(text, "mistakes_test.c:", "TR_EIO", tr_strerror(TR_EIO));
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

#define ON_SCENE(test)                                                         \
    cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SCENE(test_wrong_type_names_type_and_actor),
        ON_SCENE(test_forgotten_reply_names_the_ways_to_answer),
        ON_SCENE(test_asking_oneself_shows_the_circle),
        ON_SCENE(test_waiting_as_sys_in_a_handler),
        ON_SCENE(test_assertion_says_that_it_is_one),
        ON_SCENE(test_answering_twice_says_how_it_came),
        ON_SCENE(test_duplicate_name),
        ON_SCENE(test_names_that_cannot_be),
        ON_SCENE(test_spawn_options_that_cannot_be),
        ON_SCENE(test_no_such_dispatcher),
        ON_SCENE(test_nobody_is_nobody_whatever_the_reason),
        ON_SCENE(test_kind_that_nobody_hosts),
        ON_SCENE(test_name_of_a_virtual_actor_that_cannot_be),
        ON_SCENE(test_persist_without_storage),
        ON_SCENE(test_plain_struct_as_stored_state),
        ON_SCENE(test_spawn_while_closing),
        ON_SCENE(test_ref_of_a_closed_system),
        cmocka_unit_test(test_no_system_at_all),
        cmocka_unit_test(test_null_is_no_system),
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
