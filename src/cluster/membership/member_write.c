/*
 * member_write.c - what a node writes about others and about shards: deaths,
 * owners, hand-overs and epochs.
 *
 * Every write is a CAS over the revisions of the copy, and the next one is
 * planned only after a read that began after its answer. So two nodes may plan
 * at the same time, and a CAS may arrive late: one of them commits, the other
 * is refused.
 */
#include <string.h>

#include "base/check.h"
#include "cluster/membership/member_parts.h"

/* Adds a change of a row of the table to the CAS. */
static void add_change(tri_membership *it, uint64_t expected, size_t size)
{
    uint32_t i = it->write.op.change_count++;

    TRI_CHECK(i < TRI_ENGINE_CHANGES_MAX);
    it->changes[i] =
        (tri_engine_change){it->keys[i], expected, it->values[i], size};
}

/* Declares one suspect dead: its record is emptied, if it is still as seen. */
static void plan_death(tri_membership *it)
{
    for (uint32_t i = 0; i < it->rows.slots; i++) {
        const tri_member_row *row = &it->rows.members[i];
        if (!row->is_suspect || i == it->self.slot) {
            continue;
        }
        tri_rows_beat_key(&it->rows, it->keys[0], i);
        add_change(it, row->beat_revision, 0);
        tri_rows_node_key(&it->rows, it->keys[1], i);
        add_change(it, row->revision, 0);
        return;
    }
}

static void add_move(tri_membership *it, const tri_move *move)
{
    uint32_t i = it->write.op.change_count;
    char value[TRI_ROWS_VALUE_MAX];
    size_t size = tri_rows_write_shard(value, &move->owner);

    TRI_CHECK(size < sizeof(it->values[i]));
    memcpy(it->values[i], value, size);
    tri_rows_shard_key(&it->rows, it->keys[i], move->shard);
    add_change(it, it->rows.shards[move->shard].revision, size);
}

static bool is_mine(const tri_membership *it, uint32_t shard)
{
    return tri_node_is(it->rows.shards[shard].owner.node, it->self);
}

/* ---- what the bus asks for ---- */

/* Returns the row of a shard that this node gives up. */
static tri_shard_owner handed_over(const tri_membership *it, uint32_t shard)
{
    tri_shard_owner owner = it->rows.shards[shard].owner;

    // If the next node has gone, the shard stays; its epoch still rises.
    if (tri_rows_is_eligible(&it->rows, owner.next)) {
        owner.node = (tri_node){
            owner.next, it->rows.members[owner.next].record.incarnation};
    }
    owner.next = TRI_NODE_NONE;
    owner.epoch++;
    return owner;
}

/*
 * Returns true if the bus wants the row of this shard changed, and sets *out
 * to the row. Forgets requests that the rows show to be fulfilled. The lock is
 * held.
 */
static bool is_asked_for(tri_membership *it, uint32_t shard,
                         tri_shard_owner *out)
{
    const tri_shard_owner *owner = &it->rows.shards[shard].owner;
    uint64_t bit = UINT64_C(1) << (shard % 64);

    tri_lock_assert_held(&it->lock);
    if (!is_mine(it, shard)) {
        it->handed[shard / 64] &= ~bit;
    }
    if (!is_mine(it, shard) || owner->epoch >= it->raise[shard]) {
        it->raise[shard] = 0;
    }
    if ((it->handed[shard / 64] & bit) != 0) {
        *out = handed_over(it, shard);
        return true;
    }
    if (it->raise[shard] != 0) {
        *out = *owner;
        out->epoch = it->raise[shard];
        return true;
    }
    return false;
}

static void plan_requests(tri_membership *it)
{
    uint32_t count = 0;

    tri_lock_take(&it->lock);
    for (uint32_t i = 0;
         i < TRI_SHARDS && count < TRI_ENGINE_CHANGES_MAX && it->has_requests;
         i++) {
        if (is_asked_for(it, i, &it->moves[count].owner)) {
            it->moves[count++].shard = i;
        }
    }
    it->has_requests = count > 0;
    tri_lock_drop(&it->lock);
    it->requests_sent = count;
    for (uint32_t i = 0; i < count; i++) {
        add_move(it, &it->moves[i]);
    }
}

