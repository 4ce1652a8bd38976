/*
 * actor.h - actors: how one is defined, and all the calls of its handlers.
 *
 * TR_ACTOR ties a state struct to handlers, one for each message type. The
 * runtime calls the handlers of an actor one at a time. A handler returns
 * TR_OK, or an error, which is a failure: the actor's supervisor decides what
 * happens. A handler may wait (tr_ask, tr_sleep, ...); only its own actor waits
 * with it.
 *
 * Ended-wait errors. A call that waits in a handler returns early if its own
 * actor is ended: TR_ESTOPPED, TR_EKILLED, TR_ERESTARTED, or TR_ECLOSED if the
 * whole system closes. If too many handlers wait already
 * (tr_system_options.max_parked), it returns TR_ELIMIT at once. These five are
 * called the ended-wait errors below. Two more errors are possible wherever a
 * call waits: TR_ENOMEM, and TR_EWOULDBLOCK where waiting is not possible,
 * above all if a handler passes `sys` instead of its `ctx`.
 *
 * Threads: a function that takes tr_ctx is called only in that actor's turn.
 * All other functions may be called from any thread.
 * Ownership: pointer parameters are borrowed, payloads are copied. What a
 * handler is given lives until the handler returns. What it allocates lives
 * until its actor stops or restarts.
 */
#ifndef TROUPE_ACTOR_H
#define TROUPE_ACTOR_H

#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/message.h>
#include <troupe/supervise.h>

typedef enum tr_overflow {  // what a send to a full mailbox does
    TR_OVERFLOW_FAIL,       // refuses the new message: TR_EFULL
    TR_OVERFLOW_BLOCK,      // makes the sender wait for room
    TR_OVERFLOW_DROP_NEW,   // drops the new message
    TR_OVERFLOW_DROP_OLD,   // drops the oldest message that waits
    TR_OVERFLOW_STOP,       // refuses it and stops the actor
} tr_overflow;

typedef enum tr_drain {     // what becomes of mail left when an actor ends
    TR_DRAIN_DEAD_LETTERS,  // it becomes dead letters
    TR_DRAIN_DROP,          // it is dropped and only counted
    TR_DRAIN_REDIRECT,      // it goes to drain_to: rule 37 (messages left)
} tr_drain;

/* The rest of a handler call, as an interceptor sees it: tr_proceed runs it. */
typedef struct tr_call tr_call;

/*
 * Code that runs around every message handler of an actor: for tracing, access
 * rights, timing. An actor, or the system for all actors, is given a list of
 * interceptors that ends with NULL. The first in the list is the outermost; the
 * system's run outside of the actor's. The list and the interceptors are
 * borrowed for as long as the system is open.
 *
 * around runs as a part of the turn and may do all that a handler may. It calls
 * tr_proceed to run the handler, and returns the result of tr_proceed or
 * another one; an error is a failure of the actor. tr_proceed may free msg, so
 * around reads msg before. If around does not call tr_proceed, the handler does
 * not run; around then answers a request itself (tr_reply, tr_refuse, with
 * msg), or the asker gets TR_ENOREPLY. After a tr_panic the rest of around does
 * not run.
 *
 * Interceptors run around handlers of messages, including messages of timers
 * and replies of tr_ask_pipe. They do not run around hooks, on_run, on_signal
 * and callbacks of tr_ask_then.
 */
typedef struct tr_interceptor {
    const char *name;
    tr_err (*around)(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user);
    void *user;
} tr_interceptor;

/*
 * Returns the priority of a message, 0 (ordinary) to TR_PRIORITY_MAX; a larger
 * number counts as that. It is called on the thread that runs the actor, before
 * the message is handled, reads the message only (tr_msg_type, tr_msg_payload)
 * and must not wait or send.
 */
typedef uint8_t (*tr_priority_fn)(const tr_msg *msg);

typedef struct tr_spawn_options {
    size_t size;
    const char *name;          // unique among siblings; default "$<id>"
    const void *init;          // TR_INIT(actor, ...): copied once, and used
    const tr_type *init_type;  //   again at each restart
    size_t init_size;
    const tr_supervision *supervision;  // TR_SUPERVISE(...); default: system's
    bool inherit_supervision;  // the parent's policy instead of the system's
    tr_restart_type restart;
    const char *dispatcher;  // parallel, pinned, concurrent, blocking, yours
    uint32_t soft_limit;     // above it senders are slowed; default: system's
    uint32_t mailbox_limit;  // most messages; default: no limit
    tr_overflow overflow;
    size_t heap_limit;      // bytes; above it tr_alloc panics; default: none
    tr_nanos stop_timeout;  // default 5 s
    tr_drain drain;
    tr_ref drain_to;
    tr_storage *storage;  // *self is loaded from it; needs a name
    bool watch;           // the caller watches it from the beginning
    bool joinable;        // result and final state are kept until tr_join
    bool auto_stop;       // ends when the last tr_handle is dropped
    const tr_serializer *serializer;  // format of what is stored; default: JSON
    const tr_interceptor *const *interceptors;  // around its handlers
    tr_nanos handler_limit;  // for tr_stuck; default: system's
    /*
     * The order of the mailbox: messages are handled as if each had been sent
     * with tr_tell_urgent and the priority that this function returns, or that
     * of its tr_tell_urgent if it is higher. Default: the order of arrival.
     */
    tr_priority_fn priority;
    bool ends_system;  // the system ends when it ends; with its failure
} tr_spawn_options;

enum { TR_TEXT_SIZE = 128 };

