/*
 * sim.c - a simulated world as its users see it: making it, time, numbers,
 * failing.
 */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "sim/sim_buggify.h"
#include "sim/sim_commit.h"
#include "sim/sim_disk.h"
#include "sim/sim_mail.h"
#include "sim/sim_step.h"
#include "sim/sim_stray.h"
#include "sim/sim_thread.h"
#include "sim/world_sim.h"

/* ---- making and freeing ---- */

tr_err tr_sim_new(tr_sim **out, uint64_t seed)
{
    TRI_CHECK(out != NULL);
    *out = NULL;
    tr_sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        return TR_ENOMEM;
    }
    sim->seed = seed;
    sim->strays = &sim->own_strays;
    for (uint32_t i = 0; i < TRI_STREAM_COUNT; i++) {
        tri_rand_init(&sim->rand[i], tri_hash_mix(seed) + i);
    }
    sim->delay_max = TRI_SIM_DELAY_MAX;
    sim->pause_max = TRI_SIM_PAUSE_MAX;
    tr_err err = tri_sim_world_init(sim);
    if (err == TR_OK) {
        err = tri_sim_disk_new(sim);
    }
    if (err != TR_OK) {
        tr_sim_free(sim);
        return err;
    }
    *out = sim;
    return TR_OK;
}

void tr_sim_free(tr_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    tri_sim_world_fini(sim);
    tri_sim_mail_free(sim);
    tri_sim_commits_free(sim);
    tri_sim_disk_free(sim);
    tri_sim_sites_free(sim);
    tri_sim_strays_fini(&sim->own_strays);
    free(sim);
}

/* ---- time and numbers ---- */

tr_nanos tr_sim_now(const tr_sim *sim)
{
    return sim->now;
}

void tr_sim_advance(tr_sim *sim, tr_nanos span)
{
    TRI_CHECK(span >= 0);
    TRI_CHECK(!sim->stepping);
    if (tri_sim_sleep(sim, span)) {
        return;
    }
    TRI_CHECK(span < TR_FOREVER - sim->now);
    tr_nanos until = sim->now + span;
    while (sim->now <= until && tri_sim_step(sim, until)) {
        // tri_sim_step does the work.
    }
}

uint64_t tr_sim_random(tr_sim *sim, uint64_t below)
{
    if (below == 0) {
        tr_abort("tr_sim_random", "below is 0: there is no number below it");
    }
    return tri_rand_below(tri_sim_rand(sim, TRI_STREAM_WORKLOAD), below);
}

/* ---- nodes ---- */

const void *tr_sim_world(tr_sim *sim)
{
    // In a run the nodes have processes that are killed: not for others.
    return sim->run != NULL ? &sim->client.world : &sim->nodes[0]->world;
}

tr_system *tr_sim_node(tr_sim *sim, uint32_t index)
{
    return index < sim->node_count ? sim->nodes[index]->sys : NULL;
}

void tr_sim_pause(tr_sim *sim, uint32_t index, tr_nanos span)
{
    TRI_CHECK(index < sim->node_count);
    tri_sim_node_pause(sim->nodes[index], span);
}

/* ---- failing ---- */

tr_err(tr_sim_fail)(tr_sim *sim, const char *site, const char *format, ...)
{
    if (sim->failed) {
        return TR_EFAILED;
    }
    sim->failed = true;
    sim->fail_site = site;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->fail_text, sizeof(sim->fail_text), format, args);
    va_end(args);
    if (sim->run == NULL) {
        tri_log_write(TRI_LOG_ERROR, TRI_SIM_EPOCH + sim->now, site, NULL,
                      sim->fail_text);
    }
    return TR_EFAILED;
}
