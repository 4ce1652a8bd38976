/*
 * catalog.c - mail to virtual actors: it finds or makes its activation.
 *
 * Who sends to a virtual actor pushes into its mailbox, as with any other.
 * Only if that is closed it comes here, takes the lock of the shard and looks
 * again (AC11):
 *
 *   open          another was first: push
 *   not active    begin an activation; the message is its first
 *   ending        append to `pending`
 *
 * When an activation has ended, what it has not handled goes in front of
 * `pending`, and if there is anything, the next activation begins at once
 * with all of it as its queue (X30).
 *
 * Invariant, for the order of one sender's messages: a mailbox is opened with
 * the lock held, and its queue holds by then all that was sent before. What a
 * sender pushes is behind that; what it appends is behind what it pushed,
 * because it found the mailbox closed. A late push, by a sender that was held
 * up between two lives, lands in a mailbox of the same actor; if the name was
 * forgotten meanwhile (names.c) the message has another id, and is a dead
 * letter, as is all that this sender sends to that ref from then on.
 */
#include "cluster/activate.h"
#include "cluster/bus.h"
#include "core/mailbox.h"

/* ---- sending ---- */

static void append_pending(tri_virtual *v, tri_node *node)
{
    if (v->pending_last == NULL) {
        node->next = node;
    } else {
        node->next = v->pending_last->next;
        v->pending_last->next = node;
    }
    v->pending_last = node;
}

/* All that waits, oldest first. */
static tri_node *take_pending(tri_virtual *v)
{
    tri_node *last = v->pending_last;
    if (last == NULL) {
        return NULL;
    }
    tri_node *first = last->next;
    last->next = NULL;
    v->pending_last = NULL;
    return first;
}

bool tri_virtual_is_active(tri_virtual *v)
{
    tri_activation state = tri_activation_of(v);
    return state != TRI_ACTIVATION_NONE && state != TRI_ACTIVATION_INVALID;
}

/* With the lock, of one that is not active: is its place another node? */
static bool is_elsewhere(tri_cluster *cluster, tri_virtual *v)
{
    // Relaxed: as in tri_activate.
    return tri_bus_of(cluster) != NULL &&
           !atomic_load_explicit(&cluster->closing, memory_order_relaxed) &&
           !tri_bus_begin_here(cluster, v);
}

/* With the lock: the bus shall see to the node, and all behind it. */
static tr_err hand_over(tri_cluster *cluster, tri_worker *worker,
                        tri_virtual *v, tri_node *node)
{
    if (!v->handed) {
        TR_TRY(tri_bus_look(cluster, worker, v));
        v->handed = true;
    }
    append_pending(v, node);
    return TR_OK;
}

/* With the lock, of one that is not active: has it to stand in line? */
static bool must_wait(tri_cluster *cluster, tri_virtual *v)
{
    // Relaxed: as in tri_activate.
    return tri_bus_of(cluster) == NULL &&
           !atomic_load_explicit(&cluster->closing, memory_order_relaxed) &&
           tri_kind_of(cluster, v) != NULL && v->kind->props->storage != NULL &&
           tri_line_join(&cluster->line, v);
}

static void call_next(tri_cluster *cluster, tri_worker *worker);

static tr_err send_to(tri_cluster *cluster, tri_worker *worker, tri_virtual *v,
                      uint64_t id, tr_msg *msg)
{
    tri_shard *shard = &cluster->shards[v->shard];
    bool activated = false, failed = false;
    tri_lock_take(&shard->lock);
    // With the lock: the name is that of the id, or has been forgotten.
    tr_err err = tri_push(worker, &v->cell, id, msg);
    if (err == TR_EGONE) {
        // A ref of before.
    } else if (err != TR_OK && (tri_virtual_is_active(v) || v->waits ||
                                must_wait(cluster, v))) {
        append_pending(v, &msg->node);
        err = TR_OK;
    } else if (err != TR_OK && is_elsewhere(cluster, v)) {
        err = hand_over(cluster, worker, v, &msg->node);
    } else if (err != TR_OK) {
        msg->node.next = NULL;
        err = tri_activate(cluster, worker, v, &msg->node);
        activated = err == TR_OK;
        failed = !activated;
    }
    tri_lock_drop(&shard->lock);
    if (activated) {
        tri_activate_go(cluster, worker, v);
    } else if (failed) {
        call_next(cluster, worker);
    }
    return err;
}

