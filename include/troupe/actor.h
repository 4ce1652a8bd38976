/*
 * actor.h - what an actor is, and all that it may do in its turn.
 *
 * TR_ACTOR ties a state struct to handlers, one per message type. The runtime
 * calls them one at a time; a handler returns TR_OK, or an error, which is a
 * failure that its supervisor decides on. A handler may simply wait (tr_ask,
 * tr_sleep, ...): only its actor waits with it.
 *
 * Threads: a function taking tr_ctx runs on that actor's turn only. All
 * others may be called from any thread. A wait in a handler ends early, with
 * TR_ESTOPPED, TR_EKILLED, TR_ERESTARTED or TR_ECLOSED, when the actor itself
 * is ended, and with TR_ELIMIT when too many handlers wait; below these five
 * are meant by "ended". On a worker thread, with `sys` for `from`, waiting is
 * refused with TR_EWOULDBLOCK.
 * Ownership: pointer parameters are borrowed, payloads copied. What a handler
 * is given lives until it returns; what it allocates lives until its actor
 * stops or restarts.
 */
#ifndef TROUPE_ACTOR_H
#define TROUPE_ACTOR_H

#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/message.h>
#include <troupe/supervise.h>

typedef enum tr_overflow {  // what a send to a full bounded mailbox does
    TR_OVERFLOW_FAIL,
    TR_OVERFLOW_BLOCK,
    TR_OVERFLOW_DROP_NEW,
    TR_OVERFLOW_DROP_OLD,
    TR_OVERFLOW_STOP,
} tr_overflow;

typedef enum tr_drain {  // where mail goes that is left when an actor ends
    TR_DRAIN_DEAD_LETTERS,
    TR_DRAIN_DROP,
    TR_DRAIN_REDIRECT,
} tr_drain;

/* The rest of a call that an interceptor stands in front of. */
typedef struct tr_call tr_call;

/*
 * Code around every handler of an actor: tracing, access rights, timing. A
 * list of them, NULL at its end, is chosen for one actor or for the system;
 * the first in the list is the outermost, the system's are outside of the
 * actor's own. List and interceptors are borrowed as long as the system lives.
 *
 * around runs as a part of the turn, with all that a handler may do. It goes
 * on with tr_proceed, which may give msg away (so read it before), and returns
 * what came of it, or something else: an error is a failure of the actor.
 * Without tr_proceed the handler does not run; a request is then to be
 * answered (tr_reply, tr_refuse; with msg) or it gets TR_ENOREPLY. After a
 * tr_panic the rest of around does not run.
 *
 * Handlers of messages are meant, timers' and replies' of tr_ask_pipe, too;
 * not hooks, on_run, on_signal, nor the callbacks of tr_ask_then.
 */
typedef struct tr_interceptor {
    const char *name;
    tr_err (*around)(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user);
    void *user;
} tr_interceptor;

typedef struct tr_spawn_options {
    size_t size;
    const char *name;          // unique among siblings; default "$<id>"
    const void *init;          // TR_INIT(actor, ...): copied, and used again
    const tr_type *init_type;  //   at each restart
    size_t init_size;
    const tr_supervision *supervision;  // TR_SUPERVISE(...); default: system's
    bool inherit_supervision;  // the parent's policy instead of the system's
    tr_restart_type restart;
    const char *dispatcher;  // parallel, pinned, concurrent, blocking, yours
    uint32_t soft_limit;     // senders are slowed beyond; default: system's
    uint32_t mailbox_limit;  // default: unbounded with alarm and budget
    tr_overflow overflow;
    size_t heap_limit;      // bytes; tr_alloc panics beyond; default: none
    tr_nanos stop_timeout;  // default 5 s
    tr_drain drain;
    tr_ref drain_to;
    tr_storage *storage;  // load *self before pre_start, allow tr_persist
    bool watch;           // spawn and watch in one step
    bool joinable;        // the final state is kept until tr_join
    bool auto_stop;       // ends when the last tr_handle is dropped
    const tr_serializer *serializer;  // of what is stored; default: JSON
    const tr_interceptor *const *interceptors;  // around its handlers
    tr_nanos handler_limit;  // reported beyond: tr_stuck; default: system's
} tr_spawn_options;

