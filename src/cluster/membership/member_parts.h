/*
 * member_parts.h - what the files of the membership call of each other.
 *
 * Threads: the membership's own.
 */
#ifndef TRI_CLUSTER_MEMBERSHIP_MEMBER_PARTS_H
#define TRI_CLUSTER_MEMBERSHIP_MEMBER_PARTS_H

#include "cluster/membership/membership.h"

/* ---- membership.c ---- */

tri_member_state tri_member_state_of(const tri_membership *it);
void tri_member_set_state(tri_membership *it, tri_member_state state);
/* True if the node has a record that it must renew. */
bool tri_member_has_lease(const tri_membership *it);
/* Keeps a reason for tri_membership_why. */
void tri_member_set_why(tri_membership *it, const char *text);
/* Submits the task's operation; its answer is taken by the thread. */
void tri_member_task_submit(tri_member_task *task, tr_nanos now);

/* ---- member_own.c ---- */

/* Returns the time between two renewals. */
tr_nanos tri_member_renewal_span(const tri_membership *it);
/* Does what is due: the end of the lease, a step to leave, join or renew. */
void tri_member_own_step(tri_membership *it, tr_nanos now);
void tri_member_own_answered(tri_membership *it, tr_nanos now);
/* Learns from a read whether the CAS with an unknown answer was committed. */
void tri_member_own_resolve(tri_membership *it, tr_nanos now);
/* Stops acting for the cluster and calls calls->left. Writes no record. */
void tri_member_own_end(tri_membership *it);

/* ---- member_read.c ---- */

void tri_member_read_step(tri_membership *it, tr_nanos now);
void tri_member_read_answered(tri_membership *it, tr_nanos now);
/* Tells a new view, if the table has changed; later if there is no memory. */
void tri_member_publish(tri_membership *it);

/* ---- member_write.c ---- */

/* Writes what the table needs: deaths, owners, hand-overs. */
void tri_member_write_step(tri_membership *it, tr_nanos now);
void tri_member_write_answered(tri_membership *it);
/* True if a leaving node has no shards to give away. */
bool tri_member_is_empty(const tri_membership *it);

#endif
