/*
 * posix_process.c - processes that the program starts, in the real world:
 * posix_spawn, and a pidfd, which is readable when the process has ended.
 *
 * A process whose stream is closed is killed, and becomes a zombie a moment
 * later. The stream stays with the poller until waitid has taken the zombie
 * (posix_stream.h).
 *
 * Invariant: the number of a process is used only until waitid has taken it,
 * so it never names another process.
 */
#define _GNU_SOURCE  // pipe2, posix_spawn_file_actions_addchdir_np

#include "base/posix_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/posix_stream.h"

extern char **environ;

/* What is behind the stream of a process. */
typedef struct process {
    pthread_mutex_t mutex;  // guards what follows: a signal, and the end
    pid_t id;
    bool is_over;  // waitid has taken it, or somebody else has
    tr_err err;    // TR_OK: its status is known
    tri_process_status status;
} process;

/* The descriptors of a process that is started; -1: none. */
typedef struct ends {
    int ours[3], its[3];
} ends;

/* ---- pipes ---- */

static void close_if_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void ends_close(const int fds[3])
{
    for (int i = 0; i < 3; i++) {
        close_if_open(fds[i]);
    }
}

/*
 * Moves the descriptor away from 0, 1 and 2, which a program may have closed;
 * the file actions of the process would overwrite it. Returns -1 on an error.
 */
static int above_standard(int fd)
{
    if (fd > 2) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int number = errno;
    (void)close(fd);
    errno = number;
    return moved;
}

/* Makes the pipe of one descriptor of the process. False: see errno. */
static bool ends_open(ends *it, int index)
{
    int fds[2];
    bool it_reads = index == 0;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    it->its[index] = above_standard(fds[it_reads ? 0 : 1]);
    it->ours[index] = above_standard(fds[it_reads ? 1 : 0]);
    return it->its[index] >= 0 && it->ours[index] >= 0 &&
           fcntl(it->ours[index], F_SETFL, O_NONBLOCK) == 0;
}

/* ---- starting ---- */

/* Says what descriptors 0, 1 and 2 are in the process. Returns an errno. */
static int plan_files(posix_spawn_file_actions_t *files,
                      const tri_process_plan *plan, const ends *pipes)
{
    int number = 0;
    for (int i = 0; i < 3 && number == 0; i++) {
        if (plan->has_pipe[i]) {
            number = posix_spawn_file_actions_adddup2(files, pipes->its[i], i);
        } else if (i == 2 && plan->is_merged) {
            number = posix_spawn_file_actions_adddup2(files, 1, 2);
        } else if (i == 0 || plan->is_quiet) {
            number = posix_spawn_file_actions_addopen(
                files, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
        }
    }
    if (number == 0 && plan->folder != NULL) {
        number = posix_spawn_file_actions_addchdir_np(files, plan->folder);
    }
    return number;
}

/* A group of its own; no signal is blocked or ignored. Returns an errno. */
static int plan_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int number = posix_spawnattr_setflags(
        attributes,
        POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    number = number != 0 ? number : posix_spawnattr_setpgroup(attributes, 0);
    number =
        number != 0 ? number : posix_spawnattr_setsigmask(attributes, &none);
    return number != 0 ? number
                       : posix_spawnattr_setsigdefault(attributes, &all);
}

/* Starts the program. Returns an errno. */
static int spawn(const tri_process_plan *plan, const ends *pipes, pid_t *id)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    const char *const *environment = plan->environment != NULL
                                         ? plan->environment
                                         : (const char *const *)environ;
    int number = posix_spawn_file_actions_init(&files);
    if (number != 0) {
        return number;
    }
    number = posix_spawnattr_init(&attributes);
    if (number == 0) {
        number = plan_files(&files, plan, pipes);
        number = number != 0 ? number : plan_signals(&attributes);
        // The casts: the system's declaration lacks a const.
        number = number != 0
                     ? number
                     : posix_spawnp(id, plan->arguments[0], &files, &attributes,
                                    (char *const *)(uintptr_t)plan->arguments,
                                    (char *const *)(uintptr_t)environment);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    return number;
}

static tr_err spawn_err(int number)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return TR_ENOENT;
    case EACCES:
    case EPERM:
    case ENOEXEC:
    case E2BIG:
        return TR_EINVAL;
    case EAGAIN:
        return TR_ELIMIT;
    default:
        return tri_posix_stream_err(number);
    }
}

/* ---- the end of a process ---- */

/* Looks whether the process has ended. With the mutex. */
static void process_poll(process *it, bool may_block)
{
    siginfo_t info = {0};
    int result;
    if (it->is_over) {
        return;
    }
    do {
        result = waitid(P_PID, (id_t)it->id, &info,
                        WEXITED | (may_block ? 0 : WNOHANG));
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        it->is_over = true;  // ECHILD: the program has taken its status
        it->err = TR_EIO;
    } else if (info.si_pid != 0) {
        it->is_over = true;
        if (info.si_code == CLD_EXITED) {
            it->status.code = info.si_status;
        } else {
            it->status.signal = info.si_status;
        }
    }
}

