/*
 * hello_sim.c - the smallest actors in a bare world (tr_sim_new), replayed.
 *
 * A greeter that sleeps for an hour before it answers, a heart that beats
 * every minute, and several askers at once: every replay of a seed must give
 * the same trace. Covers TE5.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

enum { ASKERS = 5, REPLAYS = 100, SEEDS = 20 };

#define HOUR TR_MINUTES(60)

TR_MESSAGE(Greeting, (const char *, text), (uint64_t, luck));
TR_REQUEST(Greet, Greeting, (const char *, name));
TR_MESSAGE(Beat);
TR_MESSAGE(Count, (uint32_t, beats));
TR_REQUEST(GetCount, Count);

static tr_err on_greet(tr_ctx *ctx, void *self, const Greet *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, HOUR));
    return tr_reply(ctx, m, .text = tr_textf(ctx, "Hello, %s!", m->name),
                    .luck = (uint64_t)tr_now(ctx));
}

TR_ACTOR(greeter, void, TR_ON(Greet, on_greet));

typedef struct Heart {
    uint32_t beats;
} Heart;

static tr_err heart_start(tr_ctx *ctx, Heart *self)
{
    (void)self;
    (void)tr_every(ctx, TR_MINUTES(1), Beat);
    return TR_OK;
}

static tr_err on_beat(tr_ctx *ctx, Heart *self, const Beat *m)
{
    (void)ctx;
    (void)m;
    self->beats++;
    return TR_OK;
}

static tr_err on_get_count(tr_ctx *ctx, Heart *self, const GetCount *m)
{
    return tr_reply(ctx, m, .beats = self->beats);
}

TR_ACTOR(heart, Heart, TR_HOOK(pre_start, heart_start), TR_ON(Beat, on_beat),
         TR_ON(GetCount, on_get_count));

typedef struct asker {
    tr_system *sys;
    tr_ref greeter;
    uint64_t luck;
} asker;

static void ask(void *arg)
{
    asker *it = arg;
    Greeting hello;

    TR_MUST(tr_ask(it->sys, it->greeter, &hello, TR_SECONDS(86400), Greet,
                   .name = "world"));
    if (strcmp(hello.text, "Hello, world!") != 0) {
        tr_abort(TR_HERE, hello.text);
    }
    it->luck = hello.luck;
    tr_drop(Greeting, &hello);
}

typedef struct outcome {
    uint64_t hash, steps, luck;
    tr_nanos end;
} outcome;

static outcome run(uint64_t seed)
{
    tr_sim *sim;
    tr_system *sys;
    asker askers[ASKERS];
    tr_thread *threads[ASKERS];
    outcome result = {0};

    TR_MUST(tr_sim_new(&sim, seed));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    tr_ref beating = tr_spawn(sys, heart, TR_INIT(heart));
    tr_ref ref = tr_spawn(sys, greeter);
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (asker){.sys = sys, .greeter = ref};
        TR_MUST(tr_thread_start(sys, &threads[i], ask, &askers[i]));
    }
    for (int i = 0; i < ASKERS; i++) {
        tr_thread_join(sys, threads[i]);
        result.luck = result.luck * 31 + askers[i].luck;
    }
    // The greeter took an hour for each; nothing else took any time.
    if (tr_sim_now(sim) != TR_SECONDS(1) + ASKERS * HOUR) {
        tr_abort(TR_HERE, "the hours are wrong");
    }
    tr_sim_advance(sim, HOUR);
    Count count;
    TR_MUST(tr_ask(sys, beating, &count, 0, GetCount));
    if (count.beats != (ASKERS + 1) * 60) {
        tr_abort(TR_HERE, "the heart missed a beat");
    }
    TR_MUST(tr_system_close(sys, 0));
    result.hash = tr_sim_trace_hash(sim);
    result.steps = tr_sim_steps(sim);
    result.end = tr_sim_now(sim);
    tr_sim_free(sim);
    return result;
}

static int test_replays(uint64_t seed, int replays)
{
    outcome first = run(seed);

    for (int i = 1; i < replays; i++) {
        outcome again = run(seed);
        if (memcmp(&first, &again, sizeof(first)) != 0) {
            fprintf(stderr,
                    "seed %" PRIu64 ": replay %d differs: %" PRIx64
                    " and %" PRIx64 "\n",
                    seed, i, first.hash, again.hash);
            return 1;
        }
    }
    return 0;
}

/* The sums over all seeds, in the words of tr_sim_main. */
static void print_sums(const outcome *sum)
{
    fprintf(stderr,
            "in all %" PRId64 ".000 simulated s, %" PRIu64
            " steps, trace %016" PRIx64 "\n",
            sum->end / TR_SECONDS(1), sum->steps, sum->hash);
}

/* --seed N: the first seed; --seeds N: how many, and sums at the end. */
int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = SEEDS;
    uint64_t hash = 0;
    bool with_sums = false;
    outcome sum = {0};

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) {
            first = value;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            seeds = value;
            with_sums = true;
        }
    }
    int failed = first == 1 ? test_replays(1, REPLAYS) : 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        failed += test_replays(seed, 2);
        outcome other = run(seed);
        if (other.hash == hash) {
            fprintf(stderr, "seeds %" PRIu64 " and before are alike\n", seed);
            failed++;
        }
        hash = other.hash;
        sum.hash += other.hash;
        sum.steps += other.steps;
        sum.end += other.end - TR_SECONDS(1);
    }
    if (with_sums) {
        print_sums(&sum);
    }
    printf("hello: %" PRIu64 " seeds, %d failed, last hash %016" PRIx64 "\n",
           seeds, failed, hash);
    return failed != 0;
}
