/*
 * address_test.c - addresses of streams are split and joined.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/address.h"
#include "base/check.h"

static void test_addresses_are_split_and_joined(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool is_unix;
    } good[] = {
        {"tcp://127.0.0.1:7000", "127.0.0.1", 7000, false},
        {"tcp://[::1]:65535", "::1", 65535, false},
        {"tcp://example.org:0", "example.org", 0, false},
        {"udp://127.0.0.1:7000", "127.0.0.1", 7000, false},
        {"udp://[::1]:53", "::1", 53, false},
        {"unix:/run/a:b", "/run/a:b", 0, true},
    };

    for (size_t i = 0; i < TRI_COUNT_OF(good); i++) {
        tri_address at;
        char out[TRI_STREAM_ADDRESS_MAX];
        assert_int_equal(tri_address_split(good[i].text, &at), TR_OK);
        assert_string_equal(at.host, good[i].host);
        assert_int_equal(at.port, good[i].port);
        assert_int_equal(at.is_unix, good[i].is_unix);
        assert_int_equal(at.is_udp, good[i].text[0] == 'u' && !at.is_unix);
        tri_address_join(&at, out);
        assert_string_equal(out, good[i].text);
    }
}

static void test_other_texts_are_invalid(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "tcp://",
        "tcp://host",
        "tcp://:80",
        "tcp://host:",
        "tcp://host:x",
        "tcp://host:80x",
        "tcp://host:65536",
        "tcp://host:-1",
        "tcp://::1:80",
        "tcp://[::1]",
        "tcp://[::1]80",
        "tcp://[::1",
        "udp:/host:80",
        "host:80",
        "unix:",
    };
    tri_address at;
    char large[2 * TRI_STREAM_ADDRESS_MAX] = "unix:";

    for (size_t i = 0; i < TRI_COUNT_OF(bad); i++) {
        assert_int_equal(tri_address_split(bad[i], &at), TR_EINVAL);
    }
    memset(large + 5, 'x', TRI_STREAM_ADDRESS_MAX);
    assert_int_equal(tri_address_split(large, &at), TR_EINVAL);
    // A host may fit where its text does not.
    memset(at.host, 'x', sizeof(at.host) - 1);
    at.is_unix = true;
    tri_address_join(&at, large);
    assert_string_equal(large, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_split_and_joined),
        cmocka_unit_test(test_other_texts_are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
