/*
 * optional_test.c - optional fields: their JSON and bytes, old and new versions
 * of a type, copies, and errors.
 */
#include "schema_types.h"

#include "schema/blob.h"
#include "schema/pack.h"
#include "schema/print.h"
#include "schema/type_compare.h"
#include "schema/value.h"
#include "support/codecs.h"

static const test_codec *const codecs[] = {&test_codec_json,
                                           &test_codec_binary};
enum { CODECS = 2 };

static const Person nobody_knows = {.name = "ann"};
static const Person all_zero = {.name = NULL,
                                .age = TR_SOME(0),
                                .member = TR_SOME(false),
                                .height = TR_SOME(0),
                                .photo = TR_SOME({NULL, 0}),
                                .last = TR_SOME({0}),
                                .files = TR_SOME({.rest = 0}),
                                .favourite = TR_SOME(RED)};

static void test_MS12_absent_fields_are_left_out_of_json(void **state)
{
    char buf[512];
    Person some = {.age = TR_SOME(-3), .last = TR_SOME({5, "rent"})};

    (void)state;
    tr_json_write(&Person_tr_type, &nobody_knows, buf, sizeof(buf));
    assert_string_equal(buf, "{\"name\":\"ann\"}");
    tr_json_write(&Person_tr_type, &some, buf, sizeof(buf));
    assert_string_equal(buf, "{\"name\":null,\"age\":-3,"
                             "\"last\":{\"cents\":5,\"memo\":\"rent\"}}");
    tr_json_write(&Person_tr_type, &all_zero, buf, sizeof(buf));
    assert_string_equal(buf, "{\"name\":null,\"age\":0,\"member\":false,"
                             "\"height\":0,\"photo\":\"\","
                             "\"last\":{\"cents\":0,\"memo\":null},"
                             "\"files\":{\"one\":null,\"more\":[],\"rest\":0},"
                             "\"favourite\":0}");
    tr_json_write(&Crowd_tr_type, &(Crowd){.counts = TR_SOME({.a = 1})}, buf,
                  sizeof(buf));
    assert_string_equal(buf, "{\"people\":[],\"counts\":{\"a\":1,\"b\":0,"
                             "\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,"
                             "\"h\":0}}");
}

static void test_MS12_null_and_missing_are_absent(void **state)
{
    static const char json[] = "{\"name\":\"ann\",\"age\":null,\"last\":null,"
                               "\"photo\":null,\"member\":true}";
    Person out;

    (void)state;
    memset(&out, 0xee, sizeof(out));
    TR_MUST(tr_json_read(&Person_tr_type, &out, json, sizeof(json) - 1));
    assert_string_equal(out.name, "ann");
    assert_false(out.age.has);
    assert_int_equal(out.age.value, 0);
    assert_false(out.last.has);
    assert_false(out.photo.has);
    assert_false(out.height.has);
    assert_true(out.member.has);
    assert_true(out.member.value);
    tr_drop(Person, &out);
}

static void test_MS12_zero_is_not_absent(void **state)
{
    (void)state;
    for (int i = 0; i < CODECS; i++) {
        const test_codec *s = codecs[i];
        const Person *const cases[] = {&nobody_knows, &all_zero};
        for (size_t c = 0; c < 2; c++) {
            Person out;
            void *bytes;
            size_t size;
            TR_MUST(
                test_encode(s, &Person_tr_type, cases[c], NULL, &bytes, &size));
            TR_MUST(s->read(&Person_tr_type, &out, bytes, size, NULL, NULL));
            assert_true(tri_value_equal(&Person_tr_type, cases[c], &out));
            assert_false(tri_value_equal(&Person_tr_type, cases[1 - c], &out));
            assert_int_equal(out.photo.has, c == 1);
            assert_int_equal(out.files.has, c == 1);
            free(bytes);
            tr_drop(Person, &out);
        }
    }
}

