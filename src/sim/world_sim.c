/*
 * world_sim.c - a world in one thread, on virtual time, decided by a seed.
 *
 * The stack that calls into the world from outside (main) runs it: whenever
 * main waits, it takes steps until what it waits for has come. A step runs one
 * activation of one system, or lets one thread go on until it waits again.
 * Which one is drawn from all that could. If none could, the clock moves to
 * the next time at which something will be due. A handler takes no time,
 * unless step_cost says so.
 *
 * Invariant: at each moment exactly one of these runs: main's stack
 * (running NULL, not stepping), a system on behalf of it (stepping), a thread
 * (running). Systems are stepped on main's stack only, and only main switches
 * to threads, so every switch is balanced. The clock never falls.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "sim/sim_disk.h"
#include "sim/sim_mail.h"
#include "sim/sim_trace.h"

#define MILLION INT64_C(1000000)

struct tri_poller {
    tri_sim_node *node;
    _Atomic(uint32_t) woken;
};

tr_sim *tri_sim_of(const tri_world *world)
{
    if (world == NULL || world->ops != &tri_sim_ops) {
        return NULL;
    }
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    return tri_container_of(world, const tri_sim_node, world)->sim;
}

tri_sim_node *tri_sim_node_of(tri_world *world)
{
    TRI_CHECK(world->ops == &tri_sim_ops);
    return tri_container_of(world, tri_sim_node, world);
}

/* ---- clocks ---- */

/* d + d * ppm / million, without overflow; never falls as d grows. */
static tr_nanos stretch(tr_nanos d, int32_t ppm)
{
    return d + d / MILLION * ppm + d % MILLION * ppm / MILLION;
}

tr_nanos tri_sim_local(const tri_sim_node *node)
{
    tr_nanos passed = node->sim->now - node->world_base;

    TRI_CHECK(passed >= 0);
    return node->local_base + stretch(passed, node->rate_ppm);
}

tr_nanos tri_sim_when(const tri_sim_node *node, tr_nanos local)
{
    tr_nanos wanted = local - node->local_base;
    tr_nanos rate = MILLION + node->rate_ppm;

    if (local == TR_FOREVER) {
        return TR_FOREVER;
    }
    if (wanted <= 0) {
        return node->world_base;
    }
    if (wanted >= TR_FOREVER / 4) {
        return TR_FOREVER / 2;  // centuries; slow clocks must not overflow
    }
    if (node->rate_ppm == 0) {
        return node->world_base + wanted;
    }
    // The rounding of two divisions: off by a few at most.
    tr_nanos d = wanted / rate * MILLION + wanted % rate * MILLION / rate;
    while (stretch(d, node->rate_ppm) < wanted) {
        d++;
    }
    while (d > 0 && stretch(d - 1, node->rate_ppm) >= wanted) {
        d--;
    }
    return node->world_base + d;
}

void tri_sim_set_rate(tri_sim_node *node, int32_t rate_ppm)
{
    TRI_CHECK(rate_ppm >= -TRI_SIM_RATE_MAX);
    TRI_CHECK(rate_ppm <= TRI_SIM_RATE_MAX);
    node->local_base = tri_sim_local(node);
    node->world_base = node->sim->now;
    node->rate_ppm = rate_ppm;
    node->sim->due_known = false;
}

static void set_clock(tr_sim *sim, tr_nanos now)
{
    TRI_CHECK(now >= sim->now);
    if (now > sim->now) {
        sim->now = now;
        sim->still = 0;
        sim->due_known = false;
    }
}

static tr_nanos sim_mono(tri_world *world)
{
    return tri_sim_local(tri_sim_node_of(world));
}

static tr_nanos sim_wall(tri_world *world)
{
    tri_sim_node *node = tri_sim_node_of(world);

    return TRI_SIM_EPOCH + tri_sim_local(node) + node->wall_skew;
}

static uint64_t sim_random(tri_world *world)
{
    tr_sim *sim = tri_sim_node_of(world)->sim;

    return tri_rand_next(tri_sim_rand(sim, TRI_STREAM_PROGRAM));
}

