/*
 * adder_program.h - a small program for tests of whole runs: an adder on each
 * of three nodes, and a workload that asks them.
 */
#ifndef TEST_ADDER_PROGRAM_H
#define TEST_ADDER_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"

enum { NODES = 3, ROUNDS = 40 };

TR_MESSAGE(Total, (uint64_t, sum));
TR_REQUEST(Add, Total, (uint64_t, n));
TR_REQUEST(Hang, Total);

typedef struct Adder {
    uint64_t sum;
} Adder;

static inline tr_err on_add(tr_ctx *ctx, Adder *self, const Add *m)
{
    self->sum += m->n;
    if (TR_BUGGIFY(ctx, 0.1)) {
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
    }
    return tr_reply(ctx, m, .sum = self->sum);
}

static inline tr_err on_hang(tr_ctx *ctx, Adder *self, const Hang *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_FOREVER);
}

TR_ACTOR(adder, Adder, TR_ON(Add, on_add), TR_ON(Hang, on_hang));

typedef struct program {
    tr_ref refs[NODES];
    uint32_t boots[NODES];
    uint32_t failing_boots;  // this many boots of node 0 still fail
    uint32_t answered, unanswered;
    uint64_t steps_checked;
    uint64_t fail_at;  // the invariant breaks at this step; 0: never
    bool saw_end;
} program;

static inline tr_err node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;

    if (index == 0 && it->failing_boots > 0) {
        it->failing_boots--;
        return TR_EIO;
    }
    it->boots[index]++;
    it->refs[index] = tr_spawn(sys, adder, TR_INIT(adder));
    return TR_OK;
}

static inline tr_err workload(tr_sim *sim, void *user)
{
    program *it = user;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t index = (uint32_t)tr_sim_random(sim, NODES);
        tr_sim_advance(sim, TR_MS(50));
        tr_system *sys = tr_sim_node(sim, index);
        if (sys == NULL) {
            continue;
        }
        tr_err err =
            tr_ask(sys, it->refs[index], NULL, TR_SECONDS(1), Add, .n = 1);
        it->answered += err == TR_OK;
        it->unanswered += err != TR_OK;
    }
    return TR_OK;
}

static inline tr_err invariant(tr_sim *sim, void *user)
{
    program *it = user;

    it->steps_checked++;
    if (it->fail_at > 0 && tr_sim_steps(sim) >= it->fail_at) {
        return tr_sim_fail(sim, "planted at %d", 1);
    }
    return TR_OK;
}

static inline tr_err at_end(tr_sim *sim, void *user)
{
    program *it = user;

    it->saw_end = true;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = tr_sim_node(sim, i);
        if (sys == NULL) {
            return tr_sim_fail(sim, "node %u is down", i);
        }
        TR_TRY(tr_ask(sys, it->refs[i], NULL, TR_SECONDS(1), Add, .n = 1));
    }
    return TR_OK;
}

static inline tr_sim_options options_of(program *it)
{
    return (tr_sim_options){.size = sizeof(tr_sim_options),
                            .nodes = NODES,
                            .node = node,
                            .workload = workload,
                            .invariant = invariant,
                            .at_end = at_end,
                            .user = it};
}

/* Stores the text of the failure; a tri_sim_inspect_fn. */
static inline void keep_text(tr_sim *sim, void *user)
{
    memcpy(user, sim->fail_text, TRI_SIM_FAIL_MAX);
}

/* Runs without printing. Stores the text of the failure, unless NULL. */
static inline tri_sim_result run(tr_sim_options options, uint64_t seed,
                                 char *text)
{
    tri_sim_plan plan = {.seed = seed, .silent = true};
    tri_sim_result result;
    char unused[TRI_SIM_FAIL_MAX];

    (void)tri_sim_run_plan(&options, &plan, &result, keep_text,
                           text != NULL ? text : unused);
    return result;
}

/* Kills, pauses and wrong clocks, often. */
static const tr_faults rough = {.size = sizeof(rough),
                                .node_kill = 0.005,
                                .node_pause = 0.005,
                                .clock_skew = 0.005,
                                .early_wake = 0.05,
                                .pause_max = TR_SECONDS(1)};

#endif
