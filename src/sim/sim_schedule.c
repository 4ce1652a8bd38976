/*
 * sim_schedule.c - the faults that struck in a run, and replays with some of
 * them.
 *
 * Invariant: a replay that keeps all faults is the run that was recorded. Each
 * class draws from a stream of its own (sim_stream.h), and each strike has the
 * state of its stream, so leaving one out changes no number of another.
 */
#include "sim/sim_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_stream.h"

static uint64_t key_of(uint32_t fault, const char *name, uint64_t occasion)
{
    uint64_t what =
        fault == TRI_FAULT_COUNT ? tri_hash_bytes(name, strlen(name)) : fault;

    return tri_hash_mix(tri_hash_mix(what) ^ occasion);
}

/* Makes room for one more; false, and the schedule is cut, if it cannot. */
static bool make_room(tri_sim_schedule *it)
{
    uint32_t room = it->room > 0 ? it->room * 2 : 256;
    tri_sim_strike *all;

    if (it->count < it->room) {
        return true;
    }
    all = it->room < TRI_SIM_STRIKES_MAX ? realloc(it->all, room * sizeof(*all))
                                         : NULL;
    if (all == NULL) {
        it->is_cut = true;
        return false;
    }
    it->all = all;
    it->room = room;
    return true;
}

void tri_sim_schedule_add(tri_sim_schedule *it, const tr_sim *sim,
                          uint32_t fault, const char *name, uint32_t node,
                          uint64_t occasion)
{
    TRI_CHECK(fault <= TRI_FAULT_COUNT);
    it->last = NULL;
    if (!make_room(it)) {
        return;
    }
    tri_sim_strike *strike = &it->all[it->count++];
    *strike = (tri_sim_strike){.key = key_of(fault, name, occasion),
                               .at = sim->now,
                               .fault = fault,
                               .node = node,
                               .kept = true};
    if (fault < TRI_FAULT_COUNT) {
        strike->rand = sim->rand[TRI_STREAM_FAULT + fault];
    }
    snprintf(strike->name, sizeof(strike->name), "%s", name);
    it->last = strike;
}

static void drop_index(tri_sim_schedule *it)
{
    if (it->indexed) {
        tri_map_fini(&it->index);
        it->indexed = false;
    }
}

tr_err tri_sim_schedule_begin(tri_sim_schedule *it)
{
    TRI_CHECK(it->count <= it->room);
    drop_index(it);
    tri_map_init(&it->index, NULL, NULL);
    it->indexed = true;
    for (uint32_t i = 0; i < it->count; i++) {
        it->all[i].struck = false;
        if (it->all[i].kept) {
            TR_TRY(tri_map_put(&it->index, it->all[i].key, &it->all[i]));
        }
    }
    return TR_OK;
}

bool tri_sim_schedule_strikes(tri_sim_schedule *it, tr_sim *sim, uint32_t fault,
                              const char *name, uint32_t node,
                              uint64_t occasion)
{
    TRI_CHECK(it->indexed);
    tri_sim_strike *strike =
        tri_map_get(&it->index, key_of(fault, name, occasion));

    if (strike == NULL) {
        return false;
    }
    strike->struck = true;
    strike->at = sim->now;
    strike->node = node;
    it->last = strike;
    if (fault < TRI_FAULT_COUNT) {
        sim->rand[TRI_STREAM_FAULT + fault] = strike->rand;
    }
    return true;
}

void tri_sim_schedule_set_node(tri_sim_schedule *it, uint32_t node)
{
    if (it->last != NULL) {
        it->last->node = node;
    }
}

uint32_t tri_sim_schedule_kept(const tri_sim_schedule *it)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < it->count; i++) {
        count += it->all[i].kept;
    }
    return count;
}

void tri_sim_schedule_fini(tri_sim_schedule *it)
{
    drop_index(it);
    free(it->all);
    *it = (tri_sim_schedule){0};
}
