/*
 * takeover.h - shards change their owner and nodes are killed; the actors stay
 * available.
 *
 * Three nodes over a network. The workload plays the membership: it gives
 * shards to other nodes, which each node learns a little later; it kills nodes,
 * reports them dead, gives their shards away, and lets them boot again as
 * another incarnation. Meanwhile actors are asked from all nodes, often by all
 * at once, and watched from a node that stays.
 *   - of each name at most one activation is alive at any time;
 *   - every watch is notified of an end: of the activation, or of its node;
 *   - the work goes on: requests are answered.
 *
 * Covers DI6, DW10 and X8.
 */
#ifndef TEST_SIM_TAKEOVER_H
#define TEST_SIM_TAKEOVER_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "few_seeds.h"
#include "sim/sim.h"
#include "support/mesh.h"

enum { NODES = 3, KEYS = 12, ROUNDS = 40, HOME = 0, COUNT_MAX = 4096 };

#define IDLE TR_SECONDS(2)

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f",
                                       "g", "h", "i", "j", "k", "l"};

typedef struct board {
    mesh mesh;
    uint32_t shards[KEYS];
    uint32_t active[KEYS][NODES];
    uint32_t open[KEYS];  // watches of the actor, from the node HOME
    uint32_t kills;
    bool untold;  // half of the nodes are not told of a kill
    /*
     * Links go wrong while a shard changes its owner, for longer than the new
     * one waits: then there may be two activations for a while, and the store
     * decides which of them counts.
     */
    bool cut;
    tr_storage *store;
    tr_err (*make_store)(tr_storage **out);  // NULL: in memory
    uint64_t counted[KEYS];  // the highest number that was acknowledged
    uint8_t answers[KEYS][COUNT_MAX];  // how often each number was acknowledged
    uint64_t asked, answered, told;
    uint32_t asking[NODES];   // calls in progress
    uint32_t notes;           // that a caller sends before each call
    uint64_t noted, handled;  // notes: sent, and handled
    uint64_t dead;            // ... or a dead letter
    tr_ref guard;
    tr_ref callers[NODES];
    const char *broken;
} board;

static board the_board;  // there is one run at a time

TR_MESSAGE(Answer, (uint32_t, key), (uint64_t, count));
TR_REQUEST(Who, Answer);
TR_MESSAGE(Note);
TR_MESSAGE(Guard, (uint32_t, key));
TR_MESSAGE(Call, (uint32_t, key));

static void broken(const char *what)
{
    if (the_board.broken == NULL) {
        the_board.broken = what;
    }
}

static uint32_t node_of(tr_ctx *ctx)
{
    uint32_t node = 0;

    while (node < NODES && the_board.mesh.systems[node] != ctx->sys) {
        node++;
    }
    return node;
}

/* ---- targets ---- */

TR_STATE(Target, (uint64_t, count));

static uint32_t key_of(tr_ctx *ctx)
{
    return (uint32_t)(tr_key(ctx)[0] - 'a');
}

static tr_err target_start(tr_ctx *ctx, Target *self)
{
    board *b = &the_board;
    uint32_t key = key_of(ctx), here = node_of(ctx), alive = 0;

    (void)self;
    if (here == NODES) {
        return TR_OK;  // its node is being killed
    }
    b->active[key][here]++;
    for (uint32_t n = 0; n < NODES; n++) {
        alive += b->active[key][n];
    }
    if (alive > 1) {
        broken("two activations of one name");
    }
    return TR_BUGGIFY(ctx, 0.2) ? tr_sleep(ctx, TR_MS(50)) : TR_OK;
}

static tr_err target_stop(tr_ctx *ctx, Target *self, tr_reason reason)
{
    uint32_t here = node_of(ctx);

    (void)self, (void)reason;
    if (TR_BUGGIFY(ctx, 0.2)) {
        tr_err ignored = tr_sleep(ctx, TR_MS(50));
        (void)ignored;
    }
    // An activation whose state cannot be loaded ends before it starts.
    if (here < NODES && the_board.active[key_of(ctx)][here] > 0) {
        the_board.active[key_of(ctx)][here]--;
    }
    return TR_OK;
}

