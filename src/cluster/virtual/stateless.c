/*
 * stateless.c - the stateless workers that stand behind one name.
 */
#include "cluster/virtual/stateless.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "cluster/virtual/arena.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/shard.h"
#include "core/cell/cell.h"
#include "core/life/spawn.h"
#include "core/system.h"
#include "troupe/base.h"

tri_stateless *tri_stateless_new(tri_cluster *cluster, tri_worker *worker,
                                 uint16_t shard, uint32_t count)
{
    TRI_CHECK(count > 0 && count <= TRI_STATELESS_MAX);
    TRI_CHECK(shard < TRI_SHARDS);
    tri_stateless *workers = tri_arena_alloc_aligned(
        &cluster->records, &cluster->sys->mem,
        sizeof(*workers) + count * sizeof(tri_virtual *));
    if (workers == NULL) {
        return NULL;
    }
    workers->count = count;
    for (uint32_t i = 0; i < count; i++) {
        tri_virtual *v = tri_names_new_record(cluster, shard);
        if (v == NULL) {
            return NULL;
        }
        // Relaxed, both: no other thread knows the record yet.
        atomic_store_explicit(&v->cell.id, tri_id_next(worker),
                              memory_order_relaxed);
        atomic_store_explicit(&v->form, TRI_FORM_WORKER, memory_order_relaxed);
        workers->workers[i] = v;
    }
    return workers;
}

void tri_stateless_attach(tri_stateless *workers, tri_virtual *v)
{
    TRI_CHECK(v->kind != NULL && v->kind->workers == workers->count);
    for (uint32_t i = 0; i < workers->count; i++) {
        tri_virtual *one = workers->workers[i];
        TRI_CHECK(one->shard == v->shard);
        one->text = v->text;
        one->size = v->size;
        one->room = v->room;
        one->hash = v->hash;
        one->key_at = v->key_at;
        one->kind = v->kind;
        one->cell.name = v->text;
        // Relaxed: published with the form of v.
        atomic_store_explicit(&one->kept, true, memory_order_relaxed);
    }
    v->stateless = workers;
}

tri_virtual *tri_stateless_next(tri_stateless *workers)
{
    TRI_CHECK(workers != NULL && workers->count > 0);
    // Relaxed: only the number matters.
    uint64_t turn =
        atomic_fetch_add_explicit(&workers->turn, 1, memory_order_relaxed);
    return workers->workers[turn % workers->count];
}
