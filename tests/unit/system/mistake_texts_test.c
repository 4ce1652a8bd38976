/*
 * mistake_texts_test.c - what a newcomer does wrong in the first hour, and
 * whether the error text says what happened, where, and what to do.
 * mistake_aborts_test.c has the mistakes that end the process or that only the
 * log reports.
 *
 * Through the public headers alone, on virtual time. A storage file of a newer
 * version is in the tests of its store, a handler that blocks in stuck_test.c.
 */
#include "unit/system/mistakes.h"

#include <stdio.h>

#include <troupe/troupe.h>

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

/* ---- messages ---- */

static void test_wrong_type_names_type_and_actor(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Wrong), TR_EUNHANDLED);
    SAYS(tr_error_text(s->sys), "Wrong of /user/novice",
         "mistake_texts_test.c:", "does not take this message",
         "no TR_ON for it");
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
         "mistake_texts_test.c:", "without replying", "tr_reply", "tr_keep");
}

static void test_asking_oneself_shows_the_cycle(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, AskSelf),
                     TR_EFAILED);  // TR_EDEADLOCK is not a handler's to give
    SAYS(s->inside, "Ask would close a cycle", "/user/novice (",
         "mistake_texts_test.c:", "-> /user/novice", "tr_tell does not wait");
}

static void test_waiting_as_sys_in_a_handler(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, AskAsSystem),
                     TR_EWOULDBLOCK);
    SAYS(s->inside, "Ask at ", "mistake_texts_test.c:", "use its ctx");
    SAYS(s->log, "mistake_texts_test.c:", "inside a handler", "use its ctx");
}

static void test_assertion_says_that_it_is_one(void **state)
{
    scene *s = *state;
    assert_int_equal(tr_ask(s->sys, s->novice, NULL, 0, Assert), TR_EPANIC);
    SAYS(tr_error_text(s->sys), "Assert of /user/novice",
         "assertion failed: self->n > 0");
    tr_sim_advance(s->sim, TR_MS(1));  // the asker hears first
    SAYS(s->log, "/user/novice",
         "mistake_texts_test.c:", "assertion failed: self->n > 0",
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

static void test_a_duplicate_name_is_explained(void **state)
{
    scene *s = *state;
    tr_ref ref = tr_spawn(s->sys, novice, .name = "novice");
    assert_int_equal(tr_ref_err(ref), TR_EEXIST);
    SAYS(tr_error_text(s->sys), "cannot spawn novice \"novice\"",
         "a sibling has the name", "tr_join");
}

static void test_bad_names_are_explained(void **state)
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
    tr_ref top = tr_top_level(s->sys, novice, .name = "user");
    assert_int_equal(tr_ref_err(top), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "/user", "reserved");
}

static void test_bad_spawn_options_are_explained(void **state)
{
    scene *s = *state;
    tr_ref ref =
        tr_spawn(s->sys, novice, .supervision = TR_SUPERVISE(.jitter = 7.0));
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "cannot spawn novice",
         "jitter is not between 0.0 and 1.0");
    ref = tr_spawn(s->sys, novice, .init = &(Number){0}, .init_size = 1);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    SAYS(tr_error_text(s->sys), "TR_INIT is of another kind");
}

static void test_an_unknown_dispatcher_is_named(void **state)
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

static void test_a_kind_without_a_host_is_explained(void **state)
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

static void test_a_bad_virtual_name_is_explained(void **state)
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
    SAYS(s->inside, "tr_persist at ", "mistake_texts_test.c:", "no storage",
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
    tr_ref good = tr_spawn(s->sys, novice, .name = "n", .storage = store);
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

#define ON_SCENE(test)                                                         \
    cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SCENE(test_wrong_type_names_type_and_actor),
        ON_SCENE(test_forgotten_reply_names_the_ways_to_answer),
        ON_SCENE(test_asking_oneself_shows_the_cycle),
        ON_SCENE(test_waiting_as_sys_in_a_handler),
        ON_SCENE(test_assertion_says_that_it_is_one),
        ON_SCENE(test_answering_twice_says_how_it_came),
        ON_SCENE(test_a_duplicate_name_is_explained),
        ON_SCENE(test_bad_names_are_explained),
        ON_SCENE(test_bad_spawn_options_are_explained),
        ON_SCENE(test_an_unknown_dispatcher_is_named),
        ON_SCENE(test_nobody_is_nobody_whatever_the_reason),
        ON_SCENE(test_a_kind_without_a_host_is_explained),
        ON_SCENE(test_a_bad_virtual_name_is_explained),
        ON_SCENE(test_persist_without_storage),
        ON_SCENE(test_plain_struct_as_stored_state),
        ON_SCENE(test_spawn_while_closing),
        ON_SCENE(test_ref_of_a_closed_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
