/*
 * sim_check.c - the invariants that hold in every simulated system.
 *
 * After a step the walkers below read the structures of each system that the
 * step may have changed. At that moment no thread is inside a system. A walker
 * changes nothing and draws nothing, so a run is the same with and without it.
 *
 * The walkers are called in walk_cell and walk_system: a check of another
 * structure is added there. What a run can break from outside fails the run
 * with a text. A structure that contradicts itself is a mistake in the
 * library: tri_cell_check and its like abort, and the crash watchdog names
 * seed and step.
 */
#include "sim/sim_check.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "base/wheel.h"
#include "base/world.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/life/lifecycle.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "sim/sim.h"
#include "sim/sim_mail.h"
#include "sim/sim_mail_audit.h"
#include "sim/sim_mail_callback.h"
#include "sim/sim_mail_entry.h"
#include "sim/sim_node.h"
#include "sim/sim_system.h"
#include "system/tree.h"
#include "troupe/observe.h"
#include "troupe/sim.h"
#include "troupe/supervise.h"

#define HISTORY_BITS 4
/*
 * tri_cell_check sees one cell of so many in a check, and the next ones in the
 * next. All of them would be 30 to 45 % of the instructions of a run
 * (callgrind, scenarios virtual_bus and mailbox), one of eight is 5 to 9 %.
 */
#define CELLS_EVERY 8
/* Shards in a check, of 4096; 16 of them were 13.5 % of virtual_bus. */
#define SHARDS_WALKED 4
/* A wait begins by the clock of its turn, which may be this much behind. */
#define CLOCK_LAG TR_MS(1)

/* The check of one system, and the first thing that it finds wrong. */
typedef struct check {
    tr_sim *sim;
    const tri_sim_attached *it;
    tri_sim_mail *mail;
    bool idle;       // no actor of the system can run
    bool all;        // the last check of the run
    uint32_t cells;  // walked so far
    tri_cell *cell;  // that is wrong, or NULL
    const char *what, *detail;
    uint64_t number;
} check;

/* Keeps the first failure; report_broken writes it when no lock is held. */
static void broken(check *at, tri_cell *cell, const char *what,
                   const char *detail, uint64_t number)
{
    TRI_CHECK(cell != NULL);
    if (at->cell == NULL) {
        at->cell = cell;
        at->what = what;
        at->detail = detail;
        at->number = number;
    }
}

static void report_broken(const check *at)
{
    tr_actor_info info = {.size = sizeof(info)};
    tr_system *sys = at->it->driven->system;
    tr_err err = tr_actor_info_of(sys, tri_cell_ref(sys, at->cell), &info);

    (void)tr_sim_fail(at->sim,
                      "invariant %s: %s, %" PRIu64 " (node %" PRIu32
                      ", actor %s, %s)",
                      at->what, at->detail, at->number, at->it->node->index,
                      err == TR_OK ? info.path : "that has ended",
                      tri_state_name(tri_cell_life(at->cell)));
}

/* ---- walkers of cells ---- */

static void walk_transitions(check *at, tri_cell *cell)
{
    // Relaxed: the world is one thread.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    uint32_t mask = (UINT32_C(1) << HISTORY_BITS) - 1;

    if ((history & mask) != (uint32_t)tri_cell_life(cell) && history != 0) {
        broken(at, cell, "transition", "its state has no history", history);
    }
    while (history >> HISTORY_BITS != 0) {
        tr_state to = (tr_state)(history & mask);
        history >>= HISTORY_BITS;
        tr_state from = (tr_state)(history & mask);
        if (!tri_life_is_legal(from, to)) {
            broken(at, cell, "transition", tri_state_name(from), (uint64_t)to);
        }
    }
}

static void walk_turns(check *at, tri_cell *cell, const tri_ext *ext)
{
    uint32_t writers = 0, readers = 0;

    for (const tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (c->cancel != TR_OK) {
            continue;  // cancelled: it only returns
        }
        writers += c->kind == TRI_TURN_WRITE;
        readers += c->kind == TRI_TURN_READ;
    }
    if (writers > 1 || (writers > 0 && readers > 0)) {
        broken(at, cell, "sequential", "turns beside a writing one",
               writers + readers);
    }
}

static void check_correlation(check *at, tri_cell *cell, const tri_ext *ext,
                              const tri_wait *w)
{
    if (w->correlation == 0) {
        return;
    }
    if (w->correlation > ext->waits.correlation) {
        broken(at, cell, "correlation", "a number that was never given",
               w->correlation);
    }
    for (const tri_wait *o = tri_wait_older(ext, w); o != NULL;
         o = tri_wait_older(ext, o)) {
        if (o->correlation == w->correlation) {
            broken(at, cell, "correlation", "one number for two requests",
                   w->correlation);
        }
    }
}

static void walk_waits(check *at, tri_cell *cell, const tri_ext *ext)
{
    tr_nanos fired = at->it->fired_at;

    TRI_LIST_EACH_ITEM (w, &ext->waits.list, tri_wait, link) {
        bool listed = tri_link_is_linked(&w->ask.link);
        bool has_limit = listed || tri_timer_is_armed(&w->timer);
        tr_nanos due = listed ? w->ask.deadline : tri_timer_due(&w->timer);
        bool is_overdue =
            has_limit && fired > CLOCK_LAG &&
            tri_sim_node_when(at->it->node, due) < fired - CLOCK_LAG;
        if (is_overdue && !w->done) {
            broken(at, cell, "timeout", "a wait has not ended in time",
                   w->correlation);
        }
        check_correlation(at, cell, ext, w);
    }
}