static void test_compact_form_of_a_present_field_is_that_of_its_value(
    void **state)
{
    // name, age 5, two absent, empty bytes, {-5, NULL}, absent, 7
    static const unsigned char expected[] = {0x45, 0x00, 0x52, 0x00, 0x00, 0x04,
                                             0x15, 0x4a, 0x00, 0x00, 0x39};
    unsigned char buf[64];
    Person in = {.age = TR_SOME(5),
                 .photo = TR_SOME({NULL, 0}),
                 .last = TR_SOME({.cents = -5}),
                 .favourite = TR_SOME(GREEN)};
    size_t size =
        test_codec_binary.write(&Person_tr_type, &in, buf, sizeof(buf), NULL);

    (void)state;
    assert_int_equal(size, sizeof(expected));
    assert_memory_equal(buf, expected, sizeof(expected));
}

/* ---- versions of a type ---- */

TR_MESSAGE(Old, (int64_t, id));
TR_MESSAGE(Plain, (int64_t, id), (uint32_t, limit), (nested, Deposit, last),
           (tr_bytes, seal));
TR_MESSAGE(Loose, (int64_t, id), (optional, uint32_t, limit),
           (optional, nested, Deposit, last), (optional, tr_bytes, seal));

static void convert(const test_codec *s, const tr_type *from, const void *in,
                    const tr_type *to, void *out)
{
    tri_codec_error error;
    void *bytes;
    size_t size;

    TR_MUST(test_encode(s, from, in, NULL, &bytes, &size));
    tr_err err = s->read(to, out, bytes, size, NULL, &error);
    if (err != TR_OK) fail_msg("%s: %s", s->name, error.text);
    free(bytes);
}

static void test_PA9_optional_fields_are_appended(void **state)
{
    Loose in = {.id = 1, .limit = TR_SOME(9), .last = TR_SOME({3, "x"})};

    (void)state;
    for (int i = 0; i < CODECS; i++) {
        Old old;
        Loose back;
        convert(codecs[i], &Loose_tr_type, &in, &Old_tr_type, &old);
        assert_int_equal(old.id, 1);
        memset(&back, 0xee, sizeof(back));
        convert(codecs[i], &Old_tr_type, &old, &Loose_tr_type, &back);
        assert_int_equal(back.id, 1);
        assert_true(
            is_zero(&back.limit, sizeof(back) - offsetof(Loose, limit)));
    }
}

static void test_PA9_a_field_becomes_optional_and_back(void **state)
{
    Plain plain = {.id = 1, .limit = 0, .last = {3, "x"}, .seal = {"ab", 2}};
    Loose loose = {.id = 2, .last = TR_SOME({4, "y"})};

    (void)state;
    for (int i = 0; i < CODECS; i++) {
        Loose newer;
        Plain older;
        convert(codecs[i], &Plain_tr_type, &plain, &Loose_tr_type, &newer);
        assert_true(newer.limit.has);
        assert_int_equal(newer.limit.value, 0);
        assert_true(newer.last.has);
        assert_string_equal(newer.last.value.memo, "x");
        assert_true(newer.seal.has);
        assert_int_equal(newer.seal.value.size, 2);
        tr_drop(Loose, &newer);
        convert(codecs[i], &Loose_tr_type, &loose, &Plain_tr_type, &older);
        assert_int_equal(older.id, 2);
        assert_int_equal(older.limit, 0);
        assert_int_equal(older.last.cents, 4);
        assert_int_equal(older.seal.size, 0);
        tr_drop(Plain, &older);
    }
}

/* ---- copies ---- */

static void test_absent_pointers_are_not_followed(void **state)
{
    Person in = {.photo = {{(const void *)1, 77}, false},
                 .last = {{1, (const char *)1}, false},
                 .files = {{.more = {(const void *)1, 5}}, false}};
    Person packed, owned;

    (void)state;
    assert_int_equal(tri_pack_size(&Person_tr_type, &in), 0);
    tri_pack(&Person_tr_type, &packed, &in, NULL);
    assert_true(is_zero(&packed.photo, sizeof(packed.photo)));
    assert_true(is_zero(&packed.last, sizeof(packed.last)));
    tri_pack_release(&Person_tr_type, &packed);
    TR_MUST(tri_unpack_owned(&Person_tr_type, &owned, &in));
    assert_true(is_zero(&owned.photo, sizeof(owned.photo)));
    assert_true(tri_value_equal(&Person_tr_type, &in, &owned));
    tr_drop(Person, &owned);
}

