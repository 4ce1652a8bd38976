/*
 * spawn.c - making actors: checks, options, family, the first schedule.
 *
 * A spawn either gives a ref whose actor will start, or nobody with the
 * reason inside; nothing half-made remains. The name is taken and the parent
 * knows the child before the call returns.
 */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "schema/stored.h"

enum { NAME_MAX = 128 };

bool tri_name_is(const void *value, const void *key, size_t size)
{
    const tri_cell *cell = value;
    return strlen(cell->name) == size && memcmp(cell->name, key, size) == 0;
}

uint64_t tri_id_next(tri_worker *worker)
{
    if (worker->id_next == worker->id_end) {
        // Relaxed: only uniqueness counts.
        worker->id_next = atomic_fetch_add_explicit(
            &worker->sys->next_id, TRI_ID_BLOCK, memory_order_relaxed);
        worker->id_end = worker->id_next + TRI_ID_BLOCK;
    }
    return worker->id_next++;
}

tr_err tri_name_check(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX || name[0] == '$') {
        return TR_EINVAL;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c <= ' ' || c == '/' || c == 127) {
            return TR_EINVAL;
        }
    }
    return TR_OK;
}

/* ---- options ---- */

/* Is nothing set but, perhaps, the first state? So are most spawns. */
static inline bool is_bare(const tr_spawn_options *o)
{
    uint64_t set = (uintptr_t)o->name | (uintptr_t)o->supervision |
                   (uintptr_t)o->dispatcher | o->heap_limit |
                   (uint64_t)o->stop_timeout | o->drain_to.cell |
                   o->drain_to.id | (uintptr_t)o->storage |
                   (uintptr_t)o->serializer | (uintptr_t)o->interceptors |
                   (uint64_t)o->handler_limit;
    uint32_t small = (uint32_t)o->restart | o->soft_limit | o->mailbox_limit |
                     (uint32_t)o->overflow | (uint32_t)o->drain |
                     (uint32_t)o->inherit_supervision | (uint32_t)o->joinable |
                     (uint32_t)o->auto_stop;
    _Static_assert(TR_PERMANENT == 0 && TR_OVERFLOW_FAIL == 0 &&
                       TR_DRAIN_DEAD_LETTERS == 0,
                   "what is not set is the default");
    return (set | small) == 0;
}

static bool needs_props(const tr_spawn_options *o)
{
    return o->init != NULL || o->supervision != NULL ||
           o->inherit_supervision || o->restart != TR_PERMANENT ||
           o->soft_limit != 0 || o->mailbox_limit != 0 || o->heap_limit != 0 ||
           o->stop_timeout != 0 || o->drain != TR_DRAIN_DEAD_LETTERS ||
           o->storage != NULL || o->joinable || o->auto_stop;
}

void tri_props_drop(tri_props *props)
{
    // Acquire and release: the last one sees what the others did.
    if (props != NULL && atomic_fetch_sub_explicit(&props->holds, 1,
                                                   memory_order_acq_rel) == 1) {
        free(props);
    }
}

void tri_props_leave(tri_worker *worker, tri_props *props)
{
    if (props == NULL) {
        return;
    }
    if (props != worker->left_props) {
        tri_props_flush(worker);
        worker->left_props = props;
    }
    worker->left_count++;
}

void tri_props_flush(tri_worker *worker)
{
    tri_props *props = worker->left_props;
    uint32_t count = worker->left_count;
    worker->left_props = NULL;
    worker->left_count = 0;
    // Acquire and release: as tri_props_drop.
    if (props != NULL &&
        atomic_fetch_sub_explicit(&props->holds, count, memory_order_acq_rel) ==
            count) {
        free(props);
    }
}

enum { HOLDS = 256 };  // that a worker takes at once, for spawns alike

/* One hold of the options of the latest spawn, for another actor. */
static inline tri_props *hold_last(tri_worker *worker)
{
    if (TRI_UNLIKELY(worker->last_count == 0)) {
        // Relaxed: we have one hold already.
        atomic_fetch_add_explicit(&worker->last_props->holds, HOLDS,
                                  memory_order_relaxed);
        worker->last_count = HOLDS;
    }
    worker->last_count--;
    return worker->last_props;
}

void tri_props_forget(tri_worker *worker)
{
    tri_props *props = worker->last_props;
    uint32_t count = worker->last_count + 1;
    worker->last_props = NULL;
    worker->last_count = 0;
    // Acquire and release: as tri_props_drop.
    if (props != NULL &&
        atomic_fetch_sub_explicit(&props->holds, count, memory_order_acq_rel) ==
            count) {
        free(props);
    }
}

