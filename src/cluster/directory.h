/*
 * directory.h - which node has a virtual actor active.
 *
 * An id belongs to one of TRI_SHARDS shards, and each shard to a node, its
 * owner, with an epoch that grows when the owner changes. This is the memory
 * of the owner: at most one place per id, the first registration wins, each
 * call is one step (DI1 to DI5, DI8 to DI10, DI12). Where all shards are this
 * node's, as in a system without a cluster, it is the whole directory.
 *
 * Threads: any. Ownership: ids are copied.
 */
#ifndef TRI_CLUSTER_DIRECTORY_H
#define TRI_CLUSTER_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/map.h"
#include "cluster/id.h"
#include "core/mem.h"

enum {
    TRI_SHARDS = 4096,
    TRI_DIRECTORY_NODES = 64,  // numbers of nodes are below this
};

/*
 * One activation; `number` tells those of one id apart, and only grows. It is
 * of one life of its node: the next one has nothing of it.
 */
typedef struct tri_place {
    uint32_t node;
    uint64_t number;
    uint64_t life;
} tri_place;

typedef enum tri_placement {
    TRI_PLACE_ALREADY = 1,  // it is there: forward
    TRI_PLACE_ON_NODE,      // it is nowhere: activate there
    TRI_PLACE_RACE,         // another was first: drop ours, forward
} tri_placement;

typedef struct tri_decision {
    tri_placement kind;
    tri_place place;  // where it is or should be; the winner of a race
    tri_place loser;  // of a race
} tri_decision;

typedef struct tri_directory_shard {
    tri_lock lock;
    uint32_t owner;
    uint32_t given;  // numbers of places in this epoch
    uint64_t epoch;
    tri_map places;
} tri_directory_shard;

/* Visible because its owner embeds it. */
typedef struct tri_directory {
    tri_mem *mem;                                  // borrowed: the system's
    tri_map_memory memory;                         // of the maps: from mem, too
    _Atomic(uint64_t) load[TRI_DIRECTORY_NODES];   // places on each node
    _Atomic(uint64_t) lives[TRI_DIRECTORY_NODES];  // of those that have greeted
    tri_directory_shard shards[TRI_SHARDS];
} tri_directory;

/* All shards belong to the node, with epoch 1. */
void tri_directory_init(tri_directory *directory, tri_mem *mem, uint32_t node);
void tri_directory_fini(tri_directory *directory);

uint32_t tri_shard_of(const char *text, size_t size);
/* Who owns the shard; *epoch may be NULL. */
uint32_t tri_shard_owner(tri_directory *directory, uint32_t shard,
                         uint64_t *epoch);
/* The shard has a new owner: one epoch more, and its places are forgotten. */
void tri_shard_move(tri_directory *directory, uint32_t shard, uint32_t node);

/*
 * What a view says: the shard is that node's, with that epoch. False: a later
 * epoch is known already, and nothing has changed. As tri_shard_move.
 */
bool tri_shard_set(tri_directory *directory, uint32_t shard, uint32_t node,
                   uint64_t epoch);

/* False: it is active nowhere. */
bool tri_directory_lookup(tri_directory *directory, const char *text,
                          size_t size, tri_place *out);
/*
 * Where it is, or where it should be: of the candidates (at least one) the
 * one with the fewest places, of equals the first. Registers nothing.
 */
tri_decision tri_directory_place(tri_directory *directory, const char *text,
                                 size_t size, const uint32_t *candidates,
                                 uint32_t count);
/*
 * Where it is, or from now on: of the nodes whose bits are set (at least one)
 * the preferred one, else the one with the fewest places. Both steps are one.
 * The number is larger than all before it of this shard. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_directory_assign(tri_directory *directory,
                                         const char *text, size_t size,
                                         uint64_t nodes, uint32_t prefer,
                                         tri_decision *out);
/* Of the nodes whose bits are set (at least one), the one of that choice. */
uint32_t tri_directory_choice(tri_directory *directory, uint64_t nodes);
/*
 * Places are given to this life of the node from now on; those of an earlier
 * one are forgotten.
 */
void tri_directory_set_life(tri_directory *directory, uint32_t node,
                            uint64_t life);
/* The node is gone: so are its places. How many there were. */
uint64_t tri_directory_forget(tri_directory *directory, uint32_t node);
/*
 * ON_NODE: it is registered now, or was already, in this very place. RACE:
 * another place was first; nothing has changed. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_directory_register(tri_directory *directory,
                                           const char *text, size_t size,
                                           tri_place place, tri_decision *out);
/* False: that place is not the registered one; nothing has changed. */
bool tri_directory_unregister(tri_directory *directory, const char *text,
                              size_t size, tri_place place);

/* Both for one who knows the hash of the text, by tri_hash_bytes. */
TR_NODISCARD tr_err tri_directory_register_hashed(tri_directory *directory,
                                                  uint64_t hash,
                                                  const char *text, size_t size,
                                                  tri_place place,
                                                  tri_decision *out);
bool tri_directory_unregister_hashed(tri_directory *directory, uint64_t hash,
                                     const char *text, size_t size,
                                     tri_place place);

uint64_t tri_directory_load(tri_directory *directory, uint32_t node);

#endif