enum { TR_TEXT_SIZE = 128 };

typedef struct tr_result {  // what tr_join gives; nothing in it is to be freed
    tr_reason reason;
    tr_err err;               // why it failed, or TR_OK
    tr_phase phase;           // where, if it failed
    char text[TR_TEXT_SIZE];  // of the failure, cut if longer, or ""
} tr_result;

/* Flags of a handler. */
enum {
    TR_READ_ONLY = 1,
    TR_ALWAYS_INTERLEAVE = 2,
    TR_SUPPRESS_KEEP_ALIVE = 4,  // does not keep a virtual actor active
    TR_LOCAL_ONLY = 8,           // is not taken from other nodes
    TR_REMINDER = 16,            // may come from a tr_remind
};

typedef tr_err (*tr_handler_fn)(tr_ctx *ctx, void *self, const void *m);

typedef struct tr_handler {
    const tr_type *type;  // NULL: takes everything not named (TR_ON_ANY)
    tr_handler_fn fn;
    uint32_t flags;
} tr_handler;

/* How an event changes the state: TR_APPLY, storage.h. */
typedef void (*tr_apply_fn)(tr_ctx *ctx, void *self, const void *event);

typedef struct tr_applier {
    const tr_type *type;
    tr_apply_fn fn;
} tr_applier;

/* An actor kind, or one behaviour of it. Made by TR_ACTOR. */
struct tr_actor_def {
    size_t size;
    const char *name;
    const tr_type *state;  // size 0: a plain struct, cannot be stored or shown
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
    const tr_applier *appliers;  // of the first behaviour only
    size_t applier_count;
    uint32_t snapshot_every;  // events; 0: 100
    bool trim_events;         // those that a snapshot covers are dropped
};

typedef struct tr_timer {
    uint64_t id;
} tr_timer;
typedef struct tr_future {
    uint64_t id;
} tr_future;
typedef struct tr_handle {
    tr_ref ref;
} tr_handle;  // counted, for auto_stop

/* What tr_wait_fd waits for and reports; errors are always reported. */
enum { TR_FD_READ = 1, TR_FD_WRITE = 2, TR_FD_ERROR = 4 };

/* Priorities of tr_tell_urgent: 1 to this; ordinary mail has 0. */
enum { TR_PRIORITY_MAX = 7 };

TR_BEGIN_DECLS

/* ---- sending ---- */

/*
 * Sends a copy of *payload. Cannot fail for the sender: what is not delivered
 * is a dead letter with a reason. May park the handler if the target's mailbox
 * is beyond its soft limit; may park it, or block an outside thread, if it is
 * bounded with TR_OVERFLOW_BLOCK.
 */
TR_API void tr_tell(tr_from from, tr_ref to, const tr_type *type,
                    const void *payload);
/*
 * As tr_tell, but says what happened here, and leaves no dead letter.
 * Errors: TR_EFULL, TR_EGONE, TR_EDEADLOCK, TR_EFOREIGN, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_try_tell(tr_from from, tr_ref to,
                                       const tr_type *type,
                                       const void *payload);
/*
 * As tr_tell, but handled before ordinary user mail: higher priorities first,
 * in order of sending within one. priority is 1 to TR_PRIORITY_MAX (a check).
 */
TR_API void tr_tell_urgent(tr_from from, tr_ref to, uint8_t priority,
                           const tr_type *type, const void *payload);
/*
 * Sends a request and waits for its reply. out may be NULL. In a handler the
 * text in *out lives until the handler returns; an outside caller owns it
 * (tr_drop). timeout 0 = the system's default, 30 s. On error *out is zero.
 * TR_EGONE: the actor has ended, or is ending and does not come to it;
 * TR_ENOENT: the ref is of nobody, or nobody hosts the virtual actor's kind.
 * Errors: what the handler refused or failed with; TR_ETIMEDOUT, TR_ENOREPLY,
 * TR_ENOENT, TR_EGONE, TR_EUNHANDLED, TR_EDEADLOCK, TR_EUNREACHABLE; ended.
 */
TR_API TR_NODISCARD tr_err tr_ask(tr_from from, tr_ref to, void *out,
                                  tr_nanos timeout, const tr_type *type,
                                  const void *payload, const char *site);
