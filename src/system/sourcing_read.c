/*
 * sourcing_read.c - reading the events of any actor of the same store
 * (tr_events_read, tr_event_decode). What is read is in the turn's scratch.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "core/ask/error_text.h"
#include "core/cell/ext.h"
#include "core/run/context.h"
#include "core/system.h"
#include "schema/allocator.h"
#include "schema/codec.h"
#include "schema/stored.h"
#include "storage/store_op.h"
#include "system/scratch.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "troupe/base.h"
#include "troupe/message.h"
#include "troupe/storage.h"
#include "troupe/system.h"

/* Copies the rows of the answer into scratch. */
static tr_err make_page(tr_ctx *ctx, const tri_store_request *request,
                        tr_event_page *out)
{
    TRI_CHECK(out != NULL);
    tri_store_row row;
    size_t count = 0;
    for (size_t at = 0; tri_store_row_next(&request->op, &at, &row);) {
        count++;
    }
    tr_stored_event *events =
        tri_scratch_alloc(ctx, (count + 1) * sizeof(*events));
    char *names = tri_scratch_alloc(ctx, count * (TRI_STORED_NAME_MAX + 1) + 1);
    char *bytes = tri_scratch_alloc(ctx, request->op.out_size + 1);
    if (events == NULL || names == NULL || bytes == NULL) {
        return TR_ENOMEM;
    }
    size_t at = 0;
    for (size_t i = 0; tri_store_row_next(&request->op, &at, &row); i++) {
        tri_codec_error error;
        tri_stored stored;
        if (row.bytes.size > 0) {
            memcpy(bytes, row.bytes.at, row.bytes.size);
        }
        (void)!tri_stored_open(&stored, bytes, row.bytes.size, &error);
        memcpy(names, stored.type, sizeof(stored.type));
        events[i] =
            (tr_stored_event){row.number, names, {bytes, row.bytes.size}};
        names += sizeof(stored.type);
        bytes += row.bytes.size;
    }
    *out =
        (tr_event_page){events, count, request->op.version, request->op.more};
    return TR_OK;
}

/* Makes the request about the events of another key. */
static tr_err name_key(tr_ctx *ctx, tri_store_request *request,
                       const char *kind, const char *key)
{
    const char *ns = ctx->sys->options.ns;
    tr_err err =
        key == NULL
            ? TR_EINVAL
            : tri_store_key(request->key, ns != NULL ? ns : "local", kind, key);
    if (err != TR_OK) {
        tri_error_set(ctx, "%s/%s is not a valid key of a store", kind,
                      key != NULL ? key : "");
        return err;
    }
    request->op.key.size = strlen(request->key);
    return TR_OK;
}

tr_err tr_events_read(tr_ctx *ctx, const char *kind, const char *key,
                      uint64_t first, tr_event_page *out)
{
    TRI_CHECK(out != NULL);
    tri_store_request *request;
    *out = (tr_event_page){.count = 0};
    TR_TRY(tri_store_request_may_ask(ctx, "tr_events_read", TR_HERE));
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_store_request_new(ctx, TR_STORE_READ, 0, &request));
    tr_err err = kind != NULL ? name_key(ctx, request, kind, key) : TR_OK;
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    request->op.number = first > 0 ? first : 1;
    TR_TRY(tri_store_request_ask(ctx, request, TR_HERE));
    err = request->op.err == TR_EIO ? TR_ESTORAGE : request->op.err;
    if (err == TR_OK) {
        err = make_page(ctx, request, out);
    } else {
        tri_error_set(ctx, "reading events of %s: %s", request->key,
                      request->op.text);
    }
    tri_store_request_free(request);
    return err;
}

tr_err(tr_event_decode)(tr_ctx *ctx, const tr_stored_event *event,
                        const tr_type *type, void *out)
{
    TRI_CHECK(event != NULL);
    TRI_CHECK(type != NULL);
    tri_allocator mem = tri_scratch_allocator(ctx);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    tr_err err =
        tri_stored_open(&stored, event->stored.at, event->stored.size, &error);
    if (err == TR_OK) {
        tri_stored_form form = tri_state_form(ctx);
        err = tri_stored_read(&stored, &form, type, out, &mem, &error);
        if (err == TR_OK) {
            err = tri_scratch_hold(ctx, type, out);
        }
    } else if (type->size > 0) {
        memset(out, 0, type->size);
    }
    if (err != TR_OK) {
        tri_error_set(ctx, "event %" PRIu64 ", a %s: %s", event->sequence,
                      event->type, error.text);
    }
    return err;
}
