/*
 * names.c - the names of virtual actors, those that stay and those that pass.
 *
 * Rule 33: a name that somebody has a ref of is kept for the system's life,
 * because nobody says when the last copy of a ref is gone. Where keys have no
 * end (sessions, orders) that would be a leak by design; so a send by name
 * makes a record that passes. It is this name's while any of these is true:
 *
 *   kept            tr_virtual has given its ref away
 *   holds > 0       a sender by name is on its way to it
 *   active          there is an activation
 *   waits           it stands in line for one
 *   pending, handed mail waits for the next one, or for the bus
 *   front           stateless workers stand behind it
 *   a bus           other nodes know the name, and send it back
 *
 * After that it leaves the table and the record waits in its shard, without a
 * name. It never leaves the shard: a late sender, who has a ref that was good
 * once, finds the right lock by it and another id behind it, and its message
 * is a dead letter, as with any actor that is gone (rule 32).
 *
 * Invariant: the mailboxes of a record without a name are closed, and its id
 * is 0; both change under the shard's lock only.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/pages.h"
#include "cluster/bus.h"

enum {
    ARENA_SIZE = 256 << 10,  // the first one
    ARENA_LARGE = 8 << 20,   // the others: with huge pages, if there are
    RECORD_ALIGN = 64,
    TEXT_STEP = 32,  // room for texts of passing names is reused
};

static bool name_is(const void *value, const void *key, size_t size)
{
    const tri_virtual *v = value;
    return v->size == size && memcmp(v->text, key, size) == 0;
}

/* ---- memory ---- */

static void *take(tri_cluster *cluster, tri_arena **list, size_t size)
{
    if (tri_mem_should_fail(&cluster->sys->mem)) {
        return NULL;
    }
    tri_lock_take(&cluster->arena_lock);
    tri_arena *arena = *list;
    if (arena == NULL || arena->size - arena->used < size) {
        size_t room = arena == NULL ? ARENA_SIZE : ARENA_LARGE;
        arena = tri_pages_map(room);
        if (arena != NULL) {
            if (room == ARENA_LARGE) {
                tri_pages_huge(arena, room);
            }
            *arena =
                (tri_arena){.next = *list, .used = RECORD_ALIGN, .size = room};
            *list = arena;
        }
    }
    void *at = NULL;
    if (arena != NULL) {
        at = (char *)arena + arena->used;
        arena->used += size;
    }
    tri_lock_drop(&cluster->arena_lock);
    return at;
}

void *tri_names_alloc(tri_cluster *cluster, size_t size)
{
    TRI_CHECK(size <= ARENA_SIZE - RECORD_ALIGN);
    size = (size + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
    return take(cluster, &cluster->arena, size);
}

static void free_arenas(tri_arena *arena)
{
    while (arena != NULL) {
        tri_arena *next = arena->next;
        tri_pages_unmap(arena, arena->size);
        arena = next;
    }
}

void tri_names_init(tri_cluster *cluster)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_map_init(&cluster->shards[i].names, name_is, NULL);
    }
}

void tri_names_free(tri_cluster *cluster)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_map_fini(&cluster->shards[i].names);
    }
    free_arenas(cluster->arena);
    free_arenas(cluster->texts);
}

/* ---- records ---- */

/* A record that nobody has seen: closed, without a name. */
static tri_virtual *record_new(tri_cluster *cluster, uint16_t shard)
{
    tri_virtual *v = tri_names_alloc(cluster, sizeof(*v));
    if (v == NULL) {
        return NULL;
    }
    v->shard = shard;  // the rest is zero: fresh pages
    tri_cell_reset(&v->cell);
    // Relaxed, all: its ref is not known yet.
    atomic_store_explicit(&v->cell.flags, TRI_CELL_VIRTUAL,
                          memory_order_relaxed);
    atomic_store_explicit(&v->cell.sys_mail, TRI_SYS_CLOSED,
                          memory_order_relaxed);
    atomic_store_explicit(&v->cell.mail, TRI_MAIL_CLOSED, memory_order_relaxed);
    return v;
}

