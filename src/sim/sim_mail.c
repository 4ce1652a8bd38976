/*
 * sim_mail.c - what becomes of every message and of every callback.
 *
 * A letter is a message that was seen in a mailbox. It is known by its block,
 * which stays the same until it is freed. Invariant: every letter of the
 * ledger lies in a mailbox, or is on its way from one to another within the
 * step that goes on.
 *
 * Messages that a turn sends and the same activation handles are never seen
 * between two steps, and are of no account here. So are those of virtual
 * actors that wait for another life: they may leave the node.
 */
#include "sim/sim_mail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lifecycle.h"
#include "core/runtime.h"
#include "sim/sim_commit.h"
#include "sim/sim_trace.h"
#include "system/layers.h"

enum { LANES = 3 };  // writing, reading and interleaving turns

typedef struct letter {
    tr_msg *msg;
    tri_cell *cell;
    uint64_t to_id, from_id;
    uint64_t number;  // in its pair
    tr_nanos at;      // first seen
    uint32_t mark;    // of the last walk that found it
    bool urgent;
    bool may_go;  // its mailbox is virtual, or drops by its options
} letter;

/* Of one sender and one receiver. */
typedef struct pair {
    uint64_t sent;
    uint64_t handled[LANES];  // the highest number
} pair;

/* A behaviour whose slots lead here: what they led to. */
typedef struct led {
    tri_behaviour *behaviour;
    tr_handler any;
    const tr_handler *any_was;
    tr_handler_fn fn[];
} led;

typedef struct callback {
    const tri_wait *wait;
    tri_cell *cell;
    uint64_t id, correlation;
    uint32_t lives;
    tr_then_fn then;
} callback;

struct tri_sim_mail {
    tri_sim_mail *next;
    tr_sim *sim;
    tr_system *sys;
    uint32_t node;
    const tri_up *up;  // the system's own
    tri_up hooked;
    tri_map letters, pairs, led, callbacks;
    uint32_t mark;
    letter freed;  // without a word; told after the walk, which holds locks
    tri_sim_mail_count count;
};

static uint64_t key_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static uint64_t two(uint64_t a, uint64_t b)
{
    return tri_hash_mix(tri_hash_mix(a) ^ b);
}

static uint64_t id_of(tri_cell *cell)
{
    // Relaxed, here and below: the world is one thread.
    return atomic_load_explicit(&cell->id, memory_order_relaxed);
}

/* The ledger of a system that is looked at; NULL after the run. */
static tri_sim_mail *mail_of(tr_system *sys)
{
    tr_sim *sim = tri_sim_of(sys->world);
    tri_sim_mail *mail = sim->mail;

    while (mail != NULL && mail->sys != sys) {
        mail = mail->next;
    }
    return mail;
}

static void broken(tri_sim_mail *mail, const char *what, const char *detail,
                   const char *name, uint64_t number, tr_ref who)
{
    char path[TRI_PATH_MAX];

    tr_ref_path(mail->sys, who, path, sizeof(path));
    (void)tr_sim_fail(mail->sim,
                      "invariant %s: %s %s, %" PRIu64 " (node %" PRIu32
                      ", actor %s)",
                      what, name, detail, number, mail->node, path);
}

static tr_ref ref_of(const tri_sim_mail *mail, const tri_cell *cell,
                     uint64_t id)
{
    return (tr_ref){tri_cell_ref(mail->sys, cell).cell, id};
}

/* ---- a letter leaves ---- */

static letter *strike_off(tri_sim_mail *mail, const tr_msg *msg)
{
    return tri_map_remove(&mail->letters, key_of(msg));
}

static uint32_t lane_of(uint32_t flags)
{
    return flags & TR_ALWAYS_INTERLEAVE ? 2 : (flags & TR_READ_ONLY) != 0;
}

static void handled(tri_sim_mail *mail, tr_ctx *ctx, uint32_t flags)
{
    letter *it = strike_off(mail, ctx->msg);

    if (it == NULL) {
        return;  // a timer's, stashed before, or not seen between two steps
    }
    mail->count.handled++;
    pair *p = tri_map_get(&mail->pairs, two(it->from_id, it->to_id));
    uint64_t *highest = p != NULL ? &p->handled[lane_of(flags)] : NULL;
    if (highest != NULL && !it->urgent) {
        if (it->number < *highest) {
            broken(mail, "fifo", "came after a later one of its sender",
                   ctx->msg->node.type->name, it->number,
                   ref_of(mail, it->cell, it->to_id));
        }
        *highest = it->number;
    }
    free(it);
}

