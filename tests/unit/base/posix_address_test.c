/*
 * posix_address_test.c - addresses as the real world's sockets take them, and
 * names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/posix_address.h"

static void test_addresses_survive_the_way_through_a_socket(void **state)
{
    (void)state;
    static const char *const texts[] = {"tcp://127.0.0.1:7000",
                                        "tcp://[::1]:7000", "unix:/tmp/x"};

    for (size_t i = 0; i < TRI_COUNT_OF(texts); i++) {
        struct sockaddr_storage at;
        uint32_t size;
        char out[TRI_STREAM_ADDRESS_MAX];
        assert_int_equal(tri_posix_address_read(texts[i], false, &at, &size),
                         TR_OK);
        tri_posix_address_write(&at, size, false, out);
        assert_string_equal(out, texts[i]);
    }
}

static void test_names_are_not_numbers(void **state)
{
    (void)state;
    struct sockaddr_storage at;
    uint32_t size;
    char large[TRI_STREAM_ADDRESS_MAX] = "unix:";
    char out[TRI_STREAM_ADDRESS_MAX];

    assert_int_equal(
        tri_posix_address_read("tcp://localhost:1", false, &at, &size),
        TR_EINVAL);
    memset(large + 5, 'x', 110);  // more than a sockaddr_un takes
    assert_int_equal(tri_posix_address_read(large, false, &at, &size),
                     TR_EINVAL);
    memset(&at, 0, sizeof(at));
    tri_posix_address_write(&at, sizeof(at), false, out);
    assert_string_equal(out, "");
}

static void test_names_are_resolved(void **state)
{
    (void)state;
    char out[4][TRI_STREAM_ADDRESS_MAX];
    uint32_t count;

    assert_int_equal(
        tri_posix_resolve(NULL, "tcp://127.0.0.1:80", out, 4, &count), TR_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out[0], "tcp://127.0.0.1:80");
    assert_int_equal(tri_posix_resolve(NULL, "unix:/x", out, 4, &count), TR_OK);
    assert_string_equal(out[0], "unix:/x");
    assert_int_equal(
        tri_posix_resolve(NULL, "tcp://localhost:80", out, 1, &count), TR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(tri_posix_resolve(NULL, "localhost", out, 4, &count),
                     TR_EINVAL);
    assert_int_equal(
        tri_posix_resolve(NULL, "tcp://256.1.1.1.:80", out, 4, &count) == TR_OK,
        false);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_survive_the_way_through_a_socket),
        cmocka_unit_test(test_names_are_not_numbers),
        cmocka_unit_test(test_names_are_resolved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
