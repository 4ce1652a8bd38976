/*
 * runtime.h - the system, and the calls between the files of the core.
 *
 * A tr_system owns groups (dispatchers), and they own workers: worker.h. What
 * the layers above must hear of (dead letters, events, log lines) goes up
 * through `up`, a table they hand down when the system is opened: up.h. The
 * calls stand below, file by file.
 */
#ifndef TRI_CORE_RUNTIME_H
#define TRI_CORE_RUNTIME_H

#include <stdatomic.h>

#include "base/world.h"
#include "core/cell.h"
#include "core/context.h"
#include "core/up.h"
#include "core/worker.h"
#include "troupe/system.h"

#define TRI_SYSTEM_MAGIC UINT64_C(0x7379735472a1d001)
#define TRI_PROBE_MAGIC  UINT64_C(0x7072625472a1d003)

/* tr_system.watch_events: kinds of events somebody listens to. */
enum { TRI_EVENT_LIFECYCLE = 1, TRI_EVENT_OTHER = 2 };

struct tr_system {
    uint64_t magic;
    uint16_t tag;  // in every ref this system makes
    tri_world *world;
    tri_mem mem;
    const tri_up *up;
    tr_system_options options;
    tr_supervision supervision;  // default of all actors
    char *name;

    tri_group *groups[TRI_GROUPS_MAX];
    _Atomic(uint32_t) group_count;
    tri_worker *_Atomic workers[TRI_WORKERS_MAX];
    _Atomic(uint32_t) worker_count;
    tri_lock groups_lock;

    tri_lock outside_lock;
    tri_worker *outside;  // stands in for threads that are no workers

    _Atomic(uint64_t) next_id;
    _Atomic(uint32_t) fibers_live;
    tri_lock behaviours_lock;
    tri_map behaviours;
    const char *kinds[TRI_KINDS];  // names, by number; 0: all the others
    _Atomic(uint32_t) kind_count;

    _Atomic(bool) stopping_workers;
    _Atomic(uint32_t) monitor_word;
    tri_thread *monitor;
    _Atomic(uint32_t) last_awaited;  // the closing thread counts: spawn.c
    _Atomic(uint32_t) last_word;     // changes when it must count again
    _Atomic(uint32_t) watch_events;  // event kinds somebody listens to
    tri_lock zombies_lock;
    tri_cell *zombies;  // ended by force, still in a handler
    _Atomic(uint32_t) zombie_count;

    tri_lock boxes_lock;
    struct tri_mailbox *boxes;  // threads that wait, and probes
    _Atomic(uint32_t) dead;     // abandoned
    tri_lock results_lock;
    tri_map results;         // of joinable actors that have ended: tri_join
    tri_heap_block *handed;  // under results_lock: heaps of joined states
    tri_driven driven;
    tri_worker *driven_worker;  // where a world or tr_poll drives us
    _Atomic(uintptr_t) driver;  // the thread that does, for tr_poll: poll.c
    _Atomic(bool) driving;
    tri_cell *root, *user, *system;
    uint64_t root_id, user_id, system_id;
    struct tri_pollfd *pollfd;  // of tr_poll_fd
    _Atomic(uint32_t) terminating;
    void *layers;                 // the system layer's own part
    _Atomic(struct tri_io *) io;  // descriptors and blocking calls
    char *ns;                     // owned copy of options.ns, or NULL
    tri_lock virtuals_lock;       // for making it
    _Atomic(tri_virtuals *) virtuals;
};

static inline void tri_ctx_carry_nothing(tr_ctx *ctx)
{
    ctx->flags &= (uint8_t)~TRI_CTX_CONTEXT;
    ctx->quick_tag = ctx->sys->tag;
}

static inline uint32_t tri_def_index(const tr_actor_def *def)
{
    return (uint32_t)((uintptr_t)def >> 4) % TRI_DEFS_CACHED;
}

/* The behaviour of a definition, interned; NULL without memory. */
static inline const tri_behaviour *tri_behaviour_get(tr_system *sys,
                                                     tri_worker *worker,
                                                     const tr_actor_def *def)
{
    uint32_t i = tri_def_index(def);
    return TRI_LIKELY(worker->defs[i].def == def)
               ? worker->defs[i].behaviour
               : tri_behaviour_fetch(sys, worker, def);
}

