/*
 * members.h - nodes of a simulated world that are members of one cluster, each
 * with an engine that can be made slow, down, or lose its answers.
 *
 * Each node has a played bus: it keeps the newest view, notes what it is told,
 * and hands its shards over when the view says so, unless it is stubborn.
 */
#ifndef TEST_CLUSTER_MEMBERS_H
#define TEST_CLUSTER_MEMBERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/sim.h>

#include "cluster/membership/membership.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "unit/cluster/engine_calls.h"

enum { MEMBERS_MAX = 8, DEATHS_MAX = 64 };

/* What becomes of answers to a CAS. */
typedef enum loss {
    LOSS_NONE,
    LOSS_BEFORE,  // it is not carried out
    LOSS_AFTER,   // it is carried out
} loss;

/* An engine's table of functions that can misbehave. */
typedef struct trouble {
    tri_engine_ops ops;
    const tri_engine_ops *inner;
    bool is_down;
    bool is_deaf;  // loses all hints
    tr_nanos slow;
    loss loss;
    uint32_t every, count;  // loses every n-th CAS
} trouble;

typedef struct player {
    tri_sim_node *node;
    tr_engine *engine;
    trouble trouble;
    tri_membership *membership;
    bool is_stubborn;
    tri_view *view;
    tri_node self;  // incarnation 0: not up
    uint32_t ups, fences, lefts;
    tri_node deaths[DEATHS_MAX];
    uint32_t death_count;
} player;

typedef struct troupe {
    tr_sim *sim;
    player players[MEMBERS_MAX];
} troupe;

static inline void troubled_execute(tr_engine *engine, tri_engine_op *op)
{
    trouble *it = tri_container_of(engine->ops, trouble, ops);
    _Atomic(uint32_t) never = 0;

    if (it->is_down) {
        (void)engine->world->ops->park(engine->world, &never, 0, TR_MS(100));
        tri_engine_fail(op, TR_EIO, "the engine is down");
        return;
    }
    if (it->slow > 0) {
        (void)engine->world->ops->park(engine->world, &never, 0, it->slow);
    }
    bool loses = op->call == TRI_ENGINE_CAS && it->loss != LOSS_NONE &&
                 ++it->count % it->every == 0;
    if (!loses || it->loss == LOSS_AFTER) {
        it->inner->execute(engine, op);
    }
    if (loses) {
        tri_engine_fail(op, TR_EUNKNOWN, "the answer was lost");
    }
}

static inline bool troubled_changed(tr_engine *engine, const char *prefix,
                                    uint64_t after, uint64_t *now)
{
    trouble *it = tri_container_of(engine->ops, trouble, ops);

    return !it->is_deaf && it->inner->changed(engine, prefix, after, now);
}

/* ---- the played bus ---- */

static inline void on_up(void *user, tri_node self)
{
    player *it = user;

    it->self = self;
    it->ups++;
}

static inline void on_view(void *user, tri_view *view)
{
    player *it = user;

    if (it->view != NULL) {
        assert_true(view->revision > it->view->revision);
        tri_view_drop(it->view);
    }
    it->view = tri_view_hold(view);
    for (uint32_t i = 0; i < TRI_SHARDS && !it->is_stubborn; i++) {
        if (tri_node_is(view->shards[i].node, it->self) &&
            view->shards[i].next != TRI_NODE_NONE) {
            tri_membership_handed_over(it->membership, i);
        }
    }
}

static inline void on_dead(void *user, tri_node node)
{
    player *it = user;

    assert_true(it->death_count < DEATHS_MAX);
    it->deaths[it->death_count++] = node;
}

static inline void on_fenced(void *user)
{
    player *it = user;

    assert_false(tri_membership_may_act(it->membership));
    it->self = (tri_node){0};
    it->fences++;
}

static inline void on_left(void *user)
{
    player *it = user;

    assert_false(tri_membership_may_act(it->membership));
    it->self = (tri_node){0};
    it->lefts++;
}

static const tri_membership_calls played_bus = {
    .up = on_up,
    .view_changed = on_view,
    .dead = on_dead,
    .fenced = on_fenced,
    .left = on_left,
};

/* ---- the stage ---- */

static inline troupe *troupe_new(uint64_t seed)
{
    troupe *it = calloc(1, sizeof(*it));

    assert_non_null(it);
    TR_MUST(tr_sim_new(&it->sim, seed));
    for (int i = 0; i < MEMBERS_MAX; i++) {
        it->players[i].node = tri_sim_node_add(it->sim);
        assert_non_null(it->players[i].node);
    }
    return it;
}

/* Opens the engine of a node, with which nothing is wrong yet. */
static inline void open_engine(player *it)
{
    tr_engine_options options = {.size = sizeof(options),
                                 .world = &it->node->world};

    TR_MUST(tr_engine_memory(&it->engine, "members", &options));
    it->trouble = (trouble){
        .ops = *it->engine->ops, .inner = it->engine->ops, .every = 1};
    it->trouble.ops.execute = troubled_execute;
    it->trouble.ops.changed = troubled_changed;
    it->engine->ops = &it->trouble.ops;
}

static inline tri_membership_options options_for(player *it)
{
    return (tri_membership_options){.world = &it->node->world,
                                    .engine = it->engine,
                                    .ns = "test",
                                    .address = "127.0.0.1:4000",
                                    .calls = &played_bus,
                                    .user = it};
}

/* Starts a node and returns its player. */
static inline player *begin(troupe *on, int index)
{
    player *it = &on->players[index];

    assert_null(it->engine);
    open_engine(it);
    tri_membership_options options = options_for(it);
    TR_MUST(tri_membership_start(&it->membership, &options));
    return it;
}

/* Ends a node as a crash does: its record stays. */
static inline void crash(player *it)
{
    it->trouble.is_down = false;
    tri_membership_free(it->membership);
    tr_engine_close(it->engine);
    tri_view_drop(it->view);
    *it = (player){.node = it->node};
}

/* Waits for the condition, at most this long on virtual time. */
#define WAIT_FOR(on, span, condition)                                          \
    do {                                                                       \
        tr_nanos end_ = tr_sim_now((on)->sim) + (span);                        \
        while (!(condition) && tr_sim_now((on)->sim) < end_) {                 \
            tr_sim_advance((on)->sim, TR_MS(10));                              \
        }                                                                      \
        assert_true(condition);                                                \
    } while (0)

/* Returns how many shards the view gives to this node. */
static inline uint32_t shards_of(const tri_view *view, tri_node node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; view != NULL && i < TRI_SHARDS; i++) {
        count +=
            node.incarnation != 0 && tri_node_is(view->shards[i].node, node);
    }
    return count;
}

/* True if the node's view gives it its part of all shards, of `nodes` nodes. */
static inline bool has_share(const player *it, uint32_t nodes)
{
    uint32_t share = TRI_SHARDS / nodes;
    uint32_t has = shards_of(it->view, it->self);

    return has >= share && has <= share + 1;
}

static inline bool knows_dead(const player *it, tri_node node)
{
    for (uint32_t i = 0; i < it->death_count; i++) {
        if (tri_node_is(it->deaths[i], node)) {
            return true;
        }
    }
    return false;
}

static inline void troupe_free(troupe *it)
{
    for (int i = 0; i < MEMBERS_MAX; i++) {
        if (it->players[i].engine != NULL) {
            crash(&it->players[i]);
        }
    }
    tr_sim_free(it->sim);
    free(it);
}

#endif
