/*
 * simulated.c - the same bank on three simulated nodes, with faults.
 *
 * Each node is a separate bank, with SQLite on a disk of its own. All of them
 * run in this one thread on virtual time. The seed decides which actor runs
 * when, which node is killed or paused, when and for how long, and what goes
 * wrong on the disks. A run with the same seed is the same run, step by step:
 * the last line shows its hash.
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
    NODES = 3,
    KILLS = 2,  // of each node
    FAULTS_MAX = 64,
};

#define LINE_EVERY TR_SECONDS(10)
#define PATIENCE   TR_SECONDS(300)

typedef struct Place {  // a node, over all its incarnations
    struct Town *town;
    Bank bank;
    Ledger ledger;
    tr_nanos kills[KILLS];
    uint32_t killed, up;
} Place;

typedef struct Town {
    const Options *options;
    Place places[NODES];
    tr_sim *sim;
    Screen screen;
    bool end;
    bool right;
} Town;

/* ---- functions that the bank calls ---- */

static tr_err tell_ledger(tr_ctx *ctx, const Bank *bank, const Record *records,
                          size_t count)
{
    Place *place = bank->user;
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        ledger_take(&place->ledger, &records[i]);
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

/* Starts a node, for the first time or again. */
static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    Town *town = user;
    Place *place = &town->places[index];
    tr_storage *store;
    tr_ref director_ref;
    // It may fail on a faulty disk: then the node is started once more.
    TR_TRY(tr_storage_sqlite_with(
        &store, "bank.db", TR_OPTIONS(tr_storage_options, .system = sys)));
    place->bank.seed += UINT64_C(1000003) * place->up++;
    ledger_next_node(&place->ledger);
    return bank_open(sys, &place->bank, store, &director_ref);
}

static Ledger sum(const Town *town)
{
    Ledger all = {0};
    for (int i = 0; i < NODES; i++) {
        ledger_add(&all, &town->places[i].ledger);
    }
    return all;
}

static void draw_kills(Town *town, tr_nanos span)
{
    for (int i = 0; i < NODES; i++) {
        for (int k = 0; k < KILLS; k++) {
            tr_nanos part = span / KILLS;
            town->places[i].kills[k] =
                part * k +
                (tr_nanos)tr_sim_random(town->sim, (uint64_t)part * 8 / 10);
        }
    }
}

static void kill_who_is_due(Town *town, tr_nanos now)
{
    for (uint32_t i = 0; i < NODES; i++) {
        Place *place = &town->places[i];
        if (place->killed == KILLS || now < place->kills[place->killed] ||
            tr_sim_node(town->sim, i) == NULL) {
            continue;
        }
        place->killed++;
        tr_sim_kill(town->sim, i, TR_MS(100 + tr_sim_random(town->sim, 900)));
        show_event(&town->screen, now, "Node %" PRIu32 " is killed.", i + 1);
    }
}

static bool all_closed(const Town *town)
{
    for (int i = 0; i < NODES; i++) {
        if (!town->places[i].ledger.closed) return false;
    }
    return true;
}

static tr_err workload(tr_sim *sim, void *user)
{
    Town *town = user;
    tr_nanos start = tr_sim_now(sim), now = 0, line = LINE_EVERY;
    town->sim = sim;
    draw_kills(town, town->options->duration);
    while (now < town->options->duration) {
        tr_sim_advance(sim, TR_MS(10));
        now = tr_sim_now(sim) - start;
        kill_who_is_due(town, now);
        if (now >= line) {
            Ledger all = sum(town);
            show_progress(&town->screen, &all, now);
            line += LINE_EVERY;
        }
    }
    town->end = true;
    while (!all_closed(town)) {
        if (tr_sim_now(sim) - start - now > PATIENCE) {
            return tr_sim_fail(sim, "a bank does not close");
        }
        tr_sim_advance(sim, TR_MS(100));
    }
    return TR_OK;
}

/* ---- the end ---- */

static tr_err audit(tr_sim *sim, Place *place, uint32_t index)
{
    tr_system *sys = tr_sim_node(sim, index);
    tr_result result;
    if (sys == NULL) {
        return tr_sim_fail(sim, "node %" PRIu32 " is down", index + 1);
    }
    ledger_look_again(&place->ledger);
    place->bank.audit_only = true;
    TR_TRY(
        tr_join(sys, bank_audit(sys, &place->bank), TR_FOREVER, &result, NULL));
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

static tr_err report(tr_sim *sim, void *user)
{
    Town *town = user;
    for (uint32_t i = 0; i < NODES; i++) {
        TR_TRY(audit(sim, &town->places[i], i));
    }
    Ledger all = sum(town);
    uint32_t kills = 0, up = 0;
    for (int i = 0; i < NODES; i++) {
        kills += town->places[i].killed;
        up += town->places[i].up - 1;
    }
    show_end(&town->screen);
    show_faults(sim);
    show_sums(&all, town->options->duration);
    town->right = show_promises(&all);
    town->right &= show_held(up == kills && all.bad_audits == 0,
                             "%" PRIu32 " times killed, %" PRIu32
                             " times back with every cent",
                             kills, up);
    printf("\n%s\n", town->right ? "The bank has kept every promise."
                                 : "THE BANK HAS BROKEN A PROMISE.");
    printf("%" PRIu64 " steps, hash %016" PRIx64
           ": the same in every run with seed %" PRIu64 ".\n",
           tr_sim_steps(sim), tr_sim_trace_hash(sim), town->options->bank.seed);
    return TR_OK;
}

int bank_simulated(const Options *options)
{
    Town town = {.options = options,
                 .screen = {.terminal = isatty(STDOUT_FILENO) == 1}};
    char accounts[SHOW_NUMBER];
    printf("A bank on each of %d simulated nodes: %s accounts, %" PRIu32
           " tellers.\nTime is virtual, seed %" PRIu64
           " decides everything.\n\n",
           NODES, show_number(accounts, options->bank.accounts),
           options->bank.branches * options->bank.tellers, options->bank.seed);
    for (uint32_t i = 0; i < NODES; i++) {
        Place *place = &town.places[i];
        place->town = &town;
        place->bank = options->bank;
        place->bank.seed += i * UINT64_C(7919);
        place->bank.tell = tell_ledger;
        place->bank.wait_for_end = wait_for_town;
        place->bank.user = place;
        ledger_init(&place->ledger, options->bank.accounts);
    }
    tr_err err = tr_sim_run(TR_OPTIONS(
        tr_sim_options, .seed = options->bank.seed, .nodes = NODES,
        .node = node, .workload = workload, .at_end = report, .user = &town,
        .limit = TR_MINUTES(600),
        .faults = TR_OPTIONS(
            tr_faults, .node_pause = 0.00001, .clock_skew = 0.00001,
            .early_wake = 0.01, .disk_error = 0.0001, .disk_full = 0.0001,
            .disk_slow = 0.001, .torn_write = 0.0001, .delay_max = TR_MS(200),
            .pause_max = TR_SECONDS(2))));
    for (int i = 0; i < NODES; i++) {
        ledger_fini(&town.places[i].ledger);
    }
    return err == TR_OK && town.right ? EXIT_SUCCESS : EXIT_FAILURE;
}
