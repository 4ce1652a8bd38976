/*
 * envelope_test.c - envelopes: written, read back, refused with a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cluster/transport/envelope.h"

static tri_envelope request(void)
{
    return (tri_envelope){.direction = TRI_REQUEST,
                          .correlation = 7,
                          .ttl_ms = 1000,
                          .target_node = 2,
                          .sender_node = 1,
                          .target = "shop::cart/a",
                          .sender = "shop::user/b",
                          .payload = {"abc", 3},
                          .type = 4,
                          .forwards = 2,
                          .path = {{.slot = 3, .incarnation = 30},
                                   {.slot = 4, .incarnation = 40}},
                          .flags = TRI_FLAG_SUPPRESS_KEEP_ALIVE};
}

static void test_MS1_MS14_X32_X33_an_envelope_crosses_whole(void **state)
{
    tri_envelope sent = request(), got;
    tri_writer w = {0};
    (void)state;
    tri_envelope_write(&w, &sent);
    for (size_t size = 0; size < w.size; size++) {
        tri_reader cut = {.at = w.bytes, .end = w.bytes + size};
        assert_false(tri_envelope_read(&cut, &got));
    }
    tri_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    assert_true(tri_envelope_read(&r, &got));
    assert_int_equal(got.direction, sent.direction);
    assert_int_equal(got.correlation, 7);
    assert_int_equal(got.ttl_ms, 1000);
    assert_int_equal(got.type, 4);
    assert_int_equal(got.forwards, 2);
    assert_int_equal(got.path[0].slot, 3);
    assert_int_equal(got.path[1].incarnation, 40);
    assert_int_equal(got.flags, sent.flags);
    assert_string_equal(got.target, sent.target);
    assert_string_equal(got.sender, sent.sender);
    assert_memory_equal(got.payload.at, "abc", 3);
    free(w.bytes);
}

static void refused(tri_envelope e, tr_err err)
{
    const char *why;
    assert_int_equal(tri_envelope_check(&e, &why), err);
    assert_non_null(why);
}

static void test_MS5_MS7_MS8_MS9_MS10_MS13_bad_envelopes_are_refused(
    void **state)
{
    tri_envelope e = request();
    const char *why;
    (void)state;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.ttl_ms = 0;  // MS5
    refused(e, TR_EINVAL);
    e = request();
    e.forwards = TRI_FORWARDS_MAX;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.forwards++;  // MS7
    refused(e, TR_ELIMIT);
    e = request();
    e.flags = TRI_FLAG_ALWAYS_INTERLEAVE;  // MS9
    refused(e, TR_EINVAL);
    e.flags |= TRI_FLAG_READ_ONLY;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.flags = TRI_FLAG_IS_LOCAL_ONLY;  // MS10
    e.forwards = 0;
    assert_int_equal(tri_envelope_check(&e, &why), TR_OK);
    e.forwards = 1;
    refused(e, TR_EINVAL);
    e = request();
    e.flags = TRI_FLAGS_ALL + 1;  // MS8
    refused(e, TR_EINVAL);
    e = request();
    strcpy(e.target, "cart/a");  // MS13
    refused(e, TR_EINVAL);
    e = request();
    e.correlation = 0;
    refused(e, TR_EINVAL);
    e.direction = 0;
    refused(e, TR_EINVAL);
}

static void test_MS2_MS3_MS4_MS6_directions_of_envelopes(void **state)
{
    tri_envelope e = request(), answer = tri_envelope_answer(&e);
    const char *why;
    (void)state;
    assert_int_equal(answer.direction, TRI_RESPONSE);
    assert_int_equal(answer.correlation, e.correlation);
    assert_string_equal(answer.target, e.sender);
    assert_string_equal(answer.sender, e.target);
    assert_int_equal(answer.target_node, e.sender_node);
    assert_int_equal(answer.sender_node, e.target_node);
    assert_int_equal(answer.ttl_ms, 0);  // no time of its own
    assert_int_equal(tri_envelope_check(&answer, &why), TR_OK);
    tri_envelope told = request();
    told.direction = TRI_ONE_WAY;
    refused(told, TR_EINVAL);  // a correlation, but no asker
    told.correlation = 0;
    told.ttl_ms = 0;
    assert_int_equal(tri_envelope_check(&told, &why), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MS1_MS14_X32_X33_an_envelope_crosses_whole),
        cmocka_unit_test(
            test_MS5_MS7_MS8_MS9_MS10_MS13_bad_envelopes_are_refused),
        cmocka_unit_test(test_MS2_MS3_MS4_MS6_directions_of_envelopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
