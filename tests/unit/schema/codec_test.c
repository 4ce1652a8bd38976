/*
 * codec_test.c - what holds for every serializer: values come back, old and
 * new versions of a type understand each other, bad input does no harm.
 */
#include "schema_types.h"

#include "base/rand.h"
#include "schema/random.h"
#include "schema/serializer.h"
#include "schema/value.h"

static const tri_serializer *const serializers[] = {&tri_serializer_json,
                                                    &tri_serializer_binary};
enum { SERIALIZERS = 2 };

static void test_random_values_come_back(void **state)
{
    tri_random_limits limits = {.any_floats = true};
    tri_rand rand;

    (void)state;
    check_sizes();
    tri_rand_init(&rand, 77);
    for (int round = 0; round < 400; round++) {
        const tri_serializer *s = serializers[round % SERIALIZERS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            tri_codec_error error;
            any_value in, out;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, &limits, NULL));
            TR_MUST(tri_serialize(s, type, &in, NULL, &bytes, &size));
            tr_err err =
                s->read(s->user, type, &out, bytes, size, NULL, &error);
            if (err != TR_OK) fail_msg("%s: %s", s->name, error.text);
            if (!tri_value_equal(type, &in, &out))
                fail_msg("%s: another value", s->name);
            free(bytes);
            (tr_drop)(type, &in);
            (tr_drop)(type, &out);
        }
    }
}

/* ---- the same types at two times ---- */

TR_MESSAGE(OldEntry, (const char *, what));
TR_MESSAGE(NewEntry, (const char *, what), (int32_t, cents), (tr_bytes, seal));
TR_MESSAGE(OldAccount, (int64_t, cents), (list, OldEntry, log),
           (nested, OldEntry, last));
TR_MESSAGE(NewAccount, (int64_t, cents), (list, NewEntry, log),
           (nested, NewEntry, last), (const char *, owner), (double, rate),
           (list, NewEntry, plans), (array, uint16_t, codes),
           (fixed, int32_t, limits, 2), (bool, open), (tr_ref, bank),
           (tr_blob, photo));

static void convert(const tri_serializer *s, const tr_type *from,
                    const void *in, const tr_type *to, void *out)
{
    tri_codec_error error;
    void *bytes;
    size_t size;

    TR_MUST(tri_serialize(s, from, in, NULL, &bytes, &size));
    tr_err err = s->read(s->user, to, out, bytes, size, NULL, &error);
    if (err != TR_OK) fail_msg("%s: %s", s->name, error.text);
    free(bytes);
}

static void test_new_reader_gives_missing_fields_zero(void **state)
{
    static const OldEntry log[] = {{"opened"}, {NULL}};
    OldAccount in = {.cents = 5, .log = {log, 2}, .last = {"x"}};

    (void)state;
    for (int i = 0; i < SERIALIZERS; i++) {
        NewAccount out;
        memset(&out, 0xee, sizeof(out));
        convert(serializers[i], &OldAccount_tr_type, &in, &NewAccount_tr_type,
                &out);
        assert_int_equal(out.cents, 5);
        assert_int_equal(out.log.count, 2);
        assert_string_equal(out.log.at[0].what, "opened");
        assert_int_equal(out.log.at[0].cents, 0);
        assert_null(out.log.at[1].what);
        assert_string_equal(out.last.what, "x");
        assert_true(
            is_zero(&out.owner, sizeof(out) - offsetof(NewAccount, owner)));
        tr_drop(NewAccount, &out);
    }
}

static void test_PA9_old_reader_skips_what_it_does_not_know(void **state)
{
    static const NewEntry log[] = {{"opened", 3, {"s", 1}}, {"b", -4, {0}}};
    static const uint16_t codes[] = {1, 60000};
    NewAccount in = {.cents = -5,
                     .log = {log, 2},
                     .last = {"x", 1, {0}},
                     .owner = "ann",
                     .rate = 0.5,
                     .plans = {log, 2},
                     .codes = {codes, 2},
                     .limits = {1, -1},
                     .open = true};

    (void)state;
    TR_MUST(tr_blob_new(NULL, &in.photo, "abc", 3));
    for (int i = 0; i < SERIALIZERS; i++) {
        OldAccount out;
        convert(serializers[i], &NewAccount_tr_type, &in, &OldAccount_tr_type,
                &out);
        assert_int_equal(out.cents, -5);
        assert_int_equal(out.log.count, 2);
        assert_string_equal(out.log.at[1].what, "b");
        assert_string_equal(out.last.what, "x");
        tr_drop(OldAccount, &out);
    }
    tr_blob_drop(in.photo);
}

static void test_random_new_values_are_read_by_the_old(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 31);
    for (int round = 0; round < 200; round++) {
        NewAccount in, again;
        OldAccount middle;
        const tri_serializer *s = serializers[round % SERIALIZERS];
        TR_MUST(tri_value_random(&NewAccount_tr_type, &rand, &in, NULL, NULL));
        convert(s, &NewAccount_tr_type, &in, &OldAccount_tr_type, &middle);
        convert(s, &OldAccount_tr_type, &middle, &NewAccount_tr_type, &again);
        assert_int_equal(again.cents, in.cents);
        assert_int_equal(again.log.count, in.log.count);
        assert_null(again.owner);
        tr_drop(NewAccount, &in);
        tr_drop(OldAccount, &middle);
        tr_drop(NewAccount, &again);
    }
}

/* ---- bad input ---- */

