/*
 * waiting.c - publishes what a parked turn waits for, and shows it.
 *
 * The record is in the extension, whose memory stays an extension: a reader
 * compares `seq` before and after, and reads no turn, stack or message. At the
 * end of a wait only `call` is set to NULL, and seq stays: a reader that has read
 * `call` before that shows a wait that has just ended, which is harmless.
 *
 * Invariant: seq is odd while a wait is being written.
 */
#include "core/run/waiting.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/up.h"

/* Returns the oldest parked turn that waits, or NULL. A yield does not wait. */
static const tr_ctx *oldest_waiting(const tri_ext *ext)
{
    const tr_ctx *ctx = ext->parked;
    while (ctx != NULL && ctx->wait == NULL) {
        ctx = ctx->next;
    }
    return ctx;
}

void tri_waiting_publish(tri_ext *ext)
{
    const tr_ctx *ctx = oldest_waiting(ext);
    TRI_CHECK_SLOW(ctx == NULL || ctx->wait->call != NULL);
    if (ctx != NULL) {
        tri_waiting_fill(&ext->waiting, ctx->wait);
    } else {
        tri_waiting_clear(&ext->waiting);
    }
}

bool tri_waiting_read(tri_cell *cell, tri_waiting_view *out)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return false;
    }
    tri_waiting *from = &ext->waiting;
    // Acquire, all: the last load of seq comes after them; pairs with
    // tri_waiting_fill.
    uint32_t seq = atomic_load_explicit(&from->seq, memory_order_acquire);
    *out = (tri_waiting_view){
        .call = atomic_load_explicit(&from->call, memory_order_acquire),
        .handling = atomic_load_explicit(&from->handling, memory_order_acquire),
        .type = atomic_load_explicit(&from->type, memory_order_acquire),
        .target = {atomic_load_explicit(&from->cell, memory_order_acquire),
                   atomic_load_explicit(&from->id, memory_order_acquire)},
        .site = atomic_load_explicit(&from->site, memory_order_acquire),
        .since = atomic_load_explicit(&from->since, memory_order_acquire)};
    if (out->site == out->call) {
        out->site = NULL;  // a tell that waits for room has no file and line
    }
    // A turn that parks or goes on just now does not hang: it is not shown.
    return seq % 2 == 0 && out->call != NULL &&
           atomic_load_explicit(&from->seq, memory_order_relaxed) == seq;
}

void tri_waiting_show(tr_system *sys, tri_cell *cell, bool named, tri_text *out)
{
    tri_waiting_view it;
    char path[TRI_PATH_MAX];
    TRI_CHECK(out != NULL);
    if (!tri_waiting_read(cell, &it)) {
        return;
    }
    tri_text_add(out, ", handling %s, waits in %s",
                 it.handling != NULL ? it.handling->name : "no message",
                 it.call);
    if (it.type != NULL) {
        tri_text_add(out, " with %s", it.type->name);
    }
    if (named && it.target.cell != 0) {
        tri_text_add(out, " for %s",
                     sys->up->ref_path((tr_from){.sys = sys}, it.target, path,
                                       sizeof(path)));
    }
    if (it.site != NULL) {
        tri_text_add(out, " at %s", it.site);
    }
    tr_nanos now = sys->world->ops->mono(sys->world);
    tri_text_add(out, ", %lld ms so far",
                 (long long)(now > it.since ? (now - it.since) / 1000000 : 0));
}

const char *tri_waiting_text(tr_system *sys, tr_err err, tr_ref ref, char *buf)
{
    tri_cell *cell = tri_ref_cell(ref);
    tri_text text;
    tri_text_init(&text, buf, TRI_WAITING_MAX);
    buf[0] = '\0';
    // Relaxed: if the actor ends now, the text is about its last wait.
    if (err == TR_ETIMEDOUT && tri_ref_is_here(sys, ref) &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id) {
        tri_waiting_show(sys, cell, true, &text);
    }
    return buf;
}

const char *tri_site_take(tr_ctx *ctx)
{
    const char *site = ctx->site;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    ctx->site = NULL;
    return site;
}

void *tr_at(tr_from from, const char *site)
{
    if (tri_from_is_ctx(from)) {
        from.ctx->site = site;
    }
    return from.ctx;  // all members are pointers to the caller
}
