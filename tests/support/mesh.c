/*
 * mesh.c - several systems that are nodes of one cluster.
 */
#include "support/mesh.h"

#include <stdlib.h>
#include <string.h>

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
    m->life = 1;
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

tr_err mesh_join(mesh *m, uint32_t index, tr_system *sys)
{
    m->systems[index] = sys;
    if (m->link != NULL) {
        tri_link_attach(m->link, index, sys);
    }
    return tri_bus_join(
        sys,
        &(tri_bus_options){.transport = m->link != NULL ? m->link : &m->base,
                           .node = index,
                           .nodes = m->nodes,
                           .life = m->life++,
                           .views = m->views,
                           .view_count = m->view_count,
                           .address = "localhost:7000"});
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

void mesh_close(mesh *m)
{
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
