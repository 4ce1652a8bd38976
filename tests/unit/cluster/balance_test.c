/*
 * balance_test.c - plans of who owns which shard: complete, even, and empty
 * when they have been carried out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "cluster/membership/balance.h"

enum { BATCH = 120, ROUNDS_MAX = 400 };

static int setup(void **state)
{
    static tri_rows rows;

    *state = &rows;
    return tri_rows_init(&rows, "test") == TR_OK ? 0 : 1;
}

static int teardown(void **state)
{
    tri_rows_fini(*state);
    return 0;
}

static void add(tri_rows *rows, uint32_t slot, uint64_t incarnation)
{
    tri_member_record *record = &rows->members[slot].record;

    record->incarnation = incarnation;
    record->phase = TRI_MEMBER_PHASE_UP;
    rows->slots = slot >= rows->slots ? slot + 1 : rows->slots;
}

/* Writes a plan to the rows, and gives away what the owners shall give away. */
static void carry_out(tri_rows *rows, const tri_move *moves, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tri_shard_owner *owner = &rows->shards[moves[i].shard].owner;
        *owner = moves[i].owner;
        if (owner->next != TRI_NODE_NONE) {
            owner->node = (tri_node){
                owner->next, rows->members[owner->next].record.incarnation};
            owner->next = TRI_NODE_NONE;
            owner->epoch++;
        }
    }
}

/* Plans and carries out until there is nothing left to do. */
static uint32_t settle(tri_rows *rows)
{
    tri_move moves[BATCH];
    uint32_t total = 0, count, rounds = 0;

    while ((count = tri_balance(rows, moves, BATCH)) > 0) {
        assert_true(rounds++ < ROUNDS_MAX);
        carry_out(rows, moves, count);
        total += count;
    }
    return total;
}

static uint32_t count_of(const tri_rows *rows, uint32_t slot)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_node node = rows->shards[i].owner.node;
        count += node.slot == slot && tri_rows_is_live(rows, node);
    }
    return count;
}

static void assert_even(const tri_rows *rows, uint32_t nodes)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < rows->slots; i++) {
        uint32_t count = count_of(rows, i);
        total += count;
        if (tri_rows_is_eligible(rows, i)) {
            assert_true(count >= TRI_SHARDS / nodes);
            assert_true(count <= TRI_SHARDS / nodes + 1);
        } else {
            assert_int_equal(count, 0);
        }
    }
    assert_int_equal(total, TRI_SHARDS);
}

static void test_without_nodes_there_is_no_plan(void **state)
{
    tri_move moves[BATCH];

    assert_int_equal(tri_balance(*state, moves, BATCH), 0);
}

static void test_a_join_moves_only_what_it_must(void **state)
{
    tri_rows *rows = *state;

    add(rows, 0, 5);
    assert_int_equal(settle(rows), TRI_SHARDS);
    assert_even(rows, 1);
    add(rows, 3, 6);
    assert_int_equal(settle(rows), TRI_SHARDS / 2);
    assert_even(rows, 2);
    add(rows, 1, 7);
    assert_int_equal(settle(rows), TRI_SHARDS / 3);
    assert_even(rows, 3);
}

static void test_a_death_moves_only_what_was_lost(void **state)
{
    tri_rows *rows = *state;

    for (uint32_t i = 0; i < 4; i++) {
        add(rows, i, 10 + i);
    }
    (void)settle(rows);
    rows->members[2].record.incarnation = 0;
    assert_int_equal(settle(rows), TRI_SHARDS / 4);
    assert_even(rows, 3);
    // The next incarnation in the slot is another node.
    add(rows, 2, 20);
    (void)settle(rows);
    assert_even(rows, 4);
}

static void test_a_leaving_node_gives_everything_away(void **state)
{
    tri_rows *rows = *state;

    add(rows, 0, 5);
    add(rows, 1, 6);
    (void)settle(rows);
    rows->members[0].record.phase = TRI_MEMBER_PHASE_LEAVING;
    assert_int_equal(settle(rows), TRI_SHARDS / 2);
    assert_even(rows, 1);
}

static void test_a_shard_of_a_live_owner_is_only_marked(void **state)
{
    tri_rows *rows = *state;
    tri_move moves[BATCH];

    add(rows, 0, 5);
    (void)settle(rows);
    add(rows, 1, 6);
    assert_int_equal(tri_balance(rows, moves, BATCH), BATCH);
    for (uint32_t i = 0; i < BATCH; i++) {
        assert_int_equal(moves[i].owner.node.slot, 0);
        assert_int_equal(moves[i].owner.next, 1);
        assert_int_equal(moves[i].owner.epoch, 1);
    }
}

static void test_a_mark_for_a_dead_node_is_taken_back(void **state)
{
    tri_rows *rows = *state;
    tri_move moves[BATCH];

    add(rows, 0, 5);
    (void)settle(rows);
    rows->shards[9].owner.next = 1;
    assert_int_equal(tri_balance(rows, moves, BATCH), 1);
    assert_int_equal(moves[0].shard, 9);
    assert_int_equal(moves[0].owner.next, TRI_NODE_NONE);
    assert_int_equal(moves[0].owner.epoch, 1);
}

int main(void)
{
#define WITH_ROWS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_ROWS(test_without_nodes_there_is_no_plan),
        WITH_ROWS(test_a_join_moves_only_what_it_must),
        WITH_ROWS(test_a_death_moves_only_what_was_lost),
        WITH_ROWS(test_a_leaving_node_gives_everything_away),
        WITH_ROWS(test_a_shard_of_a_live_owner_is_only_marked),
        WITH_ROWS(test_a_mark_for_a_dead_node_is_taken_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
