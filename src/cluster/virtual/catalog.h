/*
 * catalog.h - mail to virtual actors, and the functions that core calls.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_CATALOG_H
#define TRI_CLUSTER_CATALOG_H

#include <stdbool.h>

#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/message.h"
#include "core/types.h"
#include "core/up.h"
#include "troupe/base.h"

/* What core calls for virtual actors. */
extern const tri_virtual_ops tri_catalog_ops;

/* ---- for the bus ---- */

/*
 * Takes the mail that waits for the bus, oldest first; the caller owns it. If
 * an activation has begun here meanwhile, the mail goes to it instead and the
 * result is NULL. `more` says that the caller takes mail again until there is
 * none: until then senders leave mail of the record to the bus.
 */
tri_item *tri_catalog_take_mail(tri_cluster *cluster, tri_worker *worker,
                                tri_virtual *v, bool more);
/*
 * Delivers a list of mail, oldest first: pushes it, or begins an activation
 * with it and the record's pending mail behind it. What was taken is not in
 * *mail any more. Errors: as tri_activation_begin; TR_EWOULDBLOCK (a relayed
 * actor that is ending).
 */
TR_NODISCARD tr_err tri_catalog_deliver(tri_cluster *cluster,
                                        tri_worker *worker, tri_virtual *v,
                                        tri_item **mail);

/* Takes what a relayed actor that has ended has not handled. */
tri_item *tri_catalog_take_left(tri_cluster *cluster, tri_virtual *v);

/* ---- for the whole cluster ---- */

/* Frees the pending mail of a shard when the system is freed. */
void tri_catalog_free_mail(tr_system *sys, tri_shard *shard);
/*
 * Checks the invariants of the records, activations and lanes of `count`
 * shards from `first` on, between turns of the bus. Takes one shard's lock
 * after the other.
 */
void tri_catalog_check(tr_system *sys, uint32_t first, uint32_t count);

#endif