/* A line of the event log about a message. */
static void trace_mail(tri_sim_mail *mail, tr_ref to, const tr_msg *msg,
                       const char *event, const char *why)
{
    char path[TRI_PATH_MAX], from[TRI_PATH_MAX], detail[TRI_PATH_MAX + 128];

    if (TRI_LIKELY(mail->sim->trace == NULL)) {
        return;
    }
    tr_ref_path(mail->sys, to, path, sizeof(path));
    from[0] = '\0';
    if (msg->sender.id != 0) {
        tr_ref_path(mail->sys, msg->sender, from, sizeof(from));
    }
    snprintf(detail, sizeof(detail), "%s%s%s%s", why,
             why[0] != '\0' && from[0] != '\0' ? ", " : "",
             from[0] != '\0' ? "from " : "", from);
    const tr_type *type = msg->node.type;  // an error has none
    tri_sim_trace(mail->sim,
                  &(tri_sim_line){.node = mail->node,
                                  .actor = path,
                                  .event = event,
                                  .type = type != NULL ? type->name : "error",
                                  .detail = detail});
}

/* An answer leaves: who to whom. An error has no sender: it is of this turn. */
static void on_answer(tri_worker *worker, tr_ref to, const tr_msg *answer)
{
    char path[TRI_PATH_MAX], asker[TRI_PATH_MAX], detail[TRI_PATH_MAX + 64];
    tri_sim_mail *mail = mail_of(worker->sys);

    if (mail == NULL || mail->sim->trace == NULL) {
        return;
    }
    bool is_error = (answer->node.flags & TRI_MSG_ERROR) != 0;
    const tri_error_reply *error = (const void *)answer->payload;
    snprintf(path, sizeof(path), "%s",
             mail->sim->stepping ? mail->sim->trace_actor : "");
    if (!is_error) {
        tr_ref_path(mail->sys, answer->sender, path, sizeof(path));
    }
    tr_ref_path(mail->sys, to, asker, sizeof(asker));
    snprintf(detail, sizeof(detail), "to %s%s%s", asker, is_error ? ", " : "",
             is_error ? tr_errname(error->err) : "");
    tri_sim_trace(
        mail->sim,
        &(tri_sim_line){.node = mail->node,
                        .actor = path,
                        .event = "reply",
                        .type = is_error ? "error" : answer->node.type->name,
                        .detail = detail});
}

/* Every handler of the system is entered here. */
static tr_err enter(tr_ctx *ctx, void *self, const void *m)
{
    tri_sim_mail *mail = mail_of(ctx->sys);
    const tri_behaviour *behaviour = tri_cell_behaviour(ctx->cell);
    const led *to = tri_map_get(&mail->led, key_of(behaviour));
    const tri_slot *slot = tri_behaviour_find(behaviour, ctx->msg->node.type);
    tr_handler_fn fn =
        slot != NULL ? to->fn[slot - behaviour->slots] : to->any_was->fn;

    trace_mail(mail, ref_of(mail, ctx->cell, id_of(ctx->cell)), ctx->msg,
               "handle", "");
    if (TRI_UNLIKELY(mail->sim->trace != NULL) &&
        (ctx->msg->node.flags & TRI_MSG_ASK)) {
        tri_msg_ask(ctx->msg)->way |= TRI_WAY_TOLD;
    }
    handled(mail, ctx, slot != NULL ? slot->flags : 0);
    return fn(ctx, self, m);
}

static void on_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                           uint32_t reason)
{
    tri_sim_mail *mail = mail_of(worker->sys);
    letter *it = strike_off(mail, msg);

    trace_mail(mail, to, msg, "dead", tr_dead_reason_text(reason));
    mail->count.dead += it != NULL;
    free(it);
    mail->up->dead_letter(worker, to, msg, reason);
}

static void on_unhandled(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    tri_sim_mail *mail = mail_of(worker->sys);
    letter *it = strike_off(mail, msg);

    mail->count.dead += it != NULL;
    free(it);
    mail->up->unhandled(worker, cell, msg);
}

