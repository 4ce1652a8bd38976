/*
 * base64.h - base64 of RFC 4648 section 4, with padding.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_BASE64_H
#define TRI_SCHEMA_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of characters for `size` bytes. */
static inline size_t tri_base64_length(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* Writes the 4 characters of the 1 to 3 bytes at `at`. */
void tri_base64_group(char out[4], const unsigned char *at, size_t size);

/*
 * Checks a text and stores how many bytes it stands for. Returns false if it is
 * not base64. Padding is required and unused bits must be zero, so that each
 * value has exactly one text. `\/` counts as `/`: the text may come from JSON.
 */
bool tri_base64_size(const char *text, size_t length, size_t *size);

/* Writes the bytes of a text that tri_base64_size has checked. */
void tri_base64_read(void *out, const char *text, size_t length);

#endif
