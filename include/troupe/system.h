/*
 * system.h - the runtime: opening, closing, dispatchers, events, routers.
 *
 * A system owns its actors, its worker threads and its tree: /user for the
 * program's actors, /system for the library's, /temp for askers, /deadLetters.
 * Several systems may live in one process; they share nothing. Subscribers of
 * the event stream get what the library and the program publish as ordinary
 * messages; nobody waits for them: what one misses that has 32768 messages
 * waiting is counted as lost.
 *
 * Threads: a function taking tr_ctx runs on that actor's turn only. All
 * others may be called from any thread; close and run not from a handler.
 * Ownership: whoever opens a system owns it and closes it, after every thread
 * that uses it; refs that outlive it are harmless.
 */
#ifndef TROUPE_SYSTEM_H
#define TROUPE_SYSTEM_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/message.h>
#include <troupe/supervise.h>

typedef struct tr_thread tr_thread;  // an outside thread, real or simulated

typedef struct tr_system_options {
    size_t size;
    const char *name;
    const char *ns;                     // namespace of virtual actors
    uint32_t workers;                   // default: CPUs
    uint32_t blocking_threads;          // of tr_blocking, at most; default 64
    const tr_supervision *supervision;  // default for all actors
    const tr_supervision *user_supervision;  // of the /user guardian
    size_t memory_budget;    // of all mailboxes, bytes; default: none
    uint32_t soft_limit;     // mailbox depth that slows senders down
    uint32_t max_parked;     // waiting handlers; default 16384
    size_t stack_size;       // of a handler that waits; default 256 KiB
    tr_nanos ask_timeout;    // default 30 s
    tr_nanos close_timeout;  // default 30 s
    bool poll;               // no workers: tr_poll drives
    const void *world;       // tr_sim_world(sim); default: the real one
    int log_level;           // the lowest that is logged; default: all
    /* Gets each record, borrowed, on the thread that logs. Default: stderr. */
    void (*log)(void *user, const tr_log_record *record);
    void *log_user;
    uint32_t virtual_names;  // of virtual actors, at most; default 16 Mi
    const tr_interceptor *const *interceptors;  // around all handlers of yours
    /*
     * A handler that neither returns nor waits for so long is reported once,
     * as tr_stuck and in the log. Looked for every 10 ms, on real threads.
     * Default 100 ms; TR_FOREVER: never.
     */
    tr_nanos handler_limit;
} tr_system_options;

/* What closing had to do. The caller sets size to sizeof(tr_close_report). */
typedef struct tr_close_report {
    size_t size;
    uint32_t stopped;       // ended by themselves in time
    uint32_t forced;        // ended by us
    uint32_t zombies;       // of these, still in a handler that never returned
    uint64_t dead_letters;  // over the system's whole life
} tr_close_report;

typedef enum tr_dispatch_kind {
    TR_DISPATCH_PARALLEL,    // workers that steal from each other
    TR_DISPATCH_PINNED,      // a thread for each actor
    TR_DISPATCH_CONCURRENT,  // one thread for all its actors
    TR_DISPATCH_BLOCKING,    // threads that may block, as many as needed
} tr_dispatch_kind;

typedef struct tr_dispatcher_options {
    size_t size;
    tr_dispatch_kind kind;
    uint32_t threads;  // at most; default: by kind
} tr_dispatcher_options;

typedef enum tr_routing {
    TR_ROUND_ROBIN,
    TR_RANDOM,
    TR_LEAST_LOADED,
    TR_BROADCAST,
    TR_HASH_OF_FIELD,
} tr_routing;

typedef struct tr_router_options {
    size_t size;
    const char *name;
    tr_routing routing;
    uint32_t count;     // workers; default: CPUs
    const char *field;  // for TR_HASH_OF_FIELD
    const tr_spawn_options *worker;
} tr_router_options;

/* name, number, text: why a message was not handled. Appended only. */
#define TR_DEAD_REASONS(X)                                                     \
    X(NO_SUCH_ACTOR, 1, "no such actor")                                       \
    X(STOPPING, 2, "actor is stopping")                                        \
    X(FULL, 3, "mailbox full")                                                 \
    X(DROPPED_OLD, 4, "dropped for a newer message")                           \
    X(LATE, 5, "reply after its asker had gone on")                            \
    X(EXPIRED, 6, "request after its asker's time was over")                   \
    X(RESTARTED, 7, "actor was restarted")                                     \
    X(FOREIGN, 8, "reference belongs to another system")                       \
    X(CLOSED, 9, "system is closing or closed")                                \
    X(NO_MEMORY, 10, "out of memory")                                          \
    X(UNHANDLED, 11, "actor does not take this message")                       \
    X(DRAINED, 12, "left in the mailbox when the actor ended")                 \
    X(FAILED, 13, "handler failed")                                            \
    X(CANCELLED, 14, "cancelled before it was handled")                        \
    X(UNREACHABLE, 15, "its node cannot be reached")                           \
    X(UNKNOWN, 16, "its node was lost, perhaps after taking it")               \
    X(FORWARDED, 17, "passed on too often between nodes")