/* A write that was made, or failed, may also be one that nobody knows of. */
static void on_stored(tr_system *sys, tri_written *written)
{
    tri_sim_mail *mail = mail_of(sys);
    bool may_be_lost = written->err == TR_OK || written->err == TR_EIO;

    if (may_be_lost &&
        tri_sim_strikes(mail->sim, TRI_FAULT_unknown_outcome, mail->node)) {
        written->err = TR_EUNKNOWN;
    }
    if (written->err == TR_OK) {
        tri_sim_commit(mail->sim, mail->node, written);
    }
}

static void lead_here(tri_sim_mail *mail, tri_behaviour *behaviour)
{
    uint32_t slots = behaviour->mask + 1;

    if (tri_map_get(&mail->led, key_of(behaviour)) != NULL) {
        return;
    }
    led *it = calloc(1, sizeof(*it) + slots * sizeof(it->fn[0]));
    if (it == NULL || tri_map_put(&mail->led, key_of(behaviour), it) != TR_OK) {
        free(it);
        return;
    }
    it->behaviour = behaviour;
    for (uint32_t i = 0; i < slots; i++) {
        it->fn[i] = behaviour->slots[i].fn;
        if (it->fn[i] != NULL) {
            behaviour->slots[i].fn = enter;
        }
    }
    it->any_was = behaviour->any;
    if (behaviour->any != NULL) {
        it->any = *behaviour->any;
        it->any.fn = enter;
        behaviour->any = &it->any;
    }
}

/* ---- a letter comes ---- */

static bool may_go(tri_cell *cell)
{
    return tri_cell_is_virtual(cell) ||
           (cell->props != NULL && cell->props->drain == TR_DRAIN_DROP);
}

static pair *pair_of(tri_sim_mail *mail, uint64_t from, uint64_t to)
{
    uint64_t key = two(from, to);
    pair *p = tri_map_get(&mail->pairs, key);

    if (p == NULL) {
        p = calloc(1, sizeof(*p));
        if (p != NULL && tri_map_put(&mail->pairs, key, p) != TR_OK) {
            free(p);
            p = NULL;
        }
    }
    return p;
}

static void note_letter(tri_sim_mail *mail, tri_cell *cell, tr_msg *msg)
{
    letter *was = tri_map_get(&mail->letters, key_of(msg));

    if (was != NULL && !was->may_go && id_of(was->cell) == was->to_id &&
        tri_cell_life(was->cell) == TR_STATE_RUNNING) {
        mail->freed = *was;
    }
    free(strike_off(mail, msg));  // redirected, or of another node by now
    letter *it = calloc(1, sizeof(*it));
    pair *p = pair_of(mail, msg->sender.id, msg->to_id);
    if (it == NULL || p == NULL ||
        tri_map_put(&mail->letters, key_of(msg), it) != TR_OK) {
        free(it);
        return;
    }
    *it = (letter){.msg = msg,
                   .cell = cell,
                   .to_id = msg->to_id,
                   .from_id = msg->sender.id,
                   .number = ++p->sent,
                   .at = mail->sim->now,
                   .urgent = msg->node.priority != 0,
                   .may_go = may_go(cell)};
    mail->count.read++;
}

static bool is_letter(const tri_node *node)
{
    return node->kind == TRI_NODE_USER && !(node->flags & TRI_MSG_TIMER);
}

static bool is_known(const tri_sim_mail *mail, const tri_node *node,
                     const tri_cell *cell)
{
    const letter *it = tri_map_get(&mail->letters, key_of(node));
    const tr_msg *msg = (const tr_msg *)(const void *)node;

    return it != NULL && it->cell == cell && it->to_id == msg->to_id &&
           it->from_id == msg->sender.id;
}

/* The stack has the newest on top: what is below a known one is known. */
static void read_above(tri_sim_mail *mail, tri_cell *cell, tri_node *node)
{
    tri_node *all[64];
    uint32_t count = 0;

    for (; node != NULL && (!is_letter(node) || !is_known(mail, node, cell));
         node = node->next) {
        if (is_letter(node)) {
            if (count == 64) {  // the rest first
                read_above(mail, cell, node);
                break;
            }
            all[count++] = node;
        }
    }
    while (count > 0) {
        note_letter(mail, cell, (tr_msg *)(void *)all[--count]);
    }
}

static tr_err call_back(tr_ctx *ctx, void *self, const void *reply, tr_err err);

