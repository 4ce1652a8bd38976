/*
 * decoding.c - limits, allocation and error reports of the decoders, which are
 * binary_read.c and json_read.c: there each field is checked.
 *
 * While decoding, a path is a chain of tri_codec_path on the stack, from the
 * innermost level outwards. Its text is built only for a failure.
 */
#include "schema/decoding.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/text.h"
#include "schema/blob.h"
#include "schema/field.h"
#include "troupe/message.h"

/* A report shows at most this many levels of a path, the innermost. */
#define PATH_LEVELS_MAX 12
/* Room for ", at byte " and any number. */
#define AT_BYTE_MAX 32

/* Returns the limit that applies; 0 stands for the highest one. */
static size_t limit_of(size_t wanted, size_t highest)
{
    return wanted == 0 || wanted > highest ? highest : wanted;
}

void tri_decoding_init(tri_decoding *run, const tri_codec *codec,
                       tri_codec_error *error)
{
    TRI_CHECK(run != NULL);
    *run = (tri_decoding){.error = error};
    if (codec != NULL) {
        run->refs = codec->refs;
        run->mem = codec->mem;
        run->unknown = codec->unknown;
        run->limits = codec->limits;
    }
    run->limits.size = limit_of(run->limits.size, TRI_CODEC_SIZE_MAX);
    run->limits.count = limit_of(run->limits.count, TRI_CODEC_COUNT_MAX);
    run->limits.memory = limit_of(run->limits.memory, TRI_CODEC_MEMORY_MAX);
    run->limits.depth = (uint32_t)limit_of(run->limits.depth, TRI_DEPTH_MAX);
    if (error != NULL) *error = (tri_codec_error){.at = 0};
}

void tri_codec_path_write(tri_text *text, const tri_codec_path *path)
{
    const tri_codec_path *levels[PATH_LEVELS_MAX];
    size_t count = 0;

    for (; path != NULL && count < PATH_LEVELS_MAX; path = path->up) {
        levels[count++] = path;
    }
    if (path != NULL) tri_text_add(text, "...");
    for (size_t i = count; i-- > 0;) {
        if (levels[i]->name == NULL) {
            tri_text_add(text, "[%zu]", levels[i]->index);
        } else {
            tri_text_add(text, "%s%.32s", text->need == 0 ? "" : ".",
                         levels[i]->name);
        }
    }
    if (text->need > 0) tri_text_add(text, ": ");
}

tr_err tri_decoding_fail(const tri_decoding *run, tr_err err,
                         const tri_codec_path *path, size_t at,
                         const char *format, ...)
{
    tri_codec_error *error = run->error;
    tri_text text;
    va_list args;

    TRI_CHECK(err != TR_OK);
    if (error == NULL) return err;

    // Keep room for the byte, which must not be cut off with a long path.
    tri_text_init(&text, error->text, sizeof(error->text) - AT_BYTE_MAX);
    tri_codec_path_write(&text, path);
    va_start(args, format);
    tri_text_add_v(&text, format, args);
    va_end(args);

    size_t length = tri_text_length(&text);

    tri_text_init(&text, error->text + length, sizeof(error->text) - length);
    tri_text_add(&text, ", at byte %zu", at);
    error->at = at;
    return err;
}

/* Counts memory as used. Returns false if that exceeds the limit. */
static bool use_memory(tri_decoding *run, size_t bytes)
{
    TRI_CHECK(run->memory <= run->limits.memory);
    if (bytes > run->limits.memory - run->memory) return false;
    run->memory += bytes;
    return true;
}

tr_err tri_decoding_alloc(tri_decoding *run, void **out, size_t count,
                          size_t size)
{
    TRI_CHECK(out != NULL);
    size_t bytes;

    *out = NULL;
    if (__builtin_mul_overflow(count, size, &bytes)) return TR_ELIMIT;
    if (bytes == 0) bytes = 1;
    if (!use_memory(run, bytes)) return TR_ELIMIT;
    *out = tri_piece_alloc(run->mem, bytes);
    return *out == NULL ? TR_ENOMEM : TR_OK;
}

tr_err tri_decoding_blob(tri_decoding *run, tr_blob *out, size_t size,
                         void **bytes)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(bytes != NULL);
    *out = (tr_blob){NULL};
    *bytes = NULL;
    if (!use_memory(run, size)) return TR_ELIMIT;
    return tri_blob_make(out, size, bytes, run->mem);
}
