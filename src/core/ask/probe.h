/*
 * probe.h - a probe: the mailbox with which a test takes part in a system.
 *
 * Threads: the thread that opened the probe.
 */
#ifndef TRI_CORE_ASK_PROBE_H
#define TRI_CORE_ASK_PROBE_H

#include "base/list.h"
#include "core/ask/outside_box.h"
#include "core/types.h"

#define TRI_PROBE_MAGIC UINT64_C(0x7072625472a1d003)

struct tr_probe {
    uint64_t magic;  // first: tri_from_system tells a probe by it
    tri_outside_box box;
    tri_item *last;  // the caller borrows it until the next call
    tri_link link;   // in the list of open probes: system/probe.c
};

#endif
