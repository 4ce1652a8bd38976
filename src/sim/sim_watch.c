/*
 * sim_watch.c - which run it was that crashed, or hangs.
 *
 * Invariant: what a signal handler runs neither allocates, locks nor waits.
 * It reads memory that may be broken, and may fail in turn: so the seed and
 * the command are written before it looks for the actor.
 */
#include "sim/sim_watch.h"

#include "base/log.h"
#include "core/lifecycle.h"
#include "core/runtime.h"

/* A line of its own making: the usual ways to format are not for handlers. */
typedef struct words {
    size_t length;
    char text[TRI_SIM_WATCH_REPLAY + 512];
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
    if (node->index != TRI_SIM_NOBODY) {
        put(it, "node ");
        put_number(it, node->index);
        put(it, ", ");
    }
}

/*
 * The path is read without the locks of the family, which the thread may hold
 * itself. snprintf, which names those without a name, has one number to write.
 */
static void put_actor(words *it, tr_sim *sim)
{
    char path[TRI_SIM_LINE_MAX];
    tr_system *sys = sim->stepped->driven->system;
    // Relaxed, both: the world is one thread.
    tri_cell *cell = atomic_load_explicit(&sys->driven_worker->running,
                                          memory_order_relaxed);
    const tr_type *type = atomic_load_explicit(&sys->driven_worker->handling,
                                               memory_order_relaxed);

    put_node(it, sim->stepped->node);
    if (cell == NULL) {
        put(it, "between two actors");
        return;
    }
    tri_path_write(sys, cell, path, sizeof(path));
    put(it, "actor ");
    put(it, path);
    put(it, ", message ");
    put(it, type != NULL ? type->name : "-");
}

static void put_place(words *it, tr_sim *sim)
{
    if (sim->running != NULL) {
        put_node(it, sim->running->node);
        put(it, "thread ");
        put(it, sim->running->name);
    } else if (sim->stepping) {
        put_actor(it, sim);
    } else if (sim->in_after) {
        put(it, "in the checks after a step");
    } else {
        put(it, "between two steps");
    }
}

/* One line, in two parts: the second may be more than we can do. */
static void tell(const tri_sim_watch *it, tr_sim *sim, words *line)
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

void tri_sim_watch_crash(void *watch, const char *what)
{
    tri_sim_watch *it = watch;
    // Relaxed: the thread's own.
    tr_sim *sim = atomic_load_explicit(&it->sim, memory_order_relaxed);
    words line = {.length = 0};

    if (sim != NULL && !it->told) {
        it->told = true;
        put(&line, "troupe: sim: ");
        put(&line, what);
        put(&line, " in ");
        tell(it, sim, &line);
    }
}

void tri_sim_watch_tick(void *watch)
{
    tri_sim_watch *it = watch;
    // Relaxed: the thread's own.
    tr_sim *sim = atomic_load_explicit(&it->sim, memory_order_relaxed);
    words line = {.length = 0};

    if (sim == NULL) {
        return;
    }
    if (sim->steps != it->step) {
        it->step = sim->steps;
        it->ticks = 0;
    }
    if (it->ticks++ == TRI_SIM_WATCH_TICKS) {
        put(&line, "troupe: sim: a step does not end, for ");
        put_number(&line, TRI_SIM_WATCH_TICK * TRI_SIM_WATCH_TICKS);
        put(&line, " s of real time: ");
        tell(it, sim, &line);
    }
}

void tri_sim_watch_begin(tri_sim_watch *it, tr_sim *sim,
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
    // Release: the handler of this thread sees the text with it.
    atomic_store_explicit(&it->sim, sim, memory_order_release);
}

void tri_sim_watch_end(tri_sim_watch *it)
{
    if (it != NULL) {
        // Release: before what is freed after it, for the same handler.
        atomic_store_explicit(&it->sim, NULL, memory_order_release);
    }
}

void tri_sim_watch_start(tri_sim_watch *it)
{
    tri_lookout_ops ops = {
        .crash = tri_sim_watch_crash, .tick = tri_sim_watch_tick, .user = it};

    // Without one the runs are the same: only nothing is said.
    (void)!tri_lookout_start(&it->lookout, &ops,
                             TR_SECONDS(TRI_SIM_WATCH_TICK));
}

void tri_sim_watch_stop(tri_sim_watch *it)
{
    tri_lookout_stop(it->lookout);
    it->lookout = NULL;
}
