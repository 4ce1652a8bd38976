/*
 * member_own.c - the node's own record: joining, renewing, leaving, and what
 * the node does when its lease is lost.
 *
 * Invariants:
 * - act_until is at most t + lease, where t was read before the last renewal of
 *   this incarnation that has committed was sent.
 * - At most one CAS on the own record is on its way. After "unknown" the next
 *   one is sent only when a read that began later has shown the record.
 */
#include "cluster/membership/member_parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

tr_nanos tri_member_renewal_span(const tri_membership *it)
{
    return it->lease / TRI_LEASE_RENEWALS;
}

/* Adds a change to the CAS on the own record. */
static void add_change(tri_membership *it, uint64_t expected, size_t size)
{
    uint32_t i = it->own.op.change_count++;

    it->own_changes[i] =
        (tri_engine_change){it->own_keys[i], expected, it->own_values[i], size};
}

static void add_beat(tri_membership *it, size_t size)
{
    tri_rows_beat_key(&it->rows, it->own_keys[it->own.op.change_count],
                      it->self.slot);
    add_change(it, it->beat_revision, size);
}

static void add_record(tri_membership *it, size_t size)
{
    tri_rows_node_key(&it->rows, it->own_keys[it->own.op.change_count],
                      it->self.slot);
    add_change(it, it->record_revision, size);
}

static void begin_cas(tri_membership *it)
{
    it->own.op =
        (tri_engine_op){.call = TRI_ENGINE_CAS, .changes = it->own_changes};
}

/* Returns the record as it should be in this phase. */
static tri_member_record record_for(tri_membership *it, tri_member_phase phase)
{
    tri_member_record record = {.nonce = it->nonce,
                                .incarnation = it->self.incarnation,
                                .phase = phase,
                                .is_client = it->is_client};

    (void)snprintf(record.address, sizeof(record.address), "%s", it->address);
    tri_lock_take(&it->lock);
    (void)snprintf(record.kinds, sizeof(record.kinds), "%s", it->kinds);
    tri_lock_drop(&it->lock);
    return record;
}

/*
 * Returns the slot to join in: that of this node's incarnation before, if its
 * record is still there, so that its shards are free at once; else a free one.
 */
static uint32_t choose_slot(const tri_membership *it)
{
    const tri_member_row *row = &it->rows.members[it->self.slot];

    return it->nonce != 0 && row->record.incarnation != 0 &&
                   row->record.nonce == it->nonce
               ? it->self.slot
               : tri_rows_free_slot(&it->rows);
}

/* Returns false if there is no free slot. */
static bool send_create(tri_membership *it, tr_nanos now)
{
    uint32_t slot = choose_slot(it);

    if (slot == TRI_NODE_NONE) {
        tri_member_set_why(it, "all slots of the cluster are taken");
        return false;
    }
    do {
        it->nonce = it->world->ops->random(it->world);
    } while (it->nonce == 0);
    it->self = (tri_node){.slot = slot};
    it->beat = 1;
    it->beat_revision = it->rows.members[slot].beat_revision;
    it->record_revision = it->rows.members[slot].revision;
    it->sent_record = record_for(it, TRI_MEMBER_PHASE_JOINING);
    begin_cas(it);
    add_beat(it, tri_rows_write_beat(it->own_values[0], it->nonce, it->beat));
    add_record(it, tri_rows_write_record(it->own_values[1], &it->sent_record));
    if (it->rows.cluster == 0) {
        tri_rows_key(&it->rows, it->own_keys[2], "/table/cluster");
        add_change(it, 0, tri_rows_write_cluster(it->own_values[2]));
    }
    tri_member_task_submit(&it->own, now);
    return true;
}

static bool is_same_record(const tri_member_record *a,
                           const tri_member_record *b)
{
    return a->nonce == b->nonce && a->incarnation == b->incarnation &&
           a->phase == b->phase && strcmp(a->kinds, b->kinds) == 0;
}

/* Renews the lease, and writes the record if it has changed. */
static void send_renewal(tri_membership *it, bool leaves, tr_nanos now)
{
    it->beat++;
    it->sent_record =
        record_for(it, leaves ? TRI_MEMBER_PHASE_LEAVING : TRI_MEMBER_PHASE_UP);
    begin_cas(it);
    add_beat(it, tri_rows_write_beat(it->own_values[0], it->nonce, it->beat));
    if (!is_same_record(&it->sent_record, &it->written_record)) {
        add_record(it,
                   tri_rows_write_record(it->own_values[1], &it->sent_record));
    }
    tri_member_task_submit(&it->own, now);
}

static void send_remove(tri_membership *it, tr_nanos now)
{
    begin_cas(it);
    add_beat(it, 0);
    add_record(it, 0);
    tri_member_task_submit(&it->own, now);
}

/* Notes that the last CAS has committed as `revision`. */
static void note_commit(tri_membership *it, uint64_t revision)
{
    it->beat_revision = revision;
    if (it->own.op.change_count > 1) {
        it->record_revision = revision;
    }
    it->written_record = it->sent_record;
    it->lease_until = it->own.sent + it->lease;
    it->renew_due = it->own.sent + tri_member_renewal_span(it);
}

static void extend(tri_membership *it)
{
    // Release: pairs with tri_membership_may_act, whose caller also sees what
    // tri_membership_calls.up has told.
    atomic_store_explicit(&it->act_until, it->lease_until,
                          memory_order_release);
}

