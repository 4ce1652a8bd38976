/*
 * blob.c - the body of a blob: a reference count, a size and the bytes.
 *
 * Invariant: the bytes are written before the blob is first shared and never
 * after that. The drop that takes the count from 1 to 0 frees the body; no
 * other holder exists then that could hold it again.
 *
 * A body is always allocated by malloc, because its last holder may be any
 * thread, long after the actor or call that made it.
 */
#include "schema/blob.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "troupe/message.h"

#define BLOB_MAGIC UINT32_C(0x54524c42)
/* Far from an overflow, and more holds than messages fit into memory. */
#define BLOB_HOLDS_MAX (UINT32_C(1) << 31)

struct tr_blob_body {
    uint32_t magic;
    _Atomic(uint32_t) holds;
    size_t size;
    const void *at;      // `bytes`, or memory that tr_blob_adopt was given
    tr_blob_fn release;  // of that memory, or NULL
    void *user;
    _Alignas(max_align_t) unsigned char bytes[];
};

tr_err tri_blob_make(tr_blob *out, size_t size, void **bytes,
                     const tri_allocator *mem)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(bytes != NULL);
    *out = (tr_blob){NULL};
    *bytes = NULL;
    if (size > SIZE_MAX - sizeof(struct tr_blob_body)) return TR_ENOMEM;

    struct tr_blob_body *body =
        tri_piece_alloc_shared(mem, sizeof(struct tr_blob_body) + size);

    if (body == NULL) return TR_ENOMEM;
    body->magic = BLOB_MAGIC;
    atomic_init(&body->holds, 1);
    body->size = size;
    body->at = body->bytes;
    body->release = NULL;
    body->user = NULL;
    *out = (tr_blob){body};
    *bytes = body->bytes;
    return TR_OK;
}

tr_err tr_blob_new(tr_system *sys, tr_blob *out, const void *data, size_t size)
{
    void *bytes;

    (void)sys;
    TRI_CHECK(data != NULL || size == 0);
    TR_TRY(tri_blob_make(out, size, &bytes, NULL));
    if (size > 0) memcpy(bytes, data, size);
    return TR_OK;
}

tr_err tr_blob_alloc(tr_system *sys, tr_blob *out, size_t size, void **bytes)
{
    (void)sys;
    return tri_blob_make(out, size, bytes, NULL);
}

tr_err tr_blob_adopt(tr_system *sys, tr_blob *out, void *data, size_t size,
                     tr_blob_fn release, void *user)
{
    void *none;

    (void)sys;
    TRI_CHECK(data != NULL || size == 0);
    TR_TRY(tri_blob_make(out, 0, &none, NULL));
    out->body->at = data;
    out->body->size = size;
    out->body->release = release;
    out->body->user = user;
    return TR_OK;
}

uint32_t tri_blob_holds(tr_blob blob)
{
    if (blob.body == NULL) return 0;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Acquire: pairs with the release in tri_blob_drop of earlier holders.
    return atomic_load_explicit(&blob.body->holds, memory_order_acquire);
}

void tri_blob_hold(tr_blob blob)
{
    if (blob.body == NULL) return;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Relaxed: the caller has a hold already, through which it sees the body.
    uint32_t before =
        atomic_fetch_add_explicit(&blob.body->holds, 1, memory_order_relaxed);

    TRI_CHECK(before > 0);
    TRI_CHECK(before < BLOB_HOLDS_MAX);
}

void tri_blob_drop(tr_blob blob)
{
    if (blob.body == NULL) return;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Release: the caller's reads of the bytes come before its decrement.
    // Acquire: the drop that frees comes after the reads of all holders. The
    // two pair with each other.
    uint32_t before =
        atomic_fetch_sub_explicit(&blob.body->holds, 1, memory_order_acq_rel);

    TRI_CHECK(before > 0);
    if (before == 1) {
        blob.body->magic = 0;
        if (blob.body->release != NULL) {
            blob.body->release(blob.body->user,
                               (void *)(uintptr_t)blob.body->at,
                               blob.body->size);
        }
        free(blob.body);
    }
}

tr_blob tr_blob_hold(tr_blob blob)
{
    tri_blob_hold(blob);
    return blob;
}

void tr_blob_drop(tr_blob blob)
{
    tri_blob_drop(blob);
}

tr_bytes tr_blob_bytes(tr_blob blob)
{
    if (blob.body == NULL) return (tr_bytes){NULL, 0};
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    return (tr_bytes){blob.body->at, blob.body->size};
}