/* NULL if there are none. Whoever has a virtual cell need not ask. */
static inline const tri_virtual_ops *tri_virtual_ops_of(tr_system *sys)
{
    // Acquire: pairs with the store that made them known.
    tri_virtuals *virtuals =
        atomic_load_explicit(&sys->virtuals, memory_order_acquire);
    return virtuals != NULL ? virtuals->ops : NULL;
}

/* The ref of a cell that the caller knows to be alive. */
static inline tr_ref tri_cell_ref(const tr_system *sys, const tri_cell *cell)
{
    // Relaxed: the id of a living actor does not change.
    return (tr_ref){(uint64_t)(uintptr_t)cell | (uint64_t)sys->tag << 48,
                    atomic_load_explicit(&((tri_cell *)(uintptr_t)cell)->id,
                                         memory_order_relaxed)};
}

/* The worker this thread is, or NULL. */
tri_worker *tri_worker_current(void);
void tri_worker_set_current(tri_worker *worker);

/* ---- who acts (tr_from) ---- */

/*
 * The worker whose cache and queues the caller may use. For threads that are
 * no workers it is sys->outside, locked; tri_leave unlocks it.
 */
typedef struct tri_actor_from {
    tr_system *sys;
    tri_worker *worker;
    tr_ctx *ctx;  // NULL outside
    tr_ref sender;
    bool locked;
} tri_actor_from;

/* Whether it is a context; not where it is NULL, which outside.c refuses. */
static inline bool tri_from_is_ctx(tr_from from)
{
    return TRI_LIKELY(from.ctx != NULL) && from.ctx->magic == TRI_CTX_MAGIC;
}

/* Whose actors are meant; ends the process if it is no open system's. */
tr_system *tri_from_system(tr_from from);

/* tri_enter where it is no context. */
tri_actor_from tri_enter_outside(tr_from from);

static inline tri_actor_from tri_enter(tr_from from)
{
    tr_ctx *ctx = from.ctx;
    if (TRI_UNLIKELY(!tri_from_is_ctx(from))) {
        return tri_enter_outside(from);
    }
    return (tri_actor_from){.sys = ctx->sys,
                            .worker = ctx->worker,
                            .ctx = ctx,
                            .sender = tri_cell_ref(ctx->sys, ctx->cell)};
}

static inline void tri_leave(tri_actor_from *who)
{
    if (who->locked) {
        tri_lock_drop(&who->sys->outside_lock);
    }
}

/* ---- scheduler.c ---- */

tr_err tri_group_new(tr_system *sys, const char *name, tr_dispatch_kind kind,
                     uint32_t threads, tri_group **out);
tri_group *tri_group_find(tr_system *sys, const char *name);
tr_err tri_workers_start(tr_system *sys, tri_group *group);
void tri_workers_stop(tr_system *sys);
tri_worker *tri_worker_new(tr_system *sys, tri_group *group);
void tri_worker_free(tri_worker *worker);
/* A worker of its own for a pinned actor. */
tri_worker *tri_worker_pinned(tr_system *sys);
void tri_worker_unpin(tr_system *sys, tri_worker *worker);
void tri_monitor_main(void *sys);
/* Wakes a sleeper; not while another searches, unless even so. */
void tri_group_wake(tri_group *group, bool even_so);

/* Puts a cell the caller owns where it will be run. */
void tri_schedule(tri_worker *worker, tri_cell *cell);
/* The newest first, where nothing else decides: bound, or stepped. */
void tri_schedule_fresh(tri_worker *worker, tri_cell *cell);
/* Whether nothing binds it elsewhere: it may go among this worker's own. */
bool tri_schedules_here(tri_worker *worker, tri_cell *cell);
uint32_t tri_worker_runnable(tri_worker *worker);
tri_cell *tri_worker_pick(tri_worker *worker, uint32_t index);
void tri_worker_fire(tri_worker *worker, tr_nanos now);
bool tri_worker_wake(tri_worker *worker);  // true: it was asleep
/* Those who run the cell are all asleep, or only just waking; a hint. */
bool tri_is_asleep(tr_system *sys, const tri_cell *cell);
/* When the worker must look at the clock next; its own thread. */
tr_nanos tri_worker_due(tri_worker *worker);
tr_nanos tri_clock(tri_worker *worker);
/* At most TRI_CLOCK_LAG behind. */
static inline tr_nanos tri_clock_coarse(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    return world->ops->mono_coarse != NULL ? world->ops->mono_coarse(world)
                                           : tri_clock(worker);
}
/* Makes tr_poll_fd readable. */
void tri_poll_ready(tr_system *sys);

