/*
 * cluster_node.c - makes a system a node, passes news between its membership
 * and its bus, and ends both.
 *
 * The membership begins first: its first incarnation is what the bus joins as.
 * Its news before that are not lost: when the bus is there, the membership is
 * asked to tell them again. So the bus hears of nodes and views from one
 * thread alone, in their order.
 */
#include "cluster/join/cluster_node.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/world.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/bus_join.h"
#include "cluster/join/member_news.h"
#include "cluster/transport/connections.h"
#include "cluster/virtual/kind.h"
#include "core/ask/error_text.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "system/poll.h"
#include "system/system_log.h"
#include "troupe/observe.h"

#define SCHEME "tcp://"

tri_cluster_node *tri_cluster_node_of(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    // Acquire: pairs with tri_cluster_node_open.
    return cluster != NULL
               ? atomic_load_explicit(&cluster->node, memory_order_acquire)
               : NULL;
}

tri_node tri_cluster_node_self(tri_cluster_node *it)
{
    tri_lock_take(&it->lock);
    tri_node self = it->self;
    tri_lock_drop(&it->lock);
    return self;
}

/* ---- what the membership tells, on its thread ---- */

/* Notes which node this is. Returns true if the bus is told of news. */
static bool note_self(tri_cluster_node *it, tri_node self)
{
    tri_lock_take(&it->lock);
    it->self = self;
    bool has_bus = it->has_bus;
    tri_lock_drop(&it->lock);
    return has_bus;
}

static bool has_bus(tri_cluster_node *it)
{
    tri_lock_take(&it->lock);
    bool has = it->has_bus;
    tri_lock_drop(&it->lock);
    return has;
}

static void on_up(void *user, tri_node self)
{
    TRI_CHECK(self.incarnation != 0);
    tri_cluster_node *it = user;
    if (note_self(it, self) && !tri_node_is(self, it->of_bus)) {
        it->of_bus = self;
        tri_bus_set_node(it->sys, self);
    }
}

static void on_view(void *user, tri_view *view)
{
    tri_cluster_node *it = user;
    tri_member_news(it->sys, it->told, view, tri_cluster_node_self(it));
    tri_view_drop(it->told);
    it->told = tri_view_hold(view);
    if (has_bus(it)) {
        tri_bus_set_view(it->sys, tri_view_hold(view));
    }
}

static void on_dead(void *user, tri_node node)
{
    (void)user;  // the view that follows says it
    (void)node;
}

static void on_fenced(void *user)
{
    tri_cluster_node *it = user;
    tri_node before = tri_cluster_node_self(it);
    tri_logf(it->sys, TR_LOG_WARN, NULL, NULL,
             "this node has lost its lease: the engine was not reached for "
             "%lld ms; it drops its virtual actors and joins again",
             (long long)(it->lease / TR_MS(1)));
    tri_member_news_lost(it->sys, before);
    if (note_self(it, (tri_node){0})) {
        it->of_bus = (tri_node){0};
        tri_bus_set_node(it->sys, (tri_node){0});
    }
}

static void on_left(void *user)
{
    (void)note_self(user, (tri_node){0});
}

static const tri_membership_calls membership_calls = {.up = on_up,
                                                      .view_changed = on_view,
                                                      .dead = on_dead,
                                                      .fenced = on_fenced,
                                                      .left = on_left};

/* ---- what the bus asks ---- */

static void on_handed_over(void *user, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_membership_handed_over(((tri_cluster_node *)user)->membership, shard);
}

static void on_raise_epoch(void *user, uint32_t shard, uint64_t epoch)
{
    tri_cluster_node *it = user;
    TRI_CHECK(shard < TRI_SHARDS);
    tri_membership_raise_epoch(it->membership, shard, epoch);
}

static void on_refresh(void *user, uint64_t revision)
{
    tri_membership_refresh(((tri_cluster_node *)user)->membership, revision);
}

