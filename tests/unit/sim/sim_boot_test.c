/*
 * sim_boot_test.c - nodes that are killed while they boot or open a store,
 * and nodes that boot with an empty disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <troupe/troupe.h>

#include "base/world.h"
#include "support/core.h"

TR_MESSAGE(Done);
TR_REQUEST(Prepare, Done);

/* Answers after two seconds, like a recovery. */
static tr_err on_prepare(tr_ctx *ctx, void *self, const Prepare *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(2)));
    return tr_reply(ctx, m);
}

TR_ACTOR(preparer, void, TR_ON(Prepare, on_prepare));

typedef struct program {
    uint32_t begun, done, freed, cut_off;
    uint32_t with_file, without_file;
    bool replace;
    tr_storage *store;  // of the boot that came up last
} program;

static tr_err slow_node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;
    void *held = malloc(16);  // freed even if the process is killed meanwhile

    (void)index;
    it->begun++;
    tr_err err =
        tr_ask(sys, tr_spawn(sys, preparer), NULL, TR_SECONDS(30), Prepare);
    free(held);
    it->freed++;
    it->done += err == TR_OK;
    return err;
}

static tr_err kill_while_booting(tr_sim *sim, void *user)
{
    program *it = user;

    tr_sim_kill(sim, 0, 0);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(it->begun, 2);
    assert_null(tr_sim_node(sim, 0));
    tr_sim_kill(sim, 0, TR_SECONDS(1));
    tr_sim_advance(sim, TR_MS(500));
    assert_int_equal(it->begun, 2);  // it is down
    tr_sim_advance(sim, TR_SECONDS(2));
    assert_int_equal(it->begun, 3);
    assert_int_equal(it->done, 1);
    tr_sim_advance(sim, TR_SECONDS(2));
    assert_int_equal(it->done, 2);
    assert_non_null(tr_sim_node(sim, 0));
    return TR_OK;
}

static tr_err two_came_up(tr_sim *sim, void *user)
{
    const program *it = user;

    return it->done == 2 && it->freed == 2
               ? TR_OK
               : tr_sim_fail(sim, "%u boots", it->done);
}

static void test_TE4_a_node_dies_while_it_comes_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        program it = {0};
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .nodes = 1,
                                  .node = slow_node,
                                  .workload = kill_while_booting,
                                  .at_end = two_came_up,
                                  .user = &it};
        assert_int_equal(tr_sim_run(&options), TR_OK);
        // The boot that was killed returned after the run.
        assert_int_equal(it.freed, 3);
    }
}

static tr_err killed_by_chance(tr_sim *sim, void *user)
{
    (void)user;
    for (int i = 0; i < 200; i++) {
        tr_sim_advance(sim, TR_MS(100));
    }
    return TR_OK;
}

static tr_err count_cut_off(tr_sim *sim, void *user)
{
    program *it = user;

    (void)sim;
    it->cut_off = it->begun - it->done;
    return TR_OK;
}

static void test_TE4_the_fault_node_kill_strikes_during_boots(void **state)
{
    uint32_t cut_off = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        program it = {0};
        tr_faults faults = {.size = sizeof(faults),
                            .node_kill = 0.03,
                            .pause_max = TR_SECONDS(1)};
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .nodes = 1,
                                  .node = slow_node,
                                  .workload = killed_by_chance,
                                  .at_end = count_cut_off,
                                  .faults = &faults,
                                  .user = &it};
        assert_int_equal(tr_sim_run(&options), TR_OK);
        cut_off += it.cut_off;
    }
    assert_true(cut_off > 0);
}

/* Counts whether the file was there, then makes and syncs it. */
static tr_err file_node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;
    tri_world *world = sys->world;
    tri_file *file;
    bool there;

    (void)index;
    TR_TRY(world->ops->file_exists(world, "a", &there));
    it->with_file += there;
    it->without_file += !there;
    TR_TRY(world->ops->file_open(
        world, &file, "a", TRI_FILE_READ | TRI_FILE_WRITE | TRI_FILE_CREATE));
    tr_err err = world->ops->file_write(file, "x", 1, 0);
    err = err == TR_OK ? world->ops->file_sync(file) : err;
    world->ops->file_close(file);
    return err;
}

static tr_err kill_or_replace(tr_sim *sim, void *user)
{
    const program *it = user;

    if (it->replace) {
        tr_sim_replace(sim, 0, 0);
    } else {
        tr_sim_kill(sim, 0, 0);
    }
    tr_sim_advance(sim, TR_SECONDS(1));
    return TR_OK;
}

static program run_file(bool replace, double disk_lost)
{
    program it = {.replace = replace};
    tr_faults faults = {.size = sizeof(faults), .disk_lost = disk_lost};
    tr_sim_options options = {.size = sizeof(options),
                              .seed = 1,
                              .nodes = 2,
                              .node = file_node,
                              .faults = &faults,
                              .workload = kill_or_replace,
                              .user = &it};

    assert_int_equal(tr_sim_run(&options), TR_OK);
    return it;
}

static void test_TE4_a_restart_keeps_or_loses_the_disk(void **state)
{
    (void)state;
    // Two nodes boot without the file; the killed one finds it again.
    program it = run_file(false, 0.0);
    assert_int_equal(it.with_file, 1);
    assert_int_equal(it.without_file, 2);
    it = run_file(true, 0.0);
    assert_int_equal(it.with_file, 0);
    assert_int_equal(it.without_file, 3);
    it = run_file(false, 1.0);
    assert_int_equal(it.with_file, 0);
    assert_int_equal(it.without_file, 3);
}

static tr_err store_node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;

    (void)index;
    it->begun++;
    TR_TRY(tr_storage_sqlite_with(
        &it->store, "a.db", TR_OPTIONS(tr_storage_options, .system = sys)));
    it->done++;
    return TR_OK;
}

/* Kills the node while it opens its store, and once it is up. */
static tr_err kill_while_opening(tr_sim *sim, void *user)
{
    program *it = user;

    for (int i = 0; i < 20; i++) {
        tr_sim_kill(sim, 0, 0);
        tr_sim_advance(sim, (int64_t)tr_sim_random(sim, TR_MS(200)));
    }
    tr_sim_advance(sim, TR_SECONDS(60));
    it->cut_off = it->begun - it->done;
    return it->store != NULL ? TR_OK : tr_sim_fail(sim, "no store");
}

/* Each boot opens its store through the same pointer, as programs do. */
static void test_TE4_a_killed_opening_of_a_store_harms_no_other(void **state)
{
    uint32_t cut_off = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        program it = {0};
        tr_faults faults = {
            .size = sizeof(faults), .disk_slow = 0.1, .delay_max = TR_MS(50)};
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .nodes = 1,
                                  .node = store_node,
                                  .workload = kill_while_opening,
                                  .faults = &faults,
                                  .user = &it};
        assert_int_equal(tr_sim_run(&options), TR_OK);
        cut_off += it.cut_off;
    }
    assert_true(cut_off > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_a_node_dies_while_it_comes_up),
        cmocka_unit_test(test_TE4_the_fault_node_kill_strikes_during_boots),
        cmocka_unit_test(test_TE4_a_restart_keeps_or_loses_the_disk),
        cmocka_unit_test(test_TE4_a_killed_opening_of_a_store_harms_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
