/*
 * base.h - what every other header needs: errors, time, names of things.
 *
 * Three rules explain every call of the library.
 *  1. The first argument says who acts (tr_from): `ctx` inside a handler,
 *     `sys` on an outside thread, `probe` in a test. A call that waits parks
 *     the handler in the first case and blocks the thread in the second.
 *  2. A macro has the name of the exported function it calls; (tr_tell)(...)
 *     or another language reaches the function. Macros add types, sizes,
 *     file:line. Nothing else.
 *  3. Pointer parameters are borrowed; messages and their text are copied by
 *     the send; what a handler is given lives until the handler returns.
 *
 * Options structs begin with `size`, their own sizeof, so that they can grow.
 * A zero field means the default. C fills them inside the call; C++ sets
 * `size` and the fields by hand.
 *
 * Threads: a function taking tr_ctx runs on that actor's turn only. All
 * others may be called from any thread.
 * Ownership: nothing here is owned; the texts are static.
 */
#ifndef TROUPE_BASE_H
#define TROUPE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of these headers; that of the library is tr_version(). */
#define TR_VERSION_MAJOR 0
#define TR_VERSION_MINOR 1
#define TR_VERSION_PATCH 0

#ifdef __cplusplus
#define TR_BEGIN_DECLS extern "C" {
#define TR_END_DECLS   }
#else
#define TR_BEGIN_DECLS
#define TR_END_DECLS
#endif

#define TR_API          __attribute__((visibility("default")))
#define TR_NODISCARD    __attribute__((warn_unused_result))
#define TR_NORETURN     __attribute__((noreturn))
#define TR_PRINTF(f, a) __attribute__((format(printf, f, a)))

#define TR_STR_(x) #x
#define TR_STR(x)  TR_STR_(x)
/* Where it is written, "bank.c:42": the `site` of calls that take one. */
#define TR_HERE __FILE__ ":" TR_STR(__LINE__)
/* The same as text, "0.1.0". */
#define TR_VERSION                                                             \
    TR_STR(TR_VERSION_MAJOR)                                                   \
    "." TR_STR(TR_VERSION_MINOR) "." TR_STR(TR_VERSION_PATCH)

/* name, number, text. Appended only: numbers travel on the wire. */
#define TR_ERRORS(X)                                                           \
    X(OK, 0, "no error")                                                       \
    X(EINVAL, 1, "invalid argument")                                           \
    X(ENOMEM, 2, "out of memory")                                              \
    X(EEXIST, 3, "already exists")                                             \
    X(ENOENT, 4, "no such actor, name or key")                                 \
    X(ETIMEDOUT, 5, "timed out")                                               \
    X(EFULL, 6, "mailbox full")                                                \
    X(ESTOPPED, 7, "actor is stopping or gone")                                \
    X(EKILLED, 8, "actor was killed")                                          \
    X(ERESTARTED, 9, "actor was restarted")                                    \
    X(ECLOSED, 10, "system is closing or closed")                              \
    X(EDEADLOCK, 11, "waiting would close a cycle")                            \
    X(ENOREPLY, 12, "handler returned without replying")                       \
    X(EUNHANDLED, 13, "actor does not take this message")                      \
    X(EFAILED, 14, "handler failed")                                           \
    X(EPANIC, 15, "handler panicked")                                          \
    X(ECRASHED, 16, "isolated process crashed")                                \
    X(EWOULDBLOCK, 17, "cannot wait here")                                     \
    X(EUNKNOWN, 18, "outcome unknown")                                         \
    X(EFENCED, 19, "another owner has taken over")                             \
    X(ESTORAGE, 20, "storage failed")                                          \
    X(ESCHEMA, 21, "schemas differ")                                           \
    X(EUNREACHABLE, 22, "node not reachable")                                  \
    X(ELIMIT, 23, "a configured limit was reached")                            \
    X(EFOREIGN, 24, "reference belongs to another system")                     \
    X(EGONE, 25, "actor is gone")                                              \
    X(EIO, 26, "input or output failed")                                       \
    X(EUSER, 1000, "an error of the program's own") /* and all above */

