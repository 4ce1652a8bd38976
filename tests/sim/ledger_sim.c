/*
 * ledger_sim.c - actors check what they have stored.
 *
 * Two kinds of virtual actors, on nodes that are killed: a ledger whose state
 * is made of events, with snapshots, and an account that saves its state. One
 * node has a disk, which fails but does not lie. The store of the other node is
 * on another machine, survives the node, and sometimes makes a write without
 * acknowledging it. The actors go on after an error instead of failing. Each
 * state carries a hash chain over all changes that led to it.
 *   - *self is unchanged if storing has failed;
 *   - the state of a sequence number, or of a version, is always the one that
 *     was acknowledged under it, after any number of reloads;
 *   - nothing that was acknowledged is lost;
 *   - there is one writer, so no write is ever fenced.
 *
 * Covers ST11, ST12 and ST16.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { NODES = 2, KEYS = 2, ADDS = 160, LENGTH = ADDS + 1, ELSEWHERE = 1 };

static const char *const keys[KEYS] = {"a", "b"};

/* What is known of one ledger or account. */
typedef struct known {
    uint64_t chains[LENGTH];  // by sequence; 0: not acknowledged
    uint64_t acked;           // the highest that is acknowledged
} known;

typedef struct board {
    known ledgers[NODES][KEYS], accounts[NODES][KEYS];
    uint64_t acks, errors, unknown, next;
    char broken[160];
    tr_storage *memory, *elsewhere;  // `elsewhere` uses `memory`
} board;

static board the_board;  // there is one run at a time

TR_MESSAGE(Done, (uint64_t, sequence));
TR_REQUEST(Add, Done, (uint32_t, node), (uint64_t, number));
TR_REQUEST(Look, Done, (uint32_t, node));

TR_MESSAGE(Added, (uint64_t, number));
TR_MESSAGE(Marked, (uint64_t, number));
TR_STATE(Ledger, (uint64_t, count), (uint64_t, chain));
TR_STATE(Account, (uint64_t, count), (uint64_t, chain));

static uint64_t linked(uint64_t chain, uint64_t number)
{
    uint64_t h = (chain ^ number) * UINT64_C(0x9e3779b97f4a7c15) + 1;

    return h ^ h >> 31;
}

static void broken(const char *kind, uint64_t count, const char *what)
{
    if (the_board.broken[0] == '\0') {
        snprintf(the_board.broken, sizeof(the_board.broken),
                 "%s at %" PRIu64 ": %s", kind, count, what);
    }
}

static void check(const char *kind, const known *k, uint64_t count,
                  uint64_t chain)
{
    if (count < k->acked) {
        broken(kind, count, "what was acknowledged is lost");
    } else if (count >= LENGTH) {
        broken(kind, count, "more than was ever asked for");
    } else if (k->chains[count] != 0 && k->chains[count] != chain) {
        broken(kind, count, "its state is another one");
    }
}

static void acknowledge(known *k, uint64_t count, uint64_t chain)
{
    the_board.acks++;
    if (count < LENGTH) {
        k->chains[count] = chain;
        k->acked = count > k->acked ? count : k->acked;
    }
}

/* Checks that a write that failed has changed nothing. */
static void refused(const char *kind, tr_err err, uint64_t count,
                    uint64_t before, uint64_t after)
{
    the_board.errors++;
    the_board.unknown += err == TR_EUNKNOWN;
    if (before != after) {
        broken(kind, count, "the state has changed without being stored");
    }
    if (err == TR_EFENCED || err == TR_ENOENT) {
        broken(kind, count, "fenced, although nobody else writes");
    }
}

static uint32_t key_of(tr_ctx *ctx)
{
    return (uint32_t)(tr_key(ctx)[0] - 'a');
}

/* ---- events ---- */

static void apply_added(Ledger *self, const Added *e)
{
    self->count++;
    self->chain = linked(self->chain, e->number);
}

static void apply_marked(Ledger *self, const Marked *e)
{
    self->count++;
    self->chain = linked(self->chain, ~e->number);
}

static tr_err on_ledger_look(tr_ctx *ctx, const Ledger *self, const Look *m)
{
    check("ledger", &the_board.ledgers[m->node][key_of(ctx)], tr_sequence(ctx),
          self->chain);
    if (self->count != tr_sequence(ctx)) {
        broken("ledger", self->count, "events and sequence differ");
    }
    return tr_reply(ctx, m, .sequence = self->count);
}

static tr_err on_ledger_add(tr_ctx *ctx, Ledger *self, const Add *m)
{
    known *k = &the_board.ledgers[m->node][key_of(ctx)];
    uint64_t before = self->chain;

    check("ledger", k, self->count, self->chain);
    tr_err err =
        m->number % 4 == 0
            ? tr_emit_all(ctx, self, TR_EVENT(Added, .number = m->number),
                          TR_EVENT(Marked, .number = m->number))
            : tr_emit(ctx, self, Added, .number = m->number);
    if (err != TR_OK) {
        refused("ledger", err, self->count, before, self->chain);
        return tr_refuse(ctx, m, TR_EUSER, "not stored: %s", tr_errname(err));
    }
    acknowledge(k, self->count, self->chain);
    return tr_reply(ctx, m, .sequence = self->count);
}

