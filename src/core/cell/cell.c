/*
 * cell.c - making a cell and checking one.
 *
 * Invariant: a new cell is filled before its mailbox is opened. A sender with
 * an old ref may read any atomic field at any moment; it compares the id and
 * then ignores the rest.
 */
#include "core/cell/cell.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/list.h"
#include "base/wheel.h"
#include "core/cell/cache.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"

_Static_assert(sizeof(tri_cell) == 192, "TRI_CLASS_CELL in mem.c");

_Static_assert(offsetof(tri_cell, sys_mail) == 64, "the owner's line");

_Static_assert(offsetof(tri_cell, parent) == 128, "the family's line");

_Static_assert(offsetof(tri_cell, mail) >= sizeof(tri_block),
               "a free cell keeps what senders with old refs read");

static inline __attribute__((always_inline)) void reset(tri_cell *cell)
{
    cell->run_next = NULL;
    cell->timer = (tri_timer){0};
    cell->wheel = 0;
    cell->children_forced = false;
    cell->skips_hooks = false;
    cell->notice_back = false;
    cell->stop_held = false;
    cell->kill_held = false;
    cell->force_held = false;
    cell->stage = 0;
    cell->reason = 0;
    tri_cell_become(cell, NULL);
    cell->state = NULL;
    cell->queue = NULL;
    cell->attention = TRI_ATTENTION_LIFE;
    cell->home = TRI_HOME_NONE;
    tri_link_init(&cell->sibling);
    cell->notice = (tri_item){.kind = TRI_ITEM_FAILURE};
    // Relaxed, all: the new ref is not known yet; a sender with an old ref
    // may read them, and compares the id.
    atomic_store_explicit(&cell->parent, NULL, memory_order_relaxed);
    atomic_store_explicit(&cell->lives, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->handled, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->life, TR_STATE_CREATED, memory_order_relaxed);
    atomic_store_explicit(&cell->history, TR_STATE_CREATED,
                          memory_order_relaxed);
}

void tri_cell_reset(tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    reset(cell);
}

tri_cell *tri_cell_new(tri_cache *cache, uint64_t id)
{
    TRI_CHECK(id != 0);
    tri_cell *cell = tri_cache_alloc(cache, TRI_CLASS_CELL);
    if (cell == NULL) {
        return NULL;
    }
    reset(cell);
    cell->name = NULL;
    cell->props = NULL;
    // Relaxed, all: as in reset.
    atomic_store_explicit(&cell->flags, 0, memory_order_relaxed);
    // A late sender may have made an extension for the actor that has ended.
    // Relaxed: one that appears after this read belongs to the new actor.
    if (atomic_load_explicit(&cell->ext, memory_order_relaxed) != NULL) {
        tri_ext *left =
            atomic_exchange_explicit(&cell->ext, NULL, memory_order_acquire);
        if (left != NULL) {
            tri_cache_free(cache, TRI_CLASS_EXT, left);
        }
    }
    atomic_store_explicit(&cell->signals, id << TRI_SIG_BITS,
                          memory_order_relaxed);
    atomic_store_explicit(&cell->sys_mail, 0, memory_order_relaxed);
    // Release: a reader of the new id sees the end of the former actor.
    atomic_store_explicit(&cell->id, id, memory_order_release);
    // Release: opens the mailbox after everything above.
    atomic_store_explicit(&cell->mail, 0, memory_order_release);
    return cell;
}

uint32_t tri_depth(tri_cell *cell)
{
    // Relaxed, all: an estimate.
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    uint32_t depth = atomic_load_explicit(&cell->queued, memory_order_relaxed) +
                     tri_mail_depth(mail);
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (TRI_UNLIKELY(tri_mail_depth(mail) >= TRI_MAIL_WRAP)) {
        depth += (flags >> TRI_CELL_WRAP_SHIFT) * (uint32_t)TRI_MAIL_WRAP;
    }
    tri_ext *ext = flags & TRI_CELL_DROPS_OLD ? tri_ext_of(cell) : NULL;
    return ext == NULL ? depth
                       : depth + atomic_load_explicit(&ext->room.backlog,
                                                      memory_order_relaxed);
}

/* ---- checking ---- */

enum {
    FLAGS_KNOWN = TRI_CELL_OUTSIDE | TRI_CELL_BOUNDED | TRI_CELL_SYSTEM |
                  TRI_CELL_PINNED | TRI_CELL_VIRTUAL | TRI_CELL_URGENT |
                  TRI_CELL_ZOMBIE | TRI_CELL_DEPTH_CHECKED |
                  0xff << TRI_CELL_POOL_SHIFT | TRI_CELL_AWAITS_CHILDREN |
                  TRI_CELL_NOTIFYING | TRI_CELL_URGENT_PENDING |
                  TRI_CELL_DROPS_OLD | TRI_CELL_HOOKED | TRI_CELL_MAIN |
                  TRI_CELL_RELAYED,
    QUEUE_WALKED = 32,  // a longer queue is not counted
};

