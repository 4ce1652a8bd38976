/*
 * up.c - what the system layer does when the core calls it: the functions
 * behind sys->up (core/up.h).
 *
 * Most of them count, log, and publish an event.
 */
#include "system/up.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/failure.h"
#include "core/life/lifecycle.h"
#include "core/mail/send.h"
#include "core/run/clock.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "system/deadletter.h"
#include "system/events.h"
#include "system/guardian.h"
#include "system/hooks.h"
#include "system/layers.h"
#include "system/persist.h"
#include "system/poll.h"
#include "system/router.h"
#include "system/shutdown.h"
#include "system/system_log.h"
#include "system/topics.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

#define ALARM_PAUSE TR_SECONDS(1)  // between two alarms about one actor

static tri_up_state *up_of(tr_system *sys)
{
    return &tri_layers_of(sys)->up;
}

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
    const tr_type *type = msg->item.type;
    if (tri_guardian_is_dead_letters(sys, cell)) {  // sent to /deadLetters
        tri_dead(worker, tri_cell_ref(sys, cell), msg, TR_DEAD_NO_SUCH_ACTOR);
        return;
    }
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&up_of(sys)->unhandled, 1, memory_order_relaxed);
    // An actor may ignore the library's own notices: no event, no dead letter.
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

/* Ends the system because of the failure of one of its main actors. */
static void end_with(tr_system *sys, const char *path, tr_err err,
                     const char *text)
{
    char whole[TR_FAILURE_TEXT_SIZE + TRI_PATH_MAX];
    snprintf(whole, sizeof(whole), "%s failed: %s", path, text);
    tri_logf(sys, TR_LOG_ERROR, NULL, path, "has failed: the system ends");
    tri_shutdown_fail(sys, err, whole);
}

static void count_decision(tri_up_state *up, tr_directive directive,
                           bool past_limit)
{
    // Relaxed, both: statistics.
    if (directive == TR_ESCALATE) {
        atomic_fetch_add_explicit(&up->escalations, 1, memory_order_relaxed);
    } else if (past_limit) {
        atomic_fetch_add_explicit(&up->given_up, 1, memory_order_relaxed);
    }
}

static void supervision(tri_worker *worker, tri_cell *child,
                        const tri_failure *failure, tr_directive directive,
                        bool past_limit)
{
    TRI_CHECK((unsigned)directive <= TR_ESCALATE);
    static const char *const names[] = {"by policy", "restart", "stop",
                                        "resume", "escalate"};
    tr_system *sys = worker->sys;
    char path[TRI_PATH_MAX];
    tri_path_write(sys, child, path, sizeof(path));
    tr_err err = failure != NULL ? failure->err : TR_ENOMEM;
    const char *text = failure != NULL && failure->text != NULL
                           ? failure->text
                           : tr_strerror(err);
    tri_logf(sys, past_limit ? TR_LOG_ERROR : TR_LOG_WARN,
             failure != NULL ? failure->site : NULL, path,
             "failed with %s: %s%s%s; decision: %s%s", tr_errname(err), text,
             failure != NULL && failure->msg != NULL ? ", while handling " : "",
             failure != NULL && failure->msg != NULL
                 ? failure->msg->item.type->name
                 : "",
             names[directive],
             past_limit ? ", because it cannot be restarted again" : "");
    count_decision(up_of(sys), directive, past_limit);
    tri_event(worker, &tr_supervision_event_tr_type,
              &(tr_supervision_event){.child = tri_cell_ref(sys, child),
                                      .err = (uint32_t)err,
                                      .directive = (uint32_t)directive,
                                      .text = text});
    if (child == sys->user || child == sys->system || child == sys->temp) {
        tri_logf(sys, TR_LOG_ERROR, NULL, path,
                 "a guardian has failed: the system ends");
        tri_shutdown_fail(sys, err, text);
    } else if (directive == TR_ESCALATE &&
               tri_cell_parent(child) == sys->root) {
        end_with(sys, path, err, text);
    }
}

/*
 * Logs a handler that lasts long, a few per second: on an overloaded machine
 * every handler does.
 */
