/*
 * supervision_storm_sim.c - trees of actors that fail in handlers and hooks.
 *
 * Three supervisors, one for each scope, with children and grandchildren.
 * Handlers return errors and panic; hooks fail before and after the start and
 * around a restart; children ask each other meanwhile. Every change of state is
 * legal. At the end no actor hangs between two states: it is either gone or
 * running, and starts and stops add up.
 *
 * Covers L2, SV15 and X24.
 */
#include <inttypes.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    SUPERVISORS = 3,
    CHILDREN = 3,
    GRANDCHILDREN = 2,
    ACTORS_MAX = 256,
    BLOWS = 120,
    LOOK_EVERY = 8,  // steps between two checks
};

TR_MESSAGE(Blow, (uint32_t, how));
TR_REQUEST(Ping, tr_none);

typedef struct storm {
    tr_sim *sim;
    tr_ref supervisors[SUPERVISORS];
    tr_ref workers[SUPERVISORS][CHILDREN * (1 + GRANDCHILDREN)];
    uint32_t looks;
    int64_t alive;      // incarnations that started and have not stopped
    uint64_t failures;  // that the program has counted
} storm;

typedef struct Worker {
    storm *storm;
    uint32_t group, index;
    bool has_children;
    bool up;  // counted as alive
} Worker;

static tr_err on_blow(tr_ctx *ctx, Worker *self, const Blow *m)
{
    storm *it = self->storm;
    tr_ref other = it->workers[self->group][m->how % CHILDREN];

    switch (m->how % 8) {
    case 0:
        it->failures++;
        return tr_fail(ctx, TR_EUSER, "blown over");
    case 1:
        it->failures++;
        tr_panic(ctx, "blown away");
    case 2:
        TR_TRY(tr_sleep(ctx, TR_MS(5)));
        return TR_OK;
    case 3:
    case 4:
        return tr_ask(ctx, other, NULL, TR_MS(50), Ping);
    case 5:
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    default:
        return TR_OK;
    }
}

static tr_err on_ping(tr_ctx *ctx, Worker *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

static void spawn_children(tr_ctx *ctx, Worker *self);

static tr_err before_start(tr_ctx *ctx, Worker *self)
{
    if (TR_BUGGIFY(ctx, 0.05)) {
        self->storm->failures++;
        return tr_fail(ctx, TR_EUSER, "cannot start");
    }
    if (TR_BUGGIFY(ctx, 0.05)) {
        TR_TRY(tr_sleep(ctx, TR_MS(3)));
    }
    self->storm->alive++;
    self->up = true;
    if (self->has_children) {
        spawn_children(ctx, self);
    }
    return TR_OK;
}

static tr_err after_start(tr_ctx *ctx, Worker *self)
{
    (void)self;
    return TR_BUGGIFY(ctx, 0.02) ? TR_EUSER : TR_OK;
}

static tr_err before_stop(tr_ctx *ctx, Worker *self)
{
    (void)self;
    if (TR_BUGGIFY(ctx, 0.05)) {
        TR_TRY(tr_sleep(ctx, TR_MS(3)));
    }
    return TR_BUGGIFY(ctx, 0.05) ? TR_EUSER : TR_OK;
}

static tr_err after_stop(tr_ctx *ctx, Worker *self, tr_reason reason)
{
    (void)reason;
    self->storm->alive -= self->up;
    self->up = false;
    return TR_BUGGIFY(ctx, 0.05) ? TR_EUSER : TR_OK;
}

static tr_err before_restart(tr_ctx *ctx, Worker *self, const tr_failure *cause)
{
    (void)self, (void)cause;
    return TR_BUGGIFY(ctx, 0.05) ? TR_EUSER : TR_OK;
}

static tr_err after_restart(tr_ctx *ctx, Worker *self)
{
    (void)self;
    return TR_BUGGIFY(ctx, 0.05) ? TR_EUSER : TR_OK;
}

static tr_directive decide(const Worker *self, const tr_failure *failure)
{
    (void)self;
    return failure->err == TR_ETIMEDOUT ? TR_RESUME : TR_BY_POLICY;
}

TR_ACTOR(worker, Worker, TR_ON(Blow, on_blow), TR_ON(Ping, on_ping),
         TR_HOOK(pre_start, before_start), TR_HOOK(post_start, after_start),
         TR_HOOK(pre_stop, before_stop), TR_HOOK(post_stop, after_stop),
         TR_HOOK(pre_restart, before_restart),
         TR_HOOK(post_restart, after_restart), TR_HOOK(decide, decide));

static void spawn_children(tr_ctx *ctx, Worker *self)
{
    storm *it = self->storm;

    for (uint32_t i = 0; i < GRANDCHILDREN; i++) {
        uint32_t index = CHILDREN + self->index * GRANDCHILDREN + i;
        it->workers[self->group][index] = tr_spawn(
            ctx, worker, .inherit_supervision = i == 0,
            TR_INIT(worker, .storm = it, .group = self->group, .index = index));
    }
}

static tr_err supervisor_start(tr_ctx *ctx, Worker *self)
{
    storm *it = self->storm;
    static const tr_scope scopes[] = {TR_ONE_FOR_ONE, TR_ALL_FOR_ONE,
                                      TR_REST_FOR_ONE};

    for (uint32_t i = 0; i < CHILDREN; i++) {
        it->workers[self->group][i] = tr_spawn(
            ctx, worker,
            .supervision =
                TR_SUPERVISE(.scope = scopes[self->group], .max_restarts = 5,
                             .jitter = 0.5, .keep_children = i == 1,
                             .clear_mailbox = i == 2,
                             .on_limit = i == 0 ? TR_STOP : TR_ESCALATE),
            .stop_timeout = TR_MS(100),
            TR_INIT(worker, .storm = it, .group = self->group, .index = i,
                    .has_children = true));
    }
    return TR_OK;
}

TR_ACTOR(supervisor, Worker, TR_HOOK(pre_start, supervisor_start),
         TR_ON(Ping, on_ping));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    storm *it = user;

    (void)index;
    *it = (storm){.sim = it->sim};
    for (uint32_t i = 0; i < SUPERVISORS; i++) {
        it->supervisors[i] = tr_spawn(
            sys, supervisor, TR_INIT(supervisor, .storm = it, .group = i),
            .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX));
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    storm *it = user;

    for (int i = 0; i < BLOWS; i++) {
        tr_system *sys = tr_sim_node(sim, 0);
        uint64_t group = tr_sim_random(sim, SUPERVISORS);
        uint64_t which = tr_sim_random(sim, CHILDREN * (1 + GRANDCHILDREN));
        if (sys != NULL) {
            tr_tell(sys, it->workers[group][which], Blow,
                    .how = (uint32_t)tr_sim_random(sim, 64));
        }
        if (sys != NULL && tr_sim_random(sim, 50) == 0) {
            tr_kill(sys, it->workers[group][which]);
        }
        tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(30)));
    }
    return TR_OK;
}

