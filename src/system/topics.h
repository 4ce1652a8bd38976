/*
 * topics.h - named groups of actors that messages are published to.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_TOPICS_H
#define TRI_SYSTEM_TOPICS_H

#include <stdint.h>

#include "base/lock.h"
#include "base/map.h"
#include "troupe/base.h"

/* Part of tri_layers. */
typedef struct tri_topics {
    tri_lock lock;            // a leaf, for the map and its topics
    tri_map by_name;          // name -> topic, only those with members
    _Atomic(uint32_t) count;  // of the map, readable without the lock
} tri_topics;

void tri_topics_init(tri_topics *topics);
/* Removes an actor, which restarts or ends, from all topics. */
void tri_topics_leave_all(tr_system *sys, tr_ref ref);
void tri_topics_free(tr_system *sys);

#endif