/* In an idle system no message waits for an actor that could run. */
static void walk_rest(check *at, tri_cell *cell, const tri_ext *ext)
{
    uint32_t harmless =
        TRI_ATTENTION_BOUNDED | TRI_ATTENTION_TIMEOUT | TRI_ATTENTION_LEASE;

    if (tri_cell_life(cell) == TR_STATE_RUNNING &&
        (cell->attention & ~harmless) == 0 &&
        (ext == NULL || ext->parked == NULL) && tri_depth(cell) > 0) {
        broken(at, cell, "rest", "messages wait, and nobody runs",
               tri_depth(cell));
    }
}

/* ---- walkers of systems ---- */

static void walk_catalog(check *at, tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};

    tr_metrics(sys, &m);
    if (m.virtual_active > m.virtual_names) {
        (void)tr_sim_fail(at->sim,
                          "invariant catalog: %" PRIu64 " active of %" PRIu64
                          " names (node %" PRIu32 ")",
                          m.virtual_active, m.virtual_names,
                          at->it->node->index);
    }
}

/* Walks through records, activations and lanes: some shards, or all. */
static void walk_shards(check *at, tr_system *sys)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(sys);

    if (ops == NULL) {
        return;
    }
    uint32_t count = at->all ? ops->shards : SHARDS_WALKED;
    uint32_t first = at->all ? 0 : at->it->checks * count % ops->shards;
    TRI_CHECK(first + count <= ops->shards);
    ops->check(sys, first, count);
}

static void walk_ledger(check *at)
{
    tri_sim_entries_report_lost(at->mail);
    tri_sim_callbacks_check(at->mail);
    if (at->idle || at->all) {
        tri_sim_mail_audit(at->mail, at->all);
    }
}

/* ---- all walkers ---- */

/*
 * Runs the walkers of cells; a tri_visit_fn. Add the walker of a new structure
 * of cells here. tri_visit calls it for each cell of a system, from the root
 * down, and holds the lock of the cell's parent: a walker takes no lock, and
 * reports with `broken`. The first cell with a failure ends the walk.
 */
static bool walk_cell(void *user, tri_cell *cell, uint32_t depth)
{
    check *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    tri_sim_mail_read(at->mail, cell);
    walk_transitions(at, cell);
    if (ext != NULL) {
        walk_turns(at, cell, ext);
        walk_waits(at, cell, ext);
    }
    if (at->idle) {
        walk_rest(at, cell, ext);
    }
    if (at->cell != NULL) {
        return false;
    }
    if (at->all || (at->cells++ + at->it->checks) % CELLS_EVERY == 0) {
        tri_cell_check(cell);
        if (ext != NULL) {
            tri_ext_check(ext);
        }
    }
    return true;
}

/*
 * Runs the walkers of cells, then those of the system. Add the walker of a new
 * structure of systems at the end; no lock is held there.
 */
static void walk_system(check *at)
{
    tr_system *sys = at->it->driven->system;

    tri_visit(sys, walk_cell, at);
    if (at->cell != NULL) {
        report_broken(at);
    }
    walk_catalog(at, sys);
    walk_shards(at, sys);
    walk_ledger(at);
}

/* ---- which systems ---- */

/*
 * Returns true if no actor can run. Does not call tri_driven.runnable: that
 * moves mail between queues and so decides an order, which a check must not.
 */
static bool is_idle(const tr_system *sys)
{
    const tri_worker *worker = sys->driven_worker;

    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Relaxed, all: the world is one thread.
    return atomic_load_explicit(&worker->local_count, memory_order_relaxed) ==
               0 &&
           atomic_load_explicit(&worker->inbox, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&worker->pool->length, memory_order_relaxed) ==
               0;
}

/* Returns false while the system is being opened or closed, or is paused. */
static bool is_up(const tri_sim_attached *it)
{
    return !it->node->paused && it->node->sys == it->driven->system;
}

void tri_sim_check_hook(tr_sim *sim)
{
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        if (is_up(it) && (it->touched || sim->touched)) {
            (void)tri_sim_mail_of(sim, it);
        }
    }
}

void tri_sim_check(tr_sim *sim, bool all)
{
    TRI_CHECK(!sim->stepping);
    TRI_CHECK(sim->running == NULL);
    for (uint32_t i = 0; i < sim->system_count && !sim->failed; i++) {
        tri_sim_attached *it = &sim->systems[i];
        if (!is_up(it) || !(all || it->touched || sim->touched)) {
            continue;
        }
        it->touched = false;
        it->checks++;
        check at = {.sim = sim,
                    .it = it,
                    .mail = tri_sim_mail_of(sim, it),
                    .idle = is_idle(it->driven->system),
                    .all = all};
        if (at.mail != NULL) {  // else there is no memory
            walk_system(&at);
        }
    }
    sim->touched = false;
}