static void test_optional_blobs_are_held(void **state)
{
    _Alignas(TRI_PACK_ALIGN) char tail[256];
    tr_blob blob;
    Person packed;

    (void)state;
    TR_MUST(tr_blob_new(NULL, &blob, "abc", 3));
    Person in = {.files = TR_SOME({.one = blob, .more = {&blob, 1}})};
    assert_true(tri_pack_size(&Person_tr_type, &in) <= sizeof(tail));
    tri_pack(&Person_tr_type, &packed, &in, tail);
    tr_blob_drop(blob);
    assert_memory_equal(tr_blob_bytes(packed.files.value.more.at[0]).at, "abc",
                        3);
    tri_pack_release(&Person_tr_type, &packed);  // the last hold
    assert_null(packed.files.value.one.body);
}

static void test_optionals_without_pointers_are_plain(void **state)
{
    TR_MESSAGE(Flat, (optional, int32_t, a), (optional, double, b));

    (void)state;
    assert_int_equal(Flat_tr_type.var_count, 0);
    assert_true(Person_tr_type.var_count > 0);
}

static void test_print_shows_absent_fields_as_none(void **state)
{
    char buf[256];
    Person in = {.age = TR_SOME(7), .last = TR_SOME({1, "a"})};

    (void)state;
    tri_print(&Person_tr_type, &in, buf, sizeof(buf), NULL);
    assert_string_equal(buf,
                        "Person{name=null, age=7, member=none, height=none, "
                        "photo=none, last=Deposit{cents=1, memo=\"a\"}, "
                        "files=none, favourite=none}");
}

static void test_optional_is_part_of_the_type(void **state)
{
    char buf[80];
    tr_type other = Loose_tr_type;

    (void)state;
    other.name = "Plain";
    assert_string_equal(
        tri_type_difference(&Plain_tr_type, &other, buf, sizeof(buf)),
        "Plain.limit: kind");
    assert_true(Plain_tr_type.schema != Loose_tr_type.schema);
}

static void test_errors_name_the_optional_field(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"age\":\"x\"}", "age: expected a number, at byte 7"},
        {"{\"age\":2147483648}", "age: the number does not fit, at byte 7"},
        {"{\"last\":{\"cents\":true}}",
         "last.cents: expected a number, at byte 17"},
        {"{\"member\":0}", "member: expected true or false, at byte 10"},
        {"{\"age\":null,\"age\":1}", "age: is there twice, at byte 12"},
        {"{\"last\":{\"memo\":\"abc\"},\"photo\":\"?\"}",
         "photo: expected base64, at byte 32"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tri_codec_error error;
        Person out;
        assert_int_equal(
            test_codec_json.read(&Person_tr_type, &out, cases[i].json,
                                 strlen(cases[i].json), NULL, &error),
            TR_EINVAL);
        assert_string_equal(error.text, cases[i].text);
        assert_true(is_zero(&out, sizeof(out)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MS12_absent_fields_are_left_out_of_json),
        cmocka_unit_test(test_MS12_null_and_missing_are_absent),
        cmocka_unit_test(test_MS12_zero_is_not_absent),
        cmocka_unit_test(
            test_compact_form_of_a_present_field_is_that_of_its_value),
        cmocka_unit_test(test_PA9_optional_fields_are_appended),
        cmocka_unit_test(test_PA9_a_field_becomes_optional_and_back),
        cmocka_unit_test(test_absent_pointers_are_not_followed),
        cmocka_unit_test(test_optional_blobs_are_held),
        cmocka_unit_test(test_optionals_without_pointers_are_plain),
        cmocka_unit_test(test_print_shows_absent_fields_as_none),
        cmocka_unit_test(test_optional_is_part_of_the_type),
        cmocka_unit_test(test_errors_name_the_optional_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
