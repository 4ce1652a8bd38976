/*
 * node.c - the child process: a store, a system, the bank on it.
 *
 * Invariant: a batch of records is one write to the pipe, which is written
 * completely or not at all. What is in the pipe when the node is killed can
 * still be read.
 */
#define _GNU_SOURCE  // pipe2
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
static bool run(tr_system *sys, const Bank *bank, tr_storage *store)
{
    tr_ref director_ref;
    tr_result result;
    tr_err err = bank_open(sys, bank, store, &director_ref);
    if (err == TR_OK) {
        err = tr_join(sys, director_ref, TR_FOREVER, &result, NULL);
    }
    if (err != TR_OK) {
        fprintf(stderr, "bank: %s\n", tr_error_text(sys));
        return false;
    }
    if (result.reason != TR_STOPPED) {
        fprintf(stderr, "bank: the director failed: %s %s\n",
                tr_errname(result.err), result.text);
    }
    return result.reason == TR_STOPPED;
}

static int live(Bank *bank, const Store *where, bool verbose)
{
    tr_storage *store;
    tr_system *sys;
    char text[STORE_TEXT] = "";
    if (store_open(where, &store, text, sizeof(text)) != TR_OK) {
        fprintf(stderr, "bank: %s\n", text);
        return EXIT_FAILURE;
    }
    TR_MUST(tr_system_open(&sys, .name = "bank", .ns = "bank",
                           .log_level = verbose ? TR_LOG_DEBUG : TR_LOG_ERROR));
    bool right = run(sys, bank, store);
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(sys, TR_SECONDS(30), &report);
    tr_storage_close(store);
    return right && err == TR_OK && report.forced == 0 ? EXIT_SUCCESS
                                                       : EXIT_FAILURE;
}

bool node_start(Node *node, const Bank *bank, const Store *store, bool verbose)
{
    int records[2], control[2];
    if (pipe2(records, O_CLOEXEC) != 0 || pipe2(control, O_CLOEXEC) != 0) {
        perror("bank: pipe");
        return false;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("bank: fork");
        return false;
    }
    if (pid == 0) {
        // The parent handles Ctrl-C and then closes this node.
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        close(records[0]);
        close(control[1]);
        fcntl(records[1], F_SETFL, O_NONBLOCK);
        Ends ends = {records[1], control[0]};
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
