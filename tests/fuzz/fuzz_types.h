/*
 * fuzz_types.h - what the fuzzers of the codecs share: types with every kind
 * of field, and one check for all of them.
 *
 * The first byte of an input chooses the type and the policy, the rest is
 * what the decoder gets. What it accepts must come back as the same value
 * when it is written and read again, and as the same bytes when it is written
 * once more.
 */
#ifndef FUZZ_TYPES_H
#define FUZZ_TYPES_H

#include <stdlib.h>
#include <string.h>

#include <troupe/message.h>

#include "base/check.h"
#include "schema/print.h"
#include "schema/value.h"
#include "support/codecs.h"

TR_MESSAGE(Empty);
TR_MESSAGE(Scalars, (bool, yes), (int8_t, i8), (int16_t, i16), (int32_t, i32),
           (int64_t, i64), (uint8_t, u8), (uint16_t, u16), (uint32_t, u32),
           (uint64_t, u64), (float, single), (double, number), (tr_ref, ref));
TR_MESSAGE(Pointers, (const char *, text), (tr_bytes, bytes), (tr_blob, blob));
TR_MESSAGE(Sequences, (list, Pointers, list), (array, int16_t, numbers),
           (array, bool, flags), (array, float, floats),
           (fixed, uint32_t, key, 3), (fixed, bool, bits, 2),
           (array, tr_bytes, parts), (array, tr_blob, blobs),
           (array, tr_ref, refs), (list, Empty, ticks));
TR_MESSAGE(Inner, (nested, Sequences, all), (const char *, name));
TR_MESSAGE(Outer, (list, Inner, inner), (nested, Scalars, numbers),
           (nested, Pointers, last));
TR_MESSAGE(Options, (optional, uint8_t, byte), (optional, int64_t, number),
           (optional, bool, flag), (optional, float, single),
           (optional, tr_bytes, bytes), (optional, nested, Pointers, inner),
           (optional, nested, Empty, tick), (list, Scalars, between),
           (optional, nested, Sequences, all));

static const tr_type *const fuzz_types[] = {
    &Empty_tr_type, &Scalars_tr_type, &Pointers_tr_type, &Sequences_tr_type,
    &Inner_tr_type, &Outer_tr_type,   &Options_tr_type,
};

/* Holds a value of any of them. */
typedef union fuzz_value {
    Scalars scalars;
    Sequences sequences;
    Inner inner;
    Outer outer;
    Options options;
} fuzz_value;

/* Refs are "/" and one digit. */
static size_t fuzz_ref_to_text(void *user, tr_ref ref, char *buf, size_t size)
{
    (void)user;
    TRI_CHECK(size >= 2);
    buf[0] = '/';
    buf[1] = (char)('0' + ref.id);
    return 2;
}

static bool fuzz_ref_from_text(void *user, const char *text, size_t size,
                               tr_ref *out)
{
    (void)user;
    if (size != 2 || text[0] != '/' || text[1] < '0' || text[1] > '9')
        return false;
    *out = (tr_ref){1, (uint64_t)(text[1] - '0')};
    return true;
}

static const tri_ref_codec fuzz_refs = {fuzz_ref_to_text, fuzz_ref_from_text,
                                        NULL};

/* Writes the value, reads it again and expects it to be the same. */
static void fuzz_again(const test_codec *s, const tr_type *type,
                       const void *value, const tri_codec *codec)
{
    fuzz_value again;
    void *first, *second;
    size_t first_size, second_size;

    TR_MUST(test_encode(s, type, value, codec, &first, &first_size));
    TR_MUST(s->read(type, &again, first, first_size, codec, NULL));
    TRI_CHECK(tri_value_equal(type, value, &again));
    TR_MUST(test_encode(s, type, &again, codec, &second, &second_size));
    TRI_CHECK(first_size == second_size);
    TRI_CHECK(memcmp(first, second, first_size) == 0);
    free(first);
    free(second);
    (tr_drop)(type, &again);
}

static void fuzz_one(const test_codec *s, const uint8_t *data, size_t size)
{
    fuzz_value value;
    tri_codec_error error;
    char text[256];

    if (size == 0) return;

    const tr_type *type = fuzz_types[data[0] % TRI_COUNT_OF(fuzz_types)];
    tri_codec codec = {
        .refs = &fuzz_refs,
        .unknown = data[0] & 0x80 ? TRI_UNKNOWN_ERROR : TRI_UNKNOWN_SKIP,
        .limits = {.memory = (size_t)1 << 20},
    };

    TRI_CHECK(type->size <= sizeof(value));
    tr_err err = s->read(type, &value, data + 1, size - 1, &codec, &error);
    if (err != TR_OK) {
        TRI_CHECK(err == TR_EINVAL || err == TR_ELIMIT);
        TRI_CHECK(error.at <= size - 1);
        TRI_CHECK(strlen(error.text) > 0);
        return;
    }
    TRI_CHECK(tri_print(type, &value, text, sizeof(text), &fuzz_refs) > 0);
    fuzz_again(s, type, &value, &codec);
    (tr_drop)(type, &value);
}

#endif
