/*
 * decoding.h - what the decoders of JSON and of the compact form share: limits,
 * allocation and error reports.
 *
 * A decoder never trusts its input. It limits the size of the input, nesting,
 * the elements of a sequence and the memory it allocates; it reports the field
 * and the byte at which it stopped; and after every failure the value is zero
 * and nothing stays allocated.
 *
 * Threads: one thread at a time uses a run.
 */
#ifndef TRI_SCHEMA_DECODING_H
#define TRI_SCHEMA_DECODING_H

#include <stddef.h>
#include <troupe/message.h>

#include "base/text.h"
#include "schema/allocator.h"
#include "schema/codec.h"
#include "troupe/base.h"

/*
 * The path from the message to the field or element being decoded or checked,
 * for error reports. Each level of the decoder has one on its stack.
 */
typedef struct tri_codec_path {
    const struct tri_codec_path *up;
    const char *name;  // of a field; NULL for an element
    size_t index;      // of an element
} tri_codec_path;

/* Writes a path such as "lines[3].memo: "; nothing for the message itself. */
void tri_codec_path_write(tri_text *text, const tri_codec_path *path);

/* The state of a decoder while it reads one value. */
typedef struct tri_decoding {
    const tri_ref_codec *refs;
    const tri_allocator *mem;
    tri_codec_error *error;   // NULL: the caller wants no report
    tri_codec_limits limits;  // none is zero
    size_t memory;            // bytes allocated so far
    tri_unknown unknown;
} tri_decoding;

/* Starts a run with the settings of `codec`, which may be NULL. */
void tri_decoding_init(tri_decoding *run, const tri_codec *codec,
                       tri_codec_error *error);

/*
 * Stores what is wrong with the input, with the path and the byte `at`, in the
 * run's error. Returns err.
 */
tr_err tri_decoding_fail(const tri_decoding *run, tr_err err,
                         const tri_codec_path *path, size_t at,
                         const char *format, ...) TR_PRINTF(5, 6);

/*
 * Allocates count elements of size bytes, uninitialised, and counts them
 * against the limit of memory. *out is never NULL on success. Stores no report.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
tr_err tri_decoding_alloc(tri_decoding *run, void **out, size_t count,
                          size_t size);

/* Like tri_decoding_alloc, for a blob of size bytes. */
tr_err tri_decoding_blob(tri_decoding *run, tr_blob *out, size_t size,
                         void **bytes);

#endif
