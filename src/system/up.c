/*
 * up.c - what the core tells the system layer: the table behind sys->up.
 */
#include <stdio.h>

#include "system/layers.h"

#define ALARM_PAUSE TR_SECONDS(1)

static void lifecycle(tri_worker *worker, tri_cell *cell, tr_state state)
{
    tr_system *sys = worker->sys;
    tri_cell *parent = tri_cell_parent(cell);
    char path[TRI_PATH_MAX];
    tri_path_write(sys, cell, path, sizeof(path));
    tri_event(worker, &tr_lifecycle_tr_type,
              &(tr_lifecycle){.actor = tri_cell_ref(sys, cell),
                              .parent = parent != NULL
                                            ? tri_cell_ref(sys, parent)
                                            : (tr_ref){0},
                              .name = path,
                              .state = (uint32_t)state,
                              .at = sys->world->ops->mono(sys->world)});
}

static void unhandled(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    tr_system *sys = worker->sys;
    const tr_type *type = msg->node.type;
    if (cell == tri_layers_of(sys)->dead_letters) {  // X41: sent there
        tri_dead(worker, tri_cell_ref(sys, cell), msg, TR_DEAD_NO_SUCH_ACTOR);
        return;
    }
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&tri_layers_of(sys)->unhandled, 1,
                              memory_order_relaxed);
    // The library's own notices may be ignored without a word.
    if (type->schema == tr_terminated_tr_type.schema ||
        type->schema == tr_timeout_tr_type.schema) {
        tri_msg_free(&worker->cache, msg);
        return;
    }
    tri_event(
        worker, &tr_unhandled_tr_type,
        &(tr_unhandled){.actor = tri_cell_ref(sys, cell), .type = type->name});
    tri_dead(worker, tri_cell_ref(sys, cell), msg, TR_DEAD_UNHANDLED);
}

static void supervision(tri_worker *worker, tri_cell *child,
                        const tri_failure *failure, tr_directive directive)
{
    static const char *const names[] = {"by policy", "restart", "stop",
                                        "resume", "escalate"};
    tr_system *sys = worker->sys;
    char path[TRI_PATH_MAX];
    tri_path_write(sys, child, path, sizeof(path));
    tr_err err = failure != NULL ? failure->err : TR_ENOMEM;
    const char *text = failure != NULL && failure->text != NULL
                           ? failure->text
                           : tr_strerror(err);
    tri_logf(sys, TR_LOG_WARN, failure != NULL ? failure->site : NULL, path,
             "failed with %s: %s%s%s; decision: %s", tr_errname(err), text,
             failure != NULL && failure->msg != NULL ? ", while handling " : "",
             failure != NULL && failure->msg != NULL
                 ? failure->msg->node.type->name
                 : "",
             names[directive]);
    if (directive == TR_ESCALATE) {
        // Relaxed: a statistic.
        atomic_fetch_add_explicit(&tri_layers_of(sys)->escalations, 1,
                                  memory_order_relaxed);
    }
    tri_event(worker, &tr_supervision_event_tr_type,
              &(tr_supervision_event){.child = tri_cell_ref(sys, child),
                                      .err = (uint32_t)err,
                                      .directive = (uint32_t)directive,
                                      .text = text});
    if (child == sys->user || child == sys->system) {
        tri_logf(sys, TR_LOG_ERROR, NULL, path,
                 "a guardian has failed: the system ends");
        tri_system_begin_end(sys);
    }
}

/* Not each one: when the machine has too much to do, every handler lasts. */
static void log_stuck(tr_system *sys, tr_ref ref, const char *name,
                      tr_nanos now, tr_nanos lasts)
{
    tri_layers *layers = tri_layers_of(sys);
    if (layers->stuck_window == 0 ||
        now - layers->stuck_window > TR_SECONDS(1)) {
        layers->stuck_window = now;
        layers->stuck_logged = 0;
    }
    if (layers->stuck_logged == TRI_STUCK_LOGGED) {
        layers->stuck_silent++;
        return;
    }
    layers->stuck_logged++;
    if (layers->stuck_silent > 0) {
        tri_logf(sys, TR_LOG_WARN, NULL, NULL,
                 "%u handlers more that last were not logged",
                 layers->stuck_silent);
        layers->stuck_silent = 0;
    }
    char path[TRI_PATH_MAX];
    tri_logf(sys, TR_LOG_WARN, NULL, tr_ref_path(sys, ref, path, sizeof(path)),
             "has been handling %s for %lld ms; long work belongs to "
             "tr_blocking or the blocking dispatcher",
             name, (long long)(lasts / 1000000));
}

