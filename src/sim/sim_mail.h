/*
 * sim_mail.h - the ledger of a system: checks that no message and no callback
 * is lost, doubled or out of order.
 *
 * Between two steps the mailboxes are read, and each message that is new is
 * entered into the ledger. When it is handled, or becomes a dead letter, its
 * entry is removed. A message with an entry that is in no mailbox is lost.
 *
 * The real world pays nothing for this: only the systems of a run have a
 * ledger, and it hooks itself into their tables (sim_mail_hook.c). The path of
 * a message stays the same.
 *
 *     sim_mail.c            ledgers: made, found, ended
 *     sim_mail_hook.c       hooks handlers, dead letters and stores
 *     sim_mail_entry.c      messages: entered, handled, lost
 *     sim_mail_callback.c   callbacks of tr_ask_then
 *     sim_mail_audit.c      the search for lost messages and stuck calls
 *
 * Threads: the one that runs the world: between two steps, and in handlers.
 */
#ifndef TRI_SIM_SIM_MAIL_H
#define TRI_SIM_SIM_MAIL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/map.h"
#include "core/cell/cell.h"
#include "core/types.h"
#include "core/up.h"
#include "sim/sim_mail_entry.h"
#include "sim/sim_system.h"
#include "troupe/base.h"

typedef struct tri_sim_mail {
    struct tri_sim_mail *next;  // in sim->mail
    tr_sim *sim;
    tr_system *sys;
    uint32_t node;
    const tri_up *up;    // the system's own table
    tri_up hooked;       // the table it uses while there is a ledger
    tri_map entries;     // tri_sim_entry, by the message
    tri_map pairs;       // of sender and receiver: sim_mail_entry.c
    tri_map callbacks;   // sim_mail_callback.c
    uint32_t audit;      // number of the last audit
    tri_sim_entry lost;  // found in a walk that holds locks, reported after it
} tri_sim_mail;

/*
 * Returns the ledger of an attached system, made at the first call. NULL: no
 * memory.
 */
tri_sim_mail *tri_sim_mail_of(tr_sim *sim, const tri_sim_attached *it);
/* Returns the ledger of a system, or NULL if it has none. */
tri_sim_mail *tri_sim_mail_find(tr_system *sys);

/* Enters what is new in the cell's mailbox, and its new callbacks. */
void tri_sim_mail_read(tri_sim_mail *mail, tri_cell *cell);

/*
 * Ends the ledger of a system that has been closed and is freed now. Fails the
 * run if a message has neither been handled nor become a dead letter.
 */
void tri_sim_mail_end(tr_sim *sim, tr_system *sys);
/* Frees all ledgers of the world. */
void tri_sim_mail_free(tr_sim *sim);

/* Fails the run: invariant `what` is broken by item `number` of an actor. */
void tri_sim_mail_fail(tri_sim_mail *mail, const char *what, const char *detail,
                       const char *name, uint64_t number, tr_ref who);
/* Writes a line of the event log, about an actor of the ledger's system. */
void tri_sim_mail_trace(const tri_sim_mail *mail, const char *path,
                        const char *event, const char *type,
                        const char *detail);
/* Returns the ref of the actor that had this id in the cell. */
tr_ref tri_sim_mail_ref(const tri_sim_mail *mail, const tri_cell *cell,
                        uint64_t id);

/* Returns the id of the actor that is in the cell now. */
static inline uint64_t tri_sim_cell_id(tri_cell *cell)
{
    // Relaxed: the world is one thread.
    return atomic_load_explicit(&cell->id, memory_order_relaxed);
}

/* Returns the key of an object in a ledger's map: its address. */
static inline uint64_t tri_sim_mail_key(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

/* Returns one key for two ids. */
uint64_t tri_sim_mail_key2(uint64_t a, uint64_t b);

#endif