typedef struct tr_result {  // result of tr_join; needs no freeing
    tr_reason reason;
    tr_err err;               // of its failure or of a stop hook, or TR_OK
    tr_phase phase;           // where that was; TR_IN_STOP: a stop hook
    char text[TR_TEXT_SIZE];  // text of the failure, cut, or ""
} tr_result;

/* Flags of a handler; TR_ON_READ and its relatives set them. */
enum {
    TR_READ_ONLY = 1,            // may run while other readers wait
    TR_ALWAYS_INTERLEAVE = 2,    // may run while any handler waits
    TR_SUPPRESS_KEEP_ALIVE = 4,  // does not keep a virtual actor active
    TR_LOCAL_ONLY = 8,           // messages of other nodes are refused
    TR_REMINDER = 16,            // may be the message of a tr_remind
};

typedef tr_err (*tr_handler_fn)(tr_ctx *ctx, void *self, const void *m);

typedef struct tr_handler {
    const tr_type *type;  // NULL: all types not named (TR_ON_ANY)
    tr_handler_fn fn;
    uint32_t flags;
} tr_handler;

/* Changes the state as an event says: TR_APPLY, storage.h. */
typedef void (*tr_apply_fn)(tr_ctx *ctx, void *self, const void *event);

typedef struct tr_applier {
    const tr_type *type;
    tr_apply_fn fn;
} tr_applier;

/*
 * An actor kind, or one behaviour of it. Made by TR_ACTOR.
 *
 * Hooks, in the order of a life; each may be NULL, and an error that one
 * returns is a failure. pre_start runs before the actor is RUNNING, post_start
 * when it is. on_run begins then and may last as long as the actor.
 * pre_restart runs before a restart, post_restart after the post_start of each
 * start but the first. pre_stop runs before the children are stopped, unless
 * the start has failed; post_stop runs when they have ended, once per
 * incarnation, and may wait within the rest of the stop time-out: with the
 * reason TR_FORCED its waits return TR_ESTOPPED at once. on_signal gets a
 * tr_terminated, tr_timeout, tr_ask_failed or tr_termination_hook that no
 * handler takes. decide decides on the failure of a child. child_terminated is
 * called once for each child that has ended, without a watch, after its
 * tr_terminated if it is watched; not for children that this actor's own stop
 * or restart ends.
 */
struct tr_actor_def {
    size_t size;
    const char *name;
    const tr_type *state;  // size 0: a plain struct; not stored or shown
    size_t state_size;
    const tr_handler *handlers;
    size_t handler_count;
    tr_err (*pre_start)(tr_ctx *ctx, void *self);
    tr_err (*post_start)(tr_ctx *ctx, void *self);
    tr_err (*pre_stop)(tr_ctx *ctx, void *self);
    tr_err (*post_stop)(tr_ctx *ctx, void *self, tr_reason reason);
    tr_err (*pre_restart)(tr_ctx *ctx, void *self, const tr_failure *cause);
    tr_err (*post_restart)(tr_ctx *ctx, void *self);
    tr_err (*on_run)(tr_ctx *ctx, void *self);
    tr_err (*on_signal)(tr_ctx *ctx, void *self, const tr_msg *signal);
    tr_directive (*decide)(const void *self, const tr_failure *failure);
    const tr_applier *appliers;  // read from the first behaviour only
    size_t applier_count;
    uint32_t snapshot_every;  // events between two snapshots; 0: 100
    bool trim_events;         // delete events that a snapshot covers
    tr_err (*child_terminated)(tr_ctx *ctx, void *self,
                               const tr_child_end *end);
};

typedef struct tr_timer {
    uint64_t id;
} tr_timer;
typedef struct tr_future {
    uint64_t id;
} tr_future;
typedef struct tr_handle {
    tr_ref ref;
} tr_handle;  // one that was counted, of an auto_stop actor

/*
 * Events of a descriptor that tr_wait_fd waits for and reports. TR_FD_ERROR is
 * always reported.
 */
enum { TR_FD_READ = 1, TR_FD_WRITE = 2, TR_FD_ERROR = 4 };

/* The highest priority of tr_tell_urgent; the lowest is 1. */
enum { TR_PRIORITY_MAX = 7 };

TR_BEGIN_DECLS

/* ---- sending ---- */

/*
 * Sends a copy of *payload. The sender gets no error: a message that is not
 * delivered becomes a dead letter with a reason. If the target's mailbox is
 * above its soft limit, a sending handler is parked until there is room. If the
 * mailbox has a hard limit and TR_OVERFLOW_BLOCK, a handler is parked and an
 * outside thread is blocked.
 */
TR_API void tr_tell(tr_from from, tr_ref to, const tr_type *type,
                    const void *payload);
/*
 * Sends as tr_tell does, but never waits, and returns an error instead of
 * making a dead letter. TR_OK means that the message is in the mailbox. A full
 * mailbox gives TR_EFULL at once, whatever its overflow.
 * Errors: TR_EFULL, TR_EGONE (the actor has ended or is ending), TR_EFOREIGN,
 * TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_try_tell(tr_from from, tr_ref to,
                                       const tr_type *type,
                                       const void *payload);
/*
 * Sends as tr_tell does, but the message is handled before ordinary mail.
 * Higher priorities come first; within one priority messages keep the order of
 * sending. priority is 1 to TR_PRIORITY_MAX (a check).
 */
TR_API void tr_tell_urgent(tr_from from, tr_ref to, uint8_t priority,
                           const tr_type *type, const void *payload);
