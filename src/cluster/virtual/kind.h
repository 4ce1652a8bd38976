/*
 * kind.h - the kinds of virtual actors that this system hosts.
 *
 * Kinds are only added, at the front of the cluster's list, and live as long
 * as the system: a kind that was found may be kept, and its `next` followed.
 *
 * Threads: any, except where said.
 */
#ifndef TRI_CLUSTER_KIND_H
#define TRI_CLUSTER_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/props.h"
#include "troupe/actor.h"
#include "troupe/base.h"
#include "troupe/cluster.h"

struct tri_cluster;
struct tri_virtual;

#define TRI_IDLE_DEFAULT TR_MINUTES(10)

enum { TRI_KIND_SLOTS = 1024 };  // TRI_NODES_MAX

typedef struct tri_kind {
    char *name;  // owned
    const tr_actor_def *def;
    const tri_behaviour *behaviour;
    tri_props *props;  // shared by all activations
    uint32_t pool;     // bits of tri_cell.flags
    uint32_t soft_limit;
    tr_nanos idle;
    uint32_t max_active;  // 0: no limit
    uint32_t workers;     // of a stateless kind: how many; else 0
    uint8_t placement;    // tr_placement
    _Atomic(uint32_t) active;
    /* Bits of slots: owners that do not host the kind, whose place we take. */
    _Atomic(uint64_t) reminds_for[TRI_KIND_SLOTS / 64];
    _Atomic(bool) over_limit;  // the sweeper was told that too many are active
    struct tri_kind *next;     // in the cluster's list
} tri_kind;

/*
 * Makes a kind of a definition and its options, which were checked. It is not
 * yet known to the cluster. Sets s->storage.
 * Errors: TR_EINVAL (with a text), TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_kind_new(tri_caller *who, const tr_actor_def *def,
                                 const tr_host_options *o, tr_spawn_options *s,
                                 tri_kind **out);
/* Frees a kind that the cluster does not know; NULL is fine. */
void tri_kind_free(tri_kind *kind);
/* Makes the kind known. Takes it on TR_OK. Errors: TR_EEXIST, TR_ENOMEM. */
TR_NODISCARD tr_err tri_kind_add(struct tri_cluster *cluster, tri_kind *kind);
/* True if this node delivers the kind's reminders in the owner's place. */
static inline bool tri_kind_reminds_for(tri_kind *kind, uint32_t owner)
{
    // Relaxed: the bus tells the service of reminders after a change.
    return owner < TRI_KIND_SLOTS &&
           (atomic_load_explicit(&kind->reminds_for[owner / 64],
                                 memory_order_relaxed) >>
                owner % 64 &
            1) != 0;
}

/* Returns the first kind of the list, or NULL. */
tri_kind *tri_kind_first(struct tri_cluster *cluster);
/* Returns the kind of that name, or NULL if this system does not host it. */
tri_kind *tri_kind_find(struct tri_cluster *cluster, const char *name,
                        size_t size);
/*
 * Returns the kind of a record, or NULL if this system does not host it. With
 * the shard's lock.
 */
tri_kind *tri_kind_of(struct tri_cluster *cluster, struct tri_virtual *v);
void tri_kind_init(struct tri_cluster *cluster);
/* Frees all kinds of the cluster. */
void tri_kind_fini(struct tri_cluster *cluster);

#endif
