/*
 * supervise.h - failures: how an actor fails, and what its parent does;
 * watching.
 *
 * A supervision policy belongs to the child that it is for; the parent of the
 * child carries it out. The scopes TR_ALL_FOR_ONE and TR_REST_FOR_ONE also
 * restart or stop siblings of the child that failed. Watching is separate: an
 * actor that watches another one is told once when that one has ended, whatever
 * the reason. A restart is not an end.
 *
 * Threads: a function that takes tr_ctx is called only in that actor's turn.
 * All other functions may be called from any thread. A decider runs on any
 * worker and may only read its parent's state.
 * Ownership: a spawn copies the policy. A tr_failure is borrowed for the call.
 */
#ifndef TROUPE_SUPERVISE_H
#define TROUPE_SUPERVISE_H

#include <troupe/base.h>
#include <troupe/message.h>

typedef enum tr_reason {  // why an actor ended, in tr_terminated and post_stop
    TR_STOPPED = 1,       // by tr_stop, tr_poison or its parent
    TR_KILLED,            // by tr_kill
    TR_FAILED,            // by a failure that was not restarted
    TR_FORCED,            // it did not end in time
    TR_NO_SUCH_ACTOR,     // there was none when the watch began
    TR_NODE_DOWN,         // its node was lost
    TR_IDLE,              // a virtual actor was deactivated
    TR_MOVED,             // its activation is on another node now
    TR_RESTARTING,        // in post_stop only: it will start again
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

/* A failure, as the supervisor sees it; borrowed for the call. */
typedef struct tr_failure {
    tr_ref child;
    uint64_t incarnation;
    tr_err err;
    tr_phase phase;
    const char *text;     // from tr_fail, tr_panic or TR_ASSERT
    const char *site;     // "bank.c:42"
    const char *path;     // "/user/alice"
    const char *message;  // printed, or NULL if there was none
    const char *state;    // printed, or NULL without TR_STATE
} tr_failure;

/*
 * How a child has ended, as its parent's hook child_terminated sees it;
 * borrowed for the call.
 */
typedef struct tr_child_end {
    tr_ref child;
    const char *name;  // the last part of its path
    tr_reason reason;
    tr_err err;        // of its failure or of a stop hook, or TR_OK
    tr_phase phase;    // where that was
    const char *text;  // from tr_fail, tr_panic or TR_ASSERT, or NULL
} tr_child_end;

typedef enum tr_directive {
    TR_BY_POLICY,  // from a decider: follow tr_supervision
    TR_RESTART,    // begin again with the first state
    TR_STOP,       // end the child
    TR_RESUME,     // continue with the next message
    TR_ESCALATE,   // fail the parent with the same error; what happens to it
                   // happens to the child. As on_limit it stops the child
} tr_directive;

typedef enum tr_scope {
    TR_ONE_FOR_ONE,   // only the child that failed
    TR_ALL_FOR_ONE,   // the child and all its siblings
    TR_REST_FOR_ONE,  // the child and all younger siblings
} tr_scope;

/*
 * Whether a child may be restarted after a failure. A child that was stopped is
 * never restarted.
 */
typedef enum tr_restart_type {
    TR_PERMANENT,  // as its policy says
    TR_TRANSIENT,  // the same; for readers who know the name from OTP
    TR_TEMPORARY,  // never: TR_RESTART becomes TR_STOP
} tr_restart_type;

/* As max_restarts: a child is restarted however often it fails. */
#define TR_UNLIMITED UINT32_MAX

/*
 * What the parent does about failures of this child. A zero field means the
 * default.
 */
typedef struct tr_supervision {
    size_t size;
    tr_directive on_failure;  // default TR_RESTART
    tr_scope scope;
    uint32_t max_restarts;  // default 3, or TR_UNLIMITED ...
    tr_nanos within;        // ... in 1 s
    tr_nanos backoff_min;   // default 10 ms
    tr_nanos backoff_max;   // default 1 s, or backoff_min if that is longer
    double backoff_factor;  // default 2.0
    double jitter;          // 0.0 to 1.0
    tr_directive on_limit;  // at max_restarts; default TR_STOP
    bool keep_children;     // at a restart; default: they are stopped
    bool clear_mailbox;     // at a restart, to dead letters; default: kept
    bool retry_message;     // handle the failed message again, once
} tr_supervision;

TR_BEGIN_DECLS

/*
 * Watches ref: this actor gets one tr_terminated when ref has ended, and
 * handles it before queued user messages. If ref is nobody, has ended already
 * or is of another system, the message comes at once, with TR_NO_SUCH_ACTOR.
 * Watching twice is the same as watching once.
 */
TR_API void tr_watch(tr_ctx *ctx, tr_ref ref);
/*
 * Watches ref as tr_watch does, but the tr_terminated is handled after every
 * message that ref has sent to this actor.
 */
TR_API void tr_watch_in_order(tr_ctx *ctx, tr_ref ref);
/*
 * Ends a watch: from now on no tr_terminated of ref is handled, not even a
 * queued one.
 */
TR_API void tr_unwatch(tr_ctx *ctx, tr_ref ref);
/*
 * Make watcher, an actor or a probe, watch ref or end that watch. The watcher
 * does so when it receives the request: before its queued user messages, and in
 * the order in which one sender sent the requests. Nothing happens if watcher
 * has ended. If memory runs out, the watcher fails; if not even the request
 * could be made, the log says so.
 */
TR_API void tr_watch_for(tr_from from, tr_ref watcher, tr_ref ref);
TR_API void tr_unwatch_for(tr_from from, tr_ref watcher, tr_ref ref);

TR_END_DECLS

/* The message that tr_watch sends; handled with TR_ON like any other. */
TR_MESSAGE(tr_terminated, (tr_ref, actor), (uint32_t, reason));

#ifndef __cplusplus

/*
 * Makes a policy for one call: .supervision = TR_SUPERVISE(.max_restarts = 5).
 */
#define TR_SUPERVISE(...) TR_OPTIONS(tr_supervision, __VA_ARGS__)

#define tr_watch_for(from, watcher, ref)                                       \
    __extension__(tr_watch_for)((from), (watcher), (ref))
#define tr_unwatch_for(from, watcher, ref)                                     \
    __extension__(tr_unwatch_for)((from), (watcher), (ref))

#endif /* !__cplusplus */
#endif