/*
 * Sends a request and waits for its reply. out may be NULL. In a handler the
 * text in *out lives until the handler returns; outside, the caller owns it
 * (tr_drop). timeout 0 means the system's ask_timeout, 30 s by default; below 0
 * it is over, and nothing is sent. If the target's mailbox is full and has
 * TR_OVERFLOW_BLOCK, the time-out includes the wait for room. On error *out is
 * zero.
 * Errors: the error that the handler refused or failed with; TR_ETIMEDOUT,
 * TR_ENOREPLY, TR_EUNHANDLED, TR_EDEADLOCK, TR_EFULL, TR_EFOREIGN, TR_ESCHEMA
 * (the reply is of another type); TR_EGONE (the actor has ended, or ends before
 * it comes to the request); TR_ENOENT (the ref is nobody, or no node hosts the
 * virtual actor's kind); TR_EUNREACHABLE and TR_EUNKNOWN (the actor's node was
 * lost before, or perhaps after, it got the request); or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_ask(tr_from from, tr_ref to, void *out,
                                  tr_nanos timeout, const tr_type *type,
                                  const void *payload, const char *site);
/*
 * Do tr_ask in two steps, so that several requests can be in flight: tr_async
 * sends the request, tr_await waits for the reply. A future belongs to the
 * turn: one that is not awaited when the turn ends is cancelled.
 * Errors: those of tr_ask; TR_EINVAL (awaited twice, or not a future of this
 * turn and type).
 */
TR_API tr_future tr_async(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                          const tr_type *type, const void *payload);
TR_API TR_NODISCARD tr_err tr_await(tr_ctx *ctx, tr_future future,
                                    const tr_type *type, void *out,
                                    const char *site);
/*
 * Waits until one of the futures is done and sets *index to it. That future
 * must still be awaited; tr_await then returns without waiting.
 * Errors: TR_EINVAL (count is 0, or futures[*index] is not a future of this
 * turn), TR_EDEADLOCK, TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_await_any(tr_ctx *ctx, const tr_future *futures,
                                        size_t count, size_t *index);
/*
 * Waits until all of the futures are done. Each must still be awaited; tr_await
 * then returns without waiting.
 * Errors: TR_EINVAL (one is not a future of this turn), TR_EDEADLOCK (one of
 * them would close a cycle), TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_await_all(tr_ctx *ctx, const tr_future *futures,
                                        size_t count);
/*
 * Sends a request without waiting. Later, in a turn of its own, the actor gets
 * then(ctx, self, reply, err), exactly once; reply is NULL if err is an error.
 */
typedef tr_err (*tr_then_fn)(tr_ctx *ctx, void *self, const void *reply,
                             tr_err err);
TR_API void tr_ask_then(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                        tr_then_fn then, const tr_type *type,
                        const void *payload);
/*
 * Does the same as tr_ask_then, and passes user on to the callback. What user
 * points to must live until then: from tr_alloc, for example. If the actor
 * stops or restarts before, the callback does not run.
 */
typedef tr_err (*tr_then_with_fn)(tr_ctx *ctx, void *self, const void *reply,
                                  tr_err err, void *user);
TR_API void tr_ask_then_with(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                             tr_then_with_fn then, void *user,
                             const tr_type *type, const void *payload);
/*
 * Sends a request without waiting. Later the actor gets the reply as an
 * ordinary message, TR_ON(ReplyType, ...), or an error as a tr_ask_failed.
 * Exactly one of the two comes, unless the actor stops or restarts before.
 */
TR_API void tr_ask_pipe(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                        const tr_type *type, const void *payload);

/* ---- around and along a call ---- */

/*
 * Runs the next interceptor, or the handler if there is none, and returns its
 * result. Called at most once; a second call runs nothing.
 * Errors: what the handler returned; TR_EINVAL (called a second time).
 */
TR_API TR_NODISCARD tr_err tr_proceed(tr_call *call);
/*
 * Returns the context of this turn: that of its message, or the one that
 * tr_context_set has set since; NULL if there is none. Borrowed until the turn
 * ends or sets another context.
 */
TR_API const tr_context *tr_context_of(tr_ctx *ctx);
/*
 * Sets the context of this turn. Until the turn ends, every tell and ask
 * carries a copy of it, and so do the turns that these cause on this node;
 * NULL: they carry none. tr_forward keeps the context that its message came
 * with. Replies and timers carry none. A callback of tr_ask_then runs with the
 * context of its ask. No ask waits longer than context->deadline; after it an ask
 * is not sent and gets TR_ETIMEDOUT.
 */
TR_API void tr_context_set(tr_ctx *ctx, const tr_context *context);

/*
 * ---- answering ----
 *
 * m is the handler's message or a kept one. NULL, or a copy of a message, is a
 * mistake: the actor panics with a text that names the call.
 */

/*
 * Answers a request. Does nothing if m was sent by tr_tell.
 * Errors: TR_EEXIST (answered already; nothing is sent), TR_ENOMEM.
 */
TR_API tr_err tr_reply(tr_ctx *ctx, const void *m, const void *payload);
/*
 * Answers a request with an error that is the asker's fault. The actor does not
 * fail and its supervisor is not told. Returns TR_OK, so that a handler can end
 * with `return tr_refuse(...)`. err TR_OK becomes TR_EFAILED.
 */
TR_API tr_err tr_refuse(tr_ctx *ctx, const void *m, tr_err err,
                        const char *format, ...) TR_PRINTF(4, 5);
/*
 * Do the work of TR_OR_REFUSE. tr_turn_mark returns how many error texts the
 * turn has got so far. tr_refuse_with refuses m with err and a text that has
 * the expression, and tr_error_text if that is newer than the mark.
 */
TR_API uint32_t tr_turn_mark(tr_ctx *ctx);
TR_API tr_err tr_refuse_with(tr_ctx *ctx, const void *m, tr_err err,
                             uint32_t mark, const char *expression);