static tr_err on_who(tr_ctx *ctx, Target *self, const Who *m)
{
    if (the_board.cut) {
        Target next = *self;
        next.count++;
        TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    }
    return tr_reply(ctx, m, .key = key_of(ctx), .count = self->count);
}

static tr_err on_note(tr_ctx *ctx, Target *self, const Note *m)
{
    (void)ctx, (void)self, (void)m;
    the_board.handled++;
    return TR_OK;
}

TR_ACTOR(target, Target, TR_HOOK(pre_start, target_start),
         TR_HOOK(post_stop, target_stop), TR_ON(Who, on_who),
         TR_ON(Note, on_note));

/* ---- callers, and the watcher ---- */

#define PATIENCE TR_SECONDS(20)
#define SLACK    TR_SECONDS(5)  // for wrong clocks and paused nodes

static void ask(tr_ctx *ctx, tr_ref ref)
{
    board *b = &the_board;
    uint32_t here = node_of(ctx);
    tr_sim *sim = b->mesh.sim;
    tr_nanos begun = tr_sim_now(sim);
    Answer answer;

    b->asked++;
    if (here < NODES) {  // else its node is being killed
        b->asking[here]++;
    }
    if (tr_ask(ctx, ref, &answer, PATIENCE, Who) == TR_OK) {
        uint64_t *counted = &b->counted[answer.key];
        b->answered++;
        *counted = answer.count > *counted ? answer.count : *counted;
        if (b->cut && b->answers[answer.key][answer.count % COUNT_MAX]++) {
            broken("one number was answered twice");
        }
    }
    if (here == NODES || node_of(ctx) != here) {
        return;  // it was killed
    }
    b->asking[here]--;
    if (tr_sim_now(sim) - begun > PATIENCE + SLACK) {
        broken("a call took too long");
    }
}

static tr_err on_call(tr_ctx *ctx, void *self, const Call *m)
{
    tr_ref ref = tr_virtual(ctx, "target", keys[m->key]);

    (void)self;
    for (uint32_t i = 0; i < the_board.notes; i++) {
        the_board.noted++;
        tr_tell(ctx, ref, Note);
    }
    ask(ctx, ref);
    return TR_OK;
}

TR_ACTOR(caller, void, TR_ON(Call, on_call));

static tr_err on_guard(tr_ctx *ctx, void *self, const Guard *m)
{
    tr_ref ref = tr_virtual(ctx, "target", keys[m->key]);

    (void)self;
    ask(ctx, ref);
    the_board.open[m->key] = 1;  // watching twice is watching once
    tr_watch(ctx, ref);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    board *b = &the_board;

    (void)self;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (tr_ref_eq(m->actor, tr_virtual(ctx, "target", keys[i]))) {
            if (b->open[i] == 0) {
                broken("told twice, or unasked");
            }
            b->open[i] = 0;
            b->told++;
        }
    }
    return TR_OK;
}

TR_ACTOR(guard, void, TR_ON(Guard, on_guard),
         TR_ON(tr_terminated, on_terminated));

/* ---- the membership ---- */

static void call(board *b, uint32_t node, uint32_t key)
{
    if (b->mesh.systems[node] != NULL) {
        tr_tell(b->mesh.systems[node], b->callers[node], Call, .key = key);
    }
}

/* Makes some calls from random nodes. */
static inline void load(tr_sim *sim, board *b)
{
    for (uint64_t i = tr_sim_random(sim, 6) + 1; i > 0; i--) {
        call(b, (uint32_t)tr_sim_random(sim, NODES),
             (uint32_t)tr_sim_random(sim, KEYS));
    }
}

static inline void pass(tr_sim *sim, tr_nanos below)
{
    tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, (uint64_t)below) + 1);
}

/* Tells the nodes of the newest view, one by one, while calls go on. */
static void tell_views(tr_sim *sim, board *b, uint32_t key)
{
    uint32_t first = (uint32_t)tr_sim_random(sim, NODES);

    for (uint32_t n = 0; n < NODES; n++) {
        if (b->cut) {
            tri_sim_net_trouble(b->mesh.net);
        }
        if (!(b->untold && tr_sim_random(sim, 2) == 0)) {
            mesh_tell(&b->mesh, (first + n) % NODES);
        }
        if (tr_sim_random(sim, 2) == 0) {
            call(b, (uint32_t)tr_sim_random(sim, NODES), key);
        }
        if (tr_sim_random(sim, 2) == 0) {
            tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(3)) + 1);
        }
    }
}

