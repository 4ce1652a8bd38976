/*
 * error_text.c - what is said about the last error, and what to do about it.
 *
 * A turn has its text in its context, and it goes with the turn; a thread that
 * is no actor has one of its own, the last it was given.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/runtime.h"

static _Thread_local char outside_text[1024];
static _Thread_local uint64_t outside_texts;  // how many there were

void tri_error_set(tr_ctx *ctx, const char *format, ...)
{
    char text[sizeof(outside_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (ctx == NULL) {
        memcpy(outside_text, text, sizeof(text));
        outside_texts++;
        return;
    }
    free(ctx->fail_text);
    ctx->fail_text = strdup(text);
    ctx->texts++;
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
    return ctx->texts;
}

void tr_must_fail(const char *site, tr_err err, uint64_t mark)
{
    char text[sizeof(outside_text) + 64];
    bool more = outside_texts != mark;
    snprintf(text, sizeof(text), "%s: %s", tr_errname(err),
             more ? outside_text : tr_strerror(err));
    tr_abort(site, text);
}

/* The kinds of virtual actors that this system hosts, after what is there. */
static const char *name_kinds(tr_system *sys, char *room, size_t size)
{
    static const char none[] = "; nobody hosts its kind: tr_host comes first";
    TRI_CHECK(size > sizeof(none));
    memcpy(room, none, sizeof(none));
    // There are virtual actors, so there is somebody who knows of them.
    tri_virtual_ops_of(sys)->hosted(sys, room + sizeof(none) - 1,
                                    size - sizeof(none) + 1);
    return room;
}

const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size)
{
    bool here = (to.cell >> 48) == sys->tag;
    switch ((int)err) {
    case TR_ENOREPLY:
        return "; its handler must tr_reply, tr_refuse, tr_keep, tr_stash or "
               "tr_forward";
    case TR_EUNHANDLED:
        return "; its present behaviour has no TR_ON for it";
    case TR_ENOENT:
        return here && tri_ref_cell(to) != NULL &&
                       tri_cell_is_virtual(tri_ref_cell(to))
                   ? name_kinds(sys, room, size)
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