typedef enum tr_dead_reason {
#define TR_X(name, number, text) TR_DEAD_##name = number,
    TR_DEAD_REASONS(TR_X)
#undef TR_X
} tr_dead_reason;

TR_BEGIN_DECLS

/* ---- life ---- */

/* Opens a system. The caller owns *out. Errors: TR_EINVAL, TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_system_open(tr_system **out,
                                          const tr_system_options *options);
/*
 * Stops everything, waits, frees. Frees in every case; TR_ETIMEDOUT says that
 * some actors were forced. timeout 0 = the system's default. Not from a
 * handler (a check).
 */
TR_API tr_err tr_system_close(tr_system *sys, tr_nanos timeout);
/* As tr_system_close, and tells what it had to do. */
TR_API tr_err tr_system_close_report(tr_system *sys, tr_nanos timeout,
                                     tr_close_report *report);
/*
 * Calls fn(arg) when the system has been closed and its last actor is gone,
 * on the thread that closes it; the last one registered comes first. For what
 * belongs to the system and must outlive its actors, such as a store. Not
 * called for a system that is left behind. Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_system_on_closed(tr_system *sys,
                                               void (*fn)(void *arg),
                                               void *arg);
/* For the options that take a world: the one this system lives in; borrowed. */
TR_API const void *tr_system_world(const tr_system *sys);
/* Blocks until SIGTERM, SIGINT or tr_system_terminate. Then close. */
TR_API tr_err tr_system_run(tr_system *sys);
/* Begins to stop everything and returns; again and by anyone, too. */
TR_API void tr_system_terminate(tr_system *sys);
/* For a foreign event loop: readable means call tr_poll. */
TR_API int tr_poll_fd(tr_system *sys);
/*
 * Runs what is ready, for at most budget. One thread at a time, not from a
 * handler (checks). Errors: TR_EINVAL (not opened with .poll), TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_poll(tr_system *sys, tr_nanos budget);
/*
 * This actor takes part in the end of the system: after /user has ended it
 * gets a tr_termination_hook and has 5 s, at most until the close timeout, to
 * answer with tr_termination_done, or to end. Errors: TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_on_terminate(tr_ctx *ctx);
TR_API void tr_termination_done(tr_ctx *ctx);

/* ---- threads and places ---- */

/*
 * Names a set of threads for tr_spawn_options.dispatcher. It ends with the
 * system. Errors: TR_EINVAL, TR_EEXIST, TR_ELIMIT, TR_ENOMEM, TR_ECLOSED. A
 * polled or simulated system knows the name, but has one thread for all.
 */
TR_API TR_NODISCARD tr_err tr_dispatcher_add(
    tr_system *sys, const char *name, const tr_dispatcher_options *options);
/*
 * Runs fn(arg) on an outside thread, which under simulation belongs to the
 * process of sys in the simulated world: if that node is killed, the thread
 * stops wherever it is and never goes on. The caller owns *out.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_API TR_NODISCARD tr_err tr_thread_start(tr_system *sys, tr_thread **out,
                                           void (*fn)(void *arg), void *arg);
/*
 * Takes thread: waits until its function has returned, then frees it. Under
 * simulation it also returns when the thread has died with its node, without
 * the end of its function: what that was to set it may have left as it was.
 * sys may then be the node's dead system.
 */
TR_API void tr_thread_join(tr_system *sys, tr_thread *thread);
/*
 * Makes ref known as /name, beside /user. Only until the first tr_lookup,
 * tr_system_run or tr_poll. Errors: TR_EINVAL (not a name, or a reserved one),
 * TR_EEXIST, TR_ENOMEM, TR_ECLOSED (too late; logged).
 */
TR_API TR_NODISCARD tr_err tr_top_level(tr_system *sys, const char *name,
                                        tr_ref ref);

/* ---- events and topics ---- */

/* The event stream: subscribers get the published type as a message. */
TR_API void tr_subscribe(tr_ctx *ctx, const tr_type *type);
TR_API void tr_unsubscribe(tr_ctx *ctx, const tr_type *type);
TR_API void tr_publish(tr_from from, const tr_type *type, const void *payload);
/*
 * Calls fn for each event of the type, one at a time, outside any actor, until
 * the system is closed. The event is borrowed. Errors: TR_ENOMEM, TR_ECLOSED.
 */
