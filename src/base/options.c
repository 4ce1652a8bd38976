/*
 * options.c - copies options between versions of a struct.
 */
#include "base/options.h"

#include <string.h>

#include "base/check.h"

static bool all_zero(const unsigned char *at, const unsigned char *end)
{
    while (at < end && *at == 0) {
        at++;
    }
    return at >= end;
}

bool tri_options_copy(void *dst, size_t dst_size, size_t min_size,
                      const void *src)
{
    TRI_CHECK(dst != NULL);
    TRI_CHECK(min_size >= sizeof(size_t));
    TRI_CHECK(dst_size >= min_size);
    size_t size = 0;
    bool fits = true;

    if (src != NULL) {
        memcpy(&size, src, sizeof(size));
        const unsigned char *bytes = src;
        fits = size >= min_size &&
               (size <= dst_size || all_zero(bytes + dst_size, bytes + size));
    }
    memset(dst, 0, dst_size);
    if (src != NULL && fits) {
        memcpy(dst, src, tri_min(size, dst_size));
    }
    memcpy(dst, &dst_size, sizeof(dst_size));
    return fits;
}