/*
 * Forgets the hand-overs that have committed. Without an answer they stay: the
 * rows show that the shard has gone, or the epoch of a shard that has stayed
 * rises once more.
 */
static void forget_sent(tri_membership *it)
{
    tri_lock_take(&it->lock);
    for (uint32_t i = 0; i < it->requests_sent; i++) {
        uint32_t shard = it->moves[i].shard;
        it->handed[shard / 64] &= ~(UINT64_C(1) << (shard % 64));
    }
    tri_lock_drop(&it->lock);
}

/* ---- balance ---- */

/* Returns how many nodes have lower slots and could plan as well. */
static uint32_t rank_of(const tri_membership *it)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < it->self.slot && i < it->rows.slots; i++) {
        tri_node node = {i, it->rows.members[i].record.incarnation};
        rank += tri_rows_is_live(&it->rows, node) &&
                !it->rows.members[i].record.is_client &&
                !it->rows.members[i].is_suspect;
    }
    return rank;
}

/*
 * Returns the epoch of a shard that the engine knows nothing of. If the table
 * was lost, stores still have the fences of earlier epochs: by the time of day
 * in ms a new table begins above them, for no shard moves once in a ms. What is
 * fenced never depends on a clock; later epochs count up from here.
 */
static uint64_t first_epoch(tri_membership *it)
{
    tr_nanos wall = it->world->ops->wall(it->world);

    return wall >= TR_MS(1) ? (uint64_t)(wall / TR_MS(1)) : 1;
}

/*
 * The lowest slot plans. The others plan only if the table stays as it is for
 * some time, the next slot first: they would all write the same.
 */
static void plan_balance(tri_membership *it, tr_nanos now)
{
    tr_nanos patience = it->lease / TRI_LEASE_PATIENCE * rank_of(it);

    if (it->is_client || it->balanced == it->rows.table_revision ||
        now < it->table_changed + patience) {
        return;
    }
    uint32_t count = tri_balance(&it->rows, it->moves, TRI_ENGINE_CHANGES_MAX);
    if (count == 0) {
        it->balanced = it->rows.table_revision;
    }
    for (uint32_t i = 0; i < count; i++) {
        tri_move *move = &it->moves[i];
        if (it->rows.shards[move->shard].owner.epoch == 0) {
            move->owner.epoch = first_epoch(it);
        }
        add_move(it, move);
    }
}

/* ---- steps ---- */

void tri_member_write_step(tri_membership *it, tr_nanos now)
{
    tri_member_state state = tri_membership_state(it);

    if ((state != TRI_MEMBER_UP && state != TRI_MEMBER_LEAVING) ||
        it->write.is_busy || it->needs_read || it->read.is_busy ||
        it->is_stopping || now >= it->lease_until) {
        return;
    }
    it->write.op =
        (tri_engine_op){.call = TRI_ENGINE_CAS, .changes = it->changes};
    it->requests_sent = 0;
    plan_death(it);
    if (it->write.op.change_count == 0) {
        plan_requests(it);
    }
    if (it->write.op.change_count == 0) {
        plan_balance(it, now);
    }
    if (it->write.op.change_count > 0) {
        tri_member_task_submit(&it->write, now);
    }
}

void tri_member_write_answered(tri_membership *it)
{
    if (it->write.op.answer == TRI_ENGINE_YES) {
        forget_sent(it);
    }
    it->needs_read = true;
}

bool tri_member_is_empty(const tri_membership *it)
{
    bool has_heir = false;

    if (it->written_record.phase != TRI_MEMBER_PHASE_LEAVING ||
        it->needs_read || it->read.is_busy) {
        return false;  // shards may still be given to us
    }
    for (uint32_t i = 0; i < it->rows.slots; i++) {
        has_heir |= i != it->self.slot && tri_rows_is_eligible(&it->rows, i);
    }
    for (uint32_t i = 0; has_heir && i < TRI_SHARDS; i++) {
        if (is_mine(it, i)) {
            return false;
        }
    }
    return true;
}
