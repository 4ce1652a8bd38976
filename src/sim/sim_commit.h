/*
 * sim_commit.h - who has stored what, as the stores have said.
 *
 * Each write of an actor's state makes a version, each append a row of event
 * numbers. Over all systems of a run:
 *
 *   - a version is committed once: two writers that were both told "done" for
 *     one version of one key have both replaced the same state;
 *   - epochs do not fall: what an owner of an earlier epoch commits is older
 *     than all that a later one has.
 *
 * A disk that lies may take a version back, so after the first such fault
 * nothing is held against anybody. A write that expects nothing to be stored
 * begins a key anew.
 *
 * Threads: those of the world.
 */
#ifndef TRI_SIM_SIM_COMMIT_H
#define TRI_SIM_SIM_COMMIT_H

#include "core/runtime.h"
#include "sim/sim.h"

enum { TRI_SIM_COMMITS_MAX = 1 << 18 };  // remembered of one run

/* A store has said "done" to the system of a node; see tri_up.stored. */
void tri_sim_commit(tr_sim *sim, uint32_t node, const tri_written *it);

/* How many were looked at. */
uint64_t tri_sim_commits(const tr_sim *sim);
void tri_sim_commits_free(tr_sim *sim);

#endif
