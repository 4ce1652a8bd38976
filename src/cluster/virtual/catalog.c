/*
 * catalog.c - mail to virtual actors: finds or begins the activation for it.
 *
 * A send to a virtual actor pushes into its mailbox, as with any other actor.
 * If the mailbox is closed the send comes here, takes the lock of the shard
 * and looks again:
 *
 *   open          another sender was first: push once more
 *   not active    begin an activation; the message is its first
 *   ending        append to the pending mail
 *
 * When an activation has ended, the mail that it has not handled goes in front
 * of the pending mail. If there is any, the next activation begins at once with
 * all of it as its queue.
 *
 * Invariant, for the order of one sender's messages: a mailbox is opened with
 * the lock held, and its queue then holds everything that was sent before. A
 * message that a sender pushes is behind that. A message that it appends is
 * behind those it pushed, because it found the mailbox closed. A sender that is
 * delayed between two activations pushes into a mailbox of the same actor; if
 * the name was forgotten meanwhile (names.c) the id differs, and this message
 * and all later ones to that ref are dead letters.
 */
#include "cluster/virtual/catalog.h"
#include "cluster/join/cluster_node.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/remote_stop.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/bus/request.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/load_queue.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/ownership.h"
#include "cluster/virtual/stateless.h"
#include "core/cell/cell.h"
#include "core/cell/props.h"
#include "core/mail/push.h"
#include "core/mail/send.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/cluster.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

static void start_waiting(tri_cluster *cluster, tri_worker *worker);

/* ---- sending ---- */

/*
 * True if a record that is not active must not begin here by itself: another
 * node owns its shard, the bus has placed it on a node, or has older mail. With
 * the lock.
 */
static bool is_elsewhere(tri_cluster *cluster, tri_virtual *v)
{
    // Relaxed: as in tri_activation_begin.
    if (tri_bus_of(cluster) == NULL ||
        atomic_load_explicit(&cluster->closing, memory_order_relaxed)) {
        return false;
    }
    tri_kind *kind = tri_kind_of(cluster, v);
    return kind == NULL ||
           (kind->workers == 0 &&
            (v->with_bus || v->placed || kind->placement != TR_PLACE_OWNER ||
             !tri_cluster_shard(cluster, v)->is_open ||
             !tri_bus_has_lease(tri_bus_of(cluster))));
}

/* Gives a list of mail to the bus. Takes it on TR_OK. With the lock. */
static tr_err give_to_bus(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v, tri_item *mail)
{
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    if (!v->with_bus) {
        TR_TRY(tri_bus_mail_waits(cluster, worker, v));
        v->with_bus = true;
    }
    while (mail != NULL) {
        tri_item *next = mail->next;
        tri_virtual_add_pending(v, mail);
        mail = next;
    }
    return TR_OK;
}

/*
 * True if a record that is not active has to wait in the load queue, where it
 * is then. With the lock.
 */
static bool must_wait(tri_cluster *cluster, tri_virtual *v)
{
    // Relaxed: as in tri_activation_begin.
    return tri_bus_of(cluster) == NULL &&
           !atomic_load_explicit(&cluster->closing, memory_order_relaxed) &&
           tri_kind_of(cluster, v) != NULL && v->kind->props->storage != NULL &&
           tri_load_queue_wait(&cluster->load_queue, v);
}

/*
 * Takes a message for a record whose mailbox is closed. With the lock. Sets
 * *began if it has tried to begin an activation. Errors: as virtual_send.
 */
static tr_err send_closed(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v, tri_item *item, bool *began)
{
    if (tri_virtual_is_active(v) || v->in_load_queue) {
        tri_virtual_add_pending(v, item);
        return TR_OK;
    }
    item->next = NULL;
    if (is_elsewhere(cluster, v)) {
        return give_to_bus(cluster, worker, v, item);
    }
    if (must_wait(cluster, v)) {
        tri_virtual_add_pending(v, item);
        return TR_OK;
    }
    *began = true;
    return tri_activation_begin(cluster, worker, v, item);
}

