/*
 * store_contract_test.c - the stores of the library keep the contract that
 * tr_storage_contract tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/each_store.h"

static tr_err open_each(tr_storage **out, void *user)
{
    each_store *it = user;

    each_open(it);
    *out = it->store;
    return TR_OK;
}

static void holds_for(each_kind kind)
{
    each_store it;
    char text[256];

    each_new(&it, kind);
    tr_storage_close(it.store);
    tr_err err = tr_storage_contract(.open = open_each, .user = &it,
                                     .is_durable = kind != EACH_MEMORY,
                                     .text = text, .text_size = sizeof(text));
    if (err != TR_OK) {
        fail_msg("%s: %s", tr_errname(err), text);
    }
    it.store = NULL;  // the contract has closed it
    assert_int_equal(each_free(&it), 0);
}

static void test_the_store_in_memory_keeps_the_contract(void **state)
{
    (void)state;
    holds_for(EACH_MEMORY);
}

static void test_the_store_in_sqlite_keeps_the_contract(void **state)
{
    (void)state;
    holds_for(EACH_SQLITE);
}

static void test_the_store_in_postgres_keeps_the_contract(void **state)
{
    (void)state;
    holds_for(EACH_POSTGRES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_store_in_memory_keeps_the_contract),
        cmocka_unit_test(test_the_store_in_sqlite_keeps_the_contract),
        cmocka_unit_test(test_the_store_in_postgres_keeps_the_contract),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