static bool on_may_act(void *user)
{
    return tri_membership_may_act(((tri_cluster_node *)user)->membership);
}

/* Writes the kinds that this node hosts, as far as there is room. */
static void write_kinds(tri_cluster *cluster, char *out, size_t size)
{
    TRI_CHECK(size > 0);
    tri_text text;
    tri_text_init(&text, out, size);
    tri_kind *first = tri_kind_first(cluster);
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        tri_text_add(&text, "%s%s", kind == first ? "" : ",", kind->name);
    }
}

static void on_kinds_changed(void *user)
{
    tri_cluster_node *it = user;
    char kinds[TRI_MEMBER_KINDS_MAX];
    write_kinds(it->cluster, kinds, sizeof(kinds));
    tr_err err = tri_membership_set_kinds(it->membership, kinds);
    TRI_CHECK(err == TR_OK);  // it fits
}

static const tri_bus_up bus_up = {.handed_over = on_handed_over,
                                  .raise_epoch = on_raise_epoch,
                                  .refresh = on_refresh,
                                  .may_act = on_may_act,
                                  .kinds_changed = on_kinds_changed};

/* ---- joining ---- */

static tr_err start_membership(tri_cluster_node *it,
                               const tri_cluster_node_options *o,
                               const char *address)
{
    TRI_CHECK(it->membership == NULL && address != NULL);
    char kinds[TRI_MEMBER_KINDS_MAX];
    write_kinds(it->cluster, kinds, sizeof(kinds));
    tr_err err = tri_membership_start(
        &it->membership, &(tri_membership_options){.world = it->sys->world,
                                                   .engine = o->engine,
                                                   .ns = it->cluster->ns,
                                                   .address = address,
                                                   .kinds = kinds,
                                                   .is_client = o->is_client,
                                                   .lease = o->lease,
                                                   .calls = &membership_calls,
                                                   .user = it});
    if (err != TR_OK) {
        tri_error_set(NULL, "cannot join: %s%s", tr_strerror(err),
                      err == TR_EINVAL
                          ? ": .lease is below 60 ms, or .advertise is not an "
                            "address"
                          : "");
    }
    return err;
}

static tr_err await_up(tri_cluster_node *it, tr_nanos timeout)
{
    TRI_CHECK(timeout > 0);
    tr_err err = tri_membership_wait_up(it->membership, timeout);
    char why[TRI_ROWS_TEXT_MAX];
    if (err == TR_OK) {
        return TR_OK;
    }
    tri_membership_why(it->membership, why, sizeof(why));
    tri_error_set(NULL, "cannot join: %s%s",
                  why[0] != '\0' ? why : "the engine has not answered",
                  err == TR_ETIMEDOUT ? "; is the engine reachable, and the "
                                        "same for all nodes?"
                                      : "");
    return err;
}

static tr_err join_bus(tri_cluster_node *it, const char *address)
{
    tri_node self = tri_cluster_node_self(it);
    TRI_CHECK(self.incarnation != 0);
    TR_TRY(tri_bus_join(it->sys, &(tri_bus_options){.transport = it->transport,
                                                    .up = &bus_up,
                                                    .up_user = it,
                                                    .node = self,
                                                    .address = address}));
    it->of_bus = self;
    tri_lock_take(&it->lock);
    it->has_bus = true;
    tri_lock_drop(&it->lock);
    tri_membership_tell_again(it->membership);
    return TR_OK;
}

/* Joins; what was made stays in *it, whatever the result. */
static tr_err join(tri_cluster_node *it, const tri_cluster_node_options *o)
{
    char bound[TRI_STREAM_ADDRESS_MAX];
    tr_err err = tri_connections_open(&it->transport, it->sys, it->cluster->ns,
                                      o->listen, bound);
    if (err != TR_OK) {
        tri_error_set(NULL, "cannot listen at %s: %s", o->listen,
                      err == TR_EEXIST ? "the address is in use"
                                       : tr_strerror(err));
        return err;
    }
    TRI_CHECK(strncmp(bound, SCHEME, strlen(SCHEME)) == 0);
    const char *address =
        o->advertise != NULL ? o->advertise : bound + strlen(SCHEME);
    TR_TRY(start_membership(it, o, address));
    TR_TRY(await_up(it, o->timeout));
    return join_bus(it, address);
}