static bool set_text(tri_cluster *cluster, tri_virtual *v, const char *text,
                     uint16_t size, bool keep)
{
    size_t need = size + 1u;
    if (v->room < need) {
        size_t room =
            keep ? need : (need + TEXT_STEP - 1) / TEXT_STEP * TEXT_STEP;
        char *at = take(cluster, &cluster->texts, room);
        if (at == NULL) {
            return false;
        }
        v->text = at;
        v->room = (uint16_t)room;
    }
    memcpy(v->text, text, size);
    v->text[size] = '\0';
    v->size = size;
    return true;
}

/* From the shard's spare ones, or new. With the lock. */
static tri_virtual *record_take(tri_cluster *cluster, tri_shard *shard,
                                const tri_actor_id *id, uint64_t hash,
                                bool keep)
{
    tri_virtual *v = shard->spare;
    if (v != NULL) {
        shard->spare = v->spare_next;
        v->spare_next = NULL;
    } else {
        v = record_new(cluster, (uint16_t)(hash % TRI_SHARDS));
    }
    if (v == NULL || !set_text(cluster, v, id->text, id->size, keep)) {
        if (v != NULL) {
            v->spare_next = shard->spare;
            shard->spare = v;
        }
        return NULL;
    }
    v->hash = hash;
    v->key_at = id->key_at;
    v->cell.name = v->text;
    return v;
}

/* With the lock: nothing of its name is left in it. */
static void record_give(tri_shard *shard, tri_virtual *v)
{
    TRI_CHECK(v->active == NULL);
    TRI_CHECK(v->pending_last == NULL);
    v->kind = NULL;
    // Relaxed, all: late senders come to the lock, and compare the id there.
    TRI_CHECK(atomic_load_explicit(&v->cell.mail, memory_order_relaxed) &
              TRI_MAIL_CLOSED);
    atomic_store_explicit(&v->form, TRI_FORM_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&v->state, TRI_ACTIVATION_NONE, memory_order_relaxed);
    atomic_store_explicit(&v->cell.flags, TRI_CELL_VIRTUAL,
                          memory_order_relaxed);
    // Release: as tri_cell_free; pairs with tr_join and tr_state_of.
    atomic_store_explicit(&v->cell.id, 0, memory_order_release);
    v->spare_next = shard->spare;
    shard->spare = v;
}

tri_virtual *tri_virtual_beside(tri_cluster *cluster, tri_virtual *front,
                                uint64_t id)
{
    tri_virtual *v = record_new(cluster, front->shard);
    if (v != NULL) {
        v->text = front->text;
        v->size = front->size;
        v->room = front->room;
        v->hash = front->hash;
        v->key_at = front->key_at;
        v->kind = front->kind;
        v->cell.name = v->text;
        // Relaxed, all: nobody knows it yet.
        atomic_store_explicit(&v->cell.id, id, memory_order_relaxed);
        atomic_store_explicit(&v->kept, true, memory_order_relaxed);
        atomic_store_explicit(&v->form, TRI_FORM_WORKER, memory_order_relaxed);
    }
    return v;
}

/* ---- finding and making ---- */

/* Counts one name more; false: there are enough (rule 33). */
static bool count_name(tri_cluster *cluster)
{
    // Relaxed: only the number counts.
    if (atomic_fetch_add_explicit(&cluster->names, 1, memory_order_relaxed) <
        cluster->names_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&cluster->names, 1, memory_order_relaxed);
    return false;
}

static void uncount_name(tri_cluster *cluster)
{
    // Relaxed: as count_name.
    atomic_fetch_sub_explicit(&cluster->names, 1, memory_order_relaxed);
}

static tr_err add_name(tri_cluster *cluster, tri_shard *shard,
                       const tri_actor_id *id, uint64_t hash, uint64_t cell_id,
                       bool keep, tri_virtual **out)
{
    if (!count_name(cluster)) {
        return TR_ELIMIT;
    }
    tri_virtual *v = record_take(cluster, shard, id, hash, keep);
    if (v == NULL) {
        uncount_name(cluster);
        return TR_ENOMEM;
    }
    if (tri_map_put_hashed(&shard->names, hash, v->text, v->size, v) != TR_OK) {
        record_give(shard, v);
        uncount_name(cluster);
        return TR_ENOMEM;
    }
    // Release: whoever finds this id here sees the end of the name before.
    atomic_store_explicit(&v->cell.id, cell_id, memory_order_release);
    *out = v;
    return TR_OK;
}

