/*
 * node.c - the child process: a system, and the bank's node or client on it.
 *
 * Invariant: a batch of records is one write to the pipe, which is written
 * completely or not at all. What is in the pipe when the process is killed can
 * still be read.
 */
#define _GNU_SOURCE  // pipe2, close_range
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

_Static_assert(BANK_BATCH * sizeof(Record) <= PIPE_BUF, "one atomic write");

typedef struct Ends {  // the child's ends of the pipes
    int records, control;
} Ends;

/* ---- functions that the bank calls ---- */

static tr_err tell_parent(tr_ctx *ctx, const Bank *bank, const Record *records,
                          size_t count)
{
    const Ends *ends = bank->user;
    for (;;) {
        uint32_t ready;
        if (write(ends->records, records, count * sizeof(*records)) > 0) {
            return TR_OK;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return tr_fail(ctx, TR_EIO, "pipe: %s", strerror(errno));
        }
        TR_TRY(tr_wait_fd(ctx, ends->records, TR_FD_WRITE, TR_FOREVER, &ready));
    }
}

static tr_err wait_for_parent(tr_ctx *ctx, const Bank *bank)
{
    const Ends *ends = bank->user;
    uint32_t ready;
    return tr_wait_fd(ctx, ends->control, TR_FD_READ, TR_FOREVER, &ready);
}

/* ---- the process ---- */

/* Waits until the director has ended; false if it failed. */
static bool await_director(tr_system *sys)
{
    tr_result result;
    tr_err err = tr_join(sys, tr_lookup(sys, "/user/director"), TR_FOREVER,
                         &result, NULL);
    if (err == TR_OK && result.reason != TR_STOPPED) {
        fprintf(stderr, "bank: the director failed: %s %s\n",
                tr_errname(result.err), result.text);
    }
    return err == TR_OK && result.reason == TR_STOPPED;
}

static bool run(tr_system *sys, const Bank *bank, tr_storage *store)
{
    if (bank_open(sys, bank, store) != TR_OK) {
        fprintf(stderr, "bank: %s\n", tr_error_text(NULL));
        return false;
    }
    return bank->is_client ? await_director(sys) : tr_system_run(sys) == TR_OK;
}

static int live(Bank *bank, const Store *where, bool verbose)
{
    tr_storage *store = NULL;
    tr_system *sys;
    char text[STORE_TEXT] = "";
    if (!bank->is_client &&
        store_open(where, &store, text, sizeof(text)) != TR_OK) {
        fprintf(stderr, "bank: %s\n", text);
        return EXIT_FAILURE;
    }
    TR_MUST(tr_system_open(&sys, .name = "bank", .ns = "bank",
                           .log_level = verbose ? TR_LOG_DEBUG : TR_LOG_ERROR));
    bool right = run(sys, bank, store);
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(sys, TR_SECONDS(30), &report);
    if (err != TR_OK || report.forced > 0) {
        fprintf(stderr, "bank: closed with %s, %u actors forced\n",
                tr_errname(err), (unsigned)report.forced);
    }
    tr_storage_close(store);
    return right && err == TR_OK && report.forced == 0 ? EXIT_SUCCESS
                                                       : EXIT_FAILURE;
}

/* Closes all that the parent had open, the pipes of other members above all. */
static void close_others(const Ends *ends)
{
    unsigned low = (unsigned)ends->records, high = (unsigned)ends->control;
    if (low > high) {
        unsigned other = low;
        low = high;
        high = other;
    }
    unsigned first = STDERR_FILENO + 1;
    if (low > first) {
        close_range(first, low - 1, 0);
    }
    if (high > low + 1) {
        close_range(low + 1, high - 1, 0);
    }
    close_range(high + 1, ~0U, 0);
}

/* Lets the parent alone decide when this process ends. */
static void obey_parent(pid_t parent, bool is_client)
{
    setpgid(0, 0);  // Ctrl-C is the parent's
    signal(SIGPIPE, SIG_IGN);
    if (is_client) {
        signal(SIGTERM, SIG_IGN);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    if (getppid() != parent) {
        exit(EXIT_FAILURE);  // it died before the call above
    }
}

bool node_start(Node *node, const Bank *bank, const Store *store, bool verbose)
{
    int records[2], control[2];
    if (pipe2(records, O_CLOEXEC) != 0 || pipe2(control, O_CLOEXEC) != 0) {
        perror("bank: pipe");
        return false;
    }
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        perror("bank: fork");
        return false;
    }
    if (pid == 0) {
        obey_parent(parent, bank->is_client);
        Ends ends = {records[1], control[0]};
        close_others(&ends);
        fcntl(ends.records, F_SETFL, O_NONBLOCK);
        Bank ours = *bank;
        ours.tell = tell_parent;
        ours.wait_for_end = wait_for_parent;
        ours.user = &ends;
        exit(live(&ours, store, verbose));
    }
    close(records[1]);
    close(control[0]);
    *node = (Node){.pid = pid, .records = records[0], .control = control[1]};
    return true;
}