static uint32_t sim_cpus(tri_world *world)
{
    (void)world;
    return 1;
}

/* ---- events ---- */

void tri_sim_event_arm(tr_sim *sim, tri_sim_event *event, tr_nanos span)
{
    TRI_CHECK(event->fn != NULL);
    tri_wheel_arm(&sim->wheel, &event->timer, tri_sim_later(sim->now, span), 0);
    if (span <= 0) {
        sim->due_known = false;
    }
}

void tri_sim_event_cancel(tr_sim *sim, tri_sim_event *event)
{
    tri_wheel_cancel(&sim->wheel, &event->timer);
}

/* ---- systems ---- */

static void sim_attach(tri_world *world, tri_driven *driven)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tr_sim *sim = node->sim;

    if (sim->system_count == TRI_SIM_SYSTEMS_MAX) {
        tr_abort("sim", "too many systems in one simulated world");
    }
    driven->world_data = node;
    sim->systems[sim->system_count++] = (tri_sim_attached){
        .driven = driven, .node = node, .id = sim->system_next++};
    sim->due_known = false;
}

static void sim_detach(tri_world *world, tri_driven *driven)
{
    tr_sim *sim = tri_sim_of(world);
    uint32_t i = 0;

    TRI_CHECK(!sim->stepping);
    while (i < sim->system_count && sim->systems[i].driven != driven) {
        i++;
    }
    TRI_CHECK(i < sim->system_count);
    tri_sim_mail_end(sim, driven->system);
    sim->system_count--;
    memmove(&sim->systems[i], &sim->systems[i + 1],
            (sim->system_count - i) * sizeof(sim->systems[0]));
}

static uint32_t systems_of(const tri_sim_node *node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->sim->system_count; i++) {
        count += node->sim->systems[i].node == node;
    }
    return count;
}

bool tri_sim_bury(tri_sim_node *node)
{
    tr_sim *sim = node->sim;
    uint32_t kept = 0;

    TRI_CHECK(!sim->stepping);
    if (systems_of(node) > TRI_SIM_BURIED_MAX - sim->buried_count) {
        return false;
    }
    for (uint32_t i = 0; i < sim->system_count; i++) {
        if (sim->systems[i].node == node) {
            sim->buried[sim->buried_count++] = sim->systems[i];
        } else {
            sim->systems[kept++] = sim->systems[i];
        }
    }
    sim->system_count = kept;
    return true;
}

tri_driven *tri_sim_exhume(tr_sim *sim)
{
    if (sim->buried_count == 0) {
        return NULL;
    }
    TRI_CHECK(sim->system_count < TRI_SIM_SYSTEMS_MAX);
    tri_sim_attached it = sim->buried[--sim->buried_count];
    sim->systems[sim->system_count++] = it;
    sim->due_known = false;
    return it.driven;
}

void tri_sim_exhume_one(tr_sim *sim, const void *system)
{
    for (uint32_t i = 0; i < sim->buried_count; i++) {
        tri_sim_attached it = sim->buried[i];
        if (it.driven->system != system ||
            sim->system_count == TRI_SIM_SYSTEMS_MAX) {
            continue;
        }
        sim->buried_count--;
        memmove(&sim->buried[i], &sim->buried[i + 1],
                (sim->buried_count - i) * sizeof(sim->buried[0]));
        sim->systems[sim->system_count++] = it;
        sim->due_known = false;
        return;
    }
}

static void pause_is_over(tr_sim *sim, tri_sim_event *event)
{
    tri_sim_node *node = tri_container_of(event, tri_sim_node, pause_end);

    node->paused = false;
    sim->due_known = false;
    tri_sim_note(sim, TRI_KIND_NODE, node->index, TRI_NODE_AWAKE, "awake");
}

void tri_sim_pause(tri_sim_node *node, tr_nanos span)
{
    node->paused = true;
    node->pause_end.fn = pause_is_over;
    tri_sim_event_arm(node->sim, &node->pause_end, span);
    tri_sim_note(node->sim, TRI_KIND_NODE, node->index, TRI_NODE_PAUSED,
                 "paused");
}