/*
 * Keeps m after this handler has returned, to answer it or read it later, until
 * tr_release or the end of the incarnation. If the request is still unanswered
 * then, its asker gets TR_ESTOPPED or TR_ERESTARTED. Returns m.
 */
TR_API const void *tr_keep(tr_ctx *ctx, const void *m);
TR_API void tr_release(tr_ctx *ctx, const void *m);
/*
 * Passes m on to another actor, unchanged, with its asker and the time that is
 * left for it.
 */
TR_API void tr_forward(tr_ctx *ctx, tr_ref to, const void *m);
/*
 * Passes m on as tr_forward does, but with the content of *value, a changed
 * copy of m. value may share text with m.
 */
TR_API void tr_forward_copy(tr_ctx *ctx, tr_ref to, const void *m,
                            const void *value);
/*
 * Put m aside, and put all such messages back in front of the mailbox, oldest
 * first.
 * Errors: TR_ELIMIT (about a million are put aside), TR_ENOMEM.
 */
TR_API tr_err tr_stash(tr_ctx *ctx, const void *m);
TR_API void tr_unstash_all(tr_ctx *ctx);

/* ---- failing ---- */

/*
 * Records the text and place of a failure and returns err, for the handler to
 * return; TR_EFAILED if err is TR_OK.
 */
TR_API tr_err tr_fail(tr_ctx *ctx, tr_err err, const char *site,
                      const char *format, ...) TR_PRINTF(4, 5);
/*
 * Fails the actor with TR_EPANIC and leaves the handler from any depth.
 * Functions in between do not return: what they hold must belong to the actor
 * (tr_alloc, tr_scratch, tr_on_end).
 */
TR_API TR_NORETURN void tr_panic(tr_ctx *ctx, const char *site,
                                 const char *format, ...) TR_PRINTF(3, 4);
/*
 * Returns a text about the last error that a call with this `from` returned: of
 * this actor if `from` is a ctx, else of this thread. Never NULL; borrowed
 * until the next call that fails. `from` may be NULL: of this thread.
 */
TR_API const char *tr_error_text(tr_from from);
/*
 * Returns the part of tr_error_text that says why, for people: the text that an
 * actor has refused or failed with, or tr_strerror, without type, path, place
 * and advice. If the actor has refused with TR_OR_REFUSE, it is the reason of
 * the call that had failed there. It is the whole text if the call was no
 * request.
 */
TR_API const char *tr_error_reason(tr_from from);

/*
 * Names the place of the next call that waits, "bank.c:42", for tr_actor_info
 * and the log; site lives as long as the program. The macros of those calls do
 * so themselves. Returns from.
 */
TR_API void *tr_at(tr_from from, const char *site);

/* ---- who; texts live as long as the actor ---- */

TR_API tr_ref tr_self(tr_ctx *ctx);    // the actor whose turn it is
TR_API tr_ref tr_parent(tr_ctx *ctx);  // the actor that supervises it
TR_API tr_ref tr_sender(tr_ctx *ctx);  // the sender of the message, or nobody
TR_API tr_system *tr_system_of(tr_ctx *ctx);  // the system it belongs to
TR_API const char *tr_name(tr_ctx *ctx);      // the last part of its path
TR_API const char *tr_key(tr_ctx *ctx);  // the key of a virtual actor, or NULL
TR_API uint64_t tr_epoch(tr_ctx *ctx);   // the epoch of the activation
TR_API uint32_t tr_incarnation(tr_ctx *ctx);  // 1, and 1 more for each restart
TR_API bool tr_stopping(tr_ctx *ctx);  // true if it has been asked to end
/*
 * Returns the child of that name, or nobody; tr_ref_err is then TR_ENOENT
 * (there is none), or TR_ESTOPPED if the child ends or was told to end: it
 * takes no more messages, and its name is free when this actor is told of its
 * end (tr_watch, child_terminated). So keep what is for it with tr_stash until
 * then.
 */
TR_API tr_ref tr_child(tr_ctx *ctx, const char *name);
/*
 * Writes up to max refs of the actor's children, in the order in which they
 * were spawned. Returns how many children there are.
 */
TR_API size_t tr_children(tr_ctx *ctx, tr_ref *out, size_t max);
/*
 * Returns the actor with this path. A path that does not begin with '/' starts
 * at the actor, or outside of handlers at /user. If there is no such actor,
 * returns nobody; tr_ref_err is then TR_ENOENT, or TR_EINVAL if the path is
 * empty.
 */
TR_API tr_ref tr_lookup(tr_from from, const char *path);

/* ---- life ---- */

/*
 * Spawns an actor: a child of the calling actor or, outside of handlers, of
 * /user. options may be NULL. Returns at once. If the actor fails while it
 * starts, its supervisor decides, as for any failure. If no actor could be
 * made, returns nobody, and tr_ref_err says why: TR_EINVAL, TR_EEXIST (the
 * name), TR_ENOENT (the dispatcher), TR_ENOMEM, TR_ESTOPPED (the parent is
 * ending), TR_ECLOSED, TR_ELIMIT (no more threads). tr_error_text says more.
 * Nothing is watched then: with .watch no tr_terminated comes.
 */
TR_API tr_ref tr_spawn(tr_from from, const tr_actor_def *def,
                       const tr_spawn_options *options);
/*
 * Waits until the actor is RUNNING. timeout 0 means the system's ask_timeout.
 * Errors: the error that its start ended with; TR_ETIMEDOUT, TR_ENOENT (it has
 * ended), TR_EFOREIGN, TR_EDEADLOCK (self or an ancestor); or an ended-wait
 * error.
 */
