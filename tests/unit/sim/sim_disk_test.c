/*
 * sim_disk_test.c - files in memory: what they hold, what a crash leaves, and
 * every fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sim/sim_disk.h"

#define READ_WRITE (TRI_FILE_READ | TRI_FILE_WRITE)
#define NEW        (READ_WRITE | TRI_FILE_CREATE)

enum { SECTORS = 8, BLOCK = SECTORS * 512 };

static tr_sim *sim_of(uint64_t seed)
{
    tr_sim *sim;

    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    return sim;
}

static tri_world *world_of(tr_sim *sim)
{
    return (tri_world *)tr_sim_world(sim);
}

static tri_file *open_file(tri_world *world, const char *path, uint32_t flags)
{
    tri_file *file;

    assert_int_equal(world->ops->file_open(world, &file, path, flags), TR_OK);
    return file;
}

static void put(tri_file *file, const char *text, uint64_t offset)
{
    assert_int_equal(tri_sim_file_write(file, text, strlen(text), offset),
                     TR_OK);
}

static void expect(tri_file *file, const char *text, uint64_t offset)
{
    char got[256] = {0};
    size_t done;

    assert_int_equal(
        tri_sim_file_read(file, got, sizeof(got) - 1, offset, &done), TR_OK);
    assert_int_equal(done, strlen(text));
    assert_string_equal(got, text);
}

static void fill(tri_file *file, char byte, uint64_t block)
{
    char bytes[BLOCK];

    memset(bytes, byte, sizeof(bytes));
    assert_int_equal(
        tri_sim_file_write(file, bytes, sizeof(bytes), block * BLOCK), TR_OK);
}

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
    // Far behind the end: zeros between, over several chunks.
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
    tri_sim_disk_crash(sim, 1);  // the other disk does not notice
    expect(file, "one", 0);
    assert_int_equal(tri_sim_file_write(other, "x", 1, 0), TR_EIO);
    tri_sim_file_close(other);
    tri_sim_file_close(file);
    tr_sim_free(sim);
}

static void test_locks_exclude(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    tri_file *a = open_file(world, "a", NEW), *b = open_file(world, "a", NEW);
    tri_file *other = open_file(world, "b", NEW);

    assert_int_equal(tri_sim_file_lock(a, 0, 10, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(tri_sim_file_lock(b, 5, 10, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(tri_sim_file_lock(b, 9, 1, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(tri_sim_file_lock(b, 10, 1, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(tri_sim_file_lock(a, 10, 1, TRI_LOCK_SHARED), TR_EFULL);
    assert_int_equal(tri_sim_file_lock(other, 10, 1, TRI_LOCK_SHARED), TR_OK);
    // One's own lock is replaced, also in its middle.
    assert_int_equal(tri_sim_file_lock(a, 2, 2, TRI_LOCK_NONE), TR_OK);
    assert_int_equal(tri_sim_file_lock(b, 2, 2, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(tri_sim_file_lock(b, 1, 1, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(tri_sim_file_lock(b, 4, 1, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(tri_sim_file_lock(a, 0, 0, TRI_LOCK_SHARED), TR_EINVAL);
    tri_sim_file_close(a);
    assert_int_equal(tri_sim_file_lock(b, 0, 100, TRI_LOCK_EXCLUSIVE), TR_OK);
    tri_sim_file_close(b);
    tri_sim_file_close(other);
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
    // Growing the file moves nothing.
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

/* ---- crashes ---- */

static void test_what_was_synced_stays(void **state)
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

/* Two synced blocks of 'o', then four writes of 'n': what is there now? */
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

static void test_a_crash_keeps_any_part_of_the_rest(void **state)
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
        // Replaced: after a crash it is the new one, or the old, or none.
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

/* As a file system does: the folder is one thing. */
static void test_ST16_a_sync_of_a_new_file_is_one_of_its_folder(void **state)
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

/* A process that died with a map must not write into the next one's. */
static void test_ST16_the_dead_keep_their_maps(void **state)
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

static void test_ST16_an_unplugged_disk_does_nothing(void **state)
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

static void test_files_left_open_are_freed(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_file *file = open_file(world_of(sim), "a", NEW);

    put(file, "x", 0);
    assert_int_equal(tri_sim_file_lock(file, 0, 5, TRI_LOCK_SHARED), TR_OK);
    tr_sim_free(sim);  // the leak checker looks
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

static void test_errors(void **state)
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

static void test_torn_writes(void **state)
{
    (void)state;
    write_fails_in_part((tr_faults){.torn_write = 1.0}, TRI_FAULT_torn_write);
}

static void test_a_full_disk(void **state)
{
    (void)state;
    write_fails_in_part((tr_faults){.disk_full = 1.0}, TRI_FAULT_disk_full);
}

static void test_lost_writes(void **state)
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

static void test_misdirected_writes(void **state)
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
    sim->calm = true;  // the disk itself is unharmed
    assert_int_equal(count_byte(file, 'o'), 4 * BLOCK);
    done_with(sim, file, TRI_FAULT_disk_bit_flip);
}

static void test_syncs_that_lie(void **state)
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

    // Outside of threads nobody can wait, so nothing is late.
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
        cmocka_unit_test(test_locks_exclude),
        cmocka_unit_test(test_maps_are_shared),
        cmocka_unit_test(test_what_was_synced_stays),
        cmocka_unit_test(test_a_crash_keeps_any_part_of_the_rest),
        cmocka_unit_test(test_an_unsynced_name_may_be_lost),
        cmocka_unit_test(test_a_synced_removal_is_final),
        cmocka_unit_test(test_a_crash_replays),
        cmocka_unit_test(test_ST16_a_sync_of_a_new_file_is_one_of_its_folder),
        cmocka_unit_test(test_ST16_the_dead_keep_their_maps),
        cmocka_unit_test(test_ST16_an_unplugged_disk_does_nothing),
        cmocka_unit_test(test_files_left_open_are_freed),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_torn_writes),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_lost_writes),
        cmocka_unit_test(test_misdirected_writes),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_syncs_that_lie),
        cmocka_unit_test(test_a_slow_disk_takes_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
