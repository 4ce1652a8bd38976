/*
 * timer_sim.c - timers on virtual time: never early, once, and not late.
 *
 * Nothing takes time here and clocks are right, so a timer is due at an exact
 * time. There are single and repeated timers, sleeps, time-outs of requests,
 * receive time-outs, and cancelled timers, which never fire. Spans are from a
 * microsecond to weeks, over all levels of the wheel.
 *
 * Covers BU13.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    ACTORS = 4,
    ORDERS = 120,
    SLOTS = 64,  // timers of one actor that are remembered
};

#define LATE_MAX TR_MS(2)  // a timer may wait for the next tick of the wheel

TR_MESSAGE(Ring, (uint32_t, slot));
TR_MESSAGE(Set, (int64_t, span), (bool, again));
TR_MESSAGE(Cancel, (uint32_t, slot));
TR_MESSAGE(Sleep, (int64_t, span));
TR_MESSAGE(Wait, (int64_t, span));
TR_MESSAGE(Silence, (int64_t, span));
TR_REQUEST(NoAnswer, tr_none);
TR_MESSAGE(Left, (uint32_t, count));
TR_REQUEST(HowMany, Left);

typedef struct slot {
    tr_timer timer;
    tr_nanos due;    // 0: not in use
    tr_nanos begun;  // of a repeated one ...
    tr_nanos span;   // ... or 0
    int64_t beats;
} slot;

typedef struct clocks {
    tr_sim *sim;
    tr_ref actors[ACTORS];
    tr_ref mute;
    uint64_t rung, slept, waited, silences;
    const char *wrong;
    tr_nanos by;
} clocks;

typedef struct Clock {
    clocks *clocks;
    slot slots[SLOTS];
    tr_nanos busy_until;   // it slept: timers due before this fire late
    tr_nanos silent_from;  // when the last message but tr_timeout began
    tr_nanos silence;
} Clock;

static void judge(Clock *self, const char *what, tr_nanos due, tr_nanos now)
{
    tr_nanos last = due > self->busy_until ? due : self->busy_until;

    if (now < due || now > last + LATE_MAX) {
        self->clocks->wrong = what;
        self->clocks->by = now - due;
    }
}

static void heard(tr_ctx *ctx, Clock *self)
{
    self->silent_from = tr_now(ctx);
}

/* A repeated timer may skip beats while the actor sleeps, never add any. */
static void on_beat(Clock *self, slot *at, tr_nanos now)
{
    tr_nanos due = at->begun + ++at->beats * at->span;

    if (now < due || (self->busy_until < at->begun && now > due + LATE_MAX)) {
        self->clocks->wrong = "a beat";
        self->clocks->by = now - due;
    }
}

static tr_err on_ring(tr_ctx *ctx, Clock *self, const Ring *m)
{
    slot *at = &self->slots[m->slot];

    if (at->due == 0) {
        self->clocks->wrong = "a cancelled timer, or one that rang before,";
        return TR_OK;
    }
    heard(ctx, self);
    self->clocks->rung++;
    if (at->span > 0) {
        on_beat(self, at, tr_now(ctx));
        return TR_OK;
    }
    judge(self, "a timer", at->due, tr_now(ctx));
    at->due = 0;
    return TR_OK;
}

static tr_err on_set(tr_ctx *ctx, Clock *self, const Set *m)
{
    uint32_t i = 0;

    heard(ctx, self);
    while (i < SLOTS && self->slots[i].due != 0) {
        i++;
    }
    if (i == SLOTS) {
        return TR_OK;
    }
    self->slots[i].due = tr_now(ctx) + m->span;
    self->slots[i].span = m->again ? m->span : 0;
    self->slots[i].begun = tr_now(ctx);
    self->slots[i].beats = 0;
    self->slots[i].timer = m->again ? tr_every(ctx, m->span, Ring, .slot = i)
                                    : tr_after(ctx, m->span, Ring, .slot = i);
    return TR_OK;
}

static tr_err on_cancel(tr_ctx *ctx, Clock *self, const Cancel *m)
{
    tr_cancel(ctx, self->slots[m->slot].timer);
    self->slots[m->slot].due = 0;
    heard(ctx, self);
    return TR_OK;
}

static tr_err on_sleep(tr_ctx *ctx, Clock *self, const Sleep *m)
{
    tr_nanos due = tr_now(ctx) + m->span;

    heard(ctx, self);
    TR_TRY(tr_sleep(ctx, m->span));
    judge(self, "a sleep", due, tr_now(ctx));
    self->clocks->slept++;
    self->busy_until = tr_now(ctx);
    return TR_OK;
}

static tr_err on_wait(tr_ctx *ctx, Clock *self, const Wait *m)
{
    tr_nanos due = tr_now(ctx) + m->span;

    heard(ctx, self);
    tr_err err = tr_ask(ctx, self->clocks->mute, NULL, m->span, NoAnswer);

    if (err != TR_ETIMEDOUT) {
        self->clocks->wrong = "a question without answer";
        return TR_OK;
    }
    judge(self, "a time-out", due, tr_now(ctx));
    self->clocks->waited++;
    self->busy_until = tr_now(ctx);
    return TR_OK;
}

