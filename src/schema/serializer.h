/*
 * serializer.h - a form that values can be written in and read from.
 *
 * Storage and the wire take any of these, so that a program may bring its own
 * (protocol buffers, say) beside ours. The name is stored with the data.
 *
 * Threads: any; a serializer is constant.
 */
#ifndef TRI_SCHEMA_SERIALIZER_H
#define TRI_SCHEMA_SERIALIZER_H

#include "schema/codec.h"

typedef struct tri_serializer {
    const char *name;  // "json"
    bool is_text;      // UTF-8, fit to be shown
    /* Returns the length it needs; more than size: buf is of no use. */
    size_t (*write)(void *user, const tr_type *type, const void *value,
                    void *buf, size_t size, const tri_codec *codec);
    /*
     * Fills *value with pieces from codec's mem. On failure *value is zero
     * and *error, unless NULL, says why.
     * Errors: TR_EINVAL, TR_ELIMIT, TR_ENOMEM.
     */
    tr_err (*read)(void *user, const tr_type *type, void *value,
                   const void *bytes, size_t size, const tri_codec *codec,
                   tri_codec_error *error);
    void *user;
} tri_serializer;

extern const tri_serializer tri_serializer_json;
extern const tri_serializer tri_serializer_binary;

/*
 * Writes into a buffer of the right size from malloc, which the caller owns
 * and frees; a NUL that *size does not count is behind it. On failure *out is
 * NULL. Errors: TR_ENOMEM, TR_ELIMIT (beyond TRI_CODEC_SIZE_MAX: no decoder
 * would take it).
 */
TR_NODISCARD tr_err tri_serialize(const tri_serializer *serializer,
                                  const tr_type *type, const void *value,
                                  const tri_codec *codec, void **out,
                                  size_t *size);

#endif
