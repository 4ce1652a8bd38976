/*
 * sweeper.h - the actor that deactivates idle virtual actors.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_SWEEPER_H
#define TRI_CLUSTER_SWEEPER_H

#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "core/caller.h"
#include "core/types.h"
#include "troupe/base.h"

/*
 * Starts the sweeper on first use. Without locks.
 * Errors: TR_ECLOSED, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sweeper_start(tri_cluster *cluster, tri_caller *who);
/*
 * Makes the sweeper, which was started, look at least four times in each idle
 * time of the kind. Without locks.
 */
void tri_sweeper_add_kind(tri_cluster *cluster, tri_worker *worker,
                          const tri_kind *kind);
/* Tells the sweeper that more than kind->max_active are active. */
void tri_sweeper_over_limit(tri_cluster *cluster, tri_worker *worker,
                            tri_kind *kind);

#endif
