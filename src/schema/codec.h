/*
 * codec.h - the settings of a codec: limits, refs, unknown fields, errors.
 *
 * The codecs are JSON (json_read.h, json_write.h) and the compact form
 * (binary_read.h, binary_write.h). A tri_codec tells them where memory comes
 * from and what to accept.
 *
 * Threads: any; a tri_codec must not change while it is in use.
 */
#ifndef TRI_SCHEMA_CODEC_H
#define TRI_SCHEMA_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "schema/allocator.h"

/* The defaults of tri_codec_limits, which are also the highest limits. */
#define TRI_CODEC_SIZE_MAX   ((size_t)64 << 20)
#define TRI_CODEC_COUNT_MAX  ((size_t)16 << 20)
#define TRI_CODEC_MEMORY_MAX ((size_t)256 << 20)
/* The longest text of a ref. */
#define TRI_REF_TEXT_MAX 512

/* Limits of a decoder. 0 stands for the default. */
typedef struct tri_codec_limits {
    size_t size;     // bytes of input
    size_t count;    // elements of one list or array
    size_t memory;   // bytes of all pieces of the value together
    uint32_t depth;  // messages inside messages; default TRI_DEPTH_MAX
} tri_codec_limits;

/*
 * Converts refs to text and back. A ref contains an address, so a decoder never
 * takes its bits from input; a path is used that means the same on both sides.
 * Without a tri_ref_codec every ref is written as nobody.
 */
typedef struct tri_ref_codec {
    /*
     * Writes at most size bytes into buf, without a NUL, and returns the length
     * of the text: at most TRI_REF_TEXT_MAX, or 0 for nobody.
     */
    size_t (*to_text)(void *user, tr_ref ref, char *buf, size_t size);
    /* Reads a text without a NUL. Returns false if it does not name a ref. */
    bool (*from_text)(void *user, const char *text, size_t size, tr_ref *out);
    void *user;
} tri_ref_codec;

/*
 * Writes the text of the ref at `at` to `text`, which has room for
 * TRI_REF_TEXT_MAX bytes. Returns its length; 0: nobody, or refs is NULL.
 */
static inline size_t tri_ref_codec_text(const tri_ref_codec *refs,
                                        const void *at, char *text)
{
    size_t size = 0;
    tr_ref ref;

    memcpy(&ref, at, sizeof(ref));
    if (refs != NULL && ref.cell != 0) {
        size = refs->to_text(refs->user, ref, text, TRI_REF_TEXT_MAX);
    }
    TRI_CHECK(size <= TRI_REF_TEXT_MAX);
    return size;
}

/* What a decoder does with a field that the type does not have. */
typedef enum tri_unknown {
    TRI_UNKNOWN_SKIP,
    TRI_UNKNOWN_ERROR,
} tri_unknown;

/* Settings of a codec. NULL instead of a tri_codec stands for all defaults. */
typedef struct tri_codec {
    const tri_ref_codec *refs;
    const tri_allocator *mem;  // allocates the pieces of decoded values
    tri_unknown unknown;
    tri_codec_limits limits;
} tri_codec;

/* Why a decoder refused its input. */
typedef struct tri_codec_error {
    char text[160];  // "lines[3].memo: expected text, at byte 120"
    size_t at;       // index of the byte in the input
} tri_codec_error;

#endif
