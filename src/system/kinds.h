/*
 * kinds.h - the numbers of each kind of actor, for tr_metrics.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_KINDS_H
#define TRI_SYSTEM_KINDS_H

#include "base/text.h"
#include "core/runtime.h"

/* How many numbers of kinds are in use, "(others)" among them. */
uint32_t tri_kind_count(tr_system *sys);
/* The sums of one; false: it has had no actor. */
bool tri_kind_sum(tr_system *sys, uint32_t kind, tr_kind_metrics *out);
/* Calls of handlers, of all kinds. */
uint64_t tri_messages_count(tr_system *sys);
/*
 * All of them as Prometheus text, each metric with its kinds together; label
 * is the system's name as it is written in one.
 */
void tri_kinds_write(tri_text *text, tr_system *sys, const char *label);

#endif