/* Could this actor share the options of the one spawned before it? */
static bool fits(const tri_props *props, const tr_spawn_options *o)
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
           props->init_size == (o->init != NULL ? o->init_size : 0) &&
           (o->init == NULL || memcmp(props->init, o->init, o->init_size) == 0);
}

bool tri_storable(const tr_actor_def *def, const tr_spawn_options *o)
{
    return o->storage == NULL || (def->state != NULL && def->state->size > 0);
}

/* Many actors are spawned alike: their options are kept once. */
static tr_err share_props(tri_worker *worker, tri_cell *parent,
                          const tr_actor_def *def, const tr_spawn_options *o,
                          tri_props **out)
{
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
    if (fits(worker->last_props, o) &&
        (o->init == NULL || o->init_size == def->state_size)) {
        *out = worker->last_props;
    } else {
        TR_TRY(tri_props_new(worker->sys, parent, def, o, out));
        tri_props_forget(worker);
        worker->last_props = *out;
    }
    (void)hold_last(worker);
    return TR_OK;
}

tr_err tri_props_new(tr_system *sys, tri_cell *parent, const tr_actor_def *def,
                     const tr_spawn_options *o, tri_props **out)
{
    if ((o->init != NULL && o->init_size != def->state_size) ||
        (o->serializer != NULL && !tri_stored_name_ok(o->serializer->name))) {
        return TR_EINVAL;
    }
    tri_props *props = tri_mem_calloc(&sys->mem, sizeof(*props) + o->init_size);
    if (props == NULL) {
        return TR_ENOMEM;
    }
    // Relaxed: nobody else knows it yet.
    atomic_store_explicit(&props->holds, 1, memory_order_relaxed);
    if (o->supervision != NULL) {
        if (!tri_options_copy(&props->supervision, sizeof(props->supervision),
                              TRI_SIZE_THROUGH(tr_supervision, retry_message),
                              o->supervision) ||
            !tri_supervision_fill(&props->supervision)) {
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
    props->is_bare = is_bare(o);
    if (o->init != NULL) {
        props->init = (unsigned char *)(props + 1);
        props->init_size = o->init_size;
        memcpy(props->init, o->init, o->init_size);
    }
    *out = props;
    return TR_OK;
}

/* ---- family ---- */

/* The name of a virtual actor is its own, not its parent's to give. */
static bool has_given_name(tri_cell *cell)
{
    return cell->name != NULL && !tri_cell_is_virtual(cell);
}

tr_err tri_children_link(tri_worker *worker, tri_cell *parent, tri_cell *child)
{
    tri_ext *ext = tri_ext_need(worker, parent);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = TR_OK;
    tri_lock_take(&ext->lock);
    if (ext->closed) {
        err = TR_ESTOPPED;
    } else if (has_given_name(child)) {
        err = tri_map_put_bytes(&ext->names, child->name, strlen(child->name),
                                child);
    }
    if (err == TR_OK) {
        child->sibling_prev = ext->last_child;
        if (ext->last_child != NULL) {
            ext->last_child->sibling_next = child;
        } else {
            ext->first_child = child;
        }
        ext->last_child = child;
        // Relaxed: the lock and the schedule publish it.
        tri_children_count(ext, 1);
        atomic_store_explicit(&child->parent, parent, memory_order_relaxed);
    }
    tri_lock_drop(&ext->lock);
    return err;
}

void tri_children_unlink(tri_ext *parent, tri_cell *child)
{
    tri_lock_assert_held(&parent->lock);
    // One that was given up has no name there.
    if (has_given_name(child) &&
        tri_map_get_bytes(&parent->names, child->name, strlen(child->name)) ==
            child) {
        tri_map_remove_bytes(&parent->names, child->name, strlen(child->name));
    }
    tri_siblings_leave(parent, child);
    child->sibling_next = NULL;
    child->sibling_prev = NULL;
}

void tri_child_to_root(tr_system *sys, tri_ext *from, tri_cell *child)
{
    tri_cell *root = sys->root;
    tri_ext *top = tri_ext_of(root);
    tri_lock_assert_held(&top->lock);
    tri_children_unlink(from, child);
    child->sibling_prev = top->last_child;
    if (top->last_child != NULL) {
        top->last_child->sibling_next = child;
    } else {
        top->first_child = child;
    }
    top->last_child = child;
    // Relaxed: under both locks.
    atomic_store_explicit(&child->parent, root, memory_order_relaxed);
    tri_children_count(top, 1);
    tri_children_count(from, -1);
}

/* ---- how many there are ---- */

/*
 * Each worker counts its own, so that births and ends on two cores do not
 * meet in one line. The closing thread sets last_awaited and passes the
 * barrier of private.h before it counts: an end that did not see the flag
 * is in its sum.
 */
void tri_live_less(tri_worker *worker)
{
    tr_system *sys = worker->sys;
    // Relaxed: one writer. Release: the end, to whoever counts it.
    uint64_t ended =
        atomic_load_explicit(&worker->count.ended, memory_order_relaxed);
    atomic_store_explicit(&worker->count.ended, ended + 1,
                          memory_order_release);
    if (worker->fences) {
        // Seq_cst: pairs with the fence of tri_live_await.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
    // Relaxed: ordered by fence or barrier.
    if (TRI_UNLIKELY(
            atomic_load_explicit(&sys->last_awaited, memory_order_relaxed))) {
        // Seq_cst: before the wake; pairs with the look of tri_live_await.
        atomic_fetch_add_explicit(&sys->last_word, 1, memory_order_seq_cst);
        sys->world->ops->wake(sys->world, &sys->last_word, UINT32_MAX);
    }
}

uint64_t tri_live_count(tr_system *sys)
{
    uint64_t ended = 0, spawned = 0;
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        // Acquire: pairs with tri_live_less. All ends are read before the
        // first birth: if the sums are equal, all had ended at that moment.
        ended +=
            atomic_load_explicit(&worker->count.ended, memory_order_acquire);
    }
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        // Relaxed: as above.
        spawned +=
            atomic_load_explicit(&worker->count.spawned, memory_order_relaxed);
    }
    return spawned - ended;
}

void tri_live_await(tr_system *sys)
{
    tri_world *world = sys->world;
    // Seq_cst: before the fence, or the barrier.
    atomic_store_explicit(&sys->last_awaited, 1, memory_order_seq_cst);
    if (world->ops->can_barrier != NULL && world->ops->can_barrier(world)) {
        world->ops->barrier(world);
    } else {
        // Seq_cst: pairs with the fence of tri_live_less.
        atomic_thread_fence(memory_order_seq_cst);
    }
}

/* ---- spawning ---- */

static tr_ref nobody(tr_err err)
{
    return (tr_ref){0, (uint64_t)err};
}

static tr_err choose_group(tr_system *sys, tri_cell *cell,
                           const tr_spawn_options *o, uint32_t *flags)
{
    const char *name = o->dispatcher;
    if (name == NULL) {
        return TR_OK;  // group 0
    }
    tri_group *group = tri_group_find(sys, name);
    if (group == NULL) {
        return TR_ENOENT;
    }
    if (sys->driven_worker != NULL) {
        return TR_OK;  // one thread runs everything
    }
    TR_TRY(tri_workers_start(sys, group));  // those that nobody used yet
    *flags |= (uint32_t)group->index << TRI_CELL_GROUP_SHIFT;
    if (group->kind == TR_DISPATCH_PINNED) {
        tri_worker *worker = tri_worker_pinned(sys);
        if (worker == NULL) {
            return TR_ELIMIT;
        }
        cell->home = (uint16_t)worker->index;
        *flags |= TRI_CELL_PINNED;
    }
    return TR_OK;
}

static void discard(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: its ref was never handed out.
    if (cell->home != TRI_HOME_NONE) {
        tri_worker_unpin(worker->sys,
                         atomic_load_explicit(&worker->sys->workers[cell->home],
                                              memory_order_acquire));
    }
    free((void *)(uintptr_t)cell->name);
    tri_props_drop(cell->props);
    atomic_store_explicit(&cell->mail, TRI_MAIL_CLOSED, memory_order_relaxed);
    atomic_store_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                          memory_order_relaxed);
    tri_ext_free(worker, cell);
    tri_cell_free(&worker->cache, cell);
}

