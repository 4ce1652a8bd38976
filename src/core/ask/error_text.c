/*
 * error_text.c - keeps the text of the last error, and gives advice on it.
 *
 * The text of a turn is in its context, from malloc; the text of a thread that
 * is no actor is in thread-local memory. Both are counted, so that a caller
 * can tell a new text from an old one (tr_error_mark, tr_turn_mark).
 */
#include "core/ask/error_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ref.h"
#include "core/run/context.h"
#include "core/system.h"

enum { TEXT_MAX = 1024 };

// Together 1 KiB: a library that is loaded late gets little more.
static _Thread_local char outside_text[768];
static _Thread_local char outside_reason[256];
static _Thread_local uint64_t outside_texts;  // texts set so far

void tri_error_set(tr_ctx *ctx, const char *format, ...)
{
    char text[TEXT_MAX];
    TRI_CHECK(ctx == NULL || ctx->magic == TRI_CTX_MAGIC);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (ctx == NULL) {
        snprintf(outside_text, sizeof(outside_text), "%.*s",
                 (int)sizeof(outside_text) - 1, text);
        outside_reason[0] = '\0';
        outside_texts++;
        return;
    }
    tri_error_clear(ctx);
    ctx->fail_text = strdup(text);
    ctx->texts++;
}

void tri_error_clear(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    free(ctx->fail_text);
    free(ctx->fail_reason);
    ctx->fail_text = NULL;
    ctx->fail_reason = NULL;
}

void tri_error_set_reason(tr_ctx *ctx, const char *reason)
{
    TRI_CHECK(reason != NULL);
    if (ctx == NULL) {
        snprintf(outside_reason, sizeof(outside_reason), "%s", reason);
        return;
    }
    free(ctx->fail_reason);
    ctx->fail_reason = strdup(reason);
}

const char *tri_error_outside(void)
{
    return outside_text;
}

uint64_t tr_error_mark(void)
{
    return outside_texts;
}

uint32_t tr_turn_mark(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    return ctx->texts;
}

void tr_must_fail(const char *site, tr_err err, uint64_t mark)
{
    char text[sizeof(outside_text) + 64];
    bool is_new = outside_texts != mark;
    TRI_CHECK(mark <= outside_texts);
    snprintf(text, sizeof(text), "%s: %s", tr_errname(err),
             is_new ? outside_text : tr_strerror(err));
    tr_abort(site, text);
}

/* Writes that no node hosts the kind, and which kinds this one hosts. */
static const char *hosted_kinds(tr_system *sys, char *room, size_t size)
{
    static const char none[] = "; nobody hosts its kind: tr_host comes first";
    TRI_CHECK(size > sizeof(none));
    memcpy(room, none, sizeof(none));
    // The operations are there: the ref is of a virtual actor.
    tri_virtual_ops_of(sys)->hosted(sys, room + sizeof(none) - 1,
                                    size - sizeof(none) + 1);
    return room;
}

const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size)
{
    bool here = tri_ref_is_here(sys, to);
    TRI_CHECK(room != NULL && size >= TRI_ADVICE_MAX);
    switch ((int)err) {
    case TR_ENOREPLY:
        return "; its handler must tr_reply, tr_refuse, tr_keep, tr_stash or "
               "tr_forward";
    case TR_EUNHANDLED:
        return "; its present behaviour has no TR_ON for it";
    case TR_ENOENT:
        return here && tri_ref_cell(to) != NULL &&
                       tri_cell_is_virtual(tri_ref_cell(to))
                   ? hosted_kinds(sys, room, size)
               : to.cell == 0 ? "; tr_ref_err says why the ref is of nobody"
                              : "";
    case TR_EGONE:
        return "; it has ended: tr_watch tells when";
    case TR_EFOREIGN:
        return "; or to one that was closed since";
    default:
        return "";
    }
}

const char *(tr_error_text)(tr_from from)
{
    if (tri_from_is_ctx(from)) {
        return from.ctx->fail_text != NULL ? from.ctx->fail_text : "";
    }
    return outside_text;
}

const char *(tr_error_reason)(tr_from from)
{
    const char *reason =
        tri_from_is_ctx(from) ? from.ctx->fail_reason : outside_reason;
    return reason != NULL && reason[0] != '\0' ? reason : (tr_error_text)(from);
}
