/*
 * sim_mail_audit.c - every message of the ledger must be in a mailbox.
 *
 * An audit walks all cells, marks the entries of the messages that it meets
 * with its number, and then looks for entries without that mark. The last one
 * also collects all requests that are held somewhere, to find calls that wait for
 * a request that is gone.
 */
#include "sim/sim_mail_audit.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "sim/sim.h"
#include "sim/sim_mail_entry.h"
#include "system/tree.h"
#include "troupe/base.h"
#include "troupe/sim.h"
#include "troupe/supervise.h"

typedef struct audit {
    tri_sim_mail *mail;
    tri_map asks;  // requests that an actor holds, by asker and correlation
    bool last;
    bool failed;
} audit;

/* ---- the walk ---- */

static void keep_ask(audit *at, uint64_t asker, tr_msg *msg)
{
    // Fails if it is there already: a reply and its request have one key.
    (void)!tri_map_put(
        &at->asks, tri_sim_mail_key2(asker, tri_msg_ask(msg)->correlation), at);
}

static void mark_list(audit *at, tri_item *item)
{
    for (; item != NULL; item = item->next) {
        tri_sim_entry *it =
            tri_map_get(&at->mail->entries, tri_sim_mail_key(item));
        if (it != NULL) {
            it->audit = at->mail->audit;
        }
        if (at->last && item->kind <= TRI_ITEM_REPLY &&
            (item->flags & TRI_MSG_ASK)) {
            tr_msg *msg = tri_msg_from(item);
            keep_ask(at,
                     item->kind == TRI_ITEM_REPLY ? msg->to_id : msg->sender.id,
                     msg);
        }
    }
}

/* Keeps the requests that parked turns handle. */
static void keep_parked(audit *at, const tri_ext *ext)
{
    for (const tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (c->msg != NULL && (c->msg->item.flags & TRI_MSG_ASK)) {
            keep_ask(at, c->msg->sender.id, c->msg);
        }
    }
}

/* Marks everything in the mailbox of one cell; a tri_visit_fn. */
static bool mark_cell(void *user, tri_cell *cell, uint32_t depth)
{
    audit *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    // Relaxed, here and below: the world is one thread.
    mark_list(at, cell->queue);
    mark_list(at, tri_mail_newest(
                      atomic_load_explicit(&cell->mail, memory_order_relaxed)));
    if (ext == NULL) {
        return true;
    }
    mark_list(at, ext->room.oldest);
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        mark_list(at, ext->urgent.first[p]);
    }
    if (at->last) {
        mark_list(at, (tri_item *)(atomic_load_explicit(&cell->sys_mail,
                                                        memory_order_relaxed) &
                                   ~TRI_SYS_BITS));
        mark_list(at, ext->keep.stash);
        mark_list(at, ext->keep.kept);
        keep_parked(at, ext);
    }
    return true;
}

/* ---- what is wrong ---- */

/* Fails for a message that waits since the faults ended, though it could run. */
static void check_age(tri_sim_mail *mail, const tri_sim_entry *it)
{
    const tri_ext *ext = tri_ext_of(it->cell);

    if (it->at < mail->sim->calm_since &&
        tri_cell_life(it->cell) == TR_STATE_RUNNING &&
        (ext == NULL || ext->parked == NULL)) {
        tri_sim_mail_fail(mail, "liveness",
                          "has been waiting since the faults ended",
                          "a message", it->number,
                          tri_sim_mail_ref(mail, it->cell, it->to_id));
    }
}

/* Returns false for a wait whose request is known to be gone. */
static bool may_be_answered(const audit *at, tri_cell *cell, const tri_wait *w)
{
    tri_cell *target = tri_ref_cell(w->target);

    return w->kind > TRI_WAIT_PIPE || w->done || w->correlation == 0 ||
           w->then.woken || target == NULL || tri_cell_is_virtual(target) ||
           tri_map_get(&at->asks, tri_sim_mail_key2(tri_sim_cell_id(cell),
                                                    w->correlation)) != NULL;
}

/* Fails for a wait of the cell that cannot be answered; a tri_visit_fn. */
static bool check_waits(void *user, tri_cell *cell, uint32_t depth)
{
    audit *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    if (ext == NULL || tri_cell_life(cell) != TR_STATE_RUNNING) {
        return true;
    }
    TRI_LIST_EACH_ITEM (w, &ext->waits.list, tri_wait, link) {
        if (!at->failed && !may_be_answered(at, cell, w)) {
            at->failed = true;
            (void)tr_sim_fail(at->mail->sim,
                              "invariant liveness: a call waits, and nobody "
                              "has its request, %" PRIu64 " (node %" PRIu32
                              ", %s)",
                              w->correlation, at->mail->node,
                              w->site != NULL ? w->site : "tr_ask");
        }
    }
    return !at->failed;
}

void tri_sim_mail_audit(tri_sim_mail *mail, bool last)
{
    audit at = {.mail = mail, .last = last};
    tri_sim_entry *it;

    TRI_CHECK(!mail->sim->stepping);
    if (!last && tri_map_count(&mail->entries) == 0) {
        return;
    }
    mail->audit++;
    tri_map_init(&at.asks, NULL, NULL);
    tri_visit(mail->sys, mark_cell, &at);
    for (tri_map_iter i = tri_map_iter_begin(&mail->entries);
         (it = tri_map_iter_next(&mail->entries, &i)) != NULL;) {
        if (it->audit != mail->audit) {
            tri_sim_entry_missed(mail, it);
        } else if (last) {
            check_age(mail, it);
        }
    }
    if (last && tri_virtual_ops_of(mail->sys) == NULL) {
        tri_visit(mail->sys, check_waits, &at);
    }
    tri_map_fini(&at.asks);
}
