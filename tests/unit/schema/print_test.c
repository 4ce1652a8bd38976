/*
 * print_test.c - the text of values in a log.
 */
#include "schema_types.h"

#include <math.h>

#include "base/rand.h"
#include "schema/blob.h"
#include "schema/print.h"
#include "schema/value_random.h"

static void expect_print(const tr_type *type, const void *value,
                         const char *text)
{
    char buf[1024];

    assert_int_equal(tri_print(type, value, buf, sizeof(buf), NULL),
                     strlen(text));
    assert_string_equal(buf, text);
}

static void test_prints_each_kind(void **state)
{
    static const Line lines[] = {{"a", NAN, {"\x01\xff", 2}}};
    static const double weights[] = {1, -INFINITY, 0.25};
    Order order = {.id = 7,
                   .lines = {lines, 1},
                   .weights = {weights, 3},
                   .key = {1, 2},
                   .owner = {1, 42}};

    (void)state;
    expect_print(&Empty_tr_type, NULL, "Empty{}");
    expect_print(&Deposit_tr_type, &(Deposit){100, "rent"},
                 "Deposit{cents=100, memo=\"rent\"}");
    expect_print(&Deposit_tr_type, &(Deposit){-1, "a\"\\\n\x02"},
                 "Deposit{cents=-1, memo=\"a\\\"\\\\\\n\\x02\"}");
    expect_print(&Deposit_tr_type, &(Deposit){0, NULL},
                 "Deposit{cents=0, memo=null}");
    expect_print(&Order_tr_type, &order,
                 "Order{id=7, first=Line{text=null, price=0, data=0 bytes}, "
                 "lines=[Line{text=\"a\", price=nan, data=2 bytes: 01 ff}], "
                 "weights=[1, -inf, 0.25], key=[1, 2, 0, 0], "
                 "photo=blob of 0 bytes, owner=#42, flags=[], parts=[], "
                 "ticks=[]}");
}

static void test_long_sequences_are_counted(void **state)
{
    double weights[1000] = {0};
    Order order = {.weights = {weights, 1000}};
    char buf[1024];

    (void)state;
    tri_print(&Order_tr_type, &order, buf, sizeof(buf), NULL);
    assert_non_null(strstr(buf, "0, 0, 984 more]"));
}

static size_t ref_to_text(void *user, tr_ref ref, char *buf, size_t size)
{
    (void)ref;
    return (size_t)snprintf(buf, size, "%s", (const char *)user);
}

static void test_prints_refs_by_path(void **state)
{
    tri_ref_codec refs = {.to_text = ref_to_text, .user = "/user/ann"};
    Order order = {.owner = {1, 42}};
    char buf[512];

    (void)state;
    tri_print(&Order_tr_type, &order, buf, sizeof(buf), &refs);
    assert_non_null(strstr(buf, "owner=/user/ann,"));
}

static void test_text_is_cut_to_any_buffer(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 8);
    for (int round = 0; round < 50; round++) {
        for (size_t t = 0; t < ALL_TYPES; t++) {
            any_value value;
            char whole[8192];
            TR_MUST(tri_value_random(all_types[t], &rand, &value, NULL, NULL));
            size_t length =
                tri_print(all_types[t], &value, whole, sizeof(whole), NULL);
            assert_true(length < sizeof(whole) - 1);
            for (size_t size = 1; size <= length; size += 7) {
                char *buf = malloc(size);
                assert_non_null(buf);
                assert_int_equal(
                    tri_print(all_types[t], &value, buf, size, NULL), size - 1);
                assert_int_equal(buf[size - 1], '\0');
                if (size > 4) {
                    assert_memory_equal(buf, whole, size - 4);
                    assert_memory_equal(buf + size - 4, "...", 3);
                }
                free(buf);
            }
            (tr_drop)(all_types[t], &value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prints_each_kind),
        cmocka_unit_test(test_long_sequences_are_counted),
        cmocka_unit_test(test_prints_refs_by_path),
        cmocka_unit_test(test_text_is_cut_to_any_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
