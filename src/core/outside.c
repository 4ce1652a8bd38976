/*
 * outside.c - threads that are no actors: who acts, and how they wait.
 *
 * An outside thread that waits has a cell of its own, without behaviour:
 * whoever would schedule such a cell sets the thread's word instead, and by
 * that hands the cell back to it. So promises need no table: a late answer
 * finds a cell with another id.
 *
 * Threads that are no workers share one tri_worker (sys->outside) for memory
 * and queues, under a lock that is never held while waiting.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "core/probe.h"
#include "schema/value.h"
#include "troupe/observe.h"

/* ---- who acts ---- */

/* One that was closed is memory with anything in it: a glance, no proof. */
static tr_system *outside_system(tr_from from)
{
    tr_system *sys = from.sys;
    if (sys != NULL &&
        *(const uint64_t *)(const void *)sys == TRI_PROBE_MAGIC) {
        sys = from.probe->box.sys;
    }
    if (sys == NULL || sys->magic != TRI_SYSTEM_MAGIC) {
        tr_abort("tr_from",
                 sys == NULL ? "this is no open system: it is NULL"
                             : "this is no open system: it has been closed, or "
                               "is neither a ctx, a sys nor a probe");
    }
    return sys;
}

tr_system *tri_from_system(tr_from from)
{
    return tri_from_is_ctx(from) ? from.ctx->sys : outside_system(from);
}

static tri_actor_from enter_system(tr_system *sys, tr_ref sender)
{
    tri_actor_from who = {.sys = sys, .sender = sender};
    tri_worker *worker = tri_worker_current();
    if (worker != NULL && worker->sys == sys) {
        who.worker = worker;
        return who;
    }
    tri_lock_take(&sys->outside_lock);
    who.worker = sys->outside;
    who.locked = true;
    return who;
}

tri_actor_from tri_enter_outside(tr_from from)
{
    tr_system *sys = outside_system(from);
    return enter_system(sys, from.sys != sys ? tr_probe_ref(from.probe)
                                             : (tr_ref){0});
}

tri_world *tri_from_world(tr_from from)
{
    return tri_from_system(from)->world;
}

/* ---- an outside mailbox ---- */

tr_err tri_mailbox_open(tri_mailbox *box, tr_system *sys)
{
    tri_actor_from who = enter_system(sys, (tr_ref){0});
    tri_cell *cell =
        tri_cell_new(sys, &who.worker->cache, tri_id_next(who.worker));
    if (cell != NULL) {
        cell->state = box;
        // Relaxed: its ref is not known yet.
        atomic_store_explicit(&cell->flags, TRI_CELL_OUTSIDE,
                              memory_order_relaxed);
        atomic_store_explicit(&cell->life, TR_STATE_RUNNING,
                              memory_order_relaxed);
    }
    tri_leave(&who);
    if (cell == NULL) {
        return TR_ENOMEM;
    }
    box->cell = cell;
    box->sys = sys;
    box->awaited = sys->user;
    tri_lock_take(&sys->boxes_lock);
    box->prev = NULL;
    box->next = sys->boxes;
    if (sys->boxes != NULL) {
        sys->boxes->prev = box;
    }
    sys->boxes = box;
    tri_lock_drop(&sys->boxes_lock);
    // Relaxed: only this thread knows the box.
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
    return TR_OK;
}

/* The last thing a waiting thread does with its system. */
static void box_leave(tri_mailbox *box)
{
    tr_system *sys = box->sys;
    tri_world *world = sys->world;
    tri_lock_take(&sys->boxes_lock);
    if (box->prev != NULL) {
        box->prev->next = box->next;
    } else {
        sys->boxes = box->next;
    }
    if (box->next != NULL) {
        box->next->prev = box->prev;
    }
    bool last = sys->boxes == NULL;
    tri_lock_drop(&sys->boxes_lock);
    // Seq_cst: tri_boxes_drive_out reads it after it has set `dead`.
    if (atomic_load_explicit(&sys->dead, memory_order_seq_cst) && last) {
        world->ops->wake(world, &sys->dead, UINT32_MAX);
    }
}

void tri_boxes_drive_out(tr_system *sys)
{
    tri_world *world = sys->world;
    // Seq_cst: before the threads are woken; they look at it then.
    atomic_store_explicit(&sys->dead, 1, memory_order_seq_cst);
    for (;;) {
        tri_lock_take(&sys->boxes_lock);
        tri_mailbox *first = sys->boxes;
        for (tri_mailbox *box = first; box != NULL; box = box->next) {
            world->ops->wake(world, &box->word, 1);
        }
        tri_lock_drop(&sys->boxes_lock);
        if (first == NULL) {
            return;
        }
        world->ops->park(world, &sys->dead, 1, TR_MS(1));
    }
}

