/*
 * system.h - the memory of a system, and what is called when it is gone.
 */
#ifndef TRI_SYSTEM_SYSTEM_H
#define TRI_SYSTEM_SYSTEM_H

#include "base/lock.h"
#include "core/up.h"
#include "troupe/base.h"
#include "troupe/system.h"

/* Part of tri_layers: calls of tr_system_on_closed. */
typedef struct tri_closed_calls {
    tri_lock lock;  // a leaf, for the list
    struct tri_closed_call *newest;
} tri_closed_calls;

/* Opens a system, as tr_system_open does. The cluster layer gives the name. */
TR_NODISCARD tr_err tri_system_open(tr_system **out,
                                    const tr_system_options *options,
                                    tri_virtual_named *virtual_named);

/*
 * Frees the system and everything it owns, then makes the calls of
 * tr_system_on_closed. Its threads and actors must be gone; parts of it may
 * be missing if it could not be opened.
 */
void tri_system_free(tr_system *sys);

#endif
