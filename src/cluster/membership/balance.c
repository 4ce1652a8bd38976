/*
 * balance.c - gives every shard to a node, so that the counts of two nodes
 * differ by one at most.
 *
 * A shard counts for the node that will have it: `next` if that is set, else
 * its owner.
 */
#include "cluster/membership/balance.h"

#include <string.h>

#include "base/check.h"

typedef struct plan {
    const tri_rows *rows;
    tri_move *out;
    uint32_t count, max;
    uint32_t load[TRI_NODES_MAX];  // shards that the slot will have
    uint32_t goal[TRI_SHARDS];     // slot that will have the shard
} plan;

/* Returns the slot with the fewest shards, the lowest of several. */
static uint32_t least_loaded(const plan *it)
{
    uint32_t least = TRI_NODE_NONE;

    for (uint32_t i = 0; i < it->rows->slots; i++) {
        if (tri_rows_is_eligible(it->rows, i) &&
            (least == TRI_NODE_NONE || it->load[i] < it->load[least])) {
            least = i;
        }
    }
    return least;
}

static uint32_t most_loaded(const plan *it)
{
    uint32_t most = TRI_NODE_NONE;

    for (uint32_t i = 0; i < it->rows->slots; i++) {
        if (tri_rows_is_eligible(it->rows, i) &&
            (most == TRI_NODE_NONE || it->load[i] > it->load[most])) {
            most = i;
        }
    }
    return most;
}

/* Plans that the slot will have the shard. */
static void move(plan *it, uint32_t shard, uint32_t slot)
{
    tri_shard_owner owner = it->rows->shards[shard].owner;

    TRI_CHECK(it->count < it->max);
    if (!tri_rows_is_live(it->rows, owner.node)) {
        owner.node =
            (tri_node){slot, it->rows->members[slot].record.incarnation};
        owner.epoch++;
        owner.next = TRI_NODE_NONE;
    } else {
        owner.next = slot != owner.node.slot ? slot : TRI_NODE_NONE;
    }
    it->out[it->count++] = (tri_move){shard, owner};
    it->goal[shard] = slot;
    it->load[slot]++;
}

/* Returns the slot that will have the shard if nothing is planned. */
static uint32_t goal_of(const tri_rows *rows, uint32_t shard)
{
    const tri_shard_owner *owner = &rows->shards[shard].owner;

    if (!tri_rows_is_live(rows, owner->node)) {
        return TRI_NODE_NONE;
    }
    uint32_t slot =
        owner->next != TRI_NODE_NONE ? owner->next : owner->node.slot;
    return tri_rows_is_eligible(rows, slot) ? slot : TRI_NODE_NONE;
}

/* Counts what every slot will have. */
static void count_loads(plan *it)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        it->goal[i] = goal_of(it->rows, i);
        if (it->goal[i] != TRI_NODE_NONE) {
            it->load[it->goal[i]]++;
        }
    }
}

/* Moves shards of the fullest nodes to the emptiest ones. */
static void level(plan *it)
{
    while (it->count < it->max) {
        uint32_t from = most_loaded(it), to = least_loaded(it);
        if (it->load[from] - it->load[to] <= 1) {
            return;
        }
        // A shard that is on its way already is left alone: its owner may be
        // about to give it up.
        uint32_t shard = 0;
        for (; shard < TRI_SHARDS; shard++) {
            const tri_shard_owner *owner = &it->rows->shards[shard].owner;
            if (it->goal[shard] == from && owner->node.slot == from &&
                owner->next == TRI_NODE_NONE &&
                tri_rows_is_live(it->rows, owner->node)) {
                break;
            }
        }
        if (shard == TRI_SHARDS) {
            return;  // what is too much comes from others
        }
        it->load[from]--;
        move(it, shard, to);
    }
}

uint32_t tri_balance(const tri_rows *rows, tri_move *out, uint32_t max)
{
    plan it;

    TRI_CHECK(max > 0);
    memset(&it, 0, sizeof(it));
    it.rows = rows;
    it.out = out;
    it.max = max;
    if (least_loaded(&it) == TRI_NODE_NONE) {
        return 0;
    }
    count_loads(&it);
    for (uint32_t i = 0; i < TRI_SHARDS && it.count < max; i++) {
        if (it.goal[i] == TRI_NODE_NONE) {
            move(&it, i, least_loaded(&it));
        }
    }
    level(&it);
    return it.count;
}
