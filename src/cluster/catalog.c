/*
 * catalog.c - names become records, records become active, none is lost.
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
#include "cluster/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "cluster/bus.h"
#include "core/mailbox.h"
#include "troupe/observe.h"

#define CORRELATION_SHIFT 32

/* ---- kinds ---- */

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

tri_kind *tri_kind_find(tri_cluster *cluster, const char *name, size_t size)
{
    tri_lock_take(&cluster->kinds_lock);
    tri_kind *kind = tri_map_get_bytes(&cluster->kinds, name, size);
    tri_lock_drop(&cluster->kinds_lock);
    return kind;
}

void tri_kind_free(tri_kind *kind)
{
    if (kind != NULL) {
        tri_props_drop(kind->props);
        free(kind->name);
        free(kind);
    }
}

tri_kind *tri_kind_of(tri_cluster *cluster, tri_virtual *v)
{
    if (v->kind == NULL) {
        size_t at = strlen(cluster->ns) + 2;
        v->kind = tri_kind_find(cluster, v->text + at, v->key_at - 1 - at);
    }
    return v->kind;
}

/* ---- into an activation ---- */

/* With the shard's lock. */
static void count_in_list(tri_shard *shard, int32_t more)
{
    // Relaxed, both: the lock orders writers; the sweeper glances.
    atomic_store_explicit(
        &shard->active,
        atomic_load_explicit(&shard->active, memory_order_relaxed) +
            (uint32_t)more,
        memory_order_relaxed);
}

static void list_append(tri_shard *shard, tri_active *a)
{
    count_in_list(shard, 1);
    a->next = NULL;
    a->prev = shard->last;
    if (shard->last != NULL) {
        shard->last->next = a;
    } else {
        shard->first = a;
    }
    shard->last = a;
}

static void list_remove(tri_shard *shard, tri_active *a)
{
    count_in_list(shard, -1);
    if (a->prev != NULL) {
        a->prev->next = a->next;
    } else {
        shard->first = a->next;
    }
    if (a->next != NULL) {
        a->next->prev = a->prev;
    } else {
        shard->last = a->prev;
    }
}

/* ---- one more, one less ---- */

/* What an activation needs beside the record; false: no memory. */
static bool active_new(tri_cluster *cluster, tri_worker *worker,
                       tri_virtual *v)
{
    tri_active *a = tri_cache_alloc(&worker->cache,
                                    tri_class_of(sizeof(*a)));
    if (a == NULL) {
        return false;
    }
    *a = (tri_active){
        .v = v,
        // Whatever it has handled at the next sweep is news.
        .seen = UINT64_MAX,
        // Relaxed: only that they differ, and grow, counts.
        .order = atomic_fetch_add_explicit(&cluster->activations, 1,
                                           memory_order_relaxed)};
    v->active = a;
    // Where there is a bus it has asked for the place already.
    a->loads = v->kind->props->storage != NULL &&
               tri_bus_of(cluster) == NULL;
    if (a->loads) {
        tri_line_count(&cluster->line);
    }
    return true;
}

static void active_free(tri_worker *worker, tri_virtual *v)
{
    tri_cache_free(&worker->cache, tri_class_of(sizeof(*v->active)),
                   v->active);
    v->active = NULL;
}

static tri_place place_of(tri_cluster *cluster, const tri_virtual *v)
{
    return (tri_place){.node = cluster->here, .number = v->active->order + 1};
}

static tr_err enter_directory(tri_cluster *cluster, tri_virtual *v)
{
    tri_decision decision;
    if (v->kind->workers > 0 || tri_bus_of(cluster) != NULL) {
        return TR_OK;  // may be anywhere; or was registered before: bus.h
    }
    TR_TRY(tri_directory_register_hashed(&cluster->directory, v->hash,
                                         v->text, v->size,
                                         place_of(cluster, v), &decision));
    // One node: nobody else can have registered it.
    TRI_CHECK(decision.kind == TRI_PLACE_ON_NODE);
    return TR_OK;
}

static void leave_directory(tri_cluster *cluster, tri_worker *worker,
                            tri_virtual *v)
{
    if (v->kind->workers > 0) {
        return;
    }
    if (tri_bus_of(cluster) != NULL) {
        tri_bus_gone(cluster, worker, v);
        return;
    }
    bool was = tri_directory_unregister_hashed(&cluster->directory, v->hash,
                                               v->text, v->size,
                                               place_of(cluster, v));
    TRI_CHECK(was);
}

