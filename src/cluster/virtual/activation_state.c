/*
 * activation_state.c - the states of an activation and the steps between them.
 *
 *   CREATING -> ACTIVATING -> VALID -> DEACTIVATING -> INVALID
 *                    \-----------------^
 *
 * The table `legal` has every step. No step leads back, and INVALID ends an
 * activation; the record of the name stays and waits for the next one.
 *
 *   CREATING      the mailbox is open and collects mail
 *   ACTIVATING    the stored state is loaded, pre_start runs
 *   VALID         messages run; a restart after a failure is part of this
 *   DEACTIVATING  the mailbox is closed, hooks run; mail waits in the record
 *   INVALID       it has ended; a message begins a new activation
 *
 * CREATING and INVALID are set under the shard's lock, the other states by the
 * owner of the cell.
 */
#include "cluster/virtual/activation_state.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "cluster/virtual/virtual.h"

#define BIT(state) (UINT32_C(1) << TRI_ACTIVATION_##state)

static const uint32_t legal[] = {
    [TRI_ACTIVATION_NONE] = BIT(CREATING),
    [TRI_ACTIVATION_CREATING] = BIT(ACTIVATING) | BIT(DEACTIVATING),
    [TRI_ACTIVATION_ACTIVATING] = BIT(VALID) | BIT(DEACTIVATING),
    [TRI_ACTIVATION_VALID] = BIT(DEACTIVATING),
    [TRI_ACTIVATION_DEACTIVATING] = BIT(INVALID),
    [TRI_ACTIVATION_INVALID] = 0,
};

bool tri_activation_state_is_legal(tri_activation_state from,
                                   tri_activation_state to)
{
    return (unsigned)from < TRI_COUNT_OF(legal) &&
           (unsigned)to < TRI_COUNT_OF(legal) &&
           (legal[from] & (UINT32_C(1) << to)) != 0;
}

const char *tri_activation_state_name(tri_activation_state state)
{
    static const char *const names[] = {"NONE",  "CREATING",     "ACTIVATING",
                                        "VALID", "DEACTIVATING", "INVALID"};
    return (unsigned)state < TRI_COUNT_OF(names) ? names[state] : "UNKNOWN";
}

tri_activation_state tri_activation_state_of(tri_virtual *v)
{
    TRI_CHECK(v != NULL);
    // Relaxed: the caller holds the lock, owns the cell, or only looks.
    return (tri_activation_state)atomic_load_explicit(&v->state,
                                                      memory_order_relaxed);
}

void tri_activation_state_set(tri_virtual *v, tri_activation_state state)
{
    tri_activation_state before = tri_activation_state_of(v);
    if (state == TRI_ACTIVATION_CREATING && before == TRI_ACTIVATION_INVALID) {
        before = TRI_ACTIVATION_NONE;  // another activation begins
    }
    TRI_CHECK(tri_activation_state_is_legal(before, state));
    // Relaxed: as in tri_activation_state_of.
    atomic_store_explicit(&v->state, (uint8_t)state, memory_order_relaxed);
}

void tri_activation_state_follow(tri_virtual *v, tr_state actor_state)
{
    tri_activation_state now = tri_activation_state_of(v);
    TRI_CHECK(now != TRI_ACTIVATION_NONE && now != TRI_ACTIVATION_INVALID);
    if (actor_state == TR_STATE_STARTING && now == TRI_ACTIVATION_CREATING) {
        tri_activation_state_set(v, TRI_ACTIVATION_ACTIVATING);
    } else if (actor_state == TR_STATE_RUNNING &&
               now == TRI_ACTIVATION_ACTIVATING) {
        tri_activation_state_set(v, TRI_ACTIVATION_VALID);
    } else if (actor_state == TR_STATE_STOPPING) {
        tri_activation_state_set(v, TRI_ACTIVATION_DEACTIVATING);
    }
}
