/*
 * 13_error_texts.c - after a call has failed, tr_error_text is about that
 * call: never empty, never about an earlier one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

static void nothing(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

/* Leaves an error text that no later call may show. */
static void fail_before(tr_system *sys)
{
    (void)tr_lookup(sys, "/user/earlier");
    assert_says(tr_error_text(sys), "earlier");
}

TR_MESSAGE(Nudge);

static tr_err fail_to_start(tr_ctx *ctx, void *self)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(10)));  // virtual: tr_started comes first
    return tr_fail(ctx, TR_EUSER, "no paper");
}

TR_ACTOR(printer, void, TR_HOOK(pre_start, fail_to_start));

static tr_err on_nudge(tr_ctx *ctx, void *self, const Nudge *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(idle, void, TR_ON(Nudge, on_nudge));

static void test_a_failed_tr_started_has_the_text_of_the_failure(void **state)
{
    tr_sim *sim;
    tr_system *sys;

    (void)state;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log = nothing));
    fail_before(sys);
    tr_ref ref = tr_spawn(sys, printer, .name = "printer",
                          .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    assert_int_equal(tr_started(sys, ref, 0), TR_EUSER);
    assert_says(tr_error_text(sys), "tr_started");
    assert_says(tr_error_text(sys), "no paper");
    fail_before(sys);
    assert_int_equal(tr_started(sys, TR_NOBODY, 0), TR_ENOENT);
    assert_says(tr_error_text(sys), "tr_started of nobody");
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

static void test_a_failed_tr_join_names_its_actor(void **state)
{
    tr_system *sys;

    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log = nothing));
    tr_ref ref = tr_spawn(sys, idle, .name = "idle");
    fail_before(sys);
    assert_int_equal(tr_join(sys, ref, TR_MS(1), NULL, NULL), TR_ETIMEDOUT);
    assert_says(tr_error_text(sys), "tr_join of /user/idle");
    TR_MUST(tr_system_close(sys, 0));
}

static void test_a_failed_tr_try_tell_names_type_and_actor(void **state)
{
    tr_system *sys;

    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log = nothing));
    fail_before(sys);
    assert_int_equal(tr_try_tell(sys, TR_NOBODY, Nudge), TR_EGONE);
    assert_says(tr_error_text(sys), "Nudge to nobody");
    TR_MUST(tr_system_close(sys, 0));
}

/* ---- options ---- */

static void assert_not_opened(tr_err err, const char *part)
{
    assert_int_equal(err, TR_EINVAL);
    assert_says(tr_error_text((tr_system *)NULL), "tr_system_open");
    assert_says(tr_error_text((tr_system *)NULL), part);
}

static void test_a_refused_tr_system_open_names_the_option(void **state)
{
    tr_system *sys;

    (void)state;
    assert_not_opened(
        tr_system_open(&sys, .supervision = TR_SUPERVISE(.jitter = 2.0)),
        "supervision.jitter");
    assert_not_opened(
        tr_system_open(&sys, .user_supervision = TR_SUPERVISE(.within = -1)),
        "user_supervision.within");
    assert_not_opened(tr_system_open(&sys, .ns = "two words"), "ns");
    assert_not_opened(tr_system_open(&sys, .ns = ""), "ns");
    tr_system_options options = {.workers = 1};  // without a size
    assert_not_opened((tr_system_open)(&sys, &options),
                      "sizeof(tr_system_options)");
}

static void test_backoff_min_above_backoff_max_is_refused(void **state)
{
    tr_system *sys;

    (void)state;
    assert_not_opened(
        tr_system_open(&sys,
                       .supervision = TR_SUPERVISE(.backoff_min = TR_MS(20),
                                                   .backoff_max = TR_MS(10))),
        "supervision.backoff_min is above backoff_max");
    TR_MUST(tr_system_open(&sys, .workers = 1));
    tr_ref ref =
        tr_spawn(sys, idle,
                 .supervision = TR_SUPERVISE(.backoff_min = TR_MS(20),
                                             .backoff_max = TR_MS(10)));
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    assert_says(tr_error_text(sys), "cannot spawn idle");
    assert_says(tr_error_text(sys), "backoff_min is above backoff_max");
    // Only one of the two is given: the other follows.
    ref = tr_spawn(sys, idle,
                   .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(5)));
    assert_int_equal(tr_ref_err(ref), TR_OK);
    TR_MUST(tr_system_close(sys, 0));
}

