/*
 * restart_policy_sim.c - restarts follow the supervision policy exactly.
 *
 * Children fail at random moments under policies that the seed draws; a model
 * of the policy predicts what must follow. Clocks are right, so:
 *   - a child is restarted after its backoff, not before and not much later;
 *   - max_restarts are allowed in a window, and not one more;
 *   - the name of a child is free when its parent is notified of its end;
 *   - a parent ends after all its children;
 *   - every tr_join of an actor returns at its end, however many there are.
 *
 * Covers SV7, SV9, X1, X2 and X20.
 */
#include <inttypes.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { CHILDREN = 4, JOINERS = 3, BLOWS = 150 };

#define SOON TR_MS(20)  // between a cause and its effect

static const char *const names[CHILDREN] = {"a", "b", "c", "d"};

/* The model of one child. */
typedef struct model {
    tr_ref ref;
    uint32_t max;
    tr_nanos within, backoff_min, backoff_max;
    uint32_t restarts;  // in this window
    tr_nanos window;    // when it began
    tr_nanos failed_at, backoff;
    bool failing;     // failed, and not restarted yet
    bool no_restart;  // ... and must not be restarted
    bool wished;      // a stop was requested
} model;

typedef struct board {
    tr_sim *sim;
    tr_ref family;
    tr_ref joiners[JOINERS];
    model models[CHILDREN];
    int64_t alive;  // children that are up
    uint32_t joins, joined;
    uint64_t restarts, limits, ends;
    const char *broken;
} board;

TR_MESSAGE(Fail);
TR_MESSAGE(Join, (uint32_t, index));
TR_REQUEST(Ping, tr_none);

static void broken(board *b, const char *what)
{
    if (b->broken == NULL) {
        b->broken = what;
    }
}

/* ---- children ---- */

typedef struct Child {
    board *board;
    uint32_t index;
    bool up;
} Child;

static tr_err child_start(tr_ctx *ctx, Child *self)
{
    board *b = self->board;
    model *m = &b->models[self->index];
    tr_nanos took = tr_now(ctx) - m->failed_at;

    if (m->failing) {
        b->restarts++;
        if (m->no_restart) {
            broken(b, "a restart beyond the limit");
        } else if (took < m->backoff) {
            broken(b, "a restart before its backoff");
        } else if (took > m->backoff + SOON) {
            broken(b, "a restart long after its backoff");
        }
        m->failing = false;
    }
    self->up = true;
    b->alive++;
    return TR_OK;
}

static tr_err child_stop(tr_ctx *ctx, Child *self, tr_reason reason)
{
    // A slow restart would make the backoff hard to measure.
    if (reason != TR_RESTARTING && TR_BUGGIFY(ctx, 0.3)) {
        (void)!tr_sleep(ctx, TR_MS(30));
    }
    self->board->alive -= self->up;
    self->up = false;
    return TR_OK;
}

static tr_nanos backoff_of(const model *m)
{
    tr_nanos span = m->backoff_min;

    for (uint32_t i = 1; i < m->restarts && span < m->backoff_max; i++) {
        span *= 2;
    }
    return span < m->backoff_max ? span : m->backoff_max;
}

static tr_err on_fail(tr_ctx *ctx, Child *self, const Fail *msg)
{
    model *m = &self->board->models[self->index];
    tr_nanos now = tr_now(ctx), age = now - m->window;

    (void)msg;
    if (m->restarts > 0 && age > m->within - SOON && age < m->within + SOON) {
        return TR_OK;  // at the border of the window: either is right
    }
    if (m->restarts == 0 || age > m->within) {
        m->restarts = 0;
        m->window = now;
    }
    m->no_restart = m->restarts >= m->max;
    m->restarts += !m->no_restart;
    m->backoff = backoff_of(m);
    m->failed_at = now;
    m->failing = true;
    return tr_fail(ctx, TR_EUSER, "as it was told");
}

