/*
 * sim_disk_test.c - simulated files: what they hold, and every fault of a disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_content.h"
#include "sim/sim_disk.h"
#include "sim/sim_disk_crash.h"
#include "sim/sim_disk_lock.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "support/toy_world.h"
#include "unit/sim/sim_files.h"

/* ---- ordinary use ---- */

static void test_files_hold_what_was_written(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    tri_file *file = open_file(world, "a", NEW);
    char byte = 'x';
    size_t done;
    uint64_t size;

    put(file, "hello", 0);
    put(file, "p", 4);
    expect(file, "hellp", 0);
    expect(file, "p", 4);
    expect(file, "", 5);
    // Far beyond the end: zeros in between, over several chunks.
    put(file, "far", 3 * TRI_SIM_CHUNK - 1);
    assert_int_equal(tri_sim_file_size(file, &size), TR_OK);
    assert_int_equal(size, 3 * TRI_SIM_CHUNK + 2);
    assert_int_equal(tri_sim_file_read(file, &byte, 1, 100000, &done), TR_OK);
    assert_int_equal(byte, 0);
    expect(file, "far", 3 * TRI_SIM_CHUNK - 1);

    assert_int_equal(tri_sim_file_truncate(file, 2), TR_OK);
    expect(file, "he", 0);
    assert_int_equal(tri_sim_file_truncate(file, 4), TR_OK);
    assert_int_equal(tri_sim_file_read(file, &byte, 1, 3, &done), TR_OK);
    assert_int_equal(done, 1);
    assert_int_equal(byte, 0);
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_opening_follows_the_flags(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    tri_file *file;
    bool there = true;

    assert_int_equal(world->ops->file_open(world, &file, "a", READ_WRITE),
                     TR_ENOENT);
    assert_null(file);
    assert_int_equal(world->ops->file_exists(world, "a", &there), TR_OK);
    assert_false(there);
    tri_sim_file_close(open_file(world, "a", NEW));
    assert_int_equal(
        world->ops->file_open(world, &file, "a", NEW | TRI_FILE_EXCLUSIVE),
        TR_EEXIST);
    file = open_file(world, "a", TRI_FILE_READ);
    assert_int_equal(tri_sim_file_write(file, "x", 1, 0), TR_EINVAL);
    assert_int_equal(tri_sim_file_truncate(file, 1), TR_EINVAL);
    tri_sim_file_close(file);

    assert_int_equal(world->ops->file_remove(world, "a", true), TR_OK);
    assert_int_equal(world->ops->file_remove(world, "a", true), TR_ENOENT);

    file = open_file(world, "temp", NEW | TRI_FILE_DELETE);
    put(file, "x", 0);
    assert_int_equal(world->ops->file_exists(world, "temp", &there), TR_OK);
    assert_false(there);
    expect(file, "x", 0);
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_nodes_have_files_of_their_own(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *one = world_of(sim), *two = &tri_sim_node_add(sim)->world;
    tri_file *file = open_file(one, "a", NEW);
    tri_file *other;

    put(file, "one", 0);
    assert_int_equal(two->ops->file_open(two, &other, "a", READ_WRITE),
                     TR_ENOENT);
    other = open_file(two, "a", NEW);
    expect(other, "", 0);
    put(other, "two", 0);
    expect(file, "one", 0);
    tri_sim_disk_crash(sim, 1);  // the disk of node 0 is not affected
    expect(file, "one", 0);
    assert_int_equal(tri_sim_file_write(other, "x", 1, 0), TR_EIO);
    tri_sim_file_close(other);
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_maps_are_shared(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    tri_file *a = open_file(world, "a", NEW), *b = open_file(world, "a", NEW);
    char *one, *two;

    assert_int_equal(tri_sim_file_map(a, 0, 32768, (void **)&one), TR_EINVAL);
    assert_int_equal(tri_sim_file_truncate(a, 4 * 32768), TR_OK);
    assert_int_equal(tri_sim_file_map(a, 32768, 32768, (void **)&one), TR_OK);
    // The map stays valid when the file grows.
    assert_int_equal(tri_sim_file_truncate(a, 400 * 32768), TR_OK);
    assert_int_equal(tri_sim_file_map(b, 32768, 32768, (void **)&two), TR_OK);
    strcpy(one + 5, "seen");
    assert_string_equal(two + 5, "seen");
    put(b, "back", 32768 + 100);
    assert_memory_equal(one + 100, "back", 4);
    assert_int_equal(tri_sim_file_map(a, TRI_SIM_CHUNK - 1, 2, (void **)&one),
                     TR_EINVAL);
    assert_null(one);
    tri_sim_file_unmap(b, two, 32768);
    tri_sim_file_close(a);
    tri_sim_file_close(b);
    tr_sim_free(sim);
}

static void test_files_left_open_are_freed(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_file *file = open_file(world_of(sim), "a", NEW);

    put(file, "x", 0);
    assert_int_equal(tri_sim_file_lock(file, 0, 5, TRI_LOCK_SHARED), TR_OK);
    tr_sim_free(sim);  // the leak checker must find nothing
}

/* ---- faults ---- */

static tri_file *faulty(tr_sim **sim, tr_faults faults)
{
    *sim = sim_of(9);
    tri_file *file = open_file(world_of(*sim), "a", NEW);

    for (uint64_t i = 0; i < 4; i++) {
        fill(file, 'o', i);
    }
    assert_int_equal(tri_sim_file_sync(file), TR_OK);
    faults.size = sizeof(faults);
    tri_sim_set_faults(*sim, &faults);
    return file;
}

static uint64_t count_byte(tri_file *file, char byte)
{
    char bytes[512];
    size_t done = 1;
    uint64_t count = 0;

    for (uint64_t at = 0; done > 0; at += done) {
        assert_int_equal(
            tri_sim_file_read(file, bytes, sizeof(bytes), at, &done), TR_OK);
        for (size_t i = 0; i < done; i++) {
            count += bytes[i] == byte;
        }
    }
    return count;
}

static void done_with(tr_sim *sim, tri_file *file, tri_sim_fault fault)
{
    assert_true(sim->faults[fault].fired > 0);
    assert_true(sim->faults[fault].reached >= sim->faults[fault].fired);
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        assert_true(i == fault || sim->faults[i].fired == 0);
    }
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_the_fault_disk_error_fails_every_call(void **state)
{
    (void)state;
    tr_sim *sim;
    tri_file *file = faulty(&sim, (tr_faults){.disk_error = 1.0});
    tri_world *world = world_of(sim);
    tri_file *other;
    char byte;
    size_t done = 1;
    bool there;

    assert_int_equal(tri_sim_file_read(file, &byte, 1, 0, &done), TR_EIO);
    assert_int_equal(done, 0);
    assert_int_equal(tri_sim_file_write(file, "x", 1, 0), TR_EIO);
    assert_int_equal(tri_sim_file_sync(file), TR_EIO);
    assert_int_equal(tri_sim_file_truncate(file, 0), TR_EIO);
    assert_int_equal(world->ops->file_open(world, &other, "a", NEW), TR_EIO);
    assert_int_equal(world->ops->file_remove(world, "a", true), TR_EIO);
    assert_int_equal(world->ops->file_exists(world, "a", &there), TR_EIO);
    assert_int_equal(sim->faults[TRI_FAULT_disk_error].fired, 7);
    done_with(sim, file, TRI_FAULT_disk_error);
}

static void write_fails_in_part(tr_faults faults, tri_sim_fault fault)
{
    tr_sim *sim;
    tri_file *file = faulty(&sim, faults);
    char bytes[BLOCK];
    uint64_t most = 0;

    memset(bytes, 'n', sizeof(bytes));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tri_sim_file_write(file, bytes, BLOCK, 0), TR_EIO);
        uint64_t there = count_byte(file, 'n');
        assert_int_equal(there % 512, 0);
        assert_true(there < BLOCK);
        most = there > most ? there : most;
    }
    assert_true(most > 0);
    done_with(sim, file, fault);
}

static void test_a_torn_write_leaves_whole_sectors(void **state)
{
    (void)state;
    write_fails_in_part((tr_faults){.torn_write = 1.0}, TRI_FAULT_torn_write);
}

static void test_a_full_disk_leaves_whole_sectors(void **state)
{
    (void)state;
    write_fails_in_part((tr_faults){.disk_full = 1.0}, TRI_FAULT_disk_full);
}

static void test_a_lost_write_never_reaches_the_platter(void **state)
{
    (void)state;
    tr_sim *sim;
    tri_file *file = faulty(&sim, (tr_faults){.lost_write = 1.0});

    fill(file, 'n', 0);
    assert_int_equal(count_byte(file, 'n'), BLOCK);
    assert_int_equal(tri_sim_file_sync(file), TR_OK);
    tri_sim_disk_crash(sim, 0);
    tri_sim_file_close(file);
    file = open_file(world_of(sim), "a", READ_WRITE);
    assert_int_equal(count_byte(file, 'n'), 0);
    done_with(sim, file, TRI_FAULT_lost_write);
}

static void test_a_misdirected_write_goes_elsewhere(void **state)
{
    (void)state;
    tr_sim *sim;
    tri_file *file = faulty(&sim, (tr_faults){.misdirected_write = 1.0});
    char bytes[BLOCK];
    size_t done;
    uint32_t elsewhere = 0;

    for (int i = 0; i < 20; i++) {
        fill(file, (char)('A' + i), 0);
        assert_int_equal(count_byte(file, (char)('A' + i)), BLOCK);
        assert_int_equal(tri_sim_file_read(file, bytes, BLOCK, 0, &done),
                         TR_OK);
        elsewhere += bytes[0] != 'A' + i;
    }
    assert_true(elsewhere > 10);
    done_with(sim, file, TRI_FAULT_misdirected_write);
}

static void test_bit_flips(void **state)
{
    (void)state;
    tr_sim *sim;
    tri_file *file = faulty(&sim, (tr_faults){.disk_bit_flip = 1.0});
    char bytes[BLOCK];
    size_t done;
    int flipped = 0;

    assert_int_equal(tri_sim_file_read(file, bytes, BLOCK, 0, &done), TR_OK);
    for (size_t i = 0; i < done; i++) {
        flipped += __builtin_popcount((unsigned)(bytes[i] ^ 'o') & 0xff);
    }
    assert_int_equal(flipped, 1);
    sim->calm = true;  // no more flips: the content itself is intact
    assert_int_equal(count_byte(file, 'o'), 4 * BLOCK);
    done_with(sim, file, TRI_FAULT_disk_bit_flip);
}

static void test_a_sync_that_lies_keeps_writes_pending(void **state)
{
    (void)state;
    uint32_t lost = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        tr_sim *sim = sim_of(seed);
        tr_faults faults = {.size = sizeof(faults), .sync_lie = 1.0};
        tri_file *file = open_file(world_of(sim), "a", NEW);

        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        tri_sim_set_faults(sim, &faults);
        put(file, "hope", 0);
        assert_int_equal(tri_sim_file_sync(file), TR_OK);
        assert_int_equal(tri_sim_disk_unsynced(sim, 0), 1);
        tri_sim_disk_crash(sim, 0);
        tri_sim_file_close(file);
        file = open_file(world_of(sim), "a", READ_WRITE);
        lost += count_byte(file, 'h') == 0;
        done_with(sim, file, TRI_FAULT_sync_lie);
    }
    assert_in_range(lost, 5, 15);
}

