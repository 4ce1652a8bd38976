/*
 * layers.h - the system layer's own part of a tr_system.
 *
 * Locks: events_lock, dead_lock, topics_lock, hooks_lock, plans_lock and
 * top_lock are leaves: nothing
 * is sent and no user code runs while one is held.
 */
#ifndef TRI_SYSTEM_LAYERS_H
#define TRI_SYSTEM_LAYERS_H

#include "core/lifecycle.h"
#include "troupe/observe.h"

enum {
    TRI_DEAD_RING = 1024,  // newest dead letters kept
    TRI_DEAD_LOGGED = 10,  // logged per second, the rest is counted
    TRI_STUCK_LOGGED = 3,  // likewise
    TRI_TYPE_NAME = TR_TYPE_NAME_SIZE,
};

typedef struct tri_dead_record {
    tr_ref to, sender;
    char type[TRI_TYPE_NAME];
    uint32_t reason;
    tr_nanos at;
} tri_dead_record;

typedef struct tri_subscription {
    struct tri_subscription *next;
    const tr_type *type;
    tr_ref ref;  // or a callback:
    tr_event_fn fn;
    void *user;
} tri_subscription;

typedef struct tri_member {
    struct tri_member *next;
    tr_ref ref;
} tri_member;

typedef struct tri_topic {
    char *name;
    tri_member *members;
} tri_topic;

typedef struct tri_top_level {
    char *name;
    tr_ref ref;
} tri_top_level;

typedef struct tri_router_plan tri_router_plan;  // router.c

enum { TRI_ALARMS = 64 };

/* The latest alarm about an actor whose mailbox is too deep: up.c. */
typedef struct tri_alarm {
    _Atomic(uint64_t) id;
    _Atomic(tr_nanos) after;  // the next may come then
} tri_alarm;

/* What is called when the system is gone. */
typedef struct tri_at_closed {
    struct tri_at_closed *next;
    void (*fn)(void *arg);
    void *arg;
} tri_at_closed;

typedef struct tri_layers {
    tri_lock dead_lock;
    tri_dead_record dead[TRI_DEAD_RING];
    uint64_t dead_count;
    tr_nanos dead_window;
    uint32_t dead_logged, dead_silent;
    /* Handlers that last: the monitor's alone. */
    tr_nanos stuck_window;
    uint32_t stuck_logged, stuck_silent;

    tri_lock events_lock;
    tri_subscription *subscriptions;
    tr_ref listener;  // the actor that runs callbacks

    tri_lock plans_lock;
    tri_router_plan *plans;  // of living routers
    tri_cell *dead_letters;  // the actor at /deadLetters

    tri_lock topics_lock;
    tri_map topics;
    _Atomic(uint32_t) topic_count;  // of them, for a glance without the lock

    tri_lock top_lock;
    tri_map top_levels;
    bool top_closed;

    tri_lock hooks_lock;
    tri_member *hooks;  // actors that called tr_on_terminate
    _Atomic(uint32_t) hooks_left;
    _Atomic(uint32_t) hook_count;  // length of hooks
    tri_at_closed *closers;        // the newest first; under hooks_lock

    tri_lock stores_lock;
    struct tri_used_store *stores;  // stores.c
    _Atomic(uint32_t) probes;       // open ones

    tri_lock reminders_lock;                  // for making it
    struct tri_reminders *_Atomic reminders;  // reminders.c, or NULL

    _Atomic(uint64_t) unhandled, escalations, overloads, events_lost;
    _Atomic(uint32_t) forced;
    _Atomic(bool) late_named;  // closing has counted them already
    tri_alarm alarms[TRI_ALARMS];
} tri_layers;

static inline tri_layers *tri_layers_of(tr_system *sys)
{
    return sys->layers;
}

extern const tri_up tri_system_up;

/* ---- stores.c ---- */
/* The store cannot be closed before the system. Errors: TR_ENOMEM. */
tr_err tri_store_use(tr_system *sys, tr_storage *storage);
/* The system is left behind; its stores are left open when they are closed. */
void tri_stores_leave(tr_system *sys);
void tri_stores_free(tr_system *sys);

/* ---- deadletter.c ---- */
void tri_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                     uint32_t reason);
void tri_dead_letter_lost(tr_system *sys, tr_ref to, const tr_type *type,
                          uint32_t reason);

/* ---- events.c ---- */
void tri_event(tri_worker *worker, const tr_type *type, const void *payload);
bool tri_event_wanted(tr_system *sys, const tr_type *type);
void tri_events_leave(tri_worker *worker, tri_cell *cell);
void tri_events_free(tr_system *sys);
void tri_unsubscribe_ref(tr_system *sys, tr_ref ref);
/* All that was published has been seen by the callbacks; they are over. */
void tri_events_flush(tr_system *sys, tr_nanos deadline);
tr_err tri_subscribe_ref(tr_system *sys, const tr_type *type, tr_ref ref);
void tri_topics_free(tr_system *sys);

/* ---- observe.c ---- */
void tri_logf(tr_system *sys, int level, const char *site, const char *path,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

uint64_t tri_ended_count(tr_system *sys);

/* ---- router.c ---- */
void tri_router_ended(tr_system *sys, tri_cell *cell);
void tri_routers_free(tr_system *sys);

/* ---- hooks.c ---- */
void tri_hooks_run(tr_system *sys, tr_nanos deadline);
void tri_hooks_free(tr_system *sys);
void tri_hooks_leave(tr_system *sys, tr_ref ref);

/* ---- system.c ---- */
void tri_system_begin_end(tr_system *sys);
void tri_system_free(tr_system *sys);  // threads are gone, actors are gone

/* ---- persist.c ---- */
tr_err tri_state_load(tr_ctx *ctx, void *self);

/* ---- sourcing.c ---- */
/* As tri_state_load, from a snapshot and the events after it. */
tr_err tri_events_load(tr_ctx *ctx, const tr_type *type, void *self);

/* ---- reminders.c ---- */
/*
 * Actors of def may have reminders in the store: their service looks after
 * them from now on. key: of a plain actor that has started, or NULL.
 * Nothing is done for a def without TR_ON_REMINDER.
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_reminders_host(tri_actor_from *who,
                                       const tr_actor_def *def,
                                       tr_storage *storage,
                                       const tr_serializer *serializer,
                                       const char *key);
void tri_reminders_free(tr_system *sys);

/* ---- poll.c ---- */
/* Of a polled system: the calling thread drives it. Errors: as tri_io_need. */
tr_err tri_poll_open(tr_system *sys);
void tri_poll_own(tr_system *sys);

/* ---- path.c ---- */
void tri_layers_init(tr_system *sys);
void tri_top_levels_close(tr_system *sys);  // no more from now on
void tri_top_levels_free(tr_system *sys);
bool tri_topic_is(const void *value, const void *key, size_t size);
/* Calls fn for each living actor, parents first; false from fn ends it. */
typedef bool (*tri_visit_fn)(void *user, tri_cell *cell, uint32_t depth);
void tri_visit(tr_system *sys, tri_visit_fn fn, void *user);

/* ---- abandon.c ---- */
void tri_system_abandon(tr_system *sys);

/* ---- io.c ---- */
void tri_io_close(tr_system *sys);

#endif
