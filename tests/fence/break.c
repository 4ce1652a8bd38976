/*
 * break.c - the only file of the fence test that knows internals.
 */
#include "break.h"

#include <string.h>

#include "cluster/join/cluster_node.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/fence_break.h"

bool break_of_name(const char *name, uint32_t *parts)
{
    static const struct {
        const char *name;
        uint32_t part;
    } known[] = {{"", 0},
                 {"load", TRI_FENCE_BREAK_LOAD},
                 {"epoch", TRI_FENCE_BREAK_EPOCH},
                 {"lease", TRI_FENCE_BREAK_LEASE}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) == 0) {
            *parts = known[i].part;
            return true;
        }
    }
    return false;
}

void break_fence(tr_system *sys, uint32_t parts)
{
    tri_cluster_node *node = tri_cluster_node_of(sys);
    tri_fence_break_set(&node->cluster->fence_break, parts);
    tri_fence_break_set(&node->membership->fence_break, parts);
}
