/*
 * codecs.h - the two codecs behind one table, for tests that hold for both.
 */
#ifndef TEST_SUPPORT_CODECS_H
#define TEST_SUPPORT_CODECS_H

#include <stdbool.h>
#include <stdlib.h>

#include "schema/binary_read.h"
#include "schema/binary_write.h"
#include "schema/json_read.h"
#include "schema/json_write.h"

typedef struct test_codec {
    const char *name;
    bool is_text;
    /* Returns the length needed; if it is more than size, buf is useless. */
    size_t (*write)(const tr_type *type, const void *value, void *buf,
                    size_t size, const tri_codec *codec);
    tr_err (*read)(const tr_type *type, void *value, const void *bytes,
                   size_t size, const tri_codec *codec, tri_codec_error *error);
} test_codec;

static inline size_t test_json_write(const tr_type *type, const void *value,
                                     void *buf, size_t size,
                                     const tri_codec *codec)
{
    return tri_json_write(type, value, buf, size, codec);
}

static inline tr_err test_json_read(const tr_type *type, void *value,
                                    const void *bytes, size_t size,
                                    const tri_codec *codec,
                                    tri_codec_error *error)
{
    return tri_json_read(type, value, bytes, size, codec, error);
}

static const test_codec test_codec_json = {.name = "json",
                                           .is_text = true,
                                           .write = test_json_write,
                                           .read = test_json_read};

static const test_codec test_codec_binary = {
    .name = "binary", .write = tri_binary_write, .read = tri_binary_read};

/*
 * Writes a value into a buffer from malloc, which the caller frees. A NUL that
 * *size does not count follows the value.
 */
static inline tr_err test_encode(const test_codec *s, const tr_type *type,
                                 const void *value, const tri_codec *codec,
                                 void **out, size_t *size)
{
    size_t room = s->write(type, value, NULL, 0, codec) + 1;
    char *buf = malloc(room);

    if (buf == NULL) {
        return TR_ENOMEM;
    }
    *size = s->write(type, value, buf, room, codec);
    TRI_CHECK(*size == room - 1);
    buf[*size] = '\0';
    *out = buf;
    return TR_OK;
}

#endif
