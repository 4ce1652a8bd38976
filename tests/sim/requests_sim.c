/*
 * requests_sim.c - requests to actors that reply late, never, or end before.
 *
 * Clients send many requests at once, some with little time, some with an
 * hour. A desk replies at once, after a while, later from a kept request,
 * never, with a refusal, or it ends with requests in its mailbox. Clocks are
 * right, so:
 *   - a request that reaches a handler still has time;
 *   - a reply belongs to its request;
 *   - no request is answered twice: a late reply is one whose asker timed out;
 *   - when the system is idle no request is open, not even one with an hour:
 *     those that a desk left were answered by the library.
 *
 * Covers BU6 and T8.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { DESKS = 3, CLIENTS = 4, ROUNDS = 12, AT_ONCE = 24, KEPT = 8 };

#define SLACK TR_MS(1)  // between asking and being asked

typedef struct board {
    tr_sim *sim;
    tr_ref desks[DESKS];
    uint64_t begun, ended, timeouts, late, left;
    uint32_t done;
    const char *broken;
} board;

TR_MESSAGE(Answer, (uint64_t, number));
TR_REQUEST(Question, Answer, (uint64_t, number), (int64_t, until),
           (uint32_t, how));
TR_MESSAGE(Later);
TR_MESSAGE(Go);

static void broken(board *b, const char *what)
{
    if (b->broken == NULL) {
        b->broken = what;
    }
}

/* ---- desks ---- */

typedef struct Desk {
    board *board;
    const Question *kept[KEPT];
    uint32_t count;
} Desk;

static tr_err keep(tr_ctx *ctx, Desk *self, const Question *m)
{
    if (self->count == KEPT) {
        return tr_reply(ctx, m, .number = m->number);
    }
    self->kept[self->count++] = tr_keep(ctx, m);
    (void)tr_after(ctx, TR_MS(50), Later);
    return TR_OK;
}

static tr_err on_later(tr_ctx *ctx, Desk *self, const Later *m)
{
    (void)m;
    if (self->count > 0) {
        const Question *kept = self->kept[--self->count];
        (void)!tr_reply(ctx, kept, .number = kept->number);
        tr_release(ctx, kept);
    }
    return TR_OK;
}

static tr_err on_question(tr_ctx *ctx, Desk *self, const Question *m)
{
    if (tr_now(ctx) > m->until + SLACK) {
        broken(self->board, "a question was asked after its time was over");
    }
    switch (m->how % 16) {
    case 0:
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
        return tr_reply(ctx, m, .number = m->number);
    case 1:
        return tr_refuse(ctx, m, TR_EUSER, "not today");
    case 2:
        return TR_OK;  // no reply
    case 3:
    case 4:
        return keep(ctx, self, m);
    case 5:
        (void)!tr_reply(ctx, m, .number = m->number);
        return tr_sleep(ctx, TR_MS(5));
    case 6:
        return m->how % 64 == 6 ? tr_fail(ctx, TR_EUSER, "asked too much")
                                : tr_reply(ctx, m, .number = m->number);
    default:
        return tr_reply(ctx, m, .number = m->number);
    }
}

TR_ACTOR(desk, Desk, TR_ON(Question, on_question), TR_ON(Later, on_later));

static tr_ref new_desk(tr_system *sys, board *b)
{
    return tr_spawn(sys, desk, TR_INIT(desk, .board = b),
                    .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX));
}

/* ---- clients ---- */

typedef struct Client {
    board *board;
} Client;

static void take(tr_ctx *ctx, board *b, tr_future future, uint64_t number)
{
    Answer answer = {0};
    tr_err err = tr_await(ctx, future, Question, &answer);

    b->ended++;
    b->timeouts += err == TR_ETIMEDOUT;
    if (err == TR_OK && answer.number != number) {
        broken(b, "the answer to another question");
    }
    if (err == TR_EINVAL || err == TR_EWOULDBLOCK) {
        broken(b, "a question was not asked");
    }
}

static tr_err on_go(tr_ctx *ctx, Client *self, const Go *m)
{
    static const tr_nanos spans[] = {TR_MS(10), TR_MS(100), TR_MINUTES(60)};
    board *b = self->board;

    (void)m;
    for (int round = 0; round < ROUNDS; round++) {
        tr_future futures[AT_ONCE];
        uint64_t count = 1 + tr_sim_random(b->sim, AT_ONCE);
        uint64_t first = b->begun;
        tr_ref to = b->desks[tr_sim_random(b->sim, DESKS)];
        for (uint64_t i = 0; i < count; i++) {
            tr_nanos span = spans[tr_sim_random(b->sim, 3)];
            futures[i] = tr_async(ctx, to, span, Question, .number = first + i,
                                  .until = tr_now(ctx) + span,
                                  .how = (uint32_t)tr_sim_random(b->sim, 1024));
        }
        b->begun += count;
        for (uint64_t i = 0; i < count; i++) {
            take(ctx, b, futures[i], first + i);
        }
        if (tr_sim_random(b->sim, 3) == 0) {
            TR_TRY(tr_sleep(ctx, (tr_nanos)tr_sim_random(b->sim, TR_MS(500))));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(client, Client, TR_ON(Go, on_go));

/* ---- the run ---- */

static void on_dead_letter(void *user, const tr_type *type, const void *event)
{
    const tr_dead_letter *letter = event;
    board *b = user;

    (void)type;
    b->late += letter->reason == TR_DEAD_LATE;
    b->left += letter->reason == TR_DEAD_DRAINED;
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    (void)index;
    for (uint32_t i = 0; i < DESKS; i++) {
        b->desks[i] = new_desk(sys, b);
    }
    return tr_on_event(sys, tr_dead_letter, on_dead_letter, b);
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    *b = (board){.sim = sim};
}

static void end_desk(tr_sim *sim, tr_system *sys, board *b)
{
    uint32_t i = (uint32_t)tr_sim_random(sim, DESKS);

    switch (tr_sim_random(sim, 3)) {
    case 0:
        tr_stop(sys, b->desks[i]);
        break;
    case 1:
        tr_kill(sys, b->desks[i]);
        break;
    default:
        tr_poison(sys, b->desks[i]);
        break;
    }
    b->desks[i] = new_desk(sys, b);
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_nanos begun = tr_sim_now(sim);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        tr_tell(sys, tr_spawn(sys, client, TR_INIT(client, .board = b)), Go);
    }
    while (b->done < CLIENTS && tr_sim_now(sim) - begun < TR_MINUTES(10)) {
        tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(100)));
        if (tr_sim_random(sim, 4) == 0) {
            end_desk(sim, sys, b);
        }
    }
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err all_answered(tr_sim *sim, void *user)
{
    const board *b = user;

    if (b->done < CLIENTS || b->begun != b->ended) {
        return tr_sim_fail(sim, "%" PRIu64 " asked, %" PRIu64 " ended",
                           b->begun, b->ended);
    }
    if (b->late > b->timeouts) {
        return tr_sim_fail(
            sim, "%" PRIu64 " late answers for %" PRIu64 " that had given up",
            b->late, b->timeouts);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    board b = {0};

    return few_seeds(
        argc, argv, "100",
        TR_OPTIONS(tr_sim_options, .seed = 1, .begin = begin, .node = node,
                   .workload = workload, .invariant = holds,
                   .at_end = all_answered, .user = &b,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
