/*
 * reminders_bank.h - reminders on simulated disks.
 *
 * Shared by reminders_sim.c (disks that fail, but do not lie) and
 * reminders_damage_sim.c (disks that lie). Actors set reminders, move them and
 * cancel them, while nodes are killed at any moment. A reminder that fires
 * carries the number of its setting, so it can be compared with all settings:
 * none fires that was not set, or for another actor, or before it is due.
 *
 * Covers ST9, ST12 and TE4.
 */
#ifndef TROUPE_TESTS_REMINDERS_BANK_H
#define TROUPE_TESTS_REMINDERS_BANK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    NODES = 2,
    CLOCKS = 3,
    NAMES = 5,
    ROUNDS = 150,
    SETS_MAX = 200,
    REFUSALS_MAX = 20,
};

/* One setting of a reminder; it survives its node. */
typedef struct setting {
    uint32_t node, clock, name;
    tr_nanos due;  // by the world's clock
    tr_nanos period;
    bool answered;   // setting it was acknowledged
    bool replaced;   // a request to move or cancel it was sent
    bool forgotten;  // and acknowledged, in this incarnation of the node:
    uint64_t life;
    uint64_t rings;
    uint64_t calls;  // of the handler, also those whose save failed
} setting;

typedef struct board {
    setting sets[SETS_MAX];
    uint64_t count;
    uint64_t lives[NODES];  // how often the node has booted
    uint64_t rings, answers, errors, wrong;
    char what[200];
    uint32_t refused[NODES];  // times in a row that a store did not open
    bool disks_lie;           // acknowledged settings may be gone, or back
    bool over;
    tr_sim *sim;
} board;

TR_MESSAGE(Ring, (uint64_t, board), (uint64_t, number), (uint64_t, again),
           (uint32_t, node));
TR_REQUEST(Set, tr_none, (uint64_t, board), (uint32_t, node),
           (const char *, name), (int64_t, delay), (int64_t, period),
           (uint64_t, number));
TR_REQUEST(Drop, tr_none, (const char *, name));
TR_STATE(Clock, (uint64_t, rings));

static const char *const clocks[CLOCKS] = {"a", "b", "c"};
static const char *const names[NAMES] = {"v", "w", "x", "y", "z"};

static void complain(board *b, uint64_t number, const char *what)
{
    const setting *s = &b->sets[number];

    b->wrong++;
    snprintf(b->what, sizeof(b->what),
             "reminder %" PRIu64 " (%s of clock %" PRIu32 "/%s) %s", number,
             names[s->name], s->node, clocks[s->clock], what);
}

static tr_err on_ring(tr_ctx *ctx, Clock *self, const Ring *m)
{
    board *b = (board *)(uintptr_t)m->board;

    if (m->number >= b->count || m->again != ~m->number) {
        b->wrong++;
        snprintf(b->what, sizeof(b->what), "a ring that nobody set");
        return TR_OK;
    }
    setting *s = &b->sets[m->number];
    s->calls++;
    // If the handler cannot save, the reminder fires again.
    TR_TRY(tr_persist(ctx, self, &(Clock){.rings = self->rings + 1}));
    if (s->node != m->node) {
        complain(b, m->number, "rings elsewhere");
    }
    if (tr_sim_now(b->sim) < s->due) {
        complain(b, m->number, "rings early");
    }
    if (s->forgotten && s->life < b->lives[m->node] && !b->disks_lie) {
        complain(b, m->number, "rings, and was forgotten in an earlier life");
    }
    s->rings++;
    b->rings++;
    return TR_OK;
}

static tr_err on_set(tr_ctx *ctx, Clock *self, const Set *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_remind(ctx, m->name, m->delay, m->period, Ring,
                           .board = m->board, .number = m->number,
                           .again = ~m->number, .node = m->node));
    return tr_reply(ctx, m);
}

static tr_err on_drop(tr_ctx *ctx, Clock *self, const Drop *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, m->name));
    return tr_reply(ctx, m);
}