/*
 * The halves of tr_ask, to have several requests in flight. A future belongs
 * to the turn: not awaited when it ends, it is cancelled. Awaiting one twice
 * is TR_EINVAL.
 */
TR_API tr_future tr_async(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                          const tr_type *type, const void *payload);
TR_API TR_NODISCARD tr_err tr_await(tr_ctx *ctx, tr_future future,
                                    const tr_type *type, void *out,
                                    const char *site);
/*
 * Waits until one of the futures is done, *index of them; it is still to be
 * awaited, which then does not wait. Errors: TR_EINVAL, TR_EDEADLOCK; ended.
 */
TR_API TR_NODISCARD tr_err tr_await_any(tr_ctx *ctx, const tr_future *futures,
                                        size_t count, size_t *index);
/*
 * Sends a request; the reply arrives later as a turn of this actor, exactly
 * once, as then(ctx, self, reply or NULL, err). The handler does not wait.
 */
typedef tr_err (*tr_then_fn)(tr_ctx *ctx, void *self, const void *reply,
                             tr_err err);
TR_API void tr_ask_then(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                        tr_then_fn then, const tr_type *type,
                        const void *payload);
/*
 * Sends a request; the reply arrives later as an ordinary message of this
 * actor, TR_ON(ReplyType, ...), an error as a tr_ask_failed. Exactly one of
 * them comes, unless the actor stops or restarts before.
 */
TR_API void tr_ask_pipe(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                        const tr_type *type, const void *payload);

/* ---- around and along a call ---- */

/*
 * From an interceptor: what it stands in front of, then the handler. Once; a
 * second time is TR_EINVAL and nothing runs. Else what the handler returned.
 */
TR_API TR_NODISCARD tr_err tr_proceed(tr_call *call);
/*
 * The context of this turn: its message's, or what was set since; NULL if
 * there is none. Borrowed until the turn ends or sets another.
 */
TR_API const tr_context *tr_context_of(tr_ctx *ctx);
/*
 * From now to the end of the turn all that is told, asked and tried carries a
 * copy, and so do the turns that come of it, on this node; NULL: nothing does.
 * A tr_forward carries what its message came with, a reply and a timer carry
 * nothing, and a tr_ask_then goes on with the context it was asked in. No ask
 * waits beyond context->deadline.
 */
TR_API void tr_context_set(tr_ctx *ctx, const tr_context *context);

/* ---- answering; m is the handler's message or a kept one ---- */

/* Answers a request. The second answer is an error (TR_EEXIST) and not sent. */
TR_API tr_err tr_reply(tr_ctx *ctx, const void *m, const void *payload);
/*
 * Answers with an error: the caller's fault, not ours. Returns TR_OK so that a
 * handler can end with it; the supervisor hears nothing.
 */
TR_API tr_err tr_refuse(tr_ctx *ctx, const void *m, tr_err err,
                        const char *format, ...) TR_PRINTF(4, 5);
/*
 * Behind TR_OR_REFUSE: refuses m with err, and with a text that has the
 * expression and, if it is newer than the mark, what tr_error_text says. The
 * mark is how many texts the turn has got so far.
 */
TR_API uint32_t tr_turn_mark(tr_ctx *ctx);
TR_API tr_err tr_refuse_with(tr_ctx *ctx, const void *m, tr_err err,
                             uint32_t mark, const char *expression);
/*
 * Keeps m beyond this handler, to answer or read later; ends with tr_release,
 * or with the incarnation (an unanswered asker then gets TR_ESTOPPED or
 * TR_ERESTARTED). Returns m.
 */
TR_API const void *tr_keep(tr_ctx *ctx, const void *m);
TR_API void tr_release(tr_ctx *ctx, const void *m);
/* Passes m on unchanged, with its asker and its remaining time. */
TR_API void tr_forward(tr_ctx *ctx, tr_ref to, const void *m);
/* Puts m aside; tr_unstash_all puts all back in front, oldest first. */
TR_API tr_err tr_stash(tr_ctx *ctx, const void *m);  // Errors: TR_ELIMIT
TR_API void tr_unstash_all(tr_ctx *ctx);

/* ---- failing ---- */

