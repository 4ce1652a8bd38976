/*
 * types.h - names of the core's structs, for headers that use only pointers.
 *
 * A struct is defined in the header of its noun: tri_cell in cell/cell.h.
 */
#ifndef TRI_CORE_TYPES_H
#define TRI_CORE_TYPES_H

#include "troupe/actor.h"  // IWYU pragma: export

typedef struct tri_behaviour tri_behaviour;
typedef struct tri_caller tri_caller;
typedef struct tri_cell tri_cell;
typedef struct tri_child_end tri_child_end;
typedef struct tri_ext tri_ext;
typedef struct tri_failure tri_failure;
typedef struct tri_heap_block tri_heap_block;
typedef struct tri_item tri_item;
typedef struct tri_join tri_join;
typedef struct tri_pool tri_pool;
typedef struct tri_props tri_props;
typedef struct tri_scratch tri_scratch;
typedef struct tri_user_timer tri_user_timer;
typedef struct tri_wait tri_wait;
typedef struct tri_watch tri_watch;
typedef struct tri_watching tri_watching;
typedef struct tri_worker tri_worker;

#endif
