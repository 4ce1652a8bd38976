/*
 * drain - what happens between SIGTERM and the end of the process.
 *
 * Notice: main has nothing to do with it. When tr_system_run returns, the
 * server has closed its listener; each connection answers what has come and
 * then reads the end of the stream. The journal, which the others need until
 * they have ended, is a top level beside /user and so outlives them. The report
 * says whether an actor had to be forced.
 *
 * The program sends itself a SIGTERM in the middle of a request. Its test does
 * the same in simulated worlds, at any moment.
 */
#define _POSIX_C_SOURCE 200809L  // kill
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <troupe/troupe.h>

enum { LINE_SIZE = 64, SEEDS = 20, CLIENTS = 4 };

#define PATIENCE TR_SECONDS(30)

TR_REQUEST(Note, tr_none);

/* What the program has done so far; the test reads it. */
typedef struct Done {
    const char *address;
    char bound[TR_ADDRESS_SIZE];
    int noted, closed;
} Done;

// [snippet: journal]
typedef struct Journal {
    Done *done;
} Journal;

static tr_err journal_note(tr_ctx *ctx, Journal *self, const Note *m)
{
    self->done->noted++;
    return tr_reply(ctx, m);
}

/* Runs when every connection has ended: nobody can send a note any more. */
static tr_err journal_stop(tr_ctx *ctx, Journal *self, tr_reason reason)
{
    (void)ctx, (void)reason;
    self->done->closed++;
    return TR_OK;
}

TR_ACTOR(journal, Journal, TR_ON(Note, journal_note),
         TR_HOOK(post_stop, journal_stop));
// [end]

typedef struct Client {
    tr_stream *stream;  // set by tr_serve
    tr_ref journal;
} Client;

/* A request takes a while, and a note of the journal. */
static tr_err client_run(tr_ctx *ctx, Client *self)
{
    char line[LINE_SIZE];
    size_t got;
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0,
                             &got));
        if (got == 0) return TR_OK;  // the client has ended, or we drain
        TR_TRY(tr_write(ctx, self->stream, 0, {"began\n", 6}));
        TR_TRY(tr_sleep(ctx, TR_MS(100)));
        TR_TRY(tr_ask(ctx, self->journal, NULL, 0, Note));
        TR_TRY(tr_write(ctx, self->stream, 0, {"done\n", 5}));
    }
}
TR_ACTOR(client, Client, TR_HOOK(on_run, client_run));

// [snippet: start]
static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    Done *done = user;
    (void)index;
    tr_ref notes = tr_top_level(sys, journal, .name = "journal",
                                TR_INIT(journal, .done = done));
    return tr_ref_err(tr_serve(sys, done->address, client, .name = "server",
                               .drain = TR_SECONDS(10),  // at most
                               .bound = done->bound,
                               TR_INIT(client, .journal = notes)));
}
// [end]

/* ---- real: SIGTERM while a request is being worked on ---- */

static void expect(tr_system *sys, tr_stream *stream, const char *text)
{
    char line[LINE_SIZE] = "";
    size_t got;
    TR_MUST(tr_read_until(sys, stream, '\n', line, sizeof(line) - 1, PATIENCE,
                          &got));
    if (strcmp(line, text) != 0) tr_abort(TR_HERE, line);
    fputs(text, stdout);
}

typedef struct Caller {
    tr_system *us;
    const char *address;
} Caller;

static void call(void *arg)
{
    const Caller *it = arg;
    tr_stream *stream;
    TR_MUST(tr_connect(it->us, &stream, it->address, PATIENCE));
    TR_MUST(tr_write(it->us, stream, PATIENCE, {"work\n", 5}));
    expect(it->us, stream, "began\n");
    kill(getpid(), SIGTERM);
    expect(it->us, stream, "done\n");
    expect(it->us, stream, "");  // the end of the stream
    tr_stream_close(it->us, stream);
}

static bool real(void)
{
    Done done = {.address = "tcp://127.0.0.1:0"};
    tr_system *sys, *us;
    tr_thread *thread;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(node(sys, 0, &done));
    TR_MUST(tr_system_open(&us));  // the client's
    Caller caller = {us, done.bound};
    TR_MUST(tr_thread_start(us, &thread, call, &caller));
    // [snippet: run]
    TR_MUST(tr_system_run(sys));  // until SIGTERM or SIGINT
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(sys, PATIENCE, &report);
    // [end]
    tr_thread_join(us, thread);
    TR_MUST(tr_system_close(us, 0));
    printf("%d noted, journal closed %d time, %u forced\n", done.noted,
           done.closed, report.forced);
    return err == TR_OK;
}

/* ---- simulated: a shutdown at any moment ---- */

// [snippet: test]
typedef struct Guest {
    tr_nanos wait;
    tr_stream *stream;
} Guest;

/* Every request that has begun must be answered. */
static tr_err guest_run(tr_ctx *ctx, Guest *self)
{
    char line[LINE_SIZE] = "";
    size_t got;
    TR_TRY(tr_sleep(ctx, self->wait));
    if (tr_connect(ctx, &self->stream, "tcp://node-0:7000", PATIENCE) !=
            TR_OK ||
        tr_write(ctx, self->stream, PATIENCE, {"work\n", 5}) != TR_OK ||
        tr_read_until(ctx, self->stream, '\n', line, LINE_SIZE, PATIENCE,
                      &got) != TR_OK ||
        got == 0)
        return TR_OK;  // came too late
    TR_TRY(tr_read_until(ctx, self->stream, '\n', line, LINE_SIZE, PATIENCE,
                         &got));
    TR_ASSERT(ctx, got == 5 && memcmp(line, "done\n", 5) == 0);
    return TR_OK;
}
TR_ACTOR(guest, Guest, TR_HOOK(on_run, guest_run));

static tr_err workload(tr_sim *sim, void *user)
{
    tr_system *us;
    tr_close_report report = {.size = sizeof(report)};
    tr_err err;
    (void)user;
    TR_TRY(tr_system_open(&us, .world = tr_sim_world(sim),
                          .user_supervision =
                              TR_SUPERVISE(.on_failure = TR_ESCALATE)));
    for (int i = 0; i < CLIENTS; i++) {
        tr_nanos wait = TR_MS(tr_sim_random(sim, 300));
        (void)tr_spawn(us, guest, TR_INIT(guest, .wait = wait));
    }
    tr_sim_advance(sim, TR_MS(tr_sim_random(sim, 300)));
    tr_sim_shutdown(sim, 0, 0, TR_FOREVER);  // as after SIGTERM
    while ((err = tr_sim_shutdown_report(sim, 0, &report)) == TR_EWOULDBLOCK) {
        tr_sim_advance(sim, TR_MS(10));
    }
    TR_TRY(err);
    TR_TRY(tr_system_close(us, 0));  // with the failure of a guest
    return report.forced == 0 ? TR_OK : tr_sim_fail(sim, "forced");
}
// [end]

int main(void)
{
    Done done = {.address = "tcp://node-0:7000"};
    uint64_t seed = 0;
    bool good = real();
    while (seed < SEEDS &&
           tr_sim_run(TR_OPTIONS(tr_sim_options, .seed = seed, .node = node,
                                 .workload = workload, .user = &done,
                                 .quiet_time = TR_SECONDS(1))) == TR_OK) {
        seed++;
    }
    printf("%d seeds: what has begun is done\n", (int)seed);
    return seed < SEEDS || !good;
}
