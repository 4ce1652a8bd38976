/*
 * sourcing_replay.c - making a state again at start: the snapshot, then the
 * events that follow it, page by page.
 *
 * A page is applied to a copy, which becomes the state when the whole page was
 * read; scratch of the page is freed then. A snapshot that cannot be read is
 * left out, and the replay begins with the first event.
 */
#include "system/sourcing_replay.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/run/context.h"
#include "core/types.h"
#include "schema/allocator.h"
#include "schema/codec.h"
#include "schema/stored.h"
#include "storage/store_op.h"
#include "system/persist.h"
#include "system/scratch.h"
#include "system/sourcing.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/storage.h"

typedef struct replay {
    tr_ctx *ctx;
    const tr_type *type;  // of the state
    void *self;
    void *made;  // what events are applied to; may point into scratch
    void *copy;  // a deep copy of it, with texts of its own
    bool has_snapshot;
    char why[160];  // why the snapshot was left out, or ""
    char key[TRI_STORE_KEY_MAX + 1];
} replay;

/* ---- events ---- */

static tr_err fail_event(const replay *r, const tri_store_row *row,
                         const char *type, const char *why)
{
    return tr_fail(r->ctx, TR_ESTORAGE,
                   "%s: event %" PRIu64 "%s%s cannot be applied: %s", r->key,
                   row->number, type[0] != '\0' ? ", a " : "", type, why);
}

/* Applies one event. It is read into scratch: `made` may point into it. */
static tr_err apply_row(replay *r, const tri_store_row *row)
{
    tr_ctx *ctx = r->ctx;
    tri_allocator mem = tri_scratch_allocator(ctx);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    if (tri_stored_open(&stored, row->bytes.at, row->bytes.size, &error) !=
        TR_OK) {
        return fail_event(r, row, "", error.text);
    }
    const tr_applier *applier =
        tri_applier_named(tri_def_of(ctx->cell), stored.type);
    if (applier == NULL) {
        return fail_event(r, row, stored.type, "it has no TR_APPLY");
    }
    void *event = tri_scratch_alloc(ctx, applier->type->size);
    if (event == NULL) {
        return TR_ENOMEM;
    }
    tri_stored_form form = tri_state_form(ctx);
    tr_err err =
        tri_stored_read(&stored, &form, applier->type, event, &mem, &error);
    if (err == TR_OK) {
        err = tri_scratch_hold(ctx, applier->type, event);
    }
    if (err != TR_OK) {
        return err == TR_ENOMEM ? err
                                : fail_event(r, row, stored.type, error.text);
    }
    applier->fn(ctx, r->made, event);
    tri_ext_of(ctx->cell)->sourced.sequence = row->number;
    return TR_OK;
}

/* Fails unless the number is that of the next event. */
static tr_err check_next(const replay *r, uint64_t number)
{
    uint64_t next = tri_ext_of(r->ctx->cell)->sourced.sequence + 1;
    if (number == next) {
        return TR_OK;
    }
    return tr_fail(r->ctx, TR_ESTORAGE,
                   "%s: event %" PRIu64 " is missing, the next one stored is "
                   "%" PRIu64 "; the snapshot %s",
                   r->key, next, number,
                   r->why[0] != '\0' ? r->why
                   : r->has_snapshot ? "does not reach it"
                                     : "is missing as well");
}

/* Applies the events of a page and makes the result the state. */
static tr_err apply_rows(replay *r, const tri_store_op *rows)
{
    tri_texts pieces = {.ctx = r->ctx};
    tri_store_row row;
    memcpy(r->made, r->self, r->type->size);
    for (size_t at = 0; tri_store_row_next(rows, &at, &row);) {
        TR_TRY(check_next(r, row.number));
        TR_TRY(apply_row(r, &row));
    }
    TR_TRY(tri_sourcing_copy(r->type, r->made, r->copy, &pieces));
    tri_state_take(&pieces, r->type, r->self, r->copy);
    return TR_OK;
}

/*
 * Applies the page of an answered request, which it takes. The rows move to
 * scratch first, because code of the program runs that may panic.
 */
static tr_err apply_page(replay *r, tri_store_request *request)
{
    TRI_CHECK(request->op.err == TR_OK);
    const tri_scratch *mark = r->ctx->scratch;
    tri_store_op rows = {.out_size = request->op.out_size};
    rows.out = tri_scratch_alloc(r->ctx, rows.out_size + 1);
    if (rows.out != NULL && rows.out_size > 0) {
        memcpy(rows.out, request->op.out, rows.out_size);
    }
    tri_store_request_free(request);
    tr_err err = rows.out == NULL ? TR_ENOMEM : apply_rows(r, &rows);
    tri_scratch_rewind(r->ctx, mark);
    return err;
}

