/*
 * virtual.c - the record of a virtual actor: its pending mail and its checks.
 *
 * Invariant: pending mail is a ring through tri_item.next; pending_last is the
 * newest and its next the oldest. Everything here needs the lock of the shard,
 * unless no other thread is left.
 */
#include "cluster/virtual/virtual.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/list.h"
#include "base/lock.h"
#include "cluster/bus/bus.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"

bool tri_virtual_is_active(tri_virtual *v)
{
    tri_activation_state state = tri_activation_state_of(v);
    return state != TRI_ACTIVATION_NONE && state != TRI_ACTIVATION_INVALID;
}

void tri_virtual_add_pending(tri_virtual *v, tri_item *item)
{
    TRI_CHECK(v != NULL && item != NULL);
    if (v->pending_last == NULL) {
        item->next = item;
    } else {
        item->next = v->pending_last->next;
        v->pending_last->next = item;
    }
    v->pending_last = item;
}

tri_item *tri_virtual_take_pending(tri_virtual *v)
{
    TRI_CHECK(v != NULL);
    tri_item *last = v->pending_last;
    if (last == NULL) {
        return NULL;
    }
    tri_item *first = last->next;
    TRI_CHECK(first != NULL);
    last->next = NULL;
    v->pending_last = NULL;
    return first;
}

/* ---- checks ---- */

static void check_activation(tri_virtual *v)
{
    tri_activation *a = v->activation;
    // Relaxed: opened under the lock, which the caller holds.
    uintptr_t mail = atomic_load_explicit(&v->cell.mail, memory_order_relaxed);
    TRI_CHECK((a != NULL) == tri_virtual_is_active(v));
    if (a == NULL) {
        TRI_CHECK(mail & TRI_MAIL_CLOSED);
        return;
    }
    TRI_CHECK(a->v == v);
    TRI_CHECK(tri_link_is_linked(&a->link));
    TRI_CHECK(v->kind != NULL);
    TRI_CHECK(!v->in_load_queue);
}

void tri_virtual_check(tri_cluster *cluster, tri_virtual *v)
{
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    // Relaxed, both: they change under the lock.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_relaxed);
    uint64_t id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
    TRI_CHECK(tri_cell_is_virtual(&v->cell));
    TRI_CHECK(id != 0);
    TRI_CHECK(v->text != NULL && v->size < v->room);
    TRI_CHECK(v->key_at < v->size && v->text[v->size] == '\0');
    TRI_CHECK(tri_shard_of(v->text, v->size) == v->shard);
    TRI_CHECK(form <= TRI_FORM_WORKER);
    TRI_CHECK(v->pending_last == NULL || v->pending_last->next != NULL);
    TRI_CHECK(!v->in_load_queue || v->pending_last != NULL);
    check_activation(v);
    if (form == TRI_FORM_STATELESS) {
        TRI_CHECK(v->stateless != NULL && v->activation == NULL);
    } else if (tri_bus_of(cluster) == NULL) {
        TRI_CHECK(!v->with_bus);
        TRI_CHECK(v->in_load_queue || v->group == NULL);
    }
}
