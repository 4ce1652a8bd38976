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
    };
    return cmocka_run_group_tests_name("error texts", tests, NULL, NULL);
}
