/*
 * directory_test.c - at most one place per id, and the first one stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/world.h"
#include "cluster/directory.h"

#define AT(at, nth) ((tri_place){.node = (at), .number = (nth)})
#define ID(text)    (text), strlen(text)
#define ALICE       "prod::account/alice"
#define BOB         "prod::account/bob"

static int setup(void **state)
{
    static tri_mem mem;
    tri_directory *d = malloc(sizeof(*d));
    assert_non_null(d);
    tri_mem_init(&mem, 0);
    tri_directory_init(d, &mem, 0);
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    tri_directory_fini(*state);
    free(*state);
    return 0;
}

static tri_decision enter(tri_directory *d, const char *id, uint32_t node,
                          uint64_t number)
{
    tri_decision decision;
    assert_int_equal(
        tri_directory_register(d, ID(id), AT(node, number), &decision), TR_OK);
    return decision;
}

static void test_DI1_register_lookup_unregister(void **state)
{
    tri_directory *d = *state;
    tri_place place;
    assert_int_equal(enter(d, ALICE, 3, 7).kind, TRI_PLACE_ON_NODE);
    assert_true(tri_directory_lookup(d, ID(ALICE), &place));
    assert_int_equal(place.node, 3);
    assert_int_equal(place.number, 7);
    assert_true(tri_directory_unregister(d, ID(ALICE), place));
    assert_false(tri_directory_lookup(d, ID(ALICE), &place));
}

static void test_DI2_first_wins(void **state)
{
    tri_directory *d = *state;
    tri_place place;
    enter(d, ALICE, 1, 1);
    assert_int_equal(enter(d, ALICE, 2, 1).kind, TRI_PLACE_RACE);
    assert_true(tri_directory_lookup(d, ID(ALICE), &place));
    assert_int_equal(place.node, 1);
}

static void test_DI3_unregister_only_what_is_registered(void **state)
{
    tri_directory *d = *state;
    tri_place place;
    assert_false(tri_directory_unregister(d, ID(ALICE), AT(1, 1)));
    enter(d, ALICE, 1, 2);
    assert_false(tri_directory_unregister(d, ID(ALICE), AT(1, 1)));
    assert_false(tri_directory_unregister(d, ID(ALICE), AT(2, 2)));
    assert_true(tri_directory_lookup(d, ID(ALICE), &place));
    assert_true(tri_directory_unregister(d, ID(ALICE), AT(1, 2)));
    assert_false(tri_directory_unregister(d, ID(ALICE), AT(1, 2)));
}

static void test_DI4_registering_again_changes_nothing(void **state)
{
    tri_directory *d = *state;
    enter(d, ALICE, 1, 1);
    assert_int_equal(enter(d, ALICE, 1, 1).kind, TRI_PLACE_ON_NODE);
    assert_int_equal(tri_directory_load(d, 1), 1);
}

static void test_DI5_nothing_where_not_active(void **state)
{
    tri_place place;
    assert_false(tri_directory_lookup(*state, ID(BOB), &place));
}

static void test_DI8_decisions(void **state)
{
    tri_directory *d = *state;
    uint32_t here = 4;
    tri_decision decision = tri_directory_place(d, ID(ALICE), &here, 1);
    assert_int_equal(decision.kind, TRI_PLACE_ON_NODE);
    assert_int_equal(decision.place.node, 4);
    enter(d, ALICE, 5, 9);
    decision = tri_directory_place(d, ID(ALICE), &here, 1);
    assert_int_equal(decision.kind, TRI_PLACE_ALREADY);
    assert_int_equal(decision.place.node, 5);
    decision = enter(d, ALICE, 4, 1);
    assert_int_equal(decision.kind, TRI_PLACE_RACE);
    assert_int_equal(decision.place.node, 5);
    assert_int_equal(decision.loser.node, 4);
}

static void test_DI9_placement_looks_at_the_load(void **state)
{
    tri_directory *d = *state;
    static const uint32_t nodes[] = {0, 1, 2};
    char id[64];
    for (int i = 0; i < 30; i++) {
        snprintf(id, sizeof(id), "prod::account/u%d", i);
        tri_decision where = tri_directory_place(d, ID(id), nodes, 3);
        enter(d, id, where.place.node, 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tri_directory_load(d, nodes[i]), 10);
    }
}

static void test_DI10_the_loser_changes_nothing(void **state)
{
    tri_directory *d = *state;
    enter(d, ALICE, 1, 1);
    enter(d, ALICE, 2, 1);
    assert_int_equal(tri_directory_load(d, 2), 0);
    assert_false(tri_directory_unregister(d, ID(ALICE), AT(2, 1)));
    assert_int_equal(tri_directory_load(d, 1), 1);
}

static void test_shards_move_with_an_epoch(void **state)
{
    tri_directory *d = *state;
    uint32_t shard = tri_shard_of(ID(ALICE));
    tri_place place;
    uint64_t epoch;
    assert_int_equal(tri_shard_owner(d, shard, &epoch), 0);
    assert_int_equal(epoch, 1);
    enter(d, ALICE, 0, 1);
    tri_shard_move(d, shard, 6);
    assert_int_equal(tri_shard_owner(d, shard, &epoch), 6);
    assert_int_equal(epoch, 2);
    assert_false(tri_directory_lookup(d, ID(ALICE), &place));
    assert_int_equal(tri_directory_load(d, 0), 0);
}

/* ---- many at once ---- */