/* ---- turn.c ---- */

void tri_loop(void *worker);  // entry of every pool fiber
/* Looks after what a turn has left; not after its message. */
void tri_turn_end(tr_ctx *ctx);
/* Runs the handler for msg, which it takes; the same without memory. */
void tri_handle(tr_ctx *ctx, tr_msg *msg);
enum { TRI_STACK_PAYLOAD = 64 };
void tri_handle_on_stack(tr_ctx *ctx, const tr_type *type, const void *payload,
                         size_t size);
/* Gives up the cell whose turn waits for what has run in vain. */
void tri_settle_now(tri_worker *worker);
static inline void tri_settle(tri_worker *worker)
{
    if (worker->unsettled != NULL) {
        tri_settle_now(worker);
    }
}

/* ---- attention.c ---- */

void tri_system_node(tr_ctx *ctx, tri_node *node);

/* ---- park.c ---- */

/* True where the turn may be parked. */
static inline bool tri_can_park(const tr_ctx *ctx)
{
    return ctx->in_turn;  // the outside worker runs no actors
}
/* Parks the turn until wait->done; returns wait->err or why it was cut. */
tr_err tri_park(tr_ctx *ctx, tri_wait *wait);
void tri_yield(tr_ctx *ctx);
/* Makes the turn parked on wait ready. Owner of the cell only. */
void tri_wait_done(tri_worker *worker, tri_cell *cell, tri_wait *wait,
                   tr_err err);
/* Cuts all parked turns for which `which` is set short. */
enum { TRI_CUT_MESSAGES = 1, TRI_CUT_RUN = 2, TRI_CUT_HOOKS = 4 };
void tri_cut_waits(tri_worker *worker, tri_cell *cell, uint32_t which,
                   tr_err err);
uint32_t tri_parked_count(tri_cell *cell, uint32_t which);

/* ---- mailbox.c ---- */

/*
 * Takes msg on TR_OK; else the caller still owns it.
 * Errors: TR_EGONE (no such actor), TR_ESTOPPED.
 */
tr_err tri_push(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg);
/* Takes node on true. */
bool tri_push_system(tri_worker *worker, tri_cell *cell, tri_node *node);
/* The same for an answer, which may find its turn at once. */
bool tri_push_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);
void tri_signal(tri_worker *worker, tri_cell *cell, uint64_t id,
                uint32_t signal);
/* tr_poison, also of the actors of the library, which it spares. */
void tri_poison_any(tr_system *sys, tr_ref ref);
/* Sends with all the policies; takes msg on every path. */
void tri_send(tri_actor_from *who, tr_ref to, tr_msg *msg);
tr_err tri_try_send(tri_actor_from *who, tr_ref to, tr_msg *msg);
uint32_t tri_depth(tri_cell *cell);
/* Detaches user mail into the queue; true if there is any. */
bool tri_detach(tri_cell *cell);
void tri_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason);
/* Tells senders that wait for room; the other: if there is some now. */
void tri_room(tri_worker *worker, tri_cell *cell);
void tri_room_if_low(tri_worker *worker, tri_cell *cell);
/*
 * Mail beside a parked turn is moved to the queue as it comes, so pushes do
 * not see how much waits: with a deep queue each of them is to look, until no
 * turn is parked any more.
 */
void tri_tighten(tri_cell *cell);
void tri_loosen(tri_worker *worker, tri_cell *cell);
/* Before each message of a bounded mailbox: drops what is too much. */
void tri_bounded_trim(tri_worker *worker, tri_cell *cell);

/* ---- answer.c ---- */

void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text);
/* Sends a message, or a request that its asker then awaits there. Takes msg. */
void tri_pass_on(tr_ctx *ctx, tr_msg *msg, tr_ref to);
/* Answers with a value, outside of a turn; takes msg, which is freed. */
void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload);

/* ---- wait.c ---- */

/* A TRI_NODE_WAKE has come. */
void tri_wait_woken(tr_ctx *ctx, tri_wait *wait);
void tri_reply_arrived(tri_worker *worker, tri_cell *cell, tr_msg *reply);
/* The same where somebody waits for it; takes it on true. */
bool tri_reply_awaited(tri_worker *worker, tri_cell *cell, tr_msg *reply);
/* Around a wait of the running turn that is not an ask. */
tr_err tri_wait_begin(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline);
void tri_wait_finish(tr_ctx *ctx, tri_wait *wait);
void tri_wait_link(tri_cell *cell, tri_wait *wait);
void tri_wait_unlink(tri_cell *cell, tri_wait *wait);
void tri_wait_timed_out(tri_worker *worker, tri_wait *wait);
/* Times out the asks of the usual span that are due. */
void tri_asks_fire(tri_worker *worker, tr_nanos now);