/* Reads from a block of exactly that size; whatever comes of it is ended. */
static tr_err try_read(const tri_serializer *s, const tr_type *type,
                       const void *bytes, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    tri_codec_error error;
    any_value out;

    assert_non_null(copy);
    if (size > 0) memcpy(copy, bytes, size);
    memset(&out, 0xee, sizeof(out));
    tr_err err = s->read(s->user, type, &out, copy, size, NULL, &error);
    free(copy);
    if (err == TR_OK) {
        (tr_drop)(type, &out);
    } else {
        assert_true(err == TR_EINVAL || err == TR_ELIMIT);
        assert_true(error.at <= size);
        assert_non_null(strstr(error.text, ", at byte "));
        assert_true(is_zero(&out, type->size));
    }
    return err;
}

static void test_every_truncation_is_refused(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 13);
    for (int round = 0; round < 20; round++) {
        const tri_serializer *s = serializers[round % SERIALIZERS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            any_value in;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, NULL, NULL));
            TR_MUST(tri_serialize(s, type, &in, NULL, &bytes, &size));
            for (size_t cut = 0; cut < size; cut++) {
                assert_int_equal(try_read(s, type, bytes, cut), TR_EINVAL);
            }
            free(bytes);
            (tr_drop)(type, &in);
        }
    }
}

static void test_flipped_bits_do_no_harm(void **state)
{
    tri_rand rand;
    size_t refused = 0;

    (void)state;
    tri_rand_init(&rand, 17);
    for (int round = 0; round < 8; round++) {
        const tri_serializer *s = serializers[round % SERIALIZERS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            any_value in;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, NULL, NULL));
            TR_MUST(tri_serialize(s, type, &in, NULL, &bytes, &size));
            for (size_t bit = 0; bit < size * 8; bit++) {
                unsigned char *at = (unsigned char *)bytes + bit / 8;
                *at = (unsigned char)(*at ^ 1u << bit % 8);
                refused += try_read(s, type, bytes, size) != TR_OK;
                *at = (unsigned char)(*at ^ 1u << bit % 8);
            }
            free(bytes);
            (tr_drop)(type, &in);
        }
    }
    assert_true(refused > 1000);
}

static void test_random_bytes_do_no_harm(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 19);
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[48];
        size_t size = tri_rand_below(&rand, sizeof(bytes) + 1);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (unsigned char)tri_rand_next(&rand);
        }
        if (size > 0) bytes[0] = (unsigned char)(bytes[0] & 0xf8) | 5;
        try_read(&tri_serializer_binary, all_types[round % ALL_TYPES], bytes,
                 size);
    }
}

/* The n-th allocation fails, for every n: an error, zero, nothing kept. */
static void test_reading_without_memory(void **state)
{
    tri_rand rand;
    Book in;

    (void)state;
    tri_rand_init(&rand, 4);
    for (;;) {
        TR_MUST(tri_value_random(&Book_tr_type, &rand, &in, NULL, NULL));
        if (in.orders.count == 4) break;
        tr_drop(Book, &in);
    }
    for (int i = 0; i < SERIALIZERS; i++) {
        const tri_serializer *s = serializers[i];
        void *bytes;
        size_t size;
        TR_MUST(tri_serialize(s, &Book_tr_type, &in, NULL, &bytes, &size));
        for (unsigned n = 1;; n++) {
            failing f = {.fail_at = n};
            tri_allocator mem = failing_mem(&f);
            tri_codec codec = {.mem = &mem};
            Book out;
            tr_err err = s->read(s->user, &Book_tr_type, &out, bytes, size,
                                 &codec, NULL);
            if (err == TR_OK) {
                assert_true(n > 10);
                assert_true(tri_value_equal(&Book_tr_type, &in, &out));
                tri_value_release(&Book_tr_type, &out, &mem);
                assert_int_equal(f.live, 0);
                break;
            }
            assert_int_equal(err, TR_ENOMEM);
            assert_true(is_zero(&out, sizeof(out)));
            assert_int_equal(f.live, 0);
        }
        free(bytes);
    }
    tr_drop(Book, &in);
}

static void test_long_paths_are_cut_but_keep_the_byte(void **state)
{
    // A type in itself, as deep as decoders go.
    static tr_type knot;
    static const tr_field fields[] = {{"a_rather_long_name_of_a_field", &knot,
                                       0, sizeof(tri_seq), TR_KIND_LIST, 0}};
    unsigned char deep[80];
    tri_codec_error error;
    tri_seq out;

    (void)state;
    knot = (tr_type){"Knot", 1, sizeof(tri_seq), 1, 1, fields, NULL};
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = i % 2 ? 0x0e : 0x0d;
    assert_int_equal(tri_serializer_binary.read(NULL, &knot, &out, deep,
                                                sizeof(deep), NULL, &error),
                     TR_ELIMIT);
    assert_true(is_zero(&out, sizeof(out)));
    assert_true(strlen(error.text) < sizeof(error.text));
    assert_memory_equal(error.text, "...", 3);
    assert_non_null(strstr(error.text, ", at byte 67"));
    assert_int_equal(error.at, 67);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_values_come_back),
        cmocka_unit_test(test_new_reader_gives_missing_fields_zero),
        cmocka_unit_test(test_PA9_old_reader_skips_what_it_does_not_know),
        cmocka_unit_test(test_random_new_values_are_read_by_the_old),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_flipped_bits_do_no_harm),
        cmocka_unit_test(test_random_bytes_do_no_harm),
        cmocka_unit_test(test_reading_without_memory),
        cmocka_unit_test(test_long_paths_are_cut_but_keep_the_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
