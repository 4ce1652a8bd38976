/*
 * cluster_sim.c - a cluster through the public call: nodes join, are killed,
 * paused, shut down and cut off, while the engine and the clocks misbehave.
 *
 * Counters are shared by all nodes, with a store in memory. On every node an
 * actor asks random counters to count, reads them, and sends them numbered
 * notes.
 *   - no number of a counter is acknowledged twice, and none is lost;
 *   - a read that began after an acknowledgement shows it;
 *   - notes of one sender reach one activation in their order;
 *   - every call ends in time, and in the end all counters reply.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { NODES = 4, KEYS = 6, ROUNDS = 120, COUNT_MAX = 4096, LIVES_MAX = 256 };

#define LEASE    TR_SECONDS(2)
#define PATIENCE TR_SECONDS(15)
#define SLACK    TR_SECONDS(30)  // for pauses and wrong clocks

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f"};

typedef struct board {
    tr_storage *store;
    uint64_t acked[KEYS];  // the highest number that was acknowledged
    uint8_t times[KEYS][COUNT_MAX];
    uint64_t life;  // the latest number of a caller
    uint64_t acks, reads, errors, joins;
    char wrong[160];
} board;

static board *the_board;  // of the run

TR_STATE(Counter, (uint64_t, number));
TR_MESSAGE(Count, (uint64_t, number));
TR_REQUEST(Add, Count);
TR_REQUEST(Look, Count);
TR_MESSAGE(Note, (uint32_t, life), (uint64_t, number));
TR_MESSAGE(Go, (uint32_t, key), (uint32_t, what));

#define wrong(...)                                                             \
    (the_board->wrong[0] == '\0'                                               \
         ? snprintf(the_board->wrong, sizeof(the_board->wrong), __VA_ARGS__)   \
         : 0)

/* ---- the counters ---- */

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    Counter next = {.number = self->number + 1};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .number = self->number);
}

static tr_err on_look(tr_ctx *ctx, Counter *self, const Look *m)
{
    return tr_reply(ctx, m, .number = self->number);
}

/* The last note of each sender, as any activation of any counter saw it. */
static uint64_t noted[KEYS][LIVES_MAX];

static tr_err on_note(tr_ctx *ctx, Counter *self, const Note *m)
{
    uint64_t *last = &noted[tr_key(ctx)[0] - 'a'][m->life % LIVES_MAX];
    (void)self;
    if (m->number <= *last) {
        wrong("note %" PRIu64 " came after %" PRIu64, m->number, *last);
    }
    *last = m->number;
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_ON(Add, on_add), TR_ON(Look, on_look),
         TR_ON(Note, on_note));

/* ---- the callers ---- */

TR_STATE(Caller, (uint32_t, life));

static uint64_t notes[LIVES_MAX];  // that each caller has sent

static void add(tr_ctx *ctx, uint32_t key)
{
    board *b = the_board;
    Count count = {0};
    tr_err err =
        tr_ask_virtual(ctx, "counter", keys[key], &count, PATIENCE, Add);
    if (err != TR_OK) {
        b->errors++;
        return;
    }
    b->acks++;
    if (b->times[key][count.number % COUNT_MAX]++ > 0) {
        wrong("number %" PRIu64 " of %s was acknowledged twice", count.number,
              keys[key]);
    }
    b->acked[key] = count.number > b->acked[key] ? count.number : b->acked[key];
}

static void look(tr_ctx *ctx, uint32_t key)
{
    board *b = the_board;
    uint64_t before = b->acked[key];
    Count count = {0};
    if (tr_ask_virtual(ctx, "counter", keys[key], &count, PATIENCE, Look) !=
        TR_OK) {
        b->errors++;
        return;
    }
    b->reads++;
    if (count.number < before) {
        wrong("a read of %s shows %" PRIu64 " after %" PRIu64
              " was acknowledged",
              keys[key], count.number, before);
    }
}

static tr_err on_go(tr_ctx *ctx, const Caller *self, const Go *m)
{
    tr_nanos begun = tr_now(ctx);
    if (m->what == 0) {
        tr_tell_virtual(ctx, "counter", keys[m->key], Note, .life = self->life,
                        .number = ++notes[self->life % LIVES_MAX]);
    } else if (m->what == 1) {
        look(ctx, m->key);
    } else {
        add(ctx, m->key);
    }
    if (tr_now(ctx) - begun > PATIENCE + SLACK) {
        wrong("a call took too long");
    }
    return TR_OK;
}