/* Makes the cell ready for another life; its mailbox is still closed. */
static tr_err prepare(tri_cluster *cluster, tri_worker *worker,
                      tri_virtual *v)
{
    tri_cell *cell = &v->cell;
    tri_kind *kind = v->kind;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    // No answer to a question of an earlier life can be taken for ours.
    ext->correlation = v->active->order << CORRELATION_SHIFT;
    // Relaxed: the mailbox is not open yet.
    atomic_store_explicit(&ext->soft_limit, kind->soft_limit,
                          memory_order_relaxed);
    tri_cell_reset(cell);
    tri_cell_become(cell, kind->behaviour);
    // Relaxed: as above; a flag that a sender sets meanwhile stays.
    atomic_fetch_or_explicit(&cell->flags, kind->group, memory_order_relaxed);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, id << TRI_SIG_BITS,
                          memory_order_relaxed);
    // Before it has a parent, who may tell it to stop.
    TR_TRY(enter_directory(cluster, v));
    tr_err err = tri_children_link(worker, tri_ref_cell(cluster->guardian),
                                   cell);
    if (err != TR_OK) {
        leave_directory(cluster, worker, v);
        atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    cell->props = kind->props;
    atomic_fetch_add_explicit(&kind->props->holds, 1, memory_order_relaxed);
    return TR_OK;
}

static uint32_t length_of(const tri_node *list)
{
    uint32_t count = 0;
    for (; list != NULL; list = list->next) {
        count++;
    }
    return count;
}

/*
 * With the shard's lock. Takes mail on TR_OK: the cell is then the caller's,
 * who schedules it without the lock.
 */
static tr_err try_activate(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v, tri_node *mail)
{
    tri_cell *cell = &v->cell;
    // Relaxed: set before its setter takes each of these locks.
    if (atomic_load_explicit(&cluster->closing, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    if (tri_kind_of(cluster, v) == NULL) {
        return TR_ENOENT;
    }
    if (!active_new(cluster, worker, v)) {
        return TR_ENOMEM;
    }
    tr_err err = prepare(cluster, worker, v);
    if (err != TR_OK) {
        if (v->active->loads) {
            (void)tri_line_leave(&cluster->line);  // who sees it calls next
        }
        active_free(worker, v);
        return err;
    }
    tri_activation_set(v, TRI_ACTIVATION_CREATING);
    // Relaxed, both: statistics.
    atomic_fetch_add_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->kind->active, 1, memory_order_relaxed);
    tri_count(&worker->count.spawned);
    tri_count(&tri_lives_of(worker, cell)->spawned);
    list_append(&cluster->shards[v->shard], v->active);
    cell->queue = mail;
    atomic_store_explicit(&cell->queued, length_of(mail),
                          memory_order_relaxed);
    // Release, both: open the lanes after all of the above.
    atomic_store_explicit(&cell->sys_mail, 0, memory_order_release);
    atomic_store_explicit(&cell->mail, 0, memory_order_release);
    return TR_OK;
}

static tr_err activate(tri_cluster *cluster, tri_worker *worker,
                       tri_virtual *v, tri_node *mail)
{
    tr_err err = try_activate(cluster, worker, v, mail);
    if (err != TR_OK && tri_bus_of(cluster) != NULL) {
        tri_bus_back_out(cluster, worker, v);
    }
    return err;
}

/* What is due once the lock is gone. */
static void set_going(tri_cluster *cluster, tri_worker *worker,
                      tri_virtual *v)
{
    tri_kind *kind = v->kind;
    tri_schedule_fresh(worker, &v->cell);
    // Relaxed: only the number counts.
    if (kind->max_active > 0 &&
        atomic_load_explicit(&kind->active, memory_order_relaxed) >
            kind->max_active) {
        tri_sweep_crowded(cluster, worker, kind);
    }
}

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
    // Relaxed: as in activate.
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
    // Relaxed: as in activate.
    return tri_bus_of(cluster) == NULL &&
           !atomic_load_explicit(&cluster->closing, memory_order_relaxed) &&
           tri_kind_of(cluster, v) != NULL &&
           v->kind->props->storage != NULL && tri_line_join(&cluster->line, v);
}

static void call_next(tri_cluster *cluster, tri_worker *worker);

static tr_err send_to(tri_cluster *cluster, tri_worker *worker,
                      tri_virtual *v, uint64_t id, tr_msg *msg)
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
        err = activate(cluster, worker, v, &msg->node);
        activated = err == TR_OK;
        failed = !activated;
    }
    tri_lock_drop(&shard->lock);
    if (activated) {
        set_going(cluster, worker, v);
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
        open = open && tri_push(worker, &v->cell, id, tri_msg_from(node)) ==
                           TR_OK;
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
    tr_err err = activate(cluster, worker, v, mail);
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
        set_going(cluster, worker, v);
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
        front->workers[i] =
            tri_virtual_beside(cluster, v, tri_id_next(worker));
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
        err = activate(cluster, worker, v, mail);
        if (err != TR_OK) {
            tri_virtual_rest(cluster, v);
        }
        tri_lock_drop(&shard->lock);
        if (err == TR_OK) {
            set_going(cluster, worker, v);
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
    leave_directory(cluster, worker, v);
    list_remove(shard, v->active);
    active_free(worker, v);
    tri_activation_set(v, TRI_ACTIVATION_INVALID);
    // Relaxed, all: statistics; both lanes are closed.
    atomic_fetch_sub_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&v->kind->active, 1, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->life, TR_STATE_CREATED,
                          memory_order_relaxed);
    tri_node *mail = take_mail(v);
    bool elsewhere = mail != NULL && is_elsewhere(cluster, v);
    if (elsewhere) {
        err = hand_all_over(cluster, worker, v, mail);
    } else if (mail != NULL) {
        err = activate(cluster, worker, v, mail);
    }
    tr_ref self = tri_cell_ref(worker->sys, cell);
    tri_virtual_rest(cluster, v);
    tri_lock_drop(&shard->lock);
    if (err != TR_OK) {
        refuse(worker, self, mail, err);
        call_next(cluster, worker);
    } else if (mail != NULL && !elsewhere) {
        set_going(cluster, worker, v);
    }
}

