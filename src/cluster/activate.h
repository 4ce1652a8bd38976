/*
 * activate.h - what the files of the catalog ask of each other.
 *
 * Threads: any, except where said.
 */
#ifndef TRI_CLUSTER_ACTIVATE_H
#define TRI_CLUSTER_ACTIVATE_H

#include "cluster/catalog.h"

/* ---- activate.c ---- */

/*
 * With the shard's lock, of one that is not active. Takes mail on TR_OK: the
 * cell is then the caller's, who lets it go without the lock.
 * Errors: TR_ECLOSED, TR_ENOENT (the kind is not hosted here), TR_ENOMEM.
 */
tr_err tri_activate(tri_cluster *cluster, tri_worker *worker, tri_virtual *v,
                    tri_node *mail);
/* What is due once the lock is gone. */
void tri_activate_go(tri_cluster *cluster, tri_worker *worker, tri_virtual *v);
/* With the shard's lock: the activation is over, its lanes are closed. */
void tri_activate_end(tri_cluster *cluster, tri_worker *worker, tri_virtual *v);

/* ---- catalog.c ---- */

/* What the core asks of virtual actors. */
extern const tri_virtual_ops tri_catalog_ops;
/* With the system's end. */
void tri_catalog_free_mail(tr_system *sys, tri_shard *shard);

/* ---- cluster.c: of tri_virtual_ops ---- */

tr_ref tri_cluster_close(tr_system *sys);
void tri_cluster_count(tr_system *sys, tr_metrics_snapshot *out);
void tri_cluster_hosted(tr_system *sys, char *out, size_t size);
void tri_cluster_free(tr_system *sys);

#endif
