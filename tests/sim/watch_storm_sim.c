/*
 * watch_storm_sim.c - watchers and the watched in every order.
 *
 * Watchers watch and unwatch; targets are stopped, poisoned, killed, made to
 * fail, and replaced, also while a watch is being set; watchers fail and are
 * restarted, which their watches outlive. Whatever the order, each watch ends in
 * exactly one of three ways: one tr_terminated, an unwatch, or the end of the
 * watcher. A tr_terminated without a watch fails the run.
 *
 * Covers DW7, DW8, DW10, DW11, DW16 and DW22.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    WATCHERS = 5,
    TARGETS = 5,
    OPEN_MAX = 64,  // watches of one watcher
    EVENTS = 250,
};

TR_MESSAGE(Look, (uint32_t, slot), (bool, in_order));
TR_MESSAGE(LookAway, (uint32_t, slot));
TR_MESSAGE(LookAtEachOther);
TR_MESSAGE(Stumble);
TR_MESSAGE(Open, (uint32_t, count));
TR_REQUEST(HowMany, Open);

/* What one watcher watches; its watches outlive its restarts. */
typedef struct watches {
    tr_ref open[OPEN_MAX];
    uint32_t count;
} watches;

typedef struct storm {
    tr_sim *sim;
    tr_ref targets[TARGETS];
    tr_ref watchers[WATCHERS];
    watches watches[WATCHERS];
    uint32_t unasked;  // tr_terminated without a watch
    uint64_t told;
} storm;

typedef struct Watcher {
    storm *storm;
    watches *my;
} Watcher;

static uint32_t find(const Watcher *self, tr_ref ref)
{
    uint32_t i = 0;

    while (i < self->my->count && !tr_ref_eq(self->my->open[i], ref)) {
        i++;
    }
    return i;
}

static void remember(Watcher *self, tr_ref ref)
{
    if (find(self, ref) == self->my->count) {
        self->my->open[self->my->count++] = ref;
    }
}

static tr_err on_look(tr_ctx *ctx, Watcher *self, const Look *m)
{
    tr_ref ref = self->storm->targets[m->slot];

    if (self->my->count == OPEN_MAX) {
        return TR_OK;
    }
    remember(self, ref);
    if (m->in_order) {
        tr_watch_in_order(ctx, ref);
    } else {
        tr_watch(ctx, ref);
    }
    if (TR_BUGGIFY(ctx, 0.1)) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    if (TR_BUGGIFY(ctx, 0.05)) {
        return tr_fail(ctx, TR_EUSER, "after watching");
    }
    return TR_OK;
}

static tr_err on_look_away(tr_ctx *ctx, Watcher *self, const LookAway *m)
{
    tr_ref ref = self->storm->targets[m->slot];
    uint32_t at = find(self, ref);

    tr_unwatch(ctx, ref);  // also if it is not watched
    if (at < self->my->count) {
        self->my->open[at] = self->my->open[--self->my->count];
    }
    return TR_OK;
}

/* Watches all watchers, so that the watches form cycles. */
static tr_err on_look_at_each_other(tr_ctx *ctx, Watcher *self,
                                    const LookAtEachOther *m)
{
    (void)m;
    for (uint32_t i = 0; i < WATCHERS && self->my->count < OPEN_MAX; i++) {
        remember(self, self->storm->watchers[i]);
        tr_watch(ctx, self->storm->watchers[i]);
    }
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Watcher *self, const tr_terminated *m)
{
    uint32_t at = find(self, m->actor);

    (void)ctx;
    if (at == self->my->count) {
        self->storm->unasked++;
        return TR_OK;
    }
    self->storm->told++;
    self->my->open[at] = self->my->open[--self->my->count];
    return TR_OK;
}

static tr_err on_stumble(tr_ctx *ctx, Watcher *self, const Stumble *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "stumbled");
}

static tr_err on_how_many(tr_ctx *ctx, Watcher *self, const HowMany *m)
{
    uint32_t count = self->my->count;

    // Watchers are alive, so watches of each other may be open.
    for (uint32_t i = 0; i < WATCHERS; i++) {
        count -= find(self, self->storm->watchers[i]) < self->my->count;
    }
    return tr_reply(ctx, m, .count = count);
}

TR_ACTOR(watcher, Watcher, TR_ON(Look, on_look), TR_ON(LookAway, on_look_away),
         TR_ON(LookAtEachOther, on_look_at_each_other),
         TR_ON(tr_terminated, on_terminated), TR_ON(Stumble, on_stumble),
         TR_ON(HowMany, on_how_many));