static void log_stuck(tr_system *sys, tr_ref ref, const char *name,
                      tr_nanos now, tr_nanos lasts)
{
    tri_up_state *up = up_of(sys);
    if (up->stuck_window == 0 || now - up->stuck_window > TR_SECONDS(1)) {
        up->stuck_window = now;
        up->stuck_logged = 0;
    }
    if (up->stuck_logged == TRI_STUCK_LOGGED) {
        up->stuck_suppressed++;
        return;
    }
    up->stuck_logged++;
    if (up->stuck_suppressed > 0) {
        tri_logf(sys, TR_LOG_WARN, NULL, NULL,
                 "%u handlers more that last were not logged",
                 up->stuck_suppressed);
        up->stuck_suppressed = 0;
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
    // Acquire: pairs with the store of `running` in turn.c. The cell may end:
    // tr_ref_path finds out under the parent's lock.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    const tr_type *type =
        atomic_load_explicit(&worker->handling, memory_order_relaxed);
    // Relaxed: fixed at spawn.
    if (cell == NULL ||
        (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_SYSTEM)) {
        return;  // the library's own actors only lack a processor
    }
    tr_ref ref = tri_cell_ref(sys, cell);
    const char *name = type != NULL ? type->name : "a hook";
    log_stuck(sys, ref, name, since + lasts, lasts);
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tri_event(who.worker, &tr_stuck_tr_type,
              &(tr_stuck){
                  .actor = ref, .type = name, .since_ns = lasts, .at = since});
    tri_leave(&who);
}

/*
 * True if the actor had no alarm within ALARM_PAUSE. Two actors that share an
 * entry may have alarms more often.
 */
static bool alarm_due(tri_worker *worker, tri_cell *cell)
{
    uint64_t id = tri_cell_ref(worker->sys, cell).id;
    tri_alarm *alarm = &up_of(worker->sys)->alarms[id % TRI_ALARMS];
    tr_nanos now = tri_clock(worker);
    // Relaxed, all: a race makes one alarm too many.
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
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&up_of(sys)->overloads, 1, memory_order_relaxed);
    if (!alarm_due(worker, cell)) {
        return;
    }
    tri_event(worker, &tr_overload_tr_type,
              &(tr_overload){.actor = tri_cell_ref(sys, cell), .depth = depth});
}

/* Returns the type of what a worker is handling for the cell, or NULL. */
static const tr_type *handled_by(tr_system *sys, tri_cell *cell)
{
    // Acquire: pairs with tri_worker_new. Relaxed: an observer may read an
    // old value.
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
    const tr_type *type = handled_by(sys, cell);
    char doing[TRI_WAITING_MAX] = "";
    tri_text text;
    tri_text_init(&text, doing, sizeof(doing));
    tri_waiting_show(sys, cell, true, &text);
    if (type != NULL) {
        tri_text_add(&text, ", handling %s", type->name);
    }
    tri_logf(sys, TR_LOG_ERROR, NULL, path,
             "ended by force: state %s, a turn has not returned%s; its memory "
             "is kept until it does",
             tri_state_name(tri_cell_life(cell)), doing);
    tri_shutdown_note_forced(sys);
}

/* The end of an actor with ends_system, or of /user, ends the system. */
static void end_of_main(tr_system *sys, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // The failure of a zombie belongs to its owner; it is forced, not failed.
    if (cell->reason == TR_FAILED && ext != NULL && !tri_cell_is_zombie(cell)) {
        char path[TRI_PATH_MAX];
        tr_err err = ext->failure.err;
        tri_path_write(sys, cell, path, sizeof(path));
        end_with(sys, path, err,
                 ext->failure.text != NULL ? ext->failure.text
                                           : tr_strerror(err));
    }
    tri_shutdown_begin(sys);
}

static void ended(tri_worker *worker, tri_cell *cell)
{
    tr_system *sys = worker->sys;
    // Relaxed: MAIN is fixed at spawn, HOOKED was set in a turn of this actor.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (cell == sys->user || (flags & TRI_CELL_MAIN) != 0) {
        end_of_main(sys, cell);
    }
    if (flags & TRI_CELL_HOOKED) {
        tri_hooks_leave(sys, cell);
    }
    tri_router_ended(sys, cell);
}

/* The actor restarts or ends: its subscriptions and memberships end. */
static void released(tri_worker *worker, tri_cell *cell)
{
    tr_ref self = tri_cell_ref(worker->sys, cell);
    tri_events_unsubscribe_all(worker->sys, self);
    tri_topics_leave_all(worker->sys, self);
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
    .ref_path = tr_ref_path,
    .log = tr_log,
    .poll_ready = tri_poll_ready,
    .wait = tri_drive_or_park,
};
