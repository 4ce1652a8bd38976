/*
 * virtual.h - the record of a virtual actor on this node.
 *
 * A record begins with the actor's cell, so a ref of the actor points to it.
 * The cell is used by one activation after the other, always with the same
 * id. While an activation lasts, its mailbox is open and a send is the same
 * as to any actor. Between two activations the mailbox is closed, and a send
 * that was refused comes to the catalog (catalog.h).
 *
 * names.c says how long a record belongs to a name.
 */
#ifndef TRI_CLUSTER_VIRTUAL_H
#define TRI_CLUSTER_VIRTUAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/types.h"

struct tri_activation;
struct tri_cluster;
struct tri_kind;
struct tri_parcel;
struct tri_stateless;

/* What a name stands for. */
typedef enum tri_form {
    TRI_FORM_UNKNOWN,    // the kind was not hosted here so far
    TRI_FORM_PLAIN,      // one actor: this record
    TRI_FORM_STATELESS,  // several stateless workers, used in turn
    TRI_FORM_WORKER,     // one of those workers; it shares the name's text
} tri_form;

typedef struct tri_virtual tri_virtual;

struct tri_virtual {
    tri_cell cell;  // first: refs point to it

    /* ---- under the shard's lock ---- */
    struct tri_kind *kind;  // NULL until the kind was found here
    char *text;             // the name; never freed, so a late look is safe
    uint64_t hash;          // of the text
    tri_item
        *pending_last;  // mail for the next activation: a ring, by its last
    struct tri_activation *activation;  // NULL: not active
    union {
        struct tri_stateless *stateless;  // of TRI_FORM_STATELESS
        struct tri_parcel *group;         // of other forms: NULL, or deliver.c
        tri_virtual *spare_next;          // of a record without a name
        tri_virtual *load_next;           // of a record in the load queue
    };
    uint32_t holds : 31;         // senders by name that use the record
    uint32_t in_load_queue : 1;  // waits in tri_load_queue
    uint16_t shard;              // never changes
    uint16_t key_at, size;       // of the text
    uint16_t room;               // bytes at `text`, with the NUL

    _Atomic(uint8_t) state;  // tri_activation_state
    _Atomic(uint8_t) form;   // tri_form
    bool with_bus : 1;       // the bus has mail of it, or was told of some
    bool placed : 1;         // all its mail goes through the bus: relay.c
    bool relayed : 1;        // its mail comes from the owner of its shard
    bool has_left : 1;       // relayed, has ended: the bus takes what is left
    _Atomic(bool) kept;      // its ref was given away: it keeps the name
};

_Static_assert(sizeof(tri_virtual) == 256, "ten million of them: bench/");

static inline tri_virtual *tri_virtual_of(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_virtual(cell));
    return (tri_virtual *)(void *)cell;
}

/* Returns the id of the record's name; it changes under the lock only. */
static inline uint64_t tri_virtual_id(tri_virtual *v)
{
    // Relaxed: with the lock, or of a record whose name is kept, it is fixed.
    return atomic_load_explicit(&v->cell.id, memory_order_relaxed);
}

/* True if its mailbox is open. With the shard's lock. */
static inline bool tri_virtual_is_open(tri_virtual *v)
{
    // Relaxed: a mailbox is opened with the lock, which the caller holds.
    return !(atomic_load_explicit(&v->cell.mail, memory_order_relaxed) &
             TRI_MAIL_CLOSED);
}

/* True if the record has an activation, from its begin to its end. */
bool tri_virtual_is_active(tri_virtual *v);
/* Appends mail for the next activation, or for the bus. */
void tri_virtual_add_pending(tri_virtual *v, tri_item *item);
/* Takes all pending mail, oldest first, as a list that ends with NULL. */
tri_item *tri_virtual_take_pending(tri_virtual *v);
/* Checks the invariants of a record that has a name. With the shard's lock. */
void tri_virtual_check(struct tri_cluster *cluster, tri_virtual *v);

#endif
