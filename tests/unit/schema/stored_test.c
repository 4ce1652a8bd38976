/*
 * stored_test.c - the heads of stored values, and which values can be read.
 */
#include "schema_types.h"

#include "schema/stored.h"
#include "schema/value.h"

static const Deposit deposit = {5, NULL};

static void expect_stored(const tr_serializer *serializer, uint64_t number,
                          uint64_t chain, const char *start)
{
    tri_stored_form form = {.serializer = serializer};
    tri_codec_error error;
    tri_stored stored;
    Deposit out;
    void *bytes;
    size_t size;

    TR_MUST(tri_stored_snapshot(&form, &Deposit_tr_type, &deposit, number,
                                chain, &bytes, &size, &error));
    assert_true(size >= strlen(start));
    assert_memory_equal(bytes, start, strlen(start));
    TR_MUST(tri_stored_open(&stored, bytes, size, &error));
    assert_string_equal(stored.serializer, serializer->name);
    assert_int_equal(stored.number, number < TRI_STORED_EVENT ? number : 0);
    assert_int_equal(stored.chain, chain);
    TR_MUST(
        tri_stored_read(&stored, NULL, &Deposit_tr_type, &out, NULL, &error));
    assert_true(tri_value_equal(&Deposit_tr_type, &deposit, &out));
    tr_drop(Deposit, &out);
    free(bytes);
}

static void test_heads_are_exact(void **state)
{
    (void)state;
    expect_stored(&tr_serializer_json, TRI_STORED_STATE, 0, "{\"cents\":5");
    expect_stored(&tr_serializer_binary, TRI_STORED_STATE, 0,
                  "Deposit/binary ");
    expect_stored(&tr_serializer_json, TRI_STORED_EVENT, 0,
                  "Deposit {\"cents\":5");
    expect_stored(&tr_serializer_json, 120, 0, "Deposit@120 {");
    expect_stored(&tr_serializer_binary, 120, 0x5c09e1f2,
                  "Deposit@120#5c09e1f2/binary ");
}

static void test_wrong_heads_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",           "Deposit",        "Dep.osit {}", "Deposit@ {}",
        "Deposit@x ", "Deposit@1#G {}", "Deposit/ {}", "@1 {}"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tri_codec_error error;
        tri_stored stored;
        if (tri_stored_open(&stored, wrong[i], strlen(wrong[i]), &error) !=
            TR_EINVAL) {
            fail_msg("accepted: %s", wrong[i]);
        }
        assert_non_null(strstr(error.text, "name of a type"));
    }
}

static void expect_refused(const char *text, const char *why)
{
    tri_codec_error error;
    tri_stored stored;
    Deposit out;

    TR_MUST(tri_stored_open(&stored, text, strlen(text), &error));
    assert_int_equal(
        tri_stored_read(&stored, NULL, &Deposit_tr_type, &out, NULL, &error),
        TR_EINVAL);
    assert_string_equal(error.text, why);
    assert_true(is_zero(&out, sizeof(out)));
}

static void test_values_of_other_types_are_refused(void **state)
{
    (void)state;
    expect_refused("Line {}", "it is a Line, not a Deposit");
    expect_refused("Deposit/xml <a>",
                   "it was written by the serializer xml, which this actor "
                   "does not have");
}

/* A serializer of a program, which reads any bytes as 7 cents. */
static size_t write_nothing(void *user, const tr_type *type, const void *value,
                            void *buf, size_t size)
{
    (void)user;
    (void)type;
    (void)value;
    (void)buf;
    (void)size;
    return 0;
}

static tr_err read_seven(void *user, const tr_type *type, void *value,
                         const void *bytes, size_t size)
{
    (void)user;
    (void)type;
    (void)bytes;
    (void)size;
    ((Deposit *)value)->cents = 7;
    return TR_OK;
}

static void test_the_programs_serializer_is_used(void **state)
{
    tr_serializer own = {
        .name = "seven", .write = write_nothing, .read = read_seven};
    tri_stored_form form = {.serializer = &own};
    tri_codec_error error;
    tri_stored stored;
    Deposit out;

    (void)state;
    TR_MUST(tri_stored_open(&stored, "Deposit/seven ", 14, &error));
    TR_MUST(
        tri_stored_read(&stored, &form, &Deposit_tr_type, &out, NULL, &error));
    assert_int_equal(out.cents, 7);
    tr_drop(Deposit, &out);
    assert_true(tri_stored_name_ok("my-codec_2"));
    assert_false(tri_stored_name_ok("my codec"));
    assert_false(tri_stored_name_ok(""));
    assert_false(tri_stored_name_ok(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_are_exact),
        cmocka_unit_test(test_wrong_heads_are_refused),
        cmocka_unit_test(test_values_of_other_types_are_refused),
        cmocka_unit_test(test_the_programs_serializer_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
