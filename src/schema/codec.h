/*
 * codec.h - what the codecs share: limits, errors, refs, policy.
 *
 * A decoder never trusts its input. It has a limit on the input's size, on
 * nesting, on the elements of one sequence and on the memory it may use; it
 * reports the field and the byte at which it gave up; and on every failure the
 * value is zero and nothing is kept.
 *
 * Threads: any; a tri_codec is constant while it is used.
 */
#ifndef TRI_SCHEMA_CODEC_H
#define TRI_SCHEMA_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <troupe/message.h>

#include "schema/allocator.h"
#include "schema/field.h"

/* Defaults of tri_codec_limits, and the ceilings of what can be asked for. */
#define TRI_CODEC_SIZE_MAX   ((size_t)64 << 20)
#define TRI_CODEC_COUNT_MAX  ((size_t)16 << 20)
#define TRI_CODEC_MEMORY_MAX ((size_t)256 << 20)
/* The longest text that a tri_ref_codec gives for a ref. */
#define TRI_REF_TEXT_MAX 512

/* A field left zero takes the default above. */
typedef struct tri_codec_limits {
    size_t size;     // bytes of input
    size_t count;    // elements of one list or array
    size_t memory;   // bytes of all pieces of the value
    uint32_t depth;  // messages inside messages; default TRI_DEPTH_MAX
} tri_codec_limits;

/*
 * How refs cross a boundary: as text that means the same on the other side,
 * a path. A decoder never takes a ref's own bits from outside, they hold an
 * address. Without a tri_ref_codec each ref becomes nobody.
 */
typedef struct tri_ref_codec {
    /*
     * Writes at most size bytes into buf and returns how many the text has,
     * at most TRI_REF_TEXT_MAX; 0 stands for nobody. No NUL is added.
     */
    size_t (*to_text)(void *user, tr_ref ref, char *buf, size_t size);
    /* text is borrowed and has no NUL. False: it names no ref. */
    bool (*from_text)(void *user, const char *text, size_t size, tr_ref *out);
    void *user;
} tri_ref_codec;

/* What a decoder does with a field that the type does not have. */
typedef enum tri_unknown {
    TRI_UNKNOWN_SKIP,
    TRI_UNKNOWN_ERROR,
} tri_unknown;

/* How to encode and decode; NULL in its place is all defaults. */
typedef struct tri_codec {
    const tri_ref_codec *refs;
    const tri_allocator *mem;  // for the pieces of decoded values
    tri_unknown unknown;
    tri_codec_limits limits;
} tri_codec;

/* What a decoder has to say about input it refused. */
typedef struct tri_codec_error {
    char text[160];  // "lines[3].memo: expected text, at byte 120"
    size_t at;       // byte of the input
} tri_codec_error;

/* ---- for the decoders ---- */

/* The way from the message to the place being decoded; lives on the stack. */
typedef struct tri_codec_path {
    const struct tri_codec_path *up;
    const char *name;  // NULL: an element
    size_t index;      // of the element
} tri_codec_path;

/* One run of a decoder. */
typedef struct tri_decoding {
    const tri_ref_codec *refs;
    const tri_allocator *mem;
    tri_codec_error *error;   // NULL: nobody asks
    tri_codec_limits limits;  // none is zero
    size_t memory;            // used of limits.memory
    tri_unknown unknown;
} tri_decoding;

/* Takes codec's choices and the defaults for the rest. */
void tri_decoding_init(tri_decoding *run, const tri_codec *codec,
                       tri_codec_error *error);

/* Reports what is wrong with the input at that byte; returns err. */
tr_err tri_decoding_fail(const tri_decoding *run, tr_err err,
                         const tri_codec_path *path, size_t at,
                         const char *format, ...) TR_PRINTF(5, 6);

/*
 * Allocates count elements of size bytes and counts them as used; no report.
 * The result is uninitialised and never NULL on success.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
tr_err tri_decoding_alloc(tri_decoding *run, void **out, size_t count,
                          size_t size);

/* As above, for the body of a blob. */
tr_err tri_decoding_blob(tri_decoding *run, tr_blob *out, size_t size,
                         void **bytes);

/* ---- numbers of any width, the widest first: most are ---- */

static inline int64_t tri_load_int(const void *at, size_t size)
{
    if (TRI_LIKELY(size == sizeof(int64_t))) {
        int64_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(int32_t)) {
        int32_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(int16_t)) {
        int16_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    int8_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

static inline uint64_t tri_load_uint(const void *at, size_t size)
{
    if (TRI_LIKELY(size == sizeof(uint64_t))) {
        uint64_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(uint32_t)) {
        uint32_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(uint16_t)) {
        uint16_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    uint8_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/* False when the number does not fit; what is stored then means nothing. */
static inline bool tri_store_int(void *at, size_t size, int64_t value)
{
    if (TRI_LIKELY(size == sizeof(value))) {
        memcpy(at, &value, sizeof(value));
        return true;
    }
    if (size == sizeof(int32_t)) {
        int32_t v = (int32_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    if (size == sizeof(int16_t)) {
        int16_t v = (int16_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    int8_t v = (int8_t)value;
    memcpy(at, &v, sizeof(v));
    return v == value;
}

static inline bool tri_store_uint(void *at, size_t size, uint64_t value)
{
    if (TRI_LIKELY(size == sizeof(value))) {
        memcpy(at, &value, sizeof(value));
        return true;
    }
    if (size == sizeof(uint32_t)) {
        uint32_t v = (uint32_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    if (size == sizeof(uint16_t)) {
        uint16_t v = (uint16_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    uint8_t v = (uint8_t)value;
    memcpy(at, &v, sizeof(v));
    return v == value;
}

static inline double tri_load_float(const void *at, size_t size)
{
    if (size == sizeof(float)) {
        float v;
        memcpy(&v, at, sizeof(v));
        return (double)v;
    }
    double v;
    memcpy(&v, at, sizeof(v));
    return v;
}

static inline void tri_store_float(void *at, size_t size, double value)
{
    if (size == sizeof(float)) {
        float v = (float)value;
        memcpy(at, &v, sizeof(v));
    } else {
        memcpy(at, &value, sizeof(value));
    }
}

#endif
