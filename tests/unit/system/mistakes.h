/*
 * mistakes.h - for the tests of mistakes: does the text say what happened,
 * where, and what to do?
 */
#ifndef TEST_UNIT_SYSTEM_MISTAKES_H
#define TEST_UNIT_SYSTEM_MISTAKES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 2048 };

/* Each part is in the text; the parts are what, where and what to do. */
static inline void says(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", text, *parts);
        }
    }
}

#define SAYS(text, ...) says((text), (const char *const[]){__VA_ARGS__, NULL})

#endif
