/*
 * sim_watchdog.c - reports which run crashed, or hangs.
 *
 * Invariant: what a signal handler runs neither allocates, locks nor waits. It
 * reads memory that may be broken, and may crash in turn: so the seed and the
 * command are written before it looks for the actor.
 */
#include "sim/sim_watchdog.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/log.h"
#include "base/text.h"
#include "core/cell/cell_path.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "sim/sim_running.h"
#include "troupe/message.h"

/* A line of text; snprintf is not for signal handlers. */
typedef struct words {
    size_t length;
    char text[TRI_SIM_WATCHDOG_REPLAY + 512];
} words;

static void put(words *it, const char *text)
{
    while (*text != '\0' && it->length + 1 < sizeof(it->text)) {
        it->text[it->length++] = *text++;
    }
    it->text[it->length] = '\0';
}

static void put_number(words *it, uint64_t number)
{
    char digits[24];
    char *at = &digits[sizeof(digits) - 1];

    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(it, at);
}

static void put_node(words *it, const tri_sim_node *node)
{
    if (node->index != TRI_SIM_NO_NODE) {
        put(it, "node ");
        put_number(it, node->index);
        put(it, ", ");
    }
}

/*
 * The path is read without the locks of parents, because the crashed thread
 * may hold them. tri_path_write calls snprintf for actors without a name, with
 * a single number.
 */
static void put_actor(words *it, const tri_sim_running *now)
{
    char path[TRI_SIM_LINE_MAX];

    if (now->cell == NULL) {
        put(it, "between two actors");
        return;
    }
    tri_path_write(now->sys, now->cell, path, sizeof(path));
    put(it, "actor ");
    put(it, path);
    put(it, ", message ");
    put(it, now->type != NULL ? now->type->name : "-");
}

static void put_place(words *it, tr_sim *sim)
{
    tri_sim_running now = tri_sim_running_now(sim);

    if (now.node != NULL) {
        put_node(it, now.node);
    }
    if (now.thread != NULL) {
        put(it, "thread ");
        put(it, now.thread);
    } else if (now.sys != NULL) {
        put_actor(it, &now);
    } else if (sim->in_after_step) {
        put(it, "in the checks after a step");
    } else {
        put(it, "between two steps");
    }
}

/* Writes one line, in two parts: the second may crash in turn. */
static void report(const tri_sim_watchdog *it, tr_sim *sim, words *line)
{
    put(line, "seed ");
    put_number(line, sim->seed);
    put(line, ", step ");
    put_number(line, sim->steps);
    put(line, "; replay: ");
    put(line, it->replay);
    put(line, "; ");
    tri_log_part(line->text);
    line->length = 0;
    put_place(line, sim);
    tri_log_line(line->text);
}

void tri_sim_watchdog_crash(void *watchdog, const char *what)
{
    tri_sim_watchdog *it = watchdog;
    // Relaxed: written by this thread.
    tr_sim *sim = atomic_load_explicit(&it->sim, memory_order_relaxed);
    words line = {.length = 0};

    if (sim != NULL && !it->reported) {
        it->reported = true;
        put(&line, "troupe: sim: ");
        put(&line, what);
        put(&line, " in ");
        report(it, sim, &line);
    }
}

void tri_sim_watchdog_tick(void *watchdog)
{
    tri_sim_watchdog *it = watchdog;
    // Relaxed: written by this thread.
    tr_sim *sim = atomic_load_explicit(&it->sim, memory_order_relaxed);
    words line = {.length = 0};

    if (sim == NULL) {
        return;
    }
    if (sim->steps != it->step) {
        it->step = sim->steps;
        it->ticks = 0;
    }
    if (it->ticks++ == TRI_SIM_WATCHDOG_TICKS) {
        put(&line, "troupe: sim: a step does not end, for ");
        put_number(&line, TRI_SIM_WATCHDOG_TICK * TRI_SIM_WATCHDOG_TICKS);
        put(&line, " s of real time: ");
        report(it, sim, &line);
    }
}

void tri_sim_watchdog_begin(tri_sim_watchdog *it, tr_sim *sim,
                            const tri_sim_plan *plan)
{
    tri_text text;

    if (it == NULL) {
        return;
    }
    tri_text_init(&text, it->replay, sizeof(it->replay));
    tri_sim_plan_text(plan, &text);
    tri_text_add(&text, " --trace");
    it->ticks = 0;
    it->step = 0;
    // Release: a signal handler of this thread sees the text with it.
    atomic_store_explicit(&it->sim, sim, memory_order_release);
}

void tri_sim_watchdog_end(tri_sim_watchdog *it)
{
    if (it != NULL) {
        // Release: before the world is freed, for the same handler.
        atomic_store_explicit(&it->sim, NULL, memory_order_release);
    }
}

void tri_sim_watchdog_start(tri_sim_watchdog *it)
{
    tri_crash_watchdog_ops ops = {.crash = tri_sim_watchdog_crash,
                                  .tick = tri_sim_watchdog_tick,
                                  .user = it};

    // Without a watchdog the runs are the same, only nothing is reported.
    (void)!tri_crash_watchdog_start(&it->watchdog, &ops,
                                    TR_SECONDS(TRI_SIM_WATCHDOG_TICK));
}

void tri_sim_watchdog_stop(tri_sim_watchdog *it)
{
    tri_crash_watchdog_stop(it->watchdog);
    it->watchdog = NULL;
}
