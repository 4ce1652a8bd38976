/*
 * virtual_bank_sim.c - accounts that are virtual actors of three nodes.
 *
 * Tellers on every node move money between a few accounts. The accounts are
 * in one store. All three nodes use them at once; they end by idleness, by
 * stops from any node and by failing saves, and are activated elsewhere. Links
 * lose, double, delay and reorder, and are cut for longer than a node is waited
 * for; shards are handed over meanwhile, which each node learns at another
 * time. So there may be two activations of an account, and an asker may not
 * know the outcome of its request: it asks again, with the same number, until
 * it knows. Whatever happens, no money is lost or made, because the store
 * accepts one writer and an account remembers the last request of each teller.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/sim_node.h"
#include "support/mesh.h"

enum { NODES = 3, ACCOUNTS = 5, ROUNDS = 12, START = 100, TRIES = 2000 };

#define IDLE     TR_SECONDS(1)
#define PATIENCE TR_SECONDS(2)

static const char *const names[ACCOUNTS] = {"ann", "bob", "cid", "dee", "eve"};

typedef struct board {
    mesh mesh;
    tr_storage *store;
    uint64_t epoch;
    uint32_t done, stuck;
    uint64_t tries, unknown, fenced, refused;
    int64_t worst;  // the lowest balance seen: never below zero
} board;

static board *the_board;  // there is one run at a time

TR_MESSAGE(Balance, (int64_t, value));
TR_REQUEST(Move, Balance, (uint32_t, teller), (uint64_t, number),
           (int64_t, amount));
TR_REQUEST(Look, Balance);
TR_MESSAGE(Go, (uint32_t, teller));

/* done: the last number of each teller. A new account has START cents. */
TR_STATE(Account, (bool, open), (int64_t, value), (uint64_t, done0),
         (uint64_t, done1), (uint64_t, done2), (bool, refused0),
         (bool, refused1), (bool, refused2));

static tr_err account_start(tr_ctx *ctx, Account *self)
{
    (void)self;
    return TR_BUGGIFY(ctx, 0.2) ? tr_sleep(ctx, TR_MS(200)) : TR_OK;
}

static uint64_t *done_of(Account *a, uint32_t teller)
{
    return teller == 0 ? &a->done0 : teller == 1 ? &a->done1 : &a->done2;
}

static bool *refused_of(Account *a, uint32_t teller)
{
    return teller == 0   ? &a->refused0
           : teller == 1 ? &a->refused1
                         : &a->refused2;
}

static tr_err on_move(tr_ctx *ctx, Account *self, const Move *m)
{
    Account next = *self;
    if (!self->open) {
        next.open = true;
        next.value = START;
    }
    if (m->number > *done_of(&next, m->teller)) {
        bool poor = next.value + m->amount < 0;
        *done_of(&next, m->teller) = m->number;
        *refused_of(&next, m->teller) = poor;
        next.value += poor ? 0 : m->amount;
        if (TR_BUGGIFY(ctx, 0.03)) {  // the save is not made
            return tr_refuse(ctx, m, TR_ESTORAGE, "no space");
        }
        TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
        if (TR_BUGGIFY(ctx,
                       0.03)) {  // the save is made, but reported as failed
            tr_stop(ctx, tr_self(ctx));
            return tr_refuse(ctx, m, TR_EUNKNOWN, "the disk is silent");
        }
    }
    if (self->value < the_board->worst) {
        the_board->worst = self->value;
    }
    if (*refused_of(self, m->teller)) {
        return tr_refuse(ctx, m, TR_EUSER, "not so much");
    }
    if (TR_BUGGIFY(ctx, 0.05)) {
        tr_stop(ctx, tr_self(ctx));
    }
    return tr_reply(ctx, m, .value = self->value);
}

static tr_err on_look(tr_ctx *ctx, Account *self, const Look *q)
{
    // Reads by writing: only the activation that may write knows.
    Account next = *self;
    if (!self->open) {
        next.open = true;
        next.value = START;
    }
    TR_OR_REFUSE(ctx, q, tr_persist(ctx, self, &next));
    return tr_reply(ctx, q, .value = self->value);
}

TR_ACTOR(account, Account, TR_HOOK(pre_start, account_start),
         TR_ON(Move, on_move), TR_ON(Look, on_look));

/* Asks until the outcome is known: TR_OK or TR_EUSER. */
static tr_err move_surely(tr_ctx *ctx, uint32_t whose, uint32_t who,
                          uint64_t number, int64_t amount)
{
    board *b = the_board;
    tr_err err = TR_ETIMEDOUT;
    for (uint32_t i = 0; i < TRIES; i++) {
        Balance balance;
        err = tr_ask(ctx, tr_virtual(ctx, "account", names[whose]), &balance,
                     PATIENCE, Move, .teller = who, .number = number,
                     .amount = amount);
        b->tries++;
        b->unknown += err == TR_EUNKNOWN || err == TR_ETIMEDOUT;
        b->fenced += err == TR_EFENCED;
        if (err == TR_OK || err == TR_EUSER) {
            return err;
        }
        TR_TRY(tr_sleep(ctx, TR_MS(50)));
    }
    b->stuck++;
    return err;
}

