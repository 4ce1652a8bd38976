/*
 * system.h - the runtime: opening, closing, dispatchers, events, routers.
 *
 * A system owns its actors, its worker threads and the tree of its actors:
 * /user for the program's actors, /system for the library's, /temp for
 * temporary actors (tr_spawn_temp) and outside threads that wait, /deadLetters.
 * Several systems may be open in one process; they share nothing.
 *
 * The event stream passes what the library and the program publish to
 * subscribers, as ordinary messages. A publisher never waits for a subscriber:
 * a subscriber that has 32768 messages waiting (tr_fan_out.limit) misses the
 * event, the event is counted as lost (tr_metrics_snapshot.events_lost), and
 * the log says who misses events, once a second at most.
 *
 * Threads: a function that takes tr_ctx is called only in that actor's turn.
 * All other functions may be called from any thread, except that
 * tr_system_close and tr_system_run must not be called from a handler.
 * Ownership: the caller that opens a system owns it. It closes the system when
 * no other thread uses it any more. Refs that outlive their system are
 * harmless.
 */
#ifndef TROUPE_SYSTEM_H
#define TROUPE_SYSTEM_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/message.h>
#include <troupe/supervise.h>

typedef struct tr_thread tr_thread;  // a thread started by the program

typedef struct tr_system_options {
    size_t size;
    const char *name;
    const char *ns;             // namespace of virtual actors
    uint32_t workers;           // default: CPUs
    uint32_t blocking_threads;  // most threads of tr_blocking; default 64
    const tr_supervision *supervision;       // of actors without their own
    const tr_supervision *user_supervision;  // the same, for children of /user
    size_t memory_budget;  // bytes of messages and actors; default: no limit
    uint32_t soft_limit;   // above this depth senders are slowed; default 4096
    uint32_t max_parked;   // most handlers that wait at once; default 16384
    size_t stack_size;  // bytes for each handler that waits: 16 KiB to 1 GiB,
                        // default 256 KiB
    tr_nanos ask_timeout;    // default 30 s
    tr_nanos close_timeout;  // default 30 s
    bool poll;               // no worker threads: tr_poll runs the actors
    const void *world;       // tr_sim_world(sim); default: the real one
    int log_level;           // lowest tr_log_level that is logged; default: all
    /*
     * Gets each log record, borrowed, on the thread that logs. Default: the
     * record is written to standard error.
     */
    void (*log)(void *user, const tr_log_record *record);
    void *log_user;
    uint32_t virtual_names;  // most names of virtual actors; default 16 Mi
    const tr_interceptor *const *interceptors;  // of all actors of the program
    /*
     * A handler that neither returns nor waits for this long is reported once,
     * as the event tr_stuck and in the log. Checked every 10 ms, on real
     * threads only. Default 100 ms; TR_FOREVER: never reported.
     */
    tr_nanos handler_limit;
    /*
     * How many of the newest dead letters are kept for tr_dead_letters, at most
     * a million; default 1,024.
     */
    uint32_t dead_letters;
    /*
     * The actor /user itself, instead of the library's: TR_DEF(kind), with
     * TR_INIT(kind, ...) as further options. It is the parent of all actors
     * that are spawned outside of handlers, and hears of their failures and
     * ends (decide, child_terminated); user_supervision is the policy for them.
     * It may have started before tr_system_open returns. The system ends when
     * it ends, with its failure if it fails; it is never restarted.
     */
    const tr_actor_def *guardian;
    const void *init;
    const tr_type *init_type;
    size_t init_size;
} tr_system_options;

/* Bytes for the text of the failure that ended a system; a longer one is cut. */
enum { TR_FAILURE_TEXT_SIZE = 256 };

/*
 * What tr_system_close_report reports. The caller sets size to
 * sizeof(tr_close_report).
 */
typedef struct tr_close_report {
    size_t size;
    uint32_t stopped;       // actors that ended in time since the end began
    uint32_t forced;        // actors that had to be forced
    uint32_t zombies;       // of the forced: their handler never returned
    uint64_t dead_letters;  // since the system was opened
    tr_err failure;         // that ended the system, or TR_OK
    char failure_text[TR_FAILURE_TEXT_SIZE];  // of it, or ""
} tr_close_report;

