/*
 * print.h - writes values as text for people: Deposit{cents=100, memo="rent"}.
 *
 * For logs, failures and the dashboard; the text cannot be read back. Printing
 * never fails, and its length, depth and number of elements are limited.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_PRINT_H
#define TRI_SCHEMA_PRINT_H

#include <stddef.h>

#include "schema/codec.h"
#include "troupe/base.h"

/* Elements or bytes of a sequence that are shown; the others are counted. */
#define TRI_PRINT_ELEMENTS_MAX 16

/*
 * Writes the value with a NUL and returns the length without it, which is less
 * than size (not 0). A text that is cut off ends in "...". Refs appear as the
 * text that `refs` gives, or as "#<id>" if it is NULL.
 */
size_t tri_print(const tr_type *type, const void *value, char *buf, size_t size,
                 const tri_ref_codec *refs);

#endif