static void read_slowly(void *arg)
{
    tri_file *file = arg;

    for (int i = 0; i < 10; i++) {
        char byte;
        size_t done;
        assert_int_equal(tri_sim_file_read(file, &byte, 1, 0, &done), TR_OK);
    }
}

static void test_a_slow_disk_takes_time(void **state)
{
    (void)state;
    tr_sim *sim;
    tri_file *file =
        faulty(&sim, (tr_faults){.disk_slow = 1.0, .delay_max = TR_SECONDS(1)});
    tri_world *world = world_of(sim);
    tri_thread *thread;

    // Outside of threads a call cannot sleep, so it is not delayed.
    assert_int_equal(count_byte(file, 'o'), 4 * BLOCK);
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(1));
    assert_int_equal(
        world->ops->thread_start(world, &thread, "reads", read_slowly, file),
        TR_OK);
    world->ops->thread_join(world, thread);
    assert_in_range(tr_sim_now(sim), TR_SECONDS(2), TR_SECONDS(11));
    done_with(sim, file, TRI_FAULT_disk_slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_hold_what_was_written),
        cmocka_unit_test(test_opening_follows_the_flags),
        cmocka_unit_test(test_nodes_have_files_of_their_own),
        cmocka_unit_test(test_maps_are_shared),
        cmocka_unit_test(test_files_left_open_are_freed),
        cmocka_unit_test(test_the_fault_disk_error_fails_every_call),
        cmocka_unit_test(test_a_torn_write_leaves_whole_sectors),
        cmocka_unit_test(test_a_full_disk_leaves_whole_sectors),
        cmocka_unit_test(test_a_lost_write_never_reaches_the_platter),
        cmocka_unit_test(test_a_misdirected_write_goes_elsewhere),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_a_sync_that_lies_keeps_writes_pending),
        cmocka_unit_test(test_a_slow_disk_takes_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
