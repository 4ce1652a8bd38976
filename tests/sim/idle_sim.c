/*
 * idle_sim.c - virtual actors are deactivated when they are idle, and only
 * then.
 *
 * Clerks are virtual actors. They reply at once, after a wait inside the turn,
 * or later: they keep the request, or stash it, for longer than the idle time.
 * They are not stopped and clocks are right, so:
 *   - every request is answered by the clerk that has taken it;
 *   - a clerk is deactivated after its idle time, counted from its last turn,
 *     neither before nor much later;
 *   - messages that arrive during the deactivation are handled by the next
 *     activation, in order.
 *
 * Covers AC5, AC6 and X30.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { KEYS = 4, CLIENTS = 4, ROUNDS = 25, KEPT = 4 };

#define IDLE TR_SECONDS(2)

static const char *const keys[KEYS] = {"a", "b", "c", "d"};

typedef struct board {
    tr_sim *sim;
    tr_nanos last[KEYS];  // when its last turn ended
    uint32_t open[KEYS];  // requests kept or stashed
    uint64_t sent[KEYS][CLIENTS], seen[KEYS][CLIENTS];
    uint64_t rests, begun, ended;
    uint32_t done;
    const char *broken;
} board;

static board the_board;  // there is one run at a time

TR_MESSAGE(Answer, (uint64_t, number));
TR_REQUEST(Question, Answer, (uint64_t, number), (uint32_t, how));
TR_MESSAGE(Note, (uint32_t, client), (uint64_t, number));
TR_MESSAGE(Later);
TR_MESSAGE(Go, (uint32_t, index));

static void broken(const char *what)
{
    if (the_board.broken == NULL) {
        the_board.broken = what;
    }
}

/* ---- clerks ---- */

typedef struct Clerk {
    uint32_t key;
    const Question *kept[KEPT];
    uint32_t count;
    uint32_t stashed;
    bool later;  // stashed requests are answered now
} Clerk;

static tr_err clerk_start(tr_ctx *ctx, Clerk *self)
{
    self->key = (uint32_t)(tr_key(ctx)[0] - 'a');
    the_board.last[self->key] = tr_now(ctx);
    return TR_OK;
}

static tr_err clerk_stop(tr_ctx *ctx, Clerk *self, tr_reason reason)
{
    board *b = &the_board;
    tr_nanos idle = tr_now(ctx) - b->last[self->key];

    if (reason != TR_IDLE && reason != TR_STOPPED) {
        broken("an end that nobody has asked for");
    }
    if (reason == TR_IDLE) {
        b->rests++;
        if (b->open[self->key] > 0) {
            broken("a clerk rests while it has a question to answer");
        } else if (idle < IDLE) {
            broken("a clerk rests before its idle time is over");
        } else if (idle > IDLE + IDLE / 2 + TR_MS(100)) {
            broken("a clerk rests long after its idle time");
        }
    }
    if (TR_BUGGIFY(ctx, 0.5)) {
        (void)!tr_sleep(ctx, TR_MS(200));
    }
    return TR_OK;
}

static tr_err on_question(tr_ctx *ctx, Clerk *self, const Question *m)
{
    board *b = &the_board;

    b->last[self->key] = tr_now(ctx);
    switch (m->how % 5) {
    case 0:  // a turn that waits
        TR_TRY(tr_sleep(ctx, 2 * IDLE));
        b->last[self->key] = tr_now(ctx);
        return tr_reply(ctx, m, .number = m->number);
    case 1:
        if (self->count < KEPT) {
            b->open[self->key]++;
            self->kept[self->count++] = tr_keep(ctx, m);
            (void)tr_after(ctx, 2 * IDLE, Later);
            return TR_OK;
        }
        return tr_reply(ctx, m, .number = m->number);
    case 2:
        if (!self->later) {
            b->open[self->key]++;
            self->stashed++;
            tr_stash(ctx, m);
            (void)tr_after(ctx, 2 * IDLE, Later);
            return TR_OK;
        }
        return tr_reply(ctx, m, .number = m->number);
    default:
        return tr_reply(ctx, m, .number = m->number);
    }
}

