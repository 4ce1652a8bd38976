/*
 * mesh.c - several systems that are nodes of one cluster.
 */
#include "support/mesh.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/virtual/catalog.h"

static void net_send(tri_transport *transport, uint32_t from, uint32_t to,
                     const void *bytes, size_t size)
{
    mesh *m = (mesh *)(void *)transport;
    if (m->net != NULL) {
        (void)tri_sim_net_send(m->net, from, to, bytes, size);
    }
}

static void arrived(void *user, uint32_t from, uint32_t to, const void *bytes,
                    size_t size)
{
    mesh *m = user;
    (void)from;
    if (m->systems[to] != NULL) {
        tri_bus_receive(m->systems[to], bytes, size);
    }
}

void mesh_init(mesh *m, tr_sim *sim, uint32_t nodes, bool net)
{
    static const tri_transport_ops ops = {.send = net_send};
    memset(m, 0, sizeof(*m));
    m->base.ops = &ops;
    m->sim = sim;
    m->nodes = nodes;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        m->shards[i].node.slot = m->shards[i].next = TRI_NODE_NONE;
    }
    if (net) {
        TR_MUST(tri_sim_net_new(&m->net, sim, nodes, arrived, m));
    } else {
        TR_MUST(tri_link_new(&m->link));
    }
}

void mesh_fini(mesh *m)
{
    tri_sim_net_free(m->net);
    m->net = NULL;
    tri_link_free(m->link);
}

/* ---- views ---- */

static tri_view *view_of(mesh *m)
{
    tri_view *view = tri_view_new(m->revision, MESH_MAX);
    TRI_CHECK(view != NULL);
    for (uint32_t i = 0; i < MESH_MAX; i++) {
        view->members[i].incarnation = m->incarnations[i];
    }
    memcpy(view->shards, m->shards, sizeof(m->shards));
    return view;
}

void mesh_tell(mesh *m, uint32_t index)
{
    tri_lock_take(&m->lock);
    tri_view *view = view_of(m);
    tri_lock_drop(&m->lock);
    if (m->systems[index] != NULL && m->incarnations[index] != 0) {
        tri_bus_set_view(m->systems[index], view);
    } else {
        tri_view_drop(view);
    }
}

void mesh_tell_all(mesh *m)
{
    for (uint32_t i = 0; i < m->nodes; i++) {
        mesh_tell(m, i);
    }
}

static void changed(mesh *m)
{
    if (!m->quiet) {
        mesh_tell_all(m);
    }
}

static void give(mesh *m, uint32_t shard, uint32_t to)
{
    m->shards[shard] = (tri_shard_owner){
        .node = {.slot = to, .incarnation = m->incarnations[to]},
        .epoch = m->shards[shard].epoch + 1,
        .next = TRI_NODE_NONE};
    m->revision++;
}

static bool has_owner(const mesh *m, uint32_t shard)
{
    tri_node owner = m->shards[shard].node;
    return owner.slot != TRI_NODE_NONE &&
           m->incarnations[owner.slot] == owner.incarnation;
}

void mesh_move(mesh *m, uint32_t shard, uint32_t to)
{
    tri_lock_take(&m->lock);
    if (m->incarnations[to] == 0) {
        // nobody to give it to
    } else if (!has_owner(m, shard)) {
        give(m, shard, to);
    } else if (m->shards[shard].node.slot != to) {
        m->shards[shard].next = to;
        m->revision++;
    }
    tri_lock_drop(&m->lock);
    changed(m);
}

void mesh_dead(mesh *m, uint32_t index)
{
    tri_lock_take(&m->lock);
    m->incarnations[index] = 0;
    m->revision++;
    tri_lock_drop(&m->lock);
    changed(m);
}

void mesh_rejoin(mesh *m, uint32_t index)
{
    tri_lock_take(&m->lock);
    uint64_t incarnation = m->incarnations[index] = ++m->revision;
    tri_lock_drop(&m->lock);
    tri_bus_set_node(m->systems[index], (tri_node){index, incarnation});
    mesh_tell(m, index);
    changed(m);
}

