/*
 * props.c - checking, copying and sharing the options of a spawn.
 *
 * Invariant: `holds` counts the actors that use the props, plus the holds that
 * workers keep in last_props (one and last_count) and dropped_props
 * (dropped_count). Whoever gives up the last hold frees them.
 */
#include "core/cell/props.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/options.h"
#include "core/cell/mem.h"
#include "core/life/supervise.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/pack.h"
#include "schema/stored.h"
#include "schema/value.h"

/* True if the actor needs an option after its spawn. */
static bool needs_props(const tr_spawn_options *o)
{
    return o->init != NULL || o->supervision != NULL ||
           o->inherit_supervision || o->restart != TR_PERMANENT ||
           o->soft_limit != 0 || o->mailbox_limit != 0 || o->heap_limit != 0 ||
           o->stop_timeout != 0 || o->drain != TR_DRAIN_DEAD_LETTERS ||
           o->storage != NULL || o->joinable || o->auto_stop ||
           o->priority != NULL;
}

/* ---- the first state ---- */

/* Returns the size of the struct as the copy has it: its tail is aligned. */
static size_t padded_size(const tr_spawn_options *o)
{
    return (o->init_size + TRI_PACK_ALIGN - 1) & ~(TRI_PACK_ALIGN - 1);
}

const tr_type *tri_init_type(const tr_actor_def *def, const tr_spawn_options *o)
{
    const tr_type *type = def->state;
    return o->init != NULL && type != NULL && type->size == o->init_size &&
                   type->var_count > 0
               ? type
               : NULL;
}

size_t tri_init_size(const tr_actor_def *def, const tr_spawn_options *o)
{
    if (o->init == NULL) {
        return 0;
    }
    const tr_type *type = tri_init_type(def, o);
    size_t tail = type != NULL ? tri_pack_size(type, o->init) : 0;
    return tail == SIZE_MAX ? SIZE_MAX : padded_size(o) + tail;
}

void tri_init_copy(const tr_actor_def *def, const tr_spawn_options *o, void *to)
{
    TRI_CHECK(o->init != NULL);
    const tr_type *type = tri_init_type(def, o);
    if (type != NULL) {
        tri_pack(type, to, o->init, (char *)to + padded_size(o));
    } else {
        memcpy(to, o->init, o->init_size);
    }
}

bool tri_init_equals(const tri_props *props, const tr_actor_def *def,
                     const tr_spawn_options *o)
{
    if (o->init == NULL) {
        return props->init == NULL;
    }
    const tr_type *type = tri_init_type(def, o);
    return props->init_type == type && props->init_size == o->init_size &&
           (type != NULL ? tri_value_equal(type, props->init, o->init)
                         : memcmp(props->init, o->init, o->init_size) == 0);
}

/* ---- holds ---- */

/* Gives up `count` holds; NULL is allowed. */
static void holds_drop(tri_props *props, uint32_t count)
{
    if (props == NULL) {
        return;
    }
    // Acquire and release: the last holder sees what the others did.
    uint32_t before =
        atomic_fetch_sub_explicit(&props->holds, count, memory_order_acq_rel);
    TRI_CHECK(before >= count);
    if (before == count) {
        if (props->init_type != NULL) {
            tri_pack_release(props->init_type, props->init);
        }
        free(props);
    }
}

void tri_props_drop(tri_props *props)
{
    holds_drop(props, 1);
}

void tri_props_drop_later(tri_worker *worker, tri_props *props)
{
    if (props == NULL) {
        return;
    }
    if (props != worker->dropped_props) {
        tri_props_drop_now(worker);
        worker->dropped_props = props;
    }
    worker->dropped_count++;
}

__attribute__((noinline)) void tri_props_drop_now(tri_worker *worker)
{
    tri_props *props = worker->dropped_props;
    uint32_t count = worker->dropped_count;
    worker->dropped_props = NULL;
    worker->dropped_count = 0;
    holds_drop(props, count);
}

void tri_props_forget_last(tri_worker *worker)
{
    tri_props *props = worker->last_props;
    uint32_t count = worker->last_count + 1;
    worker->last_props = NULL;
    worker->last_count = 0;
    holds_drop(props, count);
}

