/*
 * number.h - writes numbers as text and reads them, exactly and in any locale.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_NUMBER_H
#define TRI_SCHEMA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough room for any number that these functions write. */
#define TRI_NUMBER_TEXT_MAX 40
/* The longest number that is read; the largest double has 309 digits. */
#define TRI_NUMBER_READ_MAX 400

/* Write a number without a NUL and return its length. */
size_t tri_uint_write(char *buf, uint64_t value);
size_t tri_int_write(char *buf, int64_t value);

/*
 * Writes a finite number with the shortest text that gives the same bits when
 * it is read: the same float if `single`, else the same double.
 */
size_t tri_float_write(char *buf, double value, bool single);

/*
 * Reads a number in the syntax of JSON, of at most TRI_NUMBER_READ_MAX
 * characters. Returns the nearest double, or infinity if it is too large.
 */
double tri_float_read(const char *text, size_t size);

#endif
