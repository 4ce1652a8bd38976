/*
 * text.c - the bounded string builder.
 *
 * Invariant: the first tri_text_length bytes of the buffer are the beginning of
 * the whole text that was added, and a NUL follows them unless size is 0. After
 * the first cut nothing more is written.
 */
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

void tri_text_init(tri_text *text, char *at, size_t size)
{
    TRI_CHECK(at != NULL || size == 0);
    *text = (tri_text){.at = at, .size = size};
    if (size > 0) {
        at[0] = '\0';
    }
}

void tri_text_put(tri_text *text, const char *bytes, size_t size)
{
    TRI_CHECK(bytes != NULL || size == 0);
    TRI_CHECK(size <= SIZE_MAX - text->need);
    size_t length = tri_text_length(text);

    text->need += size;
    size_t fits = tri_text_length(text) - length;
    if (fits > 0) {
        memcpy(text->at + length, bytes, fits);
        text->at[length + fits] = '\0';
    }
}

void tri_text_add(tri_text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tri_text_add_v(text, format, args);
    va_end(args);
}

void tri_text_add_v(tri_text *text, const char *format, va_list args)
{
    size_t length = tri_text_length(text);
    // After a cut, `room` is 1: vsnprintf writes only the NUL again.
    size_t room = text->size - length;
    char *at = room > 0 ? text->at + length : NULL;
    int size = vsnprintf(at, room, format, args);

    // Fails only for a wide character or beyond INT_MAX, which the library's
    // formats never have.
    TRI_CHECK(size >= 0);
    TRI_CHECK((size_t)size <= SIZE_MAX - text->need);
    text->need += (size_t)size;
}

bool tri_text_is_word(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    TRI_CHECK(text != NULL);
    return text[0] != '\0' && text[strspn(text, allowed)] == '\0';
}