TR_ACTOR(ledger, Ledger, TR_APPLY(Added, apply_added),
         TR_APPLY(Marked, apply_marked), TR_SNAPSHOT_EVERY(7),
         TR_ON(Add, on_ledger_add), TR_ON_READ(Look, on_ledger_look));

/* ---- states ---- */

static tr_err on_account_look(tr_ctx *ctx, const Account *self, const Look *m)
{
    check("account", &the_board.accounts[m->node][key_of(ctx)], self->count,
          self->chain);
    return tr_reply(ctx, m, .sequence = self->count);
}

static tr_err on_account_add(tr_ctx *ctx, Account *self, const Add *m)
{
    known *k = &the_board.accounts[m->node][key_of(ctx)];
    uint64_t before = self->chain;
    Account next = {.count = self->count + 1,
                    .chain = linked(self->chain, m->number)};

    check("account", k, self->count, self->chain);
    tr_err err = tr_persist(ctx, self, &next);
    if (err != TR_OK) {
        refused("account", err, self->count, before, self->chain);
        return tr_refuse(ctx, m, TR_EUSER, "not stored: %s", tr_errname(err));
    }
    acknowledge(k, self->count, self->chain);
    return tr_reply(ctx, m, .sequence = self->count);
}

TR_ACTOR(account, Account, TR_ON(Add, on_account_add),
         TR_ON_READ(Look, on_account_look));

/* ---- the run ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    tr_storage *store;

    (void)user;
    if (index == ELSEWHERE) {
        store = the_board.elsewhere;
    } else {
        TR_TRY(tr_storage_sqlite_with(
            &store, "ledger.db",
            TR_OPTIONS(tr_storage_options, .system = sys)));
    }
    TR_TRY(tr_host(sys, ledger, .storage = store, .idle = TR_SECONDS(1)));
    return tr_host(sys, account, .storage = store, .idle = TR_SECONDS(1));
}

static void close_elsewhere(board *b)
{
    tr_storage_close(b->elsewhere);
    tr_storage_close(b->memory);
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    (void)sim;
    close_elsewhere(b);  // of the last run
    memset(b, 0, sizeof(*b));
    TR_MUST(tr_storage_memory(&b->memory));
    TR_MUST(tr_storage_capture(&b->elsewhere, b->memory));
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;

    for (int round = 0; round < ADDS / 2 * NODES; round++) {
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        tr_system *sys = tr_sim_node(sim, n);
        const char *kind = tr_sim_random(sim, 2) == 0 ? "ledger" : "account";
        uint64_t key = tr_sim_random(sim, KEYS);
        if (tr_sim_random(sim, 8) == 0) {
            tr_storage_fail_nth(b->elsewhere, 1 + tr_sim_random(sim, 3),
                                tr_sim_random(sim, 4) == 0 ? TR_ESTORAGE
                                                           : TR_EUNKNOWN);
        }
        if (sys != NULL) {
            // The result does not matter: the actor checks itself.
            tr_err err =
                tr_ask(sys, tr_virtual(sys, kind, keys[key]), NULL,
                       TR_SECONDS(2), Add, .node = n, .number = ++b->next);
            (void)err;
        }
        if (tr_sim_random(sim, 30) == 0) {
            tr_sim_kill(sim, n, (tr_nanos)tr_sim_random(sim, TR_SECONDS(1)));
        }
        if (tr_sim_random(sim, 20) == 0) {  // until all are deactivated
            tr_sim_advance(sim, TR_SECONDS(2));
        }
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(100)) + 1);
    }
    tr_storage_fail_nth(b->elsewhere, 0, TR_OK);
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken[0] == '\0' ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err all_look(tr_sim *sim, void *user)
{
    const board *b = user;

    for (uint32_t n = 0; n < NODES; n++) {
        tr_system *sys = tr_sim_node(sim, n);
        for (uint32_t i = 0; i < KEYS; i++) {
            TR_TRY(tr_ask(sys, tr_virtual(sys, "ledger", keys[i]), NULL, 0,
                          Look, .node = n));
            TR_TRY(tr_ask(sys, tr_virtual(sys, "account", keys[i]), NULL, 0,
                          Look, .node = n));
        }
    }
    return b->acks > 0 ? holds(sim, user)
                       : tr_sim_fail(sim, "nothing was stored");
}

int main(int argc, char **argv)
{
    int status = few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = workload, .invariant = holds,
                   .at_end = all_look, .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0003,
                                        .early_wake = 0.01, .disk_error = 0.002,
                                        .disk_full = 0.001, .disk_slow = 0.01,
                                        .torn_write = 0.001,
                                        .delay_max = TR_MS(200))));

    close_elsewhere(&the_board);
    return status;
}
