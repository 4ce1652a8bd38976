/*
 * stateless.h - the stateless workers that stand behind one name.
 *
 * A name whose kind was hosted with `.workers = n` has n records beside its
 * own. The mailbox of its own record stays closed, so each send comes to the
 * catalog, which passes it to the workers in turn.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_STATELESS_H
#define TRI_CLUSTER_STATELESS_H

#include <stdint.h>

#include "cluster/virtual/cluster.h"
#include "cluster/virtual/virtual.h"
#include "core/types.h"

enum { TRI_STATELESS_MAX = 1024 };  // workers behind one name

typedef struct tri_stateless {
    uint32_t count;
    _Atomic(uint64_t) turn;
    tri_virtual *workers[];
} tri_stateless;

/*
 * Makes records for `count` workers of a name of that shard; NULL: no memory.
 * They have no name yet. They come from the cluster's arena: those of a
 * failed or unused call stay there.
 */
tri_stateless *tri_stateless_new(tri_cluster *cluster, tri_worker *worker,
                                 uint16_t shard, uint32_t count);
/* Gives the workers the name of v. With the shard's lock. */
void tri_stateless_attach(tri_stateless *workers, tri_virtual *v);
/* Returns the worker that gets the next message. */
tri_virtual *tri_stateless_next(tri_stateless *workers);

#endif