TR_API TR_NODISCARD tr_err tr_started(tr_from from, tr_ref ref,
                                      tr_nanos timeout);
/*
 * End an actor and all its descendants: tr_stop after the message that is being
 * handled, tr_poison after the messages that are in its mailbox now, tr_kill at
 * once; a kill also ends its waits. All three return at once and do nothing if
 * the actor has ended already.
 */
TR_API void tr_stop(tr_from from, tr_ref ref);
TR_API void tr_poison(tr_from from, tr_ref ref);
TR_API void tr_kill(tr_from from, tr_ref ref);
/*
 * Restarts a running actor after the message that is being handled, as its
 * supervisor does after a failure: waits end with TR_ERESTARTED, pre_restart
 * gets a tr_failure with TR_ERESTARTED, and the state begins anew. It is not a
 * failure: there is no delay, and it does not count for max_restarts. Returns
 * at once. An actor that is starting, restarting or ending is left alone, and
 * so is one that has failed: its supervisor decides. An actor that is never
 * restarted (TR_TEMPORARY, tr_spawn_temp, a connection: net.h) is stopped.
 */
TR_API void tr_restart(tr_from from, tr_ref ref);
/*
 * Waits for the end of an actor. result may be NULL. If state is not NULL,
 * *state gets the final state of a joinable actor; free it with tr_drop. *state
 * is zero if there is no final state: the actor never started, was forced, or
 * was ended between two incarnations. A state without TR_STATE may point into
 * the actor's heap; that memory is handed over as well: to the heap of the
 * joining actor or, outside, to the system until it is closed. timeout 0 means
 * the system's ask_timeout.
 * Errors: TR_ETIMEDOUT; TR_ENOENT (it had ended before and left no result,
 * because it was not joinable or has been joined already); TR_EFOREIGN;
 * TR_EDEADLOCK (self or an ancestor); or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_join(tr_from from, tr_ref ref, tr_nanos timeout,
                                   tr_result *result, void *state);
/*
 * Returns the state of an actor's life; TR_STATE_TERMINATED if there is no such
 * actor.
 */
TR_API tr_state tr_state_of(tr_from from, tr_ref ref);
/*
 * Add a handle to an auto_stop actor and drop one. The spawner holds the first
 * handle. When the last one is dropped the actor is poisoned. Copies of the ref
 * are not counted.
 */
TR_API tr_handle tr_handle_hold(tr_from from, tr_ref ref);
TR_API void tr_handle_drop(tr_from from, tr_ref ref);
/*
 * Changes the handlers to those of this behaviour, from the next message on.
 * Hooks stay those of the actor. Panics if the behaviour is NULL.
 */
TR_API void tr_become(tr_ctx *ctx, const tr_actor_def *behaviour);

/* ---- time ---- */

TR_API tr_nanos
tr_now(tr_from from);  // the time: monotonic; virtual in a simulation
/*
 * Returns the date: nanoseconds since 1970, UTC. It can jump, also backward,
 * when the clock is set; use tr_now to measure spans. In a simulation the date
 * is virtual, each node has its own, and the faults clock_skew and clock_jump
 * change it.
 */
TR_API tr_nanos tr_wall(tr_from from);
/*
 * Waits for span; only this actor waits.
 * Errors: TR_EINVAL (span is below 0); or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_sleep(tr_ctx *ctx, tr_nanos span);
/*
 * Send this actor a message after span, once or after every span. A timer ends
 * with the incarnation of its actor. They panic if the span is negative, or 0
 * for tr_every.
 */
TR_API tr_timer tr_after(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                         const void *payload);
TR_API tr_timer tr_every(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                         const void *payload);
/*
 * Cancels a timer: from now on no message of it is handled, not even a queued
 * one. Cancelling a timer that has fired or ended is allowed.
 */
TR_API void tr_cancel(tr_ctx *ctx, tr_timer timer);
/*
 * Sends this actor a tr_timeout whenever no message has come for span; 0 ends
 * that. Below 0 it panics.
 */
TR_API void tr_receive_timeout(tr_ctx *ctx, tr_nanos span);

/* ---- chance ---- */

/*
 * Returns a random number below `below`, which must not be 0 (a check); all
 * numbers are equally likely. In a simulation the seed decides the number;
 * otherwise each thread's generator is seeded by the operating system. Not for
 * keys and secrets: the next number can be computed from a few that are known.
 */
TR_API uint64_t tr_random(tr_from from, uint64_t below);

/* ---- the outside world ---- */

/*
 * Waits until fd is ready for one of the events, and sets *ready to those it is
 * ready for. The caller keeps owning fd. timeout TR_FOREVER: no time-out.
 * Errors: TR_ETIMEDOUT, TR_EEXIST (another handler waits for fd; tr_error_text
 * says which), TR_EINVAL, TR_EIO; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_wait_fd(tr_ctx *ctx, int fd, uint32_t events,
                                      tr_nanos timeout, uint32_t *ready);
/*
 * Runs fn(arg) on a thread for blocking calls and waits for its result. If the
 * wait ends early, fn still runs to its end, so arg must outlive it.
 * Errors: what fn returned; TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_blocking(tr_ctx *ctx, tr_err (*fn)(void *arg),
                                       void *arg);

/* ---- memory; all of it ends with the incarnation at the latest ---- */

/*
 * Allocate, resize and free memory of this actor, and copy text into it, as
 * malloc, realloc, free and strdup do. Memory from tr_alloc is zeroed. Without
 * memory, or above heap_limit, they panic. old and memory may be NULL. Memory that
 * is not this actor's, or was freed already, ends the process with a text.
 */