/* Gives a shard away; calls go on while the nodes learn of the new owner. */
static void give_away(tr_sim *sim, board *b, uint32_t i, uint32_t owner)
{
    mesh_move(&b->mesh, b->shards[i], owner);
    tell_views(sim, b, i);
}

/* Draws how long a killed node stays down. */
static tr_nanos any_while(tr_sim *sim)
{
    return TR_SECONDS(1) + (tr_nanos)tr_sim_random(sim, TR_SECONDS(2));
}

/* Draws a shorter time, about that in which its shards are given away. */
static tr_nanos short_while(tr_sim *sim)
{
    return TR_MS(150) + (tr_nanos)tr_sim_random(sim, TR_MS(300));
}

/* Takes a killed node out of the mesh: its packets are lost. */
static void unplug(board *b, uint32_t node)
{
    mesh_leave(&b->mesh, node);
    tri_sim_net_forget(b->mesh.net, node);
}

/* Updates the board after a kill; the other nodes do not know of it yet. */
static void was_killed(board *b, uint32_t node)
{
    b->kills++;
    for (uint32_t i = 0; i < KEYS; i++) {
        b->active[i][node] = 0;
    }
    b->asking[node] = 0;
}

/* The node is dead by the engine; its shards go to the node HOME. */
static void tell_of_end(tr_sim *sim, board *b, uint32_t node)
{
    mesh_dead(&b->mesh, node);
    tell_views(sim, b, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        if (b->mesh.shards[b->shards[i]].node.slot == node) {
            give_away(sim, b, i, HOME);
        }
    }
}

static void kill_one(tr_sim *sim, board *b, uint32_t node)
{
    if (b->mesh.systems[node] == NULL) {
        return;
    }
    unplug(b, node);
    tr_sim_kill(sim, node,
                b->untold && tr_sim_random(sim, 2) == 0 ? short_while(sim)
                                                        : any_while(sim));
    while (tr_sim_node(sim, node) != NULL) {
        tr_sim_advance(sim, 1);
    }
    was_killed(b, node);
    tell_of_end(sim, b, node);
}

static void look_up_shards(board *b)
{
    char text[64];

    for (uint32_t i = 0; i < KEYS; i++) {
        int size = snprintf(text, sizeof(text), "local::target/%s", keys[i]);
        b->shards[i] = tri_shard_of(text, (size_t)size);
    }
}

/* ---- the run ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    TR_TRY(mesh_join(&b->mesh, index, sys));
    mesh_tell_all(&b->mesh);
    b->callers[index] = tr_spawn(sys, caller);
    if (index == HOME) {
        b->guard = tr_spawn(sys, guard);
    }
    return tr_host(sys, target, .idle = IDLE, .storage = b->store);
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;

    bool cut = b->cut;
    tr_err (*make)(tr_storage **out) = b->make_store;

    tr_storage_close(b->store);  // of the run before
    memset(b, 0, sizeof(*b));    // the net is gone since all_told
    b->cut = cut;
    b->make_store = make;
    if (cut) {
        TR_MUST(make != NULL ? make(&b->store) : tr_storage_memory(&b->store));
    }
    mesh_init(&b->mesh, sim, NODES, true);
    look_up_shards(b);
    b->mesh.quiet = true;
}

/* Calls an actor from all nodes at once, perhaps right after its end. */
static void call_all(tr_sim *sim, board *b, uint32_t key)
{
    tr_system *first = b->mesh.systems[tr_sim_random(sim, NODES)];

    if (first != NULL && tr_sim_random(sim, 2) == 0) {
        tr_stop(first, tr_virtual(first, "target", keys[key]));
    }
    for (uint32_t n = 0; n < NODES; n++) {
        call(b, n, key);
        if (tr_sim_random(sim, 2) == 0) {
            tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(2)) + 1);
        }
    }
}

enum { USUAL = 15 };  // kinds of rounds, of 20: see usual

