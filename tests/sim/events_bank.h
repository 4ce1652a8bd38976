/*
 * events_bank.h - states made of events, on simulated disks.
 *
 * Shared by events_sim.c (disks that fail, but do not lie) and
 * events_damage_sim.c (disks that lie). Each node has an SQLite file with
 * journals of two kinds: one keeps all its events, one drops those before a
 * snapshot. An entry is two events, emitted at once, each with a seal; the
 * state is the list of all entries. So the state of an actor can be compared
 * with what was requested and acknowledged: every entry is whole, in order, at
 * most once, and there if it was acknowledged.
 *
 * Covers ST9, ST11, ST12 and TE4.
 */
#ifndef TROUPE_TESTS_EVENTS_BANK_H
#define TROUPE_TESTS_EVENTS_BANK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { NODES = 2, JOURNALS = 4, ENTRIES = 150, SNAPSHOT = 7 };

/* What the workload knows of a journal; it survives its node. */
typedef struct known {
    uint64_t sent;            // entries 1 to this were requested
    bool acked[ENTRIES + 1];  // and these acknowledged
} known;

typedef struct board {
    known journals[NODES][JOURNALS];
    uint32_t refused[NODES];  // times in a row that a store did not open
    uint64_t acks, errors, boots, looks;
    uint64_t wrong;  // impossible states
    char what[200];  // the last of them
    bool disks_lie;  // the last entries may be missing, or all
    bool over;       // no more faults
} board;

/* The two halves of an entry. */
TR_MESSAGE(Opened, (uint64_t, number), (uint64_t, seal));
TR_MESSAGE(Closed, (uint64_t, number), (optional, uint64_t, seal),
           (const char *, padding));

TR_STATE(Journal, (array, uint64_t, entries), (uint64_t, open));

TR_MESSAGE(Written, (uint64_t, entries));
TR_REQUEST(Write, Written, (uint64_t, board), (uint32_t, node),
           (uint32_t, index), (uint64_t, number));
TR_REQUEST(Look, Written, (uint64_t, board), (uint32_t, node),
           (uint32_t, index));

static const char *const names[JOURNALS] = {"a", "b", "c", "d"};

static const char *kind_of(uint32_t index)
{
    return index % 2 == 0 ? "journal" : "trimmed";
}

