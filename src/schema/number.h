/*
 * number.h - numbers as text and back, exactly and in no locale.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_NUMBER_H
#define TRI_SCHEMA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room that suffices for any number written here. */
#define TRI_NUMBER_TEXT_MAX 40
/* The longest number that is read; the largest double in full has 309. */
#define TRI_NUMBER_READ_MAX 400

/* These write no NUL and return the length. */
size_t tri_uint_write(char *buf, uint64_t value);
size_t tri_int_write(char *buf, int64_t value);

/*
 * Writes a finite number as short as it can be and still gives the same bits
 * when it is read; `single` numbers, which were floats, give the same float.
 */
size_t tri_float_write(char *buf, double value, bool single);

/*
 * Reads a number that has the form JSON prescribes, of at most
 * TRI_NUMBER_READ_MAX characters, to the nearest double; too large is
 * infinite.
 */
double tri_float_read(const char *text, size_t size);

#endif
