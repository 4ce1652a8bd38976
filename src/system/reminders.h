/*
 * reminders.h - messages of an actor to itself that outlive the process: the
 * service that delivers them (docs/design/0010-reminders.md).
 *
 *     reminders.c           the service: its hosts, and reading the stores
 *     reminders_delivery.c  delivering what is due
 *     reminders_book.c      the reminders in memory
 *     reminders_call.c      what is written in turns of the owner: tr_remind,
 *                           tr_forget, and the end of a delivery
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_REMINDERS_H
#define TRI_SYSTEM_REMINDERS_H

#include "core/types.h"
#include "troupe/base.h"
#include "troupe/message.h"

/* Part of tri_layers. */
typedef struct tri_reminders_slot {
    struct tri_reminders *_Atomic reminders;  // NULL before the first host
} tri_reminders_slot;

/*
 * Announces that actors of def may have reminders in the store: the service
 * delivers them from now on. key is that of a plain actor that has started, or
 * NULL. Does nothing for a def without TR_ON_REMINDER.
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_reminders_host(tri_caller *who, const tr_actor_def *def,
                                       tr_storage *storage,
                                       const tr_serializer *serializer,
                                       const char *key);
/*
 * Announces that this node owns the shard now, or not any more, or that another
 * node has changed a reminder of it: the service reads the shard anew, or
 * forgets what it has read. Does nothing in a system without reminders.
 */
void tri_reminders_shard_changed(tr_system *sys, tri_worker *worker,
                                 uint32_t shard);
void tri_reminders_free(tr_system *sys);

#endif
