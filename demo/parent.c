/*
 * parent.c - the process that outlives the bank: starts its members, kills one
 * node, lets it join again, ends another one, and checks what was promised.
 *
 * The parent opens no system and shares no memory with the members. It reads
 * their records, so it knows which transfers were acknowledged before a node
 * was killed. When the client has closed, a second client reads every account,
 * and the report is about that. The parent ends only processes that it has
 * started, by their ids.
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
    STINTS = 4,  // before, between and after kill, rejoin and leave
    READ_RECORDS = 1024,
    PROGRESS_ON_TERMINAL_MS = 200,
};

#define STINT_ENDLESS TR_SECONDS(10)   // in a run until Ctrl-C
#define PATIENCE      TR_SECONDS(120)  // for a member to start or end

/* A member over all its incarnations. */
typedef struct Member {
    Node node;
    bool runs;
    bool may_end;
    int status;                                // how it ended
    char half[READ_RECORDS * sizeof(Record)];  // read; the last may be cut off
    size_t half_size;
} Member;

typedef struct Run {
    const Options *options;
    Store store;
    Ledger ledger;
    Screen screen;
    Member members[BANK_MEMBERS];
    tr_nanos start, next_line, killed_at;
    uint32_t started, kills, takeovers, leaves, left, rejoins;
    tr_nanos takeover, leave;  // the longest
    bool broken;               // a member did not do what it should
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

/* Returns the time on the clock of tr_now, which all processes share. */
static tr_nanos clock_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return TR_SECONDS(at.tv_sec) + at.tv_nsec;
}

/* Returns the time since the start of the run. */
static tr_nanos now(const Run *run)
{
    return clock_now() - run->start;
}

/* ---- records ---- */

static void take(Run *run, uint32_t index, const Record *record)
{
    if (record->kind == RECORD_CHANGE) {
        show_change(&run->screen, record->change.at - run->start, index,
                    record);
    }
    ledger_take(&run->ledger, index, record);
}

/* Reads records. Returns false if the member has closed its end or has died. */
static bool read_records(Run *run, uint32_t index)
{
    Member *it = &run->members[index];
    ssize_t got = read(it->node.records, it->half + it->half_size,
                       sizeof(it->half) - it->half_size);
    if (got <= 0) {
        return got < 0 && (errno == EINTR || errno == EAGAIN);
    }
    it->half_size += (size_t)got;
    size_t used = 0;
    while (it->half_size - used >= sizeof(Record)) {
        Record record;
        memcpy(&record, it->half + used, sizeof(record));
        take(run, index, &record);
        used += sizeof(record);
    }
    memmove(it->half, it->half + used, it->half_size - used);
    it->half_size -= used;
    return true;
}

static void show_line_if_due(Run *run)
{
    tr_nanos at = now(run);
    if (at >= run->next_line && run->ledger.open && !run->ledger.closed) {
        tr_nanos every = run->screen.terminal ? TR_MS(PROGRESS_ON_TERMINAL_MS)
                                              : TR_SECONDS(1);
        run->next_line = at - at % every + every;
        show_progress(&run->screen, &run->ledger, at);
    }
}

/* ---- members ---- */

static bool start_member(Run *run, uint32_t index, bool audit_only)
{
    Member *it = &run->members[index];
    Bank bank = run->options->bank;
    bank.is_client = index == BANK_CLIENT;
    bank.audit_only = audit_only;
    bank.seed += run->started++ * UINT64_C(1000003);
    ledger_next(&run->ledger, index);
    it->half_size = 0;
    it->may_end = false;
    it->runs = node_start(&it->node, &bank, &run->store, run->options->verbose);
    run->broken |= !it->runs;
    return it->runs;
}

/* Notes how a member ended. */
static void note_end(Run *run, uint32_t index)
{
    Member *it = &run->members[index];
    while (waitpid(it->node.pid, &it->status, 0) < 0 && errno == EINTR) {
    }
    close(it->node.records);
    if (it->node.control >= 0) {
        close(it->node.control);
    }
    it->runs = false;
    if (!it->may_end) {
        run->broken = true;
        show_event(&run->screen, now(run), "process %d ended by itself: %s %d",
                   (int)it->node.pid,
                   WIFSIGNALED(it->status) ? "signal" : "status",
                   WIFSIGNALED(it->status) ? WTERMSIG(it->status)
                                           : WEXITSTATUS(it->status));
    }
}

