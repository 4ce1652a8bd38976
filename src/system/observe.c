/*
 * observe.c - looking at a running system: log, actors, tree, metrics.
 *
 * Nothing is stopped: counters are read as they are, the tree is walked with
 * the lock of one family at a time on the way down.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "core/probe.h"
#include "system/kinds.h"
#include "system/layers.h"

/* ---- log ---- */

static void log_v(tr_system *sys, int level, const char *site, const char *path,
                  const char *format, va_list args)
{
    if (level < sys->options.log_level) {
        return;
    }
    char text[1024];
    vsnprintf(text, sizeof(text), format, args);
    if (sys->options.log != NULL) {
        tr_log_record record = {.size = sizeof(record),
                                .level = level,
                                .at = sys->world->ops->mono(sys->world),
                                .site = site,
                                .path = path,
                                .text = text};
        sys->options.log(sys->options.log_user, &record);
        return;
    }
    tri_log_write(level, sys->world->ops->wall(sys->world), site, path, text);
}

void tri_logf(tr_system *sys, int level, const char *site, const char *path,
              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_v(sys, level, site, path, format, args);
    va_end(args);
}

void(tr_log)(tr_from from, int level, const char *site, const char *format, ...)
{
    tr_system *sys = tri_from_system(from);
    bool inside = tri_from_is_ctx(from);
    if (level < sys->options.log_level) {
        return;
    }
    char path[TRI_PATH_MAX];
    if (inside) {
        tri_path_write(sys, from.ctx->cell, path, sizeof(path));
    }
    va_list args;
    va_start(args, format);
    log_v(sys, level, site, inside ? path : NULL, format, args);
    va_end(args);
}

/* ---- actors ---- */

/* What it is handling, if a worker has it; since when, if for long. */
static void fill_running(tr_system *sys, tri_cell *cell, tr_actor_info *out)
{
    // Acquire: pairs with tri_worker_new. Relaxed: a look from outside.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (atomic_load_explicit(&worker->running, memory_order_relaxed) !=
            cell) {
            continue;
        }
        const tr_type *type =
            atomic_load_explicit(&worker->handling, memory_order_relaxed);
        out->running = type != NULL ? type->name : NULL;
        out->since =
            atomic_load_explicit(&worker->monitor_since, memory_order_relaxed);
    }
}

static void fill_info(tr_system *sys, tri_cell *cell, tr_actor_info *out)
{
    size_t size = out->size;
    memset(out, 0, sizeof(*out));
    out->size = size;
    out->ref = tri_cell_ref(sys, cell);
    tri_cell *parent = tri_cell_parent(cell);
    out->parent = parent != NULL ? tri_cell_ref(sys, parent) : (tr_ref){0};
    out->state = tri_cell_life(cell);
    out->depth = tri_depth(cell);
    // Relaxed: statistics.
    out->messages = atomic_load_explicit(&cell->handled, memory_order_relaxed);
    const tri_behaviour *behaviour = tri_cell_behaviour(cell);
    out->kind = behaviour != NULL ? behaviour->def->name : "?";
    uint32_t lives = tri_cell_incarnation(cell);
    out->restarts = lives > 0 ? lives - 1 : 0;
    fill_running(sys, cell, out);
    tri_path_write(sys, cell, out->path, sizeof(out->path));
    // Relaxed: a look from outside.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    for (int i = 0; i < TR_HISTORY; i++) {
        out->history[i] = (tr_state)(history >> (4 * i) & 15);
    }
}

typedef struct listing {
    tr_system *sys;
    tr_actor_info *out;
    size_t max, count;
} listing;

static bool list_one(void *user, tri_cell *cell, uint32_t depth)
{
    listing *l = user;
    (void)depth;
    if (l->count < l->max) {
        l->out[l->count].size = sizeof(tr_actor_info);
        fill_info(l->sys, cell, &l->out[l->count]);
    }
    l->count++;
    return true;
}

size_t tr_actors(tr_system *sys, tr_actor_info *out, size_t max)
{
    listing l = {sys, out, max, 0};
    tri_visit(sys, list_one, &l);
    return l.count;
}

typedef struct one_wanted {
    tr_system *sys;
    tri_cell *cell;
    uint64_t id;
    tr_actor_info *out;
    bool found;
} one_wanted;

static bool find_one(void *user, tri_cell *cell, uint32_t depth)
{
    one_wanted *wanted = user;
    (void)depth;
    // Relaxed: a linked cell has its id.
    if (cell == wanted->cell &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == wanted->id) {
        fill_info(wanted->sys, cell, wanted->out);
        wanted->found = true;
        return false;
    }
    return true;
}

tr_err(tr_actor_info_of)(tr_from from, tr_ref ref, tr_actor_info *out)
{
    tri_actor_from who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    if ((ref.cell >> 48) != sys->tag) {
        return tri_ref_pointer(ref) == 0 ? TR_ENOENT : TR_EFOREIGN;
    }
    one_wanted wanted = {sys, tri_ref_cell(ref), ref.id, out, false};
    tri_visit(sys, find_one, &wanted);
    return wanted.found ? TR_OK : TR_ENOENT;
}

typedef struct drawing {
    tr_system *sys;
    tri_text text;
} drawing;

static bool draw_one(void *user, tri_cell *cell, uint32_t depth)
{
    drawing *d = user;
    char path[TRI_PATH_MAX];
    tri_path_write(d->sys, cell, path, sizeof(path));
    const char *name = strrchr(path, '/');
    const tri_behaviour *behaviour = tri_cell_behaviour(cell);
    // Relaxed: statistics.
    tri_text_add(&d->text, "%*s%s  %s %s, %u waiting, %llu handled\n",
                 (int)depth * 2, "",
                 name != NULL && name[1] != '\0' ? name + 1 : path,
                 behaviour != NULL ? behaviour->def->name : "?",
                 tri_state_name(tri_cell_life(cell)), tri_depth(cell),
                 (unsigned long long)atomic_load_explicit(
                     &cell->handled, memory_order_relaxed));
    return true;
}

