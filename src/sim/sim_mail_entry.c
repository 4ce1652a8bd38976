/*
 * sim_mail_entry.c - messages that were seen in a mailbox: entered into the
 * ledger, handled in order, lost.
 *
 * Invariant: the message of every entry is in a mailbox, or moves from one to
 * another within the running step.
 *
 * Messages that a handler sends and that are handled in the same batch are
 * never seen between two steps, so they have no entry. Messages to virtual
 * actors that have no activation may leave the node: they may vanish.
 */
#include "sim/sim_mail_entry.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/mail/mailbox.h"
#include "sim/sim.h"
#include "sim/sim_mail.h"
#include "troupe/message.h"
#include "troupe/supervise.h"

/* Kinds of turns (writing, reading, interleaving): only messages to turns of
 * one kind keep their order. */
enum { TURN_KINDS = 3 };

/* A sender and a receiver. */
typedef struct pair {
    uint64_t sent;
    uint64_t handled[TURN_KINDS];  // the highest number
} pair;

/* ---- an entry is removed ---- */

static tri_sim_entry *take(tri_sim_mail *mail, const tr_msg *msg)
{
    return tri_map_remove(&mail->entries, tri_sim_mail_key(msg));
}

void tri_sim_entry_remove(tri_sim_mail *mail, const tr_msg *msg)
{
    free(take(mail, msg));
}

static uint32_t kind_of_turn(uint32_t flags)
{
    return flags & TR_ALWAYS_INTERLEAVE ? 2 : (flags & TR_READ_ONLY) != 0;
}

void tri_sim_entry_handled(tri_sim_mail *mail, const tr_msg *msg,
                           uint32_t flags)
{
    TRI_CHECK(msg != NULL);
    tri_sim_entry *it = take(mail, msg);

    if (it == NULL) {
        return;  // of a timer, stashed before, or not seen between two steps
    }
    pair *p =
        tri_map_get(&mail->pairs, tri_sim_mail_key2(it->from_id, it->to_id));
    uint64_t *highest = p != NULL ? &p->handled[kind_of_turn(flags)] : NULL;
    if (highest != NULL && !it->urgent) {
        if (it->number < *highest) {
            tri_sim_mail_fail(mail, "fifo",
                              "came after a later one of its sender",
                              msg->item.type->name, it->number,
                              tri_sim_mail_ref(mail, it->cell, it->to_id));
        }
        *highest = it->number;
    }
    free(it);
}

void tri_sim_entry_missed(tri_sim_mail *mail, tri_sim_entry *it)
{
    TRI_CHECK(it->msg != NULL);
    // Relaxed: the world is one thread.
    bool is_zombie =
        (atomic_load_explicit(&it->cell->flags, memory_order_relaxed) &
         TRI_CELL_ZOMBIE) != 0;

    if (!it->may_vanish && !is_zombie) {
        tri_sim_mail_fail(mail, "mail",
                          "is lost: neither handled nor a dead letter",
                          "a message", it->number,
                          tri_sim_mail_ref(mail, it->cell, it->to_id));
    }
    tri_map_remove(&mail->entries, tri_sim_mail_key(it->msg));
    free(it);
}

void tri_sim_entries_report_lost(tri_sim_mail *mail)
{
    if (mail->lost.msg != NULL) {
        tri_sim_mail_fail(
            mail, "mail", "was freed, but neither handled nor a dead letter",
            "a message", mail->lost.number,
            tri_sim_mail_ref(mail, mail->lost.cell, mail->lost.to_id));
        mail->lost = (tri_sim_entry){0};
    }
}

/* ---- a message is entered ---- */

static bool may_vanish(tri_cell *cell)
{
    return tri_cell_is_virtual(cell) ||
           (cell->props != NULL && cell->props->drain == TR_DRAIN_DROP);
}

/* Returns the pair, made if it is new; NULL without memory. */
static pair *pair_of(tri_sim_mail *mail, uint64_t from, uint64_t to)
{
    uint64_t key = tri_sim_mail_key2(from, to);
    pair *p = tri_map_get(&mail->pairs, key);

    if (p == NULL) {
        p = calloc(1, sizeof(*p));
        if (p != NULL && tri_map_put(&mail->pairs, key, p) != TR_OK) {
            free(p);
            p = NULL;
        }
    }
    return p;
}

/*
 * Looks at the entry that the message's block had before. Its actor still runs
 * and should have handled it, but the block was freed and used again.
 */
static bool was_lost(const tri_sim_entry *before)
{
    return before != NULL && !before->may_vanish &&
           tri_sim_cell_id(before->cell) == before->to_id &&
           tri_cell_life(before->cell) == TR_STATE_RUNNING;
}

static void enter(tri_sim_mail *mail, tri_cell *cell, tr_msg *msg)
{
    tri_sim_entry *before = take(mail, msg);

    if (was_lost(before)) {
        mail->lost = *before;
    }
    free(before);  // else it was redirected, or its actor has ended
    tri_sim_entry *it = calloc(1, sizeof(*it));
    pair *p = pair_of(mail, msg->sender.id, msg->to_id);
    if (it == NULL || p == NULL ||
        tri_map_put(&mail->entries, tri_sim_mail_key(msg), it) != TR_OK) {
        free(it);
        return;
    }
    *it = (tri_sim_entry){.msg = msg,
                          .cell = cell,
                          .to_id = msg->to_id,
                          .from_id = msg->sender.id,
                          .number = ++p->sent,
                          .at = mail->sim->now,
                          .urgent = msg->item.priority != 0 ||
                                    tri_mail_is_ordered(cell),
                          .may_vanish = may_vanish(cell)};
}

static bool is_tracked(const tri_item *item)
{
    return item->kind == TRI_ITEM_USER && !(item->flags & TRI_MSG_TIMER);
}

static bool is_entered(const tri_sim_mail *mail, const tri_item *item,
                       const tri_cell *cell)
{
    const tri_sim_entry *it =
        tri_map_get(&mail->entries, tri_sim_mail_key(item));
    const tr_msg *msg = (const tr_msg *)(const void *)item;

    return it != NULL && it->cell == cell && it->to_id == msg->to_id &&
           it->from_id == msg->sender.id;
}

/*
 * Enters the new messages, oldest first. The list begins with the newest, so
 * everything older than a message with an entry has an entry, too.
 */
static void enter_new(tri_sim_mail *mail, tri_cell *cell, tri_item *item)
{
    tri_item *all[64];
    uint32_t count = 0;

    for (; item != NULL && (!is_tracked(item) || !is_entered(mail, item, cell));
         item = item->next) {
        if (is_tracked(item)) {
            if (count ==
                TRI_COUNT_OF(all)) {  // no room: enter the older ones first
                enter_new(mail, cell, item);
                break;
            }
            all[count++] = item;
        }
    }
    while (count > 0) {
        enter(mail, cell, (tr_msg *)(void *)all[--count]);
    }
}

void tri_sim_entries_read(tri_sim_mail *mail, tri_cell *cell)
{
    // Relaxed: the world is one thread.
    tri_item *newest = tri_mail_newest(
        atomic_load_explicit(&cell->mail, memory_order_relaxed));

    if (newest != NULL) {
        enter_new(mail, cell, newest);
    }
}
