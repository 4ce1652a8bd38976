/*
 * router.c - one ref in front of several workers that share its mail.
 *
 * A router is an actor whose children are the workers; each message it gets
 * is passed on as it came, with its sender and its asker. So workers are
 * supervised like any other children: by the policy in their options. One that
 * has ended leaves the router, and the router ends with the last.
 *
 * What it spawns its workers with must outlive the caller's options and every
 * restart of the router: the plan is a copy in one block, kept in a list of
 * the system and freed when the router has ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/options.h"
#include "schema/field.h"
#include "system/layers.h"

enum { WORKERS_MAX = 1 << 16 };

struct tri_router_plan {
    struct tri_router_plan *next, *prev;  // in tri_layers.plans
    const tr_actor_def *def;
    tr_routing routing;
    uint32_t count;
    tr_spawn_options worker;
    tr_supervision supervision;
    char *field;
    unsigned char room[];  // field, dispatcher and the workers' first state
};

typedef struct Router {
    tri_router_plan *plan;
    tr_ref *workers;  // in the actor's heap
    uint32_t count;
    uint32_t room;
    uint32_t next;   // round robin
    uint32_t named;  // of the next worker
} Router;

/* ---- the plan ---- */

static size_t text_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static char *put_text(unsigned char **room, const char *text)
{
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
    return TR_OK;
}

/* Copies what the options point to. The caller owns *out. */
static tr_err plan_new(tr_system *sys, const tr_actor_def *def,
                       const tr_router_options *o, tri_router_plan **out)
{
    tr_spawn_options worker = {.size = sizeof(worker)};
    if (o->worker != NULL &&
        !tri_options_copy(&worker, sizeof(worker),
                          TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
                          o->worker)) {
        return TR_EINVAL;
    }
    TR_TRY(plan_check(o, &worker));
    size_t init = worker.init != NULL ? worker.init_size : 0;
    tri_router_plan *plan =
        tri_mem_calloc(&sys->mem, sizeof(*plan) + init + text_size(o->field) +
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
    plan->routing = o->routing;
    plan->count = o->count != 0 ? o->count : sys->options.workers;
    plan->worker = worker;
    unsigned char *room = plan->room;
    if (init > 0) {  // first: it is aligned there
        memcpy(room, worker.init, init);
        plan->worker.init = room;
        room += init;
    }
    plan->field = put_text(&room, o->field);
    plan->worker.dispatcher = put_text(&room, worker.dispatcher);
    if (worker.supervision != NULL) {
        plan->worker.supervision = &plan->supervision;
    }
    plan->worker.watch = true;
    *out = plan;
    return TR_OK;
}

static void plan_link(tri_layers *layers, tri_router_plan *plan)
{
    tri_lock_take(&layers->plans_lock);
    plan->next = layers->plans;
    if (layers->plans != NULL) {
        layers->plans->prev = plan;
    }
    layers->plans = plan;
    tri_lock_drop(&layers->plans_lock);
}

static void plan_free(tri_layers *layers, tri_router_plan *plan)
{
    tri_lock_take(&layers->plans_lock);
    if (plan->prev != NULL) {
        plan->prev->next = plan->next;
    } else {
        layers->plans = plan->next;
    }
    if (plan->next != NULL) {
        plan->next->prev = plan->prev;
    }
    tri_lock_drop(&layers->plans_lock);
    free(plan);
}

void tri_routers_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    while (layers->plans != NULL) {
        plan_free(layers, layers->plans);
    }
}

/* ---- workers ---- */

static tr_err add_worker(tr_ctx *ctx, Router *self)
{
    char name[16];
    snprintf(name, sizeof(name), "%u", self->named);
    tr_spawn_options options = self->plan->worker;
    options.name = name;
    tr_ref ref = (tr_spawn)(ctx, self->plan->def, &options);
    if (tr_ref_err(ref) != TR_OK) {
        return tr_ref_err(ref);
    }
    if (self->count == self->room) {
        self->room = self->room == 0 ? 8 : self->room * 2;
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

/* The newest go first; what they still have in their queues they handle. */
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
    return self->next++ % self->count;
}

static uint32_t random_of(tr_ctx *ctx, const Router *self)
{
    tri_world *world = ctx->sys->world;
    return (uint32_t)(world->ops->random(world) % self->count);
}

static uint32_t least_of(Router *self)
{
    uint32_t first = next_of(self);  // equals take turns
    uint32_t best = first, depth = UINT32_MAX;
    for (uint32_t i = 0; i < self->count; i++) {
        uint32_t at = (first + i) % self->count;
        // A cell stays a cell: a stale look is only a bad estimate.
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
    return 0;  // no key: one worker for all
}

/* The worker with the highest hash: few keys move when their number changes. */
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

/* Copies for all but the first, which gets the message itself. */
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
        tri_actor_from who = {
            .sys = ctx->sys, .worker = ctx->worker, .sender = m->sender};
        tri_send(&who, self->workers[i], copy);
    }
    tr_forward(ctx, self->workers[0], m);
}

static tr_err route(tr_ctx *ctx, Router *self, const tr_msg *m)
{
    uint32_t at = 0;
    if (self->count == 0) {
        return TR_EGONE;  // the last has just ended, and so do we
    }
    switch (self->plan->routing) {
    case TR_ROUND_ROBIN:
        at = next_of(self);
        break;
    case TR_RANDOM:
        at = random_of(ctx, self);
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
    tr_forward(ctx, self->workers[at], m);
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
        plan_free(tri_layers_of(sys), first->plan);
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
    tri_actor_from who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    tri_router_plan *plan = NULL;
    tr_err err = plan_new(sys, worker, &o, &plan);
    if (err != TR_OK) {
        return (tr_ref){0, err};
    }
    plan_link(tri_layers_of(sys), plan);
    tr_spawn_options spawn = {.size = sizeof(spawn),
                              .name = o.name,
                              .init = &(const Router){.plan = plan},
                              .init_type = router.state,
                              .init_size = sizeof(Router)};
    tr_ref ref = (tr_spawn)(from, &router, &spawn);
    if (tr_ref_err(ref) != TR_OK) {
        plan_free(tri_layers_of(sys), plan);
    }
    return ref;
}
