/*
 * virtual_bus_sim.c - virtual actors on three nodes over a bad network.
 *
 * Tellers on every node send numbered messages to a few names, with pauses
 * around the idle time; the actors are stopped from any node, stop themselves,
 * and start slowly now and then. Packets are lost, doubled, late and out of
 * order; links are slow, clogged and cut. No node is taken for dead, so every
 * message must be handled: after every step no number is out of order, at the
 * end each was handled once, and no actor is active on two nodes at a time.
 * Only a message that was passed on too often may be missing: for each skipped
 * number some node has a dead letter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/sim_node.h"
#include "support/mesh.h"

enum { NODES = 3, KEYS = 4, ROUNDS = 25 };

#define IDLE TR_SECONDS(2)

static const char *const keys[KEYS] = {"a", "b", "c", "d"};

typedef struct board {
    mesh mesh;
    uint32_t sent[KEYS][NODES], handled[KEYS][NODES];
    uint32_t active[KEYS];
    uint32_t wrong, twice, done;
    uint64_t skipped;
} board;

static board *the_board;  // there is one run at a time

TR_MESSAGE(Numbered, (uint32_t, key), (uint32_t, teller), (uint32_t, number));
TR_MESSAGE(Go, (uint32_t, teller));

static uint32_t key_of(tr_ctx *ctx)
{
    return (uint32_t)(tr_key(ctx)[0] - 'a');
}

static tri_bus_counts counts(board *b)
{
    tri_bus_counts sum = {0};
    for (uint32_t i = 0; i < NODES; i++) {
        tri_bus_counts one = tri_bus_count(b->mesh.systems[i]);
        sum.too_often += one.too_often;
        sum.lost_streams += one.lost_streams;
    }
    return sum;
}

static uint64_t dead_letters(board *b)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_metrics_snapshot metrics = {.size = sizeof(metrics)};
        tr_metrics(b->mesh.systems[i], &metrics);
        count += metrics.dead_letters;
    }
    return count;
}

/* Returns how many messages may be missing so far. */
static uint64_t allowed(board *b)
{
    tri_bus_counts sum = counts(b);
    return sum.lost_streams > 0 ? dead_letters(b) : sum.too_often;
}

static tr_err target_start(tr_ctx *ctx, void *self)
{
    (void)self;
    the_board->twice += ++the_board->active[key_of(ctx)] > 1;
    return TR_BUGGIFY(ctx, 0.3) ? tr_sleep(ctx, TR_MS(300)) : TR_OK;
}

static tr_err target_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self;
    (void)reason;
    if (TR_BUGGIFY(ctx, 0.3)) {
        tr_err ignored = tr_sleep(ctx, TR_MS(300));
        (void)ignored;
    }
    the_board->active[key_of(ctx)]--;
    return TR_OK;
}

static tr_err on_numbered(tr_ctx *ctx, void *self, const Numbered *m)
{
    uint32_t *handled = &the_board->handled[m->key][m->teller];
    (void)self;
    if (m->number <= *handled) {
        the_board->wrong++;
        return TR_OK;
    }
    the_board->skipped += m->number - *handled - 1;
    *handled = m->number;
    if (TR_BUGGIFY(ctx, 0.1)) {
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
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
    board *b = the_board;
    tr_sim *sim = b->mesh.sim;
    (void)self;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
        tr_ref ref = tr_virtual(ctx, "target", keys[key]);
        for (uint64_t n = tr_sim_random(sim, 5) + 1; n > 0; n--) {
            tr_tell(ctx, ref, Numbered, .key = key, .teller = m->teller,
                    .number = ++b->sent[key][m->teller]);
        }
        if (tr_sim_random(sim, 4) == 0) {
            tr_stop(ctx, ref);
        }
        if (tr_sim_random(sim, 3) == 0) {
            TR_TRY(tr_sleep(ctx, (tr_nanos)tr_sim_random(sim, 2 * IDLE) + 1));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(teller, void, TR_ON(Go, on_go));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;
    tr_sim *sim = tri_sim_of(sys->world);
    if (b->mesh.sim != sim) {
        memset(b, 0, sizeof(*b));
        mesh_init(&b->mesh, sim, NODES, true);
    }
    TR_TRY(mesh_join(&b->mesh, index, sys));
    return tr_host(sys, target, .idle = IDLE);
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = tr_sim_node(sim, i);
        tr_tell(sys, tr_spawn(sys, teller), Go, .teller = i);
    }
    while (b->done < NODES) {
        tr_sim_advance(sim, TR_MS(500));
        tri_sim_net_trouble(b->mesh.net);
    }
    tri_sim_net_heal(b->mesh.net);
    return TR_OK;
}

static tr_err in_order(tr_sim *sim, void *user)
{
    board *b = user;
    if (b->mesh.sim == NULL || b->mesh.systems[0] == NULL) {
        return TR_OK;  // it is over: the nodes are being closed
    }
    uint64_t lost = b->skipped > 0 ? allowed(b) : 0;
    if (b->wrong == 0 && b->twice == 0 && b->skipped <= lost) {
        return TR_OK;
    }
    memset(b->mesh.systems, 0, sizeof(b->mesh.systems));  // they end now
    return tr_sim_fail(sim,
                       "%u out of order, %u active twice, %" PRIu64
                       " skipped, %" PRIu64 " of them dead letters",
                       b->wrong, b->twice, b->skipped, lost);
}

static tr_err all_handled(tr_sim *sim, void *user)
{
    board *b = user;
    tr_err err = TR_OK;
    uint64_t missing = b->skipped;
    for (uint32_t key = 0; key < KEYS; key++) {
        for (uint32_t i = 0; i < NODES; i++) {
            missing += b->sent[key][i] - b->handled[key][i];
        }
        if (b->active[key] != 0 && err == TR_OK) {
            err = tr_sim_fail(sim, "%s is active after a minute", keys[key]);
        }
    }
    tri_bus_counts sum = counts(b);
    uint64_t lost = sum.too_often, dead = dead_letters(b);
    bool right = sum.lost_streams > 0 ? missing <= dead
                                      : missing == lost && missing == dead;
    if (!right && err == TR_OK) {
        err = tr_sim_fail(sim,
                          "%" PRIu64 " missing, %" PRIu64
                          " passed on too often, %" PRIu64 " dead letters",
                          missing, lost, dead);
    }
    mesh_fini(&b->mesh);
    b->mesh.sim = NULL;
    return err;
}

int main(int argc, char **argv)
{
    static board b;
    the_board = &b;
    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .node = node,
                   .workload = workload, .invariant = in_order,
                   .at_end = all_handled, .user = &b,
                   .faults = TR_OPTIONS(
                       tr_faults, .drop = 0.03, .delay = 0.03, .reorder = 0.03,
                       .duplicate = 0.03, .bit_flip = 0.01, .partition = 0.02,
                       .half_open = 0.02, .slow_link = 0.05, .clog = 0.05,
                       .early_wake = 0.01, .pause_max = TR_SECONDS(3),
                       .delay_max = TR_MS(500))));
}
