/*
 * missing_resources_test.c - the n-th malloc, thread or poller cannot be had, for every n.
 *
 * out_of_memory_test.c and nomem_system_test.c fail the runtime's own memory in a
 * running system. Here it is the C library's, also before there is a system
 * and below the runtime; and what the world gives. Whatever is missing, a call
 * says so or does its work, what was made before is given back, and the system
 * works and closes afterwards.
 */
#include "support/starve.h"

#include "support/fail_world.h"
#include "support/stage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/core.h"

enum { ALL = 5000 };

/* ---- opening ---- */

static void works_and_closes(tr_system *sys)
{
    stage it = {.sys = sys};
    tr_ref ref = stage_spawn(&it, .name = "one");
    expect_ok(tr_ref_err(ref));
    tr_stop(sys, ref);
    expect_ok(tr_system_close(sys, TR_SECONDS(60)));
}

/* How many allocations it takes. */
static int64_t open_starving(const tr_system_options *options)
{
    int64_t n = 0;
    for (bool failed = true; failed; n++) {
        tr_system *sys = NULL;
        starve_arm(n);
        tr_err err = (tr_system_open)(&sys, options);
        failed = starve_end();
        if (err == TR_OK) {
            works_and_closes(sys);  // it could do without
        } else {
            expect_err(err, TR_ENOMEM);
            assert_null(sys);
            assert_true(failed);
        }
        assert_true(n < ALL);
    }
    return n;
}

static void test_rule_27_a_system_opens_or_says_why_not(void **state)
{
    tr_system_options options = {.size = sizeof(options),
                                 .workers = 2,
                                 .name = "a",
                                 .ns = "b",
                                 .log_level = 9};
    (void)state;
    assert_true(open_starving(&options) > 10 || !STARVE_WORKS);
    options.poll = true;
    assert_true(open_starving(&options) > 10 || !STARVE_WORKS);
}

/* The same for what the library takes from its own pools: a budget. */
static void test_rule_27_a_budget_too_small_for_a_system(void **state)
{
    bool opened = false;
    (void)state;
    for (size_t budget = 4096; !opened; budget *= 2) {
        tr_system *sys;
        tr_err err = tr_system_open(&sys, .poll = true, .log_level = 9,
                                    .memory_budget = budget);
        opened = err == TR_OK;
        if (opened) {
            expect_ok(tr_system_close(sys, TR_SECONDS(60)));
        } else {
            expect_err(err, TR_ENOMEM);
        }
        assert_true(budget < (size_t)1 << 30);
    }
}

/* A supervision that makes no sense is refused before a thread is made. */
static void test_SV27_bad_system_options_are_refused(void **state)
{
    tr_system *sys;
    (void)state;
    expect_err(
        tr_system_open(&sys, .supervision = TR_SUPERVISE(.on_failure = 77)),
        TR_EINVAL);
    expect_err(
        tr_system_open(&sys, .user_supervision = TR_SUPERVISE(.scope = 77)),
        TR_EINVAL);
    assert_null(sys);
    // Many workers are as many as there can be, all numbers are taken.
    expect_ok(tr_system_open(&sys, .poll = true, .workers = 100000,
                             .blocking_threads = 1, .max_parked = 10,
                             .stack_size = 65536, .log_level = 9,
                             .close_timeout = TR_SECONDS(5)));
    works_and_closes(sys);
}

static void test_rule_27_threads_that_cannot_be_started(void **state)
{
    fail_world *fail = fail_world_new(tri_world_posix());
    tr_system_options options = {.size = sizeof(options),
                                 .workers = 3,
                                 .world = fail_world_of(fail),
                                 .log_level = 9};
    uint32_t refused = 0;
    (void)state;
    for (uint64_t n = 1; refused == n - 1; n++) {
        tr_system *sys = NULL;
        fail_world_arm(fail, n, FAIL_CALL);
        tr_err err = (tr_system_open)(&sys, &options);
        bool failed = fail_world_has_failed(fail);
        fail_world_arm(fail, 0, FAIL_CALL);
        if (err == TR_OK) {
            // If one failed all the same it was a helper, on a busy machine.
            works_and_closes(sys);
        } else {
            expect_err(err, TR_ENOMEM);
            assert_null(sys);
            assert_true(failed);
            refused++;
        }
        assert_true(n < 10);
    }
    assert_int_equal(refused, 4);  // three workers and the monitor
    fail_world_free(fail);
}

