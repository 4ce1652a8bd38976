/*
 * names.c - the names of virtual actors and the records they have.
 *
 * A name whose ref was given away keeps its record for the system's life,
 * because copies of refs are not counted. Where keys are unlimited (sessions,
 * orders) that would be a leak; so a send by name makes a record that the name
 * has only while one of these is true:
 *
 *   kept              tr_virtual has given its ref away
 *   holds > 0         a sender by name uses it, or the bus
 *   activation        it is active
 *   in_load_queue     it waits to become active
 *   pending, with_bus mail waits for the next activation, or for the bus
 *   stateless         stateless workers stand behind it
 *
 * After that the name leaves the table and the record waits in its shard for
 * another name. A record never leaves its shard: a late sender with an old ref
 * finds the right lock through it and another id in it, and its message is a
 * dead letter, as with any actor that has ended: rule 39 (refs).
 *
 * Invariant: the mailboxes of a record without a name are closed, and its id
 * is 0; both change under the shard's lock only. Memory for records and texts
 * is taken before that lock.
 */
#include "cluster/virtual/names.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/arena.h"
#include "cluster/virtual/shard.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/life/spawn.h"
#include "core/system.h"

enum { TEXT_STEP = 32 };  // room for texts is a multiple: it is used again

/* What a new name needs; it is made without the shard's lock. */
typedef struct reserve {
    uint64_t cell_id;     // 0: none yet
    tri_virtual *record;  // NULL: a spare one is used
    char *text;           // NULL: the spare record's is used
    uint16_t room;        // of the text
    uint16_t spare_room;  // as seen last: text of the first spare record,
    bool has_spare;       // ... if there was one
    uint64_t added;       // shard->names_added when the name was looked up
} reserve;

static bool name_is(const void *value, const void *key, size_t size)
{
    const tri_virtual *v = value;
    return v->size == size && memcmp(v->text, key, size) == 0;
}

void tri_names_init(tri_cluster *cluster)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_map_init(&cluster->shards[i].names, name_is, NULL);
        cluster->shards[i].is_open = true;
        cluster->shards[i].epoch = 1;
    }
}

void tri_names_fini(tri_cluster *cluster)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_map_fini(&cluster->shards[i].names);
    }
    tri_arena_fini(&cluster->records);
    tri_arena_fini(&cluster->texts);
}

/* ---- records ---- */

