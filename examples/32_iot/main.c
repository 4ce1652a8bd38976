/*
 * iot - thermometers in groups, and queries that do not wait for all of them.
 *
 *   32_iot tcp://127.0.0.1:7300        and then: nc 127.0.0.1 7300
 *   32_iot --seeds 100                 simulated
 *
 *   device GROUP ID   this connection is a device. It gets "read" and answers
 *                     with its temperature, "21.5", or with "none"
 *   all GROUP         lists the devices of a group and what they read
 *
 * Notice: this is the program that Akka's IoT tutorial builds. The manager makes
 * a group when its first device comes. A group watches its devices, forgets
 * those that are gone, and ends with the last one. A query is an actor of its
 * own, so nobody else waits for it: it asks all devices at once, and one that
 * does not answer within QUERY_TIME is reported as such. A device is the actor
 * of its connection.
 */
#include "iot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 128, DEVICES_MAX = 1000, READS_MAX = 16 };
#define QUERY_TIME TR_SECONDS(3)

TR_MESSAGE(Temperature, (optional, double, celsius));
TR_REQUEST(Read, Temperature);
TR_REQUEST(Track, tr_none, (const char *, group), (const char *, id),
           (tr_ref, device));
TR_MESSAGE(Readings, (const char *, text));
TR_REQUEST(All, Readings);

/* ---- a query: asks all devices of a group, and ends ---- */

TR_MESSAGE(Device, (const char *, id), (tr_ref, ref));
TR_STATE(Query, (list, Device, devices));

static tr_err query_all(tr_ctx *ctx, Query *self, const All *m)
{
    size_t count = self->devices.count;
    tr_future *asked = tr_scratch(ctx, count * sizeof(*asked));
    for (size_t i = 0; i < count; i++) {
        asked[i] = tr_async(ctx, self->devices.at[i].ref, QUERY_TIME, Read);
    }
    const char *text = "";
    for (size_t i = 0; i < count; i++) {
        Temperature t;
        tr_err err = tr_await(ctx, asked[i], Read, &t);
        const char *says = err == TR_ETIMEDOUT ? "timed out"
                           : err != TR_OK      ? "gone"
                           : t.celsius.has
                               ? tr_textf(ctx, "%.1f", t.celsius.value)
                               : "no reading";
        text = tr_textf(ctx, "%s%s: %s\n", text, self->devices.at[i].id, says);
    }
    tr_stop(ctx, tr_self(ctx));
    return tr_reply(ctx, m, .text = text);
}

TR_ACTOR(query, Query, TR_ON(All, query_all));

/* ---- a group: knows its devices while they are there ---- */

typedef struct Group {
    Device devices[DEVICES_MAX];
    size_t count;
} Group;

/* A device that is known has connected again: the old connection is dead. */
static tr_err group_track(tr_ctx *ctx, Group *self, const Track *m)
{
    size_t i = 0;
    while (i < self->count && strcmp(self->devices[i].id, m->id) != 0)
        i++;
    if (i == DEVICES_MAX) return tr_refuse(ctx, m, TR_ELIMIT, "full");
    if (i < self->count) {
        tr_unwatch(ctx, self->devices[i].ref);
        tr_stop(ctx, self->devices[i].ref);
    } else {
        self->devices[self->count++].id = tr_dup(ctx, m->id);
    }
    self->devices[i].ref = m->device;
    tr_watch(ctx, m->device);
    return tr_reply(ctx, m);
}

