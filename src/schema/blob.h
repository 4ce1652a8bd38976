/*
 * blob.h - large immutable buffers, shared by count instead of copied.
 *
 * The body is one allocation: a header and the bytes. tr_blob {NULL} is no
 * blob; all functions take it.
 *
 * Threads: any. Ownership: shares (hold, drop); the last drop frees.
 */
#ifndef TRI_SCHEMA_BLOB_H
#define TRI_SCHEMA_BLOB_H

#include <string.h>

#include <troupe/message.h>

#include "schema/allocator.h"

/*
 * Makes a blob of size bytes that the caller fills through *bytes before it
 * shares the blob; owns one hold. On failure *out is none.
 * Errors: TR_ENOMEM.
 */
tr_err tri_blob_make(tr_blob *out, size_t size, void **bytes,
                     const tri_allocator *mem);

/* How many holds there are, for tests; 0: no blob. */
uint32_t tri_blob_holds(tr_blob blob);
void tri_blob_hold(tr_blob blob);
void tri_blob_drop(tr_blob blob);

static inline tr_blob tri_load_blob(const void *at)
{
    tr_blob blob;

    memcpy(&blob, at, sizeof(blob));
    return blob;
}

static inline void tri_store_blob(void *at, tr_blob blob)
{
    memcpy(at, &blob, sizeof(blob));
}

#endif
