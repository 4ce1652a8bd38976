/*
 * slow clients - a server that none of them can hold up.
 *
 * Notice: every read and write has a time limit, which is that of the whole
 * line and not of its next byte. So a client that says nothing, one that sends
 * a byte now and then, and one that never reads its answers are cut off, each
 * alone; meanwhile the others are served, because a connection that waits
 * holds no thread. The test runs in simulated worlds: minutes take no time.
 */
#include <stdio.h>

#include <troupe/troupe.h>

enum { LINE_SIZE = 256, ANSWER_SIZE = 4096, SEEDS = 20 };

#define ADDRESS  "tcp://node-0:7000"
#define PATIENCE TR_MINUTES(10)  // of the test

typedef struct Client {
    tr_stream *stream;  // set by tr_serve
} Client;

// [snippet: server]
/* Answers each line with 4 KiB. */
static tr_err client_run(tr_ctx *ctx, Client *self)
{
    static const char answer[ANSWER_SIZE];
    char line[LINE_SIZE];
    size_t got;
    for (;;) {
        // 0: the limits of the server. TR_ETIMEDOUT is an ordinary end here.
        tr_err err =
            tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0, &got);
        if (err == TR_ELIMIT) return TR_OK;  // a line without an end
        TR_TRY(err);
        if (got == 0) return TR_OK;
        TR_TRY(tr_write(ctx, self->stream, 0, {answer, sizeof(answer)}));
    }
}
TR_ACTOR(client, Client, TR_HOOK(on_run, client_run));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index, (void)user;
    return tr_ref_err(
        tr_serve(sys, ADDRESS, client, .name = "server",
                 .connections = 1000,                // more wait to be accepted
                 .per_address = 100,                 // of one host
                 .read_timeout = TR_SECONDS(60),     // for a whole line
                 .write_timeout = TR_SECONDS(30)));  // for a whole answer
}
// [end]

/* ---- its test ---- */

/* Asks for an answer and reads it. */
static tr_err ask(tr_system *us, tr_stream *stream)
{
    char answer[ANSWER_SIZE];
    size_t got;
    TR_TRY(tr_write(us, stream, PATIENCE, {"text\n", 5}));
    return tr_read_exactly(us, stream, answer, sizeof(answer), PATIENCE, &got);
}

/* Reads until the server has cut the client off. */
static tr_err expect_end(tr_system *us, tr_stream *stream)
{
    char bytes[ANSWER_SIZE];
    size_t got;
    tr_err err;
    do {
        err = tr_read(us, stream, bytes, sizeof(bytes), PATIENCE, &got);
    } while (err == TR_OK && got > 0);
    return err == TR_ERESET ? TR_OK : err;
}

// [snippet: test]
static tr_err workload(tr_sim *sim, void *user)
{
    tr_system *us;
    tr_stream *good, *silent, *dribbling, *deaf;
    (void)user;
    TR_TRY(tr_system_open(&us, .world = tr_sim_world(sim)));
    TR_TRY(tr_connect(us, &good, ADDRESS, PATIENCE));
    TR_TRY(tr_connect(us, &silent, ADDRESS, PATIENCE));
    TR_TRY(tr_connect(us, &dribbling, ADDRESS, PATIENCE));
    TR_TRY(tr_connect(us, &deaf, ADDRESS, PATIENCE));
    // A timeout below 0: write what fits, until the server does not read.
    while (tr_write(us, deaf, -1, {"text\n", 5}) == TR_OK) {
    }
    // A byte every ten seconds, until the server has closed.
    while (tr_write(us, dribbling, PATIENCE, {"x", 1}) == TR_OK) {
        TR_TRY(ask(us, good));
        tr_sim_advance(sim, TR_SECONDS(10));
    }
    TR_TRY(expect_end(us, deaf));
    TR_TRY(expect_end(us, silent));
    return ask(us, good);
}
// [end]

int main(void)
{
    uint64_t seed = 0;
    while (
        seed < SEEDS &&
        tr_sim_run(TR_OPTIONS(tr_sim_options, .seed = seed, .node = node,
                              .workload = workload, .quiet_time = TR_SECONDS(1),
                              .faults = TR_OPTIONS(tr_faults, .short_io = 0.2,
                                                   .delay = 0.05))) == TR_OK) {
        seed++;
    }
    printf("%d seeds: the slow ones are cut off, the good one is served\n",
           (int)seed);
    return seed < SEEDS;
}