typedef enum tr_dispatch_kind {
    TR_DISPATCH_PARALLEL,    // workers that steal work from each other
    TR_DISPATCH_PINNED,      // one thread for each actor
    TR_DISPATCH_CONCURRENT,  // one thread for all its actors
    TR_DISPATCH_BLOCKING,    // threads whose handlers may block
} tr_dispatch_kind;

typedef struct tr_dispatcher_options {
    size_t size;
    tr_dispatch_kind kind;
    uint32_t threads;  // most threads; default: workers of the system
    /*
     * Starts a thread of the program's own, which calls run(arg), in place of
     * one of the library's: with a priority, CPUs or a runtime of its own. run
     * runs the actors of the dispatcher and returns when the system is closed;
     * tr_system_close waits for that. start is called by tr_dispatcher_add, once
     * for each thread; its error ends tr_dispatcher_add. Not for
     * TR_DISPATCH_PINNED. Default: the library starts the threads. A polled or
     * simulated system does not call it.
     */
    tr_err (*start)(void *user, void (*run)(void *arg), void *arg);
    void *start_user;
} tr_dispatcher_options;

/*
 * What one slow subscriber may do to those who publish: nothing. If it has
 * `limit` messages waiting, overflow decides about the next one:
 * TR_OVERFLOW_FAIL and TR_OVERFLOW_DROP_NEW: the subscriber misses it;
 * TR_OVERFLOW_STOP: the subscriber misses it and is stopped. The others are
 * refused with TR_EINVAL: for TR_OVERFLOW_DROP_OLD spawn the subscriber with a
 * mailbox_limit and that overflow.
 */
typedef struct tr_fan_out {
    size_t size;
    uint32_t limit;  // messages in the subscriber's mailbox; default 32768
    tr_overflow overflow;
} tr_fan_out;

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
    uint32_t count;     // of its workers; default: as the system has threads
    const char *field;  // whose value is hashed, for TR_HASH_OF_FIELD
    const tr_spawn_options *worker;  // of each worker; borrowed
    /*
     * Most messages that wait at one worker; default: no limit. A full worker
     * is passed over, unless all are full, or TR_BROADCAST or TR_HASH_OF_FIELD
     * names it: then the message is a dead letter (TR_DEAD_FULL), a request
     * gets TR_EFULL, and TR_OVERFLOW_STOP also stops the worker.
     */
    uint32_t limit;
    tr_overflow overflow;  // FAIL, DROP_NEW or STOP, as in tr_fan_out
} tr_router_options;

/*
 * Why a message became a dead letter: name, number, text. Reasons are only ever
 * appended.
 */
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

/*
 * Opens a system, which the caller owns (tr_system_close). On failure *out is
 * NULL, and tr_error_text says which option is wrong.
 * Errors: TR_EINVAL (an option), TR_ENOMEM, TR_ELIMIT (no more threads).
 */
TR_API TR_NODISCARD tr_err tr_system_open(tr_system **out,
                                          const tr_system_options *options);
/*
 * Closes a system: stops all its actors, waits for them and frees the system,
 * which must not be used any more, whatever is returned. TR_ETIMEDOUT means
 * that actors did not end in time and were forced; if a handler never returned,
 * the memory of the system stays allocated. timeout 0 means the system's
 * close_timeout; below 0 the actors get no time. If the system has ended
 * because of a failure, the error of that failure is returned, also if actors
 * were forced, and tr_error_text(NULL) has its text; so a program can end with
 * `return tr_system_close(sys, 0) != TR_OK`. Calling it from a handler fails a
 * check.
 * Errors: TR_ETIMEDOUT, or the error of the failure that ended the system.
 */
TR_API tr_err tr_system_close(tr_system *sys, tr_nanos timeout);
/* Closes a system as tr_system_close does, and fills in *report. */
TR_API tr_err tr_system_close_report(tr_system *sys, tr_nanos timeout,
                                     tr_close_report *report);
