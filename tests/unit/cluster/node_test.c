/*
 * node_test.c - addresses of nodes: read, written, compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/bus/node.h"

static void test_VA10_VA11_nodes_are_read_and_written(void **state)
{
    static const char *const good[] = {
        "localhost:1", "10.0.0.255:65535", "a-b.c_d.example:80", "[::1]:7000",
        "[::]:7000",   "[fe80::1:2]:9",    "[1:2:3:4:5:6:7:8]:9"};
    static const char *const bad[] = {"",
                                      "host",
                                      "host:",
                                      "host:0",
                                      "host:65536",
                                      "host:+1",
                                      "host:1x",
                                      ":80",
                                      "10.0.0:1",
                                      "256.0.0.1:1",
                                      "1.2.3.4.:1",
                                      "-a:1",
                                      "a-:1",
                                      "a..b:1",
                                      "a b:1",
                                      "::1:80",
                                      "[::1:80",
                                      "[]:1",
                                      "[1:2]:1",
                                      "[1::2::3]:1",
                                      "[12345::]:1",
                                      "[g::]:1",
                                      "[:1::]:1",
                                      "[1:2:3:4:5:6:7::8:9]:1",
                                      "host:00080"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        tri_node_id id;
        const char *why;
        char text[TRI_NODE_TEXT];
        assert_int_equal(tri_node_parse(&id, good[i], &why), TR_OK);
        assert_int_equal(tri_node_write(&id, text), strlen(good[i]));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        tri_node_id id;
        const char *why = NULL;
        assert_int_equal(tri_node_parse(&id, bad[i], &why), TR_EINVAL);
        assert_non_null(why);
        assert_int_equal(id.port, 0);
    }
}

static void test_VA12_an_address_has_one_text(void **state)
{
    tri_node_id a, b;
    const char *why;
    (void)state;
    assert_int_equal(tri_node_parse(&a, "Host.Example:80", &why), TR_OK);
    assert_int_equal(tri_node_parse(&b, "host.example:80", &why), TR_OK);
    assert_true(tri_node_same(&a, &b));
    assert_int_equal(tri_node_parse(&b, "host.example:81", &why), TR_OK);
    assert_false(tri_node_same(&a, &b));
    char longest[TRI_HOST_MAX + 8];
    memset(longest, 'a', sizeof(longest));
    strcpy(longest + TRI_HOST_MAX + 1, ":1");
    assert_int_equal(tri_node_parse(&b, longest, &why), TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_VA10_VA11_nodes_are_read_and_written),
        cmocka_unit_test(test_VA12_an_address_has_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