static void node_free(tri_cluster_node *it)
{
    tri_membership_free(it->membership);
    tri_connections_free(it->transport);
    tri_view_drop(it->told);
    free(it);
}

/* Leaves again after a join that failed. */
static void undo(tri_cluster_node *it)
{
    if (it->membership != NULL) {
        tri_membership_leave(it->membership);
        tr_err late = tri_membership_wait_left(it->membership, it->lease);
        (void)late;  // then others declare the record dead
    }
    node_free(it);
}

tr_err tri_cluster_node_open(tri_cluster *cluster,
                             const tri_cluster_node_options *o)
{
    TRI_CHECK(o->engine != NULL && o->listen != NULL);
    tri_cluster_node *none = NULL,
                     *it = tri_mem_calloc(&cluster->sys->mem, sizeof(*it));
    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->sys = cluster->sys;
    it->cluster = cluster;
    it->lease = o->lease != 0 ? o->lease : TRI_LEASE_DEFAULT;
    tr_err err = join(it, o);
    // Release: publishes the node; pairs with tri_cluster_node_of.
    if (err == TR_OK && !atomic_compare_exchange_strong_explicit(
                            &cluster->node, &none, it, memory_order_release,
                            memory_order_relaxed)) {
        err = TR_EEXIST;
    }
    if (err != TR_OK) {
        undo(it);
    }
    return err;
}

/* ---- leaving ---- */

/* True if another node could take what this one has. */
static bool has_heir(tri_cluster_node *it)
{
    TRI_CHECK(it->membership != NULL);
    tri_view *view = tri_membership_view(it->membership);
    tri_node self = tri_cluster_node_self(it);
    bool has = false;
    for (uint32_t i = 0; view != NULL && i < view->slots; i++) {
        const tri_member *member = &view->members[i];
        has |= i != self.slot && member->incarnation != 0 &&
               !member->is_leaving && !member->is_client;
    }
    tri_view_drop(view);
    return has;
}

/* Leaves, and waits for it. Drives a polled system meanwhile. */
static void leave_by(tri_cluster_node *it, tr_nanos deadline)
{
    tri_world *world = it->sys->world;
    tri_membership *m = it->membership;
    tri_membership_leave(m);
    for (;;) {
        tri_member_state state = tri_membership_state(m);
        tr_nanos now = world->ops->mono(world);
        if (state == TRI_MEMBER_LEFT || now >= deadline) {
            return;
        }
        tri_drive_or_park(it->sys, &m->state, state, deadline - now);
    }
}

void tri_cluster_node_hand_over(tr_system *sys, tr_nanos deadline)
{
    tri_cluster_node *it = tri_cluster_node_of(sys);
    if (it != NULL && has_heir(it)) {
        leave_by(it, deadline);
    }
}

void tri_cluster_node_leave(tr_system *sys, tr_nanos deadline)
{
    tri_cluster_node *it = tri_cluster_node_of(sys);
    if (it != NULL) {
        leave_by(it, deadline);
    }
}

void tri_cluster_node_stop(tri_cluster *cluster)
{
    tri_cluster_node *it = tri_cluster_node_of(cluster->sys);
    if (it != NULL) {
        tri_membership_stop(it->membership);
    }
}

void tri_cluster_node_free(tri_cluster *cluster)
{
    tri_cluster_node *it = tri_cluster_node_of(cluster->sys);
    if (it != NULL) {
        node_free(it);
        // Relaxed: no other thread is left.
        atomic_store_explicit(&cluster->node, NULL, memory_order_relaxed);
    }
}