/*
 * Sends to the record if it still has that id. The push is made without the
 * lock, because it may wake a worker.
 */
static tr_err send_to(tri_cluster *cluster, tri_worker *worker, tri_virtual *v,
                      uint64_t id, tr_msg *msg)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tr_err err = TR_ESTOPPED;
    bool began = false;
    while (err == TR_ESTOPPED) {
        tri_lock_take(&shard->lock);
        bool open = tri_virtual_is_open(v);
        if (tri_virtual_id(v) != id) {
            err = TR_EGONE;  // the name was forgotten since
        } else if (v->relayed) {
            msg->item.next = NULL;
            msg->to_id = id;
            err = give_to_bus(cluster, worker, v, &msg->item);
        } else if (!open) {
            msg->to_id = id;
            err = send_closed(cluster, worker, v, &msg->item, &began);
        }
        tri_lock_drop(&shard->lock);
        if (err == TR_ESTOPPED) {
            err = tri_push(worker, &v->cell, id, msg);
        }
    }
    if (began && err == TR_OK) {
        tri_activation_schedule(cluster, worker, v);
    } else if (began) {
        start_waiting(cluster, worker);
    }
    return err;
}

/* ---- for the bus ---- */

/*
 * Pushes pending mail to the activation that has begun here meanwhile. With
 * the lock, which keeps it before mail that is appended once the mailbox has
 * closed again.
 */
static void push_pending(tri_worker *worker, tri_virtual *v)
{
    bool open = true;
    for (tri_item *item = tri_virtual_take_pending(v), *next; item != NULL;
         item = next) {
        next = item->next;
        // Once the activation is ending, the rest waits for `ended`.
        open = open && tri_push(worker, &v->cell, tri_virtual_id(v),
                                tri_msg_from(item)) == TR_OK;
        if (!open) {
            tri_virtual_add_pending(v, item);
        }
    }
}

tri_item *tri_catalog_take_mail(tri_cluster *cluster, tri_worker *worker,
                                tri_virtual *v, bool more)
{
    TRI_CHECK(v != NULL);
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_item *mail = NULL;
    tri_lock_take(&shard->lock);
    if (tri_virtual_is_active(v) && !v->relayed) {
        push_pending(worker, v);
    } else {
        mail = tri_virtual_take_pending(v);
    }
    v->with_bus = mail != NULL && more;
    tri_lock_drop(&shard->lock);
    return mail;
}

/*
 * Takes mail for a record whose mailbox is closed. With the lock. Sets *begun
 * if an activation was begun. Errors: as tri_activation_begin; then the mail
 * stays with the caller.
 */
