/*
 * codec.c - limits and error reports of the decoders.
 *
 * The path of a failure is built only when there is one: while decoding it is
 * a chain of frames on the stack, from the innermost place outwards.
 */
#include "schema/codec.h"

#include <stdarg.h>

#include "base/text.h"
#include "schema/blob.h"

/* Deeper frames than this are left out of the report. */
#define PATH_FRAMES_MAX 12
/* ", at byte " and any number. */
#define AT_BYTE_MAX 32

static size_t at_most(size_t wanted, size_t ceiling)
{
    return wanted == 0 || wanted > ceiling ? ceiling : wanted;
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
    run->limits.size = at_most(run->limits.size, TRI_CODEC_SIZE_MAX);
    run->limits.count = at_most(run->limits.count, TRI_CODEC_COUNT_MAX);
    run->limits.memory = at_most(run->limits.memory, TRI_CODEC_MEMORY_MAX);
    run->limits.depth = (uint32_t)at_most(run->limits.depth, TRI_DEPTH_MAX);
    if (error != NULL) *error = (tri_codec_error){.at = 0};
}

/* Writes "lines[3].memo: "; nothing at the top. */
static void write_path(tri_text *text, const tri_codec_path *path)
{
    const tri_codec_path *frames[PATH_FRAMES_MAX];
    size_t count = 0;

    for (; path != NULL && count < PATH_FRAMES_MAX; path = path->up) {
        frames[count++] = path;
    }
    if (path != NULL) tri_text_add(text, "...");
    for (size_t i = count; i-- > 0;) {
        if (frames[i]->name == NULL) {
            tri_text_add(text, "[%zu]", frames[i]->index);
        } else {
            tri_text_add(text, "%s%.32s", text->need == 0 ? "" : ".",
                         frames[i]->name);
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

    // The byte is added last and must not be cut off with a long path.
    tri_text_init(&text, error->text, sizeof(error->text) - AT_BYTE_MAX);
    write_path(&text, path);
    va_start(args, format);
    tri_text_add_v(&text, format, args);
    va_end(args);

    size_t length = tri_text_length(&text);

    tri_text_init(&text, error->text + length, sizeof(error->text) - length);
    tri_text_add(&text, ", at byte %zu", at);
    error->at = at;
    return err;
}

/* Counts memory as used, unless it is too much. */
static bool may_use(tri_decoding *run, size_t bytes)
{
    TRI_CHECK(run->memory <= run->limits.memory);
    if (bytes > run->limits.memory - run->memory) return false;
    run->memory += bytes;
    return true;
}

tr_err tri_decoding_alloc(tri_decoding *run, void **out, size_t count,
                          size_t size)
{
    size_t bytes;

    *out = NULL;
    if (__builtin_mul_overflow(count, size, &bytes)) return TR_ELIMIT;
    if (bytes == 0) bytes = 1;
    if (!may_use(run, bytes)) return TR_ELIMIT;
    *out = tri_piece_alloc(run->mem, bytes);
    return *out == NULL ? TR_ENOMEM : TR_OK;
}

tr_err tri_decoding_blob(tri_decoding *run, tr_blob *out, size_t size,
                         void **bytes)
{
    *out = (tr_blob){NULL};
    *bytes = NULL;
    if (!may_use(run, size)) return TR_ELIMIT;
    return tri_blob_make(out, size, bytes, run->mem);
}