static void read_waits(tri_sim_mail *mail, tri_cell *cell, tri_ext *ext)
{
    for (tri_wait *w = ext->waits; w != NULL; w = w->next) {
        if (w->kind != TRI_WAIT_THEN || w->then == call_back || w->orphan) {
            continue;
        }
        callback *it = calloc(1, sizeof(*it));
        if (it == NULL) {
            return;
        }
        *it = (callback){
            .wait = w,
            .cell = cell,
            .id = id_of(cell),
            .correlation = w->correlation,
            .lives = atomic_load_explicit(&cell->lives, memory_order_relaxed),
            .then = w->then};
        if (tri_map_put(&mail->callbacks, two(it->id, it->correlation), it) !=
            TR_OK) {
            free(it);
            return;
        }
        w->then = call_back;
    }
}

void tri_sim_mail_read(tri_sim_mail *mail, tri_cell *cell)
{
    uintptr_t word = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    tri_node *newest = tri_mail_newest(word);
    tri_ext *ext = tri_ext_of(cell);

    if (newest != NULL) {
        read_above(mail, cell, newest);
    }
    if (ext != NULL && ext->waits != NULL) {
        read_waits(mail, cell, ext);
    }
}

/* ---- callbacks ---- */

static bool still_waits(const callback *it)
{
    const tri_ext *ext = tri_ext_of(it->cell);

    if (id_of(it->cell) != it->id || ext == NULL) {
        return false;
    }
    for (const tri_wait *w = ext->waits; w != NULL; w = w->next) {
        if (w == it->wait && w->correlation == it->correlation) {
            return !w->orphan;
        }
    }
    return false;
}

/* The wait was unlinked just before: it is the one that is not there. */
static callback *called_now(tri_sim_mail *mail, tri_cell *cell)
{
    callback *it;

    for (tri_map_iter i = tri_map_iter_begin(&mail->callbacks);
         (it = tri_map_iter_next(&mail->callbacks, &i)) != NULL;) {
        if (it->cell == cell && it->id == id_of(cell) && !still_waits(it)) {
            return it;
        }
    }
    return NULL;
}

static void trace_call(tri_sim_mail *mail, tr_ctx *ctx, tr_err err)
{
    char path[TRI_PATH_MAX];

    if (TRI_LIKELY(mail->sim->trace == NULL)) {
        return;
    }
    tr_ref_path(mail->sys, ref_of(mail, ctx->cell, id_of(ctx->cell)), path,
                sizeof(path));
    tri_sim_trace(mail->sim, &(tri_sim_line){.node = mail->node,
                                             .actor = path,
                                             .event = "callback",
                                             .detail = tr_errname(err)});
}

static tr_err call_back(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    tri_sim_mail *mail = mail_of(ctx->sys);
    callback *it = called_now(mail, ctx->cell);

    if (it == NULL) {
        broken(mail, "callback", "was called a second time", "tr_ask_then", 2,
               ref_of(mail, ctx->cell, id_of(ctx->cell)));
        return TR_OK;
    }
    tr_then_fn then = it->then;
    tri_map_remove(&mail->callbacks, two(it->id, it->correlation));
    free(it);
    mail->count.callbacks++;
    trace_call(mail, ctx, err);
    return then(ctx, self, reply, err);
}

/* The end of an incarnation is the end of its callbacks. */
static bool has_ended(const callback *it)
{
    return id_of(it->cell) != it->id ||
           tri_cell_life(it->cell) != TR_STATE_RUNNING ||
           atomic_load_explicit(&it->cell->lives, memory_order_relaxed) !=
               it->lives;
}

void tri_sim_mail_callbacks(tri_sim_mail *mail)
{
    callback *it;

    if (mail->freed.msg != NULL) {
        broken(mail, "mail", "was freed, but neither handled nor told",
               "a message", mail->freed.number,
               ref_of(mail, mail->freed.cell, mail->freed.to_id));
        mail->freed = (letter){0};
    }
    for (tri_map_iter i = tri_map_iter_begin(&mail->callbacks);
         (it = tri_map_iter_next(&mail->callbacks, &i)) != NULL;) {
        if (still_waits(it)) {
            continue;
        }
        if (!has_ended(it)) {
            broken(mail, "callback", "was never called", "tr_ask_then",
                   it->correlation, ref_of(mail, it->cell, it->id));
        }
        tri_map_remove(&mail->callbacks, two(it->id, it->correlation));
        free(it);
    }
}

/* ---- at rest ---- */