static tr_err on_target_stumble(tr_ctx *ctx, void *self, const Stumble *m)
{
    (void)self, (void)m;
    if (TR_BUGGIFY(ctx, 0.5)) {
        TR_TRY(tr_sleep(ctx, TR_MS(2)));
    }
    return tr_fail(ctx, TR_EUSER, "stumbled");
}

TR_ACTOR(target, void, TR_ON(Stumble, on_target_stumble));

static tr_ref new_target(tr_system *sys, bool restarts)
{
    return tr_spawn(
        sys, target,
        .supervision =
            TR_SUPERVISE(.on_failure = restarts ? TR_RESTART : TR_STOP,
                         .on_limit = TR_STOP));
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    storm *it = user;

    (void)index;
    *it = (storm){.sim = it->sim};
    for (uint32_t i = 0; i < TARGETS; i++) {
        it->targets[i] = new_target(sys, i % 2 == 0);
    }
    for (uint32_t i = 0; i < WATCHERS; i++) {
        it->watchers[i] = tr_spawn(
            sys, watcher, TR_INIT(watcher, .storm = it, .my = &it->watches[i]),
            .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX));
    }
    return TR_OK;
}

static void end_target(tr_sim *sim, tr_system *sys, tr_ref ref)
{
    switch (tr_sim_random(sim, 4)) {
    case 0:
        tr_stop(sys, ref);
        break;
    case 1:
        tr_poison(sys, ref);
        break;
    case 2:
        tr_kill(sys, ref);
        break;
    default:
        tr_tell(sys, ref, Stumble);
        break;
    }
}

static void something(tr_sim *sim, tr_system *sys, storm *it)
{
    uint32_t slot = (uint32_t)tr_sim_random(sim, TARGETS);
    tr_ref who = it->watchers[tr_sim_random(sim, WATCHERS)];

    switch (tr_sim_random(sim, 10)) {
    case 0:
    case 1:
        end_target(sim, sys, it->targets[slot]);
        break;
    case 2:
        // The old target may still be alive: it is stopped at the end.
        tr_stop(sys, it->targets[slot]);
        it->targets[slot] = new_target(sys, slot % 2 == 0);
        break;
    case 3:
    case 4:
        tr_tell(sys, who, LookAway, .slot = slot);
        break;
    case 5:
        if (tr_sim_random(sim, 4) == 0) {
            tr_tell(sys, who, Stumble);
        }
        break;
    case 6:
        tr_tell(sys, who, LookAtEachOther);
        break;
    default:
        tr_tell(sys, who, Look, .slot = slot,
                .in_order = tr_sim_random(sim, 4) == 0);
        break;
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    storm *it = user;

    it->sim = sim;
    for (int i = 0; i < EVENTS; i++) {
        tr_system *sys = tr_sim_node(sim, 0);
        if (sys != NULL) {
            something(sim, sys, it);
        }
        if (tr_sim_random(sim, 4) == 0) {
            tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(5)));
        }
    }
    return TR_OK;
}

static tr_err nothing_unasked(tr_sim *sim, void *user)
{
    const storm *it = user;

    return it->unasked > 0 ? tr_sim_fail(sim, "told twice, or unasked") : TR_OK;
}

static tr_err everybody_told(tr_sim *sim, void *user)
{
    storm *it = user;
    tr_system *sys = tr_sim_node(sim, 0);

    for (uint32_t i = 0; i < TARGETS; i++) {
        tr_stop(sys, it->targets[i]);
    }
    tr_sim_advance(sim, TR_SECONDS(20));
    for (uint32_t i = 0; i < WATCHERS; i++) {
        Open open;
        TR_TRY(tr_ask(sys, it->watchers[i], &open, 0, HowMany));
        if (open.count > 0) {
            return tr_sim_fail(sim,
                               "watcher %" PRIu32 " was not told of %" PRIu32,
                               i, open.count);
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    storm it = {0};

    return few_seeds(
        argc, argv, "500",
        TR_OPTIONS(tr_sim_options, .seed = 1, .node = node,
                   .workload = workload, .invariant = nothing_unasked,
                   .at_end = everybody_told, .user = &it,
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0002,
                                        .node_pause = 0.001,
                                        .clock_skew = 0.001, .early_wake = 0.01,
                                        .pause_max = TR_SECONDS(3))));
}
