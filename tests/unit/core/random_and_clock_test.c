/*
 * random_and_clock_test.c - tr_random and tr_wall: random numbers and dates
 * come from the world, so a simulation repeats them.
 */
#include "support/stage.h"

#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim.h"
#include "support/core.h"
#include "support/dying.h"

enum { DRAWS = 6000, FACES = 6 };

typedef struct rolls {
    uint32_t faces[FACES];
    uint64_t first[8];
} rolls;

static tr_err act_roll(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    rolls *out = arg;
    (void)self;
    for (uint32_t i = 0; i < 8; i++) {
        out->first[i] = tr_random(ctx, UINT64_MAX);
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t face = tr_random(ctx, FACES);
        TR_ASSERT(ctx, face < FACES);
        out->faces[face]++;
    }
    return tr_reply(ctx, m);
}

static rolls roll(uint64_t seed)
{
    stage it;
    rolls out = {0};
    stage_open_seed(&it, seed, NULL);
    expect_ok(stage_ask(&it, it.one, act_roll, &out));
    stage_close(&it);
    return out;
}

static void test_TE5_the_seed_decides_what_actors_draw(void **state)
{
    (void)state;
    rolls one = roll(1), again = roll(1), two = roll(2);
    assert_memory_equal(&one, &again, sizeof(one));
    assert_memory_not_equal(one.first, two.first, sizeof(one.first));
    for (uint32_t i = 0; i < FACES; i++) {  // 1000 each, within 5 sigma
        assert_in_range(one.faces[i], 850, 1150);
    }
}

/* About half of the raw numbers are above this limit and drawn again. */
static void test_TE5_draws_stay_below_any_limit(void **state)
{
    stage it;
    uint32_t upper = 0;
    (void)state;
    stage_open(&it);
    uint64_t limit = (UINT64_C(1) << 63) + 1;
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t drawn = tr_random(it.sys, limit);
        assert_true(drawn < limit);
        upper += drawn >= limit / 2;
        assert_int_equal(tr_random(it.probe, 1), 0);
    }
    assert_in_range(upper, 400, 600);
    stage_close(&it);
}

static tr_err act_wall(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    *(tr_nanos *)arg = tr_wall(ctx);
    return tr_reply(ctx, m);
}

static void test_TE5_the_date_of_a_simulation_is_virtual(void **state)
{
    stage it;
    tr_nanos inside = 0;
    (void)state;
    stage_open(&it);
    tr_nanos before = tr_wall(it.sys);
    assert_true(before >= TRI_SIM_EPOCH);
    stage_pass(&it, TR_SECONDS(86400));
    assert_int_equal(tr_wall(it.sys), before + TR_SECONDS(86400));
    expect_ok(stage_ask(&it, it.one, act_wall, &inside));
    assert_int_equal(inside, before + TR_SECONDS(86400));
    // Somebody sets the wall clock back; the monotonic clock goes on.
    tr_nanos now = tr_now(it.sys);
    tri_sim_node_of(it.sys->world)->wall_skew -= TR_SECONDS(3600);
    assert_int_equal(tr_wall(it.sys), inside - TR_SECONDS(3600));
    assert_int_equal(tr_now(it.sys), now);
    stage_close(&it);
}

static void test_TE5_the_real_world_has_real_numbers_and_dates(void **state)
{
    stage it;
    rolls out = {0}, other = {0};
    tr_nanos inside = 0;
    (void)state;
    stage_open_real(&it, NULL);
    expect_ok(stage_ask(&it, it.one, act_roll, &out));
    expect_ok(stage_ask(&it, it.two, act_roll, &other));
    assert_memory_not_equal(out.first, other.first, sizeof(out.first));
    expect_ok(stage_ask(&it, it.one, act_wall, &inside));
    assert_true(inside > INT64_C(1700000000) * TR_SECONDS(1));  // 2023
    stage_close(&it);
}

static void test_TE5_a_limit_of_zero_aborts(void **state)
{
    int status = 0;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dying_child();
        close(STDERR_FILENO);
        tr_system *sys;
        TR_MUST(tr_system_open(&sys, .workers = 1));
        (void)tr_random(sys, 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_the_seed_decides_what_actors_draw),
        cmocka_unit_test(test_TE5_draws_stay_below_any_limit),
        cmocka_unit_test(test_TE5_the_date_of_a_simulation_is_virtual),
        cmocka_unit_test(test_TE5_the_real_world_has_real_numbers_and_dates),
        cmocka_unit_test(test_TE5_a_limit_of_zero_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
