/*
 * shared.h - objects that all systems of a world share, by name.
 *
 * A world has one table of them (tri_world_ops.shared): in the real world the
 * process has one table, in a simulation the simulated nodes share one. An
 * object ends when its last user drops it; the objects of a simulated world
 * stay until that world ends, because they stand for a server that outlives
 * every node.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_SHARED_H
#define TRI_BASE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

typedef struct tri_shared_object {
    struct tri_shared_object *next;
    const char *name;  // the object's own, unchanged while it is in a table
    uint32_t holds;
    void (*free)(struct tri_shared_object *object);
} tri_shared_object;

/* A table whose bytes are all zero is empty. */
typedef struct tri_shared {
    tri_lock lock;  // over the list and the counts of its objects
    bool keeps;     // objects without users stay
    tri_shared_object *first;
} tri_shared;

/*
 * Returns the object with the name of `made`, held for the caller. Adds `made`
 * if there is none, and frees it otherwise.
 */
tri_shared_object *tri_shared_hold(tri_shared *shared, tri_shared_object *made);
/* Gives back what tri_shared_hold returned. */
void tri_shared_drop(tri_shared *shared, tri_shared_object *object);
/* Frees all objects, whoever holds them. */
void tri_shared_fini(tri_shared *shared);

#endif
