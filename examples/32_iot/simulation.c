/*
 * simulation.c - the thermometers in a simulated world.
 *
 * Devices connect, answer with a temperature that tells who they are, answer
 * late or never, say nonsense, vanish and come back. Somebody asks all groups
 * again and again: an answer must come in time, name each device once, and have
 * its own temperature. Connections are refused, slow and broken, and the
 * server is killed. At the end all devices behave, and all must be read.
 */
#include "iot.h"

#include <stdio.h>
#include <string.h>

enum { GROUPS = 3, DEVICES = 4, ALL = GROUPS * DEVICES };

#define ADDRESS  "tcp://node-0:7300"
#define PATIENCE TR_SECONDS(60)
#define SLOWEST  TR_SECONDS(20)  // a query, with all delays of the world

typedef struct World {
    Iot iot;
    tr_sim *sim;
    tr_system *clients;
    bool calm;  // devices behave
} World;

static bool is_end(tr_err err)
{
    return err == TR_OK || err == TR_ERESET || err == TR_ETIMEDOUT ||
           err == TR_EUNREACHABLE;
}

/* ---- devices ---- */

typedef struct Thing {
    World *world;
    uint32_t index;
    tr_stream *stream;
} Thing;

static tr_err answer(tr_ctx *ctx, Thing *self)
{
    switch (self->world->calm ? 9 : tr_random(ctx, 20)) {
    case 0:
        return tr_write(ctx, self->stream, 0, {"hot\n", 4});  // is cut off
    case 1:
        return tr_write(ctx, self->stream, 0, {"none\n", 5});
    case 2:
        return TR_ERESET;  // vanishes
    case 3:
        TR_TRY(tr_sleep(ctx, TR_SECONDS(tr_random(ctx, 10))));
    }
    const char *text = tr_textf(ctx, "%u.5\n", self->index);
    return tr_write(ctx, self->stream, 0, {text, strlen(text)});
}

static tr_err be_read(tr_ctx *ctx, Thing *self)
{
    char line[64];
    size_t got;
    const char *hello =
        tr_textf(ctx, "device g%u d%u\n", self->index / DEVICES, self->index);
    TR_TRY(tr_write(ctx, self->stream, 0, {hello, strlen(hello)}));
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line),
                             PATIENCE, &got));
        if (got == 0) return TR_OK;
        if (got != 5 || memcmp(line, "read\n", 5) != 0)
            return tr_sim_fail(self->world->sim, "a device was told %.*s",
                               (int)got, line);
        TR_TRY(answer(ctx, self));
        tr_scratch_reset(ctx);
    }
}

static tr_err thing_run(tr_ctx *ctx, Thing *self)
{
    for (;;) {
        tr_err err = tr_connect(ctx, &self->stream, ADDRESS, PATIENCE);
        if (err == TR_OK) {
            err = be_read(ctx, self);
            tr_stream_close(ctx, self->stream);
        }
        if (!is_end(err)) return err;
        TR_TRY(tr_sleep(ctx, TR_MS(100)));
    }
}

TR_ACTOR(thing, Thing, TR_HOOK(on_run, thing_run));

/* ---- asking ---- */

/* Checks the line of a device: it is of this group, and reads itself. */
static tr_err check(World *world, uint32_t group, const char *line, bool *seen,
                    uint32_t *good)
{
    unsigned id, celsius;
    char what[32] = "";
    if (sscanf(line, "d%u: %31[^\n]", &id, what) != 2 ||
        id / DEVICES != group || seen[id % DEVICES])
        return tr_sim_fail(world->sim, "group %u has %s", group, line);
    seen[id % DEVICES] = true;
    if (sscanf(what, "%u.5", &celsius) != 1) return TR_OK;
    if (celsius != id) return tr_sim_fail(world->sim, "wrong: %s", line);
    ++*good;
    return TR_OK;
}

/* Asks one group; *good devices have a temperature. */
static tr_err ask(tr_from from, World *world, uint32_t group, uint32_t *good)
{
    char line[64];
    size_t got;
    bool seen[DEVICES] = {false};
    tr_stream *stream;
    *good = 0;
    TR_TRY(tr_connect(from, &stream, ADDRESS, PATIENCE));
    tr_nanos start = tr_sim_now(world->sim);
    int size = snprintf(line, sizeof(line), "all g%u\n", group);
    tr_err err = tr_write(from, stream, PATIENCE, {line, (size_t)size});
    while (err == TR_OK) {
        err = tr_read_until(from, stream, '\n', line, sizeof(line) - 1,
                            PATIENCE, &got);
        line[got] = '\0';
        if (err != TR_OK || got == 0 || strcmp(line, "end\n") == 0 ||
            strncmp(line, "error: ", 7) == 0)
            break;
        err = check(world, group, line, seen, good);
    }
    tr_stream_close(from, stream);
    if (err == TR_OK && tr_sim_now(world->sim) - start > SLOWEST)
        return tr_sim_fail(world->sim, "group %u answers too late", group);
    return err;
}

/* ---- the run ---- */

static void begin(tr_sim *sim, void *user)
{
    *(World *)user = (World){.sim = sim, .iot.address = ADDRESS};
}

static tr_err workload(tr_sim *sim, void *user)
{
    World *world = user;
    uint32_t good;
    TR_TRY(tr_system_open(&world->clients, .world = tr_sim_world(sim)));
    for (uint32_t i = 0; i < ALL; i++) {
        (void)tr_spawn(world->clients, thing,
                       TR_INIT(thing, .world = world, .index = i));
    }
    for (int i = 0; i < 60; i++) {
        tr_err err = ask((tr_from){.sys = world->clients}, world,
                         (uint32_t)tr_sim_random(sim, GROUPS), &good);
        if (!is_end(err)) return err;
        tr_sim_advance(sim, TR_MS(500));
    }
    world->calm = true;
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    World *world = user;
    for (uint32_t group = 0; group < GROUPS; group++) {
        uint32_t good = 0;
        // A device that nobody has asked for long is just connecting again.
        for (int i = 0; i < 5 && good < DEVICES; i++) {
            TR_TRY(ask((tr_from){.sys = world->clients}, world, group, &good));
            tr_sim_advance(sim, TR_SECONDS(1));
        }
        if (good < DEVICES)
            return tr_sim_fail(sim, "group %u: %u of %d devices are read",
                               group, good, DEVICES);
    }
    return TR_OK;
}

int iot_simulate(int argc, char **argv)
{
    static World world;
    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .node = iot_node, .begin = begin,
                   .workload = workload, .at_end = at_end, .user = &world,
                   .quiet_time = TR_MINUTES(5), .check_every = 16,
                   .faults =
                       TR_OPTIONS(tr_faults, .refuse = 0.05, .reset = 0.01,
                                  .short_io = 0.2, .delay = 0.02,
                                  .node_kill = 0.0001, .node_pause = 0.0001)));
}