/* ---- for the bus ---- */

tr_err tri_catalog_push(tri_cluster *cluster, tri_worker *worker,
                        tri_virtual *v, tr_msg *msg)
{
    tri_shard *shard = &cluster->shards[v->shard];
    // Relaxed: it never changes.
    uint64_t id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
    tri_lock_take(&shard->lock);
    tr_err err = tri_push(worker, &v->cell, id, msg);
    if (err != TR_OK && tri_virtual_is_active(v)) {
        append_pending(v, &msg->node);
        err = TR_OK;
    }
    tri_lock_drop(&shard->lock);
    return err == TR_OK ? TR_OK : TR_ENOENT;
}

/* Mail that waits for the bus while the actor is here after all. */
static void give_back(tri_worker *worker, tri_virtual *v)
{
    // Relaxed: it never changes.
    uint64_t id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
    bool open = true;
    for (tri_node *node = take_pending(v), *next; node != NULL; node = next) {
        next = node->next;
        // Once it is ending the rest waits for `ended`.
        open =
            open && tri_push(worker, &v->cell, id, tri_msg_from(node)) == TR_OK;
        if (!open) {
            append_pending(v, node);
        }
    }
}

tri_node *tri_catalog_take(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v, bool busy)
{
    tri_shard *shard = &cluster->shards[v->shard];
    tri_node *mail = NULL;
    tri_lock_take(&shard->lock);
    if (tri_virtual_is_active(v)) {
        give_back(worker, v);
    } else {
        mail = take_pending(v);
    }
    v->handed = mail != NULL || busy;
    tri_lock_drop(&shard->lock);
    return mail;
}

tr_err tri_catalog_begin(tri_cluster *cluster, tri_worker *worker,
                         tri_virtual *v, tri_node *mail)
{
    tri_shard *shard = &cluster->shards[v->shard];
    tri_node **end = &mail;
    TRI_CHECK(mail != NULL);
    tri_lock_take(&shard->lock);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = take_pending(v);
    tr_err err = tri_activate(cluster, worker, v, mail);
    if (err == TR_OK) {
        v->handed = false;
    } else {
        while (*end != NULL) {
            tri_node *node = *end;
            *end = node->next;
            append_pending(v, node);
        }
    }
    tri_lock_drop(&shard->lock);
    if (err == TR_OK) {
        tri_activate_go(cluster, worker, v);
    }
    return err;
}

/* ---- stateless workers: several records behind one name ---- */

static tri_front *make_front(tri_cluster *cluster, tri_worker *worker,
                             tri_virtual *v)
{
    uint32_t count = v->kind->workers;
    tri_front *front = tri_names_alloc(
        cluster, sizeof(*front) + count * sizeof(tri_virtual *));
    for (uint32_t i = 0; front != NULL && i < count; i++) {
        front->workers[i] = tri_virtual_beside(cluster, v, tri_id_next(worker));
        if (front->workers[i] == NULL) {
            return NULL;  // the rest is left to the arena
        }
    }
    if (front != NULL) {
        // Relaxed: published with the form.
        atomic_store_explicit(&front->turn, 0, memory_order_relaxed);
    }
    return front;
}

/*
 * Finds out what stands behind a name.
 * Errors: TR_ENOENT, TR_ENOMEM, TR_EGONE (the name has been forgotten).
 */