/*
 * Registers fn(arg), which tr_system_close calls on its own thread when the
 * last actor is gone; the function registered last is called first. It is for
 * things that belong to the system and must outlive its actors, such as a
 * store. It is not called if the system's memory stays allocated because a
 * handler never returned.
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_system_on_closed(tr_system *sys,
                                               void (*fn)(void *arg),
                                               void *arg);
/*
 * Returns the world that this system lives in, for options that take a world;
 * borrowed.
 */
TR_API const void *tr_system_world(const tr_system *sys);
/*
 * Blocks until SIGTERM, SIGINT, tr_system_terminate, or a failure that ends the
 * system (TR_ESCALATE from an actor of /user), and begins to stop all actors.
 * Any thread may call it; the signals end it in whatever thread it was called,
 * and are as before when it has returned.
 * The caller then calls tr_system_close.
 * Errors: the error of the failure that ends the system; tr_error_text has its
 * text. TR_EWOULDBLOCK (called inside a handler of the system).
 */
TR_API tr_err tr_system_run(tr_system *sys);
/*
 * Begins to stop all actors and returns at once. Any thread and any handler may
 * call it, more than once.
 */
TR_API void tr_system_terminate(tr_system *sys);
/*
 * Returns a descriptor for another event loop: when it is readable, call
 * tr_poll. Returns -1 if the system was not opened with .poll.
 */
TR_API int tr_poll_fd(tr_system *sys);
/*
 * Runs the actors that are ready, for at most budget (0: a default of some
 * hundred microseconds). One thread at a time, and not from a handler (checks).
 * Errors: TR_EINVAL (the system was not opened with .poll).
 */
TR_API TR_NODISCARD tr_err tr_poll(tr_system *sys, tr_nanos budget);
/*
 * Lets this actor take part in the end of the system: when the end begins,
 * before /user is stopped, it gets a tr_termination_hook while everything still
 * runs. /user is stopped when all such actors have called tr_termination_done
 * or have ended; they have 5 s together, at most a quarter of the close
 * time-out. An actor that is not below /user (a virtual actor, one of
 * tr_top_level) gets the message when /user has ended. The registration ends
 * with the actor, not with a restart.
 * Errors: TR_ENOMEM, TR_ECLOSED (the end has begun).
 */
TR_API TR_NODISCARD tr_err tr_on_terminate(tr_ctx *ctx);
TR_API void tr_termination_done(tr_ctx *ctx);

/* ---- threads and places ---- */

/*
 * Adds a dispatcher: a named set of threads for tr_spawn_options.dispatcher. It
 * ends with the system. A polled or simulated system accepts the name, but runs
 * all actors on its one thread.
 * Errors: TR_EINVAL, TR_EEXIST (the name), TR_ELIMIT (64 dispatchers),
 * TR_ENOMEM, TR_ECLOSED; those of options->start.
 */
TR_API TR_NODISCARD tr_err tr_dispatcher_add(
    tr_system *sys, const char *name, const tr_dispatcher_options *options);
/*
 * Starts an outside thread that runs fn(arg). The caller owns *out
 * (tr_thread_join). In a simulation the thread belongs to the node of sys: if
 * the node is killed, the thread stops where it is and never continues.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_API TR_NODISCARD tr_err tr_thread_start(tr_system *sys, tr_thread **out,
                                           void (*fn)(void *arg), void *arg);
/*
 * Waits until the thread's function has returned, then frees the thread. In a
 * simulation it also returns if the thread was killed with its node; then the
 * function has not finished, and what it was to set may be unset. sys may be
 * the system of the killed node.
 */
TR_API void tr_thread_join(tr_system *sys, tr_thread *thread);
/*
 * Spawns an actor beside /user, with the path /name: for a part of the program
 * that the others need until they have ended. It and its children go on when
 * /user is stopped; they end after that, the youngest top level first. Its
 * supervision is that of tr_spawn; if its failure is escalated, the system ends
 * with that failure. Possible only before the first tr_lookup, tr_system_run or
 * tr_poll. On failure it returns nobody, with the errors of tr_spawn; also
 * TR_EINVAL (no name, or a reserved one), TR_ECLOSED (too late; logged),
 * TR_ELIMIT (32 top levels).
 */