/* Records text and site; returns err, for the handler to return. */
TR_API tr_err tr_fail(tr_ctx *ctx, tr_err err, const char *site,
                      const char *format, ...) TR_PRINTF(4, 5);
/* Leaves the handler from any depth; frames between are not unwound. */
TR_API TR_NORETURN void tr_panic(tr_ctx *ctx, const char *site,
                                 const char *format, ...) TR_PRINTF(3, 4);
/*
 * What is known of the last error that a call with this `from` returned: of
 * this actor, or, outside, of this thread. Never NULL; borrowed until the next
 * call that fails. `from` may be NULL: of this thread.
 */
TR_API const char *tr_error_text(tr_from from);

/* ---- who; texts live as long as the actor ---- */

TR_API tr_ref tr_self(tr_ctx *ctx);           // the actor whose turn it is
TR_API tr_ref tr_parent(tr_ctx *ctx);         // who supervises it
TR_API tr_ref tr_sender(tr_ctx *ctx);         // of its message, or nobody
TR_API tr_system *tr_system_of(tr_ctx *ctx);  // where it lives
TR_API const char *tr_name(tr_ctx *ctx);      // last part of its path
TR_API const char *tr_key(tr_ctx *ctx);       // of a virtual actor, or NULL
TR_API uint64_t tr_epoch(tr_ctx *ctx);        // fence of the activation
TR_API uint32_t tr_incarnation(tr_ctx *ctx);  // 1, and 1 more per restart
TR_API bool tr_stopping(tr_ctx *ctx);         // asked to end, for on_run
/* The child of that name, or nobody (tr_ref_err: TR_ENOENT). */
TR_API tr_ref tr_child(tr_ctx *ctx, const char *name);
/* Writes up to max refs, in order of spawning; returns how many there are. */
TR_API size_t tr_children(tr_ctx *ctx, tr_ref *out, size_t max);
/*
 * The actor with this path: absolute, or below the actor (outside: /user). If
 * there is none, nobody with TR_ENOENT (tr_ref_err); TR_EINVAL if it is empty.
 */
TR_API tr_ref tr_lookup(tr_from from, const char *path);

/* ---- life ---- */

/*
 * Starts an actor: a child of ctx's actor, or of /user; options may be NULL.
 * Returns at once; a start that fails is the supervisor's matter. On failure
 * the ref is nobody and tr_ref_err says why: TR_EINVAL, TR_EEXIST, TR_ENOMEM,
 * TR_ESTOPPED, TR_ECLOSED, TR_ELIMIT.
 */
TR_API tr_ref tr_spawn(tr_from from, const tr_actor_def *def,
                       const tr_spawn_options *options);
/* Waits until RUNNING, or gives the error that start ended with. */
TR_API TR_NODISCARD tr_err tr_started(tr_from from, tr_ref ref,
                                      tr_nanos timeout);
/*
 * End an actor and all below it: tr_stop after its current message, tr_poison
 * after what is in its queue, tr_kill now, with its waits ended at once. Each
 * returns at once; one that has ended already is left in peace.
 */
TR_API void tr_stop(tr_from from, tr_ref ref);
TR_API void tr_poison(tr_from from, tr_ref ref);
TR_API void tr_kill(tr_from from, tr_ref ref);
/*
 * Waits for the end of an actor. result may be NULL. *state, if not NULL, gets
 * the final state of a joinable actor; it ends with tr_drop. It is zero where
 * there is none: the actor never started, was forced, or was ended between two
 * incarnations. What a state without a schema points to in its actor's heap is
 * handed over as well: to the heap of the actor that joins, or, outside, to
 * the system until it is closed.
 * Errors: TR_ETIMEDOUT, TR_ENOENT (it had ended before, and left no result:
 * it was not joinable, or has been joined), TR_EDEADLOCK (self or an
 * ancestor); ended.
 */
TR_API TR_NODISCARD tr_err tr_join(tr_from from, tr_ref ref, tr_nanos timeout,
                                   tr_result *result, void *state);
/* Where it is in its life; TR_STATE_TERMINATED if there is no such actor. */
TR_API tr_state tr_state_of(tr_from from, tr_ref ref);
/*
 * Counts one more, one less handle of an auto_stop actor; the spawner holds
 * the first. The actor is poisoned when the last is dropped. Copies of the ref
 * itself do not count.
 */