/* ---- ask.c, future.c, then.c ---- */

tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site);
void tri_futures_drop(tr_ctx *ctx);
/* A reply that came through the user lane: tr_ask_then, tr_ask_pipe. */
void tri_reply_in_order(tr_ctx *ctx, tr_msg *reply);
/* Runs a callback or pipe whose wait is over; takes both. */
void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply);
void tri_waits_drop(tri_worker *worker, tri_cell *cell);

/* ---- error_text.c ---- */

enum { TRI_ADVICE_MAX = 256 };

/*
 * What to do about an error of a request, as "; do this", or "". Static, or
 * in the room of size bytes, TRI_ADVICE_MAX being enough.
 */
const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size);
void tri_error_set(tr_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The last text of this thread, outside of any turn. */
const char *tri_error_outside(void);

/* ---- lifecycle.c ---- */

/* Works on what keeps the cell from being simply RUNNING. */
typedef enum tri_step {
    TRI_STEP_AGAIN,    // something has changed: look at everything again
    TRI_STEP_RUNNING,  // user mail may run
    TRI_STEP_WAIT,     // for system mail
    TRI_STEP_ENDED,    // the cell is not ours any more
} tri_step;
tri_step tri_life_step(tr_ctx *ctx);
void tri_life_signals(tr_ctx *ctx, uint32_t signals);
void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state);
void tri_life_fail(tr_ctx *ctx, tr_err err);
const char *tri_state_name(tr_state state);
bool tri_life_legal(tr_state from, tr_state to);

/* ---- supervise.c ---- */

void tri_supervise(tr_ctx *parent, tri_cell *child);

/* ---- watch.c ---- */

void tri_watch_arrived(tri_worker *worker, tri_cell *cell, tri_watch *watch);
void tri_unwatch_arrived(tri_worker *worker, tri_cell *cell,
                         tri_watching *watching);
bool tri_terminated_arrived(tri_worker *worker, tri_cell *cell,
                            tri_watch *watch);
/* Runs the handler for the first pending tr_terminated. */
void tri_terminated_turn(tr_ctx *ctx);
void tri_terminated_in_order(tr_ctx *ctx, tri_watch *watch);
void tri_join_arrived(tri_worker *worker, tri_cell *cell, tri_join *join);
void tri_watchers_tell(tri_worker *worker, tri_cell *cell, tr_reason reason);
/* Tells the watcher; takes watch. */
void tri_watch_back(tri_worker *worker, tri_watch *watch, tr_reason reason);
/*
 * On behalf of another actor: it is asked to watch, or not to any more. What
 * nobody is there to hear is left out. Errors: TR_ENOMEM.
 */
tr_err tri_watch_request(tri_worker *worker, tr_system *sys, tr_ref watcher,
                         tr_ref target, bool on);
void tri_watch_requested(tr_ctx *ctx, tri_watch *request);
void tri_unwatch_ref(tri_worker *worker, tri_cell *watcher, tr_ref target);
tr_err tri_watch_ref(tri_worker *worker, tr_system *sys, tri_cell *watcher,
                     tr_ref target, bool in_order);

/* ---- force.c ---- */

/*
 * Ends an actor whose handler does not return, if it is still that one and
 * has had its time to stop. From the monitor's thread. escalate: its parent
 * fails as well (rule 5).
 */
bool tri_force_stuck(tr_system *sys, tri_cell *cell, uint64_t id,
                     tr_nanos waited, bool escalate);
/*
 * After a system node was pushed: true if that was to a zombie; then it has
 * been answered.
 */
bool tri_force_late(tri_worker *worker, tri_cell *cell, uint64_t id);

/* ---- heap.c, timer.c ---- */

void *tri_heap_alloc(tr_ctx *ctx, size_t size);  // NULL without memory
/* Rule 30: the state must not point into a message that is about to end. */
void tri_state_check(tr_ctx *ctx, const tr_msg *msg);
void tri_receive_timeout_touch(tr_ctx *ctx, tr_msg *msg);
void tri_results_free(tr_system *sys);
void tri_scratch_free(tri_scratch *block);
void tri_heap_release(tri_worker *worker, tri_cell *cell);
void tri_timers_cancel_all(tri_worker *worker, tri_cell *cell);
/* As tr_after, but {0} instead of a panic without memory. */
tr_timer tri_after_try(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                       const void *payload);
/*
 * A timer of the running actor that is set by hand, again and again, without
 * memory; it has one at most. False: no memory.
 */
