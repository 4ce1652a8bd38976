/*
 * pack_test.c - a value and everything it points to in one block.
 */
#include "schema_types.h"

#include "schema/blob.h"
#include "schema/pack.h"
#include "schema/value.h"
#include "schema/value_random.h"

static void test_text_is_copied_after_the_struct(void **state)
{
    char memo[] = "rent";
    Deposit in = {100, memo};
    char block[64] __attribute__((aligned(8)));
    Deposit *out = (Deposit *)(void *)block;

    (void)state;
    assert_int_equal(tri_pack_size(&Deposit_tr_type, &in), 8);
    tri_pack(&Deposit_tr_type, out, &in, block + sizeof(Deposit));
    memset(memo, 'x', 4);
    assert_int_equal(out->cents, 100);
    assert_string_equal(out->memo, "rent");
    assert_ptr_equal(out->memo, block + sizeof(Deposit));
}

static void test_null_text_and_empty_lists_stay_empty(void **state)
{
    static const Line nothing[1];
    Order in = {.id = 3, .lines = {nothing, 0}};
    Order out;
    char tail[8] __attribute__((aligned(8)));

    (void)state;
    assert_int_equal(tri_pack_size(&Order_tr_type, &in), 0);
    tri_pack(&Order_tr_type, &out, &in, tail);
    assert_int_equal(out.id, 3);
    assert_null(out.first.text);
    assert_null(out.lines.at);
    assert_int_equal(out.lines.count, 0);
}

static void test_a_tail_that_is_too_large_is_refused(void **state)
{
    static const double one = 1;
    Order in = {.weights = {&one, SIZE_MAX / 4}};

    (void)state;
    assert_true(tri_pack_size(&Order_tr_type, &in) == SIZE_MAX);
    in.weights.count = TRI_PACK_MAX / sizeof(double) + 1;
    assert_true(tri_pack_size(&Order_tr_type, &in) == SIZE_MAX);
    in.weights.count = 1;
    assert_int_equal(tri_pack_size(&Order_tr_type, &in), 8);
}

static void test_a_value_that_nests_too_deeply_is_refused(void **state)
{
    // A type that holds a list of itself, which no macro can declare.
    static tr_type knot;
    static const tr_field fields[] = {
        {"next", &knot, 0, sizeof(tri_seq), TR_KIND_LIST, 0}};
    tri_seq chain[TRI_PACK_DEPTH_MAX + 2];

    (void)state;
    knot = (tr_type){"Knot", 1, sizeof(tri_seq), 1, 1, fields, NULL};
    for (size_t i = 0; i < TRI_COUNT_OF(chain); i++) {
        chain[i] = (tri_seq){&chain[i + 1], 1};
    }
    chain[TRI_PACK_DEPTH_MAX] = (tri_seq){NULL, 0};
    assert_int_equal(tri_pack_size(&knot, &chain[0]),
                     TRI_PACK_DEPTH_MAX * sizeof(tri_seq));
    chain[TRI_PACK_DEPTH_MAX] = (tri_seq){&chain[TRI_PACK_DEPTH_MAX + 1], 1};
    chain[TRI_PACK_DEPTH_MAX + 1] = (tri_seq){NULL, 0};
    assert_true(tri_pack_size(&knot, &chain[0]) == SIZE_MAX);
}

static void test_random_values_are_packed_exactly(void **state)
{
    tri_rand rand;
    tri_rand_init(&rand, 11);

    (void)state;
    check_sizes();
    for (int round = 0; round < 200; round++) {
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            any_value in;
            TR_MUST(tri_value_random(type, &rand, &in, NULL, NULL));
            size_t tail = tri_pack_size(type, &in);
            assert_true(tail <= TRI_PACK_MAX);
            assert_int_equal(tail % TRI_PACK_ALIGN, 0);
            // A block of exact size, so that a sanitizer sees an overrun; of
            // one byte if the value is empty.
            size_t start = (type->size + 7) & ~(size_t)7;
            size_t size = start + tail;
            char *room = malloc(size > 0 ? size : 1);
            assert_non_null(room);
            tri_pack(type, room, &in, room + start);
            assert_true(tri_value_equal(type, room, &in));
            (tr_drop)(type, &in);
            // The copy does not use memory of the original.
            assert_true(tri_value_equal(type, room, room));
            tri_pack_release(type, room);
            free(room);
        }
    }
}

static void test_blobs_are_shared(void **state)
{
    Blobs in = {.rest = 5};
    Blobs out;
    tr_blob more[2];
    uint64_t tail[8];

    (void)state;
    TR_MUST(tr_blob_new(NULL, &in.one, "abc", 3));
    TR_MUST(tr_blob_new(NULL, &more[0], "d", 1));
    more[1] = tr_blob_hold(in.one);
    in.more.at = more;
    in.more.count = 2;
    assert_int_equal(tri_pack_size(&Blobs_tr_type, &in), 16);
    tri_pack(&Blobs_tr_type, &out, &in, tail);
    assert_ptr_equal(out.one.body, in.one.body);
    tr_blob_drop(in.one);
    tr_blob_drop(more[0]);
    tr_blob_drop(more[1]);
    assert_memory_equal(tr_blob_bytes(out.one).at, "abc", 3);
    assert_memory_equal(tr_blob_bytes(out.more.at[0]).at, "d", 1);
    tri_pack_release(&Blobs_tr_type, &out);
    assert_null(out.one.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_copied_after_the_struct),
        cmocka_unit_test(test_null_text_and_empty_lists_stay_empty),
        cmocka_unit_test(test_a_tail_that_is_too_large_is_refused),
        cmocka_unit_test(test_a_value_that_nests_too_deeply_is_refused),
        cmocka_unit_test(test_random_values_are_packed_exactly),
        cmocka_unit_test(test_blobs_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