void tri_sim_resume(tri_sim_node *node)
{
    if (node->paused) {
        tri_sim_event_cancel(node->sim, &node->pause_end);
        pause_is_over(node->sim, &node->pause_end);
    }
}

/* ---- steps ---- */

/* When the system wants to be fired, by the world's clock. */
static tr_nanos system_due(const tri_sim_attached *it)
{
    if (it->node->paused) {
        return TR_FOREVER;
    }
    tr_nanos due = it->driven->next_due(it->driven->system);

    return due == TR_FOREVER ? TR_FOREVER : tri_sim_when(it->node, due);
}

static void fire_events(tr_sim *sim)
{
    tri_timer *timer;

    while ((timer = tri_wheel_expire(&sim->wheel, sim->now)) != NULL) {
        tri_sim_event *event = tri_container_of(timer, tri_sim_event, timer);
        tri_sim_note(sim, TRI_KIND_EVENT, TRI_SIM_NOBODY, 0, "");
        sim->touched = true;
        event->fn(sim, event);
    }
}

static void fire_due(tr_sim *sim)
{
    if (sim->due_known) {
        return;
    }
    sim->due_known = true;
    if (tri_wheel_next(&sim->wheel) <= sim->now) {
        fire_events(sim);
    }
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        if (system_due(it) > sim->now) {
            it->fired_at = it->node->paused ? it->fired_at : sim->now;
            continue;
        }
        sim->stepped = it;
        tri_sim_note(sim, TRI_KIND_FIRE, it->id, 0, "");
        sim->stepping = true;
        it->touched = true;
        it->driven->fire(it->driven->system, tri_sim_local(it->node));
        sim->stepping = false;
        if (system_due(it) > sim->now) {
            it->fired_at = sim->now;
        } else {
            sim->due_known = false;  // it was late
        }
    }
}

static uint32_t count_systems(tr_sim *sim)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        it->runnable = 0;
        if (!it->node->paused) {
            uint32_t count = it->driven->runnable(it->driven->system);
            it->runnable = count < TRI_SIM_WINDOW ? count : TRI_SIM_WINDOW;
        }
        total += it->runnable;
    }
    return total;
}

static uint32_t count_threads(tr_sim *sim)
{
    uint32_t total = 0;

    for (tri_link *it = sim->ready.head.next; it != &sim->ready.head;
         it = it->next) {
        total += !tri_container_of(it, tri_thread, queue)->node->paused;
    }
    return total;
}

bool tri_sim_is_busy(tr_sim *sim)
{
    return count_systems(sim) + count_threads(sim) > 0;
}

static void step_system(tr_sim *sim, uint32_t pick)
{
    tri_sim_attached *it = sim->systems;

    while (pick >= it->runnable) {
        pick -= it->runnable;
        it++;
    }
    sim->stepped = it;
    tri_sim_note(sim, TRI_KIND_STEP, it->id, pick, "");
    sim->stepping = true;
    it->touched = true;
    it->driven->step(it->driven->system, pick);
    sim->stepping = false;
    tri_sim_trace_end(sim);
}

static void step_thread(tr_sim *sim, uint32_t pick)
{
    tri_link *it = sim->ready.head.next;
    tri_thread *thread = tri_container_of(it, tri_thread, queue);

    while (thread->node->paused || pick-- > 0) {
        it = it->next;
        TRI_CHECK(it != &sim->ready.head);
        thread = tri_container_of(it, tri_thread, queue);
    }
    tri_sim_note(sim, TRI_KIND_THREAD, thread->node->index, thread->id,
                 thread->name);
    tri_list_remove(&thread->queue);
    sim->touched = true;
    tri_sim_thread_enter(sim, thread);
}

static void pay_step(tr_sim *sim)
{
    tr_nanos cost = 0;

    if (sim->step_cost > 0) {
        cost = (tr_nanos)tri_rand_below(tri_sim_rand(sim, TRI_STREAM_COST),
                                        (uint64_t)sim->step_cost * 2);
    }
    if (sim->still < TRI_SIM_STILL_MAX) {
        sim->still++;
    } else if (cost < TRI_SIM_STILL_COST) {
        cost = TRI_SIM_STILL_COST;
    }
    if (cost > 0) {
        uint32_t still = sim->still;
        set_clock(sim, sim->now + cost);
        // Only a clock that moves for itself counts as movement.
        sim->still = sim->step_cost > 0 ? 0 : still;
    }
}

