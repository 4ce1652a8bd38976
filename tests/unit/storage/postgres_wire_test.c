/*
 * postgres_wire_test.c - parameters and results in PostgreSQL's binary format,
 * without a server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "storage/postgres_wire.h"

static void test_numbers_are_in_network_order(void **state)
{
    tri_pg_params params = {0};
    static const unsigned char four[] = {0, 0, 1, 2};
    static const unsigned char eight[] = {1, 2, 3, 4, 5, 6, 7, 8};

    (void)state;
    tri_pg_begin(&params);
    tri_pg_add4(&params, 0x0102);
    tri_pg_add8(&params, UINT64_C(0x0102030405060708));
    assert_true(tri_pg_finish(&params));
    assert_int_equal(params.count, 2);
    assert_int_equal(params.sizes[0], 4);
    assert_memory_equal(params.values[0], four, 4);
    assert_int_equal(params.sizes[1], 8);
    assert_memory_equal(params.values[1], eight, 8);
    tri_pg_params_fini(&params);
}

static void test_bytes_are_borrowed_and_never_null(void **state)
{
    tri_pg_params params = {0};
    const char *text = "bytes";

    (void)state;
    tri_pg_begin(&params);
    tri_pg_add_bytes(&params, (tri_store_bytes){text, 5});
    tri_pg_add_bytes(&params, (tri_store_bytes){NULL, 0});
    assert_true(tri_pg_finish(&params));
    assert_ptr_equal(params.values[0], text);
    assert_int_equal(params.sizes[0], 5);
    assert_non_null(params.values[1]);  // libpq would send NULL
    assert_int_equal(params.sizes[1], 0);
    tri_pg_params_fini(&params);
}

/* Makes a result with one value, as a server would send it. */
static PGresult *result_of(const char *value, int size)
{
    PGresAttDesc column = {.name = "column", .format = 1};
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

    assert_non_null(result);
    assert_int_equal(PQsetResultAttrs(result, 1, &column), 1);
    assert_int_equal(PQsetvalue(result, 0, 0, (char *)(uintptr_t)value, size),
                     1);
    return result;
}

static void test_an_array_is_read_as_it_was_written(void **state)
{
    enum { COUNT = 2000 };
    tri_pg_params params = {0};
    tri_store_bytes element;

    (void)state;
    tri_pg_begin(&params);
    tri_pg_add_array(&params, TRI_PG_OID_INT8, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        tri_pg_put8(&params, i * i);
    }
    tri_pg_add4(&params, 7);
    assert_true(tri_pg_finish(&params));
    PGresult *result = result_of(params.values[0], params.sizes[0]);
    tri_pg_walk walk = tri_pg_walk_begin(result, 0, 0);
    assert_int_equal(walk.left, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(tri_pg_walk_next(&walk, &element));
        assert_int_equal(tri_pg_number_of(element), i * i);
    }
    assert_false(tri_pg_walk_next(&walk, &element));
    PQclear(result);
    tri_pg_params_fini(&params);
}

static void test_an_empty_array_has_no_elements(void **state)
{
    tri_pg_params params = {0};
    tri_store_bytes element;

    (void)state;
    tri_pg_begin(&params);
    tri_pg_add_array(&params, TRI_PG_OID_BYTEA, 0);
    assert_true(tri_pg_finish(&params));
    PGresult *result = result_of(params.values[0], params.sizes[0]);
    tri_pg_walk walk = tri_pg_walk_begin(result, 0, 0);
    assert_false(tri_pg_walk_next(&walk, &element));
    PQclear(result);
    tri_pg_params_fini(&params);
}

static void test_an_array_that_is_cut_short_ends(void **state)
{
    tri_pg_params params = {0};
    tri_store_bytes element;

    (void)state;
    tri_pg_begin(&params);
    tri_pg_add_array(&params, TRI_PG_OID_BYTEA, 2);
    tri_pg_put_bytes(&params, (tri_store_bytes){"one", 3});
    tri_pg_put_bytes(&params, (tri_store_bytes){"two", 3});
    assert_true(tri_pg_finish(&params));
    PGresult *result = result_of(params.values[0], params.sizes[0] - 1);
    tri_pg_walk walk = tri_pg_walk_begin(result, 0, 0);
    assert_true(tri_pg_walk_next(&walk, &element));
    assert_int_equal(element.size, 3);
    assert_memory_equal(element.at, "one", 3);
    assert_false(tri_pg_walk_next(&walk, &element));
    PQclear(result);
    tri_pg_params_fini(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_in_network_order),
        cmocka_unit_test(test_bytes_are_borrowed_and_never_null),
        cmocka_unit_test(test_an_array_is_read_as_it_was_written),
        cmocka_unit_test(test_an_empty_array_has_no_elements),
        cmocka_unit_test(test_an_array_that_is_cut_short_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
