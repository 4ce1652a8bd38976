/*
 * shutdown_sim.c - a system is closed at any moment.
 *
 * A busy system is terminated, or closed, at a random moment: in the middle
 * of starts, waits, restarts and spawns, by an actor, by a thread, by several
 * at once. Closing always returns within its time-out. Then every actor that
 * started has stopped, everything acquired is released, requests from outside
 * threads have ended, and nothing runs any more.
 *
 * Systems are opened by the workload, several one after the other.
 *
 * Covers SH9 and SP23.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    ROUNDS = 6,
    TREES = 3,
    DEPTH = 3,
    ASKERS = 2,
};

#define CLOSE_TIME TR_SECONDS(10)

TR_MESSAGE(Work, (uint32_t, how));
TR_REQUEST(Question, tr_none, (uint32_t, how));

typedef struct round {
    tr_sim *sim;
    tr_system *sys;
    tr_ref trees[TREES];
    bool ending;          // tr_system_terminate was called
    bool closed;          // no handler may run any more
    bool stubborn;        // an actor sleeps longer than the time-out
    bool hooked;          // an actor has a termination hook
    uint32_t late;        // handlers that ran after the end
    int64_t up;           // started, not yet stopped
    int64_t held;         // acquired with tr_on_end, not released
    uint32_t asking;      // threads that wait for a reply
    uint32_t unexpected;  // errors that cannot be
    uint32_t hooks;       // tr_termination_hook seen
} round;

typedef struct Node {
    round *round;
    uint32_t depth;
    bool up;
} Node;

static uint32_t draw(round *r, uint64_t below)
{
    return (uint32_t)tr_sim_random(r->sim, below);
}

static tr_ref anybody(round *r)
{
    return r->trees[draw(r, TREES)];
}

static void release(void *object)
{
    round *r = object;

    r->held--;
}

static tr_err node_start(tr_ctx *ctx, Node *self);
static tr_err on_work(tr_ctx *ctx, Node *self, const Work *m);
static tr_err on_question(tr_ctx *ctx, Node *self, const Question *m);

static tr_err node_stop(tr_ctx *ctx, Node *self)
{
    self->round->late += self->round->closed;
    return draw(self->round, 8) == 0 ? tr_sleep(ctx, TR_MS(20)) : TR_OK;
}

static tr_err node_stopped(tr_ctx *ctx, Node *self, tr_reason reason)
{
    (void)ctx, (void)reason;
    self->round->late += self->round->closed;
    self->round->up -= self->up;
    self->up = false;
    return TR_OK;
}

TR_ACTOR(tree, Node, TR_HOOK(pre_start, node_start), TR_ON(Work, on_work),
         TR_ON(Question, on_question), TR_HOOK(pre_stop, node_stop),
         TR_HOOK(post_stop, node_stopped));

static void spawn_child(tr_ctx *ctx, Node *self)
{
    if (self->depth > 0) {
        tr_ref child = tr_spawn(
            ctx, tree,
            TR_INIT(tree, .round = self->round, .depth = self->depth - 1));
        tr_err err = tr_ref_err(child);
        self->round->unexpected +=
            err != TR_OK && err != TR_ESTOPPED && err != TR_ECLOSED;
        tr_tell(ctx, child, Work, .how = draw(self->round, 100));
    }
}

static tr_err node_start(tr_ctx *ctx, Node *self)
{
    round *r = self->round;

    r->late += r->closed;
    r->up++;
    r->held++;
    self->up = true;
    tr_on_end(ctx, release, r);
    spawn_child(ctx, self);
    if (draw(r, 4) == 0) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    spawn_child(ctx, self);
    tr_nanos span = TR_MS(1 + draw(r, 10));
    (void)tr_every(ctx, span, Work, .how = draw(r, 100));
    return TR_OK;
}

static tr_err on_work(tr_ctx *ctx, Node *self, const Work *m)
{
    round *r = self->round;

    r->late += r->closed;
    switch (m->how % 10) {
    case 0:
        return tr_fail(ctx, TR_EUSER, "at work");
    case 1:
        return tr_sleep(ctx, TR_MS(draw(r, 50)));
    case 2:
        if (m->how == 2 && r->stubborn) {
            return tr_sleep(ctx, TR_SECONDS(3600));
        }
        return TR_OK;
    case 3:
        spawn_child(ctx, self);
        return TR_OK;
    case 4: {
        tr_ref to = anybody(r);
        return tr_ask(ctx, to, NULL, TR_MS(100), Question, .how = draw(r, 8));
    }
    case 5:
        tr_stop(ctx, self->depth == DEPTH || draw(r, 4) == 0 ? tr_self(ctx)
                                                             : tr_parent(ctx));
        return TR_OK;
    case 6:
        tr_tell(ctx, tr_parent(ctx), Work, .how = draw(r, 100));
        return TR_OK;
    default:
        return TR_OK;
    }
}

static tr_err on_question(tr_ctx *ctx, Node *self, const Question *m)
{
    round *r = self->round;

    r->late += r->closed;
    switch (m->how) {
    case 0:
        (void)tr_keep(ctx, m);
        return TR_OK;
    case 1:
        TR_TRY(tr_sleep(ctx, TR_MS(30)));
        return tr_reply(ctx, m);
    case 2:
        return TR_EUSER;
    case 3:
        tr_forward(ctx, anybody(r), m);
        return TR_OK;
    default:
        return tr_reply(ctx, m);
    }
}

/* ---- an actor with a termination hook ---- */

