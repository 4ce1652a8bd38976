/*
 * soft_limit.h - the soft limit of a mailbox: back-pressure on its senders.
 *
 * A turn that sends to a mailbox above its soft limit is parked until the
 * mailbox has fallen to half of it; for other senders an alarm is published
 * (rule 35 (soft limit)).
 *
 * Threads: any thread that may use the worker of the call.
 */
#ifndef TRI_CORE_MAIL_SOFT_LIMIT_H
#define TRI_CORE_MAIL_SOFT_LIMIT_H

#include "core/types.h"

/*
 * A push that makes the mail this deep checks the soft limit. The check reads
 * a cache line that the receiver writes, so the fast path of a send makes it
 * only once in TRI_SOFT_CHECK_EVERY pushes.
 */
#ifdef TRI_TORTURE
#define TRI_SOFT_CHECK_FROM  1
#define TRI_SOFT_CHECK_EVERY 1
#else
#define TRI_SOFT_CHECK_FROM  64
#define TRI_SOFT_CHECK_EVERY 16
#endif

/* True if a fast push that made the mail `depth` deep checks the soft limit. */
static inline bool tri_soft_limit_is_checked(uint32_t depth)
{
    return depth >= TRI_SOFT_CHECK_FROM && depth % TRI_SOFT_CHECK_EVERY == 0;
}

/* Returns the soft limit of the cell's mailbox: its own, or the system's. */
uint32_t tri_soft_limit(tr_system *sys, tri_cell *cell);

/*
 * Parks the turn of ctx, which has sent to the cell, while the cell's mailbox
 * is above its soft limit. Publishes an alarm if the turn cannot wait, and
 * for a hook, which does not.
 */
void tri_soft_limit_slow_down(tr_ctx *ctx, tri_cell *cell, tr_ref to);

/* Publishes an alarm if the cell's mailbox is above its soft limit. */
void tri_soft_limit_alarm(tri_worker *worker, tri_cell *cell);

/*
 * Makes every push check the soft limit of the cell if its queue is long. The
 * owner calls it before it sleeps with parked turns: mail then moves to the
 * queue as it comes, so that a push cannot see how many messages wait.
 */
void tri_soft_limit_check_always(tri_cell *cell);

/* Ends tri_soft_limit_check_always when the last parked turn has gone on. */
void tri_soft_limit_check_seldom(tri_worker *worker, tri_cell *cell);

#endif