TR_API tr_handle tr_handle_hold(tr_from from, tr_ref ref);
TR_API void tr_handle_drop(tr_from from, tr_ref ref);
/* Next message on: this behaviour's handlers. Hooks stay the actor's. */
TR_API void tr_become(tr_ctx *ctx, const tr_actor_def *behaviour);

/* ---- time ---- */

TR_API tr_nanos tr_now(tr_from from);  // the time: monotonic, or virtual
/*
 * The date: since 1970, UTC. Somebody may set it, so it can jump, and fall;
 * for spans there is tr_now. In a simulation it is virtual, each node has its
 * own, and clock_skew and clock_jump change it.
 */
TR_API tr_nanos tr_wall(tr_from from);
/* Waits for span, this actor alone. Errors: TR_EINVAL; ended. */
TR_API TR_NODISCARD tr_err tr_sleep(tr_ctx *ctx, tr_nanos span);
/* Send this actor a message, once or again and again. End with the actor. */
TR_API tr_timer tr_after(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                         const void *payload);
TR_API tr_timer tr_every(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                         const void *payload);
/* After it no message of the timer is handled. Any timer may be cancelled. */
TR_API void tr_cancel(tr_ctx *ctx, tr_timer timer);
/* A tr_timeout whenever no message came for span; 0 ends that. */
TR_API void tr_receive_timeout(tr_ctx *ctx, tr_nanos span);

/* ---- chance ---- */

/*
 * A number below `below`, which is not 0 (a check); each is equally likely.
 * In a simulation the seed decides it, and draws are a part of the run; else
 * each thread's numbers begin with some of the operating system's. Not for
 * keys and secrets: who sees a few of them can work out the next.
 */
TR_API uint64_t tr_random(tr_from from, uint64_t below);

/* ---- the outside world ---- */

/*
 * Waits until fd, which stays the caller's, is ready for one of the events;
 * *ready tells which. timeout TR_FOREVER for none.
 * Errors: TR_ETIMEDOUT, TR_EEXIST (another handler waits for it: tr_error_text
 * says whose), TR_EINVAL, TR_EIO; ended.
 */
TR_API TR_NODISCARD tr_err tr_wait_fd(tr_ctx *ctx, int fd, uint32_t events,
                                      tr_nanos timeout, uint32_t *ready);
/*
 * Runs fn(arg) on a thread of the blocking pool and waits for its result.
 * When the wait ends early fn still runs to its end: arg must outlive it.
 * Errors: what fn returned; TR_ENOMEM; ended.
 */
TR_API TR_NODISCARD tr_err tr_blocking(tr_ctx *ctx, tr_err (*fn)(void *arg),
                                       void *arg);

/* ---- memory; all of it ends with the incarnation at the latest ---- */

/*
 * Memory of this actor, zeroed by tr_alloc: as malloc, realloc, free and
 * strdup, but without memory, or beyond heap_limit, they panic. NULL is
 * allowed for old and memory.
 */
TR_API void *tr_alloc(tr_ctx *ctx, size_t size);
TR_API void *tr_realloc(tr_ctx *ctx, void *old, size_t size);
TR_API void tr_free(tr_ctx *ctx, void *memory);
TR_API char *tr_dup(tr_ctx *ctx, const char *text);
/* Memory, zeroed, that lives until the handler returns. */
TR_API void *tr_scratch(tr_ctx *ctx, size_t size);
/* Formatted text that lives until the handler returns. */
TR_API char *tr_textf(tr_ctx *ctx, const char *format, ...) TR_PRINTF(2, 3);
/* Runs close(object) at stop or restart, newest first. */
TR_API void tr_on_end(tr_ctx *ctx, void (*close)(void *object), void *object);

/* ---- state ---- */

/*
 * Saves *next and, only when that is durable, copies it to *self. Waits.
 * Errors: TR_ESTORAGE, TR_EFENCED, TR_EUNKNOWN (the actor reloads before its
 * next message); ended. *self is then unchanged.
 */
TR_API TR_NODISCARD tr_err tr_persist(tr_ctx *ctx, void *self, const void *next,
                                      const char *site);
/* Behind a handler of TR_ON_REMINDER, which calls it. Returns err. */
TR_API tr_err tr_reminded(tr_ctx *ctx, const void *m, tr_err err);