/* ---- threads that are started later ---- */

static tr_err quick(void *arg)
{
    (void)arg;
    return TR_OK;
}

typedef struct late {
    fail_world *fail;
    int ends[2];
    tr_err blocking, waiting;
} late;

static tr_err act_late(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    late *it = arg;
    uint32_t ready;
    (void)self;
    fail_world_arm(it->fail, 1, FAIL_CALL);
    it->blocking = tr_blocking(ctx, quick, NULL);
    fail_world_arm(it->fail, 1, FAIL_CALL);
    it->waiting =
        tr_wait_fd(ctx, it->ends[0], TR_FD_READ, TR_SECONDS(60), &ready);
    fail_world_arm(it->fail, 0, FAIL_CALL);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_both(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    late *it = arg;
    uint32_t ready;
    (void)self;
    TR_ASSERT(ctx, tr_blocking(ctx, quick, NULL) == TR_OK);
    TR_ASSERT(ctx, tr_wait_fd(ctx, it->ends[0], TR_FD_READ, TR_SECONDS(60),
                              &ready) == TR_OK);
    TR_ASSERT(ctx, ready == TR_FD_READ);
    return tr_reply(ctx, m, .value = 1);
}

static void test_DP4_IO_threads_that_are_started_late(void **state)
{
    stage it;
    late l = {.fail = fail_world_new(tri_world_posix())};
    tr_system_options options = {
        .size = sizeof(options), .workers = 1, .world = fail_world_of(l.fail)};
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, l.ends), 0);
    stage_open_real(&it, &options);
    // All have started: the monitor sees no work that waits, and starts no
    // thread itself while one is to fail.
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    expect_ok(stage_ask(&it, it.three, act_nothing, NULL));
    // A dispatcher whose threads do not start is no dispatcher, yet.
    fail_world_arm(l.fail, 1, FAIL_CALL);
    expect_err(tr_dispatcher_add(it.sys, "mine", .threads = 2), TR_ENOMEM);
    fail_world_arm(l.fail, 1, FAIL_CALL);
    expect_err(tr_ref_err(stage_spawn(&it, .dispatcher = "pinned")), TR_ELIMIT);
    fail_world_arm(l.fail, 1, FAIL_CALL);
    expect_err(tr_ref_err(stage_spawn(&it, .dispatcher = "concurrent")),
               TR_ENOMEM);
    fail_world_arm(l.fail, 0, FAIL_CALL);
    expect_ok(stage_ask(&it, stage_spawn(&it, .dispatcher = "pinned"),
                        act_nothing, NULL));
    expect_ok(stage_ask(&it, stage_spawn(&it, .dispatcher = "concurrent"),
                        act_nothing, NULL));
    // One that has ended leaves its thread to the next.
    tr_ref pinned = stage_spawn(&it, .dispatcher = "pinned", .joinable = true);
    tr_stop(it.sys, pinned);
    expect_ok(tr_join(it.sys, pinned, TR_SECONDS(60), NULL, NULL));
    expect_ok(stage_ask(&it, stage_spawn(&it, .dispatcher = "pinned"),
                        act_nothing, NULL));
    // The first of all jobs, and of all descriptors.
    expect_ok(stage_ask(&it, it.one, act_late, &l));
    expect_err(l.blocking, TR_ENOMEM);
    expect_err(l.waiting, TR_ENOMEM);
    assert_int_equal(write(l.ends[1], "x", 1), 1);
    expect_ok(stage_ask(&it, it.one, act_both, &l));
    stage_close(&it);
    close(l.ends[0]);
    close(l.ends[1]);
    fail_world_free(l.fail);
}

