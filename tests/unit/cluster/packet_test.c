/*
 * packet_test.c - packets: written, read back, damage is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cluster/transport/packet.h"

static void test_X34_packets_carry_incarnations_and_damage_is_found(
    void **state)
{
    tri_packet sent = {.kind = TRI_PACKET_DATA,
                       .from = 1,
                       .to = 2,
                       .incarnation = 11,
                       .to_incarnation = 12,
                       .stream = 3,
                       .number = 4,
                       .ack_stream = 5,
                       .ack = 6,
                       .frame = {"hello", 5}},
               got;
    tri_writer w = {0};
    (void)state;
    tri_packet_write(&w, &sent);
    assert_int_equal(w.size, TRI_PACKET_HEAD + 5);
    assert_int_equal(w.bytes[2], TRI_WIRE_VERSION);
    assert_true(tri_packet_read(&got, w.bytes, w.size));
    assert_int_equal(got.incarnation, 11);
    assert_int_equal(got.to_incarnation, 12);
    assert_int_equal(got.stream, 3);
    assert_int_equal(got.ack_stream, 5);
    assert_int_equal(got.number, 4);
    assert_int_equal(got.ack, 6);
    assert_memory_equal(got.frame.at, "hello", 5);
    for (size_t bit = 0; bit < w.size * 8; bit++) {
        w.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(tri_packet_read(&got, w.bytes, w.size));
        w.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t size = 0; size < w.size; size++) {
        assert_false(tri_packet_read(&got, w.bytes, size));
    }
    free(w.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_X34_packets_carry_incarnations_and_damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