static tr_err deliver_closed(tri_cluster *cluster, tri_worker *worker,
                             tri_virtual *v, tri_item **mail, bool *begun)
{
    tri_item **end = mail;
    if (v->has_left || (tri_virtual_is_active(v) && v->relayed)) {
        return TR_EWOULDBLOCK;  // the bus keeps it
    }
    if (tri_virtual_is_active(v)) {
        while (*mail != NULL) {
            tri_item *item = *mail;
            *mail = item->next;
            tri_virtual_add_pending(v, item);
        }
        return TR_OK;
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    // Pending mail of a relayed actor is on its way to the owner.
    *end = v->relayed ? NULL : tri_virtual_take_pending(v);
    tr_err err = tri_activation_begin(cluster, worker, v, *mail);
    if (err == TR_OK) {
        *mail = NULL;
        *begun = true;
        v->with_bus = v->with_bus && v->relayed;
    }
    while (err != TR_OK && *end != NULL) {
        tri_item *item = *end;
        *end = item->next;
        tri_virtual_add_pending(v, item);
    }
    return err;
}

/* Pushes the first message into an open mailbox. */
static bool push_first(tri_worker *worker, tri_virtual *v, tri_item **mail)
{
    tri_item *item = *mail, *next = item->next;
    bool pushed = tri_push(worker, &v->cell, tri_virtual_id(v),
                           tri_msg_from(item)) == TR_OK;
    if (pushed) {
        *mail = next;
    } else {
        item->next = next;
    }
    return pushed;
}

tr_err tri_catalog_deliver(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v, tri_item **mail)
{
    TRI_CHECK(tri_bus_of(cluster) != NULL && *mail != NULL);
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tr_err err = TR_OK;
    bool begun = false;
    while (*mail != NULL && err == TR_OK) {
        tri_lock_take(&shard->lock);
        bool open = tri_virtual_is_open(v);
        v->placed = v->placed && v->relayed;  // else it is here from now on
        if (!open) {
            err = deliver_closed(cluster, worker, v, mail, &begun);
        }
        tri_lock_drop(&shard->lock);
        while (open && *mail != NULL) {
            open = push_first(worker, v, mail);
        }
    }
    if (begun) {
        tri_activation_schedule(cluster, worker, v);
    } else if (err != TR_OK) {
        start_waiting(cluster, worker);
    }
    return err;
}

tri_item *tri_catalog_take_left(tri_cluster *cluster, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_lock_take(&shard->lock);
    TRI_CHECK(v->relayed && !tri_virtual_is_active(v));
    tri_item *left = v->cell.queue;
    v->cell.queue = NULL;
    v->has_left = false;
    tri_lock_drop(&shard->lock);
    return left;
}

/* ---- what a name stands for ---- */

/*
 * Looks up the form of a name whose form is not known yet. Sets *workers to
 * the number of stateless workers that must be made first, or to 0. With the
 * lock. Errors: TR_ENOENT, TR_EGONE (the record has another name by now).
 */
static tr_err look_up_form(tri_cluster *cluster, tri_virtual *v, uint64_t id,
                           tri_form *form, uint32_t *workers)
{
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    *workers = 0;
    if (tri_virtual_id(v) != id) {
        return TR_EGONE;
    }
    // Relaxed: written under the lock.
    *form = (tri_form)atomic_load_explicit(&v->form, memory_order_relaxed);
    if (*form != TRI_FORM_UNKNOWN) {
        return TR_OK;  // another thread was first
    }
    tri_kind *kind = tri_kind_of(cluster, v);
    if (kind == NULL) {
        // Another node may host the kind; until this one does, it is unknown.
        return tri_bus_of(cluster) != NULL ? TR_OK : TR_ENOENT;
    }
    *form = TRI_FORM_PLAIN;
    if (kind->workers > 0) {
        *form = TRI_FORM_STATELESS;
        *workers = kind->workers;
    }
    return TR_OK;
}

/*
 * Sets the form of a name. Records of stateless workers are made without the
 * lock, then the name is looked at once more.
 * Errors: TR_ENOENT, TR_ENOMEM, TR_EGONE (the record has another name by now).
 */
static tr_err set_form(tri_cluster *cluster, tri_worker *worker, tri_virtual *v,
                       uint64_t id)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_stateless *made = NULL;
    tri_form form = TRI_FORM_UNKNOWN;
    uint32_t workers;
    for (;;) {
        tri_lock_take(&shard->lock);
        tr_err err = look_up_form(cluster, v, id, &form, &workers);
        bool ready = err == TR_OK && (workers == 0 || made != NULL);
        if (ready) {
            if (workers > 0) {
                tri_stateless_attach(made, v);
            }
            // Release: publishes kind and workers; pairs with virtual_send.
            atomic_store_explicit(&v->form, (uint8_t)form,
                                  memory_order_release);
        }
        tri_lock_drop(&shard->lock);
        if (ready || err != TR_OK) {
            return err;
        }
        made = tri_stateless_new(cluster, worker, v->shard, workers);
        if (made == NULL) {
            return TR_ENOMEM;
        }
    }
}

