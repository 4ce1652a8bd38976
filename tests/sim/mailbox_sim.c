/*
 * mailbox_sim.c - bounded mailboxes: what they refuse, and that sums match.
 *
 * Actors and outside threads send in bursts to actors with small mailboxes of
 * every overflow policy, whose handlers are slow now and then. At any time:
 *   - a mailbox refuses or drops only when it is full;
 *   - a mailbox that makes senders wait refuses nothing, and senders wait only
 *     while it is full;
 *   - messages of one sender are handled in order.
 * When the system is idle every message was handled or is a dead letter, and
 * every mailbox accepts another one.
 *
 * Covers MB10, MB22 and X27.
 */
#include <inttypes.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { BOXES = 4, SENDERS = 4, ROUNDS = 25, LIMIT = 6, FROM = SENDERS + 1 };

static const tr_overflow policies[BOXES] = {
    TR_OVERFLOW_FAIL, TR_OVERFLOW_DROP_NEW, TR_OVERFLOW_DROP_OLD,
    TR_OVERFLOW_BLOCK};

typedef struct board {
    tr_sim *sim;
    tr_ref boxes[BOXES];
    uint64_t sent[BOXES], handled[BOXES], dead[BOXES];
    uint64_t next[FROM][BOXES], seen[FROM][BOXES];
    uint32_t done;
    const char *broken;
} board;

TR_MESSAGE(Number, (uint32_t, from), (uint64_t, number));
TR_MESSAGE(Go, (uint32_t, index));

static void broken(board *b, const char *what)
{
    if (b->broken == NULL) {
        b->broken = what;
    }
}

typedef struct Box {
    board *board;
    uint32_t index;
} Box;

static tr_err on_number(tr_ctx *ctx, Box *self, const Number *m)
{
    board *b = self->board;
    uint64_t *seen = &b->seen[m->from][self->index];

    if (m->number <= *seen) {
        broken(b, "a message overtook another");
    }
    *seen = m->number;
    b->handled[self->index]++;
    return TR_BUGGIFY(ctx, 0.2) ? tr_sleep(ctx, TR_MS(10)) : TR_OK;
}

TR_ACTOR(box, Box, TR_ON(Number, on_number));

static void send(tr_from from, board *b, uint32_t me, uint32_t to)
{
    b->sent[to]++;
    tr_tell(from, b->boxes[to], Number, .from = me,
            .number = ++b->next[me][to]);
}

static tr_err on_go(tr_ctx *ctx, Box *self, const Go *m)
{
    board *b = self->board;

    for (int round = 0; round < ROUNDS; round++) {
        uint32_t to = (uint32_t)tr_sim_random(b->sim, BOXES);
        for (uint64_t n = tr_sim_random(b->sim, 3 * LIMIT); n > 0; n--) {
            tr_nanos begun = tr_now(ctx);
            send(ctx, b, m->index, to);
            // A full mailbox is handled in less time.
            if (tr_now(ctx) - begun > TR_SECONDS(5)) {
                broken(b, "a sender was parked although there was room");
            }
        }
        if (tr_sim_random(b->sim, 3) == 0) {
            TR_TRY(tr_sleep(ctx, (tr_nanos)tr_sim_random(b->sim, TR_MS(100))));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(sender, Box, TR_ON(Go, on_go));

static void on_dead_letter(void *user, const tr_type *type, const void *event)
{
    const tr_dead_letter *letter = event;
    board *b = user;

    (void)type;
    for (uint32_t i = 0; i < BOXES; i++) {
        if (tr_ref_eq(letter->to, b->boxes[i])) {
            b->dead[i]++;
            if (policies[i] == TR_OVERFLOW_BLOCK) {
                broken(b, "one that makes senders wait has refused");
            }
        }
    }
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    (void)index;
    TR_TRY(tr_on_event(sys, tr_dead_letter, on_dead_letter, b));
    for (uint32_t i = 0; i < BOXES; i++) {
        b->boxes[i] =
            tr_spawn(sys, box, .mailbox_limit = LIMIT, .overflow = policies[i],
                     TR_INIT(box, .board = b, .index = i));
    }
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    *b = (board){.sim = sim};
}

/* Checks that each mailbox of the idle system handles one more message. */
static tr_err one_more(tr_sim *sim, board *b)
{
    tr_system *sys = tr_sim_node(sim, 0);

    for (uint32_t i = 0; i < BOXES; i++) {
        uint64_t before = b->handled[i];
        if (b->sent[i] != b->handled[i] + b->dead[i]) {
            return tr_sim_fail(sim,
                               "box %" PRIu32 ": %" PRIu64 " sent, %" PRIu64
                               " handled, %" PRIu64 " dead",
                               i, b->sent[i], b->handled[i], b->dead[i]);
        }
        send(sys, b, SENDERS, i);
        tr_sim_advance(sim, TR_SECONDS(1));
        if (b->handled[i] != before + 1) {
            return tr_sim_fail(sim,
                               "box %" PRIu32 " is empty and takes "
                               "nothing",
                               i);
        }
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);

    for (uint32_t i = 0; i < SENDERS; i++) {
        tr_tell(sys, tr_spawn(sys, sender, TR_INIT(sender, .board = b)), Go,
                .index = i);
    }
    while (b->done < SENDERS && b->broken == NULL) {
        uint32_t to = (uint32_t)tr_sim_random(sim, BOXES);
        for (uint64_t n = tr_sim_random(sim, 2 * LIMIT); n > 0; n--) {
            send(sys, b, SENDERS, to);
        }
        tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(200)));
    }
    tr_sim_advance(sim, TR_SECONDS(5));
    return one_more(sim, b);
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err at_rest(tr_sim *sim, void *user)
{
    return one_more(sim, user);
}

int main(int argc, char **argv)
{
    board b = {0};

    return few_seeds(
        argc, argv, "100",
        TR_OPTIONS(tr_sim_options, .seed = 1, .begin = begin, .node = node,
                   .workload = workload, .invariant = holds, .at_end = at_rest,
                   .user = &b,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
