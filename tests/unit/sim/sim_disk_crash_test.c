/*
 * sim_disk_crash_test.c - what a crash leaves of files and names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/world.h"
#include "sim/sim_disk.h"
#include "sim/sim_disk_crash.h"
#include "support/toy_world.h"
#include "unit/sim/sim_files.h"

static void test_synced_writes_survive_a_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        tr_sim *sim = sim_of(seed);
        tri_world *world = world_of(sim);
        tri_file *file = open_file(world, "a", NEW);

        put(file, "durable", 0);
        assert_int_equal(tri_sim_disk_unsynced(sim, 0), 1);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        assert_int_equal(tri_sim_disk_unsynced(sim, 0), 0);
        tri_sim_disk_crash(sim, 0);
        assert_int_equal(tri_sim_file_sync(file), TR_EIO);
        tri_sim_file_close(file);
        file = open_file(world, "a", READ_WRITE);
        expect(file, "durable", 0);
        tri_sim_file_close(file);
        tr_sim_free(sim);
    }
}

typedef struct survivors {
    uint32_t none, all, prefix, subset, torn, no_file;
} survivors;

/* Syncs four blocks of 'o', writes 'n' over each, crashes, and compares. */
static void crash_once(uint64_t seed, survivors *seen)
{
    tr_sim *sim = sim_of(seed);
    tri_world *world = world_of(sim);
    tri_file *file = open_file(world, "a", NEW);
    uint32_t kept = 0, first_lost = 4, torn = 0;

    for (uint64_t i = 0; i < 4; i++) {
        fill(file, 'o', i);
    }
    assert_int_equal(tri_sim_file_sync(file), TR_OK);
    for (uint64_t i = 0; i < 4; i++) {
        fill(file, 'n', i);
    }
    tri_sim_disk_crash(sim, 0);
    tri_sim_file_close(file);
    file = open_file(world, "a", READ_WRITE);
    for (uint32_t i = 0; i < 4; i++) {
        char bytes[BLOCK];
        size_t done;
        uint32_t sectors = 0;
        assert_int_equal(
            tri_sim_file_read(file, bytes, BLOCK, (uint64_t)i * BLOCK, &done),
            TR_OK);
        assert_int_equal(done, BLOCK);
        for (uint32_t k = 0; k < BLOCK; k++) {
            // A sector is old or new, never both.
            assert_true(bytes[k] == 'o' || bytes[k] == 'n');
            assert_int_equal(bytes[k], bytes[k / 512 * 512]);
            sectors += bytes[k] == 'n';
        }
        kept += sectors == BLOCK;
        torn += sectors > 0 && sectors < BLOCK;
        if (sectors < BLOCK && first_lost == 4) {
            first_lost = i;
        }
    }
    seen->none += kept == 0 && torn == 0;
    seen->all += kept == 4;
    seen->torn += torn > 0;
    seen->prefix += kept > 0 && kept < 4 && first_lost == kept && torn == 0;
    seen->subset += kept > first_lost;
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_a_crash_keeps_any_part_of_unsynced_writes(void **state)
{
    (void)state;
    survivors seen = {0};

    for (uint64_t seed = 0; seed < 400; seed++) {
        crash_once(seed, &seen);
    }
    assert_true(seen.none > 20);
    assert_true(seen.all > 20);
    assert_true(seen.prefix > 5);
    assert_true(seen.subset > 20);
    assert_true(seen.torn > 20);
}

static void test_an_unsynced_name_may_be_lost(void **state)
{
    (void)state;
    uint32_t made = 0, removed = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        tr_sim *sim = sim_of(seed);
        tri_world *world = world_of(sim);
        bool there;

        tri_file *file = open_file(world, "kept", NEW);
        put(file, "kept", 0);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_file_close(file);
        assert_int_equal(world->ops->file_remove(world, "kept", false), TR_OK);
        tri_sim_file_close(open_file(world, "new", NEW));
        tri_sim_disk_crash(sim, 0);
        assert_int_equal(world->ops->file_exists(world, "new", &there), TR_OK);
        made += there;
        assert_int_equal(world->ops->file_exists(world, "kept", &there), TR_OK);
        removed += !there;
        if (there) {
            file = open_file(world, "kept", READ_WRITE);
            expect(file, "kept", 0);
            tri_sim_file_close(file);
        }
        tr_sim_free(sim);
    }
    assert_in_range(made, 20, 80);
    assert_in_range(removed, 20, 80);
}

