/*
 * ownership.h - what this node may do for the actors of a shard: functions of
 * tri_virtual_ops, which says what each of them returns.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_OWNERSHIP_H
#define TRI_CLUSTER_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

uint64_t tri_ownership_load_fence(tr_ctx *ctx);
bool tri_ownership_has_lease(tr_system *sys);
uint64_t tri_ownership_reminds(tr_system *sys, uint32_t index, const char *kind,
                               size_t size);

#endif
