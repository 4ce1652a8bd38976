/*
 * job queue - deliveries that outlive failures, restarts and power cuts.
 *
 *   31_job_queue tcp://127.0.0.1:7100 jobs.db     and then: nc 127.0.0.1 7100
 *   31_job_queue --seeds 100                      simulated
 *
 *   put ID ADDRESS TEXT   accepts a job: send "ID TEXT" to ADDRESS, which must
 *                         answer "ok"; the same put again is the same job
 *   get ID                tells how far it is
 *   list                  tells that of all jobs
 *   drop ID               deletes it
 *
 * Notice: a job is a virtual actor, its state and its next attempt (a reminder)
 * are stored, and a put is answered when both are on the disk. So a job that
 * was accepted is delivered at least once, or given up after ATTEMPTS, even if
 * the process is killed at any moment. An attempt that fails is repeated later,
 * each time after twice as long. Couriers limit how many run at once.
 */
#include "queue.h"

#include <stdio.h>
#include <string.h>

enum {
    ATTEMPTS = 6,    // then a job is given up
    COURIERS = 8,    // deliveries at once
    ACTIVE = 10000,  // jobs in memory
    LINE_SIZE = 1024,
};

#define FIRST_PAUSE   TR_MS(100)      // after the first failed attempt
#define DELIVERY_TIME TR_SECONDS(5)   // to connect, to write, to be answered
#define COURIER_TIME  TR_SECONDS(60)  // the same, and to wait for a courier

/* ---- couriers: one delivery at a time each ---- */

TR_REQUEST(Deliver, tr_none, (const char *, id), (const char *, address),
           (const char *, text));

static tr_err hand_over(tr_ctx *ctx, tr_stream *to, const Deliver *m)
{
    char answer[64];
    size_t got;
    TR_TRY(tr_write(ctx, to, DELIVERY_TIME, {m->id, strlen(m->id)}, {" ", 1},
                    {m->text, strlen(m->text)}, {"\n", 1}));
    TR_TRY(tr_read_until(ctx, to, '\n', answer, sizeof(answer), DELIVERY_TIME,
                         &got));
    return got == 3 && memcmp(answer, "ok\n", 3) == 0 ? TR_OK : TR_EUSER;
}

static tr_err on_deliver(tr_ctx *ctx, void *self, const Deliver *m)
{
    tr_stream *to;
    (void)self;
    if (tr_connect(ctx, &to, m->address, DELIVERY_TIME) != TR_OK)
        return tr_refuse(ctx, m, TR_EUSER, "%s", tr_error_reason(ctx));
    tr_err err = hand_over(ctx, to, m);
    tr_stream_close(ctx, to);
    if (err == TR_EUSER) return tr_refuse(ctx, m, err, "not accepted");
    if (err != TR_OK)
        return tr_refuse(ctx, m, TR_EUSER, "%s", tr_strerror(err));
    return tr_reply(ctx, m);
}

TR_ACTOR(courier, void, TR_ON(Deliver, on_deliver));

/* ---- a job ---- */

enum { UNKNOWN, WAITING, DONE, GIVEN_UP };
static const char *const states[] = {"unknown", "waiting", "done", "given up"};

TR_STATE(Job, (uint32_t, state), (uint32_t, attempts), (const char *, address),
         (const char *, text), (const char *, error));
TR_MESSAGE(Status, (uint32_t, state), (uint32_t, attempts),
           (const char *, error));
TR_REQUEST(Put, Status, (const char *, address), (const char *, text));
TR_REQUEST(Get, Status);
TR_REQUEST(Drop, Status);
TR_MESSAGE(Attempt);

// [snippet: put]
static tr_err job_put(tr_ctx *ctx, Job *self, const Put *m)
{
    if (self->state == UNKNOWN) {
        // The reminder first: without a job it does nothing. A job without a
        // reminder would wait for ever, if the process is killed in between.
        TR_OR_REFUSE(ctx, m, tr_remind(ctx, "attempt", 0, 0, Attempt));
        Job next = {.state = WAITING, .address = m->address, .text = m->text};
        TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    } else if (strcmp(self->text, m->text) != 0 ||
               strcmp(self->address, m->address) != 0) {
        return tr_refuse(ctx, m, TR_EEXIST, "another job has this id");
    }
    return tr_reply(ctx, m, .state = self->state, .attempts = self->attempts);
}
// [end]

// [snippet: attempt]
/* Runs when the reminder is due, also after a restart of the process. */
static tr_err job_attempt(tr_ctx *ctx, Job *self, const Attempt *m)
{
    (void)m;
    if (self->state != WAITING) return TR_OK;
    tr_err err = tr_ask(ctx, tr_lookup(ctx, "/user/couriers"), NULL,
                        COURIER_TIME, Deliver, .id = tr_key(ctx),
                        .address = self->address, .text = self->text);
    Job next = *self;
    next.attempts++;
    next.error =
        err == TR_OK ? NULL : tr_textf(ctx, "%s", tr_error_reason(ctx));
    next.state = err == TR_OK               ? DONE
                 : next.attempts < ATTEMPTS ? WAITING
                                            : GIVEN_UP;
    if (next.state == WAITING) {  // each pause is twice the one before
        TR_TRY(tr_remind(ctx, "attempt", FIRST_PAUSE << self->attempts, 0,
                         Attempt));
    }
    return tr_persist(ctx, self, &next);
}
// [end]

