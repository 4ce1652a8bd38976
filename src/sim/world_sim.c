/*
 * world_sim.c - a world in one thread, on virtual time, decided by a seed.
 *
 * The stack that calls into the world from outside (main) runs it: while main
 * waits, it takes steps (sim_step.c) until its wait is over. This file has the
 * table of functions through which the library reaches its world, and those of
 * them that are a few lines; threads are in sim_thread.c, files in sim_disk.c.
 */
#include "sim/world_sim.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "sim/sim.h"
#include "sim/sim_address.h"
#include "sim/sim_buggify.h"
#include "sim/sim_disk.h"
#include "sim/sim_disk_lock.h"
#include "sim/sim_node.h"
#include "sim/sim_signal.h"
#include "sim/sim_stream.h"
#include "sim/sim_system.h"
#include "sim/sim_tcp.h"
#include "sim/sim_thread.h"
#include "sim/sim_udp.h"

#define STACK_SIZE ((size_t)1024 * 1024)  // of a thread

struct tri_poller {
    tri_sim_node *node;
    _Atomic(uint32_t) woken;
};

/* ---- clocks and numbers ---- */

static tr_nanos sim_mono(tri_world *world)
{
    return tri_sim_node_time(tri_sim_node_of(world));
}

static tr_nanos sim_wall(tri_world *world)
{
    tri_sim_node *node = tri_sim_node_of(world);

    return TRI_SIM_EPOCH + tri_sim_node_time(node) + node->wall_skew;
}

/* A paused node is suspended: this clock goes on, like the others. */
static tr_nanos sim_boottime(tri_world *world)
{
    return sim_mono(world);
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

/* ---- pollers: there are no descriptors; events wake those who wait ---- */

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

tri_sim_node *tri_sim_poller_node(const tri_poller *poller)
{
    return poller->node;
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

/* ---- the rest ---- */

static tri_shared *sim_shared(tri_world *world)
{
    return &tri_sim_node_of(world)->sim->shared;
}

/* The library\'s own buggify places are off in a world without nodes: its times
 * are exact. */
static bool sim_buggify(tri_world *world, double p, const char *site)
{
    tr_sim *sim = tri_sim_of(world);

    return sim->run != NULL && tri_sim_buggify(sim, p, site);
}

static void sim_place(tri_world *world, char *out, size_t size)
{
    uint32_t index = tri_sim_node_of(world)->index;

    if (index == TRI_SIM_NO_NODE) {
        (void)snprintf(out, size, "the workload");
    } else {
        (void)snprintf(out, size, "node %" PRIu32, index);
    }
}

const tri_world_ops tri_sim_ops = {
    .name = "sim",
    .has_threads = false,
    .mono = sim_mono,
    .wall = sim_wall,
    .boottime = sim_boottime,
    .random = sim_random,
    .cpus = sim_cpus,
    .thread_start = tri_sim_thread_start,
    .thread_join = tri_sim_thread_join,
    .park = tri_sim_park,
    .wake = tri_sim_wake,
    .pause = tri_sim_yield,
    .yield = tri_sim_yield,
    .attach = tri_sim_attach,
    .detach = tri_sim_detach,
    .poller_new = sim_poller_new,
    .poller_free = sim_poller_free,
    .poller_add = sim_poller_add,
    .poller_remove = sim_poller_remove,
    .poller_wait = sim_poller_wait,
    .poller_wake = sim_poller_wake,
    .poller_fd = sim_poller_fd,
    .poller_alarm = sim_poller_alarm,
    .resolve = tri_sim_resolve,
    .stream_listen = tri_sim_stream_listen,
    .stream_accept = tri_sim_stream_accept,
    .stream_connect = tri_sim_stream_connect,
    .stream_connected = tri_sim_stream_connected,
    .stream_read = tri_sim_stream_read,
    .stream_write = tri_sim_stream_write,
    .stream_shutdown = tri_sim_stream_shutdown,
    .stream_close = tri_sim_stream_close,
    .stream_address = tri_sim_stream_address,
    .stream_wait = tri_sim_stream_wait,
    .stream_cancel = tri_sim_stream_cancel,
    .udp_open = tri_sim_udp_open,
    .udp_send = tri_sim_udp_send,
    .udp_receive = tri_sim_udp_receive,
    .signals_open = tri_sim_signals_open,
    .signals_take = tri_sim_signals_take,
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
    .file_rename = tri_sim_file_rename,
    .file_exists = tri_sim_file_exists,
    .place = sim_place,
    .shared = sim_shared,
    .buggify = sim_buggify,
};

/* ---- making and ending it ---- */

tr_err tri_sim_world_init(tr_sim *sim)
{
    sim->now = TRI_SIM_BEGIN;
    tri_sim_node_init(&sim->outside, sim, TRI_SIM_NO_NODE);
    tri_sim_node_init(&sim->client, sim, TRI_SIM_NO_NODE);
    sim->shared.keeps = true;
    tri_list_init(&sim->threads);
    tri_list_init(&sim->ready);
    tri_list_init(&sim->parked);
    tri_list_init(&sim->frozen_threads);
    tri_wheel_init(&sim->wheel, sim->now);
    tri_fiber_pool_init(&sim->fibers, STACK_SIZE, TRI_SIM_THREADS_MAX,
                        &sim->fibers_live, tri_sim_thread_loop, sim);
    return tri_sim_node_add(sim) != NULL ? TR_OK : TR_ENOMEM;
}

void tri_sim_world_fini(tr_sim *sim)
{
    if (sim->system_count > 0) {
        tr_abort("tr_sim_free", "a system is open in this world: "
                                "tr_system_close comes first");
    }
    TRI_CHECK(sim->frozen_count == 0);
    TRI_CHECK(sim->running == NULL);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        tri_sim_threads_kill(sim->nodes[i]);
    }
    tri_sim_threads_kill(&sim->client);
    tri_sim_threads_kill(&sim->outside);
    tri_sim_threads_free(sim);
    tri_shared_fini(&sim->shared);
    tri_fiber_pool_fini(&sim->fibers);
    tri_sim_tcp_free(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        free(sim->nodes[i]);
    }
}
