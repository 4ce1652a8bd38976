/*
 * membership.h - a node's place in its cluster: it joins, renews its lease,
 * sees who lives, and tells the bus.
 *
 * A membership runs on a thread of its own, never behind user code. It keeps a
 * record in the engine and renews it every lease / 6. The node may act for its
 * shards until `lease` after the last renewal that has committed, counted from
 * before that renewal was sent (tri_membership_may_act). Others declare the
 * node dead when they have seen its record unchanged for lease * 10 / 6 on
 * their own clocks. The argument is in docs/design/0015-membership.md.
 *
 * Locks: `lock` guards the fields of requests and the answers of the engine.
 * Callbacks come on the membership's thread, without a lock; they must not
 * block, and must not stop the membership.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_MEMBERSHIP_MEMBERSHIP_H
#define TRI_CLUSTER_MEMBERSHIP_MEMBERSHIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/world.h"
#include "cluster/engine/engine.h"
#include "cluster/membership/balance.h"
#include "cluster/membership/member_rows.h"
#include "cluster/membership/member_state.h"
#include "cluster/membership/view.h"
#include "cluster/virtual/fence_break.h"
#include "troupe/base.h"

#define TRI_LEASE_DEFAULT TR_SECONDS(6)
#define TRI_LEASE_MIN     TR_MS(60)

/* Parts of a lease. */
enum {
    TRI_LEASE_RENEWALS = 6,  // a renewal is sent every lease / 6
    TRI_LEASE_DEAD = 10,     // unchanged for lease * 10 / 6: dead
    TRI_LEASE_RETRIES = 24,  // after no answer: again after lease / 24
    TRI_LEASE_PATIENCE = 3,  // the next node plans after lease / 3
    TRI_LEASE_HINTS = 192,   // at most one hint in lease / 192
};

/* What the membership tells. `user` is that of the options. */
typedef struct tri_membership_calls {
    /* The node is up: from now on it may be given shards. */
    void (*up)(void *user, tri_node self);
    /* The table has changed. Revisions increase. The view is borrowed. */
    void (*view_changed)(void *user, tri_view *view);
    /* A node has left or is dead. Called before the first view without it. */
    void (*dead)(void *user, tri_node node);
    /*
     * The lease is lost: the node drops all activations before it returns.
     * Then it joins again, as another incarnation.
     */
    void (*fenced)(void *user);
    /* The node has left, or was refused; nothing follows. */
    void (*left)(void *user);
} tri_membership_calls;

typedef struct tri_membership_options {
    tri_world *world;
    tr_engine *engine;    // held until the membership is stopped
    const char *ns;       // namespace of the cluster
    const char *address;  // for other nodes; without spaces
    const char *kinds;    // that the node hosts; NULL: none
    bool is_client;       // never owns shards
    tr_nanos lease;       // 0: TRI_LEASE_DEFAULT
    const tri_membership_calls *calls;
    void *user;
} tri_membership_options;

/* An operation of the engine that the membership waits for. */
typedef struct tri_member_task {
    tri_engine_op op;
    struct tri_membership *owner;
    bool is_busy;      // submitted, and its answer not taken yet
    bool is_answered;  // under the lock
    bool is_stale;     // the answer is to be ignored
    tr_nanos sent;
} tri_member_task;

typedef struct tri_membership {
    tri_world *world;
    _Atomic(int64_t) act_until;   // see tri_membership_may_act; 0: may not
    tri_fence_break fence_break;  // of a test

    tr_engine *engine;
    tri_thread *thread;
    const tri_membership_calls *calls;
    void *user;
    tr_nanos lease;
    bool is_client;
    char address[TRI_MEMBER_ADDRESS_MAX];

    /* Requests, and the answers of the engine. */
    tri_lock lock;
    _Atomic(uint32_t) wakes;  // the thread parks on it
    bool wants_leave, wants_stop, wants_news;
    uint64_t wants_revision;           // of a view; 0: none
    char kinds[TRI_MEMBER_KINDS_MAX];  // to be written
    uint64_t handed[TRI_SHARDS / 64];  // bits: the bus has given them up
    uint64_t raise[TRI_SHARDS];        // epoch to be raised; 0: none
    bool has_requests;                 // a bit or an epoch may be set
    tri_view *view;                    // the newest; NULL: none yet
    char why[TRI_ROWS_TEXT_MAX];

    /* The own record; the thread's alone, but for `state`. */
    _Atomic(uint32_t) state;  // tri_member_state; waiters park on it
    tri_node self;            // incarnation 0: none yet
    uint64_t nonce, beat;
    uint64_t beat_revision, record_revision;
    tri_member_record sent_record;     // with the last CAS
    tri_member_record written_record;  // with the last that committed
    tr_nanos lease_until, renew_due;
    tr_nanos leave_until;  // a leaving node waits for its shards till then
    bool is_cas_unknown;   // the last CAS is looked for in a new read
    bool is_leaving, is_stopping;  // copies of what was asked for
    bool is_refused;               // the engine has rows of another version

    /* The copy of the rows. */
    tri_rows rows;
    tr_nanos table_changed;         // when the copy of the table last changed
    tr_nanos read_due, read_retry;  // at the latest, and not before
    bool needs_read;
    bool read_resolves;  // the read on its way began after the answer
    uint64_t published;  // revision of the newest view that was told
    uint64_t balanced;   // revision of the table whose plan was empty

    tri_member_task own, read, write, watch;
    tri_engine_change own_changes[3];
    char own_keys[3][TRI_ROWS_KEY_MAX];
    char own_values[3][TRI_ROWS_VALUE_MAX];
    char prefix[TRI_ROWS_KEY_MAX], table_prefix[TRI_ROWS_KEY_MAX];
    tri_engine_change changes[TRI_ENGINE_CHANGES_MAX];
    tri_move moves[TRI_ENGINE_CHANGES_MAX];
    uint32_t requests_sent;  // moves that the bus has asked for
    char keys[TRI_ENGINE_CHANGES_MAX][TRI_ROWS_KEY_MAX];
    char values[TRI_ENGINE_CHANGES_MAX][TRI_ROWS_NUMBERS_MAX];
} tri_membership;

