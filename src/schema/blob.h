/*
 * blob.h - large immutable buffers, shared by a reference count.
 *
 * The body is one allocation: a header and the bytes. tr_blob {NULL} stands for
 * no blob; all functions accept it.
 *
 * Threads: any.
 * Ownership: shares (hold, drop); the last drop frees the body.
 */
#ifndef TRI_SCHEMA_BLOB_H
#define TRI_SCHEMA_BLOB_H

#include <stdint.h>
#include <troupe/message.h>

#include "schema/allocator.h"
#include "troupe/base.h"

/*
 * Makes a blob of size bytes, which the caller fills through *bytes before it
 * shares the blob. The caller owns one hold. On failure *out is {NULL}.
 * Errors: TR_ENOMEM.
 */
tr_err tri_blob_make(tr_blob *out, size_t size, void **bytes,
                     const tri_allocator *mem);

/* Returns the number of holds, for tests; 0 for no blob. */
uint32_t tri_blob_holds(tr_blob blob);
void tri_blob_hold(tr_blob blob);
void tri_blob_drop(tr_blob blob);

#endif