/* The send of tri_virtual_ops: a push into the mailbox was refused. */
static tr_err virtual_send(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    TRI_CHECK(tri_cell_is_virtual(cell));
    tri_virtual *v = tri_virtual_of(cell);
    uint64_t id = msg->to_id;  // set by the push that was refused
    // Acquire: pairs with set_form.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_acquire);
    if (form == TRI_FORM_UNKNOWN) {
        TR_TRY(set_form(cluster, worker, v, id));
        form = atomic_load_explicit(&v->form, memory_order_acquire);
    }
    if (form == TRI_FORM_STATELESS) {
        // The name of stateless workers is never forgotten, and its id was
        // there before the form.
        if (tri_virtual_id(v) != id) {
            return TR_EGONE;
        }
        v = tri_stateless_next(v->stateless);
        id = tri_virtual_id(v);
        if (tri_push(worker, &v->cell, id, msg) == TR_OK) {
            return TR_OK;
        }
    }
    return send_to(cluster, worker, v, id, msg);
}

/* ---- what core says of an activation ---- */

/* Makes dead letters of a list of mail that cannot be delivered. */
static void refuse(tri_worker *worker, tr_ref to, tri_item *mail, tr_err err)
{
    TRI_CHECK(err != TR_OK);
    while (mail != NULL) {
        tri_item *next = mail->next;
        tri_dead(worker, to, tri_msg_from(mail),
                 err == TR_ECLOSED  ? TR_DEAD_CLOSED
                 : err == TR_ENOMEM ? TR_DEAD_NO_MEMORY
                                    : TR_DEAD_NO_SUCH_ACTOR);
        mail = next;
    }
}

/*
 * Begins the activation of the first record in the load queue, or of the next
 * one if that fails. Without a lock. Needed whenever an activation has ceased
 * to load, also one that has failed to begin: others may wait behind it.
 */
static void start_waiting(tri_cluster *cluster, tri_worker *worker)
{
    tri_virtual *v;
    tr_err err = TR_ENOENT;
    while (err != TR_OK &&
           (v = tri_load_queue_next(&cluster->load_queue)) != NULL) {
        tri_shard *shard = tri_cluster_shard(cluster, v);
        tri_lock_take(&shard->lock);
        v->in_load_queue = 0;
        v->load_next = NULL;
        tr_ref self = tri_cell_ref(cluster->sys, &v->cell);
        tri_item *mail = tri_virtual_take_pending(v);
        TRI_CHECK(mail != NULL);
        err = tri_activation_begin(cluster, worker, v, mail);
        if (err != TR_OK) {
            tri_names_forget_unused(cluster, v);
        }
        tri_lock_drop(&shard->lock);
        if (err == TR_OK) {
            tri_activation_schedule(cluster, worker, v);
        } else {
            refuse(worker, self, mail, err);
        }
    }
}

/* The stored state of the activation is there, or will not come. */
static void loaded(tri_worker *worker, tri_cell *cell)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_activation *a = tri_virtual_of(cell)->activation;
    TRI_CHECK(a != NULL);
    if (!a->loads) {
        return;
    }
    a->loads = false;
    if (tri_load_queue_leave(&cluster->load_queue)) {
        start_waiting(cluster, worker);
    }
}

/* The actor in the cell has reached a state. */
static void follow_state(tri_worker *worker, tri_cell *cell, tr_state state)
{
    tri_virtual *v = tri_virtual_of(cell);
    tri_activation_state_follow(v, state);
    if (tri_activation_state_of(v) == TRI_ACTIVATION_DEACTIVATING) {
        loaded(worker, cell);  // if it was ended or has failed before
    }
}

static uint32_t shard_of(tri_cell *cell)
{
    TRI_CHECK(tri_cell_is_virtual(cell));
    return tri_virtual_of(cell)->shard;
}

