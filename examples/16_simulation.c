/*
 * simulation - a race that ordinary tests hardly ever meet, found by seed.
 *
 * Notice: `careless` reads a number, waits, and writes back the number plus
 * one; two of them at once sometimes lose an update. In the simulated world the
 * seed decides which actor runs when, so a few seeds find the race, and a seed
 * that found it finds it every time. tr_sim_main makes a program with a command
 * line from the same options: --seed, --seeds, --trace.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

enum { WORKERS = 2, ROUNDS = 5, SEEDS = 20 };

TR_MESSAGE(Number, (int64_t, value));
TR_REQUEST(Get, Number);
TR_REQUEST(Set, Number, (int64_t, value));
TR_REQUEST(Add, Number, (int64_t, by));
TR_REQUEST(Work, tr_none);

/* ---- the program ---- */

typedef struct Store {
    int64_t value;
} Store;

static tr_err on_get(tr_ctx *ctx, Store *self, const Get *m)
{
    return tr_reply(ctx, m, .value = self->value);
}

static tr_err on_set(tr_ctx *ctx, Store *self, const Set *m)
{
    self->value = m->value;
    return tr_reply(ctx, m, .value = self->value);
}

static tr_err on_add(tr_ctx *ctx, Store *self, const Add *m)
{
    self->value += m->by;
    return tr_reply(ctx, m, .value = self->value);
}

TR_ACTOR(store, Store, TR_ON(Get, on_get), TR_ON(Set, on_set),
         TR_ON(Add, on_add));

typedef struct Worker {
    tr_ref store;
} Worker;

// [snippet: bug]
static tr_err careless_work(tr_ctx *ctx, Worker *self, const Work *m)
{
    for (int i = 0; i < ROUNDS; i++) {
        Number n;
        TR_TRY(tr_ask(ctx, self->store, &n, 0, Get));
        TR_TRY(tr_ask(ctx, self->store, &n, 0, Set, .value = n.value + 1));
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(careless, Worker, TR_ON(Work, careless_work));

static tr_err careful_work(tr_ctx *ctx, Worker *self, const Work *m)
{
    for (int i = 0; i < ROUNDS; i++) {
        TR_TRY(tr_ask(ctx, self->store, NULL, 0, Add, .by = 1));
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(careful, Worker, TR_ON(Work, careful_work));
// [end]

/* Lets two workers of the kind use the store at the same time. */
typedef struct Office {
    tr_ref workers[WORKERS];
} Office;

static tr_err on_office_work(tr_ctx *ctx, Office *self, const Work *m)
{
    tr_future futures[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        futures[i] = tr_async(ctx, self->workers[i], 0, Work);
    }
    for (int i = 0; i < WORKERS; i++) {
        TR_OR_REFUSE(ctx, m, tr_await(ctx, futures[i], Work, NULL));
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(office, Office, TR_ON(Work, on_office_work));

/* ---- its simulation ---- */

// [snippet: simulation]
/* Starts the program; a production main calls the same function. */
static tr_err node(tr_system *sys, uint32_t index, void *careless_too)
{
    (void)index;
    tr_ref workers[WORKERS];
    tr_ref s = tr_spawn(sys, store, .name = "store");
    for (int i = 0; i < WORKERS; i++) {
        workers[i] =
            *(bool *)careless_too
                ? tr_spawn(sys, careless, TR_INIT(careless, .store = s))
                : tr_spawn(sys, careful, TR_INIT(careful, .store = s));
    }
    return tr_ref_err(
        tr_spawn(sys, office, .name = "office",
                 TR_INIT(office, .workers = {workers[0], workers[1]})));
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    return tr_ask(sys, tr_lookup(sys, "office"), NULL, 0, Work);
}

static tr_err nothing_is_lost(tr_sim *sim, void *user)
{
    (void)user;
    tr_system *sys = tr_sim_node(sim, 0);
    Number n;
    TR_TRY(tr_ask(sys, tr_lookup(sys, "store"), &n, 0, Get));
    return n.value == WORKERS * ROUNDS
               ? TR_OK
               : tr_sim_fail(sim, "%" PRId64 " instead of %d", n.value,
                             WORKERS * ROUNDS);
}

static bool holds(uint64_t seed, bool careless_too)
{
    tr_sim_options options = {
        .size = sizeof(options),
        .seed = seed,
        .node = node,
        .workload = workload,
        .at_end = nothing_is_lost,
        .user = &careless_too,
    };
    return tr_sim_run(&options) == TR_OK;
}
// [end]

int main(void)
{
    uint64_t seed = 1;
    while (seed <= SEEDS && holds(seed, true)) {
        seed++;
    }
    puts(seed <= SEEDS ? "careless: an update is lost" : "careless: not found");
    puts(holds(seed, true) ? "not found again" : "the same seed: lost again");

    for (seed = 1; seed <= SEEDS && holds(seed, false); seed++) {
    }
    printf("careful: nothing is lost in %" PRIu64 " seeds\n", seed - 1);
    return 0;
}
