/*
 * periodic work - every minute, also when the work is late or fails.
 *
 * Notice: tr_every sends the actor a message, so the work is a handler like any
 * other: it may wait, and it may fail. Ticks do not pile up: while one round
 * takes longer than the period, at most one tick waits. A restart ends the
 * timers of the actor; pre_start arms them again. A random first delay keeps a
 * thousand such actors from working in the same second. The test runs on
 * virtual time.
 */
#include <stdio.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

#define PERIOD TR_SECONDS(60)

TR_REQUEST(CleanUp, tr_none);  // the work itself, by another actor

// [snippet: periodic]
TR_MESSAGE(Begin);
TR_MESSAGE(Round);

typedef struct Cleaner {
    tr_ref store;
} Cleaner;

/* Runs at each start and restart. */
static tr_err cleaner_start(tr_ctx *ctx, Cleaner *self)
{
    (void)self;
    (void)tr_after(ctx, (tr_nanos)tr_random(ctx, PERIOD), Begin);
    return TR_OK;
}

static tr_err cleaner_begin(tr_ctx *ctx, Cleaner *self, const Begin *m)
{
    (void)self, (void)m;
    (void)tr_every(ctx, PERIOD, Round);
    tr_tell(ctx, tr_self(ctx), Round);  // the first round now
    return TR_OK;
}

/* Waits for the end of the work; only this actor waits. */
static tr_err cleaner_round(tr_ctx *ctx, Cleaner *self, const Round *m)
{
    (void)m;
    return tr_ask(ctx, self->store, NULL, TR_MINUTES(10), CleanUp);
}

TR_ACTOR(cleaner, Cleaner, TR_HOOK(pre_start, cleaner_start),
         TR_ON(Begin, cleaner_begin), TR_ON(Round, cleaner_round));
// [end]

// [snippet: test]
typedef struct Test {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *store;
    tr_nanos began;  // the last round
} Test;

/*
 * Waits for the next round, lets it take so long, and returns how many seconds
 * it began after the one before. Below 0: it fails.
 */
static int round_after(Test *it, int seconds)
{
    const CleanUp *m = tr_expect(it->store, TR_MINUTES(5), CleanUp);
    tr_nanos after = tr_sim_now(it->sim) - it->began;
    it->began += after;
    if (seconds >= 0) {
        tr_sim_advance(it->sim, TR_SECONDS(seconds));
        TR_MUST(tr_probe_reply(it->store, m));
    }  // else it stays unanswered: TR_ENOREPLY
    return (int)((after + TR_MS(500)) / TR_SECONDS(1));
}

static void check(bool good, const char *what)
{
    if (!good) tr_abort(TR_HERE, what);
}

static void test_every_minute(Test *it)
{
    check(round_after(it, 5) <= 61, "the first delay");
    check(round_after(it, 59) == 60, "a short round, then a long one");
    check(round_after(it, 200) == 60, "one that takes too long");
    check(round_after(it, 5) == 200, "then one at once");
    int next = round_after(it, -1);  // not two at once for the ticks it missed
    check(next > 5 && next <= 60, "and in time again");
    check(round_after(it, 5) <= 61, "the first delay after a failure");
    check(round_after(it, 5) == 60, "and in time again");
}
// [end]

int main(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        Test it = {0};
        TR_MUST(tr_sim_new(&it.sim, seed));
        TR_MUST(tr_system_open(&it.sys, .world = tr_sim_world(it.sim),
                               .log_level = TR_LOG_ERROR));
        TR_MUST(tr_probe_new(&it.store, it.sys));
        it.began = tr_sim_now(it.sim);
        (void)tr_spawn(it.sys, cleaner,
                       TR_INIT(cleaner, .store = tr_probe_ref(it.store)));
        test_every_minute(&it);
        tr_probe_free(it.store);
        TR_MUST(tr_system_close(it.sys, 0));
        tr_sim_free(it.sim);
    }
    printf("%d seeds: every minute, one at a time, also after a failure\n",
           SEEDS);
    return 0;
}
