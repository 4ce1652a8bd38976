/*
 * shutdown.c - the end of a system.
 *
 * Its phases: the termination hooks below /user, /user, the other hooks, /temp,
 * the virtual actors, the extra top levels, the event listener, /system, the
 * root, and then the threads (rule 40 (systems)). Every phase has a
 * deadline; an actor that misses it is named in the log and forced.
 */
#include "system/shutdown.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/text.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ref.h"
#include "core/life/lifecycle.h"
#include "core/life/live_count.h"
#include "core/life/signal.h"
#include "core/run/pool.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "system/deadletter.h"
#include "system/events.h"
#include "system/guardian.h"
#include "system/hooks.h"
#include "system/io.h"
#include "system/layers.h"
#include "system/metrics.h"
#include "system/poll.h"
#include "system/probe.h"
#include "system/stores.h"
#include "system/system.h"
#include "system/system_log.h"
#include "system/top_level.h"
#include "troupe/observe.h"
#include "troupe/sim.h"
#include "troupe/system.h"

#define JOIN_RETRY TR_MS(10)  // after a join for which there was no memory
#define SPAN_MAX   (TR_FOREVER / 4)  // of a close: now + span must not overflow
#define LAST_GRACE TR_SECONDS(1)     // for the root and the last actors

enum { DEPTH_MAX = 1 << 20 };  // of the tree; deeper actors are not named

static tri_shutdown *shutdown_of(tr_system *sys)
{
    return &tri_layers_of(sys)->shutdown;
}

static void count_forced(tri_shutdown *shutdown)
{
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&shutdown->forced, 1, memory_order_relaxed);
}

void tri_shutdown_note_forced(tr_system *sys)
{
    tri_shutdown *shutdown = shutdown_of(sys);
    // Relaxed, both: statistics.
    if (atomic_load_explicit(&sys->terminating, memory_order_relaxed) &&
        !atomic_load_explicit(&shutdown->late_counted, memory_order_relaxed)) {
        count_forced(shutdown);
    }
}

static void signal_ref(tr_system *sys, tr_ref ref, uint32_t signal)
{
    TRI_CHECK(ref.cell != 0);
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tri_signal(who.worker, tri_ref_cell(ref), ref.id, signal);
    tri_leave(&who);
}

/* The ref of a guardian, which may have ended: then its cell has no id. */
static tr_ref guardian_ref(tr_system *sys, tri_cell *cell, uint64_t id)
{
    TRI_CHECK(cell != NULL);
    return (tr_ref){tri_cell_ref(sys, cell).cell, id};
}

static tr_ref user_ref(tr_system *sys)
{
    return guardian_ref(sys, sys->user, sys->user_id);
}

/* ---- beginning ---- */

void tri_shutdown_begin(tr_system *sys)
{
    // Acquire and release: only the first call goes on; pairs with those who
    // read `terminating`.
    if (atomic_exchange_explicit(&sys->terminating, 1, memory_order_acq_rel) ==
        0) {
        // Relaxed: a statistic.
        atomic_store_explicit(&shutdown_of(sys)->ended_before,
                              tri_ended_count(sys), memory_order_relaxed);
        tri_hooks_tell(sys, TRI_HOOKS_OF_USER);
        tri_shutdown_go_on(sys);
        sys->world->ops->wake(sys->world, &sys->terminating, UINT32_MAX);
    }
}

void tri_shutdown_go_on(tr_system *sys)
{
    // Acquire: pairs with tri_shutdown_begin.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire) != 0 &&
        !tri_hooks_left(sys, TRI_HOOKS_OF_USER)) {
        signal_ref(sys, user_ref(sys), TRI_SIG_STOP);
    }
}

void tri_shutdown_fail(tr_system *sys, tr_err err, const char *text)
{
    TRI_CHECK(err != TR_OK);
    tri_shutdown *shutdown = shutdown_of(sys);
    tri_lock_take(&shutdown->lock);
    if (shutdown->failure == TR_OK) {
        shutdown->failure = err;
        snprintf(shutdown->failure_text, sizeof(shutdown->failure_text), "%s",
                 text);
    }
    tri_lock_drop(&shutdown->lock);
    tri_shutdown_begin(sys);
}

