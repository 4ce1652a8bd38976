/*
 * sim_system.c - which systems a simulated world steps.
 *
 * Invariant: a system is in `systems` or in `frozen`, never in both. The order
 * of `systems` is part of a seed's meaning: a step is drawn by position.
 */
#include "sim/sim_system.h"

#include <string.h>

#include "base/check.h"
#include "sim/sim.h"
#include "sim/sim_mail.h"

static void append(tr_sim *sim, tri_sim_attached it)
{
    TRI_CHECK(sim->system_count < TRI_SIM_SYSTEMS_MAX);
    sim->systems[sim->system_count++] = it;
    sim->nothing_due = false;
}

void tri_sim_attach(tri_world *world, tri_driven *driven)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tr_sim *sim = node->sim;

    TRI_CHECK(driven != NULL);
    if (sim->system_count == TRI_SIM_SYSTEMS_MAX) {
        tr_abort("sim", "too many systems in one simulated world");
    }
    driven->world_data = node;
    append(sim, (tri_sim_attached){
                    .driven = driven, .node = node, .id = sim->system_next++});
}

void tri_sim_detach(tri_world *world, tri_driven *driven)
{
    tr_sim *sim = tri_sim_of(world);
    uint32_t i = 0;

    TRI_CHECK(!sim->stepping);
    while (i < sim->system_count && sim->systems[i].driven != driven) {
        i++;
    }
    TRI_CHECK(i < sim->system_count);
    tri_sim_mail_end(sim, driven->system);
    sim->system_count--;
    memmove(&sim->systems[i], &sim->systems[i + 1],
            (sim->system_count - i) * sizeof(sim->systems[0]));
}

/* ---- frozen systems ---- */

static uint32_t count_systems_of(const tri_sim_node *node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->sim->system_count; i++) {
        count += node->sim->systems[i].node == node;
    }
    return count;
}

bool tri_sim_systems_freeze(tri_sim_node *node)
{
    tr_sim *sim = node->sim;
    uint32_t kept = 0;

    TRI_CHECK(!sim->stepping);
    if (count_systems_of(node) > TRI_SIM_FROZEN_MAX - sim->frozen_count) {
        return false;
    }
    for (uint32_t i = 0; i < sim->system_count; i++) {
        if (sim->systems[i].node == node) {
            sim->frozen[sim->frozen_count++] = sim->systems[i];
        } else {
            sim->systems[kept++] = sim->systems[i];
        }
    }
    sim->system_count = kept;
    return true;
}

tri_driven *tri_sim_systems_unfreeze_last(tr_sim *sim)
{
    if (sim->frozen_count == 0) {
        return NULL;
    }
    tri_sim_attached it = sim->frozen[--sim->frozen_count];
    append(sim, it);
    return it.driven;
}

void tri_sim_systems_unfreeze(tr_sim *sim, const void *system)
{
    uint32_t i = 0;

    while (i < sim->frozen_count && sim->frozen[i].driven->system != system) {
        i++;
    }
    if (i == sim->frozen_count || sim->system_count == TRI_SIM_SYSTEMS_MAX) {
        return;
    }
    tri_sim_attached it = sim->frozen[i];
    sim->frozen_count--;
    memmove(&sim->frozen[i], &sim->frozen[i + 1],
            (sim->frozen_count - i) * sizeof(sim->frozen[0]));
    append(sim, it);
}