TR_API tr_ref tr_top_level(tr_system *sys, const tr_actor_def *def,
                           const tr_spawn_options *options);

/*
 * Spawns a temporary actor: a child of /temp, not of the caller, so it goes on
 * when the caller ends or restarts. For work that belongs to no other actor,
 * such as collecting the answers to one request; it stops itself when that is
 * done. It is never restarted: a failure stops it, alone, unless its policy
 * says TR_RESUME or TR_ESCALATE. With .watch the caller watches it. Those that
 * are left when the system ends are stopped after /user. Otherwise as tr_spawn,
 * with its errors; a handler may pass ctx, any thread sys.
 */
TR_API tr_ref tr_spawn_temp(tr_from from, const tr_actor_def *def,
                            const tr_spawn_options *options);

/* ---- events and topics ---- */

/*
 * Subscribe this actor to events of a type, unsubscribe it, and publish an
 * event. Subscribers get the event as a message of that type. A subscription
 * ends when the actor stops or restarts.
 */
TR_API void tr_subscribe(tr_ctx *ctx, const tr_type *type);
TR_API void tr_unsubscribe(tr_ctx *ctx, const tr_type *type);
/*
 * Subscribes as tr_subscribe does, with a limit and overflow of its own; if the
 * actor has subscribed already, changes them.
 * Errors: TR_EINVAL (an overflow that makes no sense here), TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_subscribe_with(tr_ctx *ctx, const tr_type *type,
                                             const tr_fan_out *options);
TR_API void tr_publish(tr_from from, const tr_type *type, const void *payload);
/*
 * Registers fn, which is called for each event of the type, one at a time,
 * outside of any actor of the program, until the system is closed. The event is
 * borrowed.
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
typedef void (*tr_event_fn)(void *user, const tr_type *type, const void *event);
TR_API TR_NODISCARD tr_err tr_on_event(tr_system *sys, const tr_type *type,
                                       tr_event_fn fn, void *user);

/*
 * Join a topic, leave it, and publish to it: every actor that has joined the
 * topic gets the message. An actor leaves when it stops or restarts.
 * Errors: TR_EINVAL (an empty name), TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_topic_join(tr_ctx *ctx, const char *topic);
TR_API void tr_topic_leave(tr_ctx *ctx, const char *topic);
/*
 * Joins as tr_topic_join does, with a limit and overflow of its own; if the
 * actor has joined already, changes them.
 * Errors: TR_EINVAL (an empty name, or an overflow that makes no sense here),
 * TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_topic_join_with(tr_ctx *ctx, const char *topic,
                                              const tr_fan_out *options);
TR_API void tr_topic_publish(tr_from from, const char *topic,
                             const tr_type *type, const void *payload);

/* Returns the text of a tr_dead_letter.reason; static; accepts any number. */
TR_API const char *tr_dead_reason_text(uint32_t reason);
/*
 * Returns the message that became a dead letter (tr_msg_type, tr_msg_payload),
 * or NULL if it is not there: it was the error of a request, or there was no
 * memory for a copy. `message` is that of a tr_dead_letter event which the
 * library has published; the result is borrowed for as long as the event, in a
 * handler until it returns. In C the macro takes the event itself.
 */
TR_API const tr_msg *tr_dead_message(tr_blob message);

/* ---- routers ---- */

/*
 * Spawns a router: an actor with `count` workers as its children, which passes
 * each message and request on to one of them (TR_BROADCAST: to all). A worker
 * that ends is not replaced; the router ends with its last worker. A tr_resize
 * message changes the number of workers. On failure it returns nobody, with the
 * errors of tr_spawn.
 */
TR_API tr_ref tr_router(tr_from from, const tr_actor_def *worker,
                        const tr_router_options *options);

TR_END_DECLS

/*
 * Events that the library publishes; `at` is the time by tr_now. tr_lifecycle:
 * an actor has changed its state. tr_dead_letter: a message was not handled;
 * text is the reason, content the message, printed, and tr_dead_message the
 * message itself.
 * tr_unhandled: an actor has no handler for a type. tr_supervision_event: a
 * supervisor has decided on a failure.
 */
