/*
 * simulation.c - the job queue in a simulated world that kills it.
 *
 * Clients put jobs, again and again until they are accepted. A receiver takes
 * deliveries; now and then it refuses one, answers nothing or breaks off. The
 * disk fails, connections break, the process is killed. At the end every job
 * that was accepted is done and was delivered, or was given up; none is lost.
 */
#include "queue.h"

#include <stdio.h>
#include <string.h>

enum { CLIENTS = 3, JOBS = 12 };

#define ADDRESS  "tcp://node-0:7100"
#define RECEIVER "tcp://127.0.0.1:7200"
#define PATIENCE TR_SECONDS(40)

typedef struct Post {
    Queue queue;
    tr_sim *sim;
    tr_system *clients;
    bool accepted[CLIENTS][JOBS], delivered[CLIENTS][JOBS];
    uint32_t done;  // clients
} Post;

/* ---- the receiver ---- */

typedef struct Receiver {
    tr_stream *stream;
    Post *post;
} Receiver;

static tr_err receive(tr_ctx *ctx, Receiver *self)
{
    char line[128] = "";
    size_t got;
    unsigned client, job;
    TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line) - 1,
                         PATIENCE, &got));
    if (got == 0) return TR_OK;
    if (sscanf(line, "c%u-j%u from", &client, &job) != 2 || client >= CLIENTS ||
        job >= JOBS)
        return tr_sim_fail(self->post->sim, "delivered: %s", line);
    switch (tr_random(ctx, 8)) {
    case 0:
        return TR_OK;  // breaks off
    case 1:
        return tr_write(ctx, self->stream, 0, {"no\n", 3});
    case 2:
        return tr_sleep(ctx, TR_SECONDS(20));  // longer than anybody waits
    default:
        self->post->delivered[client][job] = true;
        return tr_write(ctx, self->stream, 0, {"ok\n", 3});
    }
}

TR_ACTOR(receiver, Receiver, TR_HOOK(on_run, receive));

/* ---- clients ---- */

/* Says a line on a connection of its own and reads the answer. */
static tr_err talk(tr_from from, const char *line, char *answer, size_t size)
{
    tr_stream *stream;
    size_t got = 0;
    TR_TRY(tr_connect(from, &stream, ADDRESS, PATIENCE));
    tr_err err = tr_write(from, stream, PATIENCE, {line, strlen(line)});
    if (err == TR_OK)
        err =
            tr_read_until(from, stream, '\n', answer, size - 1, PATIENCE, &got);
    answer[got] = '\0';
    tr_stream_close(from, stream);
    return err == TR_OK && got == 0 ? TR_ERESET : err;
}

typedef struct Client {
    Post *post;
    uint32_t index;
} Client;

static tr_err put(tr_ctx *ctx, Client *self, uint32_t job, bool *accepted)
{
    char answer[256], id[16];
    snprintf(id, sizeof(id), "c%u-j%u", self->index, job);
    tr_err err = talk(
        ctx, tr_textf(ctx, "put %s " RECEIVER " from %u\n", id, self->index),
        answer, sizeof(answer));
    tr_scratch_reset(ctx);
    if (err == TR_OK && strncmp(answer, id, strlen(id)) == 0) *accepted = true;
    return err == TR_ERESET || err == TR_ETIMEDOUT || err == TR_EUNREACHABLE
               ? TR_OK
               : err;
}

static tr_err client_run(tr_ctx *ctx, Client *self)
{
    for (uint32_t job = 0; job < JOBS; job++) {
        while (!self->post->accepted[self->index][job]) {
            TR_TRY(
                put(ctx, self, job, &self->post->accepted[self->index][job]));
            TR_TRY(tr_sleep(ctx, TR_MS(tr_random(ctx, 1000))));
        }
    }
    self->post->done++;
    return TR_OK;
}

TR_ACTOR(client, Client, TR_HOOK(on_run, client_run));

/* ---- the run ---- */

static void begin(tr_sim *sim, void *user)
{
    *(Post *)user =
        (Post){.sim = sim, .queue = {.address = ADDRESS, .file = "jobs.db"}};
}

static tr_err workload(tr_sim *sim, void *user)
{
    Post *post = user;
    TR_TRY(tr_system_open(&post->clients, .world = tr_sim_world(sim)));
    TR_TRY(tr_ref_err(tr_serve(post->clients, RECEIVER, receiver,
                               TR_INIT(receiver, .post = post))));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        (void)tr_spawn(post->clients, client,
                       TR_INIT(client, .post = post, .index = i));
    }
    while (post->done < CLIENTS) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return TR_OK;
}

static tr_err check_job(Post *post, uint32_t who, uint32_t job)
{
    char line[32], answer[256];
    snprintf(line, sizeof(line), "get c%u-j%u\n", who, job);
    TR_TRY(talk((tr_from){.sys = post->clients}, line, answer, sizeof(answer)));
    bool is_done = strstr(answer, " done, ") != NULL;
    if (!is_done && strstr(answer, " given up, ") == NULL)
        return tr_sim_fail(post->sim, "a job is lost: %s", answer);
    if (is_done && !post->delivered[who][job])
        return tr_sim_fail(post->sim, "was not delivered: %s", answer);
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    (void)sim;
    for (uint32_t i = 0; i < CLIENTS * JOBS; i++) {
        TR_TRY(check_job(user, i / JOBS, i % JOBS));
    }
    return TR_OK;
}

int queue_simulate(int argc, char **argv)
{
    static Post post;
    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .node = queue_node, .begin = begin,
                   .workload = workload, .at_end = at_end, .user = &post,
                   .quiet_time = TR_MINUTES(30), .limit = TR_MINUTES(240),
                   .check_every = 16,
                   .faults =
                       TR_OPTIONS(tr_faults, .refuse = 0.05, .reset = 0.01,
                                  .short_io = 0.1, .node_kill = 0.0005,
                                  .node_pause = 0.0001, .disk_error = 0.001,
                                  .disk_full = 0.001, .torn_write = 0.001,
                                  .unknown_outcome = 0.01)));
}