void tri_mailbox_close(tri_mailbox *box)
{
    tri_cell *cell = box->cell;
    tri_actor_from who = enter_system(box->sys, (tr_ref){0});
    tr_ref self = tri_cell_ref(box->sys, cell);
    tri_node *node = tri_close_user(cell);
    for (tri_node *queued = cell->queue, *next; queued != NULL; queued = next) {
        next = queued->next;
        tri_mailbox_drop(who.worker, self, queued);
    }
    cell->queue = NULL;
    while (node != NULL) {
        tri_node *next = node->next;
        tri_mailbox_drop(who.worker, self, node);
        node = next;
    }
    node = tri_close_system(cell);
    while (node != NULL) {
        tri_node *next = node->next;
        tri_mailbox_drop(who.worker, self, node);
        node = next;
    }
    if (tri_ext_of(cell) != NULL) {
        tri_unwatch_all(who.worker, cell);  // tr_watch_for
        tri_watchers_tell(who.worker, cell, TR_STOPPED);
        tri_joins_tell(who.worker, cell);
    }
    tri_ext_free(who.worker, cell);
    tri_cell_free(&who.worker->cache, cell);
    tri_leave(&who);
    box_leave(box);
}

void tri_mailbox_drop(tri_worker *worker, tr_ref self, tri_node *node)
{
    switch (node->kind) {
    case TRI_NODE_USER:
        tri_dead(worker, self, tri_msg_from(node), TR_DEAD_DRAINED);
        break;
    case TRI_NODE_REPLY:
        tri_dead(worker, self, tri_msg_from(node), TR_DEAD_LATE);
        break;
    case TRI_NODE_WATCH: {
        tri_watch *watch = (tri_watch *)(void *)node;
        tri_cell *cell = tri_ref_cell(self);
        tri_watch_arrived(worker, cell, watch);
        break;
    }
    case TRI_NODE_JOIN:
        tri_join_arrived(worker, tri_ref_cell(self), (tri_join *)(void *)node);
        break;
    case TRI_NODE_POISON:
        tri_msg_free(&worker->cache, tri_msg_from(node));
        break;
    default:  // TERMINATED, UNWATCH: from malloc
        free(node);
        break;
    }
}

void tri_outside_wake(tri_worker *worker, tri_cell *cell)
{
    tri_world *world = worker->sys->world;
    tri_mailbox *box = cell->state;
    // Release: hands the cell back; pairs with the acquire in wait_word.
    // After it the box may be gone: only its address is used.
    atomic_store_explicit(&box->word, 1, memory_order_release);
    world->ops->wake(world, &box->word, 1);
    tri_poll_ready(worker->sys);  // a driver sleeps in its poller
}

/* Waits until the cell is ours again; false when the time is over. */
static bool wait_word(tri_mailbox *box, tr_nanos deadline)
{
    tr_system *sys = box->sys;
    tri_world *world = sys->world;
    tr_nanos start = world->ops->mono(world);
    tr_nanos now = start;
    // Who sleeps takes long to come, and may need our core for it.
    bool spin = world->ops->has_threads && !sys->options.poll &&
                !tri_is_asleep(sys, box->awaited);

    // Acquire: pairs with tri_outside_wake.
    while (atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
        // Seq_cst: pairs with tri_boxes_drive_out.
        if (atomic_load_explicit(&sys->dead, memory_order_seq_cst)) {
            return false;
        }
        if (spin) {
            for (int i = 0; i < 32; i++) {
                world->ops->pause(world);
            }
            now = world->ops->mono(world);
            spin = now - start < TRI_SPIN_ASK;
        } else {
            tri_drive_or_park(sys, &box->word, 0,
                              deadline == TR_FOREVER ? TR_FOREVER
                                                     : deadline - now);
        }
        now = world->ops->mono(world);
        if (now >= deadline &&
            atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
            return false;
        }
    }
    // Relaxed: the cell is ours, nobody else writes the word now.
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
    return true;
}

/* Takes the cell back from the senders; true: it is ours already again. */
static void take_back(tri_mailbox *box)
{
    tri_cell *cell = box->cell;
    // Relaxed: confirmed by the exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    while (seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) {
        // Acquire: as poke.
        if (atomic_compare_exchange_weak_explicit(
                &cell->mail, &seen, seen & ~(TRI_MAIL_IDLE | TRI_MAIL_PARKED),
                memory_order_acq_rel, memory_order_relaxed)) {
            return;
        }
    }
    // Somebody is handing it to us at this moment.
    while (atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
        box->sys->world->ops->yield(box->sys->world);
    }
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
}