size_t tr_tree(tr_system *sys, char *buf, size_t size)
{
    char none[1];
    drawing d = {.sys = sys};
    tri_text_init(&d.text, size > 0 ? buf : none, size > 0 ? size : 1);
    tri_visit(sys, draw_one, &d);
    return d.text.need;
}

/* ---- metrics ---- */

uint64_t tri_ended_count(tr_system *sys)
{
    uint64_t sum = 0;
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        // Relaxed: statistics.
        sum += atomic_load_explicit(&worker->count.ended, memory_order_relaxed);
    }
    return sum;
}

static void gather(tr_system *sys, tr_metrics_snapshot *out)
{
    tri_layers *layers = tri_layers_of(sys);
    // Relaxed, all: statistics.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        tri_counters *c = &worker->count;
#define ADD(to, from)                                                          \
    out->to += atomic_load_explicit(&c->from, memory_order_relaxed)
        ADD(spawned, spawned);
        ADD(ended, ended);
        ADD(asks, asks);
        ADD(parked, parked_turns);
        ADD(timers, timers);
        ADD(deadlocks, deadlocks);
        ADD(failures, failures);
        ADD(restarts, restarts);
        ADD(dropped, dropped);
        ADD(steals, steals);
        ADD(parks, parks);
#undef ADD
    }
    out->messages = tri_messages_count(sys);
    out->actors = tri_live_count(sys);
    out->zombies =
        atomic_load_explicit(&sys->zombie_count, memory_order_relaxed);
    out->unhandled =
        atomic_load_explicit(&layers->unhandled, memory_order_relaxed);
    out->escalations =
        atomic_load_explicit(&layers->escalations, memory_order_relaxed);
    out->events_lost =
        atomic_load_explicit(&layers->events_lost, memory_order_relaxed);
    out->overloads =
        atomic_load_explicit(&layers->overloads, memory_order_relaxed);
    const tri_virtual_ops *virtual_ops = tri_virtual_ops_of(sys);
    if (virtual_ops != NULL) {
        virtual_ops->count(sys, out);
    }
    tri_lock_take(&layers->dead_lock);
    out->dead_letters = layers->dead_count;
    tri_lock_drop(&layers->dead_lock);
}

void tr_metrics(tr_system *sys, tr_metrics_snapshot *out)
{
    // A caller built with an older header has fewer fields.
    tr_metrics_snapshot all = {.size = out->size};
    gather(sys, &all);
    memcpy(out, &all, TRI_MIN(out->size, sizeof(all)));
}

/* The system's name as the value of a label; a long one is cut. */
static void write_label(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name != '\0' && n + 3 <= size; name++) {
        bool escaped = *name == '"' || *name == '\\' || *name == '\n';
        if (escaped) {
            out[n++] = '\\';
        }
        out[n++] = *name == '\n' ? 'n' : *name;
    }
    out[n] = '\0';
}

size_t tr_metrics_text(tr_system *sys, char *buf, size_t size)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    char none[1], label[128];
    tri_text text;
    write_label(sys->name, label, sizeof(label));
    tr_metrics(sys, &m);
    tri_text_init(&text, size > 0 ? buf : none, size > 0 ? size : 1);
#define LINE(kind, metric, field, help)                                        \
    tri_text_add(&text,                                                        \
                 "# HELP troupe_" metric " " help "\n# TYPE troupe_" metric    \
                 " " kind "\ntroupe_" metric "{system=\"%s\"} %llu\n",         \
                 label, (unsigned long long)m.field)
    LINE("gauge", "actors", actors, "actors alive");
    LINE("gauge", "parked", parked, "handlers that wait");
    LINE("counter", "actors_spawned_total", spawned, "actors spawned");
    LINE("counter", "actors_ended_total", ended, "actors ended");
    LINE("counter", "messages_total", messages, "messages handled");
    LINE("counter", "asks_total", asks, "requests sent");
    LINE("counter", "dead_letters_total", dead_letters,
         "messages nobody handled");
    LINE("counter", "unhandled_total", unhandled,
         "messages of a type their actor does not take");
    LINE("counter", "failures_total", failures, "turns that failed");
    LINE("counter", "restarts_total", restarts, "restarts");
    LINE("counter", "dropped_total", dropped,
         "messages that ended actors left and TR_DRAIN_DROP let go");
    LINE("counter", "escalations_total", escalations,
         "failures passed on to the parent's parent");
    LINE("counter", "timers_total", timers, "timers fired");
    LINE("counter", "deadlocks_total", deadlocks,
         "waits refused because they would close a cycle");
    LINE("counter", "overloads_total", overloads,
         "sends beyond a soft limit that could not wait");
    LINE("counter", "events_lost_total", events_lost, "events dropped");
    LINE("counter", "steals_total", steals, "thefts between workers");
    LINE("counter", "parks_total", parks, "times a worker slept");
    LINE("gauge", "virtual_names", virtual_names,
         "names of virtual actors in use");
    LINE("gauge", "virtual_active", virtual_active, "virtual actors active");
    LINE("counter", "activations_total", activations,
         "activations of virtual actors");
    LINE("gauge", "zombies", zombies,
         "actors ended by force whose handler has not returned");
#undef LINE
    tri_kinds_write(&text, sys, label);
    return text.need;
}