/* Answers also while an attempt waits. */
static tr_err job_get(tr_ctx *ctx, const Job *self, const Get *m)
{
    return tr_reply(ctx, m, .state = self->state, .attempts = self->attempts,
                    .error = self->error);
}

static tr_err job_drop(tr_ctx *ctx, Job *self, const Drop *m)
{
    TR_OR_REFUSE(ctx, m, tr_delete_state(ctx, self));
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, "attempt"));
    return tr_reply(ctx, m, .state = self->state);
}

TR_ACTOR(job, Job, TR_ON(Put, job_put), TR_ON_REMINDER(Attempt, job_attempt),
         TR_ON_INTERLEAVE(Get, job_get), TR_ON(Drop, job_drop));

/* ---- a connection ---- */

typedef struct Session {
    tr_stream *stream;  // set by tr_serve
    tr_storage *store;
} Session;

static tr_err say(tr_ctx *ctx, Session *self, const char *text)
{
    return tr_write(ctx, self->stream, 0, {text, strlen(text)}, {"\n", 1});
}

static tr_err say_status(tr_ctx *ctx, Session *self, const char *id, tr_err err,
                         const Status *s)
{
    return say(ctx, self,
               err != TR_OK
                   ? tr_textf(ctx, "error %s: %s", id, tr_error_reason(ctx))
                   : tr_textf(ctx, "%s %s, %u attempts%s%s", id,
                              states[s->state], s->attempts,
                              s->error != NULL ? ": " : "",
                              s->error != NULL ? s->error : ""));
}

static tr_err list(tr_ctx *ctx, Session *self)
{
    tr_scan scan = {.kind = "job"};
    tr_err err;
    while ((err = tr_scan_next(ctx, self->store, &scan)) == TR_OK) {
        Status status;
        err = tr_ask_virtual(ctx, "job", scan.key, &status, 0, Get);
        TR_TRY(say_status(ctx, self, scan.key, err, &status));
        tr_scratch_reset(ctx);
    }
    return say(ctx, self, err == TR_ENOENT ? "end" : tr_error_reason(ctx));
}

/* Carries a command out; TR_EINVAL if it is none. */
static tr_err obey(tr_ctx *ctx, Session *self, char *line)
{
    char *rest, *verb = strtok_r(line, " ", &rest);
    char *id = strtok_r(NULL, " ", &rest), *to = strtok_r(NULL, " ", &rest);
    Status status;
    tr_err err;
    if (verb != NULL && strcmp(verb, "list") == 0) return list(ctx, self);
    if (id == NULL) return TR_EINVAL;
    if (strcmp(verb, "put") == 0 && to != NULL)
        err = tr_ask_virtual(ctx, "job", id, &status, 0, Put, .address = to,
                             .text = rest);
    else if (strcmp(verb, "get") == 0)
        err = tr_ask_virtual(ctx, "job", id, &status, 0, Get);
    else if (strcmp(verb, "drop") == 0)
        err = tr_ask_virtual(ctx, "job", id, &status, 0, Drop);
    else
        return TR_EINVAL;
    return say_status(ctx, self, id, err, &status);
}

static tr_err session_run(tr_ctx *ctx, Session *self)
{
    char line[LINE_SIZE];
    size_t got;
    for (;;) {
        tr_err err =
            tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0, &got);
        if (err == TR_ELIMIT) return say(ctx, self, "error: a long line");
        TR_TRY(err);
        if (got == 0) return TR_OK;
        line[got - 1] = '\0';
        err = strlen(line) < got - 1 ? TR_EINVAL : obey(ctx, self, line);
        if (err == TR_EINVAL)
            err = say(ctx, self, "error: put ID ADDRESS TEXT, get, list, drop");
        TR_TRY(err);
        tr_scratch_reset(ctx);
    }
}

TR_ACTOR(session, Session, TR_HOOK(on_run, session_run));

/* ---- the program ---- */

tr_err queue_node(tr_system *sys, uint32_t index, void *user)
{
    Queue *queue = user;
    tr_storage *store;
    (void)index;
    TR_TRY(tr_storage_sqlite_with(
        &store, queue->file, TR_OPTIONS(tr_storage_options, .system = sys)));
    TR_TRY(
        tr_ref_err(tr_router(sys, courier, .name = "couriers",
                             .count = COURIERS, .routing = TR_LEAST_LOADED)));
    TR_TRY(tr_host(sys, job, .storage = store, .max_active = ACTIVE));
    return tr_ref_err(tr_serve(
        sys, queue->address, session, .name = "queue", .bound = queue->bound,
        .read_timeout = TR_MINUTES(10), TR_INIT(session, .store = store)));
}

int main(int argc, char **argv)
{
    Queue queue = {.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:7100",
                   .file = argc > 2 ? argv[2] : "jobs.db"};
    tr_system *sys;
    if (strncmp(queue.address, "--", 2) == 0) return queue_simulate(argc, argv);
    TR_MUST(tr_system_open(&sys));
    TR_MUST(queue_node(sys, 0, &queue));
    printf("queue at %s\n", queue.bound);
    fflush(stdout);
    tr_err err = tr_system_run(sys);  // until SIGTERM or SIGINT
    return tr_system_close(sys, 0) != TR_OK || err != TR_OK;
}