static tr_err on_silence(tr_ctx *ctx, Clock *self, const Silence *m)
{
    self->silence = m->span;
    heard(ctx, self);
    tr_receive_timeout(ctx, m->span);
    return TR_OK;
}

static tr_err on_timeout(tr_ctx *ctx, Clock *self, const tr_timeout *m)
{
    tr_nanos due = self->silent_from + self->silence;
    tr_nanos now = tr_now(ctx);

    (void)m;
    // If other mail came first, the time-out counts from that mail.
    bool anew = now > due && self->silent_from <= self->busy_until &&
                now <= self->busy_until + self->silence + LATE_MAX;
    judge(self, "a silence", anew ? now : due, now);
    self->clocks->silences++;
    tr_receive_timeout(ctx, 0);
    self->silence = 0;
    return TR_OK;
}

/* Counts the single timers that have not fired. */
static tr_err on_how_many(tr_ctx *ctx, Clock *self, const HowMany *m)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SLOTS; i++) {
        count += self->slots[i].due != 0 && self->slots[i].span == 0;
    }
    return tr_reply(ctx, m, .count = count);
}

TR_ACTOR(timepiece, Clock, TR_ON(Ring, on_ring), TR_ON(Set, on_set),
         TR_ON(Cancel, on_cancel), TR_ON(Sleep, on_sleep), TR_ON(Wait, on_wait),
         TR_ON(Silence, on_silence), TR_ON(tr_timeout, on_timeout),
         TR_ON(HowMany, on_how_many));

static tr_err on_no_answer(tr_ctx *ctx, void *self, const NoAnswer *m)
{
    (void)self;
    (void)tr_keep(ctx, m);
    return TR_OK;
}

TR_ACTOR(mute, void, TR_ON(NoAnswer, on_no_answer));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    clocks *it = user;

    (void)index;
    *it = (clocks){.mute = tr_spawn(sys, mute)};
    for (uint32_t i = 0; i < ACTORS; i++) {
        it->actors[i] =
            tr_spawn(sys, timepiece, TR_INIT(timepiece, .clocks = it));
    }
    return TR_OK;
}

/* Draws a span; each order of magnitude is equally likely. */
static tr_nanos any_span(tr_sim *sim)
{
    tr_nanos span = 1000;

    for (uint64_t i = tr_sim_random(sim, 8); i > 0; i--) {
        span *= 10;
    }
    return span + (tr_nanos)tr_sim_random(sim, (uint64_t)span * 9);
}

static void order(tr_sim *sim, clocks *it)
{
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref to = it->actors[tr_sim_random(sim, ACTORS)];

    switch (tr_sim_random(sim, 8)) {
    case 0:
        tr_tell(sys, to, Cancel, .slot = (uint32_t)tr_sim_random(sim, SLOTS));
        break;
    case 1:
        tr_tell(sys, to, Sleep, .span = any_span(sim) / 100 + 1);
        break;
    case 2:
        tr_tell(sys, to, Wait, .span = any_span(sim) / 100 + 1);
        break;
    case 3:
        tr_tell(sys, to, Silence, .span = any_span(sim));
        break;
    case 4:
        // Rare enough that the beats do not dominate the run.
        tr_tell(sys, to, Set, .span = TR_MINUTES(20) + any_span(sim) * 100,
                .again = true);
        break;
    default:
        tr_tell(sys, to, Set, .span = any_span(sim));
        break;
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    clocks *it = user;

    for (int i = 0; i < ORDERS; i++) {
        order(sim, it);
        if (tr_sim_random(sim, 3) == 0) {
            tr_sim_advance(sim, any_span(sim) / 10);
        }
    }
    return TR_OK;
}

static tr_err on_time(tr_sim *sim, void *user)
{
    const clocks *it = user;

    return it->wrong == NULL ? TR_OK
                             : tr_sim_fail(sim, "%s was %" PRId64 " ns off",
                                           it->wrong, it->by);
}

static tr_err all_rung(tr_sim *sim, void *user)
{
    clocks *it = user;

    for (uint32_t i = 0; i < ACTORS; i++) {
        Left left;
        TR_TRY(tr_ask(tr_sim_node(sim, 0), it->actors[i], &left, 0, HowMany));
        if (left.count > 0) {
            return tr_sim_fail(sim, "%" PRIu32 " timers did not ring",
                               left.count);
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    clocks it = {0};

    return few_seeds(argc, argv, "200",
                     TR_OPTIONS(tr_sim_options, .seed = 1, .node = node,
                                .workload = workload, .invariant = on_time,
                                .at_end = all_rung, .user = &it,
                                .step_cost = -1,
                                .limit = TR_SECONDS(100 * 86400),
                                .quiet_time = TR_SECONDS(2 * 86400)));
}