static void on_handed_over(void *user, uint32_t shard)
{
    mesh_node *from = user;
    mesh *m = from->mesh;
    tri_lock_take(&m->lock);
    uint32_t next = m->shards[shard].next;
    bool ours =
        m->shards[shard].node.slot == from->index && has_owner(m, shard);
    if (ours && next != TRI_NODE_NONE && m->incarnations[next] != 0) {
        give(m, shard, next);
    } else if (ours) {  // it is dead: the shard stays
        m->shards[shard].next = TRI_NODE_NONE;
        m->revision++;
    }
    tri_lock_drop(&m->lock);
    mesh_tell(m, from->index);
    changed(m);
}

static void on_raise_epoch(void *user, uint32_t shard, uint64_t epoch)
{
    mesh_node *owner = user;
    mesh *m = owner->mesh;
    tri_lock_take(&m->lock);
    if (m->shards[shard].node.slot == owner->index && has_owner(m, shard)) {
        m->shards[shard].epoch = TRI_MAX(m->shards[shard].epoch, epoch + 1);
        m->revision++;
    }
    tri_lock_drop(&m->lock);
    mesh_tell(m, owner->index);
    changed(m);
}

static void on_refresh(void *user, uint64_t revision)
{
    mesh_node *node = user;
    (void)revision;
    mesh_tell(node->mesh, node->index);
}

static bool may_act(void *user)
{
    mesh_node *node = user;
    return !atomic_load(&node->has_no_lease);
}

/* ---- nodes ---- */

tr_err mesh_join(mesh *m, uint32_t index, tr_system *sys)
{
    static const tri_bus_up up = {.handed_over = on_handed_over,
                                  .raise_epoch = on_raise_epoch,
                                  .refresh = on_refresh,
                                  .may_act = may_act};
    m->systems[index] = sys;
    if (m->link != NULL) {
        tri_link_attach(m->link, index, sys);
    }
    tri_lock_take(&m->lock);
    m->incarnations[index] = ++m->revision;
    for (uint32_t i = index; i < TRI_SHARDS; i += m->nodes) {
        if (!has_owner(m, i)) {
            give(m, i, index);
        }
    }
    tri_lock_drop(&m->lock);
    m->each[index] = (mesh_node){.mesh = m, .index = index};
    TR_TRY(tri_bus_join(
        sys, &(tri_bus_options){
                 .transport = m->link != NULL ? m->link : &m->base,
                 .up = &up,
                 .up_user = &m->each[index],
                 .node = {.slot = index, .incarnation = m->incarnations[index]},
                 .address = "localhost:7000"}));
    mesh_tell(m, index);
    changed(m);
    return TR_OK;
}

void mesh_leave(mesh *m, uint32_t index)
{
    m->systems[index] = NULL;
    if (m->link != NULL) {
        tri_link_attach(m->link, index, NULL);
    }
}

void mesh_open(mesh *m, uint64_t seed, uint32_t nodes, bool net)
{
    tr_sim *sim = NULL;
    if (seed != 0) {
        TR_MUST(tr_sim_new(&sim, seed));
    }
    mesh_init(m, sim, nodes, net);
    for (uint32_t i = 0; i < nodes; i++) {
        tr_system *sys;
        TR_MUST(tr_system_open(
            &sys, .ns = "shop", .workers = 2, .log_level = TR_LOG_ERROR,
            .world = sim != NULL ? tr_sim_world(sim) : NULL));
        TR_MUST(mesh_join(m, i, sys));
    }
}

void mesh_check(mesh *m)
{
    for (uint32_t i = 0; m->sim != NULL && i < m->nodes; i++) {
        if (m->systems[i] != NULL) {
            tri_catalog_check(m->systems[i], 0, TRI_SHARDS);
        }
    }
}

void mesh_close(mesh *m)
{
    mesh_check(m);
    for (uint32_t i = 0; i < m->nodes; i++) {
        tr_system *sys = m->systems[i];
        if (sys != NULL) {
            mesh_leave(m, i);  // what comes from now on is lost
            TR_MUST(tr_system_close(sys, 0));
        }
    }
    mesh_fini(m);
    tr_sim_free(m->sim);
}