static tr_err settle_form(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v, uint64_t id)
{
    tri_shard *shard = &cluster->shards[v->shard];
    tr_err err = TR_OK;
    tri_lock_take(&shard->lock);
    // Relaxed: changes under the lock.
    if (atomic_load_explicit(&v->cell.id, memory_order_relaxed) != id) {
        tri_lock_drop(&shard->lock);
        return TR_EGONE;
    }
    tri_kind *kind = tri_kind_of(cluster, v);
    // Relaxed: written under the lock.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_relaxed);
    if (form != TRI_FORM_UNKNOWN) {
        tri_lock_drop(&shard->lock);
        return TR_OK;  // another was first
    }
    form = TRI_FORM_PLAIN;
    if (kind == NULL) {
        // Others may host it; here it is not known what it will be.
        form = TRI_FORM_UNKNOWN;
        err = tri_bus_of(cluster) != NULL ? TR_OK : TR_ENOENT;
    } else if (kind->workers > 0 && v->route == NULL) {
        form = TRI_FORM_FRONT;
        v->front = make_front(cluster, worker, v);
        err = v->front != NULL ? TR_OK : TR_ENOMEM;
    }
    if (err == TR_OK) {
        // Release: publishes kind and workers; pairs with virtual_send.
        atomic_store_explicit(&v->form, form, memory_order_release);
    }
    tri_lock_drop(&shard->lock);
    return err;
}

static tri_virtual *whose_turn(tri_virtual *v)
{
    // Relaxed: only that turns differ counts.
    uint64_t turn =
        atomic_fetch_add_explicit(&v->front->turn, 1, memory_order_relaxed);
    return v->front->workers[turn % v->kind->workers];
}

static tr_err virtual_send(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_virtual *v = tri_virtual_of(cell);
    uint64_t id = msg->to_id;  // the push that was refused has set it
    // Acquire: pairs with settle_form.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_acquire);
    if (form == TRI_FORM_UNKNOWN) {
        TR_TRY(settle_form(cluster, worker, v, id));
        form = atomic_load_explicit(&v->form, memory_order_acquire);
    }
    if (form == TRI_FORM_FRONT) {
        // Relaxed: the name of a front is never forgotten, and its id was
        // there before the form.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) != id) {
            return TR_EGONE;
        }
        v = whose_turn(v);
        // Relaxed: it never changes.
        id = atomic_load_explicit(&v->cell.id, memory_order_relaxed);
        if (tri_push(worker, &v->cell, id, msg) == TR_OK) {
            return TR_OK;
        }
    }
    return send_to(cluster, worker, v, id, msg);
}

/* ---- out of an activation ---- */

static void refuse(tri_worker *worker, tr_ref to, tri_node *mail, tr_err err);

/*
 * Begins those whose turn has come; without a lock. Due whenever one loads no
 * more, also if it has failed to begin: others may have stood in line behind
 * it by then.
 */
static void call_next(tri_cluster *cluster, tri_worker *worker)
{
    tri_virtual *v;
    tr_err err = TR_ENOENT;
    // One has gone, one comes: unless that one cannot begin.
    while (err != TR_OK && (v = tri_line_next(&cluster->line)) != NULL) {
        tri_shard *shard = &cluster->shards[v->shard];
        tri_lock_take(&shard->lock);
        v->waits = 0;
        v->line_next = NULL;
        tr_ref self = tri_cell_ref(cluster->sys, &v->cell);
        tri_node *mail = take_pending(v);
        TRI_CHECK(mail != NULL);
        err = tri_activate(cluster, worker, v, mail);
        if (err != TR_OK) {
            tri_virtual_rest(cluster, v);
        }
        tri_lock_drop(&shard->lock);
        if (err == TR_OK) {
            tri_activate_go(cluster, worker, v);
        } else {
            refuse(worker, self, mail, err);
        }
    }
}

/* Its state is here, or will not come. */
static void loaded(tri_worker *worker, tri_cell *cell)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_active *a = tri_virtual_of(cell)->active;
    if (!a->loads) {
        return;
    }
    a->loads = false;
    if (tri_line_leave(&cluster->line)) {
        call_next(cluster, worker);
    }
}

static void life(tri_worker *worker, tri_cell *cell, tr_state state)
{
    tri_virtual *v = tri_virtual_of(cell);
    tri_activation_follow(v, state);
    if (tri_activation_of(v) == TRI_ACTIVATION_DEACTIVATING) {
        loaded(worker, cell);  // it was ended before, or has failed
    }
}