/*
 * Returns the failure that ended the system, or TR_OK. The text of the calling
 * thread is that of the failure then.
 */
static tr_err failure_of(tr_system *sys)
{
    tri_shutdown *shutdown = shutdown_of(sys);
    tri_lock_take(&shutdown->lock);
    tr_err err = shutdown->failure;
    tri_lock_drop(&shutdown->lock);
    if (err != TR_OK) {  // it does not change any more
        tri_error_set(NULL, "%s", shutdown->failure_text);
    }
    return err;
}

void tr_system_terminate(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_shutdown_begin(sys);
}

/* True if the calling thread runs a handler of this system. */
static bool is_inside(tr_system *sys)
{
    return tri_worker_current() != NULL && tri_worker_current()->sys == sys;
}

tr_err tr_system_run(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    if (is_inside(sys)) {
        tri_error_set(NULL, "tr_system_run: a handler of the system would wait "
                            "for its own end; call it in main");
        return TR_EWOULDBLOCK;
    }
    tri_top_levels_close(sys);
    tri_world *world = sys->world;
    if (world->ops->wait_signal == NULL) {
        // Acquire: pairs with tri_shutdown_begin.
        while (atomic_load_explicit(&sys->terminating, memory_order_acquire) ==
               0) {
            world->ops->park(world, &sys->terminating, 0, TR_FOREVER);
        }
    } else {
        world->ops->wait_signal(world, &sys->terminating, 0);
        tri_shutdown_begin(sys);
    }
    return failure_of(sys);
}

/* ---- the phases ---- */

static void log_late(tr_system *sys, const tr_actor_info *late)
{
    char doing[TRI_WAITING_MAX] = "";
    tri_text text;
    tri_text_init(&text, doing, sizeof(doing));
    tri_waiting_show(sys, tri_ref_cell(late->ref), true, &text);
    if (doing[0] == '\0' && late->running != NULL) {
        tri_text_add(&text, ", handling %s", late->running);
    }
    tri_logf(sys, TR_LOG_WARN, NULL, late->path,
             "did not stop in time: state %s, %u messages waiting%s",
             tri_state_name(late->state), late->depth, doing);
}

/*
 * True if the cell is `top` or below it. Actors in between may end meanwhile:
 * the memory of a cell stays a cell, and the walk has a limit.
 */
static bool is_below(const tri_cell *top, tri_cell *cell)
{
    TRI_CHECK(top != NULL);
    for (uint32_t i = 0; i < DEPTH_MAX && cell != NULL; i++) {
        if (cell == top) {
            return true;
        }
        cell = tri_cell_parent(cell);
    }
    return false;
}

/*
 * Logs and counts the actors at or below `top` that did not stop, and ends
 * their waits with TR_ECLOSED (rule 8 (a wait ends early)).
 */
static void name_late(tr_system *sys, const tri_cell *top)
{
    tri_shutdown *shutdown = shutdown_of(sys);
    // Relaxed: a statistic.
    atomic_store_explicit(&shutdown->late_counted, true, memory_order_relaxed);
    size_t room = tr_actors(sys, NULL, 0);
    tr_actor_info *late = calloc(room, sizeof(*late));
    size_t count = late != NULL ? tr_actors(sys, late, room) : 0;
    for (size_t i = 0; i < count && i < room; i++) {
        tri_cell *cell = tri_ref_cell(late[i].ref);
        // Relaxed: fixed at spawn. If the cell belongs to another actor by
        // now, tri_signal finds that its id differs.
        if ((atomic_load_explicit(&cell->flags, memory_order_relaxed) &
             TRI_CELL_SYSTEM) ||
            !is_below(top, cell)) {
            continue;
        }
        log_late(sys, &late[i]);
        count_forced(shutdown);
        signal_ref(sys, late[i].ref, TRI_SIG_CLOSING);
    }
    free(late);
}

