/*
 * sim_buggify_test.c - buggify sites are listed and counted, those of the
 * library strike in runs, and outside of a simulation none does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <troupe/troupe.h>

#include "sim/sim.h"
#include "sim/sim_buggify.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "support/toy_world.h"
#include "unit/sim/adder_program.h"

static void test_sites_are_listed_and_counted(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tr_sim_count counts[4];
    char copy[] = "a.c:1";

    for (int i = 0; i < 1000; i++) {
        (void)tri_sim_buggify(sim, 0.5, i % 2 ? "a.c:1" : copy);
        (void)tri_sim_buggify(sim, 0.0, "b.c:2");
    }
    assert_int_equal(tr_sim_sites(sim, counts, 4), 2);
    assert_string_equal(counts[0].name, "a.c:1");
    assert_int_equal(counts[0].reached, 1000);
    assert_in_range(counts[0].fired, 400, 600);
    assert_int_equal(counts[1].reached, 1000);
    assert_int_equal(counts[1].fired, 0);

    sim->calm = true;
    assert_false(tri_sim_buggify(sim, 1.0, "a.c:1"));
    assert_int_equal(tr_sim_sites(sim, counts, 1), 2);
    tr_sim_free(sim);
}

/* Counts the sites of each file that have fired; a tri_sim_inspect_fn. */
static void keep_sites(tr_sim *sim, void *user)
{
    static const char *const files[] = {"/turn.c", "/scheduler.c",
                                        "system/system.c"};
    uint32_t *fired = user;
    tr_sim_count sites[64];
    uint32_t count = tr_sim_sites(sim, sites, 64);

    for (uint32_t i = 0; i < count && i < 64; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            if (strstr(sites[i].name, files[k]) != NULL) {
                fired[k] += sites[i].fired > 0;
            }
        }
    }
}

static void test_TE4_the_sites_of_the_library_fire(void **state)
{
    program it = {0};
    tr_sim_options options = options_of(&it);
    uint32_t fired[3] = {0};

    (void)state;
    options.faults = &rough;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tri_sim_plan plan = {.seed = seed};
        tri_sim_result result;
        it = (program){0};
        assert_int_equal(
            tri_sim_run_plan(&options, &plan, &result, keep_sites, fired),
            TR_OK);
    }
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(fired[k] > 0);
    }
    // None fires if buggify is switched off.
    memset(fired, 0, sizeof(fired));
    tri_sim_plan plan = {.seed = 1, .without_buggify = true};
    tri_sim_result result;
    assert_int_equal(
        tri_sim_run_plan(&options, &plan, &result, keep_sites, fired), TR_OK);
    assert_int_equal(fired[0] + fired[1] + fired[2], 0);
}

static void test_no_site_strikes_outside_a_simulation(void **state)
{
    (void)state;
    tr_system *sys;

    assert_int_equal(tr_system_open(&sys), TR_OK);
    for (int i = 0; i < 100; i++) {
        assert_false(TR_BUGGIFY(sys, 1.0));
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sites_are_listed_and_counted),
        cmocka_unit_test(test_TE4_the_sites_of_the_library_fire),
        cmocka_unit_test(test_no_site_strikes_outside_a_simulation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
