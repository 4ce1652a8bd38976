/*
 * kind_metrics.h - the numbers of each kind of actor, for tr_metrics.
 *
 * Kinds are numbered by their names (core/cell/tally.h); number 0 is
 * "(others)", for names beyond the limit.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_KIND_METRICS_H
#define TRI_SYSTEM_KIND_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "troupe/base.h"
#include "troupe/observe.h"

/* Returns how many numbers of kinds are in use, "(others)" included. */
uint32_t tri_kind_count(tr_system *sys);
/* Adds up one kind. Returns false if the kind has had no actor. */
bool tri_kind_sum(tr_system *sys, uint32_t kind, tr_kind_metrics *out);
/* Returns the calls of handlers of all kinds. */
uint64_t tri_messages_count(tr_system *sys);
/*
 * Writes all kinds as Prometheus text, grouped by metric. label is the
 * system's name, escaped.
 */
void tri_kinds_write(tri_text *text, tr_system *sys, const char *label);

#endif
