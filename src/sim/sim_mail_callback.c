/*
 * sim_mail_callback.c - callbacks of tr_ask_then: each is called once.
 *
 * The function in a wait is replaced by call_back, which finds the callback in
 * the ledger, removes it, and calls the function that was there.
 */
#include "sim/sim_mail_callback.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/run/context.h"
#include "sim/sim.h"
#include "troupe/base.h"
#include "troupe/message.h"
#include "troupe/supervise.h"

typedef struct callback {
    const tri_wait *wait;
    tri_cell *cell;
    uint64_t id, correlation;
    uint32_t incarnation;  // cell->lives
    tr_then_fn then;       // the program's function, or NULL:
    tr_then_with_fn with;  // the one of tr_ask_then_with
    void *user;
} callback;

static uint32_t incarnation_of(tri_cell *cell)
{
    // Relaxed: the world is one thread.
    return atomic_load_explicit(&cell->lives, memory_order_relaxed);
}

static bool still_waits(const callback *it)
{
    const tri_ext *ext = tri_ext_of(it->cell);

    if (tri_sim_cell_id(it->cell) != it->id || ext == NULL) {
        return false;
    }
    TRI_LIST_EACH_ITEM (w, &ext->waits.list, tri_wait, link) {
        if (w == it->wait && w->correlation == it->correlation) {
            return !w->orphan;
        }
    }
    return false;
}

static void remove_callback(tri_sim_mail *mail, callback *it)
{
    void *removed = tri_map_remove(&mail->callbacks,
                                   tri_sim_mail_key2(it->id, it->correlation));

    TRI_CHECK(removed == it);
    free(it);
}

/* ---- a callback is called ---- */

/*
 * Returns the callback of the cell that is called now, or NULL. Its wait was
 * unlinked just before, so it is the one that waits no more.
 */
static callback *called_now(tri_sim_mail *mail, tri_cell *cell)
{
    callback *it;

    for (tri_map_iter i = tri_map_iter_begin(&mail->callbacks);
         (it = tri_map_iter_next(&mail->callbacks, &i)) != NULL;) {
        if (it->cell == cell && it->id == tri_sim_cell_id(cell) &&
            !still_waits(it)) {
            return it;
        }
    }
    return NULL;
}

static void trace_call(tri_sim_mail *mail, tr_ctx *ctx, tr_err err)
{
    char path[TRI_PATH_MAX];

    if (TRI_LIKELY(mail->sim->trace == NULL)) {
        return;
    }
    tr_ref_path(mail->sys,
                tri_sim_mail_ref(mail, ctx->cell, tri_sim_cell_id(ctx->cell)),
                path, sizeof(path));
    tri_sim_mail_trace(mail, path, "callback", NULL, tr_errname(err));
}

/* Stands in the place of the program's function. */
static tr_err call_back(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    tri_sim_mail *mail = tri_sim_mail_find(ctx->sys);
    TRI_CHECK(mail != NULL);
    callback *it = called_now(mail, ctx->cell);

    if (it == NULL) {
        tri_sim_mail_fail(
            mail, "callback", "was called a second time", "tr_ask_then", 2,
            tri_sim_mail_ref(mail, ctx->cell, tri_sim_cell_id(ctx->cell)));
        return TR_OK;
    }
    callback called = *it;
    remove_callback(mail, it);
    trace_call(mail, ctx, err);
    return called.then != NULL
               ? called.then(ctx, self, reply, err)
               : called.with(ctx, self, reply, err, called.user);
}

/* ---- new callbacks, and those that were never called ---- */

void tri_sim_callbacks_read(tri_sim_mail *mail, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);

    if (ext == NULL) {
        return;
    }
    TRI_LIST_EACH_ITEM (w, &ext->waits.list, tri_wait, link) {
        if (w->kind != TRI_WAIT_THEN || w->then.fn == call_back || w->orphan) {
            continue;
        }
        callback *it = calloc(1, sizeof(*it));
        if (it == NULL) {
            return;
        }
        *it = (callback){.wait = w,
                         .cell = cell,
                         .id = tri_sim_cell_id(cell),
                         .correlation = w->correlation,
                         .incarnation = incarnation_of(cell),
                         .then = w->then.fn,
                         .with = w->then.fn_with,
                         .user = w->then.user};
        if (tri_map_put(&mail->callbacks,
                        tri_sim_mail_key2(it->id, it->correlation),
                        it) != TR_OK) {
            free(it);
            return;
        }
        w->then.fn = call_back;
    }
}

/* Returns true if the incarnation that asked has ended, and so its callbacks. */
static bool asker_has_ended(const callback *it)
{
    return tri_sim_cell_id(it->cell) != it->id ||
           tri_cell_life(it->cell) != TR_STATE_RUNNING ||
           incarnation_of(it->cell) != it->incarnation;
}

void tri_sim_callbacks_check(tri_sim_mail *mail)
{
    callback *it;

    for (tri_map_iter i = tri_map_iter_begin(&mail->callbacks);
         (it = tri_map_iter_next(&mail->callbacks, &i)) != NULL;) {
        if (still_waits(it)) {
            continue;
        }
        if (!asker_has_ended(it)) {
            tri_sim_mail_fail(mail, "callback", "was never called",
                              "tr_ask_then", it->correlation,
                              tri_sim_mail_ref(mail, it->cell, it->id));
        }
        remove_callback(mail, it);
    }
}
