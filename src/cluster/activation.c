/*
 * activation.c - the states of an activation and the ways between them.
 *
 *   CREATING -> ACTIVATING -> VALID -> DEACTIVATING -> INVALID
 *                    \-----------------^
 *
 * The table is the whole truth; nothing goes back, and INVALID is the end of
 * an activation (AC1, AC3). The record of the name then waits for the next.
 *
 *   CREATING      the cell is open: mail waits in its own mailbox
 *   ACTIVATING    the state is loaded, pre_start runs
 *   VALID         messages run; a restart after a failure is part of this
 *   DEACTIVATING  the mailbox is closed, hooks run; mail waits in the record
 *   INVALID       not in the directory; a message begins a new activation
 *
 * Into CREATING and INVALID goes whoever holds the shard's lock, into the
 * others the owner of the cell.
 */
#include "base/check.h"
#include "cluster/catalog.h"

#define BIT(state) (UINT32_C(1) << TRI_ACTIVATION_##state)

static const uint32_t legal[] = {
    [TRI_ACTIVATION_NONE] = BIT(CREATING),
    [TRI_ACTIVATION_CREATING] = BIT(ACTIVATING) | BIT(DEACTIVATING),
    [TRI_ACTIVATION_ACTIVATING] = BIT(VALID) | BIT(DEACTIVATING),
    [TRI_ACTIVATION_VALID] = BIT(DEACTIVATING),
    [TRI_ACTIVATION_DEACTIVATING] = BIT(INVALID),
    [TRI_ACTIVATION_INVALID] = 0,
};

bool tri_activation_legal(tri_activation from, tri_activation to)
{
    return (unsigned)from < TRI_COUNT_OF(legal) &&
           (legal[from] & (UINT32_C(1) << to)) != 0;
}

const char *tri_activation_name(tri_activation state)
{
    static const char *const names[] = {"NONE",  "CREATING",     "ACTIVATING",
                                        "VALID", "DEACTIVATING", "INVALID"};
    return (unsigned)state < TRI_COUNT_OF(names) ? names[state] : "UNKNOWN";
}

tri_activation tri_activation_of(tri_virtual *v)
{
    // Relaxed: under the lock, by the owner, or a look from outside.
    return (tri_activation)atomic_load_explicit(&v->state,
                                                memory_order_relaxed);
}

void tri_activation_set(tri_virtual *v, tri_activation state)
{
    tri_activation before = tri_activation_of(v);
    if (state == TRI_ACTIVATION_CREATING && before == TRI_ACTIVATION_INVALID) {
        before = TRI_ACTIVATION_NONE;  // another activation begins
    }
    TRI_CHECK(tri_activation_legal(before, state));
    // Relaxed: as above.
    atomic_store_explicit(&v->state, (uint8_t)state, memory_order_relaxed);
}

void tri_activation_follow(tri_virtual *v, tr_state life)
{
    tri_activation now = tri_activation_of(v);
    if (life == TR_STATE_STARTING && now == TRI_ACTIVATION_CREATING) {
        tri_activation_set(v, TRI_ACTIVATION_ACTIVATING);
    } else if (life == TR_STATE_RUNNING && now == TRI_ACTIVATION_ACTIVATING) {
        tri_activation_set(v, TRI_ACTIVATION_VALID);
    } else if (life == TR_STATE_STOPPING) {
        tri_activation_set(v, TRI_ACTIVATION_DEACTIVATING);
    }
}
