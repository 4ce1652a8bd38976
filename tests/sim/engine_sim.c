/*
 * engine_sim.c - nodes count up one number by CAS, through an engine that is
 * slow, out of reach or loses answers, while nodes are killed and paused.
 *
 * Each node reads the number and writes one more, again and again. Held:
 * no number is acknowledged twice; revisions grow with the number; a read
 * shows at least what was acknowledged before it was submitted; in the end
 * the number is not higher than the writes that were tried.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#include "base/check.h"
#include "cluster/engine/engine.h"
#include "few_seeds.h"

enum { NODES = 3, LEAST = 20 };

typedef struct counts {
    tr_sim *sim;
    uint64_t tried, acknowledged, unknown, hints;
    uint64_t highest;   // number that was acknowledged
    uint64_t revision;  // of that number
    bool over;          // the nodes stop
} counts;

static counts all;

/* The operation of one run of a node, and what it knows. */
typedef struct counter {
    tri_engine_op op, watch;
    tri_engine_change change;
    tr_engine *engine;
    uint64_t value;     // being written
    uint64_t at_least;  // acknowledged when the read was submitted
    char text[24];
} counter;

static void on_answer(tri_engine_op *op);

static void submit(counter *it, tri_engine_call call)
{
    if (all.over) {
        return;
    }
    it->at_least = all.highest;
    it->op = (tri_engine_op){.call = call,
                             .key = "sum",
                             .changes = &it->change,
                             .change_count = 1,
                             .done = on_answer};
    tri_engine_submit(it->engine, &it->op);
}

static void on_acknowledged(counter *it)
{
    all.acknowledged++;
    if (it->value <= all.highest || it->op.revision <= all.revision) {
        (void)tr_sim_fail(all.sim,
                          "%" PRIu64 " at revision %" PRIu64
                          " was acknowledged after %" PRIu64 " at %" PRIu64,
                          it->value, it->op.revision, all.highest,
                          all.revision);
    }
    all.highest = it->value;
    all.revision = it->op.revision;
}

static void on_read(counter *it)
{
    tri_engine_row *row = tri_engine_op_row(&it->op);
    uint64_t value = row == NULL ? 0 : strtoull(row->value, NULL, 10);

    if (value < it->at_least) {
        (void)tr_sim_fail(
            all.sim, "%" PRIu64 " was read after %" PRIu64 " was acknowledged",
            value, it->at_least);
    }
    it->value = value + 1;
    snprintf(it->text, sizeof(it->text), "%" PRIu64, it->value);
    it->change = (tri_engine_change){"sum", row == NULL ? 0 : row->revision,
                                     it->text, strlen(it->text) + 1};
    tri_engine_op_fini(&it->op);
    all.tried++;
    submit(it, TRI_ENGINE_CAS);
}

static void on_answer(tri_engine_op *op)
{
    counter *it = tri_container_of(op, counter, op);

    if (all.over) {
        tri_engine_op_fini(op);
        return;
    }
    all.unknown += op->answer == TRI_ENGINE_UNKNOWN;
    if (op->call == TRI_ENGINE_CAS && op->answer == TRI_ENGINE_YES) {
        on_acknowledged(it);
    }
    if (op->call == TRI_ENGINE_GET && op->answer == TRI_ENGINE_YES) {
        on_read(it);
    } else {
        submit(it, TRI_ENGINE_GET);
    }
}

static void on_hint(tri_engine_op *op)
{
    counter *it = tri_container_of(op, counter, watch);

    all.hints++;
    if (!all.over && op->answer == TRI_ENGINE_YES) {
        *op = (tri_engine_op){.call = TRI_ENGINE_WATCH,
                              .key = "s",
                              .after = op->revision,
                              .done = on_hint};
        tri_engine_submit(it->engine, op);
    }
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    tr_engine_options options = {.size = sizeof(options), .system = sys};
    counter *it = calloc(1, sizeof(*it));
    (void)index;
    (void)user;

    if (it == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tr_system_on_closed(sys, free, it));
    TR_TRY(tr_engine_memory(&it->engine, "sums", &options));
    submit(it, TRI_ENGINE_GET);
    it->watch =
        (tri_engine_op){.call = TRI_ENGINE_WATCH, .key = "s", .done = on_hint};
    tri_engine_submit(it->engine, &it->watch);
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    (void)user;
    all = (counts){.sim = sim};
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_advance(sim, TR_SECONDS(20));
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    (void)user;
    all.over = true;
    if (all.highest > all.tried || all.acknowledged < LEAST) {
        return tr_sim_fail(sim,
                           "%" PRIu64 " is the number after %" PRIu64
                           " tries, %" PRIu64 " of them acknowledged",
                           all.highest, all.tried, all.acknowledged);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    tr_faults faults = {
        .size = sizeof(faults),
        .node_kill = 0.001,
        .node_pause = 0.0005,
        .clock_skew = 0.0005,
        .early_wake = 0.01,
        .pause_max = TR_SECONDS(3),
    };
    tr_sim_options options = {
        .size = sizeof(options),
        .faults = &faults,
        .nodes = NODES,
        .node = node,
        .begin = begin,
        .workload = workload,
        .at_end = at_end,
        .quiet_time = TR_SECONDS(10),
    };

    return few_seeds(argc, argv, "10", &options);
}
