/*
 * simulated.c - the same bank on simulated nodes, with faults.
 *
 * The members are simulated nodes on a simulated network, with a simulated
 * engine; their store is in memory and outlives them, as a database server
 * would. All of them run in this one thread on virtual time. The seed decides
 * which actor runs when, which node is killed, leaves or is paused, when and
 * for how long, and what the network and the engine do. A run with the same
 * seed is the same run, step by step: the last line shows its hash.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger.h"
#include "options.h"
#include "show.h"

enum {
    EVENTS = 2,  // of each node: a kill or a leave
    FAULTS_MAX = 64,
};

#define LINE_EVERY TR_SECONDS(10)
#define PATIENCE   TR_SECONDS(300)
#define QUIET      TR_SECONDS(20)  // before the audit: several leases

typedef struct Place {  // a member, over all its incarnations
    struct Town *town;
    Bank bank;
    tr_nanos events[EVENTS];
    uint32_t happened;
    uint32_t started;
} Place;

typedef struct Town {
    const Options *options;
    uint64_t seed;
    Place places[BANK_MEMBERS];
    tr_storage *store;
    Ledger ledger;
    tr_sim *sim;
    Screen screen;
    tr_nanos start;
    uint32_t kills, leaves;
    bool end;
    bool reported;
    bool right;
} Town;

static tr_nanos now(const Town *town)
{
    return tr_sim_now(town->sim) - town->start;
}

/* ---- functions that the bank calls ---- */

static tr_err tell_ledger(tr_ctx *ctx, const Bank *bank, const Record *records,
                          size_t count)
{
    const Place *place = bank->user;
    Town *town = place->town;
    uint32_t index = (uint32_t)(place - town->places);
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        if (records[i].kind == RECORD_CHANGE && !town->reported) {
            show_change(&town->screen, now(town), index, &records[i]);
        }
        ledger_take(&town->ledger, index, &records[i]);
    }
    return TR_OK;
}

static tr_err wait_for_town(tr_ctx *ctx, const Bank *bank)
{
    const Place *place = bank->user;
    while (!place->town->end) {
        TR_TRY(tr_sleep(ctx, TR_MS(50)));
    }
    return TR_OK;
}

/* ---- the run ---- */

static void begin(tr_sim *sim, void *user)
{
    Town *town = user;
    town->sim = sim;
    town->start = tr_sim_now(sim);
}

/* Starts a member, for the first time or again. */
static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    Town *town = user;
    Place *place = &town->places[index];
    place->bank.seed += UINT64_C(1000003) * place->started++;
    ledger_next(&town->ledger, index);
    return bank_open(sys, &place->bank, town->store);
}

static void draw_events(Town *town, tr_nanos span)
{
    for (int i = 0; i < BANK_NODES; i++) {
        for (int k = 0; k < EVENTS; k++) {
            tr_nanos part = span / EVENTS;
            town->places[i].events[k] =
                part * k +
                (tr_nanos)tr_sim_random(town->sim, (uint64_t)part * 8 / 10);
        }
    }
}

static void end_node(Town *town, uint32_t index)
{
    tr_nanos down = TR_MS(100 + tr_sim_random(town->sim, 6000));
    if (tr_sim_random(town->sim, 2) == 0) {
        town->kills++;
        tr_sim_kill(town->sim, index, down);
    } else {
        town->leaves++;
        tr_sim_shutdown(town->sim, index, TR_SECONDS(30), down);
    }
}