/* The first state and nothing else, as the one spawned before. */
static bool is_alike(const tri_props *props, const tr_actor_def *def,
                     const tr_spawn_options *o)
{
    return props != NULL && props->is_bare && o->init_size == def->state_size &&
           props->init_size == o->init_size &&
           memcmp(props->init, o->init, o->init_size) == 0;
}

/* What there is to prepare for the options is_bare. */
static inline tr_err prepare_bare(tri_worker *worker, tri_cell *parent,
                                  tri_cell *cell, const tr_actor_def *def,
                                  const tr_spawn_options *o)
{
    if (o->init == NULL) {
        return TR_OK;
    }
    if (is_alike(worker->last_props, def, o)) {
        cell->props = hold_last(worker);
        return TR_OK;
    }
    return share_props(worker, parent, def, o, &cell->props);
}

/* The options that are not. */
static __attribute__((noinline)) tr_err prepare_options(
    tri_actor_from *who, tri_cell *parent, tri_cell *cell,
    const tr_actor_def *def, const tr_spawn_options *o, uint32_t *flags)
{
    tri_worker *worker = who->worker;
    if (o->name != NULL) {
        cell->name =
            tri_mem_should_fail(&who->sys->mem) ? NULL : strdup(o->name);
        if (cell->name == NULL) {
            return TR_ENOMEM;
        }
    }
    TR_TRY(share_props(worker, parent, def, o, &cell->props));
    TR_TRY(choose_group(who->sys, cell, o, flags));
    if (o->mailbox_limit != 0) {
        *flags |= TRI_CELL_BOUNDED;
        cell->slow |= TRI_SLOW_BOUNDED;
    }
    if (o->mailbox_limit != 0 || o->soft_limit != 0 || o->auto_stop ||
        o->handler_limit != 0) {
        tri_ext *ext = tri_ext_need(worker, cell);
        if (ext == NULL) {
            return TR_ENOMEM;
        }
        // Relaxed: the ref is not known yet.
        atomic_store_explicit(&ext->limit, o->mailbox_limit,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->soft_limit, o->soft_limit,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->overflow, (uint8_t)o->overflow,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->handler_limit, o->handler_limit,
                              memory_order_relaxed);
    }
    if (o->auto_stop) {
        // Relaxed: the spawner holds the first.
        atomic_store_explicit(&tri_ext_of(cell)->handles, TRI_HANDLES_COUNT | 1,
                              memory_order_relaxed);
    }
    return TR_OK;
}

