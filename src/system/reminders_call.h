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
           (uint64_t, due), (tr_bytes, bytes));
TR_MESSAGE(Forgotten, (uint64_t, storage), (const char *, key),
           (const char *, name));

/*
 * The service was notified of a change: everything that it has fired until now
 * under that key and name is superseded.
 */
void tri_reminders_take_change(tri_reminders *r, const tr_storage *storage,
                               const char *key, const char *name);

#endif
