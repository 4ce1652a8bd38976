/*
 * child_end.c - tells a parent of the end of each child (child_terminated).
 *
 * A child whose parent has the hook gets a record when it is spawned. When the
 * child ends it fills in the record and sends it to the parent as system mail;
 * the parent keeps it among its notices (tri_watches.pending) until its hook
 * can run.
 *
 * Invariant: a record has one owner: the child's extension, the lane, the list
 * of the parent. A record stays in the list while its hook runs, and is freed
 * after it, also if the hook panics.
 */
#include "core/life/child_end.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/lifecycle.h"
#include "core/life/supervise.h"
#include "core/life/watch.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/worker.h"
#include "core/system.h"

enum { ID_TEXT = 24 };  // bytes for the name of an actor that has none

struct tri_child_end {
    tri_item item;
    tr_ref parent;
    tr_child_end end;  // its texts point into this record
    bool delivered;    // the hook has been called
    char *text;        // owned; from tri_failure
    char name[];
};

tr_err tri_child_end_prepare(tri_worker *worker, tr_ref parent, tri_cell *child)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(child));
    tri_ext *ext = tri_ext_need(worker, child);
    size_t room = child->name != NULL ? strlen(child->name) + 1 : ID_TEXT;
    tri_child_end *record =
        ext != NULL ? tri_mem_calloc(&worker->sys->mem, sizeof(*record) + room)
                    : NULL;
    if (record == NULL) {
        return TR_ENOMEM;
    }
    record->item.kind = TRI_ITEM_CHILD_ENDED;
    record->parent = parent;
    record->end.child = tri_cell_ref(worker->sys, child);
    if (child->name != NULL) {
        memcpy(record->name, child->name, room);
    } else {
        snprintf(record->name, room, "$%llx",
                 (unsigned long long)record->end.child.id);
    }
    ext->end = record;
    return TR_OK;
}

void tri_child_end_free(tri_child_end *record)
{
    if (record != NULL) {
        free(record->text);
        free(record);
    }
}

void tri_child_end_send(tri_worker *worker, tri_cell *parent, tri_cell *child,
                        tr_reason reason)
{
    tri_ext *ext = tri_ext_of(child);
    TRI_CHECK_SLOW(tri_cell_is_zombie(child) || tri_cell_is_owned(child));
    tri_child_end *record = ext != NULL ? ext->end : NULL;
    if (record == NULL || tri_ref_cell(record->parent) != parent) {
        return;
    }
    ext->end = NULL;
    record->end.reason = reason;
    record->end.name = record->name;
    // The failure of a zombie belongs to its owner.
    if (!tri_cell_is_zombie(child) &&
        (reason == TR_FAILED || ext->failure.phase == TR_IN_STOP)) {
        record->end.err = ext->failure.err;
        record->end.phase = ext->failure.phase;
        record->text = ext->failure.text;
        ext->failure.text = NULL;
        record->end.text = record->text;
    }
    if (!tri_push_system(worker, parent, &record->item)) {
        tri_child_end_free(record);
    }
}

/* True if the hook will run: not for children that the parent itself ends. */
static bool is_awaited(tr_ctx *ctx)
{
    switch (tri_cell_life(ctx->cell)) {
    case TR_STATE_STOPPING:
    case TR_STATE_STOPPED:
    case TR_STATE_TERMINATED:
        return false;
    case TR_STATE_RESTARTING:
        return tri_supervision_of(ctx->sys, ctx->cell)->keep_children;
    default:
        return true;
    }
}

void tri_child_end_arrived(tr_ctx *ctx, tri_child_end *record)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tri_cell_assert_owned(cell);
    // Relaxed: the caller owns the cell. A cell that was used again has
    // another id.
    if (ext == NULL ||
        atomic_load_explicit(&cell->id, memory_order_relaxed) !=
            record->parent.id ||
        !is_awaited(ctx)) {
        tri_child_end_free(record);
        return;
    }
    tri_notice_add(cell, ext, &record->item);
}

/* Frees the first notice, which is a record. */
static void drop_first(tri_cell *cell, tri_ext *ext)
{
    tri_item *item = ext->watch.pending;
    TRI_CHECK(item->kind == TRI_ITEM_CHILD_ENDED);
    ext->watch.pending = item->next;
    if (ext->watch.pending == NULL) {
        cell->attention &= (uint16_t)~TRI_ATTENTION_TERMINATED;
    }
    tri_child_end_free((tri_child_end *)(void *)item);
}

void tri_child_end_turn(tr_ctx *ctx)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    const tr_actor_def *def = tri_def_of(ctx->cell);
    TRI_CHECK(ext != NULL && ext->watch.pending != NULL);
    TRI_CHECK(tri_has_state(ctx->cell));
    tri_child_end *record = (tri_child_end *)(void *)ext->watch.pending;
    if (record->delivered || def->child_terminated == NULL) {
        drop_first(ctx->cell, ext);  // its hook has panicked
        return;
    }
    record->delivered = true;
    tri_hook_begin(ctx, TR_IN_HANDLER);
    tr_err err = def->child_terminated(ctx, ctx->cell->state, &record->end);
    drop_first(ctx->cell, ext);
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

void tri_child_ends_free(tri_cell *cell, tri_ext *ext)
{
    // At the end of an actor all its watches have ended: these are left.
    while (ext->watch.pending != NULL) {
        drop_first(cell, ext);
    }
}