/* Reads what the members write, for a short time at most. */
static void listen_once(Run *run)
{
    struct pollfd readable[BANK_MEMBERS];
    for (int i = 0; i < BANK_MEMBERS; i++) {
        const Member *it = &run->members[i];
        readable[i] = (struct pollfd){.fd = it->runs ? it->node.records : -1,
                                      .events = POLLIN};
    }
    if (poll(readable, BANK_MEMBERS, 20) > 0) {
        for (uint32_t i = 0; i < BANK_MEMBERS; i++) {
            if (readable[i].revents != 0 && !read_records(run, i)) {
                note_end(run, i);
            }
        }
    }
    show_line_if_due(run);
}

/*
 * Listens until `until`, or until is_done says so. Ctrl-C ends it only if
 * there is no is_done. Returns false if a member did not do what it should.
 */
static bool listen_until(Run *run, tr_nanos until,
                         bool (*is_done)(const Run *run))
{
    while (!run->broken && (is_done != NULL ? !is_done(run) : !interrupted)) {
        if (now(run) >= until) {
            run->broken |= is_done != NULL;
            break;
        }
        listen_once(run);
    }
    return !run->broken;
}

static bool await(Run *run, bool (*is_done)(const Run *run))
{
    return listen_until(run, now(run) + PATIENCE, is_done);
}

/* ---- what happens to nodes ---- */

static bool all_up(const Run *run)
{
    for (int i = 0; i < BANK_MEMBERS; i++) {
        if (run->members[i].runs && !run->ledger.up[i]) return false;
    }
    return true;
}

static bool client_open(const Run *run)
{
    return run->ledger.open;
}

/* True when accounts of all nodes have answered after the kill. */
static bool taken_over(const Run *run)
{
    return run->ledger.round_begun >= run->killed_at;
}

/* True when every member that was told to end has ended. */
static bool all_ended(const Run *run)
{
    for (int i = 0; i < BANK_MEMBERS; i++) {
        if (run->members[i].runs && run->members[i].may_end) return false;
    }
    return true;
}

static void end_node(Run *run, uint32_t index, int signal)
{
    Member *it = &run->members[index];
    it->may_end = true;
    show_event(&run->screen, now(run), "%s to process %d",
               signal == SIGKILL ? "SIGKILL" : "SIGTERM", (int)it->node.pid);
    kill(it->node.pid, signal);
}

static bool kill_node(Run *run, uint32_t index)
{
    char span[SHOW_NUMBER];
    run->kills++;
    run->killed_at = clock_now();
    end_node(run, index, SIGKILL);
    if (!await(run, all_ended) || !await(run, taken_over)) {
        return false;
    }
    tr_nanos took = run->ledger.round_ended - run->killed_at;
    run->takeover = took > run->takeover ? took : run->takeover;
    run->takeovers++;
    show_event(&run->screen, now(run), "its accounts answer again after %s",
               show_time(span, took));
    return true;
}

static bool leave_node(Run *run, uint32_t index)
{
    tr_nanos begun = clock_now();
    run->leaves++;
    end_node(run, index, SIGTERM);
    if (!await(run, all_ended)) {
        return false;
    }
    tr_nanos took = clock_now() - begun;
    run->leave = took > run->leave ? took : run->leave;
    run->left += run->members[index].status == 0;
    return true;
}

static bool rejoin_node(Run *run, uint32_t index)
{
    show_event(&run->screen, now(run), "a new process joins");
    if (!start_member(run, index, false) || !await(run, all_up)) {
        return false;
    }
    run->rejoins++;
    return true;
}

/* ---- the run ---- */

static bool open_bank(Run *run)
{
    for (uint32_t i = 0; i < BANK_NODES; i++) {
        if (!start_member(run, i, false)) return false;
    }
    return await(run, all_up) && start_member(run, BANK_CLIENT, false) &&
           await(run, client_open);
}

/* Lets the bank work for a while. Returns false on Ctrl-C, too. */
static bool work(Run *run)
{
    tr_nanos span = run->options->duration;
    tr_nanos stint = span == TR_FOREVER ? STINT_ENDLESS : span / STINTS;
    return listen_until(run, now(run) + stint, NULL) && !interrupted;
}

/* One kill, one rejoin and one leave, each followed by work. */
static bool events(Run *run)
{
    return kill_node(run, 1) && work(run) && rejoin_node(run, 1) && work(run) &&
           leave_node(run, 2) && work(run);
}

