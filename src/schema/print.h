/*
 * print.h - values for people: Deposit{cents=100, memo="rent"}.
 *
 * For logs, failures and the dashboard. Nothing is read back from it; it is
 * bounded in all directions and never fails.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_PRINT_H
#define TRI_SCHEMA_PRINT_H

#include "schema/codec.h"

/* Of a sequence and of bytes so many are shown, then how many there are. */
#define TRI_PRINT_ELEMENTS_MAX 16

/*
 * Writes the value with a NUL and returns the length without it, always less
 * than size (which is not 0). Cut off, it ends in "...". refs, unless NULL,
 * shows refs by path; they are "#<id>" otherwise.
 */
size_t tri_print(const tr_type *type, const void *value, char *buf, size_t size,
                 const tri_ref_codec *refs);

#endif
