/*
 * parent.c - the process that outlives the bank: starts its node, kills it,
 * starts it again, and checks what it promised.
 *
 * The parent opens no system and shares no memory with the nodes. It reads
 * their records, so it knows which transfers were acknowledged before a node
 * was killed; each new node must have them. After the last node has closed, a
 * new one reads every account, and the report is about that.
 */
#define _GNU_SOURCE  // poll with signals
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"
#include "node.h"
#include "options.h"
#include "show.h"

enum {
    KILLS = 2,  // in a run of limited time
    READ_RECORDS = 1024,
    PROGRESS_ON_TERMINAL_MS = 200,
};

#define KILL_EVERY TR_SECONDS(20)   // in a run until Ctrl-C
#define PATIENCE   TR_SECONDS(120)  // for a node to start or end

typedef struct Run {
    const Options *options;
    Store store;
    Ledger ledger;
    Screen screen;
    Node node;
    tr_nanos start, next_line, killed_at;
    uint32_t nodes, kills, returns;
    char
        half[READ_RECORDS *
             sizeof(Record)];  // read so far; the last record may be incomplete
    size_t half_size;
    bool broken;  // a node did not do what it should
} Run;

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;  // the second one ends the process: SA_RESETHAND
}

static void listen_to_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Returns the time since the start of the run. */
static tr_nanos now(const Run *run)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return TR_SECONDS(at.tv_sec) + at.tv_nsec - run->start;
}

/* ---- records ---- */

/* Reads records. Returns false if the node has closed its end or has died. */
static bool read_records(Run *run)
{
    ssize_t got = read(run->node.records, run->half + run->half_size,
                       sizeof(run->half) - run->half_size);
    if (got <= 0) {
        return got < 0 && (errno == EINTR || errno == EAGAIN);
    }
    run->half_size += (size_t)got;
    size_t used = 0;
    while (run->half_size - used >= sizeof(Record)) {
        Record record;
        memcpy(&record, run->half + used, sizeof(record));
        ledger_take(&run->ledger, &record);
        used += sizeof(record);
    }
    memmove(run->half, run->half + used, run->half_size - used);
    run->half_size -= used;
    return true;
}

static void show_line_if_due(Run *run)
{
    tr_nanos at = now(run);
    if (at >= run->next_line && run->ledger.open) {
        tr_nanos every = run->screen.terminal ? TR_MS(PROGRESS_ON_TERMINAL_MS)
                                              : TR_SECONDS(1);
        run->next_line = at - at % every + every;
        show_progress(&run->screen, &run->ledger, at);
    }
}

/*
 * Reads until `until`, Ctrl-C, or *flag. Returns false if the node has ended.
 */
static bool listen_until(Run *run, tr_nanos until, const bool *flag)
{
    while (now(run) < until && !interrupted && (flag == NULL || !*flag)) {
        struct pollfd readable = {.fd = run->node.records, .events = POLLIN};
        if (poll(&readable, 1, 20) > 0 && !read_records(run)) {
            return false;
        }
        if (flag == NULL) {
            show_line_if_due(run);
        }
    }
    return true;
}

/*
 * Reads what is left in the pipe of a node that ends. Returns false if it does
 * not end.
 */
static bool listen_to_the_end(Run *run)
{
    tr_nanos limit = now(run) + PATIENCE;
    while (now(run) < limit) {
        struct pollfd readable = {.fd = run->node.records, .events = POLLIN};
        if (poll(&readable, 1, 20) > 0 && !read_records(run)) {
            return true;
        }
    }
    return false;
}

/* ---- a node ---- */

static bool start_node(Run *run, bool audit_only)
{
    Bank bank = run->options->bank;
    bank.audit_only = audit_only;
    bank.seed += run->nodes++ * UINT64_C(1000003);
    ledger_next_node(&run->ledger);
    run->half_size = 0;
    return node_start(&run->node, &bank, &run->store, run->options->verbose);
}

