/*
 * metrics.c - the numbers of a whole system, as a struct and as Prometheus
 * text. Those of each kind of actor are in kind_metrics.c.
 *
 * Nothing is stopped: each counter is read while it changes, so the numbers
 * are not from one moment.
 */
#include "system/metrics.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "core/life/live_count.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "system/deadletter.h"
#include "system/kind_metrics.h"
#include "system/layers.h"
#include "system/up.h"
#include "troupe/observe.h"

enum { LABEL_MAX = 128 };  // bytes of the system's name as a label

uint64_t tri_ended_count(tr_system *sys)
{
    uint64_t sum = 0;
    // Acquire, both: pair with tri_worker_new.
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

/* Adds up the counters of all workers. */
static void add_workers(tr_system *sys, tr_metrics_snapshot *out)
{
    // Acquire, both: pair with tri_worker_new.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        tri_counters *c = &worker->count;
// Relaxed: statistics.
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
}

static void gather(tr_system *sys, tr_metrics_snapshot *out)
{
    tri_layers *layers = tri_layers_of(sys);
    add_workers(sys, out);
    out->messages = tri_messages_count(sys);
    out->actors = tri_live_count(sys);
    // Relaxed, all: statistics.
    out->zombies =
        atomic_load_explicit(&sys->zombie_count, memory_order_relaxed);
    out->unhandled =
        atomic_load_explicit(&layers->up.unhandled, memory_order_relaxed);
    out->escalations =
        atomic_load_explicit(&layers->up.escalations, memory_order_relaxed);
    out->given_up =
        atomic_load_explicit(&layers->up.given_up, memory_order_relaxed);
    out->events_lost =
        atomic_load_explicit(&layers->events.lost, memory_order_relaxed);
    out->overloads =
        atomic_load_explicit(&layers->up.overloads, memory_order_relaxed);
    const tri_virtual_ops *virtual_ops = tri_virtual_ops_of(sys);
    if (virtual_ops != NULL) {
        virtual_ops->count(sys, out);
    }
    out->dead_letters = tri_dead_letter_count(sys);
}

void tr_metrics(tr_system *sys, tr_metrics_snapshot *out)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(out != NULL);
    // A caller built with an older header has fewer fields.
    tr_metrics_snapshot all = {.size = out->size};
    gather(sys, &all);
    memcpy(out, &all, TRI_MIN(out->size, sizeof(all)));
}

/* Writes the system's name as the value of a label; a long one is cut. */
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
    TRI_CHECK(buf != NULL || size == 0);
    tr_metrics_snapshot m = {.size = sizeof(m)};
    char none[1], label[LABEL_MAX];
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
    LINE("counter", "given_up_total", given_up,
         "actors stopped because they could not be restarted again");
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
    LINE("counter", "bus_turns_total", bus_turns,
         "turns of the bus to the other nodes of a cluster");
    LINE("gauge", "bus_turn_cpu_max_nanoseconds", bus_turn_max,
         "most CPU time that one turn of the bus has taken");
#undef LINE
    tri_kinds_write(&text, sys, label);
    return text.need;
}