TR_MESSAGE(tr_lifecycle, (tr_ref, actor), (tr_ref, parent),
           (const char *, name), (uint32_t, state), (int64_t, at));
TR_MESSAGE(tr_dead_letter, (tr_ref, to), (tr_ref, sender), (const char *, type),
           (const char *, text), (uint32_t, reason), (int64_t, at),
           (const char *, content), (tr_blob, message));
TR_MESSAGE(tr_unhandled, (tr_ref, actor), (const char *, type));
TR_MESSAGE(tr_supervision_event, (tr_ref, child), (uint32_t, err),
           (uint32_t, directive), (const char *, text));
/* Published when a mailbox has grown above its soft limit. */
TR_MESSAGE(tr_overload, (tr_ref, actor), (uint32_t, depth));
/*
 * Published when a handler has neither returned nor waited for longer than its
 * handler_limit. type is that of its message ("a hook" if there is none);
 * since_ns is how long the handler has run, at is when it began.
 */
TR_MESSAGE(tr_stuck, (tr_ref, actor), (const char *, type), (int64_t, since_ns),
           (int64_t, at));
/* Sent to a router to change the number of its workers; at least one. */
TR_MESSAGE(tr_resize, (uint32_t, count));
/* Sent to actors that called tr_on_terminate when the system closes. */
TR_MESSAGE(tr_termination_hook);

#ifndef __cplusplus

#define tr_system_open(...) TR_SYSTEM_OPEN_(__VA_ARGS__, )
#define TR_SYSTEM_OPEN_(out, ...)                                              \
    (tr_system_open)((out), TR_OPTIONS(tr_system_options, __VA_ARGS__))
#define tr_dispatcher_add(sys, ...) TR_DISPATCHER_ADD_(sys, __VA_ARGS__, )
#define TR_DISPATCHER_ADD_(sys, name, ...)                                     \
    (tr_dispatcher_add)((sys), (name),                                         \
                        TR_OPTIONS(tr_dispatcher_options, __VA_ARGS__))

#define tr_top_level(sys, ...) TR_TOP_LEVEL_(sys, __VA_ARGS__, )
#define TR_TOP_LEVEL_(sys, A, ...)                                             \
    (tr_top_level)((sys), TR_DEF(A), TR_OPTIONS(tr_spawn_options, __VA_ARGS__))

#define tr_spawn_temp(from, ...) TR_SPAWN_TEMP_(from, __VA_ARGS__, )
#define TR_SPAWN_TEMP_(from, A, ...)                                           \
    __extension__(tr_spawn_temp)(                                              \
        (from), TR_DEF(A), TR_OPTIONS_ANY_(tr_spawn_options, __VA_ARGS__))

#define tr_subscribe(ctx, T)        (tr_subscribe)(TR_CTX(ctx), &T##_tr_type)
#define tr_unsubscribe(ctx, T)      (tr_unsubscribe)(TR_CTX(ctx), &T##_tr_type)
#define tr_subscribe_with(ctx, ...) TR_SUBSCRIBE_WITH_(ctx, __VA_ARGS__, )
#define TR_SUBSCRIBE_WITH_(ctx, T, ...)                                        \
    (tr_subscribe_with)(TR_CTX(ctx), &T##_tr_type,                             \
                        TR_OPTIONS(tr_fan_out, __VA_ARGS__))
#define tr_topic_join_with(ctx, ...) TR_TOPIC_JOIN_WITH_(ctx, __VA_ARGS__, )
#define TR_TOPIC_JOIN_WITH_(ctx, topic, ...)                                   \
    (tr_topic_join_with)(TR_CTX(ctx), (topic),                                 \
                         TR_OPTIONS(tr_fan_out, __VA_ARGS__))
#define tr_publish(from, ...) TR_PUBLISH_(from, __VA_ARGS__, )
#define TR_PUBLISH_(from, T, ...)                                              \
    __extension__(tr_publish)((from), &T##_tr_type, &(const T){__VA_ARGS__})
#define tr_dead_message(letter) (tr_dead_message)((letter)->message)
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
