/*
 * datagrams - a counter that is asked over UDP, which loses and repeats.
 *
 * Notice: the client numbers its requests and asks again until it has the
 * answer with that number; the server adds a number once, however often it
 * comes. In the simulated world a third of all datagrams are lost and a third
 * come twice, and the count is right for every seed.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

enum { REQUESTS = 20, SEEDS = 20 };

typedef struct Counter {
    uint64_t *count;
} Counter;

// [snippet: server]
static tr_err counter_run(tr_ctx *ctx, Counter *self)
{
    tr_udp *socket;
    char sender[TR_ADDRESS_SIZE];
    uint64_t number, last = 0;
    size_t got;
    TR_TRY(tr_udp_open(ctx, &socket, "udp://0.0.0.0:7000"));
    for (;;) {
        TR_TRY(tr_udp_receive(ctx, socket, &number, sizeof(number), 0, &got,
                              sender));
        if (got != sizeof(number)) continue;  // not of our client
        if (number == last + 1) {             // else: it comes again
            *self->count += 1;
            last = number;
        }
        TR_TRY(tr_udp_send(ctx, socket, sender, 0, {&number, got}));
    }
}
TR_ACTOR(counter, Counter, TR_HOOK(on_run, counter_run));
// [end]

/* Sends the request until its answer has come. */
static tr_err request(tr_ctx *ctx, tr_udp *socket, uint64_t number)
{
    uint64_t answer;
    size_t got;
    for (;;) {
        TR_TRY(tr_udp_send(ctx, socket, "udp://node-0:7000", 0,
                           {&number, sizeof(number)}));
        do {  // an answer to an older request may come late
            answer = 0;
            tr_err err = tr_udp_receive(ctx, socket, &answer, sizeof(answer),
                                        TR_MS(100), &got, NULL);
            if (err == TR_ETIMEDOUT) break;
            TR_TRY(err);
        } while (answer != number);
        if (answer == number) return TR_OK;
    }
}

typedef struct Client {
    bool *done;
} Client;

static tr_err client_run(tr_ctx *ctx, Client *self)
{
    tr_udp *socket;
    TR_TRY(tr_udp_open(ctx, &socket, "udp://0.0.0.0:0"));
    for (uint64_t number = 1; number <= REQUESTS; number++) {
        TR_TRY(request(ctx, socket, number));
    }
    *self->done = true;
    return TR_OK;
}
TR_ACTOR(client, Client, TR_HOOK(on_run, client_run));

/* ---- two nodes in a simulated world ---- */

typedef struct Run {
    uint64_t count;
    bool done;
} Run;

static tr_err start(tr_system *sys, uint32_t index, void *user)
{
    Run *run = user;
    if (index == 0) {
        return tr_ref_err(
            tr_spawn(sys, counter, TR_INIT(counter, .count = &run->count)));
    }
    return tr_ref_err(
        tr_spawn(sys, client, TR_INIT(client, .done = &run->done)));
}

static tr_err wait_for_the_client(tr_sim *sim, void *user)
{
    const Run *run = user;
    while (!run->done) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return TR_OK;
}

int main(void)
{
    uint32_t right = 0;
    tr_faults faults = {
        .size = sizeof(faults), .drop = 0.3, .duplicate = 0.3, .reorder = 0.3};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        Run run = {0};
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .faults = &faults,
                                  .node = start,
                                  .nodes = 2,
                                  .workload = wait_for_the_client,
                                  .user = &run};
        TR_MUST(tr_sim_run(&options));
        right += run.count == REQUESTS;
    }
    printf("the count was right for %" PRIu32 " of %d seeds\n", right, SEEDS);
    return right != SEEDS;
}
