/*
 * full duplex - both sides of a connection write whenever they like.
 *
 * Notice: on_run reads, handlers write. While on_run waits for the next line,
 * messages are handled. Whoever wants to write sends the connection's actor a
 * message, also on_run itself: then there is one writer, and no line is written
 * into the middle of another one. This holds for the side that accepts and for
 * the side that connects; the latter also connects again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

enum { LINE_SIZE = 256, SEEDS = 20, PINGS = 20 };

#define ADDRESS "tcp://node-0:7000"

TR_MESSAGE(Line, (const char *, text));  // to be written; or was read
TR_MESSAGE(Tick);

// [snippet: write]
/* The only place that writes. */
static tr_err write_line(tr_ctx *ctx, tr_stream *stream, const char *text)
{
    return tr_write(ctx, stream, 0, {text, strlen(text)}, {"\n", 1});
}
// [end]

/* ---- the side that accepts: answers pings, and ticks every second ---- */

// [snippet: server]
typedef struct Server {
    tr_stream *stream;  // set by tr_serve
    uint32_t ticks;
} Server;

static tr_err server_run(tr_ctx *ctx, Server *self)
{
    char line[LINE_SIZE];
    size_t got;
    (void)tr_every(ctx, TR_SECONDS(1), Tick);
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0,
                             &got));
        if (got == 0) return TR_OK;  // what waits is written before the end
        line[got - 1] = '\0';
        tr_tell(ctx, tr_self(ctx), Line,
                .text = tr_textf(ctx, "pong %s", line));
        tr_scratch_reset(ctx);  // this loop may go on for days
    }
}

static tr_err server_line(tr_ctx *ctx, Server *self, const Line *m)
{
    return write_line(ctx, self->stream, m->text);
}

static tr_err server_tick(tr_ctx *ctx, Server *self, const Tick *m)
{
    (void)m;
    return write_line(ctx, self->stream,
                      tr_textf(ctx, "tick %" PRIu32, ++self->ticks));
}

TR_ACTOR(server, Server, TR_HOOK(on_run, server_run), TR_ON(Line, server_line),
         TR_ON(Tick, server_tick));
// [end]

/* ---- the side that connects ---- */

// [snippet: client]
typedef struct Client {
    tr_ref owner;       // gets each line that was read
    tr_stream *stream;  // NULL: not connected
} Client;

static tr_err client_talk(tr_ctx *ctx, Client *self)
{
    char line[LINE_SIZE];
    size_t got;
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line),
                             TR_SECONDS(10), &got));
        if (got == 0) return TR_ERESET;
        line[got - 1] = '\0';
        tr_tell(ctx, self->owner, Line, .text = line);
    }
}

/* Connects, and again when the connection breaks or is silent. */
static tr_err client_run(tr_ctx *ctx, Client *self)
{
    while (!tr_stopping(ctx)) {
        tr_stream *stream;
        if (tr_connect(ctx, &stream, ADDRESS, TR_SECONDS(10)) == TR_OK) {
            self->stream = stream;
            (void)client_talk(ctx, self);
            self->stream = NULL;
            tr_stream_close(ctx, stream);  // ends a write that waits
        }
        TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    }
    return TR_OK;
}

/* A line that cannot be sent is lost: the owner hears no answer. */
static tr_err client_line(tr_ctx *ctx, Client *self, const Line *m)
{
    if (self->stream != NULL) (void)write_line(ctx, self->stream, m->text);
    return TR_OK;
}

TR_ACTOR(client, Client, TR_HOOK(on_run, client_run), TR_ON(Line, client_line));
// [end]

/* ---- its test: pings until each was answered, and counts ticks ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index, (void)user;
    return tr_ref_err(tr_serve(sys, ADDRESS, server, .name = "server"));
}

/* Waits for the answer to a ping. False: it did not come in time. */
static bool answered(tr_sim *sim, tr_probe *probe, unsigned ping, int *ticks)
{
    tr_nanos end = tr_sim_now(sim) + TR_SECONDS(3);
    while (tr_sim_now(sim) < end) {
        unsigned number;
        const char *text = tr_expect(probe, TR_MINUTES(5), Line)->text;
        if (sscanf(text, "tick %u", &number) == 1)
            ++*ticks;
        else if (sscanf(text, "pong ping %u", &number) != 1)
            (void)tr_sim_fail(sim, "a broken line: %s", text);
        else if (number == ping)
            return true;
    }
    return false;
}

static tr_err workload(tr_sim *sim, void *user)
{
    tr_system *us;
    tr_probe *probe;
    int ticks = 0;
    (void)user;
    TR_TRY(tr_system_open(&us, .world = tr_sim_world(sim),
                          .log_level = TR_LOG_WARN));
    TR_TRY(tr_probe_new(&probe, us));
    tr_ref ref =
        tr_spawn(us, client, TR_INIT(client, .owner = tr_probe_ref(probe)));
    for (unsigned ping = 1; ping <= PINGS; ping++) {
        do {
            char text[32];
            snprintf(text, sizeof(text), "ping %u", ping);
            tr_tell(us, ref, Line, .text = text);
        } while (!answered(sim, probe, ping, &ticks));
    }
    return ticks > 0 ? TR_OK : tr_sim_fail(sim, "no tick in between");
}

int main(void)
{
    uint64_t seed = 0;
    while (seed < SEEDS &&
           tr_sim_run(TR_OPTIONS(
               tr_sim_options, .seed = seed, .node = node, .workload = workload,
               .quiet_time = TR_SECONDS(1),
               .faults = TR_OPTIONS(tr_faults, .short_io = 0.3, .refuse = 0.1,
                                    .reset = 0.02, .delay = 0.1,
                                    .node_kill = 0.001))) == TR_OK) {
        seed++;
    }
    printf("%d seeds: every ping is answered, every line is whole\n",
           (int)seed);
    return seed < SEEDS;
}
