/*
 * view.c - makes, shares and frees views of the cluster.
 *
 * Invariant: whoever has a pointer to a view is counted in `holds`, so the
 * last one frees it.
 */
#include "cluster/membership/view.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"

tri_view *tri_view_new(uint64_t revision, uint32_t slots)
{
    TRI_CHECK(slots <= TRI_NODES_MAX);
    tri_view *view =
        calloc(1, sizeof(*view) + slots * sizeof(view->members[0]));
    if (view == NULL) {
        return NULL;
    }
    view->revision = revision;
    view->slots = slots;
    // Relaxed: nobody else has it yet.
    atomic_store_explicit(&view->holds, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        view->shards[i].node.slot = TRI_NODE_NONE;
        view->shards[i].next = TRI_NODE_NONE;
    }
    return view;
}

tri_view *tri_view_hold(tri_view *view)
{
    // Relaxed: the caller has a hold already.
    uint32_t before =
        atomic_fetch_add_explicit(&view->holds, 1, memory_order_relaxed);
    TRI_CHECK(before > 0);
    return view;
}

void tri_view_drop(tri_view *view)
{
    if (view == NULL) {
        return;
    }
    // Release and acquire: the last holder sees what the others have read.
    uint32_t before =
        atomic_fetch_sub_explicit(&view->holds, 1, memory_order_acq_rel);
    TRI_CHECK(before > 0);
    if (before == 1) {
        free(view);
    }
}

bool tri_view_has(const tri_view *view, tri_node node)
{
    TRI_CHECK(view != NULL);
    return node.slot < view->slots && node.incarnation != 0 &&
           view->members[node.slot].incarnation == node.incarnation;
}