static tr_err keeper_start(tr_ctx *ctx, Node *self)
{
    (void)self;
    return tr_on_terminate(ctx);
}

static tr_err on_hook(tr_ctx *ctx, Node *self, const tr_termination_hook *m)
{
    (void)m;
    self->round->hooks++;
    if (draw(self->round, 2) == 0) {
        TR_TRY(tr_sleep(ctx, TR_MS(5)));
    }
    tr_termination_done(ctx);
    return TR_OK;
}

TR_ACTOR(keeper, Node, TR_HOOK(pre_start, keeper_start),
         TR_ON(tr_termination_hook, on_hook));

/* ---- threads ---- */

/* Asks repeatedly, and once more after termination has begun. */
static void asker_main(void *arg)
{
    round *r = arg;
    bool last = false;

    while (!last) {
        last = r->ending;
        tr_ref to = anybody(r);
        tr_err err = tr_ask(r->sys, to, NULL, TR_SECONDS(5), Question,
                            .how = draw(r, 8));
        r->unexpected += err == TR_EINVAL || err == TR_ENOMEM;
        if (err != TR_OK && !last) {
            tr_sim_advance(r->sim, TR_MS(1));
        }
    }
    r->asking--;
}

static void ender_main(void *arg)
{
    round *r = arg;

    tr_system_terminate(r->sys);
}

/* ---- one system ---- */

static tr_err open_round(round *r)
{
    TR_TRY(tr_system_open(&r->sys, .world = tr_sim_world(r->sim),
                          .log_level = TR_LOG_ERROR + 1));
    for (uint32_t i = 0; i < TREES; i++) {
        r->trees[i] =
            tr_spawn(r->sys, tree, TR_INIT(tree, .round = r, .depth = DEPTH),
                     .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX));
    }
    if (r->hooked) {
        (void)tr_spawn(r->sys, keeper, TR_INIT(keeper, .round = r));
    }
    return TR_OK;
}

static tr_err judge(const round *r, tr_err err, tr_nanos took,
                    const tr_close_report *report)
{
    if (err != TR_OK && !(r->stubborn && err == TR_ETIMEDOUT)) {
        return tr_sim_fail(r->sim, "closed with %s, %" PRIu32 " forced",
                           tr_errname(err), report->forced);
    }
    // The system is in the client's world, whose clock has no faults.
    if (took > CLOSE_TIME + TR_SECONDS(2)) {
        return tr_sim_fail(r->sim, "closing took %" PRId64 " ms",
                           took / TR_MS(1));
    }
    if (r->late > 0 || r->unexpected > 0) {
        return tr_sim_fail(r->sim,
                           "%" PRIu32 " ran late, %" PRIu32 " odd errors",
                           r->late, r->unexpected);
    }
    if (report->forced == 0 && (r->up != 0 || r->held != 0)) {
        return tr_sim_fail(r->sim,
                           "%" PRId64 " not stopped, %" PRId64 " not released",
                           r->up, r->held);
    }
    return TR_OK;
}

static tr_err one_round(round *r)
{
    tr_thread *askers[ASKERS], *ender = NULL;
    tr_close_report report = {.size = sizeof(report)};

    TR_TRY(open_round(r));
    for (uint32_t i = 0; i < ASKERS; i++) {
        r->asking++;
        TR_TRY(tr_thread_start(r->sys, &askers[i], asker_main, r));
    }
    tr_sim_advance(r->sim, 1 + (tr_nanos)tr_sim_random(r->sim, TR_MS(60)));
    r->ending = true;
    if (draw(r, 2) == 0) {
        TR_TRY(tr_thread_start(r->sys, &ender, ender_main, r));
    }
    tr_system_terminate(r->sys);
    if (draw(r, 2) == 0) {
        tr_sim_advance(r->sim, (tr_nanos)tr_sim_random(r->sim, TR_MS(20)));
        tr_system_terminate(r->sys);
    }
    // All threads that use the system end before it is freed.
    for (uint32_t i = 0; i < ASKERS; i++) {
        tr_thread_join(r->sys, askers[i]);
    }
    if (ender != NULL) {
        tr_thread_join(r->sys, ender);
    }
    tr_nanos begun = tr_sim_now(r->sim);
    tr_err err = tr_system_close_report(r->sys, CLOSE_TIME, &report);
    r->closed = true;
    TR_TRY(judge(r, err, tr_sim_now(r->sim) - begun, &report));
    tr_sim_advance(r->sim, TR_SECONDS(1));
    return r->late == 0 ? TR_OK : tr_sim_fail(r->sim, "ran after the end");
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        round r = {.sim = sim};
        r.stubborn = tr_sim_random(sim, 4) == 0;
        r.hooked = tr_sim_random(sim, 2) == 0;
        TR_TRY(one_round(&r));
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    return few_seeds(
        argc, argv, "60",
        TR_OPTIONS(tr_sim_options, .seed = 1, .workload = workload,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.02)));
}
