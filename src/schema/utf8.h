/*
 * utf8.h - checks and writes UTF-8, as the Unicode standard defines it.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_UTF8_H
#define TRI_SCHEMA_UTF8_H

#include <stddef.h>
#include <stdint.h>

static inline int tri_utf8_follows(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Bytes of the character at `at`, of which size are there, 1 or more; 0 if it
 * is none: cut off, longer than needed, a surrogate or beyond U+10FFFF.
 */
static inline size_t tri_utf8_size(const char *at, size_t size)
{
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

/* Writes the character, no surrogate; returns its bytes, 1 to 4. */
static inline size_t tri_utf8_write(char *at, uint32_t code)
{
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
