/*
 * wait.h - a wait: a request on its way, or anything else a turn waits for.
 *
 * A wait is in the list of its actor (ext->waits) from tri_wait_begin or
 * tri_wait_link until tri_wait_finish or tri_wait_unlink. It lives on the
 * stack of the parked turn, or is allocated for futures and callbacks.
 *
 * Threads: the owner of the cell, except tri_wait_timed_out and the list of
 * worker->asks: the worker that armed the wait.
 */
#ifndef TRI_CORE_ASK_WAIT_H
#define TRI_CORE_ASK_WAIT_H

#include "base/fiber.h"
#include "base/list.h"
#include "base/wheel.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/types.h"

typedef struct tri_wait {
    tri_item item;  // TRI_ITEM_WAKE
    tri_link link;  // in tri_waits.list
    tri_timer timer;
    tri_fiber *fiber;  // reserved for parking, or NULL
    tri_cell *cell;    // the actor that waits
    tr_ctx *ctx;       // the turn that is parked on it, or NULL
    uint64_t correlation;
    tr_msg *reply;  // owned until taken
    tr_err err;
    uint8_t kind;  // tri_wait_kind
    bool done;
    bool orphan;     // the incarnation has ended; freed with its notice
    bool has_edge;   // the actor's edge stands for this wait: deadlock.c
    bool admitted;   // the target's hard limit has counted the request
    uint16_t wheel;  // worker whose wheel holds the timer
    tr_ref target;
    const tr_type *type;
    const char *site;         // file:line of the call, or its name
    const char *call;         // name of the call on which a turn parks
    const tr_type *handling;  // type of the turn's message, while parked
    tr_nanos since;           // when the wait began; 0: when the turn parks
    /*
     * Ends the wait early. Returns false if its wake-up is on its way. NULL:
     * the wait can always end early.
     */
    bool (*cancel)(struct tri_wait *wait);

    /* Parts that belong to one kind of wait. */
    struct {                // TRI_WAIT_REPLY: wait.c
        tri_link link;      // in worker->asks, by deadline
        tr_nanos deadline;  // while in worker->asks
    } ask;
    union {
        struct {            // TRI_WAIT_ROOM: room.c
            tri_link link;  // in ext->room.waiting
            tri_ext *ext;   // of the actor whose mailbox is full
        } room;
        struct {            // TRI_WAIT_FUTURE: future.c
            tr_ctx *owner;  // the turn that made the future
        } future;
        struct {            // TRI_WAIT_THEN and TRI_WAIT_PIPE: then.c
            tr_then_fn fn;  // of TRI_WAIT_THEN; NULL: fn_with(..., user)
            tr_then_with_fn fn_with;
            void *user;
            bool woken;        // the wait has ended; its item is in the mailbox
            bool has_context;  // a tr_context follows the wait in memory
        } then;
    };
    tri_join *join;  // tr_join and tr_started: owned until taken
} tri_wait;

typedef enum tri_wait_kind {
    TRI_WAIT_REPLY = 1,  // on the stack of tr_ask
    TRI_WAIT_FUTURE,     // tr_async: ends with its turn
    TRI_WAIT_THEN,       // tr_ask_then: ends with the incarnation
    TRI_WAIT_PIPE,       // tr_ask_pipe
    TRI_WAIT_SLEEP,
    TRI_WAIT_ROOM,     // a full mailbox
    TRI_WAIT_OUTSIDE,  // descriptor, blocking call, join, store
} tri_wait_kind;

/* Ends a wait whose TRI_ITEM_WAKE has arrived. */
void tri_wait_woken(tr_ctx *ctx, tri_wait *wait);

/*
 * Gives a reply to the wait it is for, or to the bus if it is for another
 * node; else the reply is late and becomes a dead letter. Takes reply.
 */
void tri_reply_arrived(tri_worker *worker, tri_cell *cell, tr_msg *reply);

/*
 * Gives a reply to the wait it is for. Returns false if there is none any
 * more; takes reply on true.
 */
bool tri_wait_give_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);

/*
 * Begins a wait of the running turn, whose kind is set: numbers it, lists it
 * and arms its time-out. Errors: TR_ENOMEM, TR_ELIMIT (no stack to park on).
 */
tr_err tri_wait_begin(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline);

/* Ends what tri_wait_begin began; the wait itself stays the caller's. */
void tri_wait_finish(tr_ctx *ctx, tri_wait *wait);

/* Adds the wait to the list of its actor, which has an extension. */
void tri_wait_link(tri_cell *cell, tri_wait *wait);

/* Takes the wait out of the list of its actor. */
void tri_wait_unlink(tri_wait *wait);

/*
 * Ends a wait whose time is over. Called on the worker that armed it, for a
 * timer of the wheel under the wheel's lock.
 */
void tri_wait_timed_out(tri_worker *worker, tri_wait *wait);

/* Returns when the next ask of worker->asks times out, or TR_FOREVER. */
tr_nanos tri_asks_due(const tri_worker *worker);

/* Times out the asks of worker->asks that are due. */
void tri_asks_fire(tri_worker *worker, tr_nanos now);

/* As tri_wait_is_detached, of the kind of a wait. */
static inline bool tri_wait_kind_is_detached(uint32_t kind)
{
    return kind == TRI_WAIT_THEN || kind == TRI_WAIT_PIPE;
}

/* True if the reply is a turn of its own: no turn is parked on the wait. */
static inline bool tri_wait_is_detached(const tri_wait *wait)
{
    return tri_wait_kind_is_detached(wait->kind);
}

/* Returns the next older wait of the same actor, or NULL. */
static inline tri_wait *tri_wait_older(const tri_ext *ext, const tri_wait *wait)
{
    return tri_list_item(tri_list_next(&ext->waits.list, &wait->link), tri_wait,
                         link);
}

/* Returns the actor's wait with this correlation number, or NULL. */
static inline tri_wait *tri_wait_find(tri_cell *cell, uint64_t correlation)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return NULL;
    }
    TRI_LIST_EACH_ITEM (w, &ext->waits.list, tri_wait, link) {
        if (w->correlation == correlation) {
            return w;
        }
    }
    return NULL;
}

/* Arms the time-out of the wait; TR_FOREVER: none. */
void tri_wait_arm(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline);

#endif