tri_virtual *tri_names_new_record(tri_cluster *cluster, uint16_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_virtual *v = tri_arena_alloc_aligned(&cluster->records,
                                             &cluster->sys->mem, sizeof(*v));
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

/* Adds a record without a name to those of the shard. With the lock. */
static void spare_push(tri_shard *shard, tri_virtual *v)
{
    tri_lock_assert_held(&shard->lock);
    // Relaxed: changes under the lock.
    TRI_CHECK(atomic_load_explicit(&v->cell.id, memory_order_relaxed) == 0);
    v->spare_next = shard->spare;
    shard->spare = v;
}

/* Takes everything of its name out of the record. With the lock. */
static void record_clear(tri_shard *shard, tri_virtual *v)
{
    TRI_CHECK(v->activation == NULL);
    TRI_CHECK(v->pending_last == NULL);
    TRI_CHECK(v->holds == 0 && !v->in_load_queue && !v->with_bus);
    v->kind = NULL;
    v->placed = false;
    // Relaxed, all: late senders take the lock, and compare the id there.
    TRI_CHECK(atomic_load_explicit(&v->cell.mail, memory_order_relaxed) &
              TRI_MAIL_CLOSED);
    atomic_store_explicit(&v->form, TRI_FORM_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&v->state, TRI_ACTIVATION_NONE, memory_order_relaxed);
    atomic_store_explicit(&v->cell.flags, TRI_CELL_VIRTUAL,
                          memory_order_relaxed);
    // Release: as tri_cell_free; pairs with tr_join and tr_state_of.
    atomic_store_explicit(&v->cell.id, 0, memory_order_release);
    spare_push(shard, v);
}

/* ---- what a new name needs ---- */

/*
 * True if a name of `size` characters can be added now: there is an id, a
 * record, and a text that is large enough. With the lock.
 */
static bool is_ready(const tri_shard *shard, const reserve *with, uint16_t size)
{
    const tri_virtual *v = with->record != NULL ? with->record : shard->spare;
    return with->cell_id != 0 && v != NULL &&
           (v->room > size || with->room > size);
}

/* Makes what is missing. Without the lock. Returns false without memory. */
static bool reserve_make(reserve *with, tri_cluster *cluster, tr_from from,
                         uint16_t shard, uint16_t size, bool keep)
{
    if (with->cell_id == 0) {
        tri_caller who = tri_enter(from);
        with->cell_id = tri_id_next(who.worker);
        tri_leave(&who);
    }
    if (with->record == NULL && !with->has_spare) {
        with->record = tri_names_new_record(cluster, shard);
        if (with->record == NULL) {
            return false;
        }
    }
    if (with->text != NULL ||
        (with->record == NULL && with->spare_room > size)) {
        return true;
    }
    size_t need = size + 1u;
    size_t room = keep ? need : (need + TEXT_STEP - 1) / TEXT_STEP * TEXT_STEP;
    with->text = tri_arena_alloc(&cluster->texts, &cluster->sys->mem, room);
    with->room = with->text != NULL ? (uint16_t)room : 0;
    return with->text != NULL;
}

/* Leaves what was not used to the shard's spare records. With the lock. */
static void reserve_put_back(reserve *with, tri_shard *shard)
{
    tri_virtual *v = with->record;
    if (v != NULL) {
        spare_push(shard, v);
        with->record = NULL;
    }
    // Text without a record to keep it stays unused in the arena.
    v = shard->spare;
    if (with->text != NULL && v != NULL && v->room < with->room) {
        v->text = with->text;
        v->room = with->room;
    }
    with->text = NULL;
}

/* Takes a record and gives it the text. With the lock; is_ready was true. */
static tri_virtual *record_take(tri_shard *shard, reserve *with,
                                const tri_actor_id *id, uint64_t hash)
{
    tri_virtual *v = with->record;
    if (v != NULL) {
        with->record = NULL;
    } else {
        v = shard->spare;
        TRI_CHECK(v != NULL);
        shard->spare = v->spare_next;
    }
    v->spare_next = NULL;
    if (v->room <= id->size) {
        TRI_CHECK(with->room > id->size);
        v->text = with->text;
        v->room = with->room;
        with->text = NULL;
    }
    memcpy(v->text, id->text, id->size);
    v->text[id->size] = '\0';
    v->size = id->size;
    v->hash = hash;
    v->key_at = id->key_at;
    v->cell.name = v->text;
    return v;
}

/* ---- finding and adding ---- */

/* Counts one more name; returns false if there are names_max already. */
static bool count_name(tri_cluster *cluster)
{
    // Relaxed: only the number matters.
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
    uint64_t before =
        atomic_fetch_sub_explicit(&cluster->names, 1, memory_order_relaxed);
    TRI_CHECK(before > 0);
}

/* With the lock; is_ready was true. Errors: TR_ELIMIT, TR_ENOMEM. */
static tr_err add_name(tri_cluster *cluster, tri_shard *shard, reserve *with,
                       const tri_actor_id *id, uint64_t hash, tri_virtual **out)
{
    if (!count_name(cluster)) {
        return TR_ELIMIT;
    }
    tri_virtual *v = record_take(shard, with, id, hash);
    if (tri_map_put_hashed(&shard->names, hash, v->text, v->size, v) != TR_OK) {
        record_clear(shard, v);
        uncount_name(cluster);
        return TR_ENOMEM;
    }
    shard->names_added++;
    // Release: a thread that reads this id sees the end of the name before.
    atomic_store_explicit(&v->cell.id, with->cell_id, memory_order_release);
    *out = v;
    return TR_OK;
}

/* Notes that the caller keeps the record, or holds it. With the lock. */
static void keep_or_hold(tri_virtual *v, bool keep)
{
    if (keep) {
        // Release: the text does not change any more; tri_names_write.
        atomic_store_explicit(&v->kept, true, memory_order_release);
    } else {
        v->holds++;
        TRI_CHECK(v->holds != 0);
    }
}

/*
 * Notes what the shard has to spare for the next reserve_make, after the name
 * was looked up in vain. With the lock.
 */
static void reserve_look(reserve *with, const tri_shard *shard)
{
    with->added = shard->names_added;
    with->has_spare = shard->spare != NULL;
    with->spare_room = shard->spare != NULL ? shard->spare->room : 0;
}

/*
 * Slow path of get: adds a name that was not in the shard a moment ago. Memory
 * is reserved without the lock, so the name is looked up again if the shard has
 * got names meanwhile.
 */
static __attribute__((noinline)) tr_err get_new(tri_cluster *cluster,
                                                tr_from from,
                                                const tri_actor_id *id,
                                                uint64_t hash, reserve *with,
                                                bool keep, tri_virtual **out)
{
    uint16_t index = (uint16_t)(hash % TRI_SHARDS);
    tri_shard *shard = &cluster->shards[index];
    tr_err err = TR_OK;
    for (bool done = false; !done;) {
        if (!reserve_make(with, cluster, from, index, id->size, keep)) {
            err = TR_ENOMEM;
        }
        tri_lock_take(&shard->lock);
        tri_virtual *v =
            shard->names_added == with->added
                ? NULL
                : tri_map_get_hashed(&shard->names, hash, id->text, id->size);
        done = v != NULL || err != TR_OK;
        if (!done && is_ready(shard, with, id->size)) {
            err = add_name(cluster, shard, with, id, hash, &v);
            done = true;
        }
        if (v != NULL) {  // perhaps another thread was first
            keep_or_hold(v, keep);
            *out = v;
            err = TR_OK;
        }
        if (!done) {
            reserve_look(with, shard);
        } else if (with->cell_id != 0) {
            reserve_put_back(with, shard);
        }
        tri_lock_drop(&shard->lock);
    }
    return err;
}

static tr_err get(tri_cluster *cluster, tr_from from, const tri_actor_id *id,
                  bool keep, tri_virtual **out)
{
    TRI_CHECK(id->size > 0 && id->size <= TRI_ACTOR_ID_MAX);
    uint64_t hash = tri_hash_bytes(id->text, id->size);
    tri_shard *shard = &cluster->shards[hash % TRI_SHARDS];
    tri_lock_take(&shard->lock);
    tri_virtual *v =
        tri_map_get_hashed(&shard->names, hash, id->text, id->size);
    if (TRI_LIKELY(v != NULL)) {
        keep_or_hold(v, keep);
        tri_lock_drop(&shard->lock);
        *out = v;
        return TR_OK;
    }
    reserve with = {0};
    reserve_look(&with, shard);
    tri_lock_drop(&shard->lock);
    return get_new(cluster, from, id, hash, &with, keep, out);
}

tr_err tri_names_keep(tri_cluster *cluster, tr_from from,
                      const tri_actor_id *id, tri_virtual **out)
{
    return get(cluster, from, id, true, out);
}

tr_err tri_names_hold(tri_cluster *cluster, tr_from from,
                      const tri_actor_id *id, tri_virtual **out)
{
    return get(cluster, from, id, false, out);
}

/* ---- forgetting ---- */

/* True if the name needs the record; the file comment has the reasons. */
static bool is_in_use(tri_virtual *v)
{
    // Relaxed, both: written under the lock.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_relaxed);
    return atomic_load_explicit(&v->kept, memory_order_relaxed) ||
           v->holds > 0 || v->in_load_queue || v->activation != NULL ||
           v->pending_last != NULL || v->with_bus || form == TRI_FORM_STATELESS;
}

void tri_names_forget_unused(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_lock_assert_held(&shard->lock);
    if (is_in_use(v)) {
        return;
    }
    void *was = tri_map_remove_hashed(&shard->names, v->hash, v->text, v->size);
    TRI_CHECK(was == v);
    record_clear(shard, v);
    uncount_name(cluster);
}

void tri_names_hold_record(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_lock_take(&shard->lock);
    v->holds++;
    TRI_CHECK(v->holds != 0);
    tri_lock_drop(&shard->lock);
}

void tri_names_release(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_lock_take(&shard->lock);
    TRI_CHECK(v->holds > 0);
    v->holds--;
    tri_names_forget_unused(cluster, v);
    tri_lock_drop(&shard->lock);
}

bool tri_names_write(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                     size_t size)
{
    TRI_CHECK(tri_cell_is_virtual(cell));
    tri_virtual *v = tri_virtual_of(cell);
    // Acquire: pairs with keep_or_hold; a kept name and its id do not change.
    if (atomic_load_explicit(&v->kept, memory_order_acquire) &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == id) {
        snprintf(buf, size, "%s", v->text);
        return true;
    }
    tri_shard *shard = tri_cluster_shard(tri_cluster_of(sys), v);
    tri_lock_take(&shard->lock);
    // Relaxed: changes under the lock.
    bool is_it = atomic_load_explicit(&cell->id, memory_order_relaxed) == id;
    if (is_it) {
        snprintf(buf, size, "%s", v->text);
    }
    tri_lock_drop(&shard->lock);
    return is_it;
}