static tr_err prepare(tri_actor_from *who, tri_cell *parent, tri_cell *cell,
                      const tr_actor_def *def, const tr_spawn_options *o,
                      uint32_t flags)
{
    tri_worker *worker = who->worker;
    const tri_behaviour *behaviour = tri_behaviour_get(who->sys, worker, def);
    const tr_interceptor *const *outer =
        flags & TRI_CELL_SYSTEM ? NULL : who->sys->options.interceptors;
    if (behaviour != NULL && (outer != NULL || o->interceptors != NULL)) {
        behaviour =
            tri_behaviour_wrap(who->sys, behaviour, outer, o->interceptors);
    }
    if (behaviour == NULL) {
        return TR_ENOMEM;
    }
    tri_cell_become(cell, behaviour);
    TR_TRY(TRI_LIKELY(is_bare(o))
               ? prepare_bare(worker, parent, cell, def, o)
               : prepare_options(who, parent, cell, def, o, &flags));
    uint32_t soft =
        o->soft_limit != 0 ? o->soft_limit : who->sys->options.soft_limit;
    if (soft < TRI_SOFT_GLANCE) {
        flags |= TRI_CELL_TIGHT;
    }
    // Relaxed: its ref is not known yet.
    atomic_store_explicit(&cell->flags, flags, memory_order_relaxed);
    return parent != NULL ? tri_children_link(worker, parent, cell) : TR_OK;
}

tr_ref tri_spawn_under(tri_actor_from *who, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *options,
                       uint32_t flags)
{
    tri_worker *worker = who->worker;
    tr_system *sys = who->sys;
    tri_cell *cell = tri_cell_new(sys, &worker->cache, tri_id_next(worker));
    if (cell == NULL) {
        return nobody(TR_ENOMEM);
    }
    tr_err err = prepare(who, parent, cell, def, options, flags);
    if (err != TR_OK) {
        discard(worker, cell);
        return nobody(err);
    }
    tri_count(&worker->count.spawned);
    tri_count(&worker->tally.lives[tri_cell_behaviour(cell)->kind].spawned);
    tr_ref ref = tri_cell_ref(sys, cell);
    tri_schedule_fresh(worker, cell);
    return ref;
}