/* Whoever has found it or made it wants it kept, or held. With the lock. */
static void want(tri_virtual *v, bool keep)
{
    if (keep) {
        // Release: the text does not change any more; tri_virtual_name.
        atomic_store_explicit(&v->kept, true, memory_order_release);
    } else {
        v->holds++;
        TRI_CHECK(v->holds != 0);
    }
}

static tr_err get(tri_cluster *cluster, tr_from from, const tri_actor_id *id,
                  bool keep, tri_virtual **out)
{
    uint64_t hash = tri_hash_bytes(id->text, id->size);
    tri_shard *shard = &cluster->shards[hash % TRI_SHARDS];
    tri_lock_take(&shard->lock);
    tri_virtual *v =
        tri_map_get_hashed(&shard->names, hash, id->text, id->size);
    if (TRI_LIKELY(v != NULL)) {
        want(v, keep);
        tri_lock_drop(&shard->lock);
        *out = v;
        return TR_OK;
    }
    tri_lock_drop(&shard->lock);
    tri_actor_from who = tri_enter(from);
    uint64_t cell_id = tri_id_next(who.worker);
    tri_leave(&who);
    tr_err err = TR_OK;
    tri_lock_take(&shard->lock);
    // Another may have been first.
    v = tri_map_get_hashed(&shard->names, hash, id->text, id->size);
    if (v == NULL) {
        err = add_name(cluster, shard, id, hash, cell_id, keep, &v);
    }
    if (err == TR_OK) {
        want(v, keep);
        *out = v;
    }
    tri_lock_drop(&shard->lock);
    return err;
}

tr_err tri_virtual_get(tri_cluster *cluster, tr_from from,
                       const tri_actor_id *id, tri_virtual **out)
{
    return get(cluster, from, id, true, out);
}

tr_err tri_virtual_hold(tri_cluster *cluster, tr_from from,
                        const tri_actor_id *id, tri_virtual **out)
{
    return get(cluster, from, id, false, out);
}

/* ---- forgetting ---- */

static bool is_in_use(tri_cluster *cluster, tri_virtual *v)
{
    // Relaxed, both: written under the lock.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_relaxed);
    return atomic_load_explicit(&v->kept, memory_order_relaxed) ||
           v->holds > 0 || v->waits || v->active != NULL ||
           v->pending_last != NULL || v->handed || form == TRI_FORM_FRONT ||
           tri_bus_of(cluster) != NULL;
}

void tri_virtual_rest(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = &cluster->shards[v->shard];
    tri_lock_assert_held(&shard->lock);
    if (is_in_use(cluster, v)) {
        return;
    }
    void *was = tri_map_remove_hashed(&shard->names, v->hash, v->text, v->size);
    TRI_CHECK(was == v);
    record_give(shard, v);
    uncount_name(cluster);
}

void tri_virtual_let_go(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = &cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    TRI_CHECK(v->holds > 0);
    v->holds--;
    tri_virtual_rest(cluster, v);
    tri_lock_drop(&shard->lock);
}

bool tri_virtual_name(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                      size_t size)
{
    tri_virtual *v = tri_virtual_of(cell);
    // Acquire: pairs with want; a name that is kept, and its id, stay.
    if (atomic_load_explicit(&v->kept, memory_order_acquire) &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == id) {
        snprintf(buf, size, "%s", v->text);
        return true;
    }
    tri_shard *shard = &tri_cluster_of(sys)->shards[v->shard];
    tri_lock_take(&shard->lock);
    // Relaxed: changes under the lock.
    bool is_it = atomic_load_explicit(&cell->id, memory_order_relaxed) == id;
    if (is_it) {
        snprintf(buf, size, "%s", v->text);
    }
    tri_lock_drop(&shard->lock);
    return is_it;
}
