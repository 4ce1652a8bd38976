/*
 * sim_buggify.c - places in the code where a simulation may do the unlikely.
 *
 * A site is identified by its text (file:line) and listed when it is first
 * reached, so the order of the list is decided by the seed.
 */
#include "sim/sim_buggify.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/rand.h"
#include "core/caller.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_running.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stream.h"
#include "sim/sim_trace.h"
#include "troupe/sim.h"

typedef struct tri_sim_site {
    struct tri_sim_site *next;
    tri_sim_counter count;
    char name[];
} tri_sim_site;

static bool same_site(const void *value, const void *key, size_t size)
{
    const tri_sim_site *site = value;

    return strlen(site->name) == size && memcmp(site->name, key, size) == 0;
}

/* Returns NULL without memory. */
static tri_sim_site *site_add(tr_sim *sim, const char *name, size_t size)
{
    tri_sim_site *site = calloc(1, sizeof(*site) + size + 1);

    if (site == NULL) {
        return NULL;
    }
    memcpy(site->name, name, size);
    if (tri_map_put_bytes(&sim->sites, site->name, size, site) != TR_OK) {
        free(site);
        return NULL;
    }
    if (sim->site_last == NULL) {
        sim->site_first = site;
    } else {
        sim->site_last->next = site;
    }
    sim->site_last = site;
    return site;
}

/* Looks in a small cache first, by the address of the text: sites repeat. */
static tri_sim_site *site_of(tr_sim *sim, const char *name)
{
    uint64_t hash = tri_hash_mix((uint64_t)(uintptr_t)name);
    tri_sim_site **cached = &sim->site_cache[hash % TRI_SIM_SITE_CACHE];

    if (*cached != NULL && strcmp((*cached)->name, name) == 0) {
        return *cached;
    }
    size_t size = strlen(name);
    if (sim->sites.same == NULL) {
        tri_map_init(&sim->sites, same_site, NULL);
    }
    tri_sim_site *site = tri_map_get_bytes(&sim->sites, name, size);
    if (site == NULL) {
        site = site_add(sim, name, size);
    }
    if (site != NULL) {
        *cached = site;
    }
    return site;
}

bool tri_sim_buggify(tr_sim *sim, double p, const char *name)
{
    TRI_CHECK(name != NULL);
    tri_sim_site *site = site_of(sim, name);

    if (site == NULL) {
        return false;
    }
    site->count.reached++;
    if (sim->calm || sim->no_buggify) {
        return false;
    }
    uint32_t node = tri_sim_running_node(sim);
    if (sim->replay != NULL
            ? !tri_sim_schedule_strikes(sim->replay, sim, TRI_FAULT_COUNT, name,
                                        node, site->count.reached)
            : !tri_rand_chance(tri_sim_rand(sim, TRI_STREAM_BUGGIFY), p)) {
        return false;
    }
    if (sim->record != NULL) {
        tri_sim_schedule_add(sim->record, sim, TRI_FAULT_COUNT, name, node,
                             site->count.reached);
    }
    site->count.fired++;
    sim->fault_step = sim->steps;
    tri_sim_note(sim, TRI_KIND_FAULT, TRI_SIM_NO_NODE, TRI_FAULT_COUNT, name);
    return true;
}

bool(tr_buggify)(tr_from from, double p, const char *site)
{
    tr_sim *sim = tri_sim_of(tri_from_world(from));

    return sim != NULL && tri_sim_buggify(sim, p, site);
}

uint32_t tr_sim_sites(const tr_sim *sim, tr_sim_count *out, uint32_t max)
{
    uint32_t count = 0;

    for (const tri_sim_site *site = sim->site_first; site != NULL;
         site = site->next, count++) {
        if (count < max) {
            out[count] = (tr_sim_count){.name = site->name,
                                        .reached = site->count.reached,
                                        .fired = site->count.fired};
        }
    }
    return count;
}

void tri_sim_sites_free(tr_sim *sim)
{
    while (sim->site_first != NULL) {
        tri_sim_site *site = sim->site_first;
        sim->site_first = site->next;
        free(site);
    }
    sim->site_last = NULL;
    if (sim->sites.same != NULL) {
        tri_map_fini(&sim->sites);
    }
}