/* ---- the whole ---- */

static tr_ref close_all(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    // Relaxed: the locks below order it before every later activation.
    atomic_store_explicit(&cluster->closing, true, memory_order_relaxed);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        tri_lock_drop(&cluster->shards[i].lock);
    }
    return cluster->guardian;
}

static void count_all(tr_system *sys, tr_metrics_snapshot *out)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    // Relaxed, all: statistics.
    out->virtual_names =
        atomic_load_explicit(&cluster->names, memory_order_relaxed);
    out->virtual_active =
        atomic_load_explicit(&cluster->active, memory_order_relaxed);
    out->activations =
        atomic_load_explicit(&cluster->activations, memory_order_relaxed);
}

static void name_hosted(tr_system *sys, char *out, size_t size)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_text text;
    tri_text_init(&text, out, size);
    tri_lock_take(&cluster->kinds_lock);
    for (tri_kind *kind = cluster->first_kind; kind != NULL;
         kind = kind->next) {
        tri_text_add(&text, "%s%s",
                     kind == cluster->first_kind ? "; hosted here: " : ", ",
                     kind->name);
    }
    tri_lock_drop(&cluster->kinds_lock);
}

/* A system that was abandoned leaves mail behind. */
static void free_pending(tr_system *sys, tri_virtual *v)
{
    for (tri_node *node = take_pending(v), *next; node != NULL; node = next) {
        next = node->next;
        tri_msg_free(&sys->outside->cache, tri_msg_from(node));
    }
}

static void free_mail(tr_system *sys, tri_shard *shard)
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

static void free_all(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_kind *kind;
    tri_bus_free(cluster);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        free_mail(sys, &cluster->shards[i]);
    }
    for (tri_map_iter it = tri_map_iter_begin(&cluster->kinds);
         (kind = tri_map_iter_next(&cluster->kinds, &it)) != NULL;) {
        tri_kind_free(kind);
    }
    tri_map_fini(&cluster->kinds);
    tri_directory_fini(&cluster->directory);
    tri_names_free(cluster);
    free(cluster);
}

static const tri_virtual_ops ops = {
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
    .close = close_all,
    .count = count_all,
    .hosted = name_hosted,
    .free = free_all,
};

static const tr_actor_def guardian = {
    .size = sizeof(tr_actor_def), .name = "guardian", .state_size = 0};

static tr_err cluster_new(tri_actor_from *who, tri_cluster **out)
{
    tr_system *sys = who->sys;
    tri_cluster *cluster = tri_mem_calloc(&sys->mem, sizeof(*cluster));
    if (cluster == NULL) {
        return TR_ENOMEM;
    }
    cluster->base.ops = &ops;
    cluster->sys = sys;
    cluster->ns = sys->ns != NULL ? sys->ns : "local";
    cluster->names_max = sys->options.virtual_names != 0
                             ? sys->options.virtual_names
                             : TRI_NAMES_DEFAULT;
    tri_map_init(&cluster->kinds, kind_is, NULL);
    tri_names_init(cluster);
    cluster->line.max = TRI_MAX(sys->options.max_parked / TRI_LOADING_SHARE,
                                UINT32_C(1));
    tri_directory_init(&cluster->directory, &sys->mem, cluster->here);
    tr_spawn_options options = {.size = sizeof(options), .name = "virtual",
                                .stop_timeout = TR_FOREVER / 4};
    cluster->guardian = tri_spawn_under(who, sys->root, &guardian, &options,
                                        TRI_CELL_SYSTEM);
    if (cluster->guardian.cell == 0) {
        tr_err err = tr_ref_err(cluster->guardian);
        tri_directory_fini(&cluster->directory);
        free(cluster);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    *out = cluster;
    return TR_OK;
}

tr_err tri_cluster_get(tri_actor_from *who, tri_cluster **out)
{
    tr_system *sys = who->sys;
    const char *why;
    tr_err err = TR_OK;
    *out = tri_cluster_of(sys);
    if (*out != NULL) {
        return TR_OK;
    }
    if (sys->ns != NULL && !tri_id_is_field(sys->ns, &why)) {
        tri_error_set(who->ctx, "namespace \"%s\": %s", sys->ns, why);
        return TR_EINVAL;
    }
    tri_lock_take(&sys->virtuals_lock);
    *out = tri_cluster_of(sys);
    if (*out == NULL) {
        err = cluster_new(who, out);
        if (err == TR_OK) {
            // Release: publishes it; pairs with tri_cluster_of.
            atomic_store_explicit(&sys->virtuals, &(*out)->base,
                                  memory_order_release);
        }
    }
    tri_lock_drop(&sys->virtuals_lock);
    return err;
}
