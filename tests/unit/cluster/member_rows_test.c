/*
 * member_rows_test.c - the rows of a cluster: what is written is read again,
 * and rows that nobody of this version wrote are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cluster/engine_calls.h"

#include "cluster/membership/member_rows.h"

typedef struct fixture {
    tri_rows rows;
    tr_engine *engine;
} fixture;

static int setup(void **state)
{
    static fixture it;

    *state = &it;
    TR_MUST(tri_rows_init(&it.rows, "test"));
    TR_MUST(tr_engine_memory(&it.engine, "rows", NULL));
    return 0;
}

static int teardown(void **state)
{
    fixture *it = *state;

    tri_rows_fini(&it->rows);
    tr_engine_close(it->engine);
    return 0;
}

/* Reads what is newer than the copy. */
static tr_err refresh(fixture *it, char why[TRI_ROWS_TEXT_MAX])
{
    posed read;

    assert_int_equal(read_run(&read, it->engine, TRI_ENGINE_RANGE, "test/",
                              it->rows.revision),
                     TRI_ENGINE_YES);
    tr_err err = tri_rows_merge(&it->rows, &read.op, 77, why);
    tri_engine_op_fini(&read.op);
    return err;
}

static void test_a_record_is_read_as_it_was_written(void **state)
{
    fixture *it = *state;
    char why[TRI_ROWS_TEXT_MAX], key[TRI_ROWS_KEY_MAX];
    char value[TRI_ROWS_VALUE_MAX];
    tri_member_record record = {.nonce = UINT64_MAX,
                                .phase = TRI_MEMBER_PHASE_UP,
                                .is_client = true,
                                .address = "[::1]:4000",
                                .kinds = "account teller"};
    uint64_t created = 0;

    tri_rows_node_key(&it->rows, key, 12);
    (void)tri_rows_write_record(value, &record);
    assert_int_equal(cas_text(it->engine, key, 0, value, &created),
                     TRI_ENGINE_YES);
    TR_MUST(refresh(it, why));
    const tri_member_row *row = &it->rows.members[12];
    assert_int_equal(it->rows.slots, 13);
    assert_int_equal(it->rows.table_revision, created);
    // A record that does not name its incarnation was just created.
    assert_int_equal(row->record.incarnation, created);
    assert_true(row->record.nonce == UINT64_MAX);
    assert_true(row->record.is_client);
    assert_string_equal(row->record.address, "[::1]:4000");
    assert_string_equal(row->record.kinds, "account teller");
    assert_int_equal(tri_rows_free_slot(&it->rows), 0);
    // An empty row is a free slot.
    assert_int_equal(cas_text(it->engine, key, created, "", NULL),
                     TRI_ENGINE_YES);
    TR_MUST(refresh(it, why));
    assert_int_equal(row->record.incarnation, 0);
}

static void test_a_beat_is_not_in_the_table(void **state)
{
    fixture *it = *state;
    char why[TRI_ROWS_TEXT_MAX], key[TRI_ROWS_KEY_MAX];
    char value[TRI_ROWS_VALUE_MAX];
    uint64_t revision = 0;

    tri_rows_beat_key(&it->rows, key, 3);
    (void)tri_rows_write_beat(value, 5, 9);
    (void)cas_text(it->engine, key, 0, value, &revision);
    TR_MUST(refresh(it, why));
    assert_int_equal(it->rows.members[3].beat, 9);
    assert_int_equal(it->rows.members[3].beat_revision, revision);
    assert_int_equal(it->rows.members[3].seen, 77);
    assert_int_equal(it->rows.table_revision, 0);
    assert_int_equal(it->rows.revision, revision);
}

