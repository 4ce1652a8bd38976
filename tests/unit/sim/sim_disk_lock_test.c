/*
 * sim_disk_lock_test.c - locks on byte ranges of simulated files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/world.h"
#include "sim/sim_disk.h"
#include "sim/sim_disk_lock.h"
#include "support/toy_world.h"
#include "unit/sim/sim_files.h"

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
    // A part of an own lock can be released, also in its middle.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks_exclude),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