/* Relaxed, all that follow: no other thread runs. */
static void check_words(tri_cell *cell)
{
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    uintptr_t owner = mail & (TRI_MAIL_IDLE | TRI_MAIL_PARKED);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    uint64_t signals =
        atomic_load_explicit(&cell->signals, memory_order_relaxed);
    TRI_CHECK((flags & ~(FLAGS_KNOWN | TRI_CELL_WRAPS)) == 0);
    TRI_CHECK(!(flags & TRI_CELL_NOTIFYING) || (flags & TRI_CELL_ZOMBIE));
    TRI_CHECK(!(flags & TRI_CELL_RELAYED) || (flags & TRI_CELL_VIRTUAL));
    TRI_CHECK(!(flags & TRI_CELL_ZOMBIE) || (flags & TRI_CELL_BOUNDED));
    TRI_CHECK(!(flags & TRI_CELL_URGENT_PENDING) || (flags & TRI_CELL_URGENT));
    TRI_CHECK(!(flags & TRI_CELL_PINNED) || cell->home != TRI_HOME_NONE);
    TRI_CHECK(owner != (TRI_MAIL_IDLE | TRI_MAIL_PARKED));
    TRI_CHECK(owner != TRI_MAIL_IDLE || tri_mail_newest(mail) == NULL);
    TRI_CHECK((tri_mail_depth(mail) == 0) == (tri_mail_newest(mail) == NULL));
    TRI_CHECK(id != 0);
    TRI_CHECK(signals >> TRI_SIG_BITS == (id << TRI_SIG_BITS) >> TRI_SIG_BITS);
    TRI_CHECK(cell->notice.kind == TRI_ITEM_FAILURE);
}

static void check_life(tri_cell *cell)
{
    tr_state life = tri_cell_life(cell);
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    TRI_CHECK(life >= TR_STATE_CREATED && life <= TR_STATE_TERMINATED);
    TRI_CHECK((history & ((1u << TRI_STATE_BITS) - 1)) == (uint32_t)life);
    TRI_CHECK((life == TR_STATE_RUNNING) ==
              !(cell->attention & TRI_ATTENTION_LIFE));
    TRI_CHECK(life != TR_STATE_RUNNING || tri_cell_behaviour(cell) != NULL);
}

/* Returns the length of a list of messages, or a little more than the limit. */
static uint32_t walked(const tri_item *item)
{
    uint32_t length = 0;
    for (; item != NULL && length <= QUEUE_WALKED; item = item->next) {
        TRI_CHECK(item->priority < TRI_PRIORITIES);
        length++;
    }
    return length;
}

/* A stop moves mail out of the queue before it counts: not checked then. */
static void check_queue(tri_cell *cell)
{
    uint32_t queued = atomic_load_explicit(&cell->queued, memory_order_relaxed);
    if (queued > QUEUE_WALKED || tri_cell_life(cell) != TR_STATE_RUNNING) {
        return;
    }
    uint32_t length = walked(cell->queue);
    const tri_ext *ext = tri_ext_of(cell);
    for (int p = 1; ext != NULL && p < TRI_PRIORITIES; p++) {
        length += walked(ext->urgent.first[p]);
    }
    TRI_CHECK(length == queued);
}

static void check_attention(const tri_cell *cell, const tri_ext *ext)
{
    uint16_t attention = cell->attention;
    bool has_parked = ext != NULL && ext->parked != NULL;
    bool has_terminated = ext != NULL && ext->watch.pending != NULL;
    TRI_CHECK(((attention & TRI_ATTENTION_PARKED) != 0) == has_parked);
    TRI_CHECK(!has_parked || cell->home != TRI_HOME_NONE);
    TRI_CHECK((attention & TRI_ATTENTION_TERMINATED) || !has_terminated);
    TRI_CHECK(!(attention & TRI_ATTENTION_BOUNDED) || ext != NULL);
    if (attention & TRI_ATTENTION_TIMEOUT) {
        TRI_CHECK(ext != NULL && ext->timers.receive_timeout != NULL);
    }
    for (int p = 0; ext != NULL && p < TRI_PRIORITIES; p++) {
        TRI_CHECK(ext->urgent.first[p] == NULL ||
                  (attention & TRI_ATTENTION_URGENT));
    }
}

void tri_cell_check(const tri_cell *cell)
{
    tri_cell *atomics = (tri_cell *)(uintptr_t)cell;  // loads are not const
    check_words(atomics);
    check_life(atomics);
    check_queue(atomics);
    check_attention(cell, tri_ext_of(atomics));
}