/* True if the props are what tri_props_new would make of the options. */
static bool fits(const tri_props *props, const tr_actor_def *def,
                 const tr_spawn_options *o)
{
    return props != NULL && o->supervision == NULL && !o->inherit_supervision &&
           !props->has_supervision && props->joinable == o->joinable &&
           props->auto_stop == o->auto_stop && props->restart == o->restart &&
           props->drain == o->drain &&
           tr_ref_eq(props->drain_to, o->drain_to) &&
           props->stop_timeout == o->stop_timeout &&
           props->mailbox_limit == o->mailbox_limit &&
           props->soft_limit == o->soft_limit &&
           props->overflow == o->overflow &&
           props->heap_limit == o->heap_limit && props->storage == o->storage &&
           props->serializer == o->serializer &&
           props->priority == o->priority && tri_init_equals(props, def, o);
}

bool tri_storable(const tr_actor_def *def, const tr_spawn_options *o)
{
    return o->storage == NULL || (def->state != NULL && def->state->size > 0);
}

tr_err tri_props_share(tri_worker *worker, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *o,
                       tri_props **out)
{
    TRI_CHECK(def != NULL);
    *out = NULL;
    if (o->stop_timeout < 0 || o->handler_limit < 0 ||
        (unsigned)o->overflow > TR_OVERFLOW_STOP ||
        (unsigned)o->drain > TR_DRAIN_REDIRECT ||
        (unsigned)o->restart > TR_TEMPORARY || !tri_storable(def, o)) {
        return TR_EINVAL;
    }
    if (!needs_props(o)) {
        return TR_OK;
    }
    if (fits(worker->last_props, def, o) &&
        (o->init == NULL || o->init_size == def->state_size)) {
        *out = worker->last_props;
    } else {
        TR_TRY(tri_props_new(worker->sys, parent, def, o, out));
        tri_props_forget_last(worker);
        worker->last_props = *out;
    }
    (void)tri_props_hold_last(worker);
    return TR_OK;
}

tr_err tri_props_new(tr_system *sys, tri_cell *parent, const tr_actor_def *def,
                     const tr_spawn_options *o, tri_props **out)
{
    TRI_CHECK(def != NULL && out != NULL);
    if ((o->init != NULL && o->init_size != def->state_size) ||
        (o->serializer != NULL && !tri_stored_name_ok(o->serializer->name))) {
        return TR_EINVAL;
    }
    size_t init_size = tri_init_size(def, o);
    if (init_size == SIZE_MAX) {
        return TR_ELIMIT;
    }
    tri_props *props = tri_mem_calloc(&sys->mem, sizeof(*props) + init_size);
    if (props == NULL) {
        return TR_ENOMEM;
    }
    // Relaxed: no other thread knows the props yet.
    atomic_store_explicit(&props->holds, 1, memory_order_relaxed);
    if (o->supervision != NULL) {
        if (!tri_options_copy(&props->supervision, sizeof(props->supervision),
                              TRI_SIZE_THROUGH(tr_supervision, retry_message),
                              o->supervision) ||
            tri_supervision_fill(&props->supervision) != NULL) {
            free(props);
            return TR_EINVAL;
        }
        props->has_supervision = true;
    } else if (o->inherit_supervision && parent != NULL) {
        props->supervision = *tri_supervision_of(sys, parent);
        props->has_supervision = true;
    }
    props->joinable = o->joinable;
    props->auto_stop = o->auto_stop;
    props->restart = o->restart;
    props->drain = o->drain;
    props->drain_to = o->drain_to;
    props->stop_timeout = o->stop_timeout;
    props->mailbox_limit = o->mailbox_limit;
    props->soft_limit = o->soft_limit;
    props->overflow = o->overflow;
    props->heap_limit = o->heap_limit;
    props->storage = o->storage;
    props->serializer = o->serializer;
    props->priority = o->priority;
    props->all_default = tri_options_are_default(o);
    if (o->init != NULL) {
        props->init = (unsigned char *)(props + 1);
        props->init_size = o->init_size;
        props->init_type = tri_init_type(def, o);
        tri_init_copy(def, o, props->init);
    }
    *out = props;
    return TR_OK;
}
