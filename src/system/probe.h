/*
 * probe.h - the open probes of a system. What a probe is: core/ask/probe.h.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_PROBE_H
#define TRI_SYSTEM_PROBE_H

#include <stdbool.h>

#include "base/list.h"
#include "base/lock.h"
#include "troupe/base.h"

/* Part of tri_layers. */
typedef struct tri_probes {
    tri_lock lock;
    tri_list open;  // tr_probe, by its link
} tri_probes;

/* Returns true if a probe is open: it must be freed before its system. */
bool tri_probes_are_open(tr_system *sys);
/*
 * Frees the probes that are still open, for a simulated program that has ended
 * without freeing them.
 */
void tri_probes_free_all(tr_system *sys);

#endif