/*
 * Starts the membership of a node, which begins to join. The caller owns it.
 * Errors: TR_ENOMEM, TR_ELIMIT (no more threads), TR_EINVAL (an option).
 */
TR_NODISCARD tr_err tri_membership_start(tri_membership **out,
                                         const tri_membership_options *options);
/*
 * Waits until the node is up. Errors: TR_ETIMEDOUT, TR_EINVAL (refused or left):
 * tri_membership_why has a text.
 */
TR_NODISCARD tr_err tri_membership_wait_up(tri_membership *it,
                                           tr_nanos timeout);
/* Copies the last reason why the node was not up; may be empty. */
void tri_membership_why(tri_membership *it, char *out, size_t size);
/*
 * Begins to leave: the shards go to others, then the record is removed, and
 * `left` is called. After `lease` the record is removed, whatever is left.
 */
void tri_membership_leave(tri_membership *it);
/* Waits until the node has left. Errors: TR_ETIMEDOUT. */
TR_NODISCARD tr_err tri_membership_wait_left(tri_membership *it,
                                             tr_nanos timeout);
/*
 * Ends the thread, once; no callback comes after that. A node that has not left
 * stays in the engine until others declare it dead.
 */
void tri_membership_stop(tri_membership *it);
/* Stops and frees the membership; NULL is allowed. */
void tri_membership_free(tri_membership *it);
/* Has the thread call `up` and `view_changed` again, with what is known now. */
void tri_membership_tell_again(tri_membership *it);

/* Changes the kinds that the node hosts. Errors: TR_ELIMIT (too long). */
TR_NODISCARD tr_err tri_membership_set_kinds(tri_membership *it,
                                             const char *kinds);
/*
 * Tells that a view of this revision exists: the engine is read at once, if
 * the own view is older.
 */
void tri_membership_refresh(tri_membership *it, uint64_t revision);
/*
 * Tells that the node serves the shard no more: it goes to the node that the
 * view names as next, with the next epoch. If there is no such node any more,
 * the shard stays; its next epoch tells that the node serves it again.
 */
void tri_membership_handed_over(tri_membership *it, uint32_t shard);
/*
 * Raises the epoch of a shard of this node, from `epoch`; the owner stays. If
 * the epoch is higher already, nothing happens.
 */
void tri_membership_raise_epoch(tri_membership *it, uint32_t shard,
                                uint64_t epoch);
/* Returns the newest view, held for the caller; NULL: none yet. */
tri_view *tri_membership_view(tri_membership *it);

static inline tri_member_state tri_membership_state(tri_membership *it)
{
    // Acquire: pairs with the release in tri_member_set_state.
    return (tri_member_state)atomic_load_explicit(&it->state,
                                                  memory_order_acquire);
}

/* The clock of leases. A node that was suspended must see that time passed. */
static inline tr_nanos tri_membership_clock(tri_world *world)
{
    return world->ops->boottime(world);
}

/*
 * Returns true if the node has its lease. Called before a message is handed to
 * a virtual actor and before each write; a few nanoseconds and the clock.
 */
static inline bool tri_membership_may_act(tri_membership *it)
{
    // Acquire: pairs with the renewal in member_own.c. An older value is an
    // earlier end, or one that this clock has passed when it matters.
    return tri_membership_clock(it->world) <
           atomic_load_explicit(&it->act_until, memory_order_acquire);
}

#endif