static void test_a_late_tr_top_level_says_what_came_before(void **state)
{
    tr_system *sys;

    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log = nothing));
    fail_before(sys);
    tr_ref late = tr_top_level(sys, idle, .name = "late");
    assert_int_equal(tr_ref_err(late), TR_ECLOSED);
    assert_says(tr_error_text(sys), "tr_top_level");
    assert_says(tr_error_text(sys), "before the first tr_lookup");
    TR_MUST(tr_system_close(sys, 0));
}

/* ---- a descriptor in a simulated world ---- */

static char inside[256];

static tr_err wait_for_fd(tr_ctx *ctx, void *self, const Nudge *m)
{
    uint32_t ready;

    (void)self;
    (void)m;
    (void)tr_lookup(ctx, "/user/earlier");
    tr_err err = tr_wait_fd(ctx, 0, TR_FD_READ, TR_SECONDS(1), &ready);
    strncpy(inside, tr_error_text(ctx), sizeof(inside) - 1);
    return err == TR_EWOULDBLOCK || err == TR_EINVAL ? TR_OK : TR_EFAILED;
}

TR_ACTOR(reader, void, TR_ON(Nudge, wait_for_fd));

static void test_tr_wait_fd_in_a_simulated_world_says_so(void **state)
{
    tr_sim *sim;
    tr_system *sys;

    (void)state;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    tr_tell(sys, tr_spawn(sys, reader), Nudge);
    tr_sim_advance(sim, TR_SECONDS(2));
    assert_says(inside, "tr_wait_fd");
    assert_says(inside, "simulated");
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* ---- spawning ---- */

TR_STATE(Purse, (int64_t, cents));
TR_MESSAGE(Err, (uint32_t, err), (const char *, text));
TR_REQUEST(Spawn, Err, (uint64_t, store));

static tr_err on_spawn(tr_ctx *ctx, Purse *self, const Spawn *m);

TR_ACTOR(purse, Purse, TR_ON(Spawn, on_spawn));

/* Spawns a child that has a name and a store. */
static tr_err on_spawn(tr_ctx *ctx, Purse *self, const Spawn *m)
{
    tr_ref ref = tr_spawn(ctx, purse, .name = "child",
                          .storage = (tr_storage *)(uintptr_t)m->store);
    (void)self;
    return tr_reply(ctx, m, .err = (uint32_t)tr_ref_err(ref),
                    .text = tr_error_text(ctx));
}

static tr_err spawn_child(tr_system *sys, tr_ref parent, tr_storage *store,
                          const char *says)
{
    Err reply;
    TR_MUST(tr_ask(sys, parent, &reply, 0, Spawn,
                   .store = (uint64_t)(uintptr_t)store));
    assert_says(reply.text, says);
    tr_err err = (tr_err)reply.err;
    tr_drop(Err, &reply);
    return err;
}

/* Its state would be found again by chance, or that of another actor. */
static void test_a_stored_state_needs_a_name(void **state)
{
    tr_storage *store;
    tr_system *sys;

    (void)state;
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys, .log = nothing));
    fail_before(sys);
    tr_ref ref = tr_spawn(sys, purse, .storage = store);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    assert_says(tr_error_text(sys), "cannot spawn purse");
    assert_says(tr_error_text(sys), "give it a .name");
    tr_ref unnamed = tr_spawn(sys, purse);
    tr_ref named = tr_spawn(sys, purse, .name = "named", .storage = store);
    assert_int_equal(spawn_child(sys, unnamed, store, "each actor above it"),
                     TR_EINVAL);
    assert_int_equal(spawn_child(sys, named, store, ""), TR_OK);
    TR_MUST(tr_host(sys, purse));
    tr_ref virtual = tr_virtual(sys, "purse", "v");
    assert_int_equal(spawn_child(sys, virtual, store, ""), TR_OK);
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(store);
}

