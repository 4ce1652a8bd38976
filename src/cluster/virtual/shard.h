/*
 * shard.h - shards: the parts that virtual actors are divided into by name.
 *
 * The hash of an actor's name picks its shard, the same one on every node. The
 * catalog keeps the names of a shard in a tri_shard. The owner of a shard is
 * the node that hosts its actors (lane.h); a system without other nodes owns
 * all of them.
 *
 * Locks: tri_shard.lock guards the names of the shard, the fields of its
 * records that say so, and the beginning and the end of activations. Under it
 * may be taken: the family lock of a guardian, the locks of kinds,
 * arenas and load queue, and those of scheduling.
 */
#ifndef TRI_CLUSTER_SHARD_H
#define TRI_CLUSTER_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"

enum { TRI_SHARDS = 4096 };

struct tri_virtual;

/* What the catalog keeps of a shard. */
typedef struct tri_shard {
    tri_lock lock;
    bool is_open;               // actors may begin here: this node owns it
    uint64_t epoch;             // one more for each change of the owner
    uint32_t owner;             // its slot; of a system with a bus
    tri_map names;              // text -> tri_virtual
    uint64_t names_added;       // how many so far; never decreases
    struct tri_virtual *spare;  // records without a name
    tri_list activations;       // of tri_activation, oldest first
    _Atomic(uint32_t) active;   // length of that list; read without the lock
} tri_shard;

/* Returns the number of the shard of an actor with this name. */
static inline uint32_t tri_shard_of(const char *text, size_t size)
{
    TRI_CHECK(text != NULL);
    return (uint32_t)(tri_hash_bytes(text, size) % TRI_SHARDS);
}

#endif
