/*
 * streams_sim.c - nodes serve each other over streams, through every fault of
 * connections, links and nodes.
 *
 * Each node serves a line protocol and has callers, which connect to the other
 * nodes, send numbered lines, several at once, and read the answers. An answer
 * must be the one to this caller's line, complete and in order; a connection
 * that breaks is made anew. After the faults have ended every caller gets
 * answers again: no wake-up was lost, and no server has stopped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { NODES = 3, CALLERS = 3, LINES = 8, PAD = 200 };

#define PATIENCE TR_SECONDS(5)  // of a caller; then it connects again

typedef struct board {
    tr_sim *sim;
    uint64_t answered[NODES][CALLERS];  // lines, by caller
    uint64_t before[NODES][CALLERS];    // when the faults had ended
} board;

/* ---- serving ---- */

typedef struct Served {
    tr_stream *stream;
    uint32_t node;
} Served;

static tr_err served_run(tr_ctx *ctx, Served *self)
{
    char line[64], head[32];
    size_t got;

    snprintf(head, sizeof(head), "%" PRIu32 " ", self->node);
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line),
                             TR_SECONDS(30), &got));
        if (got == 0) {
            return TR_OK;
        }
        if (TR_BUGGIFY(ctx, 0.02)) {
            TR_TRY(tr_sleep(ctx, TR_MS(300)));
        }
        // A long answer, so that windows fill and writes are cut short.
        char pad[PAD];
        memset(pad, '.', sizeof(pad));
        TR_TRY(tr_write(ctx, self->stream, TR_SECONDS(30), {head, strlen(head)},
                        {pad, sizeof(pad)}, {" ", 1}, {line, got}));
    }
}
TR_ACTOR(served, Served, TR_HOOK(on_run, served_run));

/* ---- calling ---- */

typedef struct Caller {
    board *board;
    uint32_t node, index;
    uint64_t next;  // number of the next line
} Caller;

/* Reads the answer to one line and compares it. */
static tr_err check_answer(tr_ctx *ctx, Caller *self, tr_stream *stream,
                           uint32_t to, uint64_t number)
{
    char wanted[64], answer[PAD + 128] = "";
    size_t got;

    TR_TRY(tr_read_until(ctx, stream, '\n', answer, sizeof(answer) - 1,
                         PATIENCE, &got));
    if (got == 0) {
        return TR_ERESET;
    }
    int head = snprintf(wanted, sizeof(wanted), "%" PRIu32 " ", to);
    bool good = strncmp(answer, wanted, (size_t)head) == 0;
    snprintf(wanted, sizeof(wanted), " %" PRIu32 ".%" PRIu32 ".%" PRIu64 "\n",
             self->node, self->index, number);
    size_t tail = strlen(wanted);
    good = good && got == (size_t)head + PAD + tail &&
           strcmp(answer + got - tail, wanted) == 0;
    if (!good) {
        return tr_sim_fail(self->board->sim, "a wrong answer: %s", answer);
    }
    self->board->answered[self->node][self->index]++;
    return TR_OK;
}

/* Sends some lines at once and reads their answers. */
static tr_err call(tr_ctx *ctx, Caller *self, tr_stream *stream, uint32_t to)
{
    uint64_t first = self->next;
    uint32_t count = 1 + (uint32_t)tr_random(ctx, LINES);

    for (uint32_t i = 0; i < count; i++) {
        char line[64];
        int size = snprintf(line, sizeof(line),
                            "%" PRIu32 ".%" PRIu32 ".%" PRIu64 "\n", self->node,
                            self->index, self->next++);
        TR_TRY(tr_write(ctx, stream, PATIENCE, {line, (size_t)size}));
    }
    for (uint64_t number = first; number < first + count; number++) {
        TR_TRY(check_answer(ctx, self, stream, to, number));
    }
    return TR_OK;
}

/* Calls one node until something goes wrong, or for a while. */
static tr_err call_node(tr_ctx *ctx, Caller *self)
{
    uint32_t to = (uint32_t)tr_random(ctx, NODES);
    char at[TR_ADDRESS_SIZE];
    tr_stream *stream;
    tr_err err = TR_OK;

    snprintf(at, sizeof(at), "tcp://node-%" PRIu32 ":7000", to);
    TR_TRY(tr_connect(ctx, &stream, at, PATIENCE));
    for (uint32_t i = 0; i < 20 && err == TR_OK; i++) {
        err = call(ctx, self, stream, to);
        if (err == TR_OK) {
            err = tr_sleep(ctx, TR_MS(50));
        }
    }
    tr_stream_close(ctx, stream);
    return err;
}

static tr_err caller_run(tr_ctx *ctx, Caller *self)
{
    for (;;) {
        tr_err err = call_node(ctx, self);
        switch (err) {
        case TR_OK:
        case TR_ERESET:
        case TR_EUNREACHABLE:
        case TR_ETIMEDOUT:
            TR_TRY(tr_sleep(ctx, TR_MS(100)));
            break;
        default:
            return err;
        }
    }
}
TR_ACTOR(caller, Caller, TR_HOOK(on_run, caller_run));

/* ---- the run ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    char at[TR_ADDRESS_SIZE];

    snprintf(at, sizeof(at), "tcp://node-%" PRIu32 ":7000", index);
    TR_TRY(
        tr_ref_err(tr_serve(sys, at, served, .name = "server", .backlog = 2,
                            .connections = 6, TR_INIT(served, .node = index))));
    for (uint32_t i = 0; i < CALLERS; i++) {
        (void)tr_spawn(
            sys, caller,
            TR_INIT(caller, .board = user, .node = index, .index = i));
    }
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;
    *b = (board){.sim = sim};
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_sim_advance(sim, TR_SECONDS(60));
    memcpy(b->before, b->answered, sizeof(b->before));
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    const board *b = user;
    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t i = 0; i < CALLERS; i++) {
            if (b->answered[n][i] == b->before[n][i]) {
                return tr_sim_fail(sim, "caller %u of node %u hears nothing", i,
                                   n);
            }
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    board b;
    tr_faults faults = {
        .size = sizeof(faults),
        .refuse = 0.05,
        .reset = 0.005,
        .short_io = 0.2,
        .delay = 0.02,
        .partition = 0.0002,
        .half_open = 0.0002,
        .slow_link = 0.0002,
        .clog = 0.0002,
        .one_way = 0.0002,
        .swizzle = 0.0002,
        .node_kill = 0.0001,
        .node_pause = 0.0001,
        .clock_skew = 0.0001,
    };
    tr_sim_options options = {
        .size = sizeof(options),
        .nodes = NODES,
        .node = node,
        .begin = begin,
        .workload = workload,
        .at_end = at_end,
        .user = &b,
        .faults = &faults,
        .check_every = 16,
    };
    return few_seeds(argc, argv, "20", &options);
}
