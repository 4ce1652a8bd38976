/*
 * router.c - one ref in front of several workers that share its mail.
 *
 * A router is an actor whose children are the workers. It forwards each
 * message as it came, with its sender and its asker. The workers are
 * supervised like any other children, by the policy in their options. A worker
 * that has ended leaves the router, and the router ends with the last.
 *
 * The options of the workers must outlive the caller's and every restart of
 * the router: the plan is a copy in one block, in a list of the system, and is
 * freed when the router has ended.
 */
#include "system/router.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/cell/ref.h"
#include "core/mail/keep.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"
#include "schema/field.h"
#include "schema/pack.h"
#include "system/fan_out.h"
#include "system/layers.h"
#include "troupe/macros.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

enum {
    WORKERS_MAX = 1 << 16,
    ROOM_FIRST = 8,  // refs of workers; doubled when full
};

typedef struct router_plan {
    tri_link link;  // in tri_routers.plans
    const tr_actor_def *def;
    tr_routing routing;
    uint32_t count;
    tr_spawn_options worker;
    tr_supervision supervision;
    tri_fan_out fan_out;  // limit UINT32_MAX: none
    char *field;
    unsigned char room[];  // the workers' first state, field and dispatcher
} router_plan;

typedef struct Router {
    router_plan *plan;
    tr_ref *workers;  // in the actor's heap, oldest first
    uint32_t count;
    uint32_t room;
    uint32_t next;   // for round robin
    uint32_t named;  // number of the next worker, which is its name
} Router;

/* ---- the plan ---- */

static size_t text_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

/* Copies the text to *room and advances *room past it. NULL stays NULL. */
static char *put_text(unsigned char **room, const char *text)
{
    TRI_CHECK(room != NULL);
    size_t size = text_size(text);
    if (size == 0) {
        return NULL;
    }
    char *copy = (char *)*room;
    memcpy(copy, text, size);
    *room += size;
    return copy;
}

static tr_err plan_check(const tr_router_options *o,
                         const tr_spawn_options *worker)
{
    if ((unsigned)o->routing > TR_HASH_OF_FIELD || o->count > WORKERS_MAX ||
        (o->routing == TR_HASH_OF_FIELD && o->field == NULL) ||
        worker->name != NULL) {
        return TR_EINVAL;
    }
    tr_fan_out wanted = {sizeof(wanted), o->limit, o->overflow};
    tri_fan_out unused;
    return tri_fan_out_take(NULL, &wanted, UINT32_MAX, &unused);
}

/* Fills in a plan with room for what the options point to. */
static void plan_fill(router_plan *plan, const tr_router_options *o,
                      const tr_spawn_options *worker, size_t init_size)
{
    unsigned char *room = plan->room;
    plan->routing = o->routing;
    plan->fan_out = (tri_fan_out){o->limit != 0 ? o->limit : UINT32_MAX,
                                  (uint8_t)o->overflow};
    plan->worker = *worker;
    if (init_size > 0) {  // first: it is aligned there
        tri_init_copy(plan->def, worker, room);
        plan->worker.init = room;
        room += init_size;
    }
    plan->field = put_text(&room, o->field);
    plan->worker.dispatcher = put_text(&room, worker->dispatcher);
    if (worker->supervision != NULL) {
        plan->worker.supervision = &plan->supervision;
    }
    plan->worker.watch = true;
}

/* Copies the options and what they point to. The caller owns *out. */
static tr_err plan_new(tr_system *sys, const tr_actor_def *def,
                       const tr_router_options *o, router_plan **out)
{
    tr_spawn_options worker = {.size = sizeof(worker)};
    if (o->worker != NULL &&
        !tri_options_copy(&worker, sizeof(worker),
                          TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
                          o->worker)) {
        return TR_EINVAL;
    }
    TR_TRY(plan_check(o, &worker));
    if (worker.init != NULL && worker.init_size != def->state_size) {
        return TR_EINVAL;
    }
    size_t init_size = tri_init_size(def, &worker);
    if (init_size == SIZE_MAX) {
        return TR_ELIMIT;
    }
    router_plan *plan = tri_mem_calloc(
        &sys->mem, sizeof(*plan) + init_size + text_size(o->field) +
                       text_size(worker.dispatcher));
    if (plan == NULL) {
        return TR_ENOMEM;
    }
    if (worker.supervision != NULL &&
        !tri_options_copy(&plan->supervision, sizeof(plan->supervision),
                          TRI_SIZE_THROUGH(tr_supervision, retry_message),
                          worker.supervision)) {
        free(plan);
        return TR_EINVAL;
    }
    plan->def = def;
    plan->count = o->count != 0 ? o->count : sys->options.workers;
    plan_fill(plan, o, &worker, init_size);
    *out = plan;
    return TR_OK;
}

static tri_routers *routers_of(tr_system *sys)
{
    return &tri_layers_of(sys)->routers;
}

static void plan_link(tri_routers *routers, router_plan *plan)
{
    tri_lock_take(&routers->lock);
    tri_list_push_front(&routers->plans, &plan->link);
    tri_lock_drop(&routers->lock);
}