enum { THREADS = 3, IDS = 200 };

typedef struct racer {
    tri_directory *d;
    uint32_t node;
    uint32_t won;
} racer;

static void race(void *arg)
{
    racer *r = arg;
    char id[64];
    for (int i = 0; i < IDS; i++) {
        snprintf(id, sizeof(id), "prod::account/u%d", i);
        r->won += enter(r->d, id, r->node, 1).kind == TRI_PLACE_ON_NODE;
    }
}

static void test_DI12_each_call_is_one_step(void **state)
{
    tri_world *world = tri_world_posix();
    tri_thread *threads[THREADS];
    racer racers[THREADS];
    uint32_t won = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        racers[i] = (racer){*state, i, 0};
        assert_int_equal(world->ops->thread_start(world, &threads[i], "race",
                                                  race, &racers[i]),
                         TR_OK);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        world->ops->thread_join(world, threads[i]);
        won += racers[i].won;
        assert_int_equal(tri_directory_load(*state, i), racers[i].won);
    }
    assert_int_equal(won, IDS);
}

/* The entry, then the table: each may find no memory. */
static void test_DI3_without_memory_nobody_is_registered(void **state)
{
    tri_directory *d = *state;
    tri_decision decision;
    tri_place place = {.node = 1, .number = 7};
    uint32_t failed = 0;
    tr_err err;
    do {
        assert_true(failed < 3);
        tri_mem_fail_after(d->mem, failed);
        err = tri_directory_register(d, ID(ALICE), place, &decision);
        tri_mem_fail_after(d->mem, -1);
        if (err != TR_OK) {
            assert_int_equal(err, TR_ENOMEM);
            assert_false(tri_directory_lookup(d, ID(ALICE), &place));
            assert_int_equal(tri_directory_load(d, 1), 0);
            place = (tri_place){.node = 1, .number = 7};
            failed++;
        }
    } while (err != TR_OK);
    assert_int_equal(failed, 2);
    assert_int_equal(tri_directory_load(d, 1), 1);
    assert_true(tri_directory_lookup(d, ID(ALICE), &place));
    assert_int_equal(place.number, 7);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_DI1_register_lookup_unregister),
        TEST(test_DI2_first_wins),
        TEST(test_DI3_unregister_only_what_is_registered),
        TEST(test_DI3_without_memory_nobody_is_registered),
        TEST(test_DI4_registering_again_changes_nothing),
        TEST(test_DI5_nothing_where_not_active),
        TEST(test_DI8_decisions),
        TEST(test_DI9_placement_looks_at_the_load),
        TEST(test_DI10_the_loser_changes_nothing),
        TEST(test_DI12_each_call_is_one_step),
        TEST(test_shards_move_with_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
