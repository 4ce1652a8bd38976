/*
 * activation.h - one activation of a virtual actor: its begin and its end.
 *
 * Threads: any, with the lock of the record's shard, except where said.
 */
#ifndef TRI_CLUSTER_ACTIVATION_H
#define TRI_CLUSTER_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/message.h"
#include "core/types.h"
#include "troupe/base.h"

/* What a record needs only while it is active. */
typedef struct tri_activation {
    tri_link link;  // in the shard's list
    tri_virtual *v;
    uint64_t order;           // its number among all of this system
    _Atomic(uint64_t) epoch;  // of its placement: the fence of its writes
    tr_nanos since;           // when the sweeper last found new work done
    uint64_t seen;            // messages it had handled by then
    _Atomic(uint64_t) quiet;  // handled messages that do not keep it active
    bool loads;         // in tri_load_queue; only the cell's owner uses it
    bool told_to_stop;  // by tri_activation_stop_all
} tri_activation;

/*
 * Begins an activation of a record that is not active, with `mail` as its
 * queue. Takes mail on TR_OK; the cell then belongs to the caller, who calls
 * tri_activation_schedule without the lock.
 * Errors: TR_ECLOSED, TR_ENOENT (the kind is not hosted here), TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_activation_begin(tri_cluster *cluster,
                                         tri_worker *worker, tri_virtual *v,
                                         tri_item *mail);
/* Runs an activation that was begun just now. Without the lock. */
void tri_activation_schedule(tri_cluster *cluster, tri_worker *worker,
                             tri_virtual *v);
/*
 * Sets owner and epoch of a shard: that of activations which begin from now on. With
 * `confirmed` also that of its activations: this node is the owner of the shard
 * and has raised it. Takes the lock.
 */
void tri_activation_set_epoch(tri_cluster *cluster, uint32_t shard,
                              uint32_t owner, uint64_t epoch, bool confirmed);
/*
 * Raises the epoch of one activation, which the owner of the shard has
 * confirmed. Takes the lock.
 */
void tri_activation_confirm(tri_cluster *cluster, tri_virtual *v,
                            uint64_t epoch);
/* Stops all activations of a shard; returns how many. Takes the lock. */
uint32_t tri_activation_stop_all(tri_cluster *cluster, tri_worker *worker,
                                 uint32_t shard);
/* Ends the activation; both of its mailboxes are closed already. */
void tri_activation_end(tri_cluster *cluster, tri_worker *worker,
                        tri_virtual *v);

#endif