static void test_a_shard_is_read_as_it_was_written(void **state)
{
    fixture *it = *state;
    char why[TRI_ROWS_TEXT_MAX], key[TRI_ROWS_KEY_MAX];
    char value[TRI_ROWS_VALUE_MAX];
    tri_shard_owner owner = {{1023, UINT64_C(1) << 60}, 99, TRI_NODE_NONE};

    tri_rows_shard_key(&it->rows, key, TRI_SHARDS - 1);
    assert_true(tri_rows_write_shard(value, &owner) < TRI_ROWS_NUMBERS_MAX);
    (void)cas_text(it->engine, key, 0, value, NULL);
    TR_MUST(refresh(it, why));
    const tri_shard_owner *read = &it->rows.shards[TRI_SHARDS - 1].owner;
    assert_true(tri_node_is(read->node, owner.node));
    assert_int_equal(read->epoch, 99);
    assert_int_equal(read->next, TRI_NODE_NONE);
}

/* A view shows who is up; a shard of a node that is not has no owner. */
static void test_a_view_shows_live_nodes(void **state)
{
    fixture *it = *state;

    it->rows.slots = 2;
    it->rows.members[0].record = (tri_member_record){
        .incarnation = 5, .phase = TRI_MEMBER_PHASE_JOINING};
    it->rows.members[1].record = (tri_member_record){
        .incarnation = 6, .phase = TRI_MEMBER_PHASE_LEAVING};
    it->rows.shards[0].owner = (tri_shard_owner){{0, 5}, 1, TRI_NODE_NONE};
    it->rows.shards[1].owner = (tri_shard_owner){{1, 6}, 2, TRI_NODE_NONE};
    it->rows.shards[2].owner = (tri_shard_owner){{1, 4}, 3, 0};
    tri_view *view = tri_rows_view(&it->rows);
    assert_false(tri_view_has(view, (tri_node){0, 5}));
    assert_true(tri_view_has(view, (tri_node){1, 6}));
    assert_true(view->members[1].is_leaving);
    assert_int_equal(view->shards[0].node.slot, TRI_NODE_NONE);
    assert_int_equal(view->shards[1].node.slot, 1);
    assert_int_equal(view->shards[2].node.slot, TRI_NODE_NONE);
    assert_int_equal(view->shards[2].next, TRI_NODE_NONE);
    assert_int_equal(view->shards[2].epoch, 3);
    tri_view_drop(view);
}

static void test_rows_that_nobody_wrote_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"test/table/cluster", "1 64"},
        {"test/table/cluster", "9 4096"},
        {"test/table/node/0001", "1 0 5"},
        {"test/table/node/0001", "x"},
        {"test/table/node/0001", "7 0 5 6 a b"},
        {"test/beat/0001", "5"},
        {"test/table/shard/0001", "1 2 3"},
        {"test/table/shard/9999", ""},
        {"test/table/shard/0001", "5000 2 3 4"},
        {"test/other", ""},
    };
    fixture *it = *state;

    for (size_t i = 0; i < TRI_COUNT_OF(wrong); i++) {
        char why[TRI_ROWS_TEXT_MAX] = "";
        uint64_t revision = 0, next = 0;
        (void)cas_text(it->engine, wrong[i][0], 0, wrong[i][1], &revision);
        assert_int_equal(refresh(it, why), TR_EINVAL);
        assert_non_null(strstr(why, wrong[i][0]));
        assert_int_equal(
            cas_text(it->engine, wrong[i][0], revision, NULL, &next),
            TRI_ENGINE_YES);
    }
}

static void test_a_namespace_is_checked(void **state)
{
    tri_rows rows;
    char text[TRI_ROWS_NS_MAX + 1];
    (void)state;

    memset(text, 'n', sizeof(text));
    text[TRI_ROWS_NS_MAX] = '\0';
    assert_int_equal(tri_rows_init(&rows, ""), TR_EINVAL);
    assert_int_equal(tri_rows_init(&rows, text), TR_EINVAL);
}

int main(void)
{
#define WITH_ROWS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_ROWS(test_a_record_is_read_as_it_was_written),
        WITH_ROWS(test_a_beat_is_not_in_the_table),
        WITH_ROWS(test_a_shard_is_read_as_it_was_written),
        WITH_ROWS(test_a_view_shows_live_nodes),
        WITH_ROWS(test_rows_that_nobody_wrote_are_refused),
        cmocka_unit_test(test_a_namespace_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
