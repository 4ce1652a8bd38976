/*
 * process.h - signals of the process, and child processes, in straight-line
 * code.
 *
 * A call that waits parks the handler; outside of handlers it blocks the
 * thread. A timeout of 0 is no limit. A timeout below 0 is over already: a call
 * that would wait returns TR_ETIMEDOUT.
 *
 * In a simulated world signals come from tr_sim_signal (sim.h). There are no
 * child processes in it: tr_process_start is refused with TR_EINVAL and a text.
 *
 * Threads: any; two calls that wait for the same object at the same time are
 * refused with TR_EEXIST.
 * Ownership: a tr_signals or tr_process belongs to the actor that opened or
 * started it and ends with that incarnation, if it was not closed before. One
 * that was made outside of actors belongs to the program, which closes it
 * before the system. It must not be used after its end.
 * Errors of all calls that wait: TR_ETIMEDOUT, TR_ECLOSED (closed meanwhile),
 * TR_EEXIST, TR_ENOMEM, TR_ELIMIT (no descriptor is left), TR_EFOREIGN (it
 * belongs to another system), TR_EWOULDBLOCK (`sys` inside a handler), TR_EIO;
 * in a handler an ended-wait error (actor.h).
 */
#ifndef TROUPE_PROCESS_H
#define TROUPE_PROCESS_H

#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/net.h>

typedef struct tr_signals tr_signals;  // signals that somebody waits for
typedef struct tr_process tr_process;  // a process that was started

/* Options of tr_process_start. */
typedef struct tr_process_options {
    size_t size;
    /*
     * Get the other end of a pipe: `in` is written to, `out` and `err` are
     * read. They are streams (net.h) of the caller. tr_stream_close of `in` is
     * the end of the child's input; tr_shutdown is not for pipes. Without `in`
     * the input is empty; without `out` or `err` the child writes where this
     * process writes.
     */
    tr_stream **in, **out, **err;
    bool merge;              // what it writes to `err` goes where `out` goes
    bool quiet;              // output without a pipe is thrown away
    const char *const *env;  // "NAME=value", then NULL; default: as here
    const char *folder;      // where it runs; default: where this one does
} tr_process_options;

/* How a child has ended. */
typedef struct tr_process_status {
    int code;    // its exit status
    int signal;  // that ended it; 0: it has exited by itself
} tr_process_status;

TR_BEGIN_DECLS

/*
 * Takes over signals of the process: tr_signals_open(ctx, &signals, SIGHUP,
 * SIGUSR1). Until it is closed, a signal does not do what it did before (its
 * default action, or a handler of the program), but is told to every
 * tr_signals that has it, and to tr_system_run. At most 64 in one process.
 * Errors: TR_EINVAL (no signal, or one that cannot be waited for: SIGKILL,
 * SIGSTOP, SIGABRT, and those that an instruction raises, such as SIGSEGV),
 * TR_ELIMIT.
 */
TR_API TR_NODISCARD tr_err tr_signals_open(tr_from from, tr_signals **out,
                                           const int *numbers, uint32_t count);
/*
 * Waits for a signal that has come since tr_signals_open and was not told yet.
 * One that comes several times before it is told may be told once.
 */
TR_API TR_NODISCARD tr_err tr_signals_wait(tr_from from, tr_signals *signals,
                                           tr_nanos timeout, int *number);
/*
 * Closes it; NULL is allowed. When nobody has a signal any more, it does again
 * what it did before. Calls that wait for it return TR_ECLOSED.
 */
TR_API void tr_signals_close(tr_from from, tr_signals *signals);

/*
 * Starts a program, which is looked for in PATH if its name has no slash. argv
 * has its name and its arguments, and ends with NULL. It leads a process group
 * of its own, and no signal is blocked or ignored in it. The call takes as long
 * as the system needs to load the program. Descriptors of this process that are
 * not close-on-exec are inherited; those of the library are not.
 * Errors: TR_ENOENT (no such program or folder), TR_EINVAL (not a program; no
 * right to run it; a simulated world; `merge` together with `err`), TR_ELIMIT
 * (descriptors, processes).
 */
TR_API TR_NODISCARD tr_err tr_process_start(tr_from from, tr_process **out,
                                            const char *const *argv,
                                            const tr_process_options *options);
/*
 * Waits until the child has ended. May be called again: the status stays.
 * Errors: TR_EIO (the status is unknown: the program ignores SIGCHLD, or calls
 * wait for all its children).
 */
TR_API TR_NODISCARD tr_err tr_process_wait(tr_from from, tr_process *child,
                                           tr_nanos timeout,
                                           tr_process_status *status);
/*
 * Sends a signal to the child and its process group. Does not wait.
 * Errors: TR_ESTOPPED (it has ended), TR_EINVAL (no such signal), TR_EFOREIGN.
 */
TR_API TR_NODISCARD tr_err tr_process_signal(tr_from from, tr_process *child,
                                             int number);
/*
 * Closes the child; NULL is allowed. If it has not ended, it is killed with its
 * process group (SIGKILL). Its streams stay open. Calls that wait for it return
 * TR_ECLOSED.
 */
TR_API void tr_process_close(tr_from from, tr_process *child);

TR_END_DECLS

#ifndef __cplusplus

#define tr_signals_open(from, out, ...)                                        \
    __extension__(tr_signals_open)((from), (out), (const int[]){__VA_ARGS__},  \
                                   sizeof((const int[]){__VA_ARGS__}) /        \
                                       sizeof(int))
#define tr_signals_wait(from, signals, timeout, number)                        \
    __extension__(tr_signals_wait)((from), (signals), (timeout), (number))
#define tr_signals_close(from, signals)                                        \
    __extension__(tr_signals_close)((from), (signals))

#define tr_process_start(from, out, ...)                                       \
    TR_PROCESS_START_(from, out, __VA_ARGS__, )
#define TR_PROCESS_START_(from, out, argv, ...)                                \
    __extension__(tr_process_start)(                                           \
        (from), (out), (argv), TR_OPTIONS(tr_process_options, __VA_ARGS__))
#define tr_process_wait(from, child, timeout, status)                          \
    __extension__(tr_process_wait)((from), (child), (timeout), (status))
#define tr_process_signal(from, child, number)                                 \
    __extension__(tr_process_signal)((from), (child), (number))
#define tr_process_close(from, child)                                          \
    __extension__(tr_process_close)((from), (child))

#endif /* !__cplusplus */
#endif
