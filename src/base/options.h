/*
 * options.h - options structs that can grow without breaking old callers.
 *
 * The first member of such a struct is `size_t size`, its sizeof when the
 * caller was compiled. A field that is added goes to the end, behind any
 * padding there was, and its zero means what happened before it existed.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_OPTIONS_H
#define TRI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a struct from its start to the end of a member. */
#define TRI_SIZE_THROUGH(type, member)                                         \
    (offsetof(type, member) + sizeof(((type *)NULL)->member))

/*
 * Copies a caller's options into our struct of dst_size bytes. Fields that the
 * caller does not have yet are zero, and so is everything if src is NULL;
 * dst's own size is dst_size in any case. min_size is the smallest size that
 * was ever released. False, with dst all defaults, if src is smaller than that
 * or sets fields that we do not know.
 */
bool tri_options_copy(void *dst, size_t dst_size, size_t min_size,
                      const void *src);

#endif
