/*
 * store_op_test.c - keys, the checks of a request, and the rows and error
 * texts of an answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "storage/store_op.h"

static tri_store_op request(tr_store_call call)
{
    tri_store_op op = {.call = call, .key = {"a::b/c", 6}};

    tri_store_op_begin(&op);
    return op;
}

/* ---- requests ---- */

static void test_ST8_different_names_make_different_keys(void **state)
{
    char out[TRI_STORE_KEY_MAX + 1];
    char key[TRI_STORE_KEY_MAX];
    (void)state;

    assert_int_equal(tri_store_key(out, "shop", "cart", "a/b::c"), TR_OK);
    assert_string_equal(out, "shop::cart/a/b::c");
    assert_int_equal(tri_store_key(out, "shop:", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", ":cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "cart/x", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop/", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "", "cart", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "", "a"), TR_EINVAL);
    assert_int_equal(tri_store_key(out, "shop", "cart", ""), TR_EINVAL);
    memset(key, 'k', sizeof(key));
    key[TRI_STORE_KEY_MAX - sizeof("s::c/") + 1] = '\0';
    assert_int_equal(tri_store_key(out, "s", "c", key), TR_OK);
    assert_int_equal(strlen(out), TRI_STORE_KEY_MAX);
    assert_int_equal(tri_store_key(out, "sh", "c", key), TR_ELIMIT);
    assert_string_equal(out, "");
}

static void assert_refused(tri_store_op *op, tr_err err)
{
    assert_false(tri_store_op_is_valid(op));
    assert_int_equal(op->err, err);
    assert_string_not_equal(op->text, "");
}

static void test_invalid_requests_are_refused(void **state)
{
    char zero[] = {'a', '\0', 'b'};
    tri_store_bytes huge = {"", TRI_STORE_BYTES_MAX + 1};
    tri_store_op op = request(TR_STORE_SAVE);

    (void)state;
    assert_true(tri_store_op_is_valid(&op));
    op.shard = TRI_STORE_SHARDS_MAX;
    assert_refused(&op, TR_EINVAL);
    op = request(TR_STORE_SAVE);
    op.epoch = TRI_STORE_NUMBER_MAX + 1;
    assert_refused(&op, TR_EINVAL);
    op = request(TR_STORE_SAVE);
    op.number = TRI_STORE_NUMBER_MAX;
    assert_refused(&op, TR_EINVAL);
    op = request(TR_STORE_LOAD);
    op.key = (tri_store_bytes){zero, sizeof(zero)};
    assert_refused(&op, TR_EINVAL);
    op = request(TR_STORE_REMIND);
    assert_refused(&op, TR_EINVAL);  // without a name
    op = request(TR_STORE_SAVE);
    op.bytes = huge;
    assert_refused(&op, TR_ELIMIT);
    op = request(TR_STORE_APPEND);
    op.events = &huge;
    op.event_count = 1;
    assert_refused(&op, TR_ELIMIT);
    op.event_count = TRI_STORE_EVENTS_MAX + 1;
    assert_refused(&op, TR_ELIMIT);
}

static void test_a_fence_needs_no_key(void **state)
{
    tri_store_op op = {.call = TR_STORE_FENCE};

    (void)state;
    assert_true(tri_store_op_is_valid(&op));
    assert_false(tri_store_op_is_read(&op));
    op.call = TR_STORE_REMINDERS;
    assert_true(tri_store_op_is_valid(&op));
    assert_true(tri_store_op_is_read(&op));
}

/* ---- answers ---- */

static void test_a_long_error_text_is_cut_before_its_bracket(void **state)
{
    tri_store_op op = {0};
    char text[2 * TRI_STORE_TEXT_SIZE];
    (void)state;

    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tri_store_fail(&op, TR_EIO, TRI_STORE_FAULT_IO, "%s", text);
    assert_int_equal(strlen(op.text), TRI_STORE_TEXT_SIZE - 1);
    assert_int_equal(op.text[TRI_STORE_TEXT_SIZE - 2], ')');
    assert_memory_equal(op.text, "Io(ttt", 6);
}

static void test_a_failure_frees_the_rows_of_an_answer(void **state)
{
    tri_store_op op = request(TR_STORE_READ);
    tri_store_row row = {.number = 1, .bytes = {"one", 3}};

    (void)state;
    assert_true(tri_store_add_row(&op, &row));
    assert_true(op.found);
    tri_store_fail_no_memory(&op);
    assert_int_equal(op.err, TR_ENOMEM);
    assert_string_equal(op.text, "Unavailable(out of memory)");
    assert_false(op.found);
    assert_null(op.out);
}

static void test_rows_are_read_as_they_were_added(void **state)
{
    enum { ROWS = 100 };
    tri_store_op op = request(TR_STORE_REMINDERS);
    tri_store_row row;
    size_t at = 0;
    char text[ROWS];

    (void)state;
    memset(text, 'x', sizeof(text));
    for (uint64_t i = 0; i < ROWS; i++) {
        row = (tri_store_row){.number = i,
                              .key = {text, i},
                              .name = {text, i % 3},
                              .bytes = {text, ROWS - i}};
        assert_true(tri_store_add_row(&op, &row));
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        assert_true(tri_store_row_next(&op, &at, &row));
        assert_int_equal(row.number, i);
        assert_int_equal(row.key.size, i);
        assert_int_equal(row.name.size, i % 3);
        assert_int_equal(row.bytes.size, ROWS - i);
        assert_memory_equal(row.bytes.at, text, ROWS - i);
    }
    assert_false(tri_store_row_next(&op, &at, &row));
    tri_store_op_fini(&op);
}

/* The first row is always added, so that a reader makes progress. */
static void test_an_answer_has_a_size_limit(void **state)
{
    tri_store_op op = request(TR_STORE_READ);
    size_t size = TRI_STORE_ROWS_SIZE + 1;
    char *bytes = calloc(1, size);
    tri_store_row row = {.number = 1, .bytes = {bytes, size}};

    (void)state;
    assert_true(tri_store_add_row(&op, &row));
    assert_false(op.more);
    row.bytes.size = 1;
    assert_false(tri_store_add_row(&op, &row));
    assert_true(op.more);
    assert_int_equal(op.err, TR_OK);
    tri_store_op_fini(&op);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ST8_different_names_make_different_keys),
        cmocka_unit_test(test_invalid_requests_are_refused),
        cmocka_unit_test(test_a_fence_needs_no_key),
        cmocka_unit_test(test_a_long_error_text_is_cut_before_its_bracket),
        cmocka_unit_test(test_a_failure_frees_the_rows_of_an_answer),
        cmocka_unit_test(test_rows_are_read_as_they_were_added),
        cmocka_unit_test(test_an_answer_has_a_size_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