TR_ACTOR(timepiece, Clock, TR_ON_REMINDER(Ring, on_ring), TR_ON(Set, on_set),
         TR_ON(Drop, on_drop));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;
    tr_storage *store;

    b->lives[index]++;
    tr_err err = tr_storage_sqlite_with(
        &store, "clocks.db", TR_OPTIONS(tr_storage_options, .system = sys));
    if (err != TR_OK) {
        // A damaged file fails every time, and stays as it is.
        bool damaged = ++b->refused[index] > REFUSALS_MAX || b->over;
        return damaged && b->disks_lie ? TR_OK : err;
    }
    b->refused[index] = 0;
    return tr_host(sys, timepiece, .storage = store, .idle = TR_SECONDS(1));
}

/* Marks the settings of this name: they may be moved or cancelled. */
static void mark(board *b, uint32_t n, uint32_t c, uint32_t name,
                 bool forgotten)
{
    for (uint64_t i = 0; i < b->count; i++) {
        setting *s = &b->sets[i];
        if (s->node != n || s->clock != c || s->name != name) {
            continue;
        }
        s->replaced = true;
        if (forgotten && !s->forgotten) {
            s->forgotten = true;
            s->life = b->lives[n];
        }
    }
}

static void set_one(tr_sim *sim, board *b, tr_system *sys, uint32_t n,
                    uint32_t c, uint32_t name, tr_nanos timeout)
{
    tr_nanos delay = (tr_nanos)tr_sim_random(sim, TR_SECONDS(20));
    tr_nanos period =
        tr_sim_random(sim, 4) == 0 ? TR_SECONDS(1 + tr_sim_random(sim, 9)) : 0;
    uint64_t number = b->count;

    mark(b, n, c, name, false);
    b->sets[b->count++] = (setting){.node = n,
                                    .clock = c,
                                    .name = name,
                                    .due = tr_sim_now(sim) + delay,
                                    .period = period};
    uint64_t life = b->lives[n];
    tr_err err =
        tr_ask(sys, tr_virtual(sys, "timepiece", clocks[c]), NULL, timeout, Set,
               .board = (uint64_t)(uintptr_t)b, .node = n, .name = names[name],
               .delay = delay, .period = period, .number = number);
    b->sets[number].answered = err == TR_OK;
    b->answers += err == TR_OK;
    b->errors += err != TR_OK;
    // Older settings are gone as if they were cancelled.
    for (uint64_t i = 0; err == TR_OK && i < number; i++) {
        setting *s = &b->sets[i];
        if (s->node == n && s->clock == c && s->name == name && !s->forgotten) {
            s->forgotten = true;
            s->life = life;
        }
    }
}

static void drop_one(board *b, tr_system *sys, uint32_t n, uint32_t c,
                     uint32_t name, tr_nanos timeout)
{
    mark(b, n, c, name, false);
    tr_err err = tr_ask(sys, tr_virtual(sys, "timepiece", clocks[c]), NULL,
                        timeout, Drop, .name = names[name]);
    if (err == TR_OK) {
        mark(b, n, c, name, true);
    }
    b->errors += err != TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    *b = (board){.sim = sim, .disks_lie = b->disks_lie};
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;

    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint32_t c = (uint32_t)tr_sim_random(sim, CLOCKS);
        uint32_t name = (uint32_t)tr_sim_random(sim, NAMES);
        tr_system *sys = tr_sim_node(sim, n);
        if (sys == NULL) {
            // The node is down: try another one.
        } else if (tr_sim_random(sim, 5) > 0) {
            set_one(sim, b, sys, n, c, name, TR_SECONDS(3));
        } else {
            drop_one(b, sys, n, c, name, TR_SECONDS(3));
        }
        if (tr_sim_random(sim, 15) == 0) {
            tr_sim_kill(sim, n, (tr_nanos)tr_sim_random(sim, TR_SECONDS(9)));
        }
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(800)) + 1);
    }
    b->over = true;
    return TR_OK;
}

static tr_err nothing_is_wrong(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->wrong == 0 ? TR_OK : tr_sim_fail(sim, "%s", b->what);
}

#endif
