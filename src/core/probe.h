/*
 * probe.h - a probe is an outside mailbox with a name for it.
 */
#ifndef TRI_CORE_PROBE_H
#define TRI_CORE_PROBE_H

#include "core/runtime.h"
#include "troupe/test.h"

struct tr_probe {
    uint64_t magic;
    tri_mailbox box;
    tri_node *last;  // borrowed by the caller until the next call
};

/* Frees what is left in an outside mailbox. Takes node. */
void tri_mailbox_drop(tri_worker *worker, tr_ref self, tri_node *node);
void tri_probe_unwatch_all(tr_probe *probe);
tri_world *tri_from_world(tr_from from);

#endif
