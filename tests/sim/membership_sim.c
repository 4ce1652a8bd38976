/*
 * membership_sim.c - nodes join, are killed, paused and shut down, with clocks
 * of different rates and an engine that is slow, out of reach or loses answers.
 *
 * Each node plays a bus that hands shards over as its view says. Held after
 * every step: no shard is served by two nodes, where a node serves what its
 * newest view gives it while it may act; views of one node are of increasing
 * revisions; views of one revision are equal; the epoch of a shard never
 * falls, and rises when its owner changes. In the end every node is up, every
 * shard has a live owner, and the counts of shards differ by one at most.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#include "base/check.h"
#include "base/hash.h"
#include "cluster/membership/membership.h"
#include "core/system.h"
#include "few_seeds.h"

enum { NODES = 4, VIEWS = 4096, SHARDS_CHECKED = 16 };

/* One run of a node. */
typedef struct member {
    tr_engine *engine;
    tri_membership *membership;
    tri_view *view;
    tri_node self;               // incarnation 0: not up
    uint64_t given[TRI_SHARDS];  // epoch in which it gave the shard up
} member;

typedef struct history {
    tr_sim *sim;
    member *running[NODES];
    uint64_t epochs[TRI_SHARDS];
    tri_node owners[TRI_SHARDS];
    uint64_t newest;  // revision of the view that they are of
    struct {
        uint64_t revision, hash;
    } views[VIEWS];  // by revision
    uint64_t ups, fences, deaths, handed;
} history;

static history all;

/* ---- the played bus ---- */

static void on_up(void *user, tri_node self)
{
    member *it = user;

    it->self = self;
    all.ups++;
}

static void hand_over(member *it)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        if (it->self.incarnation != 0 &&
            tri_node_is(it->view->shards[i].node, it->self) &&
            it->view->shards[i].next != TRI_NODE_NONE) {
            all.handed++;
            it->given[i] = it->view->shards[i].epoch;
            tri_membership_handed_over(it->membership, i);
        }
    }
}

/* The owner and the epoch change together, and the epoch only rises. */
static void check_epochs(const tri_view *view)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        const tri_shard_owner *now = &view->shards[i];
        bool moved = now->node.slot != TRI_NODE_NONE &&
                     !tri_node_is(now->node, all.owners[i]);
        if (now->epoch < all.epochs[i] ||
            (moved && now->epoch == all.epochs[i])) {
            (void)tr_sim_fail(all.sim,
                              "shard %" PRIu32 " has epoch %" PRIu64
                              " after %" PRIu64,
                              i, now->epoch, all.epochs[i]);
        }
        all.epochs[i] = now->epoch;
        if (moved) {
            all.owners[i] = now->node;
        }
    }
}

static uint64_t hash_of(const tri_view *view)
{
    uint64_t hash = tri_hash_bytes(view->shards, sizeof(view->shards));

    for (uint32_t i = 0; i < view->slots; i++) {
        hash = tri_hash_mix(hash ^ view->members[i].incarnation);
    }
    return hash;
}

static void on_view(void *user, tri_view *view)
{
    member *it = user;
    uint64_t hash = hash_of(view), at = view->revision % VIEWS;

    if (it->view != NULL && view->revision <= it->view->revision) {
        (void)tr_sim_fail(all.sim, "a view is not newer than the one before");
    }
    if (all.views[at].revision == view->revision &&
        all.views[at].hash != hash) {
        (void)tr_sim_fail(all.sim, "two views of revision %" PRIu64 " differ",
                          view->revision);
    }
    all.views[at].revision = view->revision;
    all.views[at].hash = hash;
    if (view->revision > all.newest) {
        all.newest = view->revision;
        check_epochs(view);
    }
    tri_view_drop(it->view);
    it->view = tri_view_hold(view);
    hand_over(it);
}

static void on_dead(void *user, tri_node node)
{
    (void)user;
    (void)node;
    all.deaths++;
}

static void on_fenced(void *user)
{
    member *it = user;

    it->self = (tri_node){0};
    all.fences++;
}

static void on_left(void *user)
{
    member *it = user;

    it->self = (tri_node){0};
}

static const tri_membership_calls played_bus = {
    .up = on_up,
    .view_changed = on_view,
    .dead = on_dead,
    .fenced = on_fenced,
    .left = on_left,
};

