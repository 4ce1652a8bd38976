/*
 * events.h - the event stream: who subscribed to which type.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_EVENTS_H
#define TRI_SYSTEM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "core/types.h"
#include "system/fan_out.h"
#include "troupe/base.h"
#include "troupe/system.h"

typedef struct tri_subscription {
    struct tri_subscription *next;
    const tr_type *type;
    tr_ref ref;      // the subscriber, if fn is NULL
    tr_event_fn fn;  // or a callback, run by the listener
    void *user;
    tri_fan_out fan_out;
} tri_subscription;

/* Part of tri_layers. */
typedef struct tri_events {
    tri_lock lock;                    // a leaf, for the next two
    tri_subscription *subscriptions;  // oldest first
    tr_ref listener;  // the actor at /system/events, or nobody yet
    _Atomic(uint64_t) lost;
    _Atomic(tr_nanos) lost_logged;  // when the log named a subscriber
} tri_events;

/* Publishes an event of the library to its subscribers, if it has any. */
void tri_event(tri_worker *worker, const tr_type *type, const void *payload);
/* True if the type may have subscribers; spares making the event if not. */
bool tri_event_wanted(tr_system *sys, const tr_type *type);
/* Adds a subscription, once per type and ref. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_events_subscribe(tr_system *sys, const tr_type *type,
                                         tr_ref ref);
/* Removes all subscriptions of a ref. */
void tri_events_unsubscribe_all(tr_system *sys, tr_ref ref);
/* Stops the listener after the callbacks of everything published so far. */
void tri_events_flush(tr_system *sys, tr_nanos deadline);
/* Returns true if the listener was ever spawned. */
bool tri_events_has_listener(tr_system *sys);
/*
 * Sends a copy of the payload without waiting. A copy that cannot be made, is
 * refused, or does not fit into the fan-out counts as a lost event.
 */
void tri_event_send(tri_worker *worker, tr_ref sender, tr_ref to,
                    tri_fan_out fan_out, const tr_type *type,
                    const void *payload);
void tri_events_free(tr_system *sys);

#endif