TR_API void *tr_alloc(tr_ctx *ctx, size_t size);
TR_API void *tr_realloc(tr_ctx *ctx, void *old, size_t size);
TR_API void tr_free(tr_ctx *ctx, void *memory);
TR_API char *tr_dup(tr_ctx *ctx, const char *text);
/* Returns zeroed memory that lives until the handler returns. */
TR_API void *tr_scratch(tr_ctx *ctx, size_t size);
/* Returns formatted text that lives until the handler returns. */
TR_API char *tr_textf(tr_ctx *ctx, const char *format, ...) TR_PRINTF(2, 3);
/*
 * Frees, before the handler returns, what would live until then: memory of
 * tr_scratch and tr_textf, and the text, lists and blobs in answers that this
 * turn has got. It is for on_run and handlers that loop for long; without it
 * their memory grows with each round. The message of the handler stays.
 */
TR_API void tr_scratch_reset(tr_ctx *ctx);
/*
 * Registers close(object), which runs when the actor stops or restarts; the
 * function registered last runs first.
 */
TR_API void tr_on_end(tr_ctx *ctx, void (*close)(void *object), void *object);

/* ---- state ---- */

/*
 * Saves *next, waits until it is durable, and then copies it to *self. On error
 * *self is unchanged. After TR_EUNKNOWN (it may or may not have been saved) the
 * actor restarts, and so loads its state, before its next message. A ref of a
 * virtual actor is stored as its name.
 * Errors: TR_ESTORAGE, TR_EFENCED (another writer has replaced this one),
 * TR_EINVAL (a ref of an actor that is not virtual, or, in JSON, text that is
 * not UTF-8; tr_error_text names the field), TR_EUNKNOWN, TR_ELIMIT (too
 * large), TR_EWOULDBLOCK, TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_persist(tr_ctx *ctx, void *self, const void *next,
                                      const char *site);
/*
 * Supports TR_ON_REMINDER: its handlers return through it, so that the reminder
 * is ended or set again. Returns err.
 */
TR_API tr_err tr_reminded(tr_ctx *ctx, const void *m, tr_err err);

TR_END_DECLS

/*
 * Messages that the library sends. An actor handles them with TR_ON like any
 * other: tr_timeout of tr_receive_timeout, tr_ask_failed of tr_ask_pipe.
 */
TR_MESSAGE(tr_timeout);
TR_MESSAGE(tr_ask_failed, (tr_ref, to), (uint32_t, err), (const char *, text));

#ifndef __cplusplus

/* Names this line as the place of a call that waits. */
#define TR_SITED_(from) __extension__(tr_at)((from), TR_HERE)

/* ---- calls; __extension__ quiets gcc -Wpedantic about tr_from ---- */

#define tr_tell(from, to, ...) TR_SEND_(tr_tell, from, to, __VA_ARGS__, )
#define tr_try_tell(from, to, ...)                                             \
    TR_SEND_(tr_try_tell, from, to, __VA_ARGS__, )
