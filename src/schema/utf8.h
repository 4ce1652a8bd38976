/*
 * utf8.h - checks and writes UTF-8, as the Unicode standard defines it.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_UTF8_H
#define TRI_SCHEMA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

/* Returns true if the byte is not the first of its character. */
static inline bool tri_utf8_follows(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Returns the number of bytes of the character at `at`, where size bytes (not
 * 0) are left; 0 if it is not valid: cut off, longer than necessary, a
 * surrogate, or above U+10FFFF.
 */
static inline size_t tri_utf8_size(const char *at, size_t size)
{
    TRI_CHECK_SLOW(size > 0);
    const unsigned char *s = (const unsigned char *)at;

    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2) return 0;
    if (size < 2 || !tri_utf8_follows(s[1])) return 0;
    if (s[0] < 0xe0) return 2;
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
    if (s[0] == 0xed && s[1] > 0x9f) return 0;
    if (size < 3 || !tri_utf8_follows(s[2])) return 0;
    if (s[0] < 0xf0) return 3;
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
    if (s[0] > 0xf4) return 0;
    if (size < 4 || !tri_utf8_follows(s[3])) return 0;
    return 4;
}

/* Writes a character, not a surrogate. Returns its number of bytes, 1 to 4. */
static inline size_t tri_utf8_write(char *at, uint32_t code)
{
    TRI_CHECK_SLOW(code < 0xd800 || (code >= 0xe000 && code <= 0x10ffff));
    if (code < 0x80) {
        at[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        at[0] = (char)(0xc0 | code >> 6);
        at[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        at[0] = (char)(0xe0 | code >> 12);
        at[1] = (char)(0x80 | (code >> 6 & 0x3f));
        at[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    at[0] = (char)(0xf0 | code >> 18);
    at[1] = (char)(0x80 | (code >> 12 & 0x3f));
    at[2] = (char)(0x80 | (code >> 6 & 0x3f));
    at[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

#endif