tr_nanos tri_sim_next(tr_sim *sim)
{
    tr_nanos next = tri_wheel_next(&sim->wheel);

    for (uint32_t i = 0; i < sim->system_count; i++) {
        tr_nanos due = system_due(&sim->systems[i]);
        next = due < next ? due : next;
    }
    return next > sim->now ? next : sim->now;
}

/* Nothing can go on: the clock moves. */
static bool pass_time(tr_sim *sim, tr_nanos until)
{
    tr_nanos next = tri_sim_next(sim);

    if (next == TR_FOREVER || next > until) {
        if (until != TR_FOREVER && until > sim->now) {
            set_clock(sim, until);
        }
        return false;
    }
    set_clock(sim, next);
    sim->due_known = false;
    tri_sim_note(sim, TRI_KIND_TIME, TRI_SIM_NOBODY, 0, "");
    fire_due(sim);
    pay_step(sim);
    return true;
}

static void after_step(tr_sim *sim)
{
    if (sim->after_step == NULL || sim->in_after) {
        return;
    }
    sim->in_after = true;
    sim->after_step(sim, sim->after_user);
    sim->in_after = false;
}

bool tri_sim_step(tr_sim *sim, tr_nanos until)
{
    TRI_CHECK(sim->running == NULL);
    TRI_CHECK(!sim->stepping);
    fire_due(sim);

    uint32_t systems = count_systems(sim);
    uint32_t total = systems + count_threads(sim);
    bool went_on = true;
    if (total == 0) {
        went_on = pass_time(sim, until);
    } else {
        uint32_t pick = 0;
        if (total > 1) {
            pick = (uint32_t)tri_rand_below(
                tri_sim_rand(sim, TRI_STREAM_SCHEDULE), total);
        }
        if (pick < systems) {
            step_system(sim, pick);
        } else {
            step_thread(sim, pick - systems);
        }
        pay_step(sim);
    }
    after_step(sim);
    return went_on;
}

/* ---- descriptors: there are none in this world ---- */

static tr_err sim_poller_new(tri_world *world, tri_poller **out)
{
    tri_poller *poller = calloc(1, sizeof(*poller));

    *out = poller;
    if (poller == NULL) {
        return TR_ENOMEM;
    }
    poller->node = tri_sim_node_of(world);
    return TR_OK;
}

static void sim_poller_free(tri_poller *poller)
{
    free(poller);
}

static tr_err sim_poller_add(tri_poller *poller, int fd, uint32_t events,
                             uint64_t token)
{
    (void)poller;
    (void)fd;
    (void)events;
    (void)token;
    return TR_EINVAL;
}

static void sim_poller_remove(tri_poller *poller, int fd)
{
    (void)poller;
    (void)fd;
}

static uint32_t sim_poller_wait(tri_poller *poller, tri_fd_event *events,
                                uint32_t max, tr_nanos timeout)
{
    (void)events;
    TRI_CHECK(max > 0);
    (void)tri_sim_park(&poller->node->world, &poller->woken, 0, timeout);
    // Relaxed: the world is one thread.
    atomic_store_explicit(&poller->woken, 0, memory_order_relaxed);
    return 0;
}

static void sim_poller_wake(tri_poller *poller)
{
    // Relaxed: the world is one thread.
    atomic_store_explicit(&poller->woken, 1, memory_order_relaxed);
    tri_sim_wake_all(poller->node->sim, &poller->woken);
}

static int sim_poller_fd(tri_poller *poller)
{
    (void)poller;
    return -1;
}

static void sim_poller_alarm(tri_poller *poller, tr_nanos due)
{
    (void)poller;
    (void)due;
}

