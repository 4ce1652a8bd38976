/*
 * storage_bank.h - actors with stored state on simulated disks.
 *
 * Shared by storage_sim.c (disks that fail, but do not lie) and damage_sim.c
 * (disks that lie). Each node has an SQLite file with some counters in it. A
 * counter's state carries a seal, made of its name and its number, so a state
 * that was never saved is recognized by its wrong seal.
 *
 * Covers ST16, ST17 and TE4.
 */
#ifndef TROUPE_TESTS_STORAGE_BANK_H
#define TROUPE_TESTS_STORAGE_BANK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { NODES = 2, COUNTERS = 4, RAISES = 150, PADDING = 600 };

/* What the workload knows of a counter; it survives its node. */
typedef struct known {
    uint64_t sent;   // the highest number that was requested
    uint64_t acked;  // the highest number that was acknowledged
} known;

typedef struct board {
    known counters[NODES][COUNTERS];
    uint32_t refused[NODES];  // times in a row that a store did not open
    uint64_t acks, errors, boots;
    uint64_t wrong;  // impossible states
    char what[160];  // the last of them
    bool disks_lie;  // states may be old or lost, files may be lost
    bool over;       // no more faults
} board;

TR_MESSAGE(Stored, (uint64_t, number));
TR_REQUEST(Raise, Stored, (uint64_t, board), (uint32_t, node),
           (uint32_t, index), (uint64_t, number));
TR_REQUEST(Look, Stored, (uint64_t, board), (uint32_t, node),
           (uint32_t, index));
TR_STATE(Counter, (uint64_t, number), (uint64_t, seal),
         (const char *, padding));

static const char *const names[COUNTERS] = {"a", "b", "c", "d"};

static uint64_t seal_of(uint32_t node, uint32_t index, uint64_t number)
{
    uint64_t h = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= ((uint64_t)node << 32 | index) * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* A text of which every byte depends on the number. */
static const char *padding_of(uint64_t number, char *out)
{
    size_t size = (size_t)(number * 37 % PADDING);

    for (size_t i = 0; i < size; i++) {
        out[i] = (char)('a' + (number + i) % 26);
    }
    out[size] = '\0';
    return out;
}

static void check_state(const Counter *it, board *b, uint32_t node,
                        uint32_t index)
{
    char padding[PADDING + 1];
    const known *k = &b->counters[node][index];
    const char *what = NULL;

    if (it->number == 0 && it->seal == 0) {
        what = k->acked > 0 && !b->disks_lie ? "is empty" : NULL;
    } else if (it->seal != seal_of(node, index, it->number) ||
               strcmp(it->padding != NULL ? it->padding : "",
                      padding_of(it->number, padding)) != 0) {
        what = "was never saved";
    } else if (it->number > k->sent) {
        what = "comes from nowhere";
    } else if (it->number < k->acked && !b->disks_lie) {
        what = "is an old one";
    }
    if (what != NULL) {
        b->wrong++;
        snprintf(b->what, sizeof(b->what),
                 "counter %" PRIu32 "/%" PRIu32 ": its state %" PRIu64
                 " %s (asked for %" PRIu64 ", answered %" PRIu64 ")",
                 node, index, it->number, what, k->sent, k->acked);
    }
}

static tr_err on_raise(tr_ctx *ctx, Counter *self, const Raise *m)
{
    char padding[PADDING + 1];
    Counter next = {.number = m->number,
                    .seal = seal_of(m->node, m->index, m->number),
                    .padding = padding_of(m->number, padding)};

    check_state(self, (board *)(uintptr_t)m->board, m->node, m->index);
    // A save of unknown outcome fails the actor, which restarts from the
    // stored state.
    TR_TRY(tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .number = self->number);
}

static tr_err on_look(tr_ctx *ctx, const Counter *self, const Look *m)
{
    check_state(self, (board *)(uintptr_t)m->board, m->node, m->index);
    return tr_reply(ctx, m, .number = self->number);
}

TR_ACTOR(counter, Counter, TR_ON(Raise, on_raise), TR_ON_READ(Look, on_look));

/* The file has the same name on each node: every node has its own disk. */
static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    enum { REFUSALS_MAX = 20 };
    board *b = user;
    tr_storage *store;
    tr_err err = tr_storage_sqlite_with(
        &store, "counters.db", TR_OPTIONS(tr_storage_options, .system = sys));

    b->boots++;
    if (err != TR_OK) {
        // A damaged file fails every time, and stays as it is.
        bool damaged = ++b->refused[index] > REFUSALS_MAX || b->over;
        return damaged && b->disks_lie ? TR_OK : err;
    }
    b->refused[index] = 0;
    return tr_host(sys, counter, .storage = store, .idle = TR_SECONDS(1));
}

static void raise_one(tr_sim *sim, board *b, uint32_t n, uint32_t i)
{
    tr_system *sys = tr_sim_node(sim, n);
    known *k = &b->counters[n][i];
    // Some time out early, so that saves overlap.
    tr_nanos timeout = tr_sim_random(sim, 3) == 0 ? TR_MS(1) : TR_SECONDS(2);
    uint64_t number = ++k->sent;

    if (sys == NULL) {
        return;
    }
    tr_err err = tr_ask(sys, tr_virtual(sys, "counter", names[i]), NULL,
                        timeout, Raise, .board = (uint64_t)(uintptr_t)b,
                        .node = n, .index = i, .number = number);
    if (err != TR_OK) {
        b->errors++;
        return;
    }
    b->acks++;
    k->acked = number > k->acked ? number : k->acked;
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    (void)sim;
    *b = (board){.disks_lie = b->disks_lie};  // start anew
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;

    for (int round = 0; round < RAISES; round++) {
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint32_t i = (uint32_t)tr_sim_random(sim, COUNTERS);
        raise_one(sim, b, n, i);
        if (tr_sim_random(sim, 20) == 0) {
            tr_sim_kill(sim, n, (tr_nanos)tr_sim_random(sim, TR_SECONDS(1)));
        }
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(200)) + 1);
    }
    b->over = true;
    return TR_OK;
}

static tr_err states_are_right(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->wrong == 0 ? TR_OK : tr_sim_fail(sim, "%s", b->what);
}

/* Checks at the end, without faults, that every counter has its state. */
static inline tr_err all_answer(tr_sim *sim, void *user)
{
    board *b = user;

    for (uint32_t n = 0; n < NODES; n++) {
        tr_system *sys = tr_sim_node(sim, n);
        for (uint32_t i = 0; i < COUNTERS; i++) {
            Stored last;
            TR_TRY(tr_ask(sys, tr_virtual(sys, "counter", names[i]), &last, 0,
                          Look, .board = (uint64_t)(uintptr_t)b, .node = n,
                          .index = i));
        }
    }
    return b->acks >= RAISES / 4
               ? states_are_right(sim, user)
               : tr_sim_fail(sim, "only %" PRIu64 " saves", b->acks);
}

#endif
