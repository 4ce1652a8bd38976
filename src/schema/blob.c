/*
 * blob.c - the body of a blob: a count, a size and the bytes.
 *
 * Invariant: the bytes are written before the blob is first shared and never
 * after; the body is freed by the drop that takes the count from 1 to 0, and
 * nobody can hold it again then.
 *
 * A body always lives in malloc's memory: its last holder may be any thread,
 * long after the actor or call that made it.
 */
#include "schema/blob.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/check.h"

#define BLOB_MAGIC UINT32_C(0x54524c42)
/* Far from overflow; more holds than messages fit into memory. */
#define BLOB_HOLDS_MAX (UINT32_C(1) << 31)

struct tr_blob_body {
    uint32_t magic;
    _Atomic(uint32_t) holds;
    size_t size;
    unsigned char bytes[];
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

uint32_t tri_blob_holds(tr_blob blob)
{
    if (blob.body == NULL) return 0;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Acquire: pairs with the drop of those who were here before.
    return atomic_load_explicit(&blob.body->holds, memory_order_acquire);
}

void tri_blob_hold(tr_blob blob)
{
    if (blob.body == NULL) return;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Relaxed: who holds again already sees the body through its own hold.
    uint32_t before =
        atomic_fetch_add_explicit(&blob.body->holds, 1, memory_order_relaxed);

    TRI_CHECK(before > 0);
    TRI_CHECK(before < BLOB_HOLDS_MAX);
}

void tri_blob_drop(tr_blob blob)
{
    if (blob.body == NULL) return;
    TRI_CHECK(blob.body->magic == BLOB_MAGIC);
    // Release: reads of the bytes end before the count falls. Acquire: the
    // drop that frees comes after all others' reads. Pairs with itself.
    uint32_t before =
        atomic_fetch_sub_explicit(&blob.body->holds, 1, memory_order_acq_rel);

    TRI_CHECK(before > 0);
    if (before == 1) {
        blob.body->magic = 0;
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
    return (tr_bytes){blob.body->bytes, blob.body->size};
}