static void run_bank(Run *run)
{
    bool goes_on = open_bank(run) && work(run) && events(run);
    while (goes_on && run->options->duration == TR_FOREVER) {
        goes_on = rejoin_node(run, 2) && work(run) && events(run);
    }
}

static bool close_client(Run *run)
{
    Member *it = &run->members[BANK_CLIENT];
    if (!it->runs) {
        return false;
    }
    it->may_end = true;
    close(it->node.control);
    it->node.control = -1;
    return await(run, all_ended) && it->status == 0 && run->ledger.closed;
}

/* Reads every account with a second client. */
static bool audit(Run *run)
{
    show_event(&run->screen, now(run), "a second client reads every account");
    return start_member(run, BANK_CLIENT, true) && close_client(run);
}

/* Ends the nodes that are left, all at the same time. */
static bool close_nodes(Run *run)
{
    bool ran[BANK_NODES];
    for (uint32_t i = 0; i < BANK_NODES; i++) {
        ran[i] = run->members[i].runs;
        if (ran[i]) {
            end_node(run, i, SIGTERM);
        }
    }
    bool right = await(run, all_ended);
    for (int i = 0; i < BANK_NODES; i++) {
        right &= !ran[i] || run->members[i].status == 0;
    }
    return right;
}

/* After a failure: ends what still runs. */
static void kill_all(Run *run)
{
    for (uint32_t i = 0; i < BANK_MEMBERS; i++) {
        if (run->members[i].runs) {
            run->members[i].may_end = true;
            kill(run->members[i].node.pid, SIGKILL);
            note_end(run, i);
        }
    }
}

/* ---- the report ---- */

static bool report(Run *run, tr_nanos span, bool closed)
{
    show_end(&run->screen);
    show_sums(&run->ledger, span);
    bool right = show_promises(&run->ledger);
    right &= show_held(run->takeovers == run->kills,
                       "%" PRIu32 " killed by SIGKILL, its accounts taken over",
                       run->kills);
    right &=
        show_held(run->left == run->leaves,
                  "%" PRIu32 " left after SIGTERM, with status 0", run->leaves);
    right &= show_held(closed, "the last nodes closed in time");
    right &= !run->broken && run->ledger.bad_audits == 0;
    printf("\n%s\n", right ? "The bank has kept every promise."
                           : "THE BANK HAS BROKEN A PROMISE.");
    printf("takeover %.1f s, leave %.1f s, transfers %" PRIu64
           ", unknown %" PRIu64 ", conserved: %s\n",
           (double)run->takeover / 1e9, (double)run->leave / 1e9,
           run->ledger.acknowledged, ledger_figures(&run->ledger).unknown,
           right ? "yes" : "NO");
    return right;
}

static void greet(const Run *run)
{
    char accounts[SHOW_NUMBER];
    const Bank *bank = &run->options->bank;
    printf("A bank on %s: %s persistent accounts on a cluster of %d nodes, "
           "%" PRIu32 " tellers",
           run->store.postgres ? "PostgreSQL" : "SQLite",
           show_number(accounts, bank->accounts), BANK_NODES,
           bank->branches * bank->tellers);
    if (run->options->duration == TR_FOREVER) {
        printf(", until Ctrl-C.\n");
    } else {
        printf(", %d seconds of work.\n",
               (int)(run->options->duration / 1000000000));
    }
    printf("Tellers and accounts fail on purpose. One node is killed and joins "
           "again, another one leaves.\n\n");
}

int bank_on_processes(const Options *options)
{
    static Run run;  // large; the parent has one
    run = (Run){.options = options,
                .next_line = TR_SECONDS(1),
                .start = clock_now(),
                .screen = {.terminal = isatty(STDOUT_FILENO) == 1}};
    if (!store_prepare(&run.store, options->postgres)) {
        store_clean_up(&run.store, false);
        return EXIT_FAILURE;
    }
    setenv("TROUPE_ENGINE", run.store.engine, 1);
    listen_to_signals();
    ledger_init(&run.ledger, options->bank.accounts);
    greet(&run);
    run_bank(&run);
    tr_nanos span = now(&run);
    bool closed = close_client(&run);
    closed = audit(&run) && closed;
    closed &= close_nodes(&run);
    kill_all(&run);
    bool right = report(&run, span, closed);
    store_clean_up(&run.store, !right);
    ledger_fini(&run.ledger);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