/* Signals a guardian and waits for its end. Returns false if it is late. */
static bool end_guardian(tr_system *sys, tr_ref ref, uint32_t signal,
                         tr_nanos deadline)
{
    tri_world *world = sys->world;
    signal_ref(sys, ref, signal);
    for (;;) {
        tr_nanos now = world->ops->mono(world);
        tr_nanos left = deadline > now ? deadline - now : 1;
        tr_err err = tr_join(sys, ref, left, NULL, NULL);
        if (err != TR_ENOMEM || left <= JOIN_RETRY) {
            return err != TR_ETIMEDOUT && err != TR_ENOMEM;
        }
        // Waits for other actors to end and give memory back.
        _Atomic(uint32_t) unchanged = 0;
        tri_drive_or_park(sys, &unchanged, 0, JOIN_RETRY);
    }
}

/*
 * Waits for the hooks below /user, at most a quarter of the span. Then stops
 * /user; after half of what is left forces it, for another quarter of that.
 */
static bool end_user(tr_system *sys, tr_nanos deadline, tr_nanos span)
{
    tr_ref user = user_ref(sys);
    tri_hooks_await(sys, TRI_HOOKS_OF_USER, deadline - span + span / 4);
    tr_nanos start = sys->world->ops->mono(sys->world);
    span = deadline > start ? deadline - start : 0;
    if (end_guardian(sys, user, TRI_SIG_STOP, start + span / 2)) {
        return true;
    }
    name_late(sys, sys->user);
    return end_guardian(sys, user, TRI_SIG_FORCE, start + span / 2 + span / 4);
}

/* Returns the time when half of what is left until the deadline is over. */
static tr_nanos half_of_the_rest(tr_system *sys, tr_nanos deadline)
{
    tr_nanos now = sys->world->ops->mono(sys->world);
    return deadline > now ? now + (deadline - now) / 2 : now;
}

/* Stops an actor, and forces it after half of the time that is left. */
static bool end_top(tr_system *sys, tr_ref top, tr_nanos deadline)
{
    tr_nanos half = half_of_the_rest(sys, deadline);
    if (end_guardian(sys, top, TRI_SIG_STOP, half)) {
        return true;
    }
    name_late(sys, tri_ref_cell(top));
    return end_guardian(sys, top, TRI_SIG_FORCE | TRI_SIG_CLOSING, deadline);
}

/* Ends the actors of tr_top_level, the youngest first. */
static bool end_top_levels(tr_system *sys, tr_nanos deadline)
{
    tri_top_levels *tops = &tri_layers_of(sys)->top_levels;
    bool clean = true;
    tri_top_levels_close(sys);  // from now on nobody changes them
    for (uint32_t i = tops->count; i > 0; i--) {
        tr_ref top = tops->refs[i - 1];
        clean = (top.cell == 0 || end_top(sys, top, deadline)) && clean;
    }
    return clean;
}

/* Ends the virtual actors, by force after half of the time that is left. */
static bool end_virtuals(tr_system *sys, tr_nanos deadline)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(sys);
    if (ops == NULL) {
        return true;
    }
    tr_nanos now = sys->world->ops->mono(sys->world);
    ops->hand_over(sys, now + (deadline > now ? (deadline - now) / 2 : 0));
    bool clean = end_top(sys, ops->close(sys), deadline);
    ops->leave(sys, deadline);
    return clean;
}

/* Ends /system and then the root, which may use the grace. */
static bool end_rest(tr_system *sys, tr_nanos deadline)
{
    bool ended =
        end_guardian(sys, guardian_ref(sys, sys->system, sys->system_id),
                     TRI_SIG_STOP, deadline);
    tr_nanos at_least = sys->world->ops->mono(sys->world) + LAST_GRACE;
    return end_guardian(sys, guardian_ref(sys, sys->root, sys->root_id),
                        TRI_SIG_STOP, TRI_MAX(deadline, at_least)) &&
           ended;
}

/*
 * Waits until no actor is left: joins hear of an end a little before the cell
 * is freed. Actors that are about to end get a grace after the deadline;
 * zombies, whose handlers do not return, get none. Returns how many are left.
 */
