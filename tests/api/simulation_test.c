/*
 * simulation_test.c - correct programs pass under simulation, whatever
 * features of the library they combine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 40, MESSAGES = 20 };

TR_MESSAGE(Work, (uint32_t, n));
TR_MESSAGE(Begin, (tr_ref, peer));
TR_MESSAGE(Total, (uint64_t, sum));
TR_REQUEST(Get, Total);

typedef struct Sum {
    uint64_t sum;
} Sum;

static tr_err on_work(tr_ctx *ctx, Sum *self, const Work *m)
{
    (void)ctx;
    self->sum += m->n;
    return TR_OK;
}

static tr_err on_get(tr_ctx *ctx, Sum *self, const Get *m)
{
    return tr_reply(ctx, m, .sum = self->sum);
}

TR_ACTOR(adder, Sum, TR_ON(Work, on_work), TR_ON(Get, on_get));

/* Runs the program once for each seed; a run that fails has been printed. */
static void run_all(tr_err (*workload)(tr_sim *sim, void *user))
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .workload = workload,
                                  .nodes = 1,
                                  .quiet_time = TR_SECONDS(1)};
        assert_int_equal(tr_sim_run(&options), TR_OK);
    }
}

static void send_work(tr_system *sys, tr_ref to)
{
    for (uint32_t i = 1; i <= MESSAGES; i++) {
        tr_tell(sys, to, Work, .n = i);
    }
}

/* ---- interceptors ---- */

static tr_err pass(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    (void)ctx;
    (void)msg;
    (void)user;
    return tr_proceed(call);
}

/* Lets every second message through. */
static tr_err filter(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    (void)ctx;
    (void)user;
    const Work *m = tr_msg_payload(msg);
    bool is_work = tr_msg_type(msg)->schema == Work_tr_type.schema;
    return is_work && m->n % 2 == 0 ? TR_OK : tr_proceed(call);
}

static const tr_interceptor passing = {.name = "pass", .around = pass};
static const tr_interceptor filtering = {.name = "filter", .around = filter};
static const tr_interceptor *const both[] = {&passing, &filtering, NULL};

static tr_err intercepted_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref actor = tr_spawn(sys, adder, .interceptors = both);
    Total total;

    send_work(sys, actor);
    TR_TRY(tr_ask(sys, actor, &total, 0, Get));
    assert_int_equal(total.sum, MESSAGES * MESSAGES / 4);
    return TR_OK;
}

static void test_interceptors_run_under_simulation(void **state)
{
    (void)state;
    run_all(intercepted_workload);
}

/* ---- tr_become in every turn that is not a handler of a queued message ---- */

static tr_err quit(tr_ctx *ctx, void *self)
{
    (void)ctx;
    (void)self;
    return TR_OK;
}

TR_ACTOR(quitter, void, TR_HOOK(pre_start, quit));

static tr_err on_begin(tr_ctx *ctx, Sum *self, const Begin *m)
{
    (void)self;
    tr_watch(ctx, m->peer);
    tr_stop(ctx, m->peer);
    return TR_OK;
}

static tr_err become_adder(tr_ctx *ctx, Sum *self, const tr_terminated *m)
{
    (void)m;
    tr_unstash_all(ctx);
    tr_become(ctx, self, adder);
    return TR_OK;
}

static tr_err stash_any(tr_ctx *ctx, Sum *self, const tr_msg *msg)
{
    (void)self;
    return tr_stash(ctx, msg);
}

TR_ACTOR(mourner, Sum, TR_ON(Begin, on_begin),
         TR_ON(tr_terminated, become_adder), TR_ON_ANY(stash_any));

static tr_err run_adder(tr_ctx *ctx, Sum *self)
{
    tr_become(ctx, self, adder);
    return tr_sleep(ctx, TR_SECONDS(3600));
}

TR_ACTOR(runner, Sum, TR_HOOK(on_run, run_adder), TR_ON_ANY(stash_any));

static tr_err ask_total(tr_system *sys, tr_ref actor)
{
    Total total;

    TR_TRY(tr_ask(sys, actor, &total, 0, Get));
    assert_int_equal(total.sum, MESSAGES * (MESSAGES + 1) / 2);
    return TR_OK;
}

