/*
 * auto_stop.c - counts the handles of an actor and ends it with the last one.
 *
 * Threads: any. tri_ext.handles has the number of handles, and the bit
 * TRI_HANDLES_AUTO_STOP if that number matters.
 *
 * Invariant: an actor with auto_stop has its extension from the spawn on, and
 * the holder of a handle keeps it alive.
 */
#include "core/life/auto_stop.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/system.h"

tr_handle(tr_handle_hold)(tr_from from, tr_ref ref)
{
    tri_caller caller = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (tri_ref_is_here(caller.sys, ref)) {
        // Acquire: pairs with tri_ext_make.
        tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
        // Relaxed: the caller has a handle, so the id does not change.
        if (ext != NULL &&
            atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id) {
            // Relaxed: nothing is published with the number.
            uint32_t before = atomic_fetch_add_explicit(&ext->handles, 1,
                                                        memory_order_relaxed);
            TRI_CHECK(before < UINT32_MAX);
        }
    }
    tri_leave(&caller);
    return (tr_handle){ref};
}

void(tr_handle_drop)(tr_from from, tr_ref ref)
{
    bool last = false;
    tri_caller caller = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (tri_ref_is_here(caller.sys, ref)) {
        // Acquire: pairs with tri_ext_make.
        tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
        // Acquire and release: the last drop sees what came before the others.
        last =
            ext != NULL &&
            atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id &&
            atomic_fetch_sub_explicit(&ext->handles, 1, memory_order_acq_rel) ==
                (TRI_HANDLES_AUTO_STOP | 1);
    }
    tri_leave(&caller);
    if (last) {
        (tr_poison)(from, ref);
    }
}
