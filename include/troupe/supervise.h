/*
 * supervise.h - how an actor fails, what its parent does, who is told.
 *
 * A supervision policy belongs to the child that carries it; its parent
 * carries it out. A scope of ALL or REST_FOR_ONE is applied to the siblings
 * of the child that failed. Watching is separate: whoever watches an actor is
 * told once when it has ended, whatever the reason; a restart is no end.
 *
 * Threads: a function taking tr_ctx runs on that actor's turn only. All
 * others may be called from any thread. A decider runs on any worker and sees
 * its parent's state read-only.
 * Ownership: policies are copied by the spawn; a tr_failure is borrowed for
 * the call.
 */
#ifndef TROUPE_SUPERVISE_H
#define TROUPE_SUPERVISE_H

#include <troupe/base.h>
#include <troupe/message.h>

typedef enum tr_reason {  // why an actor ended, in tr_terminated and post_stop
    TR_STOPPED = 1,
    TR_KILLED,
    TR_FAILED,
    TR_FORCED,
    TR_NO_SUCH_ACTOR,
    TR_NODE_DOWN,
    TR_IDLE,
    TR_MOVED,
    TR_RESTARTING,  // post_stop only: another incarnation follows
} tr_reason;

typedef enum tr_state {
    TR_STATE_CREATED = 1,
    TR_STATE_STARTING,
    TR_STATE_RUNNING,
    TR_STATE_STOPPING,
    TR_STATE_STOPPED,
    TR_STATE_FAILED,
    TR_STATE_RESTARTING,
    TR_STATE_TERMINATED,
} tr_state;

typedef enum tr_phase {  // where a failure happened
    TR_IN_HANDLER = 1,
    TR_IN_START,
    TR_IN_RUN,
    TR_IN_STOP,
    TR_IN_RESTART,
} tr_phase;

/* A failure as its supervisor sees it; borrowed for the call. */
typedef struct tr_failure {
    tr_ref child;
    uint64_t incarnation;
    tr_err err;
    tr_phase phase;
    const char *text;     // from tr_fail, tr_panic, TR_ASSERT or the signal
    const char *site;     // "bank.c:42"
    const char *path;     // "/user/alice"
    const char *message;  // printed, or NULL
    const char *state;    // printed, or NULL when the state has no schema
} tr_failure;

typedef enum tr_directive {
    TR_BY_POLICY,  // from a decider: let tr_supervision say
    TR_RESTART,
    TR_STOP,
    TR_RESUME,
    TR_ESCALATE,
} tr_directive;

typedef enum tr_scope {
    TR_ONE_FOR_ONE,
    TR_ALL_FOR_ONE,
    TR_REST_FOR_ONE,
} tr_scope;

/* Whether a child may be restarted. The end after a stop is always final. */
typedef enum tr_restart_type {
    TR_PERMANENT,  // by policy, after each failure
    TR_TRANSIENT,  // the same here: the name OTP has for it
    TR_TEMPORARY,  // never: TR_RESTART is carried out as TR_STOP
} tr_restart_type;

/* How the parent treats this child's failures. Zero fields: the defaults. */
typedef struct tr_supervision {
    size_t size;
    tr_directive on_failure;  // default TR_RESTART
    tr_scope scope;
    uint32_t max_restarts;  // default 3 ...
    tr_nanos within;        // ... in 1 s
    tr_nanos backoff_min;   // default 10 ms
    tr_nanos backoff_max;   // default 1 s
    double backoff_factor;  // default 2.0
    double jitter;          // 0.0 to 1.0
    tr_directive on_limit;  // default TR_ESCALATE, which stops the child too
    bool keep_children;     // over a restart; default: stop them
    bool clear_mailbox;     // over a restart, to dead letters; default: keep
    bool retry_message;     // hand the failed message in again, once
} tr_supervision;

TR_BEGIN_DECLS

/*
 * Gives this actor one tr_terminated when ref has ended; at once, with
 * TR_NO_SUCH_ACTOR, if ref is nobody, dead or foreign. It is handled before
 * queued user messages. Watching twice is watching once.
 */
TR_API void tr_watch(tr_ctx *ctx, tr_ref ref);
/* As tr_watch, but handled after every message that ref had sent us. */
TR_API void tr_watch_in_order(tr_ctx *ctx, tr_ref ref);
/* After it no tr_terminated of ref is handled, not even a queued one. */
TR_API void tr_unwatch(tr_ctx *ctx, tr_ref ref);
/*
 * tr_watch and tr_unwatch on behalf of watcher, an actor or a probe, which
 * does so when it has received the request: before its queued user messages,
 * in the order in which one sender asked. A watcher that has ended is none.
 * Out of memory the watcher fails, or the log says so.
 */
TR_API void tr_watch_for(tr_from from, tr_ref watcher, tr_ref ref);
TR_API void tr_unwatch_for(tr_from from, tr_ref watcher, tr_ref ref);

TR_END_DECLS

#ifndef __cplusplus

/* What the library itself sends is handled with TR_ON like any other. */
TR_MESSAGE(tr_terminated, (tr_ref, actor), (uint32_t, reason));

/* A policy for one call. */
#define TR_SUPERVISE(...) TR_OPTIONS(tr_supervision, __VA_ARGS__)

#define tr_watch_for(from, watcher, ref)                                       \
    __extension__(tr_watch_for)((from), (watcher), (ref))
#define tr_unwatch_for(from, watcher, ref)                                     \
    __extension__(tr_unwatch_for)((from), (watcher), (ref))

#endif /* !__cplusplus */
#endif
