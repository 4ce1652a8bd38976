/*
 * base.h - what every other header needs: errors, time, refs, version.
 *
 * Three rules explain every call of the library.
 *
 * 1. The first argument says who makes the call (tr_from): `ctx` inside a
 *     handler, `sys` on an outside thread, `probe` in a test. A call that waits
 *     parks the handler if it is given `ctx`, and blocks the thread if it is
 *     given `sys` or `probe`.
 * 2. A macro has the name of the exported function that it calls. The macro
 *     adds types, sizes and file:line, nothing else. (tr_tell)(...), or another
 *     language, calls the function itself.
 * 3. Pointer parameters are borrowed. A send copies the message and its text.
 *     What a handler is given lives until the handler returns.
 *
 * An options struct begins with `size`, its own sizeof, so that later versions
 * can add fields. A field that is zero means the default. In C the call's macro
 * fills in the struct; in C++ the program sets `size` and the fields itself.
 *
 * Threads: a function that takes tr_ctx is called only in that actor's turn.
 * All other functions may be called from any thread.
 * Ownership: nothing in this header is owned; the texts are static.
 */
#ifndef TROUPE_BASE_H
#define TROUPE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of these headers. tr_version() is the version of the library. */
#define TR_VERSION_MAJOR 0
#define TR_VERSION_MINOR 1
#define TR_VERSION_PATCH 0

#if defined(__GNUC__) && !defined(__cplusplus)
/* In C a wrong pointer is an error, as in C++; it would be sent or called. */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#endif

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
/*
 * The place of this line as text, "bank.c:42": the `site` argument of a call.
 */
#define TR_HERE __FILE__ ":" TR_STR(__LINE__)
/* The version of these headers as text, "0.1.0". */
#define TR_VERSION                                                             \
    TR_STR(TR_VERSION_MAJOR)                                                   \
    "." TR_STR(TR_VERSION_MINOR) "." TR_STR(TR_VERSION_PATCH)

/*
 * All errors: name, number, text. Errors are only ever appended, because their
 * numbers travel between nodes.
 */
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
    X(ERESET, 27, "connection closed by the other side")                       \
    X(EUSER, 1000, "an error of the program's own") /* and larger */

typedef enum tr_err {
#define TR_X(name, number, text) TR_##name = number,
    TR_ERRORS(TR_X)
#undef TR_X
} tr_err;

/*
 * A span of time in nanoseconds. 0 means the default. A time-out below 0 is
 * over: the call returns TR_ETIMEDOUT at once. Any other span below 0 is
 * invalid.
 */
typedef int64_t tr_nanos;
/* Spans of time: n milliseconds, n seconds, n minutes, and without a limit. */
#define TR_MS(n)      ((tr_nanos)((n) * INT64_C(1000000)))
#define TR_SECONDS(n) ((tr_nanos)((n) * INT64_C(1000000000)))
#define TR_MINUTES(n) TR_SECONDS((n) * 60)
#define TR_FOREVER    INT64_MAX

typedef struct tr_system tr_system;    // a runtime; a process may have several
typedef struct tr_ctx tr_ctx;          // an actor's own view, for one turn
typedef struct tr_probe tr_probe;      // a mailbox outside any actor
typedef struct tr_msg tr_msg;          // a message with its sender and type
typedef struct tr_storage tr_storage;  // a state store
typedef struct tr_engine tr_engine;    // what a cluster agrees through
typedef struct tr_sim tr_sim;          // a simulated world
typedef struct tr_type tr_type;
typedef struct tr_actor_def tr_actor_def;
typedef struct tr_log_record tr_log_record;

/*
 * The address of an actor. A ref may be copied, compared, sent and kept for
 * ever, and is never released. Its members are private. Sending to an actor
 * that has ended, or with a ref of another system, makes a dead letter. {0} is
 * TR_NOBODY.
 */
typedef struct tr_ref {
    uint64_t cell;  // 48-bit cell address, 16-bit tag of its system
    uint64_t id;    // never reused; if cell is 0, an error number
} tr_ref;

#ifndef __cplusplus
/* The ref of no actor. What is sent to it becomes a dead letter. */
#define TR_NOBODY ((tr_ref){0})
#else
#define TR_NOBODY (tr_ref{0, 0})
#endif

/*
 * Who makes the call. It is passed as one pointer; the library tells the three
 * apart by a magic number in the object.
 */
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

/* Returns the TR_VERSION that the linked library was built with; static. */
TR_API const char *tr_version(void);

/*
 * Return the text of an error and its name ("TR_EINVAL"). Both are static and
 * accept any number.
 */
TR_API const char *tr_strerror(tr_err err);
TR_API const char *tr_errname(tr_err err);
/*
 * Returns true if a request that ended with err certainly did not run and will
 * not run, so that it is safe to retry it or to undo what led to it. Only the
 * runtime makes such errors: tr_refuse turns them into TR_EFAILED, so a handler
 * cannot answer with one. TR_EDEADLOCK is not one of them, because tr_await may
 * find a cycle after the request was sent.
 */
TR_API bool tr_undelivered(tr_err err);

/* Reports a failed check with file:line and ends the process. */
TR_API TR_NORETURN void tr_abort(const char *site, const char *what);
/*
 * Returns how many error texts (tr_error_text) this thread has got so far
 * outside of actors. TR_MUST passes the number to tr_must_fail.
 */
TR_API uint64_t tr_error_mark(void);
/*
 * Reports err with file:line and ends the process. The report includes
 * tr_error_text if that text is newer than the mark.
 */
TR_API TR_NORETURN void tr_must_fail(const char *site, tr_err err,
                                     uint64_t mark);

TR_END_DECLS

/*
 * Returns from the function with the error of the call, if it has one. For
 * functions that return tr_err.
 */
#define TR_TRY(...)                                                            \
    do {                                                                       \
        tr_err tr_try_ = (__VA_ARGS__);                                        \
        if (tr_try_ != TR_OK) return tr_try_;                                  \
    } while (0)

/*
 * Ends the process with a report if the call has an error. For main and tests.
 */
#define TR_MUST(...)                                                           \
    do {                                                                       \
        uint64_t tr_mark_ = tr_error_mark();                                   \
        tr_err tr_must_ = (__VA_ARGS__);                                       \
        if (tr_must_ != TR_OK) tr_must_fail(TR_HERE, tr_must_, tr_mark_);      \
    } while (0)

/*
 * Calls and ignores the error, such as that of a last tr_write to a connection
 * that may be gone. A cast to void does not quiet gcc.
 */
#define TR_IGNORE(...)                                                         \
    do {                                                                       \
        tr_err tr_ignored_ = (__VA_ARGS__);                                    \
        (void)tr_ignored_;                                                     \
    } while (0)

#endif