/* Waits for the process and returns how it ended. */
static int bury_node(Run *run)
{
    int status = 0;
    if (!listen_to_the_end(run)) {
        kill(run->node.pid, SIGKILL);
    }
    while (waitpid(run->node.pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(run->node.records);
    if (run->node.control >= 0) {
        close(run->node.control);
    }
    return status;
}

static void kill_node(Run *run)
{
    kill(run->node.pid, SIGKILL);
    run->killed_at = now(run);
    run->kills++;
    (void)bury_node(run);
    show_event(&run->screen, run->killed_at,
               "SIGKILL! Node %" PRIu32 " (process %d) is gone.", run->nodes,
               (int)run->node.pid);
}

static void note_return(Run *run)
{
    char down[SHOW_NUMBER], half[SHOW_NUMBER];
    tr_nanos at = now(run);
    bool held = ledger_audit_held(&run->ledger);
    run->returns++;
    show_event(&run->screen, at,
               "Node %" PRIu32 " is up after %s; %s half-done transfers "
               "completed, %s",
               run->nodes, show_time(down, at - run->killed_at),
               show_number(half, run->ledger.now.resumed),
               held ? "no cent lost." : "MONEY IS WRONG!");
}

/* ---- the run ---- */

/*
 * Returns how long a node works after its start, however long the start took.
 */
static tr_nanos stint(const Run *run)
{
    tr_nanos span = run->options->duration;
    return span == TR_FOREVER ? KILL_EVERY : span / (KILLS + 1);
}

static bool unexpected_end(Run *run)
{
    int status = bury_node(run);
    show_event(&run->screen, now(run),
               "Node %" PRIu32 " ended by itself: %s %d.", run->nodes,
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

/* Starts nodes, lets them work and kills them; the last one is left running. */
static bool work(Run *run)
{
    bool endless = run->options->duration == TR_FOREVER;
    for (;;) {
        if (!start_node(run, false)) {
            return false;
        }
        if (!listen_until(run, now(run) + PATIENCE, &run->ledger.open)) {
            return unexpected_end(run);
        }
        if (run->kills > 0 && run->ledger.open) {
            note_return(run);
        }
        if (!listen_until(run, now(run) + stint(run), NULL)) {
            return unexpected_end(run);
        }
        if (interrupted || (!endless && run->kills == KILLS)) {
            return true;
        }
        kill_node(run);
    }
}

static bool close_node(Run *run)
{
    close(run->node.control);
    run->node.control = -1;
    int status = bury_node(run);
    return status == 0 && run->ledger.closed;
}

static bool audit(Run *run)
{
    return start_node(run, true) && close_node(run);
}

static bool report(Run *run, tr_nanos span, bool closed)
{
    show_end(&run->screen);
    show_sums(&run->ledger, span);
    bool right = show_promises(&run->ledger);
    right &=
        show_held(run->returns == run->kills && run->ledger.bad_audits == 0,
                  "%" PRIu32 " times killed by SIGKILL, %" PRIu32
                  " times back with every cent",
                  run->kills, run->returns);
    right &= show_held(closed, "the last node closed in time");
    printf("\n%s\n", right ? "The bank has kept every promise."
                           : "THE BANK HAS BROKEN A PROMISE.");
    return right;
}

static void greet(const Run *run)
{
    char accounts[SHOW_NUMBER];
    const Bank *bank = &run->options->bank;
    printf("A bank on %s: %s persistent accounts, %" PRIu32 " tellers",
           run->store.postgres ? "PostgreSQL" : "SQLite",
           show_number(accounts, bank->accounts),
           bank->branches * bank->tellers);
    if (run->options->duration == TR_FOREVER) {
        printf(", until Ctrl-C.\n");
    } else {
        printf(", %d seconds.\n", (int)(run->options->duration / 1000000000));
    }
    printf("Tellers and accounts fail on purpose, and the whole node is killed "
           "%s.\n\n",
           run->options->duration == TR_FOREVER ? "every 20 seconds" : "twice");
}

int bank_on_processes(const Options *options)
{
    static Run run;  // large; the parent has one
    run = (Run){.options = options,
                .next_line = TR_SECONDS(1),
                .screen = {.terminal = isatty(STDOUT_FILENO) == 1}};
    if (!store_prepare(&run.store, options->postgres)) {
        store_clean_up(&run.store, false);
        return EXIT_FAILURE;
    }
    listen_to_signals();
    ledger_init(&run.ledger, options->bank.accounts);
    greet(&run);
    run.start = now(&run);
    bool worked = work(&run);
    tr_nanos span = now(&run);
    bool closed = worked && close_node(&run);
    bool right = audit(&run) && report(&run, span, closed);
    store_clean_up(&run.store, !right);
    ledger_fini(&run.ledger);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
