/*
 * directory.c - places in memory, a lock for each shard.
 *
 * Invariant: load[n] is the number of places with node n in all shards; both
 * change under the lock of the place's shard.
 */
#include "cluster/directory.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

typedef struct entry {
    tri_place place;
    size_t size;
    char text[];
} entry;

static bool entry_is(const void *value, const void *key, size_t size)
{
    const entry *e = value;
    return e->size == size && memcmp(e->text, key, size) == 0;
}

/* From malloc, counted by the fault hook; not cleared. */
static void *take(void *mem, size_t size)
{
    return tri_mem_should_fail(mem) ? NULL : malloc(size);
}

static void table_free(void *user, void *at, size_t size)
{
    (void)user, (void)size;
    free(at);
}

void tri_directory_init(tri_directory *directory, tri_mem *mem, uint32_t node)
{
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    memset(directory, 0, sizeof(*directory));
    directory->mem = mem;
    directory->memory =
        (tri_map_memory){.alloc = take, .free = table_free, .user = mem};
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        directory->shards[i].owner = node;
        directory->shards[i].epoch = 1;
        tri_map_init(&directory->shards[i].places, entry_is,
                     &directory->memory);
    }
}

static void count(tri_directory *directory, uint32_t node, uint64_t by)
{
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    // Relaxed: a number to choose by.
    atomic_fetch_add_explicit(&directory->load[node], by, memory_order_relaxed);
}

static void forget_all(tri_directory *directory, tri_directory_shard *shard)
{
    entry *e;
    for (tri_map_iter it = tri_map_iter_begin(&shard->places);
         (e = tri_map_iter_next(&shard->places, &it)) != NULL;) {
        count(directory, e->place.node, UINT64_MAX);
        free(e);
    }
    tri_map_fini(&shard->places);
}

void tri_directory_fini(tri_directory *directory)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        forget_all(directory, &directory->shards[i]);
    }
}

uint32_t tri_shard_of(const char *text, size_t size)
{
    return (uint32_t)(tri_hash_bytes(text, size) % TRI_SHARDS);
}

uint32_t tri_shard_owner(tri_directory *directory, uint32_t shard,
                         uint64_t *epoch)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_directory_shard *s = &directory->shards[shard];
    tri_lock_take(&s->lock);
    uint32_t owner = s->owner;
    if (epoch != NULL) {
        *epoch = s->epoch;
    }
    tri_lock_drop(&s->lock);
    return owner;
}

void tri_shard_move(tri_directory *directory, uint32_t shard, uint32_t node)
{
    TRI_CHECK(shard < TRI_SHARDS);
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    tri_directory_shard *s = &directory->shards[shard];
    tri_lock_take(&s->lock);
    s->owner = node;
    s->epoch++;
    forget_all(directory, s);
    tri_lock_drop(&s->lock);
}

bool tri_shard_set(tri_directory *directory, uint32_t shard, uint32_t node,
                   uint64_t epoch)
{
    TRI_CHECK(shard < TRI_SHARDS);
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    tri_directory_shard *s = &directory->shards[shard];
    tri_lock_take(&s->lock);
    bool newer = epoch > s->epoch;
    if (newer) {
        s->owner = node;
        s->epoch = epoch;
        s->given = 0;
        forget_all(directory, s);
    }
    tri_lock_drop(&s->lock);
    return newer;
}

uint64_t tri_directory_forget(tri_directory *directory, uint32_t node)
{
    uint64_t forgotten = 0;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_directory_shard *s = &directory->shards[i];
        entry *e;
        tri_lock_take(&s->lock);
        for (tri_map_iter it = tri_map_iter_begin(&s->places);
             (e = tri_map_iter_next(&s->places, &it)) != NULL;) {
            if (e->place.node == node) {
                tri_map_remove_bytes(&s->places, e->text, e->size);
                count(directory, node, UINT64_MAX);
                forgotten++;
                free(e);
            }
        }
        tri_lock_drop(&s->lock);
    }
    return forgotten;
}

void tri_directory_set_life(tri_directory *directory, uint32_t node,
                            uint64_t life)
{
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    // Relaxed: read by tri_directory_assign, which says why.
    uint64_t earlier = atomic_exchange_explicit(&directory->lives[node], life,
                                                memory_order_relaxed);
    if (earlier != life) {
        (void)tri_directory_forget(directory, node);
    }
}

static tri_directory_shard *shard_of(tri_directory *directory, uint64_t hash)
{
    return &directory->shards[hash % TRI_SHARDS];
}

bool tri_directory_lookup(tri_directory *directory, const char *text,
                          size_t size, tri_place *out)
{
    uint64_t hash = tri_hash_bytes(text, size);
    tri_directory_shard *s = shard_of(directory, hash);
    tri_lock_take(&s->lock);
    const entry *e = tri_map_get_hashed(&s->places, hash, text, size);
    bool found = e != NULL;
    *out = found ? e->place : (tri_place){0};
    tri_lock_drop(&s->lock);
    return found;
}