static tr_err mourner_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref actor = tr_spawn(sys, mourner);

    tr_tell(sys, actor, Begin, .peer = tr_spawn(sys, quitter));
    send_work(sys, actor);
    return ask_total(sys, actor);
}

static void test_tr_become_in_a_tr_terminated_handler(void **state)
{
    (void)state;
    run_all(mourner_workload);
}

static tr_err runner_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref actor = tr_spawn(sys, runner);

    send_work(sys, actor);
    return ask_total(sys, actor);
}

static void test_tr_become_in_on_run(void **state)
{
    (void)state;
    run_all(runner_workload);
}

/* ---- a deadline that is over ---- */

static tr_err on_late(tr_ctx *ctx, void *self, const Begin *m)
{
    (void)self;
    Total total;

    tr_context_set(ctx, &(tr_context){.deadline = tr_now(ctx) + TR_MS(5)});
    TR_TRY(tr_sleep(ctx, TR_MS(20)));
    tr_err err = tr_ask(ctx, m->peer, &total, 0, Get);
    if (err != TR_ETIMEDOUT) {
        return tr_fail(ctx, TR_EFAILED, "asked: %s", tr_errname(err));
    }
    tr_future late = tr_async(ctx, m->peer, 0, Get);
    err = tr_await(ctx, late, Get, &total);
    if (err != TR_ETIMEDOUT) {
        return tr_fail(ctx, TR_EFAILED, "awaited: %s", tr_errname(err));
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(hurried, void, TR_ON(Begin, on_late));

static tr_err late_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref actor = tr_spawn(sys, hurried, .joinable = true);
    tr_result result;

    tr_tell(sys, actor, Begin, .peer = tr_spawn(sys, adder));
    TR_TRY(tr_join(sys, actor, 0, &result, NULL));
    assert_string_equal(result.text, "");
    return TR_OK;
}

static void test_an_ask_after_the_deadline_of_its_context(void **state)
{
    (void)state;
    run_all(late_workload);
}

/* ---- a redirected request ---- */

static tr_err on_ask(tr_ctx *ctx, void *self, const Begin *m)
{
    (void)self;
    Total total;
    tr_err err = tr_ask(ctx, m->peer, &total, 0, Get);

    if (err != TR_EGONE) {
        return tr_fail(ctx, TR_EFAILED, "asked: %s", tr_errname(err));
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Begin, on_ask));

static tr_err on_busy(tr_ctx *ctx, Sum *self, const Work *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_MS(10));
}

TR_ACTOR(busy, Sum, TR_ON(Work, on_busy), TR_ON(Get, on_get));

static tr_err redirect_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref actor = tr_spawn(sys, asker, .joinable = true);
    tr_ref target =
        tr_spawn(sys, busy, .drain = TR_DRAIN_REDIRECT, .drain_to = actor);
    tr_result result;

    tr_tell(sys, target, Work);
    tr_tell(sys, actor, Begin, .peer = target);
    tr_sim_advance(sim, TR_MS(5));
    tr_stop(sys, target);
    TR_TRY(tr_join(sys, actor, 0, &result, NULL));
    assert_string_equal(result.text, "");
    return TR_OK;
}

static void test_a_request_redirected_to_its_asker_is_refused(void **state)
{
    (void)state;
    run_all(redirect_workload);
}

/* ---- a run that fails while a probe is open ---- */

static tr_err failing_workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_probe *probe;

    TR_MUST(tr_probe_new(&probe, tr_sim_node(sim, 0)));
    return tr_sim_fail(sim, "on purpose");
}

static void test_a_run_fails_while_a_probe_is_open(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .workload = failing_workload,
                                  .nodes = 1};
        assert_int_not_equal(tr_sim_run(&options), TR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interceptors_run_under_simulation),
        cmocka_unit_test(test_tr_become_in_a_tr_terminated_handler),
        cmocka_unit_test(test_tr_become_in_on_run),
        cmocka_unit_test(test_an_ask_after_the_deadline_of_its_context),
        cmocka_unit_test(test_a_request_redirected_to_its_asker_is_refused),
        cmocka_unit_test(test_a_run_fails_while_a_probe_is_open),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