bool tri_bell_try(tr_ctx *ctx, const tr_type *type, const void *payload);
/* It rings once, after span; TR_FOREVER: not any more. */
void tri_bell_set(tr_ctx *ctx, tr_nanos span);
void tri_user_timer_fire(tri_worker *worker, tri_user_timer *timer);
/* The timer's message came out of the mailbox; true: hand it to the actor. */
bool tri_user_timer_arrived(tri_worker *worker, tr_msg *msg);
void tri_user_timer_handled(tri_worker *worker, tr_msg *msg);
void tri_arm(tri_worker *worker, tri_timer *timer, tr_nanos due, uint32_t kind);
void tri_wheel_noted(tri_worker *worker);  // with its lock: after arming
void tri_disarm(tr_system *sys, uint16_t wheel, tri_timer *timer);
/* Disarms; false: it had fired, or never been armed. */
bool tri_disarm_was_armed(tr_system *sys, tri_wait *wait);
enum { TRI_TIMER_CELL, TRI_TIMER_WAIT, TRI_TIMER_USER };

/* ---- spawn.c ---- */

/* How many actors there are: spawned and not yet gone. Any thread. */
uint64_t tri_live_count(tr_system *sys);
/* From now on each end changes and wakes sys->last_word. */
void tri_live_await(tr_system *sys);
/* A cell under parent; nobody with the error inside on failure. */
tr_ref tri_spawn_under(tri_actor_from *who, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *options,
                       uint32_t flags);
void tri_props_drop(tri_props *props);
/*
 * The same, a little later: ends of actors alike, on several cores, do not
 * meet in one counter. The other: now.
 */
void tri_props_leave(tri_worker *worker, tri_props *props);
void tri_props_flush(tri_worker *worker);
/* Those of its latest spawn are not the worker's any more. */
void tri_props_forget(tri_worker *worker);
bool tri_supervision_fill(tr_supervision *policy);
/* Whether its state has a schema, if it is to be stored. */
bool tri_storable(const tr_actor_def *def, const tr_spawn_options *o);
/*
 * Options as they are kept; the caller owns *out, which may be NULL.
 * Errors: TR_EINVAL, TR_ENOMEM.
 */
tr_err tri_props_new(tr_system *sys, tri_cell *parent, const tr_actor_def *def,
                     const tr_spawn_options *o, tri_props **out);
/* Errors: TR_ENOMEM, TR_ESTOPPED, TR_EEXIST. */
tr_err tri_children_link(tri_worker *worker, tri_cell *parent, tri_cell *child);
uint64_t tri_id_next(tri_worker *worker);

/* ---- outside.c: promises of threads that are no actors ---- */

/* An outside thread's mailbox. On its stack, or in a probe. */
typedef struct tri_mailbox {
    tri_cell *cell;
    tr_system *sys;
    _Atomic(uint32_t) word;   // 1: the cell has been handed back
    const tri_cell *awaited;  // whom it waits for, perhaps; a hint, or NULL
    struct tri_mailbox *next, *prev;  // in sys->boxes
} tri_mailbox;

/* A dead system sends the threads that wait in it away, and waits for it. */
void tri_boxes_drive_out(tr_system *sys);

void tri_outside_wake(tri_worker *worker, tri_cell *cell);
tr_err tri_mailbox_open(tri_mailbox *box, tr_system *sys);
void tri_mailbox_close(tri_mailbox *box);
/* The next user message or system node, or NULL when the time is over. */
tri_node *tri_mailbox_wait(tri_mailbox *box, tr_nanos deadline);
tr_nanos tri_deadline_outside(tr_system *sys, tr_nanos timeout,
                              tr_nanos standard);
/* Runs the system on this thread where it has no workers of its own. */
bool tri_drive(tr_system *sys, tr_nanos budget);
/* Waits while *word is `expected`; a driver drives. May return early. */
void tri_drive_or_park(tr_system *sys, _Atomic(uint32_t) *word,
                       uint32_t expected, tr_nanos timeout);
/* Runs one activation of a stepped worker on the calling thread. */
void tri_worker_step(tri_worker *worker, uint32_t index);

#endif