/* The library's own sites: not in bare worlds, where times are exact. */
static bool sim_buggify(tri_world *world, double p, const char *site)
{
    tr_sim *sim = tri_sim_of(world);

    return sim->run != NULL && tri_sim_buggify(sim, p, site);
}

static void sim_place(tri_world *world, char *out, size_t size)
{
    uint32_t index = tri_sim_node_of(world)->index;

    if (index == TRI_SIM_NOBODY) {
        (void)snprintf(out, size, "the workload");
    } else {
        (void)snprintf(out, size, "node %" PRIu32, index);
    }
}

/* ---- the whole ---- */

const tri_world_ops tri_sim_ops = {
    .name = "sim",
    .has_threads = false,
    .mono = sim_mono,
    .wall = sim_wall,
    .random = sim_random,
    .cpus = sim_cpus,
    .thread_start = tri_sim_thread_start,
    .thread_join = tri_sim_thread_join,
    .park = tri_sim_park,
    .wake = tri_sim_wake,
    .pause = tri_sim_yield,
    .yield = tri_sim_yield,
    .attach = sim_attach,
    .detach = sim_detach,
    .poller_new = sim_poller_new,
    .poller_free = sim_poller_free,
    .poller_add = sim_poller_add,
    .poller_remove = sim_poller_remove,
    .poller_wait = sim_poller_wait,
    .poller_wake = sim_poller_wake,
    .poller_fd = sim_poller_fd,
    .poller_alarm = sim_poller_alarm,
    .file_open = tri_sim_file_open,
    .file_close = tri_sim_file_close,
    .file_read = tri_sim_file_read,
    .file_write = tri_sim_file_write,
    .file_sync = tri_sim_file_sync,
    .file_truncate = tri_sim_file_truncate,
    .file_size = tri_sim_file_size,
    .file_lock = tri_sim_file_lock,
    .file_map = tri_sim_file_map,
    .file_unmap = tri_sim_file_unmap,
    .file_remove = tri_sim_file_remove,
    .file_exists = tri_sim_file_exists,
    .place = sim_place,
    .buggify = sim_buggify,
};

static void node_init(tri_sim_node *node, tr_sim *sim, uint32_t index)
{
    node->world = (tri_world){.magic = TRI_WORLD_MAGIC, .ops = &tri_sim_ops};
    node->sim = sim;
    node->index = index;
    node->local_base = TRI_SIM_BEGIN;
    node->world_base = TRI_SIM_BEGIN;
}

tri_sim_node *tri_sim_node_add(tr_sim *sim)
{
    if (sim->node_count == TRI_SIM_NODES_MAX) {
        return NULL;
    }
    tri_sim_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    node_init(node, sim, sim->node_count);
    sim->nodes[sim->node_count++] = node;
    return node;
}

tr_err tri_sim_world_init(tr_sim *sim)
{
    sim->now = TRI_SIM_BEGIN;
    node_init(&sim->outside, sim, TRI_SIM_NOBODY);
    node_init(&sim->client, sim, TRI_SIM_NOBODY);
    tri_list_init(&sim->threads);
    tri_list_init(&sim->ready);
    tri_list_init(&sim->parked);
    tri_list_init(&sim->buried_threads);
    tri_wheel_init(&sim->wheel, sim->now);
    tri_fiber_pool_init(&sim->fibers, TRI_SIM_STACK, TRI_SIM_THREADS_MAX,
                        &sim->fibers_live, tri_sim_thread_loop, sim);
    return tri_sim_node_add(sim) != NULL ? TR_OK : TR_ENOMEM;
}

void tri_sim_world_fini(tr_sim *sim)
{
    if (sim->system_count > 0) {
        tr_abort("tr_sim_free", "a system is open in this world: "
                                "tr_system_close comes first");
    }
    TRI_CHECK(sim->buried_count == 0);
    TRI_CHECK(sim->running == NULL);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        tri_sim_kill_threads(sim->nodes[i]);
    }
    tri_sim_kill_threads(&sim->client);
    tri_sim_kill_threads(&sim->outside);
    tri_sim_threads_free(sim);
    tri_fiber_pool_fini(&sim->fibers);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        free(sim->nodes[i]);
    }
}
