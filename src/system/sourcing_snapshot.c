/*
 * sourcing_snapshot.c - storing a state beside its events.
 *
 * A snapshot only saves time at the next start: one that is lost or cannot be
 * read is replaced by a replay from the first event, if that is still stored.
 * One that cannot be written is tried again after as many events.
 */
#include "system/sourcing_snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/stored.h"
#include "storage/store_op.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "system/system_log.h"
#include "troupe/observe.h"
#include "troupe/storage.h"

enum { SNAPSHOT_EVERY = 100 };  // events, unless the definition says otherwise

/* ext->stored.version: the outcome of a save is unknown, so the version is. */
#define VERSION_UNKNOWN UINT64_MAX

static void warn(tr_ctx *ctx, const char *what,
                 const tri_store_request *request)
{
    char path[TRI_PATH_MAX];
    tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
    tri_logf(ctx->sys, TR_LOG_WARN, NULL, path, "%s %s: %s", what, request->key,
             request->op.text);
}

/* Asks the store which version it has, after a save with unknown outcome. */
static void learn_version(tr_ctx *ctx, const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_store_request *request;
    if (tri_store_request_new(ctx, TR_STORE_LOAD, 0, &request) == TR_OK &&
        tri_store_request_ask(ctx, request, site) == TR_OK) {
        if (request->op.err == TR_OK) {
            ext->stored.version = request->op.found ? request->op.version : 0;
        }
        tri_store_request_free(request);
    }
}

/* Deletes the events that the snapshot includes. */
static void trim(tr_ctx *ctx, const char *site)
{
    tri_store_request *request;
    if (tri_store_request_new(ctx, TR_STORE_TRIM, 0, &request) != TR_OK) {
        return;  // the next snapshot trims them, too
    }
    request->op.number = tri_ext_of(ctx->cell)->sourced.sequence;
    if (tri_store_request_ask(ctx, request, site) == TR_OK) {
        if (request->op.err != TR_OK) {
            warn(ctx, "dropping old events of", request);
        }
        tri_store_request_free(request);
    }
}

/* Makes a request that saves *self in place of the stored version. */
static tr_err snapshot_request(tr_ctx *ctx, const tr_type *type,
                               const void *self, tri_store_request **out)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    size_t size;
    TR_TRY(tri_store_request_new(ctx, TR_STORE_SAVE, 1, out));
    tri_store_request *request = *out;
    tri_stored_form form = tri_state_form(ctx);
    tri_codec_error error;
    tr_err err =
        tri_mem_should_fail(&ctx->sys->mem)
            ? TR_ENOMEM
            : tri_stored_snapshot(&form, type, self, ext->sourced.sequence,
                                  ext->sourced.chain, &request->owned[0], &size,
                                  &error);
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    request->op.bytes = (tri_store_bytes){request->owned[0], size};
    request->op.number = ext->stored.version;
    return TR_OK;
}

/*
 * Saves *self. Returns true if the store has it. The version is unknown until
 * the store has answered.
 */
static bool save(tr_ctx *ctx, const tr_type *type, const void *self,
                 const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_store_request *request;
    if (ext->stored.version == VERSION_UNKNOWN) {
        learn_version(ctx, site);
    }
    if (ext->stored.version == VERSION_UNKNOWN ||
        snapshot_request(ctx, type, self, &request) != TR_OK) {
        return false;
    }
    ext->stored.version = VERSION_UNKNOWN;
    if (tri_store_request_ask(ctx, request, site) != TR_OK) {
        return false;
    }
    bool saved = request->op.err == TR_OK;
    if (saved) {
        ext->stored.version = request->op.version;
    } else {
        warn(ctx, "storing a snapshot of", request);
    }
    tri_store_request_free(request);
    return saved;
}

void tri_snapshot_if_due(tr_ctx *ctx, const tr_type *type, const void *self,
                         const char *site)
{
    TRI_CHECK(self != NULL);
    const tr_actor_def *def = tri_def_of(ctx->cell);
    tri_ext *ext = tri_ext_of(ctx->cell);
    uint32_t every =
        def->snapshot_every != 0 ? def->snapshot_every : SNAPSHOT_EVERY;
    TRI_CHECK(ext->sourced.sequence >= ext->sourced.snapshot);
    if (ext->sourced.sequence - ext->sourced.snapshot < every ||
        ctx->cancel != TR_OK) {
        return;
    }
    ext->sourced.snapshot =
        ext->sourced.sequence;  // also if it fails: the next one is later
    if (save(ctx, type, self, site) && def->trim_events) {
        trim(ctx, site);
    }
}
