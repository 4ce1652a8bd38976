/*
 * options.h - options structs that can grow without breaking old callers.
 *
 * The first member of an options struct is `size_t size`: the sizeof that the
 * caller was compiled with. A new field is added at the end, after any padding,
 * and its zero means the behaviour before the field existed.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_OPTIONS_H
#define TRI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Size of a struct from its start to the end of a member. */
#define TRI_SIZE_THROUGH(type, member)                                         \
    (offsetof(type, member) + sizeof(((type *)NULL)->member))

/*
 * Copies a caller's options into the library's struct of dst_size bytes. Fields
 * that the caller's struct does not have become zero, and so do all fields if
 * src is NULL. The first member of dst becomes dst_size. min_size is the
 * smallest size that was ever released. Returns false, with dst all zero, if
 * src is smaller than min_size or sets fields that the library does not have.
 */
bool tri_options_copy(void *dst, size_t dst_size, size_t min_size,
                      const void *src);

#endif
