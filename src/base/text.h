/*
 * text.h - builds a string in the caller's buffer, within its bounds.
 *
 * Text that does not fit is cut off but counted, as in snprintf, so the caller
 * learns how much space is needed. After every call the text in the buffer ends
 * in a NUL, unless the size is 0.
 *
 * Threads: one thread at a time uses a builder.
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
    size_t need;  // length of all text added, cut or not, without the NUL
} tri_text;

/* Starts an empty text. `at` may be NULL if size is 0: then it only counts. */
void tri_text_init(tri_text *text, char *at, size_t size);

/* Adds `size` bytes. */
void tri_text_put(tri_text *text, const char *bytes, size_t size);
/* Adds a formatted text, as snprintf does. */
void tri_text_add(tri_text *text, const char *format, ...) TR_PRINTF(2, 3);
void tri_text_add_v(tri_text *text, const char *format, va_list args)
    TR_PRINTF(2, 0);

/* Returns true if the text is made of letters, digits, '-' and '_'. */
bool tri_text_is_word(const char *text);

/* Returns the length of the text in the buffer. */
static inline size_t tri_text_length(const tri_text *text)
{
    return text->need < text->size ? text->need
           : text->size > 0        ? text->size - 1
                                   : 0;
}

/* Returns true if some of the text did not fit. */
static inline bool tri_text_is_cut(const tri_text *text)
{
    return text->need > tri_text_length(text);
}

#endif