static void test_a_synced_removal_is_final(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        tr_sim *sim = sim_of(seed);
        tri_world *world = world_of(sim);
        bool there;
        tri_file *file = open_file(world, "a", NEW);

        put(file, "old", 0);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_file_close(file);
        // Replaced by a new file, whose sync also syncs the folder.
        assert_int_equal(world->ops->file_remove(world, "a", false), TR_OK);
        file = open_file(world, "a", NEW);
        put(file, "new", 0);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_file_close(file);
        tri_sim_disk_crash(sim, 0);
        file = open_file(world, "a", READ_WRITE);
        expect(file, "new", 0);
        tri_sim_file_close(file);

        assert_int_equal(world->ops->file_remove(world, "a", true), TR_OK);
        tri_sim_disk_crash(sim, 0);
        assert_int_equal(world->ops->file_exists(world, "a", &there), TR_OK);
        assert_false(there);
        tr_sim_free(sim);
    }
}

/* As in a real file system: names of one folder are synced together. */
static void test_ST16_syncing_a_new_file_syncs_its_folder(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        tr_sim *sim = sim_of(seed);
        tri_world *world = world_of(sim);
        bool there;
        tri_file *file = open_file(world, "f/a", NEW);

        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_file_close(file);
        assert_int_equal(world->ops->file_remove(world, "f/a", false), TR_OK);
        file = open_file(world, "f/b", NEW);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_disk_crash(sim, 0);
        tri_sim_file_close(file);
        assert_int_equal(world->ops->file_exists(world, "f/a", &there), TR_OK);
        assert_false(there);
        assert_int_equal(world->ops->file_exists(world, "f/b", &there), TR_OK);
        assert_true(there);
        tr_sim_free(sim);
    }
}

/* A killed process must not write into the maps of the next process. */
static void test_ST16_files_open_in_a_crash_keep_their_maps(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    tri_world *world = world_of(sim);
    tri_file *dead = open_file(world, "a", NEW);
    void *before, *after;

    fill(dead, 'x', 0);
    assert_int_equal(tri_sim_file_sync(dead), TR_OK);
    assert_int_equal(tri_sim_file_map(dead, 0, BLOCK, &before), TR_OK);
    tri_sim_disk_crash(sim, 0);
    memset(before, 'd', BLOCK);
    tri_file *next = open_file(world, "a", READ_WRITE);
    assert_int_equal(tri_sim_file_map(next, 0, BLOCK, &after), TR_OK);
    assert_ptr_not_equal(before, after);
    assert_int_equal(*(char *)after, 'x');
    assert_int_equal(tri_sim_file_sync(dead), TR_EIO);
    tri_sim_disk_crash(sim, 0);  // once more, with both open
    assert_int_equal(*(char *)before, 'd');
    tri_sim_file_close(dead);
    tri_sim_file_close(next);
    next = open_file(world, "a", READ_WRITE);
    tri_sim_file_close(next);
    tr_sim_free(sim);
}

static void test_ST16_an_unplugged_disk_fails_every_call(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    tri_world *world = world_of(sim);
    tri_file *file = open_file(world, "a", NEW), *other;
    bool there;

    tri_sim_disk_unplug(sim);
    assert_int_equal(tri_sim_file_write(file, "x", 1, 0), TR_EIO);
    assert_int_equal(tri_sim_file_sync(file), TR_EIO);
    assert_int_equal(world->ops->file_open(world, &other, "b", NEW), TR_EIO);
    assert_int_equal(world->ops->file_exists(world, "a", &there), TR_EIO);
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_a_crash_replays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        survivors one = {0}, two = {0};
        crash_once(seed, &one);
        crash_once(seed, &two);
        assert_memory_equal(&one, &two, sizeof(one));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synced_writes_survive_a_crash),
        cmocka_unit_test(test_a_crash_keeps_any_part_of_unsynced_writes),
        cmocka_unit_test(test_an_unsynced_name_may_be_lost),
        cmocka_unit_test(test_a_synced_removal_is_final),
        cmocka_unit_test(test_ST16_syncing_a_new_file_syncs_its_folder),
        cmocka_unit_test(test_ST16_files_open_in_a_crash_keep_their_maps),
        cmocka_unit_test(test_ST16_an_unplugged_disk_fails_every_call),
        cmocka_unit_test(test_a_crash_replays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
