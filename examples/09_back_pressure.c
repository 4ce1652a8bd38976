/*
 * back-pressure - what happens when messages come faster than they are handled.
 *
 * Notice: by default a mailbox has no hard limit, but a handler that sends to a
 * mailbox above its soft limit is parked until the receiver has caught up. A
 * hard limit is the program's choice, and so is what happens when it is
 * reached. Here the consumer waits for a gate, so that its mailbox is sure to
 * fill up.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Job, (uint32_t, n));
TR_REQUEST(Pass, tr_none);
TR_MESSAGE(Open);
TR_MESSAGE(Count, (uint32_t, jobs));
TR_REQUEST(HowMany, Count);

enum { FIRST = 0, JOBS = 10000, SOFT_LIMIT = 100 };

/* ---- a gate: answers when it is opened ---- */

static tr_err on_pass(tr_ctx *ctx, void *self, const Pass *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(gate_open, void, TR_ON(Pass, on_pass));

static tr_err on_wait(tr_ctx *ctx, void *self, const Pass *m)
{
    (void)self;
    return tr_stash(ctx, m);
}

static tr_err on_open(tr_ctx *ctx, void *self, const Open *m)
{
    (void)m;
    tr_become(ctx, self, gate_open);
    tr_unstash_all(ctx);
    return TR_OK;
}

TR_ACTOR(gate, void, TR_ON(Pass, on_wait), TR_ON(Open, on_open));

/* ---- a consumer: its first job waits for the gate ---- */

typedef struct Consumer {
    tr_ref gate, tell;
    uint32_t jobs;
} Consumer;

static tr_err consumer_job(tr_ctx *ctx, Consumer *self, const Job *m)
{
    if (m->n == FIRST) {
        tr_tell(ctx, self->tell, Job, .n = FIRST);
        return tr_ask(ctx, self->gate, NULL, TR_SECONDS(30), Pass);
    }
    self->jobs++;
    tr_tell(ctx, self->tell, Job, .n = m->n);
    return TR_OK;
}

static tr_err consumer_count(tr_ctx *ctx, Consumer *self, const HowMany *m)
{
    return tr_reply(ctx, m, .jobs = self->jobs);
}

TR_ACTOR(consumer, Consumer, TR_ON(Job, consumer_job),
         TR_ON(HowMany, consumer_count));

/* ---- a hard limit, and what happens when it is reached ---- */

static void print_jobs(tr_probe *probe, uint32_t count)
{
    printf("  handled:");
    for (uint32_t i = 0; i < count; i++) {
        printf(" %u", tr_expect(probe, TR_SECONDS(30), Job)->n);
    }
    putchar('\n');
}

static void hard_limit(tr_system *sys, tr_overflow overflow)
{
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref g = tr_spawn(sys, gate);
    // [snippet: limit]
    tr_ref c =
        tr_spawn(sys, consumer, .mailbox_limit = 3, .overflow = overflow,
                 TR_INIT(consumer, .gate = g, .tell = tr_probe_ref(probe)));
    // [end]
    tr_tell(sys, c, Job, .n = FIRST);
    (void)tr_expect(probe, TR_SECONDS(30), Job);  // now it waits

    // [snippet: try]
    for (uint32_t n = 1; n <= 5; n++) {
        tr_err err = tr_try_tell(sys, c, Job, .n = n);
        printf("  job %u: %s\n", n, tr_errname(err));
    }
    // [end]
    tr_tell(sys, g, Open);
    print_jobs(probe, 3);
    tr_probe_free(probe);
}

/* ---- no limit: the sender is slowed down ---- */

typedef struct Producer {
    tr_ref to;
} Producer;

static tr_err producer_run(tr_ctx *ctx, Producer *self)
{
    for (uint32_t n = 1; n <= JOBS; n++) {
        tr_tell(ctx, self->to, Job, .n = n);  // may park until there is room
    }
    return TR_OK;
}

TR_ACTOR(producer, Producer, TR_HOOK(on_run, producer_run));

static tr_err ignore(tr_ctx *ctx, void *self, const Job *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(sink, void, TR_ON(Job, ignore));

static void soft_limit(tr_system *sys)
{
    tr_ref s = tr_spawn(sys, sink);
    tr_ref c = tr_spawn(sys, consumer, .soft_limit = SOFT_LIMIT,
                        TR_INIT(consumer, .tell = s));
    (void)tr_spawn(sys, producer, TR_INIT(producer, .to = c));
    Count count = {0};
    uint32_t deepest = 0;
    while (count.jobs < JOBS) {
        tr_actor_info info = {.size = sizeof(info)};
        TR_MUST(tr_actor_info_of(sys, c, &info));
        deepest = info.depth > deepest ? info.depth : deepest;
        TR_MUST(tr_ask(sys, c, &count, TR_SECONDS(30), HowMany));
    }
    printf("  handled: %u, %s waiting at once\n", count.jobs,
           deepest < JOBS / 10 ? "a few" : "too many");
}

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    puts("TR_OVERFLOW_FAIL: the newest are refused");
    hard_limit(sys, TR_OVERFLOW_FAIL);
    puts("TR_OVERFLOW_DROP_OLD: the oldest make room");
    hard_limit(sys, TR_OVERFLOW_DROP_OLD);
    puts("no limit: the sender is slowed down");
    soft_limit(sys);
    return tr_system_close(sys, 0) != TR_OK;
}
