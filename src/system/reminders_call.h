/*
 * reminders_call.h - what is written about reminders, in turns of their owner.
 */
#ifndef TRI_SYSTEM_REMINDERS_CALL_H
#define TRI_SYSTEM_REMINDERS_CALL_H

#include <stdint.h>

#include "system/reminders_book.h"
#include "troupe/base.h"
#include "troupe/macros.h"
#include "troupe/message.h"

/* Sent to the service after the store has confirmed the change. */
TR_MESSAGE(Set, (uint64_t, storage), (const char *, key), (const char *, name),
           (uint64_t, due), (tr_bytes, bytes), (uint32_t, shard));
TR_MESSAGE(Forgotten, (uint64_t, storage), (const char *, key),
           (const char *, name), (uint32_t, shard));

/*
 * The service was notified of a change: everything that it has fired until now
 * under that key and name is superseded.
 */
void tri_reminders_take_change(tri_reminders *r, const tr_storage *storage,
                               const char *key, const char *name);

/*
 * Returns the next time on the grid of the period, or 0 without a period. A
 * time beyond all that can be stored, because the clock was set forward or
 * another program wrote the period, becomes the last that can be: so the
 * reminder does not come again and again.
 */
uint64_t tri_reminders_next(tr_system *sys, uint64_t due, uint64_t period);

#endif
