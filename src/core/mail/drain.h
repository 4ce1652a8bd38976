/*
 * drain.h - what becomes of mail that its actor will not handle.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_MAIL_DRAIN_H
#define TRI_CORE_MAIL_DRAIN_H

#include "core/types.h"

/* Moves stashed and urgent mail to the queue. */
void tri_queue_gather(tri_cell *cell);

/* Disposes of all mail in the queue with tri_drain_item. */
void tri_drain_queue(tri_worker *worker, tri_cell *cell, uint32_t reason);

/*
 * Disposes of an item of any kind: a message becomes a dead letter with the
 * reason, a timer goes on, a wait or notice is freed. `self` is the actor that
 * the item was for. Takes item.
 */
void tri_drain_item(tri_worker *worker, tr_ref self, tri_item *item,
                    uint32_t reason);

/* Disposes of the queue of an actor that ends, as its drain policy says. */
void tri_drain(tr_ctx *ctx);

/*
 * Does the same for unanswered requests alone, before the actor waits for its
 * children: a child, or an actor that a child waits for, may wait for one of
 * the answers.
 */
void tri_drain_requests(tr_ctx *ctx);

#endif
