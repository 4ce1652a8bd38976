/*
 * pack.h - puts a value and everything it points to into one block.
 *
 * A send needs the message in one allocation: the struct and, after it, the
 * tail with the text, bytes, lists and arrays that it points to. The caller
 * asks for the size of the tail, allocates the block and calls tri_pack to fill
 * it. Blobs are not copied; the packed value shares them.
 *
 * A type with var_count 0 has no pointers: there memcpy is enough.
 *
 * Threads: any; the value must not change between tri_pack_size and tri_pack.
 * Ownership: the caller owns the block and calls tri_pack_release, which drops
 * the value's blobs, before it frees the block.
 */
#ifndef TRI_SCHEMA_PACK_H
#define TRI_SCHEMA_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/field.h"
#include "troupe/base.h"

/* The largest tail; larger data belongs in a blob. */
#define TRI_PACK_MAX       ((size_t)1 << 30)
#define TRI_PACK_DEPTH_MAX TRI_DEPTH_MAX
/* The tail and each piece in it start at a multiple of this. */
#define TRI_PACK_ALIGN ((size_t)8)

/*
 * Returns the size of the value's tail, a multiple of TRI_PACK_ALIGN, or
 * SIZE_MAX if it exceeds TRI_PACK_MAX or the value nests deeper than
 * TRI_PACK_DEPTH_MAX.
 */
size_t tri_pack_size(const tr_type *type, const void *value);

/*
 * Copies the struct to dst and everything it points to into tail, whose size is
 * that of tri_pack_size. NULL text stays NULL; an empty sequence becomes
 * {NULL, 0}.
 */
void tri_pack(const tr_type *type, void *dst, const void *src, void *tail);

/* Returns true if values of this type may contain blobs. */
bool tri_pack_has_blobs(const tr_type *type);

/* Drops the blobs of a packed value, which must not be used after that. */
void tri_pack_release(const tr_type *type, void *value);

#endif