static tr_err on_go(tr_ctx *ctx, void *self, const Go *m)
{
    board *b = the_board;
    tr_sim *sim = b->mesh.sim;
    uint64_t number = 0;
    (void)self;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t from = (uint32_t)tr_sim_random(sim, ACCOUNTS);
        uint32_t to =
            (from + 1 + (uint32_t)tr_sim_random(sim, ACCOUNTS - 1)) % ACCOUNTS;
        int64_t amount = (int64_t)tr_sim_random(sim, 60) + 1;
        tr_err err = move_surely(ctx, from, m->teller, ++number, -amount);
        b->refused += err == TR_EUSER;
        if (err == TR_OK) {
            TR_TRY(move_surely(ctx, to, m->teller, ++number, amount));
        }
        if (tr_sim_random(sim, 4) == 0) {
            tr_stop(ctx, tr_virtual(ctx, "account", names[from]));
        }
        if (tr_sim_random(sim, 3) == 0) {
            TR_TRY(tr_sleep(ctx, (tr_nanos)tr_sim_random(sim, 2 * IDLE) + 1));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(teller, void, TR_ON(Go, on_go));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;
    tr_sim *sim = tri_sim_of(sys->world);
    if (b->mesh.sim != sim) {
        tr_storage_close(b->store);
        memset(b, 0, sizeof(*b));
        mesh_init(&b->mesh, sim, NODES, true);
        b->epoch = 1;
        TR_TRY(tr_storage_memory(&b->store));
    }
    TR_TRY(mesh_join(&b->mesh, index, sys));
    return tr_host(sys, account, .storage = b->store, .idle = IDLE);
}

static uint32_t shard_of(uint32_t name)
{
    char text[64];
    snprintf(text, sizeof(text), "local::account/%s", names[name]);
    return tri_shard_of(text, strlen(text));
}

/* Tells each node of the newest view at another time. */
static void tell_slowly(tr_sim *sim, board *b)
{
    uint32_t first = (uint32_t)tr_sim_random(sim, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        mesh_tell(&b->mesh, (first + i) % NODES);
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(800)) + 1);
    }
}

/* Gives the shard of an account away; each node learns it at another time. */
static void hand_over(tr_sim *sim, board *b)
{
    uint32_t shard = shard_of((uint32_t)tr_sim_random(sim, ACCOUNTS));
    mesh_move(&b->mesh, shard, (uint32_t)tr_sim_random(sim, NODES));
    tell_slowly(sim, b);
    tell_slowly(sim, b);
}

/*
 * Cuts a node off until the others take it for dead and host its actors, while
 * the node goes on: it does not know yet that it is dead. When it is connected
 * again it learns that, and goes on as another incarnation.
 */
static void cut_off(tr_sim *sim, board *b)
{
    uint32_t cut = (uint32_t)tr_sim_random(sim, NODES);
    uint32_t owner =
        (cut + 1 + (uint32_t)tr_sim_random(sim, NODES - 1)) % NODES;
    tri_sim_net_partition(b->mesh.net, UINT64_C(1) << cut, TR_SECONDS(12));
    tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_SECONDS(12)) + 1);
    mesh_dead(&b->mesh, cut);
    for (uint32_t name = 0; name < ACCOUNTS; name++) {
        mesh_move(&b->mesh, shard_of(name), owner);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != cut) {
            mesh_tell(&b->mesh, i);
        }
    }
    tr_sim_advance(sim, TR_SECONDS(13));
    mesh_rejoin(&b->mesh, cut);
    mesh_tell_all(&b->mesh);
}

/* Resets the board: the nodes end now, and the next run must start anew. */
static void forget(board *b)
{
    memset(b->mesh.systems, 0, sizeof(b->mesh.systems));
    b->mesh.sim = NULL;
}

static tr_err look_at_all(tr_sim *sim, board *b)
{
    int64_t sum = 0;
    tr_system *sys = tr_sim_node(sim, 0);
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        Balance balance;
        tr_err err = TR_ETIMEDOUT;
        for (uint32_t t = 0; t < TRIES && err != TR_OK; t++) {
            err = tr_ask(sys, tr_virtual(sys, "account", names[i]), &balance,
                         PATIENCE, Look);
            if (err != TR_OK) {
                tr_sim_advance(sim, TR_MS(100));
            }
        }
        if (err != TR_OK) {
            forget(b);
            return tr_sim_fail(sim, "%s does not answer: %s", names[i],
                               tr_errname(err));
        }
        sum += balance.value;
    }
    if (sum != ACCOUNTS * START || b->worst < 0 || b->stuck > 0) {
        forget(b);
        return tr_sim_fail(
            sim, "the sum is %" PRId64 ", the lowest %" PRId64 ", %u gave up",
            sum, b->worst, b->stuck);
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = tr_sim_node(sim, i);
        tr_tell(sys, tr_spawn(sys, teller), Go, .teller = i);
    }
    while (b->done + b->stuck < NODES) {
        tr_sim_advance(sim, TR_MS(500));
        tri_sim_net_trouble(b->mesh.net);
        if (tr_sim_random(sim, 6) == 0) {
            hand_over(sim, b);
        }
        if (tr_sim_random(sim, 25) == 0) {
            cut_off(sim, b);
        }
    }
    tri_sim_net_heal(b->mesh.net);
    return look_at_all(sim, b);
}

static tr_err over(tr_sim *sim, void *user)
{
    board *b = user;
    (void)sim;
    mesh_fini(&b->mesh);
    b->mesh.sim = NULL;
    return TR_OK;
}

int main(int argc, char **argv)
{
    static board b;
    the_board = &b;
    int rc = tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .node = node,
                   .workload = workload, .at_end = over, .user = &b,
                   .faults = TR_OPTIONS(
                       tr_faults, .drop = 0.02, .delay = 0.03, .reorder = 0.03,
                       .duplicate = 0.03, .bit_flip = 0.01, .partition = 0.02,
                       .half_open = 0.02, .slow_link = 0.05, .clog = 0.05,
                       .early_wake = 0.01, .pause_max = TR_SECONDS(3),
                       .delay_max = TR_MS(500))));
    tr_storage_close(b.store);
    return rc;
}