/* ---- a node ---- */

static void end_member(void *user)
{
    member *it = user;

    for (int i = 0; i < NODES; i++) {
        if (all.running[i] == it) {
            all.running[i] = NULL;
        }
    }
    tri_membership_leave(it->membership);
    if (tri_membership_wait_left(it->membership, TR_SECONDS(10)) != TR_OK) {
        // Its record stays until others declare it dead.
    }
    tri_membership_free(it->membership);
    tr_engine_close(it->engine);
    tri_view_drop(it->view);
    free(it);
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    tri_world *world = sys->world;
    tr_engine_options options = {.size = sizeof(options), .world = world};
    member *it = calloc(1, sizeof(*it));
    char address[32];
    (void)user;

    if (it == NULL) {
        return TR_ENOMEM;
    }
    snprintf(address, sizeof(address), "node:%" PRIu32, index);
    TR_TRY(tr_engine_memory(&it->engine, "members", &options));
    all.running[index] = it;
    tri_membership_options wanted = {.world = world,
                                     .engine = it->engine,
                                     .ns = "sim",
                                     .address = address,
                                     .calls = &played_bus,
                                     .user = it};
    TR_TRY(tri_membership_start(&it->membership, &wanted));
    return tr_system_on_closed(sys, end_member, it);
}

/* ---- what is held ---- */

static bool serves(const member *it, uint32_t shard)
{
    return it != NULL && it->membership != NULL && it->view != NULL &&
           it->self.incarnation != 0 &&
           tri_node_is(it->view->shards[shard].node, it->self) &&
           it->view->shards[shard].epoch > it->given[shard] &&
           tri_membership_may_act(it->membership);
}

static tr_err invariant(tr_sim *sim, void *user)
{
    (void)user;
    // A sample: all shards after each step would take too long.
    uint32_t first = (uint32_t)(tr_sim_steps(sim) * SHARDS_CHECKED);
    for (uint32_t i = 0; i < SHARDS_CHECKED; i++) {
        uint32_t shard = (first + i * 61) % TRI_SHARDS;
        uint32_t count = 0;
        for (uint32_t n = 0; n < NODES; n++) {
            // A killed node runs no more, whatever its clock says.
            count +=
                tr_sim_node(sim, n) != NULL && serves(all.running[n], shard);
        }
        if (count > 1) {
            return tr_sim_fail(
                sim, "shard %" PRIu32 " is served by %" PRIu32 " nodes", shard,
                count);
        }
    }
    return TR_OK;
}

static void begin(tr_sim *sim, void *user)
{
    (void)user;
    all = (history){.sim = sim};
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        all.owners[i].slot = TRI_NODE_NONE;
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_advance(sim, TR_SECONDS(40));
    tr_sim_shutdown(sim, (uint32_t)tr_sim_random(sim, NODES), TR_SECONDS(20),
                    TR_SECONDS(3));
    tr_sim_advance(sim, TR_SECONDS(40));
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    (void)user;
    for (uint32_t n = 0; n < NODES; n++) {
        const member *it = all.running[n];
        uint32_t has = 0;
        for (uint32_t i = 0; i < TRI_SHARDS; i++) {
            has += serves(it, i);
        }
        if (has < TRI_SHARDS / NODES || has > TRI_SHARDS / NODES + 1) {
            return tr_sim_fail(
                sim,
                "node %" PRIu32 " serves %" PRIu32 " shards at the end (%s)", n,
                has,
                it == NULL ? "down"
                           : tri_member_state_name(
                                 tri_membership_state(it->membership)));
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    tr_faults faults = {
        .size = sizeof(faults),
        .node_kill = 0.00003,
        .node_pause = 0.0002,
        .clock_skew = 0.0005,
        .early_wake = 0.01,
        .pause_max = TR_SECONDS(15),
    };
    tr_sim_options options = {
        .size = sizeof(options),
        .faults = &faults,
        .nodes = NODES,
        .node = node,
        .begin = begin,
        .workload = workload,
        .invariant = invariant,
        .at_end = at_end,
        .quiet_time = TR_SECONDS(40),
    };

    return few_seeds(argc, argv, "6", &options);
}
