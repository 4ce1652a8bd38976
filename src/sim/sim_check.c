/*
 * sim_check.c - the invariants that every simulated run is held to.
 *
 * They are read off the actors themselves, between two steps, when nobody is
 * inside a system. A look changes nothing and draws nothing, so a run is the
 * same with and without it.
 */
#include "sim/sim_check.h"

#include <inttypes.h>

#include "core/runtime.h"
#include "sim/sim_mail.h"
#include "system/layers.h"

#define HISTORY_BITS 4
/* A wait is set by the clock of its turn, which began a little before. */
#define WINDOW TR_MS(1)

typedef struct look {
    tr_sim *sim;
    const tri_sim_attached *it;
    bool at_rest;
    tri_sim_mail *mail;
    tri_cell *cell;  // where the first thing is wrong, or NULL
    const char *what, *detail;
    uint64_t number;
} look;

/* Kept, and told when the walk is over: it holds the families' locks. */
static void broken(look *at, tri_cell *cell, const char *what,
                   const char *detail, uint64_t number)
{
    if (at->cell == NULL) {
        at->cell = cell;
        at->what = what;
        at->detail = detail;
        at->number = number;
    }
}

static void tell(const look *at)
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

static void check_transitions(look *at, tri_cell *cell)
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
        if (!tri_life_legal(from, to)) {
            broken(at, cell, "transition", tri_state_name(from), (uint64_t)to);
        }
    }
}

static void check_turns(look *at, tri_cell *cell, const tri_ext *ext)
{
    uint32_t writers = 0, readers = 0;

    for (const tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (c->cancel != TR_OK) {
            continue;  // it only unwinds
        }
        writers += c->kind == TRI_TURN_WRITE;
        readers += c->kind == TRI_TURN_READ;
    }
    if (writers > 1 || (writers > 0 && readers > 0)) {
        broken(at, cell, "sequential", "turns beside a writing one",
               writers + readers);
    }
}

static void check_waits(look *at, tri_cell *cell, const tri_ext *ext)
{
    tr_nanos fired = at->it->fired_at;

    for (const tri_wait *w = ext->waits; w != NULL; w = w->next) {
        bool has_limit = w->listed || w->timer.next != NULL;
        tr_nanos due = w->listed ? w->deadline : tri_timer_due(&w->timer);
        bool is_overdue = has_limit && fired > WINDOW &&
                          tri_sim_when(at->it->node, due) < fired - WINDOW;
        if (is_overdue && !w->done) {
            broken(at, cell, "timeout", "a wait has not ended in time",
                   w->correlation);
        }
        if (w->correlation == 0) {
            continue;
        }
        if (w->correlation > ext->correlation) {
            broken(at, cell, "correlation", "a number that was never given",
                   w->correlation);
        }
        for (const tri_wait *o = w->next; o != NULL; o = o->next) {
            if (o->correlation == w->correlation) {
                broken(at, cell, "correlation", "one number for two requests",
                       w->correlation);
            }
        }
    }
}

static void check_rest(look *at, tri_cell *cell, const tri_ext *ext)
{
    uint32_t quiet = TRI_SLOW_BOUNDED | TRI_SLOW_TIMEOUT;

    if (tri_cell_life(cell) == TR_STATE_RUNNING && (cell->slow & ~quiet) == 0 &&
        (ext == NULL || ext->parked == NULL) && tri_depth(cell) > 0) {
        broken(at, cell, "rest", "messages wait, and nobody runs",
               tri_depth(cell));
    }
}

static bool check_cell(void *user, tri_cell *cell, uint32_t depth)
{
    look *at = user;
    const tri_ext *ext = tri_ext_of(cell);

    (void)depth;
    tri_sim_mail_read(at->mail, cell);
    check_transitions(at, cell);
    if (ext != NULL) {
        check_turns(at, cell, ext);
        check_waits(at, cell, ext);
    }
    if (at->at_rest) {
        check_rest(at, cell, ext);
    }
    return at->cell == NULL;
}

static void check_catalog(look *at, tr_system *sys)
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

/*
 * Whether no actor could run. The world's own way to ask moves mail between
 * queues, and so decides an order: a look must not.
 */
static bool is_idle(const tr_system *sys)
{
    const tri_worker *worker = sys->driven_worker;

    // Relaxed, all: the world is one thread.
    return atomic_load_explicit(&worker->own_count, memory_order_relaxed) ==
               0 &&
           atomic_load_explicit(&worker->inbox, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&worker->group->length, memory_order_relaxed) ==
               0;
}

/* Not while it opens or closes: it is half of a system then. */
static bool is_whole(const tri_sim_attached *it)
{
    return !it->node->paused && it->node->sys == it->driven->system;
}

void tri_sim_listen(tr_sim *sim)
{
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        if (is_whole(it) && (it->touched || sim->touched)) {
            (void)tri_sim_mail_of(sim, it);
        }
    }
}

void tri_sim_check(tr_sim *sim, bool all)
{
    for (uint32_t i = 0; i < sim->system_count && !sim->failed; i++) {
        tri_sim_attached *it = &sim->systems[i];
        tr_system *sys = it->driven->system;
        look at = {.sim = sim, .it = it};
        if (!is_whole(it) || !(all || it->touched || sim->touched)) {
            continue;
        }
        it->touched = false;
        at.at_rest = is_idle(sys);
        at.mail = tri_sim_mail_of(sim, it);
        if (at.mail == NULL) {
            continue;  // no memory
        }
        tri_visit(sys, check_cell, &at);
        if (at.cell != NULL) {
            tell(&at);
        }
        check_catalog(&at, sys);
        tri_sim_mail_callbacks(at.mail);
        if (at.at_rest || all) {
            tri_sim_mail_rest(at.mail, all);
        }
    }
    sim->touched = false;
}
