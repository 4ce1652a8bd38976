/*
 * simulation.c - the chat server in a simulated world, with all sorts of
 * guests.
 *
 * Talkers say numbered lines and wait until they hear them; every line of
 * another talker must follow the one before it. Some guests never read, some
 * send garbage and break off. Connections are refused, slow and broken, and the server is killed. At the end everybody leaves, and a last guest
 * must find the lobby empty.
 */
#include "chat.h"

#include <stdio.h>
#include <string.h>

enum { TALKERS = 4, MUTES = 2, GUESTS = 8, LINES = 20, PAD = 400 };

#define ADDRESS  "tcp://node-0:7000"
#define PATIENCE TR_SECONDS(30)

typedef struct Party {
    Chat chat;
    tr_sim *sim;
    tr_system *clients;
    bool over;
    uint32_t heard[GUESTS];  // own lines, by talker
} Party;

typedef struct Guest {
    Party *party;
    uint32_t index;
    tr_stream *stream;
    int visit;
    int seen_visit[GUESTS], seen_line[GUESTS];  // of others, in this visit
} Guest;

static tr_err say(tr_ctx *ctx, Guest *self, const char *text)
{
    return tr_write(ctx, self->stream, PATIENCE, {text, strlen(text)},
                    {"\n", 1});
}

/* Checks the line of a talker, "t1-2: 7". Returns its number if it is ours. */
static tr_err check(Guest *self, const char *line, int *ours)
{
    unsigned who;
    int visit, number;
    if (sscanf(line, "t%u-%d: %d", &who, &visit, &number) != 3) return TR_OK;
    bool known = self->seen_visit[who] == visit;
    if (known && number != self->seen_line[who] + 1)
        return tr_sim_fail(self->party->sim, "%u hears %s after %d",
                           self->index, line, self->seen_line[who]);
    self->seen_visit[who] = visit;
    self->seen_line[who] = number;
    if (who == self->index && visit == self->visit) *ours = number;
    return TR_OK;
}

/* Reads until the own line of this number comes. */
static tr_err hear(tr_ctx *ctx, Guest *self, int number)
{
    char line[1024];
    size_t got;
    for (int ours = -1; ours < number;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line) - 1,
                             PATIENCE, &got));
        if (got == 0) return TR_ERESET;
        line[got - 1] = '\0';
        TR_TRY(check(self, line, &ours));
    }
    self->party->heard[self->index]++;
    return TR_OK;
}

static tr_err talk(tr_ctx *ctx, Guest *self)
{
    memset(self->seen_visit, 0, sizeof(self->seen_visit));
    TR_TRY(say(ctx, self, tr_textf(ctx, "t%u-%d", self->index, ++self->visit)));
    for (int i = 0; i < LINES && !self->party->over; i++) {
        TR_TRY(say(ctx, self, tr_textf(ctx, "%d%*s", i, PAD, "")));
        TR_TRY(hear(ctx, self, i));
        TR_TRY(tr_sleep(ctx, TR_MS(tr_random(ctx, 300))));
    }
    return TR_OK;
}

static tr_err be_mute(tr_ctx *ctx, Guest *self)
{
    TR_TRY(
        say(ctx, self, tr_textf(ctx, "mute%u-%d", self->index, ++self->visit)));
    return tr_sleep(ctx, TR_MINUTES(1));
}

static tr_err be_rude(tr_ctx *ctx, Guest *self)
{
    char junk[700];
    size_t size = 1 + tr_random(ctx, sizeof(junk));
    for (size_t i = 0; i < size; i++) {
        junk[i] = (char)tr_random(ctx, 256);
    }
    return tr_write(ctx, self->stream, PATIENCE, {junk, size});
}

static tr_err guest_run(tr_ctx *ctx, Guest *self)
{
    while (!self->party->over) {
        tr_err err = tr_connect(ctx, &self->stream, ADDRESS, PATIENCE);
        if (err == TR_OK) {
            err = self->index < TALKERS           ? talk(ctx, self)
                  : self->index < TALKERS + MUTES ? be_mute(ctx, self)
                                                  : be_rude(ctx, self);
            tr_stream_close(ctx, self->stream);  // unread lines: a reset
        }
        if (err != TR_OK && err != TR_ERESET && err != TR_ETIMEDOUT &&
            err != TR_EUNREACHABLE)
            return tr_sim_fail(self->party->sim, "guest %u: %s", self->index,
                               tr_errname(err));
        tr_scratch_reset(ctx);
        TR_TRY(tr_sleep(ctx, TR_MS(200)));
    }
    return TR_OK;
}

TR_ACTOR(guest, Guest, TR_HOOK(on_run, guest_run));

/* ---- the run ---- */

static void begin(tr_sim *sim, void *user)
{
    *(Party *)user = (Party){.sim = sim, .chat.address = ADDRESS};
}

static tr_err workload(tr_sim *sim, void *user)
{
    Party *party = user;
    TR_TRY(tr_system_open(&party->clients, .world = tr_sim_world(sim)));
    for (uint32_t i = 0; i < GUESTS; i++) {
        (void)tr_spawn(party->clients, guest,
                       TR_INIT(guest, .party = party, .index = i));
    }
    tr_sim_advance(sim, TR_SECONDS(60));
    memset(party->heard, 0, sizeof(party->heard));
    return TR_OK;
}

/* After a minute without faults: everybody was served, and has left. */
static tr_err at_end(tr_sim *sim, void *user)
{
    Party *party = user;
    tr_stream *last;
    char text[256] = "";
    size_t got;
    for (uint32_t i = 0; i < TALKERS; i++) {
        if (party->heard[i] == 0)
            return tr_sim_fail(sim, "talker %u was not served", i);
    }
    party->over = true;
    tr_sim_advance(sim, TR_MINUTES(10));
    TR_TRY(tr_connect(party->clients, &last, ADDRESS, PATIENCE));
    TR_TRY(tr_write(party->clients, last, 0, {"last\n/who\n", 10}));
    while (strncmp(text, "* here:", 7) != 0) {
        TR_TRY(tr_read_until(party->clients, last, '\n', text, sizeof(text) - 1,
                             PATIENCE, &got));
        text[got] = '\0';
    }
    tr_stream_close(party->clients, last);
    return strcmp(text, "* here: last\n") == 0
               ? TR_OK
               : tr_sim_fail(sim, "somebody has not left: %s", text);
}

int chat_simulate(int argc, char **argv)
{
    static Party party;
    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .node = chat_node, .begin = begin,
                   .workload = workload, .at_end = at_end, .user = &party,
                   .quiet_time = TR_MINUTES(1), .check_every = 16,
                   .faults = TR_OPTIONS(tr_faults, .refuse = 0.05,
                                        .reset = 0.002, .short_io = 0.2,
                                        .delay = 0.02, .node_kill = 0.00005,
                                        .node_pause = 0.00005)));
}
