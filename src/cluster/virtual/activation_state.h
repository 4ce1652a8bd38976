/*
 * activation_state.h - the states of an activation and the steps between them.
 *
 * Threads: a holder of the lock of the record's shard, or the owner of its
 * cell; activation_state.c says which states each of them sets.
 */
#ifndef TRI_CLUSTER_ACTIVATION_STATE_H
#define TRI_CLUSTER_ACTIVATION_STATE_H

#include <stdbool.h>

#include "troupe/supervise.h"

struct tri_virtual;

typedef enum tri_activation_state {
    TRI_ACTIVATION_NONE,  // the name was never active
    TRI_ACTIVATION_CREATING,
    TRI_ACTIVATION_ACTIVATING,
    TRI_ACTIVATION_VALID,
    TRI_ACTIVATION_DEACTIVATING,
    TRI_ACTIVATION_INVALID,  // the last activation has ended
} tri_activation_state;

/* True if an activation may go from one state directly to the other. */
bool tri_activation_state_is_legal(tri_activation_state from,
                                   tri_activation_state to);
const char *tri_activation_state_name(tri_activation_state state);
tri_activation_state tri_activation_state_of(struct tri_virtual *v);
/* Changes the state; a check fails if the step is not legal. */
void tri_activation_state_set(struct tri_virtual *v,
                              tri_activation_state state);
/* Follows the state that the actor in the cell has reached. */
void tri_activation_state_follow(struct tri_virtual *v, tr_state actor_state);

#endif
