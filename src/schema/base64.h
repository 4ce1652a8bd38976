/*
 * base64.h - bytes as text, RFC 4648 section 4, with padding.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_BASE64_H
#define TRI_SCHEMA_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters that size bytes need. */
static inline size_t tri_base64_length(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* Writes the 4 characters of the 1 to 3 bytes at `at`. */
void tri_base64_group(char out[4], const unsigned char *at, size_t size);

/*
 * Says how many bytes the text gives; false if it is no base64. Strict:
 * padding must be there and unused bits zero, so each value has one text.
 * `\/` counts as `/`, for the text may stand in JSON.
 */
bool tri_base64_size(const char *text, size_t length, size_t *size);

/* Writes the bytes of a text that tri_base64_size has accepted. */
void tri_base64_read(void *out, const char *text, size_t length);

#endif
