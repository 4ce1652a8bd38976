/*
 * names.h - the names of virtual actors and the records they have.
 *
 * Threads: any, except where said.
 */
#ifndef TRI_CLUSTER_NAMES_H
#define TRI_CLUSTER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/virtual.h"
#include "core/types.h"
#include "troupe/base.h"

/*
 * Returns the record of a name, made on first use. The name keeps the record
 * for the system's life, because a ref of it is given away.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_names_keep(tri_cluster *cluster, tr_from from,
                                   const tri_actor_id *id, tri_virtual **out);
/* As tri_names_keep, but the name has the record until tri_names_release. */
TR_NODISCARD tr_err tri_names_hold(tri_cluster *cluster, tr_from from,
                                   const tri_actor_id *id, tri_virtual **out);
/* Holds a record that has its name for another reason already. */
void tri_names_hold_record(tri_cluster *cluster, tri_virtual *v);
/* Ends what tri_names_hold or tri_names_hold_record began. */
void tri_names_release(tri_cluster *cluster, tri_virtual *v);
/*
 * Takes the name away from the record if nothing uses it. Call it when the
 * record has ceased to be active, with the shard's lock.
 */
void tri_names_forget_unused(tri_cluster *cluster, tri_virtual *v);
/*
 * Writes the name of the actor with that id; returns false if its record
 * belongs to another name by now. A function of tri_virtual_ops.
 */
bool tri_names_write(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                     size_t size);
/* Returns a record without a name, its mailboxes closed; NULL: no memory. */
tri_virtual *tri_names_new_record(tri_cluster *cluster, uint16_t shard);
void tri_names_init(tri_cluster *cluster);
/* Frees all records. No other thread uses the cluster. */
void tri_names_fini(tri_cluster *cluster);

#endif
