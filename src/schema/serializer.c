/*
 * serializer.c - our two codecs behind one interface.
 */
#include "schema/serializer.h"

#include "schema/binary.h"
#include "schema/json.h"

/* Most values fit; larger ones are written twice. */
#define FIRST_GUESS 256

static size_t write_json(void *user, const tr_type *type, const void *value,
                         void *buf, size_t size, const tri_codec *codec)
{
    (void)user;
    return tri_json_write(type, value, buf, size, codec);
}

static tr_err read_json(void *user, const tr_type *type, void *value,
                        const void *bytes, size_t size, const tri_codec *codec,
                        tri_codec_error *error)
{
    (void)user;
    return tri_json_read(type, value, bytes, size, codec, error);
}

static size_t write_binary(void *user, const tr_type *type, const void *value,
                           void *buf, size_t size, const tri_codec *codec)
{
    (void)user;
    return tri_binary_write(type, value, buf, size, codec);
}

static tr_err read_binary(void *user, const tr_type *type, void *value,
                          const void *bytes, size_t size,
                          const tri_codec *codec, tri_codec_error *error)
{
    (void)user;
    return tri_binary_read(type, value, bytes, size, codec, error);
}

const tri_serializer tri_serializer_json = {
    .name = "json", .is_text = true, .write = write_json, .read = read_json};

const tri_serializer tri_serializer_binary = {
    .name = "binary", .write = write_binary, .read = read_binary};

tr_err tri_serialize(const tri_serializer *serializer, const tr_type *type,
                     const void *value, const tri_codec *codec, void **out,
                     size_t *size)
{
    TRI_CHECK(serializer != NULL);
    TRI_CHECK(out != NULL);
    size_t room = FIRST_GUESS;

    *out = NULL;
    *size = 0;
    for (;;) {
        char *buf = malloc(room);
        if (buf == NULL) return TR_ENOMEM;

        size_t length =
            serializer->write(serializer->user, type, value, buf, room, codec);
        if (length < room) {
            buf[length] = '\0';
            *out = buf;
            *size = length;
            return TR_OK;
        }
        free(buf);
        if (length > TRI_CODEC_SIZE_MAX) return TR_ELIMIT;
        room = length + 1;
    }
}
