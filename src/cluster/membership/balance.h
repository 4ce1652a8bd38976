/*
 * balance.h - which shards should change their owner.
 *
 * A shard without a live owner is given to a node at once. A shard of a live
 * owner is never taken away, because the owner answers reads from memory and
 * would not know: the plan only names the node that shall have it next, and
 * the owner gives it up by itself.
 *
 * The plan is a function of the rows alone: all nodes with the same rows make
 * the same plan, and a plan that has been carried out is followed by an empty
 * one.
 */
#ifndef TRI_CLUSTER_MEMBERSHIP_BALANCE_H
#define TRI_CLUSTER_MEMBERSHIP_BALANCE_H

#include <stdint.h>

#include "cluster/membership/member_rows.h"

/* One shard, and its row to be. */
typedef struct tri_move {
    uint32_t shard;
    tri_shard_owner owner;
} tri_move;

/*
 * Plans up to `max` moves and returns how many. With no node that may own
 * shards there are none.
 */
uint32_t tri_balance(const tri_rows *rows, tri_move *out, uint32_t max);

#endif
