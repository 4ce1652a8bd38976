/*
 * codec_test.c - rules for both codecs: a value that is written and read is the
 * same, old and new versions of a type can read each other, and bad input is
 * refused without harm.
 */
#include "schema_types.h"

#include "base/rand.h"
#include "schema/value.h"
#include "schema/value_random.h"
#include "support/codecs.h"

static const test_codec *const codecs[] = {&test_codec_json,
                                           &test_codec_binary};
enum { CODECS = 2 };

static void test_random_values_are_read_as_written(void **state)
{
    tri_random_limits limits = {.any_floats = true};
    tri_rand rand;

    (void)state;
    check_sizes();
    tri_rand_init(&rand, 77);
    for (int round = 0; round < 400; round++) {
        const test_codec *s = codecs[round % CODECS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            tri_codec_error error;
            any_value in, out;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, &limits, NULL));
            TR_MUST(test_encode(s, type, &in, NULL, &bytes, &size));
            tr_err err = s->read(type, &out, bytes, size, NULL, &error);
            if (err != TR_OK) fail_msg("%s: %s", s->name, error.text);
            if (!tri_value_equal(type, &in, &out))
                fail_msg("%s: another value", s->name);
            free(bytes);
            (tr_drop)(type, &in);
            (tr_drop)(type, &out);
        }
    }
}

/* ---- old and new versions of a type ---- */

TR_MESSAGE(OldEntry, (const char *, what));
TR_MESSAGE(NewEntry, (const char *, what), (int32_t, cents), (tr_bytes, seal));
TR_MESSAGE(OldAccount, (int64_t, cents), (list, OldEntry, log),
           (nested, OldEntry, last));
TR_MESSAGE(NewAccount, (int64_t, cents), (list, NewEntry, log),
           (nested, NewEntry, last), (const char *, owner), (double, rate),
           (list, NewEntry, plans), (array, uint16_t, codes),
           (fixed, int32_t, limits, 2), (bool, open), (tr_ref, bank),
           (tr_blob, photo));

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

static void test_new_reader_sets_missing_fields_to_zero(void **state)
{
    static const OldEntry log[] = {{"opened"}, {NULL}};
    OldAccount in = {.cents = 5, .log = {log, 2}, .last = {"x"}};

    (void)state;
    for (int i = 0; i < CODECS; i++) {
        NewAccount out;
        memset(&out, 0xee, sizeof(out));
        convert(codecs[i], &OldAccount_tr_type, &in, &NewAccount_tr_type, &out);
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

static void test_PA9_old_reader_skips_unknown_fields(void **state)
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
    for (int i = 0; i < CODECS; i++) {
        OldAccount out;
        convert(codecs[i], &NewAccount_tr_type, &in, &OldAccount_tr_type, &out);
        assert_int_equal(out.cents, -5);
        assert_int_equal(out.log.count, 2);
        assert_string_equal(out.log.at[1].what, "b");
        assert_string_equal(out.last.what, "x");
        tr_drop(OldAccount, &out);
    }
    tr_blob_drop(in.photo);
}

static void test_old_reader_reads_random_new_values(void **state)
{
    tri_rand rand;

    (void)state;
    tri_rand_init(&rand, 31);
    for (int round = 0; round < 200; round++) {
        NewAccount in, again;
        OldAccount middle;
        const test_codec *s = codecs[round % CODECS];
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

/* Reads from a block of exact size and drops the value if it is accepted. */
static tr_err try_read(const test_codec *s, const tr_type *type,
                       const void *bytes, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    tri_codec_error error;
    any_value out;

    assert_non_null(copy);
    if (size > 0) memcpy(copy, bytes, size);
    memset(&out, 0xee, sizeof(out));
    tr_err err = s->read(type, &out, copy, size, NULL, &error);
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
        const test_codec *s = codecs[round % CODECS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            any_value in;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, NULL, NULL));
            TR_MUST(test_encode(s, type, &in, NULL, &bytes, &size));
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
        const test_codec *s = codecs[round % CODECS];
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            any_value in;
            void *bytes;
            size_t size;
            TR_MUST(tri_value_random(type, &rand, &in, NULL, NULL));
            TR_MUST(test_encode(s, type, &in, NULL, &bytes, &size));
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
        try_read(&test_codec_binary, all_types[round % ALL_TYPES], bytes, size);
    }
}

/* Fails the n-th allocation for every n. */
static void test_reading_without_memory_leaves_nothing_behind(void **state)
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
    for (int i = 0; i < CODECS; i++) {
        const test_codec *s = codecs[i];
        void *bytes;
        size_t size;
        TR_MUST(test_encode(s, &Book_tr_type, &in, NULL, &bytes, &size));
        for (unsigned n = 1;; n++) {
            failing f = {.fail_at = n};
            tri_allocator mem = failing_mem(&f);
            tri_codec codec = {.mem = &mem};
            Book out;
            tr_err err =
                s->read(&Book_tr_type, &out, bytes, size, &codec, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_values_are_read_as_written),
        cmocka_unit_test(test_new_reader_sets_missing_fields_to_zero),
        cmocka_unit_test(test_PA9_old_reader_skips_unknown_fields),
        cmocka_unit_test(test_old_reader_reads_random_new_values),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_flipped_bits_do_no_harm),
        cmocka_unit_test(test_random_bytes_do_no_harm),
        cmocka_unit_test(test_reading_without_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