typedef enum tr_err {
#define TR_X(name, number, text) TR_##name = number,
    TR_ERRORS(TR_X)
#undef TR_X
} tr_err;

typedef int64_t tr_nanos;  // a span of time; 0 = the default, < 0 is invalid
/* Spans of time: so many milliseconds, seconds, minutes; without end. */
#define TR_MS(n)      ((tr_nanos)((n) * INT64_C(1000000)))
#define TR_SECONDS(n) ((tr_nanos)((n) * INT64_C(1000000000)))
#define TR_MINUTES(n) TR_SECONDS((n) * 60)
#define TR_FOREVER    INT64_MAX

typedef struct tr_system tr_system;    // a runtime; several share a process
typedef struct tr_ctx tr_ctx;          // an actor's view of itself, one turn
typedef struct tr_probe tr_probe;      // an outside mailbox, for tests, bridges
typedef struct tr_msg tr_msg;          // a message in its envelope
typedef struct tr_storage tr_storage;  // a state store
typedef struct tr_sim tr_sim;          // a simulated world
typedef struct tr_type tr_type;
typedef struct tr_actor_def tr_actor_def;
typedef struct tr_log_record tr_log_record;

/*
 * An actor's address: copy, compare, send, keep for ever; never released.
 * Members are private. A stale one, and one of another or closed system, gives
 * a dead letter. {0} is TR_NOBODY.
 */
typedef struct tr_ref {
    uint64_t cell;  // 48-bit cell address, 16-bit tag of its system
    uint64_t id;    // never reused; an error number when cell is 0
} tr_ref;

#ifndef __cplusplus
/* The ref of no actor; what is sent to it is a dead letter. */
#define TR_NOBODY ((tr_ref){0})
#else
#define TR_NOBODY (tr_ref{0, 0})
#endif

/* Who acts: passed as one pointer, told apart by the object's magic. */
#ifdef __cplusplus
struct tr_from {
    void *any;
    tr_from(tr_ctx *ctx) : any(ctx)
    {
    }
    tr_from(tr_system *sys) : any(sys)
    {
    }
    tr_from(tr_probe *probe) : any(probe)
    {
    }
};
#else
typedef union tr_from {
    tr_ctx *ctx;
    tr_system *sys;
    tr_probe *probe;
} tr_from __attribute__((transparent_union));
#endif

TR_BEGIN_DECLS

/* TR_VERSION of the library that is linked; static. */
TR_API const char *tr_version(void);

/*
 * The text of an error, and its name as the program writes it; static. Both
 * accept any number.
 */
TR_API const char *tr_strerror(tr_err err);
TR_API const char *tr_errname(tr_err err);
/*
 * True if a request that ended with err was certainly not run: safe to retry
 * or to undo. Only the runtime makes such errors (tr_refuse turns them into
 * TR_EFAILED), so they cannot be mistaken for a handler's answer.
 */
TR_API bool tr_undelivered(tr_err err);

/* Reports a failed check with file:line and ends the process. */
TR_API TR_NORETURN void tr_abort(const char *site, const char *what);
/* How many texts for tr_error_text outside this thread has got so far. */
TR_API uint64_t tr_error_mark(void);
/*
 * Reports err with file:line, and with what tr_error_text has to say about it
 * if that is newer than the mark; ends the process.
 */
TR_API TR_NORETURN void tr_must_fail(const char *site, tr_err err,
                                     uint64_t mark);

TR_END_DECLS

/* In a function returning tr_err: leaves it with the error, if there is one. */
#define TR_TRY(...)                                                            \
    do {                                                                       \
        tr_err tr_try_ = (__VA_ARGS__);                                        \
        if (tr_try_ != TR_OK) return tr_try_;                                  \
    } while (0)

/* In main and tests: an error ends the process with all that is known. */
#define TR_MUST(...)                                                           \
    do {                                                                       \
        uint64_t tr_mark_ = tr_error_mark();                                   \
        tr_err tr_must_ = (__VA_ARGS__);                                       \
        if (tr_must_ != TR_OK) tr_must_fail(TR_HERE, tr_must_, tr_mark_);      \
    } while (0)

#endif
