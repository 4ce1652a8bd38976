/*
 * router_sim.c - routers that grow and shrink while they work.
 *
 * Numbered jobs go to routers of every policy, whose number of workers is
 * changed meanwhile; workers are slow now and then. Each job is done once, by
 * one worker, also those in the mailbox of a worker that is removed.
 *
 * Covers PA2.
 */
#include <inttypes.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { ROUTERS = 4, JOBS = 400, WORKERS = 6 };

static const tr_routing ways[ROUTERS] = {TR_ROUND_ROBIN, TR_RANDOM,
                                         TR_LEAST_LOADED, TR_HASH_OF_FIELD};

typedef struct board {
    tr_sim *sim;
    tr_ref routers[ROUTERS];
    uint8_t done[JOBS];
    uint32_t sent, finished;
    const char *broken;
} board;

TR_MESSAGE(Job, (uint64_t, board), (uint32_t, number), (uint32_t, key));

static tr_err on_job(tr_ctx *ctx, void *self, const Job *m)
{
    board *b = (board *)(uintptr_t)m->board;

    (void)self;
    if (b->done[m->number]++ != 0) {
        b->broken = "a job was done twice";
    }
    b->finished++;
    return TR_BUGGIFY(ctx, 0.3) ? tr_sleep(ctx, TR_MS(20)) : TR_OK;
}

TR_ACTOR(worker, void, TR_ON(Job, on_job));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    (void)index;
    for (uint32_t i = 0; i < ROUTERS; i++) {
        b->routers[i] = tr_router(sys, worker, .routing = ways[i], .count = 3,
                                  .field = "key");
        TR_TRY(tr_ref_err(b->routers[i]));
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
    tr_system *sys = tr_sim_node(sim, 0);

    while (b->sent < JOBS) {
        tr_ref router = b->routers[tr_sim_random(sim, ROUTERS)];
        for (uint64_t n = tr_sim_random(sim, 20); n > 0 && b->sent < JOBS;
             n--) {
            tr_tell(sys, router, Job, .board = (uint64_t)(uintptr_t)b,
                    .number = b->sent, .key = b->sent % 7);
            b->sent++;
        }
        if (tr_sim_random(sim, 3) == 0) {
            tr_tell(sys, router, tr_resize,
                    .count = 1 + (uint32_t)tr_sim_random(sim, WORKERS));
        }
        if (tr_sim_random(sim, 2) == 0) {
            tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(100)));
        }
    }
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err all_done(tr_sim *sim, void *user)
{
    const board *b = user;

    if (b->finished != b->sent) {
        return tr_sim_fail(sim, "%" PRIu32 " jobs, %" PRIu32 " done", b->sent,
                           b->finished);
    }
    return holds(sim, user);
}

int main(int argc, char **argv)
{
    board b = {0};

    return few_seeds(
        argc, argv, "100",
        TR_OPTIONS(tr_sim_options, .seed = 1, .begin = begin, .node = node,
                   .workload = workload, .invariant = holds, .at_end = all_done,
                   .user = &b,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01,
                                        .node_pause = 0.001,
                                        .pause_max = TR_SECONDS(3))));
}
