/*
 * sourcing.c - states that are made of events (docs/design/0009).
 *
 * The store has the events of a key, numbered from 1, and beside them a state:
 * the snapshot, which says up to which event it goes (schema/stored.h). What
 * is in memory is always TR_INIT or a snapshot plus all events up to
 * ext->sequence, applied in order.
 *
 * Applying happens on a copy, which becomes the state only when nothing can
 * fail any more: after the append was answered, or after a page of a replay
 * was read whole. Fields of the copy may point into events and scratch; what
 * becomes the state is a deep copy of it (the texts of persist.c).
 *
 * A snapshot only saves time. One that is lost or cannot be read is replaced
 * by a replay from the first event, if that is still there; one that cannot be
 * written is tried again after as many events.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/pack.h"
#include "schema/stored.h"
#include "schema/value.h"
#include "system/question.h"
#include "troupe/storage.h"

enum { SNAPSHOT_EVERY = 100 };

/* tri_ext.version: the store knows it, we do not. */
#define VERSION_UNKNOWN UINT64_MAX

static const tr_actor_def *def_of(tr_ctx *ctx)
{
    return tri_first_behaviour(ctx->cell)->def;
}

static void warn(tr_ctx *ctx, const char *what, const tri_question *q)
{
    char path[TRI_PATH_MAX];
    tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
    tri_logf(ctx->sys, TR_LOG_WARN, NULL, path, "%s %s: %s", what, q->key,
             q->op.text);
}

/* ---- scratch that a replay gives back page by page ---- */