/* ---- inside a handler ---- */

TR_STATE(Owner, (const char *, name), (int64_t, value));

static tr_err owner_stop(tr_ctx *ctx, Owner *self, const Note *m)
{
    (void)self;
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(owners, Owner, TR_ON(Note, owner_stop));

typedef struct plain {
    char *text;
} plain;

static tr_err plain_start(tr_ctx *ctx, plain *self)
{
    self->text = tr_dup(ctx, "plain");
    return TR_OK;
}

static tr_err plain_stop(tr_ctx *ctx, plain *self, const Note *m)
{
    (void)m;
    (void)self;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(plains, plain, TR_ON(Note, plain_stop),
         TR_HOOK(pre_start, plain_start));

/* One thing that an actor does; false when it could not. */
typedef bool (*deed)(tr_ctx *ctx, stage *it);

static bool joins_topic(tr_ctx *ctx, stage *it)
{
    (void)it;
    tr_err err = tr_topic_join(ctx, "news");
    assert_true(err == TR_OK || err == TR_ENOMEM);
    return err == TR_OK;
}

static bool watches(tr_ctx *ctx, stage *it)
{
    tr_watch(ctx, it->two);
    tr_watch_in_order(ctx, it->three);
    return true;
}

static bool spawns(tr_ctx *ctx, stage *it)
{
    tr_ref ref = tr_spawn(ctx, puppets, .name = "kid", .joinable = true,
                          TR_INIT(puppets, .stage = it),
                          .supervision = TR_SUPERVISE(.max_restarts = 1));
    return tr_ref_err(ref) == TR_OK;
}

static bool subscribes(tr_ctx *ctx, stage *it)
{
    (void)it;
    tr_subscribe(ctx, Note);
    tr_every(ctx, TR_SECONDS(1), Note, .value = 1);
    tr_receive_timeout(ctx, TR_SECONDS(5));
    (void)tr_alloc(ctx, 100000);
    (void)tr_scratch(ctx, 100000);
    return true;
}

static bool terminates(tr_ctx *ctx, stage *it)
{
    (void)it;
    tr_err err = tr_on_terminate(ctx);
    assert_true(err == TR_OK || err == TR_ENOMEM);
    return err == TR_OK;
}

static bool fails_in_words(tr_ctx *ctx, stage *it)
{
    (void)it;
    return tr_fail(ctx, TR_EUSER, "a word") == TR_EUSER;
}

static bool asks_nobody(tr_ctx *ctx, stage *it)
{
    (void)it;
    Acted out;
    tr_err err = tr_ask(ctx, TR_NOBODY, &out, TR_SECONDS(1), Act, .fn = 0);
    assert_true(err != TR_OK);
    return true;
}

static bool sends_much(tr_ctx *ctx, stage *it)
{
    static char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    tr_tell(ctx, it->two, Acted, .value = 1, .text = text);
    return true;
}

typedef struct starving {
    deed what;
    int64_t n;
    bool failed, done;
} starving;

static tr_err act_starving(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    starving *it = arg;
    starve_arm(it->n);
    it->done = it->what(ctx, self->stage);
    it->failed = starve_end();
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_again(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    starving *it = arg;
    it->done = it->what(ctx, self->stage);
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_27_a_call_in_a_handler_works_or_says_why_not(void **state)
{
    static const deed deeds[] = {joins_topic, watches,    spawns,
                                 subscribes,  terminates, fails_in_words,
                                 asks_nobody, sends_much};
    (void)state;
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        starving s = {.what = deeds[i], .failed = true};
        for (; s.failed; s.n++) {
            stage it;
            stage_open(&it);
            s.failed = false;
            tr_err err = stage_ask(&it, it.one, act_starving, &s);
            bool failed = starve_end() || s.failed;
            s.failed = failed;
            // Either an answer or a supervised failure that says it.
            assert_true(err == TR_OK || err == TR_EPANIC || err == TR_ENOMEM);
            assert_true(err == TR_OK || failed);
            stage_pass(&it, TR_SECONDS(10));
            expect_ok(stage_ask(&it, it.one, act_again, &s));
            assert_true(s.done || deeds[i] == spawns);  // it has its child
            stage_close(&it);
            assert_true(s.n < ALL);
        }
    }
}

/* ---- from outside, and in the last turn of an actor ---- */

static void results(stage *it, int64_t n, bool *failed)
{
    Owner last = {0};
    tr_result result;
    plain other = {0};
    tr_ref owner = tr_spawn(it->sys, owners, .joinable = true,
                            TR_INIT(owners, .name = "n", .value = 5));
    tr_ref simple = tr_spawn(it->sys, plains, .joinable = true);
    expect_ok(tr_ref_err(owner));
    expect_ok(tr_ref_err(simple));
    stage_run_ready(it);
    starve_arm(n);
    tr_tell(it->sys, owner, Note, .value = 1);
    tr_tell(it->sys, simple, Note, .value = 1);
    stage_run_ready(it);
    tr_err first = tr_join(it->sys, owner, TR_SECONDS(1), &result, &last);
    *failed = starve_end();
    if (first == TR_OK) {
        assert_int_equal(result.reason, TR_STOPPED);
        assert_true(last.value == 5 || *failed);
        tr_drop(Owner, &last);
    } else if (!*failed) {
        expect_ok(first);
    }
    tr_err second = tr_join(it->sys, simple, TR_SECONDS(1), NULL, &other);
    assert_true(second == TR_OK || *failed);
    // An extra top level: the same.
    starve_arm(n);
    tr_err third = tr_ref_err(tr_top_level(it->sys, puppets, .name = "top",
                                           TR_INIT(puppets, .stage = it)));
    bool top_failed = starve_end();
    *failed |= top_failed;
    assert_int_equal(third, top_failed ? TR_ENOMEM : TR_OK);
    starve_arm(n);
    tr_err fourth = tr_system_on_closed(it->sys, free, NULL);
    bool closed_failed = starve_end();
    *failed |= closed_failed;
    assert_int_equal(fourth, closed_failed ? TR_ENOMEM : TR_OK);
}

static void test_rule_27_results_without_memory(void **state)
{
    bool failed = true;
    (void)state;
    for (int64_t n = 0; failed; n++) {
        stage it;
        stage_open(&it);
        results(&it, n, &failed);
        stage_close(&it);
        assert_true(n < ALL);
    }
}

/* The late are forced even when there is no memory to name them. */
static void test_SH12_closing_without_memory(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        tr_sim *sim;
        tr_system *sys;
        tr_close_report report = {.size = sizeof(report)};
        expect_ok(tr_sim_new(&sim, 1));
        expect_ok(
            tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
        stage it = {.sys = sys, .sim = sim};
        tr_ref ref =
            stage_spawn(&it, .name = "one", .stop_timeout = TR_SECONDS(1000));
        act_tell(sys, ref, act_sleep, TR_SECONDS(500));
        tr_sim_advance(sim, TR_SECONDS(1));
        starve_arm(n);
        tr_err err = tr_system_close_report(sys, TR_SECONDS(4), &report);
        (void)starve_end();
        assert_true(err == TR_OK || err == TR_ETIMEDOUT);
        assert_int_equal(report.zombies, 0);
        tr_sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_27_a_system_opens_or_says_why_not),
        cmocka_unit_test(test_rule_27_a_budget_too_small_for_a_system),
        cmocka_unit_test(test_SV27_bad_system_options_are_refused),
        cmocka_unit_test(test_rule_27_threads_that_cannot_be_started),
        cmocka_unit_test(test_DP4_IO_threads_that_are_started_late),
        cmocka_unit_test(
            test_rule_27_a_call_in_a_handler_works_or_says_why_not),
        cmocka_unit_test(test_rule_27_results_without_memory),
        cmocka_unit_test(test_SH12_closing_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