typedef struct walk {
    tri_sim_mail *mail;
    tri_map asks;  // requests that somebody has: by asker and number
    bool last;
    bool told;
} walk;

static void mark_list(walk *at, tri_node *node)
{
    for (; node != NULL; node = node->next) {
        letter *it = tri_map_get(&at->mail->letters, key_of(node));
        if (it != NULL) {
            it->mark = at->mail->mark;
        }
        if (at->last && node->kind <= TRI_NODE_REPLY &&
            (node->flags & TRI_MSG_ASK)) {
            tr_msg *msg = tri_msg_from(node);
            // Already there: a reply and its request.
            (void)!tri_map_put(
                &at->asks,
                two(node->kind == TRI_NODE_REPLY ? msg->to_id : msg->sender.id,
                    tri_msg_ask(msg)->correlation),
                at);
        }
    }
}

static void mark_turns(walk *at, const tri_ext *ext)
{
    for (const tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (c->msg != NULL && at->last && (c->msg->node.flags & TRI_MSG_ASK)) {
            (void)!tri_map_put(
                &at->asks,
                two(c->msg->sender.id, tri_msg_ask(c->msg)->correlation), at);
        }
    }
}

static bool mark_cell(void *user, tri_cell *cell, uint32_t depth)
{
    walk *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    mark_list(at, cell->queue);
    mark_list(at, tri_mail_newest(
                      atomic_load_explicit(&cell->mail, memory_order_relaxed)));
    if (ext == NULL) {
        return true;
    }
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        mark_list(at, ext->urgent[p]);
    }
    if (at->last) {
        mark_list(at, (tri_node *)(atomic_load_explicit(&cell->sys_mail,
                                                        memory_order_relaxed) &
                                   ~TRI_SYS_BITS));
        mark_list(at, ext->stash);
        mark_list(at, ext->kept);
        mark_turns(at, ext);
    }
    return true;
}

/* A letter that the walk has not met. */
static void missed(tri_sim_mail *mail, letter *it)
{
    // Relaxed: the world is one thread.
    bool is_zombie =
        (atomic_load_explicit(&it->cell->flags, memory_order_relaxed) &
         TRI_CELL_ZOMBIE) != 0;

    if (it->may_go || is_zombie) {
        mail->count.dropped++;
    } else {
        broken(mail, "mail", "is nowhere: neither handled nor told",
               "a message", it->number, ref_of(mail, it->cell, it->to_id));
    }
    tri_map_remove(&mail->letters, key_of(it->msg));
    free(it);
}

/* Its actor could have run, and had all the time it wanted. */
static void look_for_old(tri_sim_mail *mail, const letter *it)
{
    const tri_ext *ext = tri_ext_of(it->cell);

    if (it->at < mail->sim->calm_since &&
        tri_cell_life(it->cell) == TR_STATE_RUNNING &&
        (ext == NULL || ext->parked == NULL)) {
        broken(mail, "liveness", "has been waiting since the faults ended",
               "a message", it->number, ref_of(mail, it->cell, it->to_id));
    }
}

static bool is_answerable(const walk *at, tri_cell *cell, const tri_wait *w)
{
    tri_cell *target = tri_ref_cell(w->target);

    return w->kind > TRI_WAIT_PIPE || w->done || w->correlation == 0 ||
           w->woken || target == NULL || tri_cell_is_virtual(target) ||
           tri_map_get(&at->asks, two(id_of(cell), w->correlation)) != NULL;
}

static bool look_for_calls(void *user, tri_cell *cell, uint32_t depth)
{
    walk *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    if (ext == NULL || tri_cell_life(cell) != TR_STATE_RUNNING) {
        return true;
    }
    for (const tri_wait *w = ext->waits; w != NULL && !at->told; w = w->next) {
        if (!is_answerable(at, cell, w)) {
            at->told = true;
            (void)tr_sim_fail(at->mail->sim,
                              "invariant liveness: a call waits, and nobody "
                              "has its request, %" PRIu64 " (node %" PRIu32
                              ", %s)",
                              w->correlation, at->mail->node,
                              w->site != NULL ? w->site : "tr_ask");
        }
    }
    return !at->told;
}

