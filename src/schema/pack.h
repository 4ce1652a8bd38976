/*
 * pack.h - one block for a value and all it points to.
 *
 * A send needs the message in one allocation: the struct, and behind it, in
 * the tail, the text, bytes, lists and arrays it points to. The caller asks
 * for the size of the tail, allocates, and lets tri_pack fill both. Blobs are
 * not copied; the packed value shares them.
 *
 * Types with var_count 0 need none of this: a memcpy is the whole job.
 *
 * Threads: any; the value must not change between tri_pack_size and tri_pack.
 * Ownership: the caller owns the block; tri_pack_release ends the value's
 * share of its blobs before the block is freed.
 */
#ifndef TRI_SCHEMA_PACK_H
#define TRI_SCHEMA_PACK_H

#include <stddef.h>

#include <troupe/message.h>

#include "schema/field.h"

/* The largest tail; larger data belongs in a blob. */
#define TRI_PACK_MAX       ((size_t)1 << 30)
#define TRI_PACK_DEPTH_MAX TRI_DEPTH_MAX
/* Each piece of the tail starts at a multiple of this, and so must the tail. */
#define TRI_PACK_ALIGN ((size_t)8)

/*
 * Bytes the tail of the value takes, a multiple of TRI_PACK_ALIGN; SIZE_MAX
 * when it would exceed TRI_PACK_MAX or nests beyond TRI_PACK_DEPTH_MAX.
 */
size_t tri_pack_size(const tr_type *type, const void *value);

/*
 * Copies the struct to dst and what it points to into tail, of the size that
 * tri_pack_size gave. NULL text stays NULL, an empty sequence is {NULL, 0}.
 */
void tri_pack(const tr_type *type, void *dst, const void *src, void *tail);

/* Whether values of this type may hold blobs. */
bool tri_pack_has_blobs(const tr_type *type);

/* Drops the blobs of a packed value. The value must not be used any more. */
void tri_pack_release(const tr_type *type, void *value);

#endif
