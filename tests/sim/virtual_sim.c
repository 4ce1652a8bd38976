/*
 * virtual_sim.c - virtual actors that are activated and deactivated often.
 *
 * Tellers send numbered messages to a few names, with pauses around the idle
 * time. Actors start and stop slowly now and then, stop themselves, are
 * stopped, and there is one name more than may be active. After every step no
 * number is out of order. At the end each message was handled once, and no
 * actor is active.
 */
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

enum { KEYS = 5, TELLERS = 3, ROUNDS = 60 };

#define IDLE TR_SECONDS(2)

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e"};

typedef struct board {
    tr_sim *sim;
    uint32_t sent[KEYS][TELLERS];
    uint32_t handled[KEYS][TELLERS];
    uint32_t wrong, done;
} board;

TR_MESSAGE(Numbered, (uint64_t, board), (uint32_t, key), (uint32_t, teller),
           (uint32_t, number));
TR_MESSAGE(Go, (uint64_t, board), (uint32_t, teller));

static tr_err target_start(tr_ctx *ctx, void *self)
{
    (void)self;
    return TR_BUGGIFY(ctx, 0.3) ? tr_sleep(ctx, TR_MS(500)) : TR_OK;
}

static tr_err target_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self;
    (void)reason;
    return TR_BUGGIFY(ctx, 0.3) ? tr_sleep(ctx, TR_MS(500)) : TR_OK;
}

static tr_err on_numbered(tr_ctx *ctx, void *self, const Numbered *m)
{
    board *b = (board *)(uintptr_t)m->board;
    uint32_t *handled = &b->handled[m->key][m->teller];
    (void)self;
    b->wrong += m->number != *handled + 1;
    *handled = m->number;
    if (TR_BUGGIFY(ctx, 0.1)) {
        TR_TRY(tr_sleep(ctx, TR_MS(50)));
    }
    if (TR_BUGGIFY(ctx, 0.1)) {
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

TR_ACTOR(target, void, TR_HOOK(pre_start, target_start),
         TR_HOOK(post_stop, target_stop), TR_ON(Numbered, on_numbered));

static tr_err on_go(tr_ctx *ctx, void *self, const Go *m)
{
    board *b = (board *)(uintptr_t)m->board;
    (void)self;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t key = (uint32_t)tr_sim_random(b->sim, KEYS);
        tr_ref ref = tr_virtual(ctx, "target", keys[key]);
        for (uint64_t n = tr_sim_random(b->sim, 5) + 1; n > 0; n--) {
            tr_tell(ctx, ref, Numbered, .board = m->board, .key = key,
                    .teller = m->teller, .number = ++b->sent[key][m->teller]);
        }
        if (tr_sim_random(b->sim, 4) == 0) {
            tr_stop(ctx, ref);
        }
        if (tr_sim_random(b->sim, 3) == 0) {
            TR_TRY(
                tr_sleep(ctx, (tr_nanos)tr_sim_random(b->sim, 2 * IDLE) + 1));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(teller, void, TR_ON(Go, on_go));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    (void)user;
    return tr_host(sys, target, .idle = IDLE, .max_active = 4);
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);
    memset(b, 0, sizeof(*b));
    b->sim = sim;
    for (uint32_t i = 0; i < TELLERS; i++) {
        tr_tell(sys, tr_spawn(sys, teller), Go, .board = (uint64_t)(uintptr_t)b,
                .teller = i);
    }
    while (b->done < TELLERS) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return TR_OK;
}

static tr_err in_order(tr_sim *sim, void *user)
{
    const board *b = user;
    return b->wrong == 0
               ? TR_OK
               : tr_sim_fail(sim, "%u numbers out of order", b->wrong);
}

static tr_err all_handled(tr_sim *sim, void *user)
{
    board *b = user;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    if (memcmp(b->sent, b->handled, sizeof(b->sent)) != 0) {
        return tr_sim_fail(sim, "messages were lost");
    }
    tr_metrics(tr_sim_node(sim, 0), &m);
    if (m.virtual_active != 0 || m.activations < KEYS) {
        return tr_sim_fail(sim, "%llu active after a minute, %llu in all",
                           (unsigned long long)m.virtual_active,
                           (unsigned long long)m.activations);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    board b = {0};
    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = 1, .node = node,
                   .workload = workload, .invariant = in_order,
                   .at_end = all_handled, .user = &b,
                   .faults = TR_OPTIONS(
                       tr_faults, .early_wake = 0.01, .node_pause = 0.0001,
                       .clock_skew = 0.0001, .pause_max = TR_SECONDS(3))));
}