static uint32_t shard(tri_cell *cell)
{
    return tri_virtual_of(cell)->shard;
}

static void quiet(tri_cell *cell)
{
    tri_active *a = tri_virtual_of(cell)->active;
    // Relaxed: only the owner writes; the sweeper looks.
    atomic_store_explicit(
        &a->quiet, atomic_load_explicit(&a->quiet, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* The rest of the queue and, behind it, what came while it was closed. */
static tri_node *take_mail(tri_virtual *v)
{
    tri_node **end = &v->cell.queue;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = take_pending(v);
    tri_node *all = v->cell.queue;
    v->cell.queue = NULL;
    return all;
}

static void refuse(tri_worker *worker, tr_ref to, tri_node *mail, tr_err err)
{
    while (mail != NULL) {
        tri_node *next = mail->next;
        tri_dead(worker, to, tri_msg_from(mail),
                 err == TR_ECLOSED  ? TR_DEAD_CLOSED
                 : err == TR_ENOMEM ? TR_DEAD_NO_MEMORY
                                    : TR_DEAD_NO_SUCH_ACTOR);
        mail = next;
    }
}

static tr_err hand_all_over(tri_cluster *cluster, tri_worker *worker,
                            tri_virtual *v, tri_node *mail)
{
    if (!v->handed) {
        TR_TRY(tri_bus_look(cluster, worker, v));
        v->handed = true;
    }
    while (mail != NULL) {
        tri_node *next = mail->next;
        append_pending(v, mail);
        mail = next;
    }
    return TR_OK;
}

static void ended(tri_worker *worker, tri_cell *cell)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_virtual *v = tri_virtual_of(cell);
    tri_shard *shard = &cluster->shards[v->shard];
    tr_err err = TR_OK;
    tri_lock_take(&shard->lock);
    tri_activate_end(cluster, worker, v);
    tri_node *mail = take_mail(v);
    bool elsewhere = mail != NULL && is_elsewhere(cluster, v);
    if (elsewhere) {
        err = hand_all_over(cluster, worker, v, mail);
    } else if (mail != NULL) {
        err = tri_activate(cluster, worker, v, mail);
    }
    tr_ref self = tri_cell_ref(worker->sys, cell);
    tri_virtual_rest(cluster, v);
    tri_lock_drop(&shard->lock);
    if (err != TR_OK) {
        refuse(worker, self, mail, err);
        call_next(cluster, worker);
    } else if (mail != NULL && !elsewhere) {
        tri_activate_go(cluster, worker, v);
    }
}

/* ---- the whole ---- */

/* A system that was abandoned leaves mail behind. */
static void free_pending(tr_system *sys, tri_virtual *v)
{
    for (tri_node *node = take_pending(v), *next; node != NULL; node = next) {
        next = node->next;
        tri_msg_free(&sys->outside->cache, tri_msg_from(node));
    }
}

void tri_catalog_free_mail(tr_system *sys, tri_shard *shard)
{
    tri_virtual *v;
    for (tri_map_iter it = tri_map_iter_begin(&shard->names);
         (v = tri_map_iter_next(&shard->names, &it)) != NULL;) {
        free_pending(sys, v);
        // Relaxed: nobody else is there any more.
        bool front = atomic_load_explicit(&v->form, memory_order_relaxed) ==
                     TRI_FORM_FRONT;
        for (uint32_t i = 0; front && i < v->kind->workers; i++) {
            free_pending(sys, v->front->workers[i]);
        }
    }
}

const tri_virtual_ops tri_catalog_ops = {
    .send = virtual_send,
    .life = life,
    .loaded = loaded,
    .quiet = quiet,
    .shard = shard,
    .shards = TRI_SHARDS,
    .name = tri_virtual_name,
    .ended = ended,
    .signal = tri_bus_signal,
    .poison = tri_bus_poison,
    .watch = tri_bus_watch,
    .unwatch = tri_bus_unwatch,
    .reply = tri_bus_reply,
    .close = tri_cluster_close,
    .count = tri_cluster_count,
    .hosted = tri_cluster_hosted,
    .free = tri_cluster_free,
};