static uint32_t wait_for_last(tr_system *sys, tr_nanos deadline)
{
    tri_world *world = sys->world;
    tri_live_await(sys);
    for (;;) {
        // Seq_cst: before the count; pairs with tri_live_count_out.
        uint32_t word =
            atomic_load_explicit(&sys->live_word, memory_order_seq_cst);
        uint32_t left = (uint32_t)tri_live_count(sys);
        // Relaxed: read again before each wait.
        uint32_t zombies =
            atomic_load_explicit(&sys->zombie_count, memory_order_relaxed);
        tr_nanos until = left > zombies ? deadline + LAST_GRACE : deadline;
        tr_nanos now = world->ops->mono(world);
        if (left == 0 || now >= until) {
            return left;
        }
        tri_drive_or_park(sys, &sys->live_word, word, until - now);
    }
}

/* ---- closing ---- */

/* Writes what a close has found into a report of any version. */
static void fill_report(tr_system *sys, uint32_t forced, uint32_t zombies,
                        tr_close_report *report)
{
    TRI_CHECK(report->size >= TRI_SIZE_THROUGH(tr_close_report, dead_letters));
    tri_shutdown *shutdown = shutdown_of(sys);
    uint32_t own = TRI_GUARDIANS + tri_events_has_listener(sys);
    // Relaxed: a statistic.
    uint64_t before =
        atomic_load_explicit(&shutdown->ended_before, memory_order_relaxed);
    uint32_t gone = (uint32_t)(tri_ended_count(sys) - before);
    uint32_t not_stopped = own + (forced > zombies ? forced - zombies : 0);
    tr_close_report all = {
        .size = report->size,
        .stopped = gone > not_stopped ? gone - not_stopped : 0,
        .forced = forced,
        .zombies = zombies,
        .dead_letters = tri_dead_letter_count(sys),
        .failure = shutdown->failure,  // nobody is left to change it
    };
    memcpy(all.failure_text, shutdown->failure_text, sizeof(all.failure_text));
    memcpy(report, &all, TRI_MIN(report->size, sizeof(all)));
}

static void check_close(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    if (is_inside(sys)) {
        tr_abort("tr_system_close",
                 "called inside a handler of the system: a handler calls "
                 "tr_system_terminate");
    }
    if (tri_probes_are_open(sys)) {
        tr_abort("tr_system_close",
                 "a probe is open: tr_probe_free comes first");
    }
}

tr_err tr_system_close_report(tr_system *sys, tr_nanos timeout,
                              tr_close_report *report)
{
    check_close(sys);
    tr_nanos span = timeout != 0 ? timeout : sys->options.close_timeout;
    span = span < 0 ? 0 : TRI_MIN(span, SPAN_MAX);
    tr_nanos start = sys->world->ops->mono(sys->world);

    tri_poll_own(sys);
    tri_shutdown_begin(sys);
    bool clean = end_user(sys, start + span, span);
    tri_hooks_tell(sys, TRI_HOOKS_OF_OTHERS);
    tri_hooks_await(sys, TRI_HOOKS_OF_OTHERS,
                    half_of_the_rest(sys, start + span));
    clean = end_top(sys, guardian_ref(sys, sys->temp, sys->temp_id),
                    start + span) &&
            clean;
    clean = end_virtuals(sys, start + span) && clean;
    clean = end_top_levels(sys, start + span) && clean;
    tri_events_flush(sys, start + span);
    clean = end_rest(sys, start + span) && clean;
    // Relaxed: a statistic.
    uint32_t forced =
        atomic_load_explicit(&shutdown_of(sys)->forced, memory_order_relaxed);
    uint32_t zombies = wait_for_last(sys, start + span);
    tr_err failure = failure_of(sys);
    if (report != NULL) {
        fill_report(sys, forced, zombies, report);
    }
    tr_err err = failure != TR_OK                      ? failure
                 : forced > 0 || zombies > 0 || !clean ? TR_ETIMEDOUT
                                                       : TR_OK;
    if (zombies > 0) {
        // A handler that never returns uses its stack and its thread; what it
        // may still touch cannot be freed.
        tri_logf(sys, TR_LOG_ERROR, NULL, NULL,
                 "%u actors never returned; their system is left behind",
                 zombies);
        tri_stores_leave(sys);
        return err;
    }
    tri_io_close(sys);
    tri_workers_stop(sys);
    tri_system_free(sys);
    return err;
}

tr_err tr_system_close(tr_system *sys, tr_nanos timeout)
{
    return tr_system_close_report(sys, timeout, NULL);
}
