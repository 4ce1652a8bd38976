/*
 * sim.c - a simulated world as its users see it: making, time, numbers, trace.
 *
 * Invariant: whatever the seed decides passes through tri_sim_note, so two
 * runs with the same hash have made the same choices at the same times.
 */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/options.h"
#include "sim/sim_commit.h"
#include "sim/sim_disk.h"
#include "sim/sim_mail.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stray.h"
#include "sim/sim_trace.h"

#define DELAY_MAX_DEFAULT TR_SECONDS(1)
#define PAUSE_MAX_DEFAULT TR_SECONDS(10)

/* ---- the trace ---- */

static void into_hash(tr_sim *sim, tri_sim_kind kind, uint32_t who,
                      uint64_t what)
{
    sim->steps++;
    sim->hash = tri_hash_mix(sim->hash ^ (uint64_t)who << 8 ^ (uint64_t)kind);
    sim->hash = tri_hash_mix(sim->hash ^ what);
    sim->hash = tri_hash_mix(sim->hash ^ (uint64_t)sim->now);
}

void tri_sim_note(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what,
                  const char *text)
{
    into_hash(sim, kind, who, what);
    if (TRI_UNLIKELY(sim->trace != NULL)) {
        tri_sim_trace_note(sim, kind, who, what, text);
    }
}

uint64_t tr_sim_steps(const tr_sim *sim)
{
    return sim->steps;
}

uint64_t tr_sim_trace_hash(const tr_sim *sim)
{
    return sim->hash;
}

void tr_sim_on_trace(tr_sim *sim, tr_sim_trace_fn fn, void *user)
{
    sim->trace = fn;
    sim->trace_user = user;
}

/* ---- faults ---- */

const char *tri_sim_fault_name(tri_sim_fault fault)
{
    static const char *const names[] = {
#define TRI_X(name) #name,
        TRI_SIM_FAULTS(TRI_X) TRI_SIM_EVENTS(TRI_X)
#undef TRI_X
    };

    TRI_CHECK(fault < TRI_SIM_COUNTERS);
    return names[fault];
}

static bool strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    if (sim->chance[fault] <= 0.0 || sim->calm) {
        return false;
    }
    uint64_t occasion = ++sim->faults[fault].reached;
    const char *name = tri_sim_fault_name(fault);
    if (sim->replay != NULL
            ? !tri_sim_schedule_strikes(sim->replay, sim, fault, name, node,
                                        occasion)
            : !tri_rand_chance(tri_sim_rand(sim, TRI_STREAM_FAULT + fault),
                               sim->chance[fault])) {
        return false;
    }
    if (sim->record != NULL) {
        tri_sim_schedule_add(sim->record, sim, fault, name, node, occasion);
    }
    sim->faults[fault].fired++;
    sim->fault_step = sim->steps;
    into_hash(sim, TRI_KIND_FAULT, node, fault);
    return true;
}

static void trace_fault(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    if (TRI_UNLIKELY(sim->trace != NULL)) {
        tri_sim_trace_note(sim, TRI_KIND_FAULT, node, fault,
                           tri_sim_fault_name(fault));
    }
}

bool tri_sim_strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    if (!strikes(sim, fault, node)) {
        return false;
    }
    trace_fault(sim, fault, node);
    return true;
}

bool tri_sim_strikes_one(tr_sim *sim, tri_sim_fault fault, uint32_t *index)
{
    if (!strikes(sim, fault, TRI_SIM_NOBODY)) {
        return false;
    }
    *index = (uint32_t)tri_sim_fault_below(sim, fault, sim->node_count);
    if (sim->record != NULL) {
        tri_sim_schedule_place(sim->record, *index);
    }
    if (sim->replay != NULL) {
        tri_sim_schedule_place(sim->replay, *index);
    }
    trace_fault(sim, fault, *index);
    return true;
}

uint32_t tri_sim_here(const tr_sim *sim)
{
    return sim->stepping          ? sim->stepped->node->index
           : sim->running != NULL ? sim->running->node->index
                                  : TRI_SIM_NOBODY;
}

void tri_sim_count(tr_sim *sim, tri_sim_fault event, bool did)
{
    sim->faults[event].reached++;
    sim->faults[event].fired += did;
}

uint64_t tri_sim_fault_below(tr_sim *sim, tri_sim_fault fault, uint64_t limit)
{
    return tri_rand_below(tri_sim_rand(sim, TRI_STREAM_FAULT + fault), limit);
}

void tri_sim_set_faults(tr_sim *sim, const tr_faults *faults)
{
    tr_faults own;

    if (!tri_options_copy(&own, sizeof(own), sizeof(size_t), faults)) {
        tr_abort("sim", "tr_faults: .size is not sizeof(tr_faults), or of a "
                        "newer version");
    }
#define TRI_X(name) sim->chance[TRI_FAULT_##name] = own.name;
    TRI_SIM_FAULTS(TRI_X)
#undef TRI_X
    sim->delay_max = own.delay_max > 0 ? own.delay_max : DELAY_MAX_DEFAULT;
    sim->pause_max = own.pause_max > 0 ? own.pause_max : PAUSE_MAX_DEFAULT;
}

uint32_t tr_sim_faults(const tr_sim *sim, tr_sim_count *out, uint32_t max)
{
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS && i < max; i++) {
        out[i] = (tr_sim_count){.name = tri_sim_fault_name(i),
                                .reached = sim->faults[i].reached,
                                .fired = sim->faults[i].fired};
    }
    return TRI_SIM_COUNTERS;
}

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

/* ---- life ---- */

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
    sim->delay_max = DELAY_MAX_DEFAULT;
    sim->pause_max = PAUSE_MAX_DEFAULT;
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

const void *tr_sim_world(tr_sim *sim)
{
    // In a run the nodes have processes of their own, which die.
    return sim->run != NULL ? &sim->client.world : &sim->nodes[0]->world;
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
        // Each turn is a step.
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

tr_system *tr_sim_node(tr_sim *sim, uint32_t index)
{
    return index < sim->node_count ? sim->nodes[index]->sys : NULL;
}

void tr_sim_pause(tr_sim *sim, uint32_t index, tr_nanos span)
{
    TRI_CHECK(index < sim->node_count);
    tri_sim_pause(sim->nodes[index], span);
}