static tr_err on_later(tr_ctx *ctx, Clerk *self, const Later *m)
{
    (void)m;
    the_board.last[self->key] = tr_now(ctx);
    while (self->count > 0) {
        const Question *kept = self->kept[--self->count];
        the_board.open[self->key]--;
        (void)!tr_reply(ctx, kept, .number = kept->number);
        tr_release(ctx, kept);
    }
    the_board.open[self->key] -= self->stashed;
    self->stashed = 0;
    self->later = true;  // from now on nothing is stashed
    tr_unstash_all(ctx);
    return TR_OK;
}

static tr_err on_note(tr_ctx *ctx, Clerk *self, const Note *m)
{
    uint64_t *seen = &the_board.seen[self->key][m->client];

    the_board.last[self->key] = tr_now(ctx);
    if (m->number != *seen + 1) {
        broken("a note was lost, or overtook another");
    }
    *seen = m->number;
    return TR_OK;
}

TR_ACTOR(clerk, Clerk, TR_HOOK(pre_start, clerk_start),
         TR_HOOK(post_stop, clerk_stop), TR_ON(Question, on_question),
         TR_ON(Later, on_later), TR_ON(Note, on_note));

/* ---- clients ---- */

typedef struct Client {
    uint32_t unused;
} Client;

static void ask(tr_ctx *ctx, tr_ref ref)
{
    board *b = &the_board;
    Answer answer = {0};
    uint64_t number = ++b->begun;
    tr_err err =
        tr_ask(ctx, ref, &answer, TR_MINUTES(30), Question, .number = number,
               .how = (uint32_t)tr_sim_random(b->sim, 100));

    b->ended++;
    if (err != TR_OK) {
        broken("a clerk did not answer");
    } else if (answer.number != number) {
        broken("the answer to another question");
    }
}

static tr_err on_go(tr_ctx *ctx, Client *self, const Go *m)
{
    board *b = &the_board;

    (void)self;
    for (int round = 0; round < ROUNDS && b->broken == NULL; round++) {
        uint32_t key = (uint32_t)tr_sim_random(b->sim, KEYS);
        tr_ref ref = tr_virtual(ctx, "clerk", keys[key]);
        for (uint64_t n = tr_sim_random(b->sim, 4); n > 0; n--) {
            tr_tell(ctx, ref, Note, .client = m->index,
                    .number = ++b->sent[key][m->index]);
        }
        if (tr_sim_random(b->sim, 2) == 0) {
            ask(ctx, ref);
        }
        TR_TRY(tr_sleep(ctx, (tr_nanos)tr_sim_random(b->sim, 2 * IDLE) + 1));
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(client, Client, TR_ON(Go, on_go));

/* ---- the run ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index, (void)user;
    return tr_host(sys, clerk, .idle = IDLE);
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    *b = (board){.sim = sim};
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        tr_tell(sys, tr_spawn(sys, client), Go, .index = i);
    }
    while (b->done < CLIENTS) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err at_rest(tr_sim *sim, void *user)
{
    const board *b = user;
    tr_metrics_snapshot m = {.size = sizeof(m)};

    tr_metrics(tr_sim_node(sim, 0), &m);
    if (m.virtual_active != 0) {
        return tr_sim_fail(sim, "%" PRIu64 " do not rest",
                           (uint64_t)m.virtual_active);
    }
    for (uint32_t k = 0; k < KEYS; k++) {
        for (uint32_t c = 0; c < CLIENTS; c++) {
            if (b->sent[k][c] != b->seen[k][c]) {
                return tr_sim_fail(sim, "notes were lost");
            }
        }
    }
    return b->rests > 0 ? holds(sim, user)
                        : tr_sim_fail(sim, "nobody has rested");
}

int main(int argc, char **argv)
{
    return few_seeds(
        argc, argv, "50",
        TR_OPTIONS(tr_sim_options, .seed = 1, .begin = begin, .node = node,
                   .workload = workload, .invariant = holds, .at_end = at_rest,
                   .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