static uint64_t seal_of(uint32_t node, uint32_t index, uint64_t number,
                        uint32_t half)
{
    uint64_t h = (number * 2 + half) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= ((uint64_t)node << 32 | index) * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static const char *padding_of(tr_ctx *ctx, uint64_t number)
{
    return tr_textf(ctx, "%0*" PRIu64, (int)(number * 53 % 700), number);
}

/* ---- the actor ---- */

static void opened(Journal *self, const Opened *e)
{
    // After half an entry: closing it makes a number that was not requested.
    self->open = self->open == 0 ? e->number : UINT64_MAX;
}

static void closed(tr_ctx *ctx, Journal *self, const Closed *e)
{
    size_t count = self->entries.count;
    uint64_t *entries = tr_scratch(ctx, (count + 1) * sizeof(*entries));

    if (count > 0) {
        memcpy(entries, self->entries.at, count * sizeof(*entries));
    }
    // Half an entry, or halves of two: a number that was not requested.
    entries[count] = self->open == e->number ? e->number : UINT64_MAX;
    self->entries.at = entries;
    self->entries.count = count + 1;
    self->open = 0;
}

static void complain(board *b, uint32_t node, uint32_t index, const char *what,
                     uint64_t number)
{
    b->wrong++;
    snprintf(b->what, sizeof(b->what),
             "%s %" PRIu32 "/%s: entry %" PRIu64 " %s", kind_of(index), node,
             names[index], number, what);
}

/* Checks order, no doubles, all requested, all acknowledged ones there. */
static void check_state(const Journal *it, board *b, uint32_t node,
                        uint32_t index)
{
    const known *k = &b->journals[node][index];
    bool there[ENTRIES + 1] = {false};
    uint64_t last = 0;

    if (it->open != 0) {
        complain(b, node, index, "is only half there", it->open);
    }
    for (size_t i = 0; i < it->entries.count; i++) {
        uint64_t number = it->entries.at[i];
        if (number > k->sent) {
            complain(b, node, index, "comes from nowhere", number);
            return;
        }
        if (number <= last) {
            complain(b, node, index, "is out of order, or twice", number);
        }
        there[number] = true;
        last = number;
    }
    for (uint64_t n = 1; n <= k->sent && !b->disks_lie; n++) {
        if (k->acked[n] && !there[n]) {
            complain(b, node, index, "was answered and is gone", n);
        }
    }
}

static tr_err on_write(tr_ctx *ctx, Journal *self, const Write *m)
{
    uint64_t number = m->number;

    check_state(self, (board *)(uintptr_t)m->board, m->node, m->index);
    // An append of unknown outcome fails the actor, which restarts from the
    // stored events.
    TR_TRY(tr_emit_all(
        ctx, self,
        TR_EVENT(Opened, .number = number,
                 .seal = seal_of(m->node, m->index, number, 0)),
        TR_EVENT(Closed, .number = number,
                 .seal = TR_SOME(seal_of(m->node, m->index, number, 1)),
                 .padding = padding_of(ctx, number))));
    return tr_reply(ctx, m, .entries = self->entries.count);
}

/* The event before, which the next one must fit. */
typedef struct seen {
    uint64_t number;
    bool opened;
} seen;

/* Checks seals and order. Odd numbers open an entry, even ones close it. */
static tr_err check_event(tr_ctx *ctx, const tr_stored_event *e, const Look *m,
                          seen *before, uint64_t *number)
{
    board *b = (board *)(uintptr_t)m->board;
    uint32_t half = (uint32_t)((e->sequence + 1) % 2);
    uint64_t seal;

    if (strcmp(e->type, half == 0 ? "Opened" : "Closed") != 0) {
        complain(b, m->node, m->index, "(event) is half an entry", e->sequence);
        return TR_OK;
    }
    if (half == 0) {
        Opened one;
        TR_TRY(tr_event_decode(ctx, e, Opened, &one));
        *number = one.number;
        seal = one.seal;
    } else {
        Closed two;
        TR_TRY(tr_event_decode(ctx, e, Closed, &two));
        *number = two.number;
        seal = two.seal.has ? two.seal.value : 0;
        if (strcmp(two.padding, padding_of(ctx, *number)) != 0) {
            complain(b, m->node, m->index, "is not whole", *number);
        }
    }
    if (seal != seal_of(m->node, m->index, *number, half)) {
        complain(b, m->node, m->index, "has no seal", *number);
    }
    if (before->opened ? *number != before->number
                       : *number <= before->number) {
        complain(b, m->node, m->index, "is stored out of order", *number);
    }
    *before = (seen){*number, half == 0};
    return TR_OK;
}

/*
 * Compares each stored event with the entry in the state. A disk that lies may
 * have lost acknowledged events and show older ones again: then the state of a
 * running actor differs.
 */
static tr_err check_events(tr_ctx *ctx, const Journal *self, const Look *m)
{
    board *b = (board *)(uintptr_t)m->board;
    tr_event_page page = {.more = true};
    seen before = {0, false};

    for (uint64_t next = 1; page.more;) {
        TR_TRY(tr_events_read(ctx, NULL, NULL, next, &page));
        for (size_t i = 0; i < page.count; i++) {
            const tr_stored_event *e = &page.events[i];
            uint64_t number = 0;
            size_t entry = (size_t)((e->sequence - 1) / 2);
            TR_TRY(check_event(ctx, e, m, &before, &number));
            if (!b->disks_lie && (entry >= self->entries.count ||
                                  self->entries.at[entry] != number)) {
                complain(b, m->node, m->index, "is not in the state", number);
            }
            next = e->sequence + 1;
        }
        if (page.last != 2 * self->entries.count && !b->disks_lie) {
            complain(b, m->node, m->index, "is not the last", page.last);
        }
        if (page.count == 0) {
            break;
        }
    }
    b->looks++;
    return TR_OK;
}

static tr_err on_look(tr_ctx *ctx, Journal *self, const Look *m)
{
    check_state(self, (board *)(uintptr_t)m->board, m->node, m->index);
    TR_TRY(check_events(ctx, self, m));
    return tr_reply(ctx, m, .entries = self->entries.count);
}

#define JOURNAL                                                                \
    TR_ON(Write, on_write), TR_ON(Look, on_look), TR_APPLY(Opened, opened),    \
        TR_APPLY_CTX(Closed, closed), TR_SNAPSHOT_EVERY(SNAPSHOT)

TR_ACTOR(journal, Journal, JOURNAL);
TR_ACTOR(trimmed, Journal, JOURNAL, TR_TRIM_EVENTS);

/* ---- nodes and workload ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    enum { REFUSALS_MAX = 20 };
    board *b = user;
    tr_storage *store;
    tr_err err = tr_storage_sqlite_with(
        &store, "journals.db", TR_OPTIONS(tr_storage_options, .system = sys));

    b->boots++;
    if (err != TR_OK) {
        // A damaged file fails every time, and stays as it is.
        bool damaged = ++b->refused[index] > REFUSALS_MAX || b->over;
        return damaged && b->disks_lie ? TR_OK : err;
    }
    b->refused[index] = 0;
    TR_TRY(tr_host(sys, journal, .storage = store, .idle = TR_SECONDS(1)));
    return tr_host(sys, trimmed, .storage = store, .idle = TR_SECONDS(1));
}

static void write_one(tr_sim *sim, board *b, uint32_t n, uint32_t i)
{
    tr_system *sys = tr_sim_node(sim, n);
    known *k = &b->journals[n][i];
    // Some time out early, so that appends overlap.
    tr_nanos timeout = tr_sim_random(sim, 3) == 0 ? TR_MS(1) : TR_SECONDS(2);

    if (sys == NULL) {
        return;
    }

    uint64_t number = ++k->sent;
    tr_err err = tr_ask(sys, tr_virtual(sys, kind_of(i), names[i]), NULL,
                        timeout, Write, .board = (uint64_t)(uintptr_t)b,
                        .node = n, .index = i, .number = number);
    k->acked[number] = err == TR_OK;
    b->acks += err == TR_OK;
    b->errors += err != TR_OK;
}

/* Any result is accepted: the journal checks its own state. */
static tr_err look(tr_sim *sim, board *b, uint32_t n, uint32_t i,
                   tr_nanos timeout)
{
    tr_system *sys = tr_sim_node(sim, n);

    if (sys == NULL) {
        return TR_ESTOPPED;
    }
    return tr_ask(sys, tr_virtual(sys, kind_of(i), names[i]), NULL, timeout,
                  Look, .board = (uint64_t)(uintptr_t)b, .node = n, .index = i);
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

    for (int round = 0; round < ENTRIES; round++) {
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint32_t i = (uint32_t)tr_sim_random(sim, JOURNALS);
        write_one(sim, b, n, i);
        if (tr_sim_random(sim, 10) == 0) {
            b->errors += look(sim, b, n, i, TR_SECONDS(2)) != TR_OK;
        }
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

#endif