/* The `end` of the stream of a process. */
static bool process_end(void *data, bool is_last)
{
    process *it = data;
    pthread_mutex_lock(&it->mutex);
    if (!it->is_over) {
        (void)kill(-it->id, SIGKILL);
    }
    process_poll(it, is_last);
    bool is_over = it->is_over;
    pthread_mutex_unlock(&it->mutex);
    if (is_over) {
        (void)pthread_mutex_destroy(&it->mutex);
        free(it);
    }
    return is_over;
}

static process *process_of(const tri_stream *child)
{
    return tri_posix_stream_data(child, process_end);
}

tr_err tri_posix_process_status(tri_stream *child, tri_process_status *out)
{
    TRI_CHECK(out != NULL);
    process *it = process_of(child);
    *out = (tri_process_status){0};
    // The pidfd makes one edge; before it, and after it, waitid is asked.
    bool is_worth = tri_posix_stream_take(child, TRI_FD_READ);
    pthread_mutex_lock(&it->mutex);
    if (is_worth) {
        process_poll(it, false);
    }
    bool is_over = it->is_over;
    tr_err err = it->err;
    *out = it->status;
    pthread_mutex_unlock(&it->mutex);
    if (!is_over) {
        return TR_EWOULDBLOCK;
    }
    tri_posix_stream_give(child, TRI_FD_READ);
    return err;
}

tr_err tri_posix_process_signal(tri_stream *child, int number)
{
    process *it = process_of(child);
    tr_err err = TR_ESTOPPED;
    pthread_mutex_lock(&it->mutex);
    process_poll(it, false);
    if (!it->is_over) {
        err = kill(-it->id, number) == 0 ? TR_OK : TR_EINVAL;
    }
    pthread_mutex_unlock(&it->mutex);
    return err;
}

/* ---- making the streams ---- */

/* Makes the stream of a process that runs. Kills it on an error. */
static tr_err process_stream(tri_poller *poller, tri_stream **out, process *it)
{
    // Not in the C library of every system that has it.
    int fd = (int)syscall(SYS_pidfd_open, it->id, 0);
    tr_err err = fd >= 0 ? tri_posix_stream_new(poller, fd, TRI_FD_READ, out)
                         : tri_posix_stream_err(errno);
    if (err != TR_OK) {
        (void)process_end(it, true);
        return err;
    }
    tri_posix_stream_set_end(*out, process_end, it);
    return TR_OK;
}

/* Makes the streams of our ends. Takes them, on every path. */
static tr_err pipe_streams(tri_poller *poller, ends *from, tri_stream *pipes[3])
{
    for (int i = 0; i < 3; i++) {
        if (from->ours[i] < 0) {
            continue;
        }
        int fd = from->ours[i];
        from->ours[i] = -1;
        tr_err err = tri_posix_stream_new(
            poller, fd, i == 0 ? TRI_FD_WRITE : TRI_FD_READ, &pipes[i]);
        if (err != TR_OK) {
            ends_close(from->ours);
            return err;
        }
        tri_posix_stream_set_pipe(pipes[i]);
    }
    return TR_OK;
}

/* Starts the process with its pipes. Our ends stay the caller's. */
static tr_err process_start(const tri_process_plan *plan, ends *pipes,
                            process *it)
{
    int number = 0;
    for (int i = 0; i < 3 && number == 0; i++) {
        if (plan->has_pipe[i] && !ends_open(pipes, i)) {
            number = errno;
        }
    }
    if (number == 0) {
        number = spawn(plan, pipes, &it->id);
    }
    ends_close(pipes->its);
    return number == 0 ? TR_OK : spawn_err(number);
}

tr_err tri_posix_process_start(tri_poller *poller, tri_stream **out,
                               const tri_process_plan *plan,
                               tri_stream *pipes[3])
{
    TRI_CHECK(plan->arguments != NULL && plan->arguments[0] != NULL);
    TRI_CHECK(!plan->is_merged || !plan->has_pipe[2]);
    ends made = {{-1, -1, -1}, {-1, -1, -1}};
    process *it = calloc(1, sizeof(*it));

    *out = pipes[0] = pipes[1] = pipes[2] = NULL;
    if (it == NULL) {
        return TR_ENOMEM;
    }
    TRI_CHECK(pthread_mutex_init(&it->mutex, NULL) == 0);
    tr_err err = process_start(plan, &made, it);
    if (err != TR_OK) {
        ends_close(made.ours);
        (void)pthread_mutex_destroy(&it->mutex);
        free(it);
        return err;
    }
    err = process_stream(poller, out, it);
    if (err != TR_OK) {
        ends_close(made.ours);
        return err;
    }
    err = pipe_streams(poller, &made, pipes);
    if (err != TR_OK) {
        for (int i = 0; i < 3; i++) {
            tri_posix_stream_close(pipes[i]);
            pipes[i] = NULL;
        }
        tri_posix_stream_close(*out);
        *out = NULL;
    }
    return err;
}
