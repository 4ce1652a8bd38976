/*
 * bus_join.c - a system joins a namespace; what the bus leaves at its end.
 *
 * Invariant: there is a bus from tri_bus_join on, which comes before the first
 * virtual actor is active, until the memory of the system is freed. Its actor
 * ends earlier; `closed` says so.
 */
#include "cluster/bus_peer.h"

#include <stdio.h>

#include "base/hash.h"
#include "cluster/node.h"

static tr_err refuse(const char *why)
{
    tri_error_set(NULL, "cannot join: %s", why);
    return TR_EINVAL;
}

/* Before anybody looks: a node that is back must not act by the first view. */
static void set_owners(tri_cluster *cluster, const tri_bus_options *o)
{
    cluster->here = o->node;
    tri_directory_set_life(&cluster->directory, o->node, o->life);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        cluster->directory.shards[i].owner = i % o->nodes;
    }
    for (uint32_t i = 0; i < o->view_count; i++) {
        const tri_bus_view *view = &o->views[i];
        (void)tri_shard_set(&cluster->directory, view->shard, view->owner,
                            view->epoch);
    }
}

/* Who is an owner by a later view than the first waits for claims. */
static void await_claims(tri_bus *bus, const tri_bus_options *o)
{
    tr_nanos now = bus->sys->world->ops->mono(bus->sys->world);
    for (uint32_t i = 0; i < o->view_count; i++) {
        const tri_bus_view *view = &o->views[i];
        if (view->owner == o->node && view->epoch > 1) {
            bus->handover[view->shard].missing =
                (UINT64_MAX >> (64 - o->nodes)) & ~(UINT64_C(1) << o->node);
            bus->handover[view->shard].until = now + TRI_HANDOVER;
        }
    }
}

static bool are_views(const tri_bus_options *o)
{
    for (uint32_t i = 0; i < o->view_count; i++) {
        if (o->views[i].shard >= TRI_SHARDS || o->views[i].owner >= o->nodes) {
            return false;
        }
    }
    return true;
}

static tri_bus *bus_new(tri_cluster *cluster, const tri_bus_options *o)
{
    tr_system *sys = cluster->sys;
    tri_bus *bus = tri_mem_calloc(&sys->mem, sizeof(*bus));
    if (bus == NULL) {
        return NULL;
    }
    bus->handover =
        tri_mem_calloc(&sys->mem, TRI_SHARDS * sizeof(*bus->handover));
    if (bus->handover == NULL) {
        free(bus);
        return NULL;
    }
    bus->cluster = cluster;
    bus->sys = sys;
    bus->transport = o->transport;
    bus->here = o->node;
    bus->nodes = o->nodes;
    bus->life = o->life;
    // An answer to an earlier life of this node may come to this one. Numbers
    // begin where no life gets to that begins elsewhere.
    bus->next_number = tri_hash_mix(o->life);
    bus->timer_due = TR_FOREVER;
    snprintf(bus->address, sizeof(bus->address), "%s",
             o->address != NULL ? o->address : "");
    tri_bus_kinds_init(bus);
    tri_map_init(&bus->asked, NULL, NULL);
    tri_map_init(&bus->calls, NULL, NULL);
    tri_map_init(&bus->heard, NULL, NULL);
    tri_wheel_init(&bus->wheel, sys->world->ops->mono(sys->world));
    return bus;
}

static tr_err join(tri_actor_from *who, const tri_bus_options *o)
{
    tri_cluster *cluster;
    TR_TRY(tri_cluster_get(who, &cluster));
    // Relaxed: a look before anybody uses it.
    if (atomic_load_explicit(&cluster->activations, memory_order_relaxed) > 0) {
        return refuse("virtual actors have been active already");
    }
    if (tri_bus_of(cluster) != NULL) {
        return TR_EEXIST;
    }
    tri_bus *bus = bus_new(cluster, o);
    if (bus == NULL) {
        return TR_ENOMEM;
    }
    set_owners(cluster, o);
    await_claims(bus, o);
    bus->self = tri_bus_spawn(who, bus);
    if (bus->self.cell == 0) {
        tr_err err = tr_ref_err(bus->self);
        free(bus->handover);
        free(bus);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    // Release: publishes it; pairs with tri_bus_of.
    atomic_store_explicit(&cluster->bus, bus, memory_order_release);
    return TR_OK;
}

tr_err tri_bus_join(tr_system *sys, const tri_bus_options *o)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_node_id id;
    const char *why;
    if (o->transport == NULL || o->life == 0 || o->nodes == 0 ||
        o->nodes > TRI_DIRECTORY_NODES || o->node >= o->nodes) {
        return refuse("no transport, no incarnation, or no such node");
    }
    if (!are_views(o)) {
        return refuse("a view names a shard or a node that there is not");
    }
    if (o->address != NULL && tri_node_parse(&id, o->address, &why) != TR_OK) {
        return refuse(why);
    }
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tr_err err = join(&who, o);
    tri_leave(&who);
    return err;
}

/* ---- the end ---- */

/* A system that was abandoned leaves all of it behind. */
void tri_bus_free(tri_cluster *cluster)
{
    tri_bus *bus = tri_bus_of(cluster);
    if (bus == NULL) {
        return;
    }
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .sys = bus->sys,
                  .quick_tag = TRI_NO_TAG,
                  .worker = bus->sys->outside};
    bus->ctx = &ctx;
    bus->closed = true;
    void *value;
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (value = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        tri_msg_free(&ctx.worker->cache, ((tri_call *)value)->msg);
        free(value);
    }
    tri_map_fini(&bus->calls);
    for (tri_map_iter it = tri_map_iter_begin(&bus->heard);
         (value = tri_map_iter_next(&bus->heard, &it)) != NULL;) {
        free(value);
    }
    tri_map_fini(&bus->heard);
    while (bus->owed != NULL) {
        tri_heard *next = bus->owed->next;
        free(bus->owed);
        bus->owed = next;
    }
    for (uint32_t i = 0; i < TRI_DIRECTORY_NODES; i++) {
        tri_bus_peer_free(bus->peers[i]);
    }
    while (bus->routes != NULL) {
        tri_route *r = bus->routes;
        bus->routes = r->next;
        while (r->first != NULL) {
            tri_parcel *p = r->first;
            r->first = p->next;
            tri_parcel_free(bus, p);
        }
        while (r->watches != NULL) {
            tri_watch *watch = r->watches;
            r->watches = watch->next;
            free(watch);
        }
        r->v->route = NULL;
        free(r);
    }
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (value = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        free(value);
    }
    tri_map_fini(&bus->kinds);
    tri_map_fini(&bus->asked);
    free(bus->handover);
    free(bus);
    // Relaxed: nobody else is there any more.
    atomic_store_explicit(&cluster->bus, NULL, memory_order_relaxed);
}