void tri_sim_mail_rest(tri_sim_mail *mail, bool last)
{
    walk at = {.mail = mail, .last = last};
    letter *it;

    if (!last && tri_map_count(&mail->letters) == 0) {
        return;
    }
    mail->mark++;
    tri_map_init(&at.asks, NULL, NULL);
    tri_visit(mail->sys, mark_cell, &at);
    for (tri_map_iter i = tri_map_iter_begin(&mail->letters);
         (it = tri_map_iter_next(&mail->letters, &i)) != NULL;) {
        if (it->mark != mail->mark) {
            missed(mail, it);
        } else if (last) {
            look_for_old(mail, it);
        }
    }
    if (last && tri_virtual_ops_of(mail->sys) == NULL) {
        tri_visit(mail->sys, look_for_calls, &at);
    }
    tri_map_fini(&at.asks);
}

/* ---- the whole ---- */

static tri_sim_mail *mail_new(tr_sim *sim, const tri_sim_attached *it)
{
    tri_sim_mail *mail = calloc(1, sizeof(*mail));

    if (mail == NULL) {
        return NULL;
    }
    mail->sim = sim;
    mail->sys = it->driven->system;
    mail->node = it->node->index;
    tri_map_init(&mail->letters, NULL, NULL);
    tri_map_init(&mail->pairs, NULL, NULL);
    tri_map_init(&mail->led, NULL, NULL);
    tri_map_init(&mail->callbacks, NULL, NULL);
    mail->up = mail->sys->up;
    mail->hooked = *mail->up;
    mail->hooked.dead_letter = on_dead_letter;
    mail->hooked.unhandled = on_unhandled;
    mail->hooked.stored = on_stored;
    mail->hooked.answers = on_answer;
    mail->sys->up = &mail->hooked;
    mail->next = sim->mail;
    sim->mail = mail;
    return mail;
}

tri_sim_mail *tri_sim_mail_of(tr_sim *sim, const tri_sim_attached *it)
{
    tr_system *sys = it->driven->system;
    tri_sim_mail *mail = mail_of(sys);
    tri_behaviour *behaviour;

    if (mail == NULL) {
        mail = mail_new(sim, it);
    }
    if (mail == NULL ||
        tri_map_count(&sys->behaviours) == tri_map_count(&mail->led)) {
        return mail;
    }
    for (tri_map_iter i = tri_map_iter_begin(&sys->behaviours);
         (behaviour = tri_map_iter_next(&sys->behaviours, &i)) != NULL;) {
        lead_here(mail, behaviour);
    }
    return mail;
}

tri_sim_mail_count tri_sim_mail_counted(const tri_sim_mail *mail)
{
    return mail->count;
}

static void free_all(tri_map *map)
{
    void *value;

    for (tri_map_iter i = tri_map_iter_begin(map);
         (value = tri_map_iter_next(map, &i)) != NULL;) {
        free(value);
    }
    tri_map_fini(map);
}

static void mail_free(tri_sim_mail *mail)
{
    free_all(&mail->letters);
    free_all(&mail->pairs);
    free_all(&mail->led);
    free_all(&mail->callbacks);
    free(mail);
}

/* Handlers and dead letters go where they went before. */
static void lead_back(tri_sim_mail *mail)
{
    led *it;

    for (tri_map_iter i = tri_map_iter_begin(&mail->led);
         (it = tri_map_iter_next(&mail->led, &i)) != NULL;) {
        for (uint32_t k = 0; k <= it->behaviour->mask; k++) {
            it->behaviour->slots[k].fn = it->fn[k];
        }
        it->behaviour->any = it->any_was;
    }
    mail->sys->up = mail->up;
}

void tri_sim_mail_end(tr_sim *sim, tr_system *sys)
{
    tri_sim_mail **at = &sim->mail;
    letter *it;

    while (*at != NULL && (*at)->sys != sys) {
        at = &(*at)->next;
    }
    tri_sim_mail *mail = *at;
    if (mail == NULL) {
        return;
    }
    // Nobody looks any more after the run.
    for (tri_map_iter i = tri_map_iter_begin(&mail->letters);
         sim->after_step != NULL &&
         (it = tri_map_iter_next(&mail->letters, &i)) != NULL;) {
        missed(mail, it);
    }
    *at = mail->next;
    lead_back(mail);
    mail_free(mail);
}

void tri_sim_mail_free(tr_sim *sim)
{
    while (sim->mail != NULL) {
        tri_sim_mail *mail = sim->mail;
        sim->mail = mail->next;
        mail_free(mail);
    }
}