static void stuck(tri_worker *worker, tr_nanos since, tr_nanos lasts)
{
    tr_system *sys = worker->sys;
    // Acquire: pairs with `run`. The path is found under the locks.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    const tr_type *type =
        atomic_load_explicit(&worker->handling, memory_order_relaxed);
    if (cell == NULL) {
        return;
    }
    tr_ref ref = tri_cell_ref(sys, cell);
    const char *name = type != NULL ? type->name : "a hook";
    log_stuck(sys, ref, name, since + lasts, lasts);
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tri_event(who.worker, &tr_stuck_tr_type,
              &(tr_stuck){
                  .actor = ref, .type = name, .since_ns = lasts, .at = since});
    tri_leave(&who);
}

/*
 * An alarm, not a flood: one in ALARM_PAUSE for each actor. Two that share a
 * place may be told of more often.
 */
static bool alarm_due(tri_worker *worker, tri_cell *cell)
{
    tri_layers *layers = tri_layers_of(worker->sys);
    uint64_t id = tri_cell_ref(worker->sys, cell).id;
    tri_alarm *alarm = &layers->alarms[id % TRI_ALARMS];
    tr_nanos now = tri_clock(worker);
    // Relaxed, all: a race gives one alarm more.
    if (atomic_load_explicit(&alarm->id, memory_order_relaxed) == id &&
        now < atomic_load_explicit(&alarm->after, memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&alarm->after, now + ALARM_PAUSE,
                          memory_order_relaxed);
    atomic_store_explicit(&alarm->id, id, memory_order_relaxed);
    return true;
}

static void overload(tri_worker *worker, tri_cell *cell, uint32_t depth)
{
    tr_system *sys = worker->sys;
    tri_layers *layers = tri_layers_of(sys);
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&layers->overloads, 1, memory_order_relaxed);
    if (!alarm_due(worker, cell)) {
        return;
    }
    tri_event(worker, &tr_overload_tr_type,
              &(tr_overload){.actor = tri_cell_ref(sys, cell), .depth = depth});
}

/* What one of the workers is handling for it, or NULL. */
static const tr_type *handled_by(tr_system *sys, tri_cell *cell)
{
    // Acquire: pairs with tri_worker_new. Relaxed: a look from outside.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (atomic_load_explicit(&worker->running, memory_order_relaxed) ==
            cell) {
            return atomic_load_explicit(&worker->handling,
                                        memory_order_relaxed);
        }
    }
    return NULL;
}

static void forced(tri_worker *worker, tri_cell *cell, const char *path)
{
    tr_system *sys = worker->sys;
    tri_layers *layers = tri_layers_of(sys);
    const tr_type *type = handled_by(sys, cell);
    tri_logf(sys, TR_LOG_ERROR, NULL, path,
             "ended by force: state %s, a turn has not returned (%s); its "
             "memory is kept until it does",
             tri_state_name(tri_cell_life(cell)),
             type != NULL ? type->name : "parked");
    // Relaxed: statistics of the end; the closing thread counts those it has
    // named.
    if (atomic_load_explicit(&sys->terminating, memory_order_relaxed) &&
        !atomic_load_explicit(&layers->late_named, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&layers->forced, 1, memory_order_relaxed);
    }
}

static void ended(tri_worker *worker, tri_cell *cell)
{
    tr_system *sys = worker->sys;
    if (cell == sys->user) {
        tri_system_begin_end(sys);
    }
    tri_hooks_leave(sys, tri_cell_ref(sys, cell));
    tri_router_ended(sys, cell);
}

static void released(tri_worker *worker, tri_cell *cell)
{
    tri_events_leave(worker, cell);
}

const tri_up tri_system_up = {
    .dead_letter = tri_dead_letter,
    .dead_letter_lost = tri_dead_letter_lost,
    .lifecycle = lifecycle,
    .unhandled = unhandled,
    .supervision = supervision,
    .stuck = stuck,
    .overload = overload,
    .forced = forced,
    .ended = ended,
    .released = released,
    .load_state = tri_state_load,
};