static void stop_acting(tri_membership *it)
{
    // Relaxed: see tri_membership_may_act.
    atomic_store_explicit(&it->act_until, 0, memory_order_relaxed);
}

static void forget_requests(tri_membership *it)
{
    tri_lock_take(&it->lock);
    memset(it->handed, 0, sizeof(it->handed));
    memset(it->raise, 0, sizeof(it->raise));
    it->has_requests = false;
    tri_lock_drop(&it->lock);
}

static void fence(tri_membership *it, tr_nanos now)
{
    stop_acting(it);
    it->own.is_stale = it->own.is_busy;
    it->is_cas_unknown = false;
    it->needs_read = true;
    it->renew_due = now;
    forget_requests(it);
    it->calls->fenced(it->user);
}

void tri_member_own_end(tri_membership *it)
{
    stop_acting(it);
    it->own.is_stale = it->own.is_busy;
    it->is_cas_unknown = false;
    it->calls->left(it->user);
}

/* Does what the step says. Returns the state that follows. */
static tri_member_state act(tri_membership *it, tri_member_step step,
                            tr_nanos now)
{
    switch (step.action) {
    case TRI_MEMBER_CREATE:
        return send_create(it, now) ? step.next : TRI_MEMBER_OUT;
    case TRI_MEMBER_RENEW:
        send_renewal(it, step.next == TRI_MEMBER_LEAVING, now);
        break;
    case TRI_MEMBER_REMOVE:
        send_remove(it, now);
        break;
    case TRI_MEMBER_READ:
        it->is_cas_unknown = true;
        it->needs_read = true;
        break;
    case TRI_MEMBER_BEGIN:
        it->renew_due = now;  // as "up", at once
        break;
    case TRI_MEMBER_EXTEND:
        extend(it);
        break;
    case TRI_MEMBER_RISE:
        it->calls->up(it->user, it->self);
        extend(it);  // after `up`: who sees the lease sees the incarnation
        break;
    case TRI_MEMBER_FENCE:
        fence(it, now);
        break;
    case TRI_MEMBER_END:
        tri_member_own_end(it);
        break;
    case TRI_MEMBER_NOTHING:
        break;
    }
    return step.next;
}

/*
 * Carries out what the event demands and then sets the new state, so that a
 * thread that waits for the state finds its work done.
 */
static void happen(tri_membership *it, tri_member_event event, tr_nanos now)
{
    tri_member_step step = tri_member_next(tri_member_state_of(it), event);

    tri_member_set_state(it, act(it, step, now));
}

/* A CAS has committed, as its answer or a later read says. */
static void on_commit(tri_membership *it, uint64_t revision, tr_nanos now)
{
    note_commit(it, revision);
    if (tri_member_state_of(it) == TRI_MEMBER_CREATING) {
        it->self.incarnation = revision;
    }
    happen(it, TRI_MEMBER_YES, now);
}

void tri_member_own_answered(tri_membership *it, tr_nanos now)
{
    tri_engine_op *op = &it->own.op;

    if (it->own.is_stale) {
        return;
    }
    if (op->answer == TRI_ENGINE_YES) {
        on_commit(it, op->revision, now);
    } else {
        happen(it,
               op->answer == TRI_ENGINE_NO ? TRI_MEMBER_NO : TRI_MEMBER_UNKNOWN,
               now);
    }
}

/*
 * The answer to the last CAS was "unknown". A read that began after that answer
 * shows whether the CAS was committed.
 */
void tri_member_own_resolve(tri_membership *it, tr_nanos now)
{
    const tri_member_row *row = &it->rows.members[it->self.slot];

    it->is_cas_unknown = false;
    if (row->record.incarnation == 0 || row->record.nonce != it->nonce) {
        happen(it, TRI_MEMBER_LOST, now);
        return;
    }
    bool is_there =
        row->beat == it->beat && tri_member_state_of(it) != TRI_MEMBER_REMOVING;
    if (is_there) {
        on_commit(it, row->beat_revision, now);
        return;
    }
    // An earlier CAS may have arrived late: go on from what is there.
    it->beat_revision = row->beat_revision;
    it->record_revision = row->revision;
    it->renew_due = now;
    happen(it, TRI_MEMBER_FOUND, now);
}

/*
 * The lease comes first: a renewal after the lease has ended would hide from
 * the others that this node was silent.
 */
void tri_member_own_step(tri_membership *it, tr_nanos now)
{
    tri_member_state state = tri_member_state_of(it);

    if (tri_member_has_lease(it) && now >= it->lease_until &&
        !tri_fence_is_broken(&it->fence_break, TRI_FENCE_BREAK_LEASE)) {
        happen(it, TRI_MEMBER_LATE, now);
        return;
    }
    if (it->own.is_busy || it->is_cas_unknown || !it->rows.is_read ||
        it->is_stopping) {
        return;
    }
    if (it->is_leaving && state <= TRI_MEMBER_UP) {
        it->leave_until = now + it->lease;
        happen(it, TRI_MEMBER_LEAVE, now);
    } else if (state == TRI_MEMBER_LEAVING &&
               (now >= it->leave_until || tri_member_is_empty(it))) {
        happen(it, TRI_MEMBER_EMPTY, now);
    } else if (now >= it->renew_due &&
               (state != TRI_MEMBER_OUT ||
                (!it->needs_read && !it->read.is_busy))) {
        it->renew_due = now + it->lease / TRI_LEASE_RETRIES;
        happen(it, TRI_MEMBER_TURN, now);
    }
}