static void *scratch_alloc(void *user, size_t size)
{
    tr_ctx *ctx = user;
    tri_scratch *block = tri_mem_calloc(&ctx->sys->mem, sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    block->next = ctx->scratch;
    ctx->scratch = block;
    ctx->flags |= TRI_CTX_SCRATCH;
    return block + 1;
}

static tri_allocator scratch_of(tr_ctx *ctx)
{
    return (tri_allocator){.alloc = scratch_alloc, .user = ctx};
}

static void scratch_back_to(tr_ctx *ctx, const tri_scratch *mark)
{
    while (ctx->scratch != mark) {
        tri_scratch *next = ctx->scratch->next;
        tri_scratch_free(ctx->scratch);
        ctx->scratch = next;
    }
}

/*
 * Scratch takes the blobs of a value that was read into it; its other pieces
 * are in scratch that is older, and so goes later.
 */
static tr_err scratch_hold(tr_ctx *ctx, const tr_type *type, void *value)
{
    if (!tri_pack_has_blobs(type)) {
        return TR_OK;
    }
    void *copy = scratch_alloc(ctx, type->size);
    if (copy == NULL) {
        tri_pack_release(type, value);
        return TR_ENOMEM;
    }
    memcpy(copy, value, type->size);
    ctx->scratch->holds = type;
    return TR_OK;
}

/* ---- applying ---- */

static const tr_applier *applier_named(const tr_actor_def *def,
                                       const char *name)
{
    for (size_t i = 0; i < def->applier_count; i++) {
        if (strcmp(def->appliers[i].type->name, name) == 0) {
            return &def->appliers[i];
        }
    }
    return NULL;
}

/* Of the very same type: not one of that name with other fields. */
static const tr_applier *applier_for(const tr_actor_def *def,
                                     const tr_type *type)
{
    const tr_applier *found = applier_named(def, type->name);
    return found != NULL && found->type->schema == type->schema ? found : NULL;
}

/* A deep copy of *made into *out and `pieces`; what fails leaves nothing. */
static tr_err settle(const tr_type *type, const void *made, void *out,
                     tri_texts *pieces)
{
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

/* ---- replay ---- */

typedef struct replay {
    tr_ctx *ctx;
    const tr_type *type;  // of the state
    void *self;
    void *made;     // where events are applied
    void *settled;  // made, with texts of its own
    bool has_snapshot;
    char why[160];  // the snapshot could not be read, or ""
    char key[TRI_STORE_KEY_MAX + 1];
} replay;

static tr_err fail_event(const replay *r, const tri_store_row *row,
                         const char *type, const char *why)
{
    return tr_fail(r->ctx, TR_ESTORAGE,
                   "%s: event %" PRIu64 "%s%s cannot be applied: %s", r->key,
                   row->number, type[0] != '\0' ? ", a " : "", type, why);
}

/* The event is read into scratch: fields of `made` may point into it. */
static tr_err apply_row(replay *r, const tri_store_row *row)
{
    tr_ctx *ctx = r->ctx;
    tri_allocator mem = scratch_of(ctx);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    if (tri_stored_open(&stored, row->bytes.at, row->bytes.size, &error) !=
        TR_OK) {
        return fail_event(r, row, "", error.text);
    }
    const tr_applier *applier = applier_named(def_of(ctx), stored.type);
    if (applier == NULL) {
        return fail_event(r, row, stored.type, "it has no TR_APPLY");
    }
    void *event = scratch_alloc(ctx, applier->type->size);
    if (event == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = tri_stored_read(&stored, tri_state_serializer(ctx),
                                 applier->type, event, &mem, &error);
    if (err == TR_OK) {
        err = scratch_hold(ctx, applier->type, event);
    }
    if (err != TR_OK) {
        return err == TR_ENOMEM ? err
                                : fail_event(r, row, stored.type, error.text);
    }
    applier->fn(ctx, r->made, event);
    tri_ext_of(ctx->cell)->sequence = row->number;
    return TR_OK;
}

/* The next event must be this one; what is before it may only be a snapshot. */
static tr_err check_next(const replay *r, uint64_t number)
{
    uint64_t next = tri_ext_of(r->ctx->cell)->sequence + 1;
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

static tr_err apply_rows(replay *r, const tri_store_op *rows)
{
    tri_texts pieces = {.ctx = r->ctx};
    tri_store_row row;
    memcpy(r->made, r->self, r->type->size);
    for (size_t at = 0; tri_store_row_next(rows, &at, &row);) {
        TR_TRY(check_next(r, row.number));
        TR_TRY(apply_row(r, &row));
    }
    TR_TRY(settle(r->type, r->made, r->settled, &pieces));
    tri_state_take(&pieces, r->type, r->self, r->settled);
    return TR_OK;
}

/* Takes q. Its rows move to scratch first: user code may panic. */
static tr_err apply_page(replay *r, tri_question *q)
{
    const tri_scratch *mark = r->ctx->scratch;
    tri_store_op rows = {.out_size = q->op.out_size};
    rows.out = scratch_alloc(r->ctx, rows.out_size + 1);
    if (rows.out != NULL && rows.out_size > 0) {
        memcpy(rows.out, q->op.out, rows.out_size);
    }
    tri_question_free(q);
    tr_err err = rows.out == NULL ? TR_ENOMEM : apply_rows(r, &rows);
    scratch_back_to(r->ctx, mark);
    return err;
}

/* The events behind ext->sequence, page by page. */
static tr_err replay_events(replay *r)
{
    tri_ext *ext = tri_ext_of(r->ctx->cell);
    for (bool more = true; more;) {
        tri_question *q;
        TR_TRY(tri_question_new(r->ctx, TR_STORE_READ, 0, &q));
        q->op.number = ext->sequence + 1;
        q->op.behind = ext->chain;
        TR_TRY(tri_question_ask(r->ctx, q, "replay"));
        if (q->op.err == TR_OK && q->op.version >= ext->sequence) {
            more = q->op.more;
            ext->chain = q->op.chain;
            TR_TRY(apply_page(r, q));
            continue;
        }
        tr_err err = q->op.err;
        if (err != TR_OK) {
            (void)tr_fail(r->ctx, err, "reading events of %s: %s", q->key,
                          q->op.text);
        } else {
            err = tr_fail(r->ctx, TR_ESTORAGE,
                          "%s: its snapshot is of event %" PRIu64
                          ", the last one stored is %" PRIu64,
                          q->key, ext->sequence, q->op.version);
        }
        tri_question_free(q);
        return err;
    }
    return TR_OK;
}

/* Takes the snapshot, or notes why it is of no use. */
static tr_err take_snapshot(replay *r, const tri_question *q)
{
    tri_texts pieces = {.ctx = r->ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    tr_err err = tri_stored_open(&stored, q->op.out, q->op.out_size, &error);
    if (err == TR_OK) {
        err = tri_stored_read(&stored, tri_state_serializer(r->ctx), r->type,
                              r->made, &mem, &error);
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
    ext->sequence = ext->snapshot = stored.number;
    ext->chain = stored.chain;
    r->has_snapshot = true;
    return TR_OK;
}

static tr_err load_snapshot(replay *r)
{
    tri_ext *ext = tri_ext_of(r->ctx->cell);
    tri_question *q;
    TR_TRY(tri_question_new(r->ctx, TR_STORE_LOAD, 0, &q));
    TR_TRY(tri_question_ask(r->ctx, q, "load"));
    tr_err err = q->op.err;
    if (err != TR_OK) {
        (void)tr_fail(r->ctx, err, "loading %s: %s", q->key, q->op.text);
    } else {
        ext->version = q->op.found ? q->op.version : 0;
        if (q->op.found) {
            err = take_snapshot(r, q);
        }
    }
    tri_question_free(q);
    return err;
}

tr_err tri_events_load(tr_ctx *ctx, const tr_type *type, void *self)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    replay r = {.ctx = ctx,
                .type = type,
                .self = self,
                .made = tr_scratch(ctx, type->size),
                .settled = tr_scratch(ctx, type->size)};
    ext->version = ext->sequence = ext->snapshot = ext->chain = 0;
    ext->emitting = false;
    TR_TRY(tri_question_key(ctx, r.key));
    TR_TRY(load_snapshot(&r));
    TR_TRY(replay_events(&r));
    if (r.why[0] != '\0') {
        char path[TRI_PATH_MAX];
        tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
        tri_logf(ctx->sys, TR_LOG_WARN, NULL, path,
                 "its snapshot %s; replayed all %" PRIu64 " events", r.why,
                 ext->sequence);
    }
    return TR_OK;
}

/* ---- snapshots ---- */

/* After an outcome that nobody knows: which version does the store have? */
static void learn_version(tr_ctx *ctx, const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_question *q;
    if (tri_question_new(ctx, TR_STORE_LOAD, 0, &q) == TR_OK &&
        tri_question_ask(ctx, q, site) == TR_OK) {
        if (q->op.err == TR_OK) {
            ext->version = q->op.found ? q->op.version : 0;
        }
        tri_question_free(q);
    }
}

static void trim(tr_ctx *ctx, const char *site)
{
    tri_question *q;
    if (tri_question_new(ctx, TR_STORE_TRIM, 0, &q) != TR_OK) {
        return;  // after the next snapshot, then
    }
    q->op.number = tri_ext_of(ctx->cell)->sequence;
    if (tri_question_ask(ctx, q, site) == TR_OK) {
        if (q->op.err != TR_OK) {
            warn(ctx, "dropping old events of", q);
        }
        tri_question_free(q);
    }
}

static tr_err snapshot_question(tr_ctx *ctx, const tr_type *type,
                                const void *self, tri_question **out)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    size_t size;
    TR_TRY(tri_question_new(ctx, TR_STORE_SAVE, 1, out));
    tri_question *q = *out;
    tr_err err = tri_mem_should_fail(&ctx->sys->mem)
                     ? TR_ENOMEM
                     : tri_stored_snapshot(tri_state_serializer(ctx), type,
                                           self, ext->sequence, ext->chain,
                                           &q->owned[0], &size);
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    q->op.bytes = (tri_store_bytes){q->owned[0], size};
    q->op.number = ext->version;
    return TR_OK;
}

/* Saves *self if it is time. The events are safe: nothing here is an error. */
static void snapshot(tr_ctx *ctx, const tr_type *type, const void *self,
                     const char *site)
{
    const tr_actor_def *def = def_of(ctx);
    tri_ext *ext = tri_ext_of(ctx->cell);
    uint32_t every =
        def->snapshot_every != 0 ? def->snapshot_every : SNAPSHOT_EVERY;
    tri_question *q;
    if (ext->sequence - ext->snapshot < every || ctx->cancel != TR_OK) {
        return;
    }
    ext->snapshot = ext->sequence;  // whatever comes of it
    if (ext->version == VERSION_UNKNOWN) {
        learn_version(ctx, site);
    }
    if (ext->version == VERSION_UNKNOWN ||
        snapshot_question(ctx, type, self, &q) != TR_OK) {
        return;
    }
    ext->version = VERSION_UNKNOWN;  // until it is answered
    if (tri_question_ask(ctx, q, site) != TR_OK) {
        return;
    }
    bool done = q->op.err == TR_OK;
    if (done) {
        ext->version = q->op.version;
    } else {
        warn(ctx, "storing a snapshot of", q);
    }
    tri_question_free(q);
    if (done && def->trim_events) {
        trim(ctx, site);
    }
}

/* ---- emitting ---- */

/* Applies the events to *made; those that nobody takes are refused. */
static tr_err apply_all(tr_ctx *ctx, void *made, const tr_event *events,
                        size_t count)
{
    const tr_actor_def *def = def_of(ctx);
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

/* The question that appends them; its last piece is the list of the others. */
static tr_err append_question(tr_ctx *ctx, const tr_event *events,
                              uint32_t count, tri_question **out)
{
    const tr_serializer *serializer = tri_state_serializer(ctx);
    tri_mem *mem = &ctx->sys->mem;
    TR_TRY(tri_question_new(ctx, TR_STORE_APPEND, count + 1, out));
    tri_question *q = *out;
    tri_store_bytes *list = tri_mem_calloc(mem, count * sizeof(*list));
    tr_err err = list != NULL ? TR_OK : TR_ENOMEM;
    q->owned[count] = list;
    for (uint32_t i = 0; i < count && err == TR_OK; i++) {
        err = tri_mem_should_fail(mem)
                  ? TR_ENOMEM
                  : tri_stored_make(serializer, events[i].type, events[i].value,
                                    TRI_STORED_EVENT, &q->owned[i],
                                    &list[i].size);
        list[i].at = q->owned[i];
        if (err != TR_OK && err != TR_ENOMEM) {
            tri_error_set(ctx, "a %s of %s cannot be written: %s",
                          events[i].type->name, q->key, tr_strerror(err));
        }
    }
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    q->op.events = list;
    q->op.event_count = count;
    q->op.number = tri_ext_of(ctx->cell)->sequence;
    q->op.behind = tri_ext_of(ctx->cell)->chain;
    return TR_OK;
}

static tr_err refuse(tr_ctx *ctx, tr_err err, const char *site, const char *why)
{
    tri_error_set(ctx, "tr_emit at %s: %s", site, why);
    return err;
}

static tr_err may_emit(tr_ctx *ctx, const void *self, size_t count,
                       const char *site)
{
    TR_TRY(tri_question_may_ask(ctx, "tr_emit", site));
    if (def_of(ctx)->applier_count == 0) {
        return refuse(ctx, TR_EINVAL, site, "this actor has no TR_APPLY");
    }
    if (self != ctx->cell->state) {
        return refuse(ctx, TR_EINVAL, site, "self is not the actor's state");
    }
    if (count > TRI_STORE_EVENTS_MAX) {
        return refuse(ctx, TR_ELIMIT, site, "too many events at once");
    }
    if (tri_ext_of(ctx->cell)->emitting) {
        return refuse(ctx, TR_EWOULDBLOCK, site,
                      "another turn of this actor is emitting");
    }
    return TR_OK;
}

static tr_err append(tr_ctx *ctx, const tr_event *events, size_t count,
                     const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_question *q;
    TR_TRY(append_question(ctx, events, (uint32_t)count, &q));
    ext->emitting = true;
    tr_err err = tri_question_ask(ctx, q, site);
    ext->emitting = false;
    if (err == TR_OK) {
        err = tri_question_result(ctx, q, "appending events to");
        if (err == TR_OK) {
            ext->sequence = q->op.version;
            ext->chain = q->op.chain;
        }
        tri_question_free(q);
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
    // All that can fail, or panic, first: after the append nothing may.
    void *made = tr_scratch(ctx, type->size);
    void *settled = tr_scratch(ctx, type->size);
    memcpy(made, self, type->size);
    TR_TRY(apply_all(ctx, made, events, count));
    TR_TRY(settle(type, made, settled, &pieces));
    tr_err err = append(ctx, events, count, site);
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return err;
    }
    tri_state_take(&pieces, type, self, settled);
    snapshot(ctx, type, self, site);
    return TR_OK;
}

uint64_t tr_sequence(tr_ctx *ctx)
{
    const tri_ext *ext = tri_ext_of(ctx->cell);
    return ext != NULL ? ext->sequence : 0;
}

/* ---- reading them ---- */

/* Copies the answer's rows into scratch. */
static tr_err make_page(tr_ctx *ctx, const tri_question *q, tr_event_page *out)
{
    tri_store_row row;
    size_t count = 0;
    for (size_t at = 0; tri_store_row_next(&q->op, &at, &row);) {
        count++;
    }
    tr_stored_event *events = scratch_alloc(ctx, (count + 1) * sizeof(*events));
    char *names = scratch_alloc(ctx, count * (TRI_STORED_NAME_MAX + 1) + 1);
    char *bytes = scratch_alloc(ctx, q->op.out_size + 1);
    if (events == NULL || names == NULL || bytes == NULL) {
        return TR_ENOMEM;
    }
    size_t at = 0;
    for (size_t i = 0; tri_store_row_next(&q->op, &at, &row); i++) {
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
    *out = (tr_event_page){events, count, q->op.version, q->op.more};
    return TR_OK;
}

tr_err tr_events_read(tr_ctx *ctx, const char *kind, const char *key,
                      uint64_t first, tr_event_page *out)
{
    tri_question *q;
    *out = (tr_event_page){.count = 0};
    TR_TRY(tri_question_may_ask(ctx, "tr_events_read", TR_HERE));
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_question_new(ctx, TR_STORE_READ, 0, &q));
    if (kind != NULL) {
        const char *ns = ctx->sys->options.ns;
        tr_err err =
            key == NULL
                ? TR_EINVAL
                : tri_store_key(q->key, ns != NULL ? ns : "local", kind, key);
        if (err != TR_OK) {
            tri_error_set(ctx, "%s/%s is no key of a store", kind,
                          key != NULL ? key : "");
            tri_question_free(q);
            return err;
        }
        q->op.key.size = strlen(q->key);
    }
    q->op.number = first > 0 ? first : 1;
    TR_TRY(tri_question_ask(ctx, q, TR_HERE));
    tr_err err = q->op.err == TR_EIO ? TR_ESTORAGE : q->op.err;
    if (err == TR_OK) {
        err = make_page(ctx, q, out);
    } else {
        tri_error_set(ctx, "reading events of %s: %s", q->key, q->op.text);
    }
    tri_question_free(q);
    return err;
}

tr_err(tr_event_decode)(tr_ctx *ctx, const tr_stored_event *event,
                        const tr_type *type, void *out)
{
    tri_allocator mem = scratch_of(ctx);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    tr_err err =
        tri_stored_open(&stored, event->stored.at, event->stored.size, &error);
    if (err == TR_OK) {
        err = tri_stored_read(&stored, tri_state_serializer(ctx), type, out,
                              &mem, &error);
        if (err == TR_OK) {
            err = scratch_hold(ctx, type, out);
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
