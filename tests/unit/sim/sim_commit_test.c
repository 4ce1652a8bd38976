/*
 * sim_commit_test.c - each version of a state is committed once over all
 * systems of a run, and epochs do not fall.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "sim/sim_commit.h"
#include "sim/sim_fault.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "support/core.h"

static const char the_key[] = "shop::account/a";

static tri_written state(uint64_t version, uint64_t epoch)
{
    return (tri_written){.store = the_key,
                         .key = the_key,
                         .key_size = sizeof(the_key) - 1,
                         .epoch = epoch,
                         .before = version - 1,
                         .version = version};
}

static tr_sim *sim_new(void)
{
    tr_sim *sim;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    return sim;
}

static void say(tr_sim *sim, uint32_t node, tri_written it)
{
    tri_sim_commit(sim, node, &it);
}

static void test_TE1_writers_in_turn_pass(void **context)
{
    tr_sim *sim = sim_new();
    (void)context;
    say(sim, 0, state(1, 1));
    say(sim, 0, state(2, 1));
    say(sim, 1, state(4, 2));  // answers may come in another order
    say(sim, 0, state(3, 1));
    say(sim, 1, state(5, 2));
    assert_false(sim->failed);
    assert_int_equal(tri_sim_commits_checked(sim), 5);
    tr_sim_free(sim);
}

static void test_TE1_two_commits_of_one_version_are_found(void **context)
{
    tr_sim *sim = sim_new();
    (void)context;
    say(sim, 0, state(1, 7));
    say(sim, 0, state(2, 7));
    say(sim, 1, state(2, 7));
    assert_true(sim->failed);
    assert_string_equal(sim->fail_text,
                        "invariant commit: two commits of one version of "
                        "shop::account/a, 2, by node 0 in epoch 7 and by "
                        "node 1 in epoch 7");
    tr_sim_free(sim);
}

static void test_TE1_a_commit_behind_a_later_epoch_is_found(void **context)
{
    tr_sim *sim = sim_new();
    (void)context;
    say(sim, 0, state(1, 1));
    say(sim, 1, state(2, 2));
    say(sim, 0, state(3, 1));
    assert_true(sim->failed);
    assert_non_null(strstr(sim->fail_text, "invariant commit: a commit of an "
                                           "earlier epoch"));
    tr_sim_free(sim);
}

static void test_TE1_events_are_committed_once(void **context)
{
    tr_sim *sim = sim_new();
    tri_written three = state(1, 1), two = state(1, 1);
    (void)context;
    three.is_event = two.is_event = true;
    three.before = 1;
    three.version = 4;
    two.before = 3;
    two.version = 5;
    say(sim, 0, state(3, 1));  // states and events have versions of their own
    say(sim, 0, three);
    assert_false(sim->failed);
    say(sim, 1, two);
    assert_true(sim->failed);
    assert_non_null(strstr(sim->fail_text, "two commits of one event of"));
    tr_sim_free(sim);
}

static void test_TE1_keys_stores_and_rounds_are_checked_apart(void **context)
{
    tr_sim *sim = sim_new();
    tri_written other_key = state(2, 1), other_store = state(2, 1);
    (void)context;
    other_key.key_size--;
    other_store.store = &sim;
    say(sim, 0, state(1, 1));
    say(sim, 0, state(2, 1));
    say(sim, 1, other_key);
    say(sim, 1, other_store);
    say(sim, 1, state(1, 1));  // deleted before, and stored anew
    say(sim, 1, state(2, 1));
    assert_false(sim->failed);
    tr_sim_free(sim);
}

static void test_TE1_a_lying_disk_ends_the_check(void **context)
{
    tr_sim *sim = sim_new();
    (void)context;
    say(sim, 0, state(1, 1));
    say(sim, 0, state(2, 1));
    sim->faults[TRI_FAULT_sync_lie].fired++;
    say(sim, 0, state(2, 1));
    assert_false(sim->failed);
    tr_sim_free(sim);
}

/* ---- in a run ---- */

TR_STATE(Count, (uint64_t, n));
TR_MESSAGE(Now, (uint64_t, n));
TR_REQUEST(Raise, Now);

static tr_err on_raise(tr_ctx *ctx, Count *self, const Raise *m)
{
    Count next = {.n = self->n + 1};
    TR_TRY(tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .n = self->n);
}

TR_ACTOR(counter, Count, TR_ON(Raise, on_raise));

typedef struct program {
    uint64_t commits;
    tr_storage *store;
} program;

static tr_err bring_up(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;
    (void)index;
    return tr_host(sys, counter, .storage = it->store);
}

static tr_err work(tr_sim *sim, void *user)
{
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref to = tr_virtual(sys, "counter", "a");
    (void)user;
    for (int i = 0; i < 3; i++) {
        TR_TRY(tr_ask(sys, to, NULL, 0, Raise));
    }
    return TR_OK;
}

static void look(tr_sim *sim, void *user)
{
    ((program *)user)->commits = tri_sim_commits_checked(sim);
}

static void test_TE1_saves_of_actors_are_checked(void **context)
{
    program it = {0};
    tri_sim_plan plan = {.seed = 1};
    tri_sim_result result;
    (void)context;
    assert_int_equal(tr_storage_memory(&it.store), TR_OK);
    assert_int_equal(
        tri_sim_run_plan(TR_OPTIONS(tr_sim_options, .node = bring_up,
                                    .workload = work, .user = &it),
                         &plan, &result, look, &it),
        TR_OK);
    assert_int_equal(it.commits, 3);
    tr_storage_close(it.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE1_writers_in_turn_pass),
        cmocka_unit_test(test_TE1_two_commits_of_one_version_are_found),
        cmocka_unit_test(test_TE1_a_commit_behind_a_later_epoch_is_found),
        cmocka_unit_test(test_TE1_events_are_committed_once),
        cmocka_unit_test(test_TE1_keys_stores_and_rounds_are_checked_apart),
        cmocka_unit_test(test_TE1_a_lying_disk_ends_the_check),
        cmocka_unit_test(test_TE1_saves_of_actors_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