TR_ACTOR(caller, Caller, TR_ON_INTERLEAVE(Go, on_go));

/* ---- the nodes ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;
    (void)index;
    TR_TRY(tr_host(sys, counter, .storage = b->store, .idle = TR_SECONDS(5)));
    TR_TRY(tr_cluster_join(sys, .lease = LEASE, .timeout = TR_SECONDS(60)));
    b->joins++;
    tr_ref ref = tr_spawn(sys, caller, .name = "caller",
                          TR_INIT(caller, .life = (uint32_t)++b->life));
    return tr_ref_err(ref);
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;
    (void)sim;
    tr_storage_close(b->store);
    *b = (board){0};
    memset(noted, 0, sizeof(noted));
    memset(notes, 0, sizeof(notes));
    the_board = b;
    TR_MUST(tr_storage_memory(&b->store));
}

/* ---- the run ---- */

static void trouble(tr_sim *sim, uint32_t n)
{
    tr_nanos down = (tr_nanos)tr_sim_random(sim, TR_SECONDS(6));
    switch (tr_sim_random(sim, 12)) {
    case 0:
        tr_sim_kill(sim, n, down);
        break;
    case 1:
        tr_sim_shutdown(sim, n, TR_SECONDS(20), down);
        break;
    case 2:
        tr_sim_pause(sim, n, down);
        break;
    default:
        break;
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        for (uint64_t i = tr_sim_random(sim, 8); i > 0; i--) {
            uint32_t from = (uint32_t)tr_sim_random(sim, NODES);
            tr_system *sys = tr_sim_node(sim, from);
            if (sys != NULL) {
                tr_tell(sys, tr_lookup(sys, "/user/caller"), Go,
                        .key = (uint32_t)tr_sim_random(sim, KEYS),
                        .what = (uint32_t)tr_sim_random(sim, 4));
            }
        }
        trouble(sim, n);
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(500)) + 1);
    }
    return TR_OK;
}

static tr_err nothing_is_wrong(tr_sim *sim, void *user)
{
    const board *b = user;
    return b->wrong[0] == '\0' ? TR_OK : tr_sim_fail(sim, "%s", b->wrong);
}

static tr_err all_answer(tr_sim *sim, void *user)
{
    board *b = user;
    for (uint32_t n = 0; n < NODES; n++) {
        tr_system *sys = tr_sim_node(sim, n);
        if (sys == NULL) {
            return tr_sim_fail(sim, "node %" PRIu32 " is not back", n);
        }
        for (uint32_t k = 0; k < KEYS; k++) {
            Count count = {0};
            tr_err err = tr_ask_virtual(sys, "counter", keys[k], &count,
                                        TR_SECONDS(30), Look);
            if (err != TR_OK) {
                return tr_sim_fail(sim,
                                   "node %" PRIu32 " does not reach %s: %s", n,
                                   keys[k], tr_error_text(NULL));
            }
            if (count.number < b->acked[k]) {
                return tr_sim_fail(sim, "%s has %" PRIu64 " of %" PRIu64,
                                   keys[k], count.number, b->acked[k]);
            }
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    board b = {0};
    int status = few_seeds(
        argc, argv, "4",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = workload,
                   .invariant = nothing_is_wrong, .at_end = all_answer,
                   .user = &b,
                   .faults = TR_OPTIONS(
                       tr_faults, .node_kill = 0.00002, .node_pause = 0.00005,
                       .clock_skew = 0.0002, .delay = 0.001, .reset = 0.0005,
                       .refuse = 0.01, .short_io = 0.05, .partition = 0.00005,
                       .one_way = 0.00005, .half_open = 0.00002, .clog = 0.0001,
                       .slow_link = 0.0001, .unknown_outcome = 0.01,
                       .early_wake = 0.01, .delay_max = TR_MS(200),
                       .pause_max = TR_SECONDS(4))));
    tr_storage_close(b.store);
    return status;
}