/* Was it meant for a former owner of the cell? */
static bool is_stale(const tri_node *node, uint64_t id)
{
    switch (node->kind) {
    case TRI_NODE_USER:
    case TRI_NODE_REPLY:
        return ((const tr_msg *)(const void *)node)->to_id != id;
    case TRI_NODE_TERMINATED:
        return ((const tri_watch *)(const void *)node)->watcher.id != id;
    case TRI_NODE_JOIN:
        return ((const tri_join *)(const void *)node)->waiter.id != id;
    default:
        return false;
    }
}

static tri_node *next_node(tri_cell *cell)
{
    if (cell->queue == NULL) {
        bool signalled;
        cell->queue = tri_system_take(cell, &signalled);
        tri_detach(cell);
    }
    tri_node *node = cell->queue;
    if (node != NULL) {
        cell->queue = node->next;
        // Relaxed: for observers; only the owner writes. System mail, which
        // is in the same list here, was never counted.
        uint32_t queued =
            atomic_load_explicit(&cell->queued, memory_order_relaxed);
        atomic_store_explicit(
            &cell->queued,
            node->next == NULL ? 0 : queued - tri_is_counted(node),
            memory_order_relaxed);
    }
    return node;
}

tri_node *tri_mailbox_wait(tri_mailbox *box, tr_nanos deadline)
{
    for (bool over = false;;) {
        tri_node *node = next_node(box->cell);
        if (node == NULL && over) {
            return NULL;
        }
        if (node != NULL) {
            tr_ref self = tri_cell_ref(box->sys, box->cell);
            if (!is_stale(node, self.id)) {
                return node;
            }
            tri_actor_from who = enter_system(box->sys, self);
            tri_mailbox_drop(who.worker, self, node);
            tri_leave(&who);
            continue;
        }
        if (!over && tri_sleep(box->sys->outside, box->cell, true) &&
            !wait_word(box, deadline)) {
            take_back(box);
            over = true;
        }
    }
}

tr_nanos tri_deadline_outside(tr_system *sys, tr_nanos timeout,
                              tr_nanos standard)
{
    tr_nanos span = timeout > 0 ? timeout : standard;
    tr_nanos now = sys->world->ops->mono(sys->world);
    return span >= TR_FOREVER - now ? TR_FOREVER : now + span;
}

tr_err tri_outside_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                        uint32_t limit)
{
    tr_system *sys = who->sys;
    tri_ext *ext = tri_ext_need(who->worker, cell);
    tri_mailbox box;
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    tri_leave(who);
    tr_err err = tri_mailbox_open(&box, sys);
    if (err == TR_OK) {
        tri_wait wait = {
            .kind = TRI_WAIT_ROOM, .cell = box.cell, .target = to, .room = ext};
        if (tri_room_join(&wait, cell, limit)) {
            tri_actor_from signaller = enter_system(sys, (tr_ref){0});
            tri_signal(signaller.worker, cell, to.id, TRI_SIG_ROOM);
            tri_leave(&signaller);
            tr_nanos deadline =
                tri_deadline_outside(sys, 0, sys->options.ask_timeout);
            if (tri_mailbox_wait(&box, deadline) == NULL) {
                if (tri_room_leave(&wait)) {
                    err = TR_ETIMEDOUT;
                } else {  // woken just now: its node is on its way
                    (void)tri_mailbox_wait(&box, TR_FOREVER);
                }
            }
        }
        tri_mailbox_close(&box);
    }
    tri_lock_take(&sys->outside_lock);
    return err;
}

/* ---- asking from outside ---- */

/* Says what is known: the same as of an ask inside. */
static void say_why(tr_from from, tr_ref to, const tr_type *type,
                    const char *site, tr_err err, const char *text)
{
    tr_actor_info info = {.size = sizeof(info)};
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    bool here = tr_actor_info_of(from, to, &info) == TR_OK;
    tri_actor_from who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    bool more = text != NULL && strcmp(text, tr_strerror(err)) != 0;
    tri_error_set(NULL, "%s of %s at %s: %s%s%s%s (target %s, %u queued)",
                  type->name, (tr_ref_path)(from, to, path, sizeof(path)), site,
                  tr_strerror(err), more ? ": " : "", more ? text : "",
                  tri_advice(sys, err, to, room, sizeof(room)),
                  here ? tri_state_name(info.state) : "gone",
                  here ? info.depth : 0);
}