#define TR_SEND_(verb, from, to, T, ...)                                       \
    __extension__(verb)(TR_FROM_(#verb, from), (to), &T##_tr_type,             \
                        &(const T){__VA_ARGS__})
#define tr_tell_urgent(from, to, priority, ...)                                \
    TR_URGENT_(from, to, priority, __VA_ARGS__, )
#define TR_URGENT_(from, to, priority, T, ...)                                 \
    __extension__(tr_tell_urgent)(TR_FROM_("tr_tell_urgent", from), (to),      \
                                  (priority), &T##_tr_type,                    \
                                  &(const T){__VA_ARGS__})

#define tr_ask(from, to, out, timeout, ...)                                    \
    TR_ASK_(from, to, out, timeout, __VA_ARGS__, )
#define TR_ASK_(from, to, out, timeout, T, ...)                                \
    __extension__(tr_ask)(TR_FROM_("tr_ask", from), (to), TR_OUT_(T, out),     \
                          (timeout), &T##_tr_type, &(const T){__VA_ARGS__},    \
                          TR_HERE)

#define tr_async(ctx, to, timeout, ...)                                        \
    TR_ASYNC_(ctx, to, timeout, __VA_ARGS__, )
#define TR_ASYNC_(ctx, to, timeout, T, ...)                                    \
    __extension__(tr_async)(TR_CTX(ctx), (to), (timeout), TR_ASKED_(T),        \
                            &(const T){__VA_ARGS__})
#define tr_await(ctx, future, T, out)                                          \
    (tr_await)(TR_CTX(ctx), (future), &T##_tr_type, TR_OUT_(T, out), TR_HERE)

/*
 * The callback takes void pointers: a typed one would need a cast of the
 * function.
 */
#define tr_ask_then(ctx, to, timeout, then, ...)                               \
    TR_THEN_(ctx, to, timeout, then, __VA_ARGS__, )
#define TR_THEN_(ctx, to, timeout, then, T, ...)                               \
    __extension__(tr_ask_then)(TR_CTX(ctx), (to), (timeout), (then),           \
                               TR_ASKED_(T), &(const T){__VA_ARGS__})
#define tr_ask_then_with(ctx, to, timeout, then, user, ...)                    \
    TR_THEN_WITH_(ctx, to, timeout, then, user, __VA_ARGS__, )
#define TR_THEN_WITH_(ctx, to, timeout, then, user, T, ...)                    \
    __extension__(tr_ask_then_with)(TR_CTX(ctx), (to), (timeout), (then),      \
                                    (user), TR_ASKED_(T),                      \
                                    &(const T){__VA_ARGS__})
#define tr_ask_pipe(ctx, to, timeout, ...)                                     \
    TR_PIPE_(ctx, to, timeout, __VA_ARGS__, )
#define TR_PIPE_(ctx, to, timeout, T, ...)                                     \
    __extension__(tr_ask_pipe)(TR_CTX(ctx), (to), (timeout), TR_ASKED_(T),     \
                               &(const T){__VA_ARGS__})

/* Sends a copy of *value, a T, as tr_tell does. */
#define tr_tell_copy(from, to, T, value)                                       \
    __extension__(tr_tell)(                                                    \
        (from), (to), &T##_tr_type,                                            \
        _Generic((value), T *: (value), const T *: (value)))
/* value is of the type of m: a pointer of another type is reported. */
#define tr_forward_copy(ctx, to, m, value)                                     \
    (tr_forward_copy)(TR_CTX(ctx), (to), (m), 1 ? (value) : (m))

/* Send and ask as tr_tell and tr_ask do, through a TR_PROTOCOL ref. */
#define tr_tell_to(from, to, ...) TR_SEND_TO_(tr_tell, from, to, __VA_ARGS__, )
#define TR_SEND_TO_(verb, from, to, T, ...)                                    \
    TR_SEND_(verb, from, (to).T, T, __VA_ARGS__)
#define tr_ask_to(from, to, out, timeout, ...)                                 \
    TR_ASK_TO_(from, to, out, timeout, __VA_ARGS__, )
#define TR_ASK_TO_(from, to, out, timeout, T, ...)                             \
    TR_ASK_(from, (to).T, out, timeout, T, __VA_ARGS__)

/* The reply's type comes from m's declaration. */
#define tr_reply(ctx, ...) TR_REPLY_(ctx, __VA_ARGS__, )
#define TR_REPLY_(ctx, m, ...)                                                 \
    __extension__(tr_reply)(                                                   \
        TR_CTX(ctx), (m), &(const __typeof__(*(m)->tr_reply_is)){__VA_ARGS__})
#define tr_keep(ctx, m) ((__typeof__(m))(tr_keep)(TR_CTX(ctx), (m)))

/*
 * Returns from the handler if the call returns an error, and refuses m with
 * that error: the asker gets it, the actor does not fail. The asker's
 * tr_error_text has the call and what was known of its error. Errors that only
 * the runtime may send become TR_EFAILED, as in tr_refuse, and are named in the
 * text.
 */
#define TR_OR_REFUSE(ctx, m, ...)                                              \
    do {                                                                       \
        uint32_t tr_or_mark_ = tr_turn_mark(TR_CTX(ctx));                      \
        tr_err tr_or_ = (__VA_ARGS__);                                         \
        if (tr_or_ != TR_OK)                                                   \
            return tr_refuse_with((ctx), (m), tr_or_, tr_or_mark_,             \
                                  #__VA_ARGS__);                               \
    } while (0)

#define tr_fail(ctx, err, ...)                                                 \
    (tr_fail)(TR_CTX(ctx), (err), TR_HERE, __VA_ARGS__)
#define tr_panic(ctx, ...) (tr_panic)(TR_CTX(ctx), TR_HERE, __VA_ARGS__)
/* Panics if the condition is false. For handlers. */
#define TR_ASSERT(ctx, cond)                                                   \
    ((cond) ? (void)0                                                          \
            : (tr_panic)(TR_CTX(ctx), TR_HERE, "assertion failed: %s", #cond))
#define tr_error_text(from)   __extension__(tr_error_text)(from)
#define tr_error_reason(from) __extension__(tr_error_reason)(from)

#define tr_spawn(from, ...) TR_SPAWN_(from, __VA_ARGS__, )
#define TR_SPAWN_(from, A, ...)                                                \
    __extension__(tr_spawn)((from), TR_DEF(A),                                 \
                            TR_OPTIONS_ANY_(tr_spawn_options, __VA_ARGS__))
/*
 * Gives an actor of kind A its first state, as an option of tr_spawn. If the
 * state is a TR_STATE, the text, bytes and lists that it points to are copied,
 * too, and blobs are held; the copy lives as long as the actor. Of any other
 * struct only its own bytes are copied.
 */
#define TR_INIT(A, ...)                                                        \
    .init = &(const A##_tr_state){__VA_ARGS__}, .init_type = A.state,          \
    .init_size = sizeof(A##_tr_state)

#define tr_started(from, ref, timeout)                                         \
    __extension__(tr_started)(TR_SITED_(from), (ref), (timeout))
#define tr_stop(from, ref)    __extension__(tr_stop)((from), (ref))
#define tr_poison(from, ref)  __extension__(tr_poison)((from), (ref))
#define tr_kill(from, ref)    __extension__(tr_kill)((from), (ref))
#define tr_restart(from, ref) __extension__(tr_restart)((from), (ref))
#define tr_join(from, ref, timeout, result, state)                             \
    __extension__(tr_join)(TR_SITED_(from), (ref), (timeout), (result), (state))
#define tr_state_of(from, ref)    __extension__(tr_state_of)((from), (ref))
#define tr_handle_hold(from, ref) __extension__(tr_handle_hold)((from), (ref))
#define tr_handle_drop(from, ref) __extension__(tr_handle_drop)((from), (ref))
#define tr_lookup(from, path)     __extension__(tr_lookup)((from), (path))
#define tr_become(ctx, self, B)                                                \
    (tr_become)(TR_CTX(ctx), _Generic((self), B##_tr_state *: &(B)))

#define tr_sleep(c, span) (tr_sleep)(TR_SITED_(TR_CTX(c)), (span))
#define tr_await_all(c, futures, count)                                        \
    (tr_await_all)(TR_SITED_(TR_CTX(c)), (futures), (count))
#define tr_await_any(c, futures, count, index)                                 \
    (tr_await_any)(TR_SITED_(TR_CTX(c)), (futures), (count), (index))
#define tr_wait_fd(c, fd, events, timeout, ready)                              \
    (tr_wait_fd)(TR_SITED_(TR_CTX(c)), (fd), (events), (timeout), (ready))
#define tr_blocking(c, fn, arg) (tr_blocking)(TR_SITED_(TR_CTX(c)), (fn), (arg))

#define tr_now(from)             __extension__(tr_now)(from)
#define tr_wall(from)            __extension__(tr_wall)(from)
#define tr_random(from, below)   __extension__(tr_random)((from), (below))
#define tr_after(ctx, span, ...) TR_TIMER_(tr_after, ctx, span, __VA_ARGS__, )
#define tr_every(ctx, span, ...) TR_TIMER_(tr_every, ctx, span, __VA_ARGS__, )
#define TR_TIMER_(verb, ctx, span, T, ...)                                     \
    __extension__(verb)(TR_CTX(ctx), (span), &T##_tr_type,                     \
                        &(const T){__VA_ARGS__})

#define tr_persist(ctx, self, next)                                            \
    (tr_persist)(TR_CTX(ctx), (self),                                          \
                 _Generic((next),                                              \
                     __typeof__(self): (next),                                 \
                     const __typeof__(*(self)) *: (next)),                     \
                 TR_HERE)

#endif /* !__cplusplus */

/* ---- defining ---- */

#pragma GCC system_header  // as macros.h explains

/* Handles T with tr_err fn(tr_ctx *, S *, const T *). */
#define TR_ON(T, fn) (TRon, T, fn, 0)
/*
 * Handles T with tr_err fn(tr_ctx *, const S *, const T *), which may run while
 * other TR_ON_READ handlers of the actor wait.
 */
#define TR_ON_READ(T, fn) (TRread, T, fn, TR_READ_ONLY)
/*
 * Handles T as TR_ON_READ does, and also runs while a TR_ON handler of the
 * actor waits.
 */
#define TR_ON_INTERLEAVE(T, fn) (TRread, T, fn, TR_ALWAYS_INTERLEAVE)
/*
 * Handles T as TR_ON does, but does not count as activity: a virtual actor that
 * gets only such messages is deactivated as idle.
 */
#define TR_ON_QUIET(T, fn) (TRon, T, fn, TR_SUPPRESS_KEEP_ALIVE)
/*
 * Handles T as TR_ON does, but refuses messages from other nodes with
 * TR_EFOREIGN.
 */
#define TR_ON_LOCAL(T, fn) (TRon, T, fn, TR_LOCAL_ONLY)
/*
 * Handles T as TR_ON does, and lets tr_remind send it (storage.h). Such
 * messages are stored, so a later version of the program may append fields to T
 * and change nothing else.
 */
#define TR_ON_REMINDER(T, fn) (TRremind, T, fn, TR_REMINDER)
/*
 * Handles all types that no TR_ON names, with tr_err fn(tr_ctx *, S *, const
 * tr_msg *).
 */
#define TR_ON_ANY(fn) (TRany, any, fn, 0)
/*
 * Sets a hook: `hook` is a member of tr_actor_def; fn takes S * where the
 * member takes void *.
 */
#define TR_HOOK(hook, fn) (TRhook, hook, fn, 0)

/*
 * Applies event E to the state, in an actor whose state is made of events
 * (storage.h). fn is void fn(S *, const E *); it changes *self as the event
 * says and does nothing else. Fields of *self may point into the event. With
 * TR_APPLY_CTX fn is void fn(tr_ctx *, S *, const E *), which may take memory
 * for fields of *self from tr_scratch and tr_textf.
 */
#define TR_APPLY(E, fn)     (TRapply, E, fn, 0)
#define TR_APPLY_CTX(E, fn) (TRapplyctx, E, fn, 0)
/* Stores the state after every n events; default 100. For TR_APPLY actors. */
#define TR_SNAPSHOT_EVERY(n) (TRset, snapshot_every, n, 0)
/* Deletes events that a snapshot covers. For TR_APPLY actors. */
#define TR_TRIM_EVENTS (TRset, trim_events, true, 0)

#ifndef __cplusplus

/* Defines an actor kind (or behaviour) A with state S, private to this file. */
#define TR_ACTOR(...) TR_ACTOR_(static, __VA_ARGS__, )
/*
 * Defines an actor kind as TR_ACTOR does, for use in other files too, which
 * declare it with TR_ACTOR_DECLARE(A, S).
 */
#define TR_ACTOR_PUBLIC(...) TR_ACTOR_(, __VA_ARGS__, )
#define TR_ACTOR_DECLARE(A, S)                                                 \
    typedef S A##_tr_state;                                                    \
    extern const tr_actor_def A
/*
 * Declares A before its TR_ACTOR, for behaviours that change into each other.
 */
#define TR_ACTOR_FORWARD(A, S)                                                 \
    typedef S A##_tr_state;                                                    \
    static const tr_actor_def A

#else /* __cplusplus */

#define TR_ACTOR(...)                                                          \
    static_assert(sizeof(int) == 0,                                            \
                  "for TR_ACTOR in C++, include <troupe/troupe.hpp>")
#define TR_ACTOR_PUBLIC(...) TR_ACTOR(__VA_ARGS__)

#endif /* __cplusplus */
#endif