/* May this actor have another child now? Rules 24 and 25. */
static tr_err may_spawn(tri_actor_from *who)
{
    if (TRI_LIKELY(who->ctx != NULL)) {
        tri_cell *cell = who->ctx->cell;
        return tri_cell_life(cell) == TR_STATE_RUNNING ||
                       tri_life_takes_children(cell)
                   ? TR_OK
                   : TR_ESTOPPED;
    }
    // Acquire: pairs with tri_system_begin_end.
    return atomic_load_explicit(&who->sys->terminating, memory_order_acquire)
               ? TR_ECLOSED
               : TR_OK;
}

/* What to do about a spawn that was refused; o is NULL if it is unreadable. */
static const char *refusal(const tr_actor_def *def, const tr_spawn_options *o,
                           tr_err err)
{
    switch ((int)err) {
    case TR_EEXIST:
        return "a sibling has the name until it has ended: tr_join or watch "
               "it first";
    case TR_ENOENT:
        return "no such dispatcher: tr_dispatcher_add comes first";
    case TR_ECLOSED:
        return "the system is closing or closed";
    case TR_ESTOPPED:
        return "its parent is ending";
    case TR_ELIMIT:
        return "no more threads for it";
    case TR_EINVAL:
        return o == NULL ? "its options are of another version of Troupe"
               : o->name != NULL && tri_name_check(o->name) != TR_OK
                   ? "a name has 1 to 128 characters, does not begin with "
                     "'$', and has no '/' and no space"
               : o->init != NULL && o->init_size != def->state_size
                   ? "its TR_INIT is of another kind"
               : !tri_storable(def, o)
                   ? "a stored state needs TR_STATE, not a plain struct"
                   : "a time is negative, or a number out of its range, in "
                     "its options or its supervision";
    default:
        return tr_strerror(err);
    }
}

static tr_ref refuse(tr_ctx *ctx, const tr_actor_def *def,
                     const tr_spawn_options *o, tr_err err)
{
    bool named = o != NULL && o->name != NULL;
    const char *kind = def != NULL ? def->name : "an unknown kind";
    tri_error_set(ctx, "cannot spawn %s%s%.*s%s%s%s: %s", kind,
                  named ? " \"" : "", NAME_MAX, named ? o->name : "",
                  named ? "\"" : "", err == TR_ENOENT ? " on dispatcher " : "",
                  err == TR_ENOENT ? o->dispatcher : "", refusal(def, o, err));
    return nobody(err);
}

/* o is NULL if it is unreadable. */
static inline tr_ref spawn(tr_from from, const tr_actor_def *def,
                           const tr_spawn_options *o)
{
    bool known = def != NULL && def->size >= sizeof(*def);
    tri_actor_from who = tri_enter(from);
    tr_err err = !known || o == NULL ||
                         (o->name != NULL && tri_name_check(o->name) != TR_OK)
                     ? TR_EINVAL
                     : may_spawn(&who);
    tr_ref ref = nobody(err);
    if (TRI_LIKELY(err == TR_OK)) {
        tri_cell *parent = who.ctx != NULL ? who.ctx->cell : who.sys->user;
        ref = tri_spawn_under(&who, parent, def, o, 0);
        if (ref.cell == 0 && ref.id == TR_ESTOPPED && who.ctx == NULL) {
            ref.id = TR_ECLOSED;
        }
    }
    tri_leave(&who);
    if (o != NULL && o->watch && who.ctx != NULL) {
        tr_watch(who.ctx, ref);
    }
    return TRI_LIKELY(ref.cell != 0) ? ref
                                     : refuse(who.ctx, known ? def : NULL,
                                              known ? o : NULL, (tr_err)ref.id);
}

/* The options of a caller that was compiled with another version. */
static __attribute__((noinline)) tr_ref spawn_as_of(
    tr_from from, const tr_actor_def *def, const tr_spawn_options *options)
{
    tr_spawn_options copy;
    bool readable = tri_options_copy(
        &copy, sizeof(copy), TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
        options);
    return spawn(from, def, readable ? &copy : NULL);
}

tr_ref(tr_spawn)(tr_from from, const tr_actor_def *def,
                 const tr_spawn_options *options)
{
    static const tr_spawn_options none = {.size = sizeof(none)};
    const tr_spawn_options *o = options != NULL ? options : &none;
    return TRI_LIKELY(o->size == sizeof(*o)) ? spawn(from, def, o)
                                             : spawn_as_of(from, def, o);
}