/* A message was handled that does not keep the activation from being idle. */
static void quiet(tri_cell *cell)
{
    tri_activation *a = tri_virtual_of(cell)->activation;
    TRI_CHECK(a != NULL);
    // Relaxed: only the owner of the cell writes; the sweeper reads.
    atomic_store_explicit(
        &a->quiet, atomic_load_explicit(&a->quiet, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* Takes the rest of the queue and, behind it, the pending mail. */
static tri_item *take_mail(tri_virtual *v)
{
    tri_item **end = &v->cell.queue;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = tri_virtual_take_pending(v);
    tri_item *all = v->cell.queue;
    v->cell.queue = NULL;
    return all;
}

/* The activation has ended; cell->queue has the mail it has not handled. */
static void ended(tri_worker *worker, tri_cell *cell)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_virtual *v = tri_virtual_of(cell);
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tr_err err = TR_OK;
    tri_lock_take(&shard->lock);
    tri_activation_end(cluster, worker, v);
    if (v->relayed) {  // the bus takes what is left
        v->has_left = true;
        tri_lock_drop(&shard->lock);
        tri_bus_hosted_ended(cluster, worker, v);
        return;
    }
    tri_item *mail = take_mail(v);
    bool elsewhere = mail != NULL && is_elsewhere(cluster, v);
    if (elsewhere) {
        err = give_to_bus(cluster, worker, v, mail);
    } else if (mail != NULL) {
        err = tri_activation_begin(cluster, worker, v, mail);
    }
    tr_ref self = tri_cell_ref(worker->sys, cell);
    tri_names_forget_unused(cluster, v);
    tri_lock_drop(&shard->lock);
    if (err != TR_OK) {
        refuse(worker, self, mail, err);
        start_waiting(cluster, worker);
    } else if (mail != NULL && !elsewhere) {
        tri_activation_schedule(cluster, worker, v);
    }
}

/* ---- the whole catalog ---- */

static void free_pending(tr_system *sys, tri_virtual *v)
{
    for (tri_item *item = tri_virtual_take_pending(v), *next; item != NULL;
         item = next) {
        next = item->next;
        tri_msg_free(&sys->outside->cache, tri_msg_from(item));
    }
}

/* A system that was abandoned has mail left. */
void tri_catalog_free_mail(tr_system *sys, tri_shard *shard)
{
    TRI_CHECK(sys != NULL && shard != NULL);
    tri_virtual *v;
    for (tri_map_iter it = tri_map_iter_begin(&shard->names);
         (v = tri_map_iter_next(&shard->names, &it)) != NULL;) {
        if (v->pending_last != NULL) {
            free_pending(sys, v);
        }
        // Relaxed: no other thread is left.
        bool stateless = atomic_load_explicit(&v->form, memory_order_relaxed) ==
                         TRI_FORM_STATELESS;
        for (uint32_t i = 0; stateless && i < v->stateless->count; i++) {
            free_pending(sys, v->stateless->workers[i]);
        }
    }
}

const tri_virtual_ops tri_catalog_ops = {
    .send = virtual_send,
    .life = follow_state,
    .loaded = loaded,
    .quiet = quiet,
    .shard = shard_of,
    .shards = TRI_SHARDS,
    .name = tri_names_write,
    .epoch = tr_epoch,
    .load_fence = tri_ownership_load_fence,
    .reminds = tri_ownership_reminds,
    .reminder_changed = tri_bus_reminder_changed,
    .has_lease = tri_ownership_has_lease,
    .ended = ended,
    .signal = tri_remote_stop_signal,
    .poison = tri_remote_stop_poison,
    .watch = tri_remote_watch_add,
    .unwatch = tri_remote_watch_remove,
    .reply = tri_request_reply,
    .hand_over = tri_cluster_node_hand_over,
    .leave = tri_cluster_node_leave,
    .close = tri_cluster_close,
    .count = tri_cluster_count,
    .hosted = tri_cluster_hosted,
    .check = tri_catalog_check,
    .free = tri_cluster_free,
};