static tr_err on_ping(tr_ctx *ctx, Child *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(child, Child, TR_HOOK(pre_start, child_start),
         TR_HOOK(post_stop, child_stop), TR_ON(Fail, on_fail),
         TR_ON(Ping, on_ping));

/* ---- their parent ---- */

typedef struct Family {
    board *board;
} Family;

static void add_child(tr_ctx *ctx, board *b, uint32_t i)
{
    model *m = &b->models[i];

    *m = (model){
        .max = 1 + (uint32_t)tr_sim_random(b->sim, 4),
        .within = TR_MS(100) + (tr_nanos)tr_sim_random(b->sim, TR_SECONDS(4)),
        .backoff_min = TR_MS(1 + (tr_nanos)tr_sim_random(b->sim, 100)),
        .backoff_max = TR_MS(100 + (tr_nanos)tr_sim_random(b->sim, 400)),
    };
    m->ref = tr_spawn(ctx, child, .name = names[i],
                      .supervision = TR_SUPERVISE(.max_restarts = m->max,
                                                  .within = m->within,
                                                  .backoff_min = m->backoff_min,
                                                  .backoff_max = m->backoff_max,
                                                  .on_limit = TR_STOP),
                      TR_INIT(child, .board = b, .index = i));
    if (tr_ref_err(m->ref) != TR_OK) {
        broken(b, "the name of one that has ended is not free");
        return;
    }
    tr_watch(ctx, m->ref);
}

static tr_err family_start(tr_ctx *ctx, Family *self)
{
    for (uint32_t i = 0; i < CHILDREN; i++) {
        add_child(ctx, self->board, i);
    }
    return TR_OK;
}

static tr_err family_stop(tr_ctx *ctx, Family *self, tr_reason reason)
{
    (void)ctx, (void)reason;
    if (self->board->alive != 0) {
        broken(self->board, "a parent ends before its children");
    }
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Family *self, const tr_terminated *msg)
{
    board *b = self->board;
    uint32_t i = 0;

    while (i < CHILDREN && !tr_ref_eq(b->models[i].ref, msg->actor)) {
        i++;
    }
    if (i == CHILDREN) {
        broken(b, "the end of somebody else");
        return TR_OK;
    }
    model *m = &b->models[i];
    b->ends++;
    b->limits += m->failing && m->no_restart;
    if (msg->reason == TR_FAILED && !(m->failing && m->no_restart)) {
        broken(b, "an end although restarts were left");
    }
    if (msg->reason != TR_FAILED && !m->wished) {
        broken(b, "an end that nobody has asked for");
    }
    add_child(ctx, b, i);
    return TR_OK;
}

TR_ACTOR(family, Family, TR_HOOK(pre_start, family_start),
         TR_HOOK(post_stop, family_stop), TR_ON(tr_terminated, on_terminated));

/* ---- joiners ---- */

static tr_err on_join(tr_ctx *ctx, Family *self, const Join *m)
{
    board *b = self->board;
    tr_err err =
        tr_join(ctx, b->models[m->index].ref, TR_MINUTES(50), NULL, NULL);

    if (err != TR_OK && err != TR_ENOENT) {
        broken(b, "a join that nobody has ended");
    }
    b->joined++;
    return TR_OK;
}

TR_ACTOR(joiner, Family, TR_ON(Join, on_join));

/* ---- the run ---- */

static tr_ref new_family(tr_system *sys, board *b)
{
    return tr_spawn(sys, family, .name = "family", TR_INIT(family, .board = b));
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    (void)index;
    b->family = new_family(sys, b);
    for (uint32_t i = 0; i < JOINERS; i++) {
        b->joiners[i] = tr_spawn(sys, joiner, TR_INIT(joiner, .board = b));
    }
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    *b = (board){.sim = sim};
}

static tr_err another_family(tr_system *sys, board *b)
{
    for (uint32_t i = 0; i < CHILDREN; i++) {
        b->models[i].wished = true;
    }
    tr_stop(sys, b->family);
    tr_err err = tr_join(sys, b->family, TR_SECONDS(20), NULL, NULL);
    if (err != TR_OK && err != TR_ENOENT) {
        return tr_sim_fail(b->sim, "a family does not end: %s",
                           tr_errname(err));
    }
    b->family = new_family(sys, b);
    return tr_ref_err(b->family);
}

static void stop_child(tr_system *sys, board *b, uint32_t i)
{
    b->models[i].wished = true;
    if (tr_sim_random(b->sim, 2) == 0) {
        tr_stop(sys, b->models[i].ref);
    } else {
        tr_kill(sys, b->models[i].ref);
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);

    tr_sim_advance(sim, TR_MS(1));
    for (int n = 0; n < BLOWS && b->broken == NULL; n++) {
        uint32_t i = (uint32_t)tr_sim_random(sim, CHILDREN);
        uint64_t what = tr_sim_random(sim, 100);
        if (what < 70) {
            tr_tell(sys, b->models[i].ref, Fail);
        } else if (what < 78) {
            stop_child(sys, b, i);
        } else if (what < 98) {
            b->joins++;
            tr_tell(sys, b->joiners[tr_sim_random(sim, JOINERS)], Join,
                    .index = i);
        } else {
            TR_TRY(another_family(sys, b));
        }
        tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(
                                    sim, TR_MS(1) << tr_sim_random(sim, 10)));
    }
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

/* Stops the children again and again until every join has returned. */
static tr_err all_joined(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);

    for (uint32_t n = 0; n <= b->joins && b->joined < b->joins; n++) {
        for (uint32_t i = 0; i < CHILDREN; i++) {
            stop_child(sys, b, i);
        }
        tr_sim_advance(sim, TR_SECONDS(1));
        TR_TRY(holds(sim, user));
    }
    if (b->joined < b->joins) {
        return tr_sim_fail(sim, "%" PRIu32 " of %" PRIu32 " joins have ended",
                           b->joined, b->joins);
    }
    for (uint32_t i = 0; i < CHILDREN; i++) {
        TR_TRY(tr_ask(sys, b->models[i].ref, NULL, TR_SECONDS(1), Ping));
    }
    return holds(sim, user);
}

int main(int argc, char **argv)
{
    board b = {0};

    return few_seeds(
        argc, argv, "100",
        TR_OPTIONS(tr_sim_options, .seed = 1, .begin = begin, .node = node,
                   .workload = workload, .invariant = holds,
                   .at_end = all_joined, .user = &b,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