/* Frees a plan and what its first state holds. */
static void plan_drop(router_plan *plan)
{
    const tr_type *type = tri_init_type(plan->def, &plan->worker);
    if (type != NULL) {
        tri_pack_release(type, plan->room);
    }
    free(plan);
}

static void plan_free(tri_routers *routers, router_plan *plan)
{
    TRI_CHECK(plan != NULL);
    tri_lock_take(&routers->lock);
    tri_list_remove(&plan->link);
    tri_lock_drop(&routers->lock);
    plan_drop(plan);
}

void tri_routers_init(tri_routers *routers)
{
    tri_list_init(&routers->plans);
}

void tri_routers_free(tr_system *sys)
{
    tri_link *link;
    while ((link = tri_list_pop_front(&routers_of(sys)->plans)) != NULL) {
        plan_drop(tri_container_of(link, router_plan, link));
    }
}

/* ---- workers ---- */

static tr_err add_worker(tr_ctx *ctx, Router *self)
{
    TRI_CHECK(self->plan != NULL);
    char name[16];
    snprintf(name, sizeof(name), "%u", self->named);
    tr_spawn_options options = self->plan->worker;
    options.name = name;
    tr_ref ref = (tr_spawn)(ctx, self->plan->def, &options);
    if (tr_ref_err(ref) != TR_OK) {
        return tr_ref_err(ref);
    }
    if (self->count == self->room) {
        self->room = self->room == 0 ? ROOM_FIRST : self->room * 2;
        self->workers =
            tr_realloc(ctx, self->workers, self->room * sizeof(*self->workers));
    }
    self->workers[self->count++] = ref;
    self->named++;
    return TR_OK;
}

static tr_err router_start(tr_ctx *ctx, Router *self)
{
    while (self->count < self->plan->count) {
        TR_TRY(add_worker(ctx, self));
    }
    return TR_OK;
}

/* The newest workers leave first, after the mail that they have. */
static tr_err router_resize(tr_ctx *ctx, Router *self, const tr_resize *m)
{
    if (m->count == 0 || m->count > WORKERS_MAX) {
        tr_log(ctx, TR_LOG_WARN, "a router cannot have %u workers", m->count);
        return TR_OK;
    }
    while (self->count > m->count) {
        tr_ref ref = self->workers[--self->count];
        tr_unwatch(ctx, ref);
        tr_poison(ctx, ref);
    }
    while (self->count < m->count) {
        TR_TRY(add_worker(ctx, self));
    }
    return TR_OK;
}

/* A worker has ended. */
static tr_err router_lost(tr_ctx *ctx, Router *self, const tr_terminated *m)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (tr_ref_eq(self->workers[i], m->actor)) {
            memmove(&self->workers[i], &self->workers[i + 1],
                    (self->count - i - 1) * sizeof(*self->workers));
            self->count--;
            break;
        }
    }
    if (self->count == 0) {
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

/* ---- choosing ---- */

static uint32_t next_of(Router *self)
{
    TRI_CHECK(self->count > 0);
    return self->next++ % self->count;
}

static uint32_t random_of(tr_ctx *ctx, const Router *self)
{
    TRI_CHECK(self->count > 0);
    tri_world *world = ctx->sys->world;
    return (uint32_t)(world->ops->random(world) % self->count);
}

/* The worker with the least mail; equal ones take turns. */
static uint32_t least_of(Router *self)
{
    uint32_t first = next_of(self);
    uint32_t best = first, depth = UINT32_MAX;
    for (uint32_t i = 0; i < self->count; i++) {
        uint32_t at = (first + i) % self->count;
        // The memory of a cell stays a cell, so a stale ref is only a bad
        // estimate.
        uint32_t its = tri_depth(tri_ref_cell(self->workers[at]));
        if (its < depth) {
            depth = its;
            best = at;
        }
    }
    return best;
}

static const tr_field *field_named(const tr_type *type, const char *name)
{
    for (uint32_t i = 0; i < type->field_count; i++) {
        if (strcmp(type->fields[i].name, name) == 0) {
            return &type->fields[i];
        }
    }
    return NULL;
}

/* Hashes one value; 0 for a kind of field that cannot be a key. */
static uint64_t hash_field(const tr_field *field, const void *payload)
{
    const char *at = (const char *)payload + field->offset;
    if (tri_kind_is_plain(field->kind)) {
        return tri_hash_bytes(at, field->size);
    }
    if (field->kind == TR_KIND_TEXT) {
        const char *text = tri_load_pointer(at);
        return tri_hash_bytes(text, text != NULL ? strlen(text) : 0);
    }
    if (field->kind == TR_KIND_BYTES) {
        tri_seq bytes = tri_load_seq(at);
        return tri_hash_bytes(bytes.at, bytes.count);
    }
    if (field->kind == TR_KIND_OPTIONAL) {
        tr_field value = tri_field_element(field);  // at the same place
        return tri_optional_has(&value, at) ? hash_field(&value, at) : 0;
    }
    return 0;
}

/*
 * The worker whose hash with the key is the highest (rendezvous hashing): few
 * keys move when the number of workers changes.
 */
static uint32_t hash_of(Router *self, const tr_msg *m)
{
    const tr_field *field = field_named(tr_msg_type(m), self->plan->field);
    if (field == NULL) {
        return next_of(self);
    }
    uint64_t key = hash_field(field, tr_msg_payload(m));
    uint64_t highest = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        uint64_t mixed = tri_hash_mix(key ^ tri_hash_mix(self->workers[i].id));
        if (mixed >= highest) {
            highest = mixed;
            best = i;
        }
    }
    return best;
}