/* ---- invariants ---- */

static bool may_follow(tr_state from, tr_state to)
{
    static const uint32_t next[] = {
#define TO(state) (UINT32_C(1) << TR_STATE_##state)
        [TR_STATE_CREATED] = TO(STARTING) | TO(STOPPING) | TO(STOPPED),
        [TR_STATE_STARTING] = TO(RUNNING) | TO(FAILED) | TO(STOPPING),
        [TR_STATE_RUNNING] = TO(STOPPING) | TO(FAILED) | TO(RESTARTING),
        [TR_STATE_STOPPING] = TO(STOPPED),
        [TR_STATE_STOPPED] = TO(TERMINATED),
        [TR_STATE_FAILED] =
            TO(RESTARTING) | TO(RUNNING) | TO(STOPPING) | TO(TERMINATED),
        [TR_STATE_RESTARTING] = TO(STARTING) | TO(STOPPING) | TO(FAILED),
        [TR_STATE_TERMINATED] = 0,
#undef TO
    };

    return (next[from] >> to & 1) != 0;
}

static tr_err legal(tr_sim *sim, const tr_actor_info *info)
{
    for (int i = 0; i + 1 < TR_HISTORY && info->history[i + 1] != 0; i++) {
        tr_state from = info->history[i + 1], to = info->history[i];
        if (!may_follow(from, to)) {
            return tr_sim_fail(sim, "%s went from state %d to %d", info->path,
                               (int)from, (int)to);
        }
    }
    return TR_OK;
}

static tr_err look(tr_sim *sim, bool at_end, int64_t *workers)
{
    static tr_actor_info infos[ACTORS_MAX];
    tr_system *sys = tr_sim_node(sim, 0);

    infos[0].size = sizeof(infos[0]);
    size_t count = tr_actors(sys, infos, ACTORS_MAX);
    for (size_t i = 0; i < count && i < ACTORS_MAX; i++) {
        TR_TRY(legal(sim, &infos[i]));
        *workers +=
            infos[i].kind != NULL && strcmp(infos[i].kind, "worker") == 0;
        if (at_end && infos[i].state != TR_STATE_RUNNING) {
            return tr_sim_fail(sim, "%s is left in state %d", infos[i].path,
                               (int)infos[i].state);
        }
        if (at_end && (infos[i].depth > 0 || infos[i].running != NULL)) {
            return tr_sim_fail(sim, "%s is not idle", infos[i].path);
        }
    }
    return TR_OK;
}

static tr_err always(tr_sim *sim, void *user)
{
    storm *it = user;

    if (tr_sim_node(sim, 0) == NULL || ++it->looks % LOOK_EVERY != 0) {
        return TR_OK;
    }
    int64_t workers = 0;
    return look(sim, false, &workers);
}

static tr_err at_rest(tr_sim *sim, void *user)
{
    storm *it = user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_metrics_snapshot now = {.size = sizeof(now)};

    int64_t workers = 0;
    TR_TRY(look(sim, true, &workers));
    if (it->alive != workers) {
        return tr_sim_fail(sim, "%" PRId64 " workers, %" PRId64 " started",
                           workers, it->alive);
    }
    for (uint32_t i = 0; i < SUPERVISORS; i++) {
        TR_TRY(tr_ask(sys, it->supervisors[i], NULL, TR_SECONDS(1), Ping));
    }
    tr_metrics(sys, &now);
    if (now.spawned - now.ended != now.actors) {
        return tr_sim_fail(
            sim, "%" PRIu64 " came, %" PRIu64 " went, %" PRIu64 " are there",
            now.spawned, now.ended, now.actors);
    }
    if (now.failures < it->failures) {
        return tr_sim_fail(sim, "%" PRIu64 " of %" PRIu64 " failures counted",
                           now.failures, it->failures);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    storm it = {0};

    return few_seeds(
        argc, argv, "300",
        TR_OPTIONS(tr_sim_options, .seed = 1, .node = node,
                   .workload = workload, .invariant = always, .at_end = at_rest,
                   .user = &it,
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0002,
                                        .node_pause = 0.001,
                                        .clock_skew = 0.001, .early_wake = 0.01,
                                        .pause_max = TR_SECONDS(3))));
}