TR_END_DECLS

#ifndef __cplusplus

/* What the library itself sends; handled with TR_ON like any other. */
TR_MESSAGE(tr_timeout);
TR_MESSAGE(tr_ask_failed, (tr_ref, to), (uint32_t, err), (const char *, text));

/* ---- defining ---- */

/* Handles T with tr_err fn(tr_ctx *, S *, const T *). */
#define TR_ON(T, fn) (TRon, T, fn, 0)
/*
 * Handles T with tr_err fn(tr_ctx *, const S *, const T *), which may run
 * beside other readers while those are parked.
 */
#define TR_ON_READ(T, fn) (TRread, T, fn, TR_READ_ONLY)
/* As TR_ON_READ, and beside a parked writer too. */
#define TR_ON_INTERLEAVE(T, fn) (TRread, T, fn, TR_ALWAYS_INTERLEAVE)
/* As TR_ON, but an idle virtual actor that handles it stays idle. */
#define TR_ON_QUIET(T, fn) (TRon, T, fn, TR_SUPPRESS_KEEP_ALIVE)
/* As TR_ON, but what another node sends is refused with TR_EFOREIGN. */
#define TR_ON_LOCAL(T, fn) (TRon, T, fn, TR_LOCAL_ONLY)
/*
 * As TR_ON, for messages that tr_remind may send as well (storage.h). They lie
 * in the store: fields may be appended to T, nothing else.
 */
#define TR_ON_REMINDER(T, fn) (TRremind, T, fn, TR_REMINDER)
/* What no TR_ON names: with tr_err fn(tr_ctx *, S *, const tr_msg *). */
#define TR_ON_ANY(fn) (TRany, any, fn, 0)
/* A moment of its life: a member of tr_actor_def, with S * for void *. */
#define TR_HOOK(hook, fn) (TRhook, hook, fn, 0)

/*
 * The state is made of events (storage.h). fn: void fn(S *, const E *), which
 * changes *self as the event says and does nothing else; it may let fields of
 * *self point into the event. TR_APPLY_CTX: void fn(tr_ctx *, S *, const E *),
 * which may take memory for fields of *self from tr_scratch and tr_textf.
 */
#define TR_APPLY(E, fn)     (TRapply, E, fn, 0)
#define TR_APPLY_CTX(E, fn) (TRapplyctx, E, fn, 0)
/* Beside TR_APPLY: the state is stored after so many events; default 100. */
#define TR_SNAPSHOT_EVERY(n) (TRset, snapshot_every, n, 0)
/* Beside TR_APPLY: events older than a snapshot are dropped, not kept. */
#define TR_TRIM_EVENTS (TRset, trim_events, true, 0)

/* An actor kind (or behaviour) A with state S, private to this file. */
#define TR_ACTOR(...) TR_ACTOR_(static, __VA_ARGS__, )
/* As TR_ACTOR, for other files, which say TR_ACTOR_DECLARE(A, S). */
#define TR_ACTOR_PUBLIC(...) TR_ACTOR_(, __VA_ARGS__, )
#define TR_ACTOR_DECLARE(A, S)                                                 \
    typedef S A##_tr_state;                                                    \
    extern const tr_actor_def A
/* To name A before its TR_ACTOR, as behaviours that lead to each other do. */
#define TR_ACTOR_FORWARD(A, S)                                                 \
    typedef S A##_tr_state;                                                    \
    static const tr_actor_def A

/* ---- calls; __extension__ quiets gcc -Wpedantic about tr_from ---- */

#define tr_tell(from, to, ...) TR_SEND_(tr_tell, from, to, __VA_ARGS__, )
#define tr_try_tell(from, to, ...)                                             \
    TR_SEND_(tr_try_tell, from, to, __VA_ARGS__, )
