/*
 * supervise.h - what a parent does about a child that has failed.
 */
#ifndef TRI_CORE_LIFE_SUPERVISE_H
#define TRI_CORE_LIFE_SUPERVISE_H

#include "core/types.h"

/*
 * Decides what happens to a child whose notice of failure has arrived, and
 * sends the decision to the child, which may be gone when this returns. Only a
 * turn of the parent may call it.
 */
void tri_supervise(tr_ctx *parent, tri_cell *child);

/*
 * Sets the fields that are 0 to their defaults. Returns NULL, or which field is
 * out of its range; static. Any thread.
 */
const char *tri_supervision_fill(tr_supervision *policy);

/*
 * Returns the policy for an actor: its own; else, for a child of /user, the one
 * in the options of /user; else the system's. The caller keeps the cell
 * alive; any thread.
 */
const tr_supervision *tri_supervision_of(tr_system *sys, tri_cell *cell);

#endif