static void end_who_is_due(Town *town)
{
    for (uint32_t i = 0; i < BANK_NODES; i++) {
        Place *place = &town->places[i];
        if (place->happened == EVENTS ||
            now(town) < place->events[place->happened] ||
            tr_sim_node(town->sim, i) == NULL) {
            continue;
        }
        place->happened++;
        uint32_t kills = town->kills;
        end_node(town, i);
        show_event(&town->screen, now(town), "node %" PRIu32 " %s", i,
                   town->kills > kills ? "is killed" : "leaves");
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    Town *town = user;
    tr_nanos line = LINE_EVERY;
    draw_events(town, town->options->duration);
    while (now(town) < town->options->duration) {
        tr_sim_advance(sim, TR_MS(10));
        end_who_is_due(town);
        if (now(town) >= line) {
            show_progress(&town->screen, &town->ledger, now(town));
            line += LINE_EVERY;
        }
    }
    town->end = true;
    tr_nanos limit = tr_sim_now(sim) + PATIENCE;
    while (!town->ledger.closed) {
        if (tr_sim_now(sim) > limit) {
            return tr_sim_fail(sim, "the bank does not close");
        }
        tr_sim_advance(sim, TR_MS(100));
    }
    return TR_OK;
}

/* ---- the end ---- */

static tr_err audit(tr_sim *sim, Town *town)
{
    tr_system *sys = tr_sim_node(sim, BANK_CLIENT);
    Bank *bank = &town->places[BANK_CLIENT].bank;
    tr_result result;
    if (sys == NULL) {
        return tr_sim_fail(sim, "the client is down");
    }
    ledger_look_again(&town->ledger);
    bank->audit_only = true;
    TR_TRY(tr_join(sys, bank_audit(sys, bank), TR_FOREVER, &result, NULL));
    return result.err;
}

/* Prints the faults that the seed chose. */
static void show_faults(tr_sim *sim)
{
    tr_sim_count faults[FAULTS_MAX];
    uint32_t count = tr_sim_faults(sim, faults, FAULTS_MAX);
    const char *before = "";
    printf("%-12s", "faults");
    for (uint32_t i = 0; i < count && i < FAULTS_MAX; i++) {
        if (faults[i].fired > 0) {
            printf("%s%s %" PRIu64, before, faults[i].name, faults[i].fired);
            before = ", ";
        }
    }
    putchar('\n');
}

static void show_report(Town *town)
{
    show_end(&town->screen);
    show_faults(town->sim);
    show_sums(&town->ledger, town->options->duration);
    (void)show_promises(&town->ledger);
    (void)show_held(town->ledger.bad_audits == 0,
                    "%" PRIu32 " times killed, %" PRIu32
                    " times left, and no cent lost",
                    town->kills, town->leaves);
    printf("\n%s\n", town->right ? "The bank has kept every promise."
                                 : "THE BANK HAS BROKEN A PROMISE.");
    printf("%" PRIu64 " steps, hash %016" PRIx64
           ": the same in every run with seed %" PRIu64 ".\n",
           tr_sim_steps(town->sim), tr_sim_trace_hash(town->sim), town->seed);
}

static tr_err at_end(tr_sim *sim, void *user)
{
    Town *town = user;
    TR_TRY(audit(sim, town));
    town->right = ledger_audit_held(&town->ledger) &&
                  town->ledger.bad_audits == 0 && town->ledger.missing == 0 &&
                  town->ledger.audit.sent >= town->ledger.acknowledged;
    town->reported = true;
    if (!town->screen.quiet) {
        show_report(town);
    }
    return TR_OK;
}

static void town_init(Town *town, const Options *options, uint64_t seed)
{
    *town = (Town){.options = options,
                   .seed = seed,
                   .screen = {.terminal = isatty(STDOUT_FILENO) == 1,
                              .quiet = options->seeds > 1}};
    for (uint32_t i = 0; i < BANK_MEMBERS; i++) {
        Place *place = &town->places[i];
        place->town = town;
        place->bank = options->bank;
        place->bank.seed = seed + i * UINT64_C(7919);
        place->bank.is_client = i == BANK_CLIENT;
        place->bank.tell = tell_ledger;
        place->bank.wait_for_end = wait_for_town;
        place->bank.user = place;
    }
    ledger_init(&town->ledger, options->bank.accounts);
    TR_MUST(tr_storage_memory(&town->store));
}

/* Returns true if every promise was kept. */
static bool run_town(Town *town)
{
    tr_err err = tr_sim_run(TR_OPTIONS(
        tr_sim_options, .seed = town->seed, .nodes = BANK_MEMBERS, .node = node,
        .begin = begin, .workload = workload, .at_end = at_end, .user = town,
        .limit = TR_MINUTES(600), .quiet_time = QUIET, .check_every = 64,
        .faults = TR_OPTIONS(
            tr_faults, .node_pause = 0.00001, .clock_skew = 0.00001,
            .early_wake = 0.01, .partition = 0.00001, .half_open = 0.00001,
            .slow_link = 0.00001, .refuse = 0.01, .reset = 0.0001,
            .short_io = 0.01, .unknown_outcome = 0.001, .delay_max = TR_MS(200),
            .pause_max = TR_SECONDS(8))));
    return err == TR_OK && town->right;
}

/* Runs every seed, and prints those that failed. */
static bool run_seeds(const Options *options)
{
    uint64_t transfers = 0, unknown = 0;
    uint32_t failed = 0, kills = 0, leaves = 0;
    for (uint32_t i = 0; i < options->seeds; i++) {
        Town town;
        town_init(&town, options, options->bank.seed + i);
        if (!run_town(&town)) {
            printf("seed %" PRIu64 ": FAILED\n", town.seed);
            failed++;
        }
        fflush(stdout);
        transfers += town.ledger.acknowledged;
        unknown += ledger_figures(&town.ledger).unknown;
        kills += town.kills;
        leaves += town.leaves;
        ledger_fini(&town.ledger);
        tr_storage_close(town.store);
    }
    printf("seeds %" PRIu32 ", failed %" PRIu32 ", kills %" PRIu32
           ", leaves %" PRIu32 ", transfers %" PRIu64 ", unknown %" PRIu64
           ", conserved: %s\n",
           options->seeds, failed, kills, leaves, transfers, unknown,
           failed == 0 ? "yes" : "NO");
    return failed == 0;
}

static bool run_one(const Options *options)
{
    Town town;
    town_init(&town, options, options->bank.seed);
    bool right = run_town(&town);
    ledger_fini(&town.ledger);
    tr_storage_close(town.store);
    return right;
}

int bank_simulated(const Options *options)
{
    char accounts[SHOW_NUMBER];
    printf("A bank on %d simulated nodes and a client: %s accounts, %" PRIu32
           " tellers.\nTime is virtual, the seed decides everything.\n\n",
           BANK_NODES, show_number(accounts, options->bank.accounts),
           options->bank.branches * options->bank.tellers);
    bool right = options->seeds > 1 ? run_seeds(options) : run_one(options);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