/* Applies all events after ext->sourced.sequence, page by page. */
static tr_err replay_events(replay *r)
{
    tri_ext *ext = tri_ext_of(r->ctx->cell);
    for (bool more = true; more;) {
        tri_store_request *request;
        TR_TRY(tri_store_request_new(r->ctx, TR_STORE_READ, 0, &request));
        request->op.number = ext->sourced.sequence + 1;
        request->op.behind = ext->sourced.chain;
        TR_TRY(tri_store_request_ask(r->ctx, request, "replay"));
        if (request->op.err == TR_OK &&
            request->op.version >= ext->sourced.sequence) {
            more = request->op.more;
            ext->sourced.chain = request->op.chain;
            TR_TRY(apply_page(r, request));
            continue;
        }
        tr_err err = request->op.err;
        if (err != TR_OK) {
            (void)tr_fail(r->ctx, err, "reading events of %s: %s", request->key,
                          request->op.text);
        } else {
            err = tr_fail(r->ctx, TR_ESTORAGE,
                          "%s: its snapshot is of event %" PRIu64
                          ", the last one stored is %" PRIu64,
                          request->key, ext->sourced.sequence,
                          request->op.version);
        }
        tri_store_request_free(request);
        return err;
    }
    return TR_OK;
}

/* ---- the snapshot ---- */

/* Makes the snapshot the state, or notes why it cannot be used. */
static tr_err take_snapshot(replay *r, const tri_store_request *request)
{
    TRI_CHECK(request->op.found);
    tri_texts pieces = {.ctx = r->ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    tr_err err =
        tri_stored_open(&stored, request->op.out, request->op.out_size, &error);
    if (err == TR_OK) {
        tri_stored_form form = tri_state_form(r->ctx);
        err = tri_stored_read(&stored, &form, r->type, r->made, &mem, &error);
    }
    if (err == TR_OK) {
        err = tri_texts_hold(&pieces, r->type, r->made);
    }
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        snprintf(r->why, sizeof(r->why), "cannot be read: %.120s", error.text);
        return err == TR_ENOMEM ? err : TR_OK;
    }
    tri_ext *ext = tri_ext_of(r->ctx->cell);
    tri_state_take(&pieces, r->type, r->self, r->made);
    ext->sourced.sequence = ext->sourced.snapshot = stored.number;
    ext->sourced.chain = stored.chain;
    r->has_snapshot = true;
    return TR_OK;
}

static tr_err load_snapshot(replay *r)
{
    tri_ext *ext = tri_ext_of(r->ctx->cell);
    tri_store_request *request;
    TR_TRY(tri_store_request_new(r->ctx, TR_STORE_LOAD, 0, &request));
    TR_TRY(tri_store_request_ask(r->ctx, request, "load"));
    tr_err err = request->op.err;
    if (err != TR_OK) {
        (void)tr_fail(r->ctx, err, "loading %s: %s", request->key,
                      request->op.text);
    } else {
        ext->stored.version = request->op.found ? request->op.version : 0;
        if (request->op.found) {
            err = take_snapshot(r, request);
        }
    }
    tri_store_request_free(request);
    return err;
}

tr_err tri_events_load(tr_ctx *ctx, const tr_type *type, void *self)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(self != NULL);
    tri_ext *ext = tri_ext_of(ctx->cell);
    replay r = {.ctx = ctx,
                .type = type,
                .self = self,
                .made = tr_scratch(ctx, type->size),
                .copy = tr_scratch(ctx, type->size)};
    ext->stored.version = ext->sourced.sequence = ext->sourced.snapshot =
        ext->sourced.chain = 0;
    ext->sourced.emitting = false;
    TR_TRY(tri_store_request_key(ctx, r.key));
    TR_TRY(load_snapshot(&r));
    TR_TRY(replay_events(&r));
    if (r.why[0] != '\0') {
        char path[TRI_PATH_MAX];
        tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
        tri_logf(ctx->sys, TR_LOG_WARN, NULL, path,
                 "its snapshot %s; replayed all %" PRIu64 " events", r.why,
                 ext->sourced.sequence);
    }
    return TR_OK;
}