uint64_t tri_directory_load(tri_directory *directory, uint32_t node)
{
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    // Relaxed: as count.
    return atomic_load_explicit(&directory->load[node], memory_order_relaxed);
}

tri_decision tri_directory_place(tri_directory *directory, const char *text,
                                 size_t size, const uint32_t *candidates,
                                 uint32_t number)
{
    tri_place place;
    TRI_CHECK(number > 0);
    if (tri_directory_lookup(directory, text, size, &place)) {
        return (tri_decision){.kind = TRI_PLACE_ALREADY, .place = place};
    }
    uint32_t best = candidates[0];
    for (uint32_t i = 1; i < number; i++) {
        if (tri_directory_load(directory, candidates[i]) <
            tri_directory_load(directory, best)) {
            best = candidates[i];
        }
    }
    return (tri_decision){.kind = TRI_PLACE_ON_NODE, .place = {.node = best}};
}

static tr_err add(tri_directory *directory, tri_directory_shard *s,
                  uint64_t hash, const char *text, size_t size, tri_place place)
{
    entry *e = take(directory->mem, sizeof(*e) + size);
    if (e == NULL) {
        return TR_ENOMEM;
    }
    e->place = place;
    e->size = size;
    memcpy(e->text, text, size);
    tr_err err = tri_map_put_hashed(&s->places, hash, text, size, e);
    if (err != TR_OK) {
        free(e);
        return err;
    }
    count(directory, place.node, 1);
    return TR_OK;
}

static bool same_place(tri_place a, tri_place b)
{
    return a.node == b.node && a.number == b.number;
}

uint32_t tri_directory_choice(tri_directory *directory, uint64_t nodes)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < TRI_DIRECTORY_NODES; i++) {
        if ((nodes >> i & 1) &&
            (best == UINT32_MAX || tri_directory_load(directory, i) <
                                       tri_directory_load(directory, best))) {
            best = i;
        }
    }
    return best;
}

tr_err tri_directory_assign(tri_directory *directory, const char *text,
                            size_t size, uint64_t nodes, uint32_t prefer,
                            tri_decision *out)
{
    uint64_t hash = tri_hash_bytes(text, size);
    tri_directory_shard *s = shard_of(directory, hash);
    tr_err err = TR_OK;
    TRI_CHECK(nodes != 0);
    tri_lock_take(&s->lock);
    const entry *e = tri_map_get_hashed(&s->places, hash, text, size);
    if (e != NULL) {
        *out = (tri_decision){.kind = TRI_PLACE_ALREADY, .place = e->place};
    } else {
        uint32_t node = prefer < TRI_DIRECTORY_NODES && (nodes >> prefer & 1)
                            ? prefer
                            : tri_directory_choice(directory, nodes);
        // Relaxed: whoever is given an older life's place asks again.
        tri_place place = {.node = node,
                           .number = s->epoch << 32 | ++s->given,
                           .life = atomic_load_explicit(&directory->lives[node],
                                                        memory_order_relaxed)};
        *out = (tri_decision){.kind = TRI_PLACE_ON_NODE, .place = place};
        err = add(directory, s, hash, text, size, place);
    }
    tri_lock_drop(&s->lock);
    return err;
}

tr_err tri_directory_register(tri_directory *directory, const char *text,
                              size_t size, tri_place place, tri_decision *out)
{
    return tri_directory_register_hashed(directory, tri_hash_bytes(text, size),
                                         text, size, place, out);
}

tr_err tri_directory_register_hashed(tri_directory *directory, uint64_t hash,
                                     const char *text, size_t size,
                                     tri_place place, tri_decision *out)
{
    tri_directory_shard *s = shard_of(directory, hash);
    tr_err err = TR_OK;
    *out = (tri_decision){.kind = TRI_PLACE_ON_NODE, .place = place};
    tri_lock_take(&s->lock);
    const entry *first = tri_map_get_hashed(&s->places, hash, text, size);
    if (first == NULL) {
        err = add(directory, s, hash, text, size, place);
    } else if (!same_place(first->place, place)) {
        *out = (tri_decision){
            .kind = TRI_PLACE_RACE, .place = first->place, .loser = place};
    }
    tri_lock_drop(&s->lock);
    return err;
}

bool tri_directory_unregister(tri_directory *directory, const char *text,
                              size_t size, tri_place place)
{
    return tri_directory_unregister_hashed(
        directory, tri_hash_bytes(text, size), text, size, place);
}

bool tri_directory_unregister_hashed(tri_directory *directory, uint64_t hash,
                                     const char *text, size_t size,
                                     tri_place place)
{
    tri_directory_shard *s = shard_of(directory, hash);
    tri_lock_take(&s->lock);
    entry *e = tri_map_get_hashed(&s->places, hash, text, size);
    bool is_it = e != NULL && same_place(e->place, place);
    if (is_it) {
        tri_map_remove_hashed(&s->places, hash, text, size);
        count(directory, place.node, UINT64_MAX);
    }
    tri_lock_drop(&s->lock);
    if (is_it) {
        free(e);
    }
    return is_it;
}
