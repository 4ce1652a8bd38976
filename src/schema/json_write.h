/*
 * json_write.h - writes values as JSON (RFC 8259), readable and exact.
 *
 * A message is an object with its fields in their order; absent optional fields
 * are left out. Numbers are numbers, 64-bit integers with all digits, floats
 * with the shortest text that gives the same bits; "NaN" (one for all),
 * "Infinity" and "-Infinity" are strings, since JSON has no numbers for them.
 * Enums are integers. Text is UTF-8 with the escapes that JSON needs; bytes
 * that are not UTF-8 are written as U+FFFD. Bytes and blobs are base64, lists
 * and arrays are arrays, a ref is its path or null.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_JSON_WRITE_H
#define TRI_SCHEMA_JSON_WRITE_H

#include <stddef.h>

#include "schema/codec.h"
#include "troupe/base.h"

/*
 * Writes *value with a NUL, as much as fits, and returns the length it needs
 * without the NUL. Uses only the refs of `codec`, which may be NULL.
 */
size_t tri_json_write(const tr_type *type, const void *value, char *buf,
                      size_t size, const tri_codec *codec);

#endif
