/*
 * fan-out - one slow subscriber does not stall the others.
 *
 * Notice: a publisher never waits. Each subscriber says how much may wait in
 * its mailbox and what happens beyond: it misses messages, or it is stopped.
 * The library counts what was missed, and the log says who was too slow. Here
 * the slow reader waits for an answer, so that its mailbox is sure to fill up.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(News, (uint32_t, n));
TR_REQUEST(Pass, tr_none);
TR_MESSAGE(Seen, (const char *, numbers));
TR_REQUEST(WhatHaveYouSeen, Seen);

enum { SENT = 5 };

typedef struct Reader {
    tr_ref gate;  // whom the first news makes it wait for, or nobody
    char seen[64];
} Reader;

// [snippet: join]
static tr_err reader_start(tr_ctx *ctx, Reader *self)
{
    (void)self;
    return tr_topic_join_with(ctx, "news", .limit = 3,
                              .overflow = TR_OVERFLOW_DROP_NEW);
}
// [end]

static tr_err reader_news(tr_ctx *ctx, Reader *self, const News *m)
{
    char *at = self->seen;
    while (*at != '\0') {
        at++;
    }
    snprintf(at, (size_t)(self->seen + sizeof(self->seen) - at), " %u", m->n);
    return tr_ref_is_nobody(self->gate)
               ? TR_OK
               : tr_ask(ctx, self->gate, NULL, TR_SECONDS(30), Pass);
}

static tr_err reader_seen(tr_ctx *ctx, Reader *self, const WhatHaveYouSeen *m)
{
    return tr_reply(ctx, m, .numbers = self->seen);
}

TR_ACTOR(reader, Reader, TR_HOOK(pre_start, reader_start),
         TR_ON(News, reader_news), TR_ON(WhatHaveYouSeen, reader_seen));

/* Asks a reader what it has seen; it answers after the news in its mailbox. */
static void show(tr_system *sys, const char *name, tr_ref ref)
{
    Seen seen;
    TR_MUST(tr_ask(sys, ref, &seen, TR_SECONDS(30), WhatHaveYouSeen));
    printf("%s has seen%s\n", name, seen.numbers);
    tr_drop(Seen, &seen);
}

int main(void)
{
    tr_system *sys;
    tr_probe *gate;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&gate, sys));
    tr_ref fast = tr_spawn(sys, reader);
    tr_ref slow =
        tr_spawn(sys, reader, TR_INIT(reader, .gate = tr_probe_ref(gate)));
    TR_MUST(tr_started(sys, fast, 0));
    TR_MUST(tr_started(sys, slow, 0));
    tr_topic_publish(sys, "news", News, .n = 0);
    tr_expect(gate, TR_SECONDS(30), Pass);  // the slow reader waits now
    // [snippet: publish]
    for (uint32_t n = 1; n <= SENT; n++) {
        tr_topic_publish(sys, "news", News, .n = n);
        show(sys, "the fast reader", fast);
    }
    // [end]
    tr_metrics_snapshot metrics = {.size = sizeof(metrics)};
    tr_metrics(sys, &metrics);
    printf("the slow reader misses %d\n", (int)metrics.events_lost);
    tr_probe_free(gate);  // whoever waits for it gets an error
    return tr_system_close(sys, 0) != TR_OK;
}
