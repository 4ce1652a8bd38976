/*
 * sourcing.c - states that are made of events: applying and emitting them
 * (docs/design/0009-event-sourcing.md).
 *
 * The store has the events of a key, numbered from 1, and beside them a state:
 * the snapshot, which says up to which event it goes (schema/stored.h).
 *
 * Invariant: the state in memory is TR_INIT or a snapshot plus all events up
 * to ext->sourced.sequence, applied in order.
 *
 * Events are applied to a copy, which becomes the state only when nothing can
 * fail any more: after the append was answered, or after a page of a replay
 * was read completely. Fields of the copy may point into events and scratch;
 * what becomes the state is a deep copy of it (the texts of persist.c).
 */
#include "system/sourcing.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "core/ask/error_text.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/allocator.h"
#include "schema/stored.h"
#include "schema/value.h"
#include "storage/store_op.h"
#include "system/persist.h"
#include "system/sourcing_snapshot.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "troupe/message.h"
#include "troupe/storage.h"

/* ---- applying ---- */

const tr_applier *tri_applier_named(const tr_actor_def *def, const char *name)
{
    TRI_CHECK(name != NULL);
    for (size_t i = 0; i < def->applier_count; i++) {
        if (strcmp(def->appliers[i].type->name, name) == 0) {
            return &def->appliers[i];
        }
    }
    return NULL;
}

/* As tri_applier_named, and the type must have the same fields. */
static const tr_applier *applier_for(const tr_actor_def *def,
                                     const tr_type *type)
{
    const tr_applier *found = tri_applier_named(def, type->name);
    return found != NULL && found->type->schema == type->schema ? found : NULL;
}

tr_err tri_sourcing_copy(const tr_type *type, const void *made, void *out,
                         tri_texts *pieces)
{
    TRI_CHECK(made != out);
    tri_allocator mem = tri_texts_allocator(pieces);
    tr_err err = tri_value_copy(type, out, made, &mem);
    if (err == TR_OK) {
        err = tri_texts_hold(pieces, type, out);
    }
    if (err != TR_OK) {
        tri_texts_free(pieces);
    }
    return err;
}

/* Applies the events to *made. Refuses a type without TR_APPLY. */
static tr_err apply_all(tr_ctx *ctx, void *made, const tr_event *events,
                        size_t count)
{
    TRI_CHECK(events != NULL);
    const tr_actor_def *def = tri_def_of(ctx->cell);
    for (size_t i = 0; i < count; i++) {
        const tr_applier *applier = applier_for(def, events[i].type);
        if (applier == NULL) {
            tri_error_set(ctx, "%s has no TR_APPLY for %s", def->name,
                          events[i].type->name);
            return TR_EINVAL;
        }
        applier->fn(ctx, made, events[i].value);
    }
    return TR_OK;
}

/* ---- emitting ---- */

/* Makes a request that appends the events; its last piece is their list. */
static tr_err append_request(tr_ctx *ctx, const tr_event *events,
                             uint32_t count, tri_store_request **out)
{
    TRI_CHECK(count > 0);
    tri_stored_form form = tri_state_form(ctx);
    tri_codec_error error = {.at = 0};
    tri_mem *mem = &ctx->sys->mem;
    TR_TRY(tri_store_request_new(ctx, TR_STORE_APPEND, count + 1, out));
    tri_store_request *request = *out;
    tri_store_bytes *list = tri_mem_calloc(mem, count * sizeof(*list));
    tr_err err = list != NULL ? TR_OK : TR_ENOMEM;
    request->owned[count] = list;
    for (uint32_t i = 0; i < count && err == TR_OK; i++) {
        err = tri_mem_should_fail(mem)
                  ? TR_ENOMEM
                  : tri_stored_make(&form, events[i].type, events[i].value,
                                    TRI_STORED_EVENT, &request->owned[i],
                                    &list[i].size, &error);
        list[i].at = request->owned[i];
        if (err != TR_OK && err != TR_ENOMEM) {
            tri_error_set(ctx, "a %s of %s cannot be written: %s",
                          events[i].type->name, request->key, error.text);
        }
    }
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    request->op.events = list;
    request->op.event_count = count;
    request->op.number = tri_ext_of(ctx->cell)->sourced.sequence;
    request->op.behind = tri_ext_of(ctx->cell)->sourced.chain;
    return TR_OK;
}

static tr_err refuse(tr_ctx *ctx, tr_err err, const char *site, const char *why)
{
    tri_error_set(ctx, "tr_emit at %s: %s", site, why);
    tri_error_set_reason(ctx, why);
    return err;
}

static tr_err may_emit(tr_ctx *ctx, const void *self, size_t count,
                       const char *site)
{
    TR_TRY(tri_store_request_may_ask(ctx, "tr_emit", site));
    if (tri_def_of(ctx->cell)->applier_count == 0) {
        return refuse(ctx, TR_EINVAL, site, "this actor has no TR_APPLY");
    }
    if (self != ctx->cell->state) {
        return refuse(ctx, TR_EINVAL, site, "self is not the actor's state");
    }
    if (count > TRI_STORE_EVENTS_MAX) {
        return refuse(ctx, TR_ELIMIT, site, "too many events at once");
    }
    if (tri_ext_of(ctx->cell)->sourced.emitting) {
        return refuse(ctx, TR_EWOULDBLOCK, site,
                      "another turn of this actor is emitting");
    }
    return TR_OK;
}

static tr_err append(tr_ctx *ctx, const tr_event *events, size_t count,
                     const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_store_request *request;
    TR_TRY(append_request(ctx, events, (uint32_t)count, &request));
    ext->sourced.emitting = true;
    tr_err err = tri_store_request_ask(ctx, request, site);
    ext->sourced.emitting = false;
    if (err == TR_OK) {
        err = tri_store_request_result(ctx, request, "appending events to");
        if (err == TR_OK) {
            ext->sourced.sequence = request->op.version;
            ext->sourced.chain = request->op.chain;
        }
        tri_store_request_free(request);
    }
    return err;
}

tr_err(tr_emit)(tr_ctx *ctx, void *self, const tr_event *events, size_t count,
                const char *site)
{
    const tr_type *type = tri_state_type(ctx);
    tri_texts pieces = {.ctx = ctx};
    TR_TRY(may_emit(ctx, self, count, site));
    if (count == 0) {
        return TR_OK;
    }
    // Everything that can fail or panic comes first: after the append nothing
    // may.
    void *made = tr_scratch(ctx, type->size);
    void *copy = tr_scratch(ctx, type->size);
    memcpy(made, self, type->size);
    TR_TRY(apply_all(ctx, made, events, count));
    TR_TRY(tri_sourcing_copy(type, made, copy, &pieces));
    tr_err err = append(ctx, events, count, site);
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return err;
    }
    tri_state_take(&pieces, type, self, copy);
    tri_snapshot_if_due(ctx, type, self, site);
    return TR_OK;
}

uint64_t tr_sequence(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    const tri_ext *ext = tri_ext_of(ctx->cell);
    return ext != NULL ? ext->sourced.sequence : 0;
}
