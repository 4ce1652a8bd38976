/*
 * tree.h - visiting all actors of a running system.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_TREE_H
#define TRI_SYSTEM_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"
#include "troupe/base.h"

/* Returns false to end the visit. The lock of cell's parent is held. */
typedef bool (*tri_visit_fn)(void *user, tri_cell *cell, uint32_t depth);

/* Calls fn for each living actor, parents before their children. */
void tri_visit(tr_system *sys, tri_visit_fn fn, void *user);

#endif
