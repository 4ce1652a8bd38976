/*
 * sim_client_test.c - the clients of a workload: threads on a node, which die
 * with it, and systems of its own, which do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

enum { NODES = 2, OTHERS = 4, FILLED = 6000, PATTERN = 0xab };

TR_MESSAGE(Answer, (uint64_t, v));
TR_REQUEST(Question, Answer);

static tr_err on_question(tr_ctx *ctx, void *self, const Question *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    return tr_reply(ctx, m, .v = UINT64_MAX);
}

TR_ACTOR(slow, void, TR_ON(Question, on_question));

typedef struct program {
    tr_sim *sim;
    uint32_t returned;  // clients that returned
    uint32_t wakes;     // of the tickers
    uint32_t spoilt;    // bytes overwritten on stacks of other threads
    tr_nanos joined;
    tr_system *own;
    bool leave_open;
} program;

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    (void)user;
    return tr_ref_err(tr_spawn(sys, slow, .name = "slow"));
}

static tr_err up(tr_sim *sim, uint32_t index, tr_system **out)
{
    while ((*out = tr_sim_node(sim, index)) == NULL) {
        tr_sim_advance(sim, TR_MS(50));
    }
    return TR_OK;
}

static void ask_node_0(void *arg)
{
    program *it = arg;
    tr_system *sys = tr_sim_node(it->sim, 0);
    Answer answer;

    (void)!tr_ask(sys, tr_lookup(sys, "slow"), &answer, 0, Question);
    it->returned++;
}

static void fill_stack(void *arg)
{
    program *it = arg;
    volatile unsigned char mine[FILLED];

    for (uint32_t i = 0; i < FILLED; i++) {
        mine[i] = PATTERN;
    }
    tr_sim_advance(it->sim, TR_SECONDS(3));
    for (uint32_t i = 0; i < FILLED; i++) {
        it->spoilt += mine[i] != PATTERN;
    }
}

static void tick(void *arg)
{
    program *it = arg;

    for (uint32_t i = 0; i < 10; i++) {
        tr_sim_advance(it->sim, TR_SECONDS(1));
        it->wakes++;
    }
}

static tr_err kill_a_client(tr_sim *sim, void *user)
{
    program *it = user;
    tr_system *sys;
    tr_thread *client, *others[OTHERS];

    it->sim = sim;
    TR_TRY(up(sim, 1, &sys));
    TR_TRY(tr_thread_start(sys, &client, ask_node_0, it));
    tr_sim_advance(sim, TR_MS(500));
    tr_sim_kill(sim, 1, TR_MS(100));
    tr_thread_join(sys, client);
    TR_TRY(up(sim, 1, &sys));
    for (uint32_t i = 0; i < OTHERS; i++) {
        TR_TRY(tr_thread_start(sys, &others[i], fill_stack, it));
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        tr_thread_join(sys, others[i]);
    }
    return TR_OK;
}

static tr_err kill_a_ticker(tr_sim *sim, void *user)
{
    program *it = user;
    tr_system *sys;
    tr_thread *ticker;

    it->sim = sim;
    TR_TRY(up(sim, 1, &sys));
    TR_TRY(tr_thread_start(sys, &ticker, tick, it));
    tr_sim_advance(sim, TR_MS(2500));
    tr_sim_kill(sim, 1, TR_SECONDS(2));
    tr_thread_join(sys, ticker);
    it->joined = tr_sim_now(sim);
    tr_sim_advance(sim, TR_SECONDS(20));
    return TR_OK;
}

/* Kills and pauses every node all the time; the client keeps counting. */
static tr_err open_a_client(tr_sim *sim, void *user)
{
    program *it = user;
    tr_thread *ticker;

    it->sim = sim;
    TR_TRY(tr_system_open(&it->own, .world = tr_sim_world(sim)));
    TR_TRY(tr_thread_start(it->own, &ticker, tick, it));
    for (uint32_t i = 0; i < 20; i++) {
        tr_sim_kill(sim, i % NODES, TR_MS(100));
        tr_sim_pause(sim, (i + 1) % NODES, TR_SECONDS(1));
        tr_sim_advance(sim, TR_MS(500));
    }
    tr_thread_join(it->own, ticker);
    it->joined = tr_sim_now(sim);
    return it->leave_open ? TR_OK : tr_system_close(it->own, TR_SECONDS(5));
}

static tr_err fail_with_a_client(tr_sim *sim, void *user)
{
    program *it = user;
    tr_thread *ticker;

    it->sim = sim;
    TR_TRY(tr_system_open(&it->own, .world = tr_sim_world(sim)));
    TR_TRY(tr_ref_err(tr_spawn(it->own, slow, .name = "slow")));
    TR_TRY(tr_thread_start(it->own, &ticker, tick, it));
    return tr_sim_fail(sim, "on purpose");
}

static tr_sim_options options_of(program *it,
                                 tr_err (*workload)(tr_sim *sim, void *user))
{
    return (tr_sim_options){.size = sizeof(tr_sim_options),
                            .seed = 1,
                            .nodes = NODES,
                            .node = node,
                            .workload = workload,
                            .user = it};
}

/*
 * Node 0 writes its answer to the stack of the killed thread of node 1: that
 * memory must not belong to another thread by then.
 */
static void test_TE4_the_stack_of_a_killed_thread_is_not_reused(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it, kill_a_client);

    assert_int_equal(tr_sim_run(&options), TR_OK);
    assert_int_equal(it.spoilt, 0);
    assert_int_equal(it.returned, 0);
}

/* It goes on neither during the run nor when that is cleaned up. */
static void test_TE4_a_killed_thread_can_be_joined_and_never_goes_on(
    void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it, kill_a_ticker);

    assert_int_equal(tr_sim_run(&options), TR_OK);
    assert_int_equal(it.wakes, 2);
    assert_true(it.joined < TR_SECONDS(5));
}

static void test_TE4_no_fault_strikes_a_system_of_the_workload(void **state)
{
    (void)state;
    tr_faults faults = {
        .size = sizeof(faults), .node_kill = 0.1, .node_pause = 0.1};

    for (uint64_t seed = 1; seed <= 40; seed++) {
        program it = {.leave_open = seed % 2 == 0};
        tr_sim_options options = options_of(&it, open_a_client);
        options.seed = seed;
        options.faults = &faults;
        assert_int_equal(tr_sim_run(&options), TR_OK);
        assert_int_equal(it.wakes, 10);
        assert_in_range(it.joined, TR_SECONDS(11), TR_SECONDS(12));
    }
}

/* The leak checker finds a system that is left open. */
static void test_TE4_a_failed_run_closes_systems_of_the_workload(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it, fail_with_a_client);

    assert_int_equal(tr_sim_run(&options), TR_EFAILED);
    assert_int_equal(it.wakes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_the_stack_of_a_killed_thread_is_not_reused),
        cmocka_unit_test(
            test_TE4_a_killed_thread_can_be_joined_and_never_goes_on),
        cmocka_unit_test(test_TE4_no_fault_strikes_a_system_of_the_workload),
        cmocka_unit_test(test_TE4_a_failed_run_closes_systems_of_the_workload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
