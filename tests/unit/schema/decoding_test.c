/*
 * decoding_test.c - error reports and limits that the decoders share.
 */
#include "schema_types.h"

#include "schema/binary_read.h"
#include "schema/decoding.h"
#include "schema/field.h"

static void test_a_long_path_is_cut_but_the_byte_is_not(void **state)
{
    // A type that contains itself, as deep as decoders go.
    static tr_type knot;
    static const tr_field fields[] = {{"a_rather_long_name_of_a_field", &knot,
                                       0, sizeof(tri_seq), TR_KIND_LIST, 0}};
    unsigned char deep[80];
    tri_codec_error error;
    tri_seq out;

    (void)state;
    knot = (tr_type){"Knot", 1, sizeof(tri_seq), 1, 1, fields, NULL};
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = i % 2 ? 0x0e : 0x0d;
    assert_int_equal(
        tri_binary_read(&knot, &out, deep, sizeof(deep), NULL, &error),
        TR_ELIMIT);
    assert_true(is_zero(&out, sizeof(out)));
    assert_true(strlen(error.text) < sizeof(error.text));
    assert_memory_equal(error.text, "...", 3);
    assert_non_null(strstr(error.text, ", at byte 67"));
    assert_int_equal(error.at, 67);
}

static void test_limits_have_defaults_and_a_maximum(void **state)
{
    tri_codec codec = {.limits = {.size = SIZE_MAX, .count = 5}};
    tri_decoding run;

    (void)state;
    tri_decoding_init(&run, NULL, NULL);
    assert_int_equal(run.limits.size, TRI_CODEC_SIZE_MAX);
    assert_int_equal(run.limits.depth, TRI_DEPTH_MAX);
    tri_decoding_init(&run, &codec, NULL);
    assert_int_equal(run.limits.size, TRI_CODEC_SIZE_MAX);
    assert_int_equal(run.limits.count, 5);
    assert_int_equal(run.limits.memory, TRI_CODEC_MEMORY_MAX);
}

static void test_allocations_count_against_the_limit(void **state)
{
    tri_codec codec = {.limits = {.memory = 10}};
    tri_decoding run;
    void *piece;
    void *bytes;
    tr_blob blob;

    (void)state;
    tri_decoding_init(&run, &codec, NULL);
    TR_MUST(tri_decoding_alloc(&run, &piece, 2, 3));
    free(piece);
    assert_int_equal(tri_decoding_alloc(&run, &piece, 5, 1), TR_ELIMIT);
    assert_null(piece);
    assert_int_equal(tri_decoding_alloc(&run, &piece, SIZE_MAX, 2), TR_ELIMIT);
    assert_int_equal(tri_decoding_blob(&run, &blob, 5, &bytes), TR_ELIMIT);
    assert_null(blob.body);
    TR_MUST(tri_decoding_blob(&run, &blob, 4, &bytes));
    tr_blob_drop(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_path_is_cut_but_the_byte_is_not),
        cmocka_unit_test(test_limits_have_defaults_and_a_maximum),
        cmocka_unit_test(test_allocations_count_against_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
