/*
 * top_level.h - actors of the program beside /user (tr_top_level).
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_TOP_LEVEL_H
#define TRI_SYSTEM_TOP_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "troupe/base.h"

enum { TRI_TOP_LEVELS_MAX = 32 };  // extra top levels of a system

/* Part of tri_layers. */
typedef struct tri_top_levels {
    tri_lock lock;   // a leaf, for the rest
    bool closed;     // the tree is in use: no more can be added
    uint32_t count;  // of refs, the oldest first
    tr_ref refs[TRI_TOP_LEVELS_MAX];  // nobody: the spawn has failed
} tri_top_levels;

/* Refuses further calls of tr_top_level. */
void tri_top_levels_close(tr_system *sys);

#endif
