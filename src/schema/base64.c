/*
 * base64.c - writes and reads base64.
 */
#include "schema/base64.h"

#include <stdint.h>

#include "base/check.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tri_base64_group(char out[4], const unsigned char *at, size_t size)
{
    TRI_CHECK(size >= 1 && size <= 3);
    uint32_t bits = (uint32_t)at[0] << 16;

    if (size > 1) bits |= (uint32_t)at[1] << 8;
    if (size > 2) bits |= at[2];
    out[0] = alphabet[bits >> 18];
    out[1] = alphabet[bits >> 12 & 63];
    out[2] = size > 1 ? alphabet[bits >> 6 & 63] : '=';
    out[3] = size > 2 ? alphabet[bits & 63] : '=';
}

/* Returns the 6 bits of a character, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

bool tri_base64_size(const char *text, size_t length, size_t *size)
{
    TRI_CHECK(size != NULL);
    size_t count = 0;  // characters without padding
    size_t padding = 0;
    int last = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' && i + 1 < length && text[i + 1] == '/') continue;
        if (text[i] == '=') {
            padding++;
            continue;
        }
        last = value_of(text[i]);
        if (last < 0 || padding > 0) return false;
        count++;
    }
    if ((count + padding) % 4 != 0 || padding > 2) return false;
    if (padding == 1 && (last & 3) != 0) return false;
    if (padding == 2 && (last & 15) != 0) return false;
    *size = (count + padding) / 4 * 3 - padding;
    return true;
}

void tri_base64_read(void *out, const char *text, size_t length)
{
    unsigned char *at = out;
    uint32_t bits = 0;
    unsigned have = 0;

    for (size_t i = 0; i < length && text[i] != '='; i++) {
        if (text[i] == '\\') continue;
        TRI_CHECK_SLOW(value_of(text[i]) >= 0);
        bits = bits << 6 | (uint32_t)value_of(text[i]);
        have += 6;
        if (have >= 8) {
            have -= 8;
            *at++ = (unsigned char)(bits >> have);
        }
    }
}