/* ---- passing on ---- */

/*
 * Passes m on to worker `at`, or makes a dead letter of it if the worker has
 * as many messages as the router allows. Takes m from the turn.
 */
static void pass_on(tr_ctx *ctx, const Router *self, uint32_t at,
                    const tr_msg *m)
{
    tr_ref to = self->workers[at];
    if (tri_fan_out_admits(ctx->worker, to, self->plan->fan_out)) {
        tr_forward(ctx, to, m);
    } else {
        tri_dead(ctx->worker, to, tri_msg_take(ctx, m), TR_DEAD_FULL);
    }
}

/* True if the worker may get one more message. */
static bool is_open(const Router *self, uint32_t at)
{
    return tri_depth(tri_ref_cell(self->workers[at])) <
           self->plan->fan_out.limit;
}

/* Returns the first worker from `at` on that is open, or `at`. */
static uint32_t open_from(const Router *self, uint32_t at)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (is_open(self, (at + i) % self->count)) {
            return (at + i) % self->count;
        }
    }
    return at;
}

/* Sends copies to all but the first worker, which gets the message itself. */
static void broadcast(tr_ctx *ctx, Router *self, const tr_msg *m)
{
    for (uint32_t i = 1; i < self->count; i++) {
        tr_msg *copy = tri_msg_new(&ctx->worker->cache, tr_msg_type(m),
                                   tr_msg_payload(m), false);
        if (copy == NULL) {
            ctx->sys->up->dead_letter_lost(ctx->sys, self->workers[i],
                                           tr_msg_type(m), TR_DEAD_NO_MEMORY);
            continue;
        }
        copy->sender = m->sender;
        if (!tri_fan_out_admits(ctx->worker, self->workers[i],
                                self->plan->fan_out)) {
            tri_dead(ctx->worker, self->workers[i], copy, TR_DEAD_FULL);
            continue;
        }
        tri_caller who = {
            .sys = ctx->sys, .worker = ctx->worker, .sender = m->sender};
        tri_send(&who, self->workers[i], copy);
    }
    pass_on(ctx, self, 0, m);
}

static tr_err route(tr_ctx *ctx, Router *self, const tr_msg *m)
{
    uint32_t at = 0;
    if (self->count == 0) {
        return TR_EGONE;  // the last worker has ended, and the router is ending
    }
    switch (self->plan->routing) {
    case TR_ROUND_ROBIN:
        at = open_from(self, next_of(self));
        break;
    case TR_RANDOM:
        at = open_from(self, random_of(ctx, self));
        break;
    case TR_LEAST_LOADED:
        at = least_of(self);
        break;
    case TR_HASH_OF_FIELD:
        at = hash_of(self, m);
        break;
    case TR_BROADCAST:
        broadcast(ctx, self, m);
        return TR_OK;
    }
    pass_on(ctx, self, at, m);
    return TR_OK;
}

TR_ACTOR(router, Router, TR_HOOK(pre_start, router_start),
         TR_ON(tr_resize, router_resize), TR_ON(tr_terminated, router_lost),
         TR_ON_ANY(route));

void tri_router_ended(tr_system *sys, tri_cell *cell)
{
    const tri_behaviour *behaviour = tri_cell_behaviour(cell);
    if (behaviour != NULL && behaviour->def == &router) {
        const Router *first = (const Router *)(const void *)cell->props->init;
        plan_free(routers_of(sys), first->plan);
    }
}

tr_ref(tr_router)(tr_from from, const tr_actor_def *worker,
                  const tr_router_options *options)
{
    tr_router_options o;
    if (worker == NULL ||
        !tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_router_options, worker),
                          options)) {
        return (tr_ref){0, TR_EINVAL};
    }
    tri_caller who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    router_plan *plan = NULL;
    tr_err err = plan_new(sys, worker, &o, &plan);
    if (err != TR_OK) {
        return (tr_ref){0, err};
    }
    plan_link(routers_of(sys), plan);
    tr_spawn_options spawn = {.size = sizeof(spawn),
                              .name = o.name,
                              .init = &(const Router){.plan = plan},
                              .init_type = router.state,
                              .init_size = sizeof(Router)};
    tr_ref ref = (tr_spawn)(from, &router, &spawn);
    if (tr_ref_err(ref) != TR_OK) {
        plan_free(routers_of(sys), plan);
    }
    return ref;
}