/*
 * Makes a round of kind `what`, for scenarios that have kinds of their own from
 * USUAL on: watches, calls, gives the shard of the key to node n (`away` of the
 * kinds), or disturbs links.
 */
static inline void usual(tr_sim *sim, board *b, uint64_t what, uint64_t away,
                         uint32_t key, uint32_t n)
{
    if (what < 4) {
        tr_tell(b->mesh.systems[HOME], b->guard, Guard, .key = key);
    } else if (what < 10) {
        call_all(sim, b, key);
    } else if (what < 10 + away) {
        if (tr_sim_node(sim, n) != NULL) {
            give_away(sim, b, key, n);
        }
    } else if (what < USUAL) {
        tri_sim_net_trouble(b->mesh.net);
    }
}

/* Ends all trouble: links work, and every node gets every view. */
static inline void settle(tr_sim *sim, board *b)
{
    tri_sim_net_heal(b->mesh.net);
    for (int i = 0; i < 20; i++) {
        mesh_tell_all(&b->mesh);
        tr_sim_advance(sim, TR_MS(200));
    }
    b->mesh.quiet = false;
}

static inline tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    bool deadly = !b->cut && tr_sim_random(sim, 2) == 0;

    tr_sim_advance(sim, TR_SECONDS(1));
    for (int round = 0; round < ROUNDS && b->broken == NULL; round++) {
        uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint64_t what = tr_sim_random(sim, 20);
        tr_system *sys = b->mesh.systems[n];
        if (what < 5) {
            tr_tell(b->mesh.systems[HOME], b->guard, Guard, .key = key);
        } else if (what < 11) {
            call_all(sim, b, key);
        } else if (what < 14) {
            if (sys != NULL) {
                give_away(sim, b, key, n);
            }
        } else if (what < 16) {
            if (sys != NULL) {
                tr_stop(sys, tr_virtual(sys, "target", keys[key]));
            }
        } else if (what == 16 && deadly && n != HOME) {
            kill_one(sim, b, n);
        }
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_MS(400)) + 1);
        mesh_tell(&b->mesh, (uint32_t)tr_sim_random(sim, NODES));
    }
    settle(sim, b);
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    board *b = user;

    if (b->broken == NULL) {
        return TR_OK;
    }
    memset(b->mesh.systems, 0, sizeof(b->mesh.systems));  // they end now
    return tr_sim_fail(sim, "%s", b->broken);
}

/* Checks that every acknowledged number is stored. */
static tr_err nothing_is_forgotten(tr_sim *sim, board *b, uint32_t i)
{
    tr_system *sys = b->mesh.systems[HOME];
    Answer answer;

    TR_TRY(tr_ask(sys, tr_virtual(sys, "target", keys[i]), &answer,
                  TR_SECONDS(20), Who));
    return answer.count > b->counted[i]
               ? TR_OK
               : tr_sim_fail(
                     sim, "%s: %" PRIu64 " was answered, %" PRIu64 " is stored",
                     keys[i], b->counted[i], answer.count - 1);
}

static tr_err all_told(tr_sim *sim, void *user)
{
    board *b = user;
    tr_err err = holds(sim, user);

    for (uint32_t i = 0; i < KEYS && err == TR_OK; i++) {
        for (uint32_t n = 0; n < NODES && err == TR_OK; n++) {
            if (b->active[i][n] != 0) {
                err = tr_sim_fail(sim, "%s is still active", keys[i]);
            }
        }
        if (err == TR_OK && b->open[i] != 0) {
            err = tr_sim_fail(sim, "who watches %s was not told", keys[i]);
        }
    }
    // A store that is down most of the time acknowledges few.
    if (err == TR_OK && b->make_store == NULL && b->answered < b->asked / 4) {
        err = tr_sim_fail(sim, "only %" PRIu64 " of %" PRIu64 " answered",
                          b->answered, b->asked);
    }
    for (uint32_t i = 0; i < KEYS && err == TR_OK && b->cut; i++) {
        err = nothing_is_forgotten(sim, b, i);
    }
    mesh_fini(&b->mesh);  // before its world
    memset(b->mesh.systems, 0, sizeof(b->mesh.systems));
    return err;
}

#endif
