/*
 * text.h - builds a string in the caller's buffer, within its bounds.
 *
 * What does not fit is cut off but counted, as snprintf does, so a caller can
 * say how much was needed. The buffer ends in a NUL after every call, unless
 * its size is 0.
 *
 * Threads: a builder has one user.
 */
#ifndef TRI_BASE_TEXT_H
#define TRI_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "troupe/base.h"

typedef struct tri_text {
    char *at;     // borrowed from the caller
    size_t size;  // of the buffer, with the NUL
    size_t need;  // length of all that was added, without the NUL
} tri_text;

/* Begins an empty string. `at` may be NULL if size is 0: that only counts. */
void tri_text_init(tri_text *text, char *at, size_t size);

void tri_text_put(tri_text *text, const char *bytes, size_t size);
void tri_text_add(tri_text *text, const char *format, ...) TR_PRINTF(2, 3);
void tri_text_add_v(tri_text *text, const char *format, va_list args)
    TR_PRINTF(2, 0);

/* The length of what is in the buffer. */
static inline size_t tri_text_length(const tri_text *text)
{
    return text->need < text->size ? text->need
           : text->size > 0        ? text->size - 1
                                   : 0;
}

static inline bool tri_text_is_cut(const tri_text *text)
{
    return text->need > tri_text_length(text);
}

#endif