static void test_a_second_actor_of_a_name_is_refused(void **state)
{
    tr_system *sys;

    (void)state;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(tr_ref_err(tr_spawn(sys, idle, .name = "one")));
    fail_before(sys);
    tr_ref ref = tr_spawn(sys, idle, .name = "one");
    assert_int_equal(tr_ref_err(ref), TR_EEXIST);
    assert_says(tr_error_text(sys), "cannot spawn idle \"one\"");
    assert_says(tr_error_text(sys), "a sibling has the name");
    TR_MUST(tr_system_close(sys, 0));
}

/* ---- streams ---- */

typedef struct Talk {
    tr_stream *stream;
} Talk;

static tr_err talk_run(tr_ctx *ctx, Talk *self)
{
    (void)ctx, (void)self;
    return TR_OK;
}

TR_ACTOR(talk, Talk, TR_HOOK(on_run, talk_run));

static void test_an_address_without_a_scheme_is_explained(void **state)
{
    static const char *const wrong[] = {"127.0.0.1:0", "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:x", "unix:", ""};
    tr_system *sys;
    tr_stream *stream;

    (void)state;
    TR_MUST(tr_system_open(&sys));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fail_before(sys);
        assert_int_equal(tr_ref_err(tr_serve(sys, wrong[i], talk)), TR_EINVAL);
        assert_says(tr_error_text(sys), wrong[i]);
        assert_says(tr_error_text(sys), "tcp://HOST:PORT");
        fail_before(sys);
        assert_int_equal(tr_connect(sys, &stream, wrong[i], TR_SECONDS(30)),
                         TR_EINVAL);
        assert_says(tr_error_text(sys), "tcp://HOST:PORT");
    }
    fail_before(sys);
    tr_ref ref = tr_serve(sys, "tcp://127.0.0.1:0", talk, .drain = -1);
    assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    assert_says(tr_error_text(sys), "cannot serve talk: a time");
    TR_MUST(tr_system_close(sys, 0));
}

static void test_a_line_that_is_too_long_names_its_limit(void **state)
{
    char address[TR_ADDRESS_SIZE], own[TR_ADDRESS_SIZE], line[8];
    tr_system *sys;
    tr_stream *listener, *client, *server;
    size_t got;

    (void)state;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(tr_listen(sys, &listener, "tcp://127.0.0.1:0", 0));
    (void)tr_stream_address(listener, false, address, sizeof(address));
    TR_MUST(tr_connect(sys, &client, address, TR_SECONDS(30)));
    TR_MUST(tr_accept(sys, &server, listener, TR_SECONDS(30)));
    TR_MUST(tr_write(sys, client, TR_SECONDS(30), {"0123456789\n", 11}));
    fail_before(sys);
    assert_int_equal(tr_read_until(sys, server, '\n', line, sizeof(line),
                                   TR_SECONDS(30), &got),
                     TR_ELIMIT);
    assert_int_equal(got, sizeof(line));
    assert_says(tr_error_text(sys), "no '\\n' in the first 8 bytes");
    assert_says(tr_error_text(sys),
                tr_stream_address(client, false, own, sizeof(own)));
    tr_stream_close(sys, client);
    tr_stream_close(sys, server);
    tr_stream_close(sys, listener);
    TR_MUST(tr_system_close(sys, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_tr_started_has_the_text_of_the_failure),
        cmocka_unit_test(test_a_failed_tr_join_names_its_actor),
        cmocka_unit_test(test_a_failed_tr_try_tell_names_type_and_actor),
        cmocka_unit_test(test_a_refused_tr_system_open_names_the_option),
        cmocka_unit_test(test_backoff_min_above_backoff_max_is_refused),
        cmocka_unit_test(test_a_late_tr_top_level_says_what_came_before),
        cmocka_unit_test(test_tr_wait_fd_in_a_simulated_world_says_so),
        cmocka_unit_test(test_a_stored_state_needs_a_name),
        cmocka_unit_test(test_a_second_actor_of_a_name_is_refused),
        cmocka_unit_test(test_an_address_without_a_scheme_is_explained),
        cmocka_unit_test(test_a_line_that_is_too_long_names_its_limit),
    };
    return cmocka_run_group_tests_name("error texts", tests, NULL, NULL);
}
