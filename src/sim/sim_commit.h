/*
 * sim_commit.h - checks that stores acknowledge each version once.
 *
 * Each write of an actor's state makes a version, each append a row of event
 * numbers. Over all systems of a run:
 *
 *   - a version is committed once: two writers whose writes of one version of
 *     one key both succeeded would both have replaced the same state;
 *   - epochs do not fall: every version that an owner commits is higher than
 *     all versions of owners with an earlier epoch.
 *
 * A disk that lies may take a version back, so the check ends with the first
 * such fault. A write that expects nothing to be stored begins the versions of
 * its key anew.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_COMMIT_H
#define TRI_SIM_SIM_COMMIT_H

#include <stdint.h>

#include "core/up.h"
#include "troupe/base.h"

enum { TRI_SIM_COMMITS_MAX = 1 << 18 };  // remembered of one run

/* Checks a write that a store acknowledged to a node; see tri_up.stored. */
void tri_sim_commit(tr_sim *sim, uint32_t node, const tri_written *it);

/* Returns how many writes were checked. */
uint64_t tri_sim_commits_checked(const tr_sim *sim);
void tri_sim_commits_free(tr_sim *sim);

#endif
