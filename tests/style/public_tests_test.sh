#!/bin/sh
# public_tests_test.sh - tests that count as public compile without src/.
. "$TR_SOURCE_DIR/tests/style/tree.sh"

tree_passes public_tests.py --prove

mkdir -p "$work/src/core" "$work/tests/unit/core" "$work/include/troupe"
echo 'int tri_one(void);' >"$work/src/core/one.h"
cat >"$work/tests/unit/core/one_test.c" <<'END'
#include "core/one.h"
#include "unit/core/helper.h"

static void test_internal(void **state)
{
    (void)state;
    assert_int_equal(tri_one(), 1);
}

MAKE(named_by_a_macro)
{
    (void)state;
    assert_int_equal(one(), 1);
}

static void test_public(void **state)
{
    (void)state;
}

static int setup(void **state)
{
    (void)state;
    return one();
}

static void test_prepared(void **state)
{
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_internal),
        cmocka_unit_test(test_named_by_a_macro),
        cmocka_unit_test(test_public),
        cmocka_unit_test_setup(test_prepared, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
END
cat >"$work/tests/unit/core/helper.h" <<'END'
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
/* Two lines, so that the macro ends in the second one. */
#define MAKE(name) \
    static void test_##name(void **state)

static int one(void)
{
    return tri_one();
}
END
reports 0 public_tests.py --prove "$work"
says '1 tests by public headers only, 3 with internals, 0 sources wrong'

# A name of src/ without the prefix is found by the compiler.
echo 'enum { ONE = 1 };' >>"$work/src/core/one.h"
sed -i '/test_public/,/^}/ s/(void)state;/*state = (void *)ONE;/' \
    "$work/tests/unit/core/one_test.c"
reports 1 public_tests.py --prove "$work"
says 'one_test.c: its public tests need src/:'
says '1 sources wrong'