#define TR_SEND_(verb, from, to, T, ...)                                       \
    __extension__(verb)((from), (to), &T##_tr_type, &(const T){__VA_ARGS__})
#define tr_tell_urgent(from, to, priority, ...)                                \
    TR_URGENT_(from, to, priority, __VA_ARGS__, )
#define TR_URGENT_(from, to, priority, T, ...)                                 \
    __extension__(tr_tell_urgent)((from), (to), (priority), &T##_tr_type,      \
                                  &(const T){__VA_ARGS__})

#define tr_ask(from, to, out, timeout, ...)                                    \
    TR_ASK_(from, to, out, timeout, __VA_ARGS__, )
#define TR_ASK_(from, to, out, timeout, T, ...)                                \
    __extension__(tr_ask)((from), (to), TR_OUT_(T, out), (timeout),            \
                          &T##_tr_type, &(const T){__VA_ARGS__}, TR_HERE)

#define tr_async(ctx, to, timeout, ...)                                        \
    TR_ASYNC_(ctx, to, timeout, __VA_ARGS__, )
#define TR_ASYNC_(ctx, to, timeout, T, ...)                                    \
    __extension__(tr_async)(TR_CTX(ctx), (to), (timeout), TR_ASKED_(T),        \
                            &(const T){__VA_ARGS__})
#define tr_await(ctx, future, T, out)                                          \
    (tr_await)(TR_CTX(ctx), (future), &T##_tr_type, TR_OUT_(T, out), TR_HERE)

/* then takes void pointers: a typed one would need a cast of the function. */
#define tr_ask_then(ctx, to, timeout, then, ...)                               \
    TR_THEN_(ctx, to, timeout, then, __VA_ARGS__, )
#define TR_THEN_(ctx, to, timeout, then, T, ...)                               \
    __extension__(tr_ask_then)(TR_CTX(ctx), (to), (timeout), (then),           \
                               TR_ASKED_(T), &(const T){__VA_ARGS__})
#define tr_ask_pipe(ctx, to, timeout, ...)                                     \
    TR_PIPE_(ctx, to, timeout, __VA_ARGS__, )
#define TR_PIPE_(ctx, to, timeout, T, ...)                                     \
    __extension__(tr_ask_pipe)(TR_CTX(ctx), (to), (timeout), TR_ASKED_(T),     \
                               &(const T){__VA_ARGS__})

/* Through a TR_PROTOCOL ref. */
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
 * Leaves the handler if the call gives an error, and refuses m with it: the
 * asker is told, the actor does not fail. The asker's tr_error_text has the
 * call and what was known of its error; errors that only the runtime may send
 * become TR_EFAILED, as in tr_refuse, and are named in the text.
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
/* In a handler: a condition that does not hold is a panic. */
#define TR_ASSERT(ctx, cond)                                                   \
    ((cond) ? (void)0                                                          \
            : (tr_panic)(TR_CTX(ctx), TR_HERE, "assertion failed: %s", #cond))
#define tr_error_text(from) __extension__(tr_error_text)(from)

#define tr_spawn(from, ...) TR_SPAWN_(from, __VA_ARGS__, )
#define TR_SPAWN_(from, A, ...)                                                \
    __extension__(tr_spawn)((from), TR_DEF(A),                                 \
                            TR_OPTIONS_ANY_(tr_spawn_options, __VA_ARGS__))
/* The first state of an actor of kind A, as a spawn option. */
#define TR_INIT(A, ...)                                                        \
    .init = &(const A##_tr_state){__VA_ARGS__}, .init_type = A.state,          \
    .init_size = sizeof(A##_tr_state)

#define tr_started(from, ref, timeout)                                         \
    __extension__(tr_started)((from), (ref), (timeout))
#define tr_stop(from, ref)   __extension__(tr_stop)((from), (ref))
#define tr_poison(from, ref) __extension__(tr_poison)((from), (ref))
#define tr_kill(from, ref)   __extension__(tr_kill)((from), (ref))
#define tr_join(from, ref, timeout, result, state)                             \
    __extension__(tr_join)((from), (ref), (timeout), (result), (state))
#define tr_state_of(from, ref)    __extension__(tr_state_of)((from), (ref))
#define tr_handle_hold(from, ref) __extension__(tr_handle_hold)((from), (ref))
#define tr_handle_drop(from, ref) __extension__(tr_handle_drop)((from), (ref))
#define tr_lookup(from, path)     __extension__(tr_lookup)((from), (path))
#define tr_become(ctx, self, B)                                                \
    (tr_become)(TR_CTX(ctx), _Generic((self), B##_tr_state *: &(B)))

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
#endif