/* Ends the group when it has no device and no query. */
static tr_err end_if_unused(tr_ctx *ctx, Group *self, const tr_child_end *end)
{
    (void)end;
    if (self->count == 0 && tr_children(ctx, NULL, 0) == 0)
        tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err group_gone(tr_ctx *ctx, Group *self, const tr_terminated *m)
{
    size_t i = 0;
    while (!tr_ref_eq(self->devices[i].ref, m->actor))
        i++;  // only devices are watched, so it is there
    tr_free(ctx, (void *)(uintptr_t)self->devices[i].id);
    self->devices[i] = self->devices[--self->count];
    return end_if_unused(ctx, self, NULL);
}

static tr_err group_all(tr_ctx *ctx, Group *self, const All *m)
{
    tr_ref ref = tr_spawn(
        ctx, query, TR_INIT(query, .devices = {self->devices, self->count}));
    tr_forward(ctx, ref, m);  // the query answers
    return TR_OK;
}

TR_ACTOR(group, Group, TR_ON(Track, group_track),
         TR_ON(tr_terminated, group_gone), TR_ON(All, group_all),
         TR_HOOK(child_terminated, end_if_unused));

/* ---- the manager: makes a group when its first device comes ---- */

static tr_err manager_track(tr_ctx *ctx, void *self, const Track *m)
{
    (void)self;
    tr_ref ref = tr_child(ctx, m->group);
    if (tr_ref_err(ref) == TR_ESTOPPED) return tr_stash(ctx, m);
    if (tr_ref_is_nobody(ref))  // a group that ends gives its mail back
        ref = tr_spawn(ctx, group, .name = m->group, .drain = TR_DRAIN_REDIRECT,
                       .drain_to = tr_self(ctx));
    if (tr_ref_is_nobody(ref))
        return tr_refuse(ctx, m, TR_EINVAL, "%s", tr_error_text(ctx));
    tr_forward(ctx, ref, m);
    return TR_OK;
}

/* A group has ended; its name is free for devices that came meanwhile. */
static tr_err manager_gone(tr_ctx *ctx, void *self, const tr_child_end *end)
{
    (void)self, (void)end;
    tr_unstash_all(ctx);
    return TR_OK;
}

TR_ACTOR(manager, void, TR_ON(Track, manager_track),
         TR_HOOK(child_terminated, manager_gone));

/* ---- a connection: of a device, or of somebody who asks ---- */

typedef struct Session {
    tr_stream *stream;  // set by tr_serve
    tr_ref manager;
    bool is_device;
    const Read *asked[READS_MAX];  // reads that the device has not answered
    size_t count;
} Session;

/* Asks the device, unless an earlier read has done so. */
static tr_err device_read(tr_ctx *ctx, Session *self, const Read *m)
{
    if (self->count == READS_MAX) return tr_refuse(ctx, m, TR_EUSER, "busy");
    self->asked[self->count++] = tr_keep(ctx, m);
    return self->count > 1 ? TR_OK
                           : tr_write(ctx, self->stream, 0, {"read\n", 5});
}

/* Answers all reads with what the device says. */
static tr_err device_says(tr_ctx *ctx, Session *self, const char *line)
{
    char *end;
    double celsius = strtod(line, &end);
    bool has = end != line && *end == '\0' && isfinite(celsius);
    if (!has && strcmp(line, "none") != 0) return TR_ECLOSED;  // not a device
    while (self->count > 0) {
        const Read *m = self->asked[--self->count];
        TR_TRY(tr_reply(ctx, m, .celsius = {celsius, has}));
        tr_release(ctx, m);
    }
    return TR_OK;
}

static tr_err obey(tr_ctx *ctx, Session *self, const char *line)
{
    char verb[LINE_SIZE], name[LINE_SIZE], id[LINE_SIZE];
    Readings all = {.text = ""};
    const char *wrong = "device GROUP ID, or all GROUP";
    int words = sscanf(line, "%s %s %s", verb, name, id);
    if (words == 3 && strcmp(verb, "device") == 0) {
        self->is_device =
            tr_ask(ctx, self->manager, NULL, 0, Track, .group = name, .id = id,
                   .device = tr_self(ctx)) == TR_OK;
        if (self->is_device) return TR_OK;  // from now on it is asked
        wrong = tr_error_reason(ctx);
    } else if (words == 2 && strcmp(verb, "all") == 0) {
        tr_ref group_ref =
            tr_lookup(ctx, tr_textf(ctx, "/user/manager/%s", name));
        wrong = tr_ask(ctx, group_ref, &all, 0, All) == TR_OK
                    ? NULL
                    : tr_error_reason(ctx);
    }
    const char *head = wrong == NULL ? all.text : "error: ";
    const char *tail = wrong == NULL ? "end" : wrong;
    return tr_write(ctx, self->stream, 0, {head, strlen(head)},
                    {tail, strlen(tail)}, {"\n", 1});
}

static tr_err session_run(tr_ctx *ctx, Session *self)
{
    char line[LINE_SIZE];
    size_t got;
    for (;;) {
        tr_err err =
            tr_read_until(ctx, self->stream, '\n', line, LINE_SIZE, 0, &got);
        if (err == TR_ELIMIT) return TR_OK;  // not one of ours
        TR_TRY(err);
        if (got == 0) return TR_OK;
        line[got - 1] = '\0';
        TR_TRY(self->is_device ? device_says(ctx, self, line)
                               : obey(ctx, self, line));
        tr_scratch_reset(ctx);
    }
}

TR_ACTOR(session, Session, TR_HOOK(on_run, session_run),
         TR_ON(Read, device_read));

/* ---- the program ---- */

tr_err iot_node(tr_system *sys, uint32_t index, void *user)
{
    Iot *iot = user;
    (void)index;
    tr_ref all = tr_spawn(sys, manager, .name = "manager");
    return tr_ref_err(tr_serve(
        sys, iot->address, session, .name = "iot", .bound = iot->bound,
        .read_timeout = TR_MINUTES(60), TR_INIT(session, .manager = all)));
}

int main(int argc, char **argv)
{
    Iot iot = {.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:7300"};
    tr_system *sys;
    if (strncmp(iot.address, "--", 2) == 0) return iot_simulate(argc, argv);
    TR_MUST(tr_system_open(&sys));
    TR_MUST(iot_node(sys, 0, &iot));
    printf("iot at %s\n", iot.bound);
    fflush(stdout);
    tr_err err = tr_system_run(sys);  // until SIGTERM or SIGINT
    return tr_system_close(sys, 0) != TR_OK || err != TR_OK;
}
