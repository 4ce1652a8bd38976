/*
 * json.h - values as JSON, RFC 8259, readable and exact.
 *
 * A message is an object with its fields in order. Numbers are numbers, 64-bit
 * integers with all their digits; floats take the shortest text that gives the
 * same bits, and what JSON has no number for is "NaN", "Infinity" or
 * "-Infinity" (all NaN become one). Text is UTF-8 with the escapes JSON needs;
 * bytes that are not UTF-8 are written as U+FFFD. Bytes and blobs are base64,
 * lists and arrays are arrays, a ref is its path or null. Enums are integers.
 * An optional field that is absent is left out.
 *
 * Reading: white space is free, null and a missing field are zero, of an
 * optional field absent, unknown fields are skipped (tri_codec.unknown), a field that comes twice is an
 * error, since nobody could say which was meant. Text cannot hold \u0000.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_JSON_H
#define TRI_SCHEMA_JSON_H

#include "schema/codec.h"

/*
 * Writes *value with a NUL, as much as fits, and returns the length it needs
 * without the NUL. Only codec's refs are used.
 */
size_t tri_json_write(const tr_type *type, const void *value, char *buf,
                      size_t size, const tri_codec *codec);

/*
 * Fills *value, which owns its pieces (tr_drop, or tri_value_release with
 * codec's mem). On failure *value is zero and *error, unless NULL, says why.
 * Errors: TR_EINVAL (not JSON, or not of this type), TR_ELIMIT, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_json_read(const tr_type *type, void *value,
                                  const char *json, size_t size,
                                  const tri_codec *codec,
                                  tri_codec_error *error);

#endif