static tr_err take_reply(tr_from from, tr_ref to, tr_msg *reply,
                         const tr_type *type, void *out, const char *site)
{
    tr_err err = TR_OK;
    if (reply->node.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        err = error->err;
        say_why(from, to, type, site, err, error->text);
    } else if (reply->node.type->schema != type->reply->schema) {
        err = TR_ESCHEMA;
        say_why(from, to, type, site, err, reply->node.type->name);
    } else if (out != NULL) {
        err = tri_unpack_owned(type->reply, out, reply->payload);
    }
    tri_actor_from who = tri_enter(from);
    tri_msg_free(&who.worker->cache, reply);
    tri_leave(&who);
    return err;
}

/* Sends the request with the box as its sender. */
static tr_err send_request(tr_from from, tri_mailbox *box, tr_ref to,
                           tr_nanos deadline, const tr_type *type,
                           const void *payload, const char *site)
{
    tri_actor_from who = tri_enter(from);
    tr_msg *msg = tri_msg_new(&who.worker->cache, type, payload, true);
    tr_err err = TR_ENOMEM;
    if (msg != NULL) {
        *tri_msg_ask(msg) =
            (tri_ask){.correlation = 1, .deadline = deadline, .site = site};
        who.sender = tri_cell_ref(box->sys, box->cell);
        err = tri_try_send(&who, to, msg);
        if (err == TR_OK) {
            box->awaited = tri_ref_cell(to);  // of this system
        }
        if (err != TR_OK) {
            tri_msg_free(&who.worker->cache, msg);
        }
    }
    tri_leave(&who);
    return tri_undelivered_as(to, err);
}

/*
 * The answer, or NULL. Whoever is asked has our ref meanwhile, and may send,
 * watch and join as with any other: none of that is an answer.
 */
static tri_node *await_reply(tri_mailbox *box, tr_nanos deadline)
{
    tr_ref self = tri_cell_ref(box->sys, box->cell);
    for (;;) {
        tri_node *node = tri_mailbox_wait(box, deadline);
        if (node == NULL || node->kind == TRI_NODE_REPLY) {
            return node;
        }
        tri_actor_from who = enter_system(box->sys, self);
        tri_mailbox_drop(who.worker, self, node);
        tri_leave(&who);
    }
}

static __attribute__((noinline)) tr_err ask_outside(tr_from from, tr_ref to,
                                                    void *out, tr_nanos timeout,
                                                    const tr_type *type,
                                                    const void *payload,
                                                    const char *site)
{
    if (out != NULL) {
        memset(out, 0, type->reply->size);
    }
    tri_actor_from who = tri_enter(from);
    tr_system *sys = who.sys;
    bool on_worker = !who.locked;
    tri_leave(&who);
    if (on_worker) {
        tri_error_set(NULL,
                      "%s at %s: waiting as `sys` inside a handler would "
                      "block its worker; use its ctx",
                      type->name, site);
        (tr_log)(from, TR_LOG_ERROR, site,
                 "waiting for %s as `sys` inside a "
                 "handler is refused: use its ctx",
                 type->name);
        return TR_EWOULDBLOCK;  // rule 22
    }
    tri_mailbox box;
    TR_TRY(tri_mailbox_open(&box, sys));
    tr_nanos deadline =
        tri_deadline_outside(sys, timeout, sys->options.ask_timeout);
    tr_err err = send_request(from, &box, to, deadline, type, payload, site);
    tri_node *node = NULL;
    if (err == TR_OK) {
        node = await_reply(&box, deadline);
        // Seq_cst: as in wait_word.
        err = node != NULL ? TR_OK
              : atomic_load_explicit(&sys->dead, memory_order_seq_cst)
                  ? TR_ECLOSED
                  : TR_ETIMEDOUT;
    }
    if (err == TR_ECLOSED) {
        tri_error_set(NULL, "%s at %s: the system is closing or closed",
                      type->name, site);
    } else if (err != TR_OK) {
        say_why(from, to, type, site, err, NULL);
    }
    tri_mailbox_close(&box);
    return node != NULL
               ? take_reply(from, to, tri_msg_from(node), type, out, site)
               : err;
}

tr_err(tr_ask)(tr_from from, tr_ref to, void *out, tr_nanos timeout,
               const tr_type *type, const void *payload, const char *site)
{
    TRI_CHECK(type->reply != NULL);
    if (tri_from_is_ctx(from)) {
        return tri_ask_inside(from.ctx, to, out, timeout, type, payload, site);
    }
    return ask_outside(from, to, out, timeout, type, payload, site);
}
