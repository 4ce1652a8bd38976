/*
 * sim_node.c - the nodes of a simulated world: clocks and pauses.
 *
 * Invariant: a node's monotonic clock never falls, whatever its rate was and
 * becomes: a new rate begins at the time that the clock shows.
 */
#include "sim/sim_node.h"

#include <stdlib.h>

#include "base/check.h"
#include "sim/sim.h"
#include "sim/sim_trace.h"
#include "sim/world_sim.h"

#define MILLION INT64_C(1000000)

tr_sim *tri_sim_of(const tri_world *world)
{
    if (world == NULL || world->ops != &tri_sim_ops) {
        return NULL;
    }
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    return tri_container_of(world, const tri_sim_node, world)->sim;
}

tri_sim_node *tri_sim_node_of(tri_world *world)
{
    TRI_CHECK(world->ops == &tri_sim_ops);
    return tri_container_of(world, tri_sim_node, world);
}

void tri_sim_node_init(tri_sim_node *node, tr_sim *sim, uint32_t index)
{
    TRI_CHECK(sim != NULL);
    node->world = (tri_world){.magic = TRI_WORLD_MAGIC, .ops = &tri_sim_ops};
    node->sim = sim;
    node->index = index;
    node->local_base = TRI_SIM_BEGIN;
    node->world_base = TRI_SIM_BEGIN;
}

tri_sim_node *tri_sim_node_add(tr_sim *sim)
{
    TRI_CHECK(sim->node_count <= TRI_SIM_NODES_MAX);
    if (sim->node_count == TRI_SIM_NODES_MAX) {
        return NULL;
    }
    tri_sim_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    tri_sim_node_init(node, sim, sim->node_count);
    sim->nodes[sim->node_count++] = node;
    return node;
}

/* ---- clocks ---- */

/* Returns d + d * ppm / million, without overflow; rises with d. */
static tr_nanos stretch(tr_nanos d, int32_t ppm)
{
    return d + d / MILLION * ppm + d % MILLION * ppm / MILLION;
}

tr_nanos tri_sim_node_time(const tri_sim_node *node)
{
    tr_nanos passed = node->sim->now - node->world_base;

    TRI_CHECK(passed >= 0);
    return node->local_base + stretch(passed, node->rate_ppm);
}

tr_nanos tri_sim_node_when(const tri_sim_node *node, tr_nanos local)
{
    tr_nanos wanted = local - node->local_base;
    tr_nanos rate = MILLION + node->rate_ppm;

    if (local == TR_FOREVER) {
        return TR_FOREVER;
    }
    if (wanted <= 0) {
        return node->world_base;
    }
    if (wanted >= TR_FOREVER / 4) {
        return TR_FOREVER / 2;  // centuries; slow clocks must not overflow
    }
    if (node->rate_ppm == 0) {
        return node->world_base + wanted;
    }
    // The two divisions round: the result is off by a few at most.
    tr_nanos d = wanted / rate * MILLION + wanted % rate * MILLION / rate;
    while (stretch(d, node->rate_ppm) < wanted) {
        d++;
    }
    while (d > 0 && stretch(d - 1, node->rate_ppm) >= wanted) {
        d--;
    }
    return node->world_base + d;
}

void tri_sim_node_set_rate(tri_sim_node *node, int32_t rate_ppm)
{
    TRI_CHECK(rate_ppm >= -TRI_SIM_RATE_MAX);
    TRI_CHECK(rate_ppm <= TRI_SIM_RATE_MAX);
    node->local_base = tri_sim_node_time(node);
    node->world_base = node->sim->now;
    node->rate_ppm = rate_ppm;
    node->sim->nothing_due = false;
}

/* ---- pauses ---- */

static void on_pause_end(tr_sim *sim, tri_sim_event *event)
{
    tri_sim_node *node = tri_container_of(event, tri_sim_node, pause_end);

    TRI_CHECK(node->paused);
    node->paused = false;
    sim->nothing_due = false;
    tri_sim_note(sim, TRI_KIND_NODE, node->index, TRI_NODE_AWAKE, "awake");
}

void tri_sim_node_pause(tri_sim_node *node, tr_nanos span)
{
    node->paused = true;
    node->pause_end.fn = on_pause_end;
    tri_sim_event_arm(node->sim, &node->pause_end, span);
    tri_sim_note(node->sim, TRI_KIND_NODE, node->index, TRI_NODE_PAUSED,
                 "paused");
}

void tri_sim_node_resume(tri_sim_node *node)
{
    if (node->paused) {
        tri_sim_event_cancel(node->sim, &node->pause_end);
        on_pause_end(node->sim, &node->pause_end);
    }
}