typedef void (*tr_event_fn)(void *user, const tr_type *type, const void *event);
TR_API TR_NODISCARD tr_err tr_on_event(tr_system *sys, const tr_type *type,
                                       tr_event_fn fn, void *user);

/*
 * Every actor that has joined the topic gets what is published there.
 * An actor leaves when it stops or restarts. Errors: TR_EINVAL, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_topic_join(tr_ctx *ctx, const char *topic);
TR_API void tr_topic_leave(tr_ctx *ctx, const char *topic);
TR_API void tr_topic_publish(tr_from from, const char *topic,
                             const tr_type *type, const void *payload);

/* The text of a tr_dead_letter.reason; static; accepts any number. */
TR_API const char *tr_dead_reason_text(uint32_t reason);

/* ---- routers ---- */

/*
 * Spawns `count` workers behind one ref, their parent, which passes on what
 * it is told or asked. A worker that ends is not replaced; the router ends
 * with the last. A tr_resize changes their number. Failure as tr_spawn.
 */
TR_API tr_ref tr_router(tr_from from, const tr_actor_def *worker,
                        const tr_router_options *options);

TR_END_DECLS

#ifndef __cplusplus

/* Published by the library; `at` is tr_now. */
TR_MESSAGE(tr_lifecycle, (tr_ref, actor), (tr_ref, parent),
           (const char *, name), (uint32_t, state), (int64_t, at));
TR_MESSAGE(tr_dead_letter, (tr_ref, to), (tr_ref, sender), (const char *, type),
           (const char *, text), (uint32_t, reason), (int64_t, at));
TR_MESSAGE(tr_unhandled, (tr_ref, actor), (const char *, type));
TR_MESSAGE(tr_supervision_event, (tr_ref, child), (uint32_t, err),
           (uint32_t, directive), (const char *, text));
/* A mailbox has grown beyond its soft limit. */
TR_MESSAGE(tr_overload, (tr_ref, actor), (uint32_t, depth));
/*
 * A handler has not returned, nor waited, for longer than its handler_limit:
 * the type it handles ("a hook" if none), for how long, since when.
 */
TR_MESSAGE(tr_stuck, (tr_ref, actor), (const char *, type), (int64_t, since_ns),
           (int64_t, at));
/* Told to a router: it shall have so many workers, at least one. */
TR_MESSAGE(tr_resize, (uint32_t, count));
/* Sent to actors that called tr_on_terminate. */
TR_MESSAGE(tr_termination_hook);

#define tr_system_open(...) TR_SYSTEM_OPEN_(__VA_ARGS__, )
#define TR_SYSTEM_OPEN_(out, ...)                                              \
    (tr_system_open)((out), TR_OPTIONS(tr_system_options, __VA_ARGS__))
#define tr_dispatcher_add(sys, ...) TR_DISPATCHER_ADD_(sys, __VA_ARGS__, )
#define TR_DISPATCHER_ADD_(sys, name, ...)                                     \
    (tr_dispatcher_add)((sys), (name),                                         \
                        TR_OPTIONS(tr_dispatcher_options, __VA_ARGS__))

#define tr_subscribe(ctx, T)   (tr_subscribe)(TR_CTX(ctx), &T##_tr_type)
#define tr_unsubscribe(ctx, T) (tr_unsubscribe)(TR_CTX(ctx), &T##_tr_type)
#define tr_publish(from, ...)  TR_PUBLISH_(from, __VA_ARGS__, )
#define TR_PUBLISH_(from, T, ...)                                              \
    __extension__(tr_publish)((from), &T##_tr_type, &(const T){__VA_ARGS__})
#define tr_on_event(sys, T, fn, user)                                          \
    (tr_on_event)((sys), &T##_tr_type, (fn), (user))
#define tr_topic_publish(from, topic, ...)                                     \
    TR_TOPIC_PUBLISH_(from, topic, __VA_ARGS__, )
#define TR_TOPIC_PUBLISH_(from, topic, T, ...)                                 \
    __extension__(tr_topic_publish)((from), (topic), &T##_tr_type,             \
                                    &(const T){__VA_ARGS__})

#define tr_router(from, ...) TR_ROUTER_(from, __VA_ARGS__, )
#define TR_ROUTER_(from, A, ...)                                               \
    __extension__(tr_router)((from), TR_DEF(A),                                \
                             TR_OPTIONS(tr_router_options, __VA_ARGS__))

#endif /* !__cplusplus */
#endif
