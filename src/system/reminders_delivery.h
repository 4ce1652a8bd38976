/*
 * reminders_delivery.h - delivering reminders that are due.
 *
 * Threads: turns of the service, except where said.
 */
#ifndef TRI_SYSTEM_REMINDERS_DELIVERY_H
#define TRI_SYSTEM_REMINDERS_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"
#include "system/reminders_book.h"
#include "troupe/base.h"
#include "troupe/macros.h"
#include "troupe/message.h"

/* Sent to the service: a postman is done, or has ended. */
TR_MESSAGE(Fired, (uint64_t, entry), (uint64_t, postman), (uint32_t, err));
/* Sent to the service by its timer: read the stale books. */
TR_MESSAGE(Retry);

#define TRI_REMINDERS_RETRY TR_SECONDS(1)  // the first delay; doubled each time
enum { TRI_REMINDERS_DOUBLINGS = 10 };

/*
 * Sends a message of the library's own. Returns false if it was not sent. Any
 * turn.
 */
bool tri_reminders_send(tr_system *sys, tri_worker *worker, tr_ref to,
                        const tr_type *type, const void *payload);
/* The timer of a reminder has fired: spawns a postman that delivers it. */
void tri_reminders_fire(tr_ctx *ctx, tri_reminders *r, tri_reminder *e);
/* A postman has reported. Ignores those that are not awaited any more. */
void tri_reminders_fired(tr_ctx *ctx, tri_reminders *r, const Fired *m);
/* Reports the postmen that ended without reporting, for want of memory. */
void tri_reminders_check_postmen(tr_ctx *ctx, tri_reminders *r);

#endif
