/*
 * invariants_sim.c - invariants that a program can check after every step.
 *
 * Clients ask counters, which are virtual actors: several at once, sometimes
 * with too little time. Counters wait in the middle of a turn, read beside
 * other readers, fail, stop, and are deactivated. After every step:
 *   - of each name at most one activation is alive, and a writer in it is
 *     alone;
 *   - the numbers of a client arrive at a counter in the order of asking;
 *   - a reply carries the number of its request, and each request has one;
 *   - time-outs are neither early nor late;
 *   - every change of a state is in the table of transitions.
 * At the end no actor is active, and system and directory agree on that.
 * Covers TE1, TE2 and TE6.
 */
#include <string.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum { KEYS = 4, CLIENTS = 4, ROUNDS = 40, AT_ONCE = 3, LIVES = 4096 };

#define IDLE TR_SECONDS(2)
#define LATE TR_MS(300)  // a busy world may be this late

static const char *const keys[KEYS] = {"a", "b", "c", "d"};

typedef struct board {
    tr_sim *sim;
    uint32_t alive[KEYS], writers[KEYS], readers[KEYS];
    uint32_t lives[KEYS];
    int64_t last[KEYS][CLIENTS];  // number that arrived last
    int64_t next[CLIENTS];
    uint32_t done, answers, timeouts, failures;
    const char *broken;  // the invariant that does not hold
    struct {
        uint64_t id;
        uint32_t state;
    } states[LIVES];
    tr_system *sys;
} board;

static board the_board;  // there is one run at a time

static void broken(const char *what)
{
    if (the_board.broken == NULL) {
        the_board.broken = what;
    }
}

/* ---- counters ---- */

TR_MESSAGE(Answer, (int64_t, number), (uint64_t, epoch));
TR_REQUEST(Write, Answer, (uint32_t, client), (int64_t, number));
TR_REQUEST(Read, Answer, (int64_t, number));

typedef struct Counter {
    uint32_t key;
    uint64_t writes;
} Counter;

static tr_err counter_start(tr_ctx *ctx, Counter *self)
{
    board *b = &the_board;
    self->key = (uint32_t)(tr_key(ctx)[0] - 'a');
    if (++b->alive[self->key] != 1) {
        broken("two activations of one name");
    }
    b->lives[self->key]++;
    if (TR_BUGGIFY(ctx, 0.2)) {
        TR_TRY(tr_sleep(ctx, TR_MS(300)));
    }
    return TR_OK;
}

static tr_err counter_stop(tr_ctx *ctx, Counter *self, tr_reason reason)
{
    board *b = &the_board;
    (void)reason;
    if (b->writers[self->key] != 0 || b->readers[self->key] != 0) {
        broken("an end over a turn that had not returned");
    }
    tr_err err = TR_BUGGIFY(ctx, 0.2) ? tr_sleep(ctx, TR_MS(300)) : TR_OK;
    b->alive[self->key]--;
    return err;
}

static tr_err on_write(tr_ctx *ctx, Counter *self, const Write *m)
{
    board *b = &the_board;
    uint32_t key = self->key;
    int64_t *last = &b->last[key][m->client];
    if (++b->writers[key] != 1 || b->readers[key] != 0) {
        broken("a writer beside another turn");
    }
    if (m->number <= *last) {
        broken("a later question came first");
    }
    *last = m->number;
    uint64_t writes = ++self->writes;
    tr_err err = TR_OK;
    if (TR_BUGGIFY(ctx, 0.3)) {
        err = tr_sleep(ctx, TR_MS(200));
    }
    if (self->writes != writes) {
        broken("the state changed under a turn that waits");
    }
    b->writers[key]--;
    TR_TRY(err);
    if (TR_BUGGIFY(ctx, 0.02)) {
        b->failures++;
        return tr_fail(ctx, TR_EUSER, "by chance");
    }
    if (TR_BUGGIFY(ctx, 0.05)) {
        tr_stop(ctx, tr_self(ctx));
    }
    return tr_reply(ctx, m, .number = m->number, .epoch = tr_epoch(ctx));
}

static tr_err on_read(tr_ctx *ctx, const Counter *self, const Read *m)
{
    board *b = &the_board;
    if (b->writers[self->key] != 0) {
        broken("a reader beside a writer");
    }
    b->readers[self->key]++;
    tr_err err = TR_BUGGIFY(ctx, 0.3) ? tr_sleep(ctx, TR_MS(100)) : TR_OK;
    b->readers[self->key]--;
    TR_TRY(err);
    return tr_reply(ctx, m, .number = m->number);
}

TR_ACTOR(counter, Counter, TR_HOOK(pre_start, counter_start),
         TR_HOOK(post_stop, counter_stop), TR_ON(Write, on_write),
         TR_ON_READ(Read, on_read));

/* ---- clients ---- */

typedef struct Client {
    uint32_t index;
} Client;

static void look_at(tr_err err, int64_t asked, const Answer *answer,
                    tr_nanos began, tr_nanos timeout)
{
    board *b = &the_board;
    tr_nanos took = tr_now(b->sys) - began;
    if (err == TR_OK) {
        b->answers++;
        if (answer->number != asked) {
            broken("the answer to another question");
        }
    } else if (err == TR_ETIMEDOUT) {
        b->timeouts++;
        if (took < timeout) {
            broken("a time-out before its time");
        }
    }
    if (took > timeout + LATE) {
        broken("a question that outlived its time");
    }
}

static void one_by_one(tr_ctx *ctx, Client *self, tr_ref ref, tr_nanos timeout)
{
    board *b = &the_board;
    int64_t number = ++b->next[self->index];
    Answer answer;
    tr_nanos began = tr_now(ctx);
    tr_err err =
        TR_BUGGIFY(ctx, 0.3)
            ? tr_ask(ctx, ref, &answer, timeout, Read, .number = number)
            : tr_ask(ctx, ref, &answer, timeout, Write, .client = self->index,
                     .number = number);
    look_at(err, number, &answer, began, timeout);
}

static void several(tr_ctx *ctx, Client *self, tr_ref ref, tr_nanos timeout)
{
    board *b = &the_board;
    tr_future futures[AT_ONCE];
    int64_t first = b->next[self->index] + 1;
    tr_nanos began = tr_now(ctx);
    for (int i = 0; i < AT_ONCE; i++) {
        futures[i] = tr_async(ctx, ref, timeout, Write, .client = self->index,
                              .number = ++b->next[self->index]);
        for (int k = 0; k < i; k++) {
            if (futures[i].id == futures[k].id) {
                broken("two questions with one number");
            }
        }
    }
    for (int i = AT_ONCE; i-- > 0;) {  // the last is awaited first
        Answer answer;
        tr_err err = tr_await(ctx, futures[i], Write, &answer);
        look_at(err, first + i, &answer, began, timeout);
    }
}

static tr_err client_run(tr_ctx *ctx, Client *self)
{
    board *b = &the_board;
    for (uint32_t round = 0; round < ROUNDS && !tr_stopping(ctx); round++) {
        tr_ref ref =
            tr_virtual(ctx, "counter", keys[tr_sim_random(b->sim, KEYS)]);
        tr_nanos timeout = TR_BUGGIFY(ctx, 0.3) ? TR_MS(50) : TR_SECONDS(20);
        if (tr_sim_random(b->sim, 3) == 0) {
            several(ctx, self, ref, timeout);
        } else {
            one_by_one(ctx, self, ref, timeout);
        }
        if (tr_sim_random(b->sim, 4) == 0) {
            TR_TRY(
                tr_sleep(ctx, (tr_nanos)tr_sim_random(b->sim, 2 * IDLE) + 1));
        }
    }
    b->done++;
    return TR_OK;
}

TR_ACTOR(client, Client, TR_HOOK(on_run, client_run));

/* ---- states ---- */

#define BIT(state) (UINT32_C(1) << TR_STATE_##state)

/* From each state, the states that may follow: rule 20 (states). */
static const uint32_t legal[] = {
    [TR_STATE_CREATED] = BIT(STARTING),
    [TR_STATE_STARTING] = BIT(RUNNING) | BIT(FAILED) | BIT(STOPPING),
    [TR_STATE_RUNNING] = BIT(STOPPING) | BIT(FAILED) | BIT(RESTARTING),
    [TR_STATE_STOPPING] = BIT(STOPPED),
    [TR_STATE_STOPPED] = BIT(TERMINATED),
    [TR_STATE_FAILED] = BIT(RUNNING) | BIT(RESTARTING) | BIT(STOPPING),
    [TR_STATE_RESTARTING] = BIT(STARTING) | BIT(STOPPING),
    [TR_STATE_TERMINATED] = BIT(STARTING),  // the next activation
};

static bool is_legal(uint32_t from, uint32_t to)
{
    return from <= TR_STATE_TERMINATED && to <= TR_STATE_TERMINATED &&
           (legal[from] >> to & 1) != 0;
}

static void on_lifecycle(void *user, const tr_type *type, const void *event)
{
    const tr_lifecycle *e = event;
    board *b = user;
    (void)type;
    for (uint32_t i = 0; i < LIVES; i++) {
        if (b->states[i].id == 0) {
            b->states[i].id = e->actor.id;
        } else if (b->states[i].id != e->actor.id) {
            continue;
        } else if (!is_legal(b->states[i].state, e->state)) {
            broken("a change of state that is not in the table");
        }
        b->states[i].state = e->state;
        return;
    }
}

/* ---- the run ---- */

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;
    (void)index;
    b->sys = sys;
    TR_TRY(tr_on_event(sys, tr_lifecycle, on_lifecycle, b));
    return tr_host(
        sys, counter, .idle = IDLE,
        .spawn = TR_OPTIONS(tr_spawn_options,
                            .supervision = TR_SUPERVISE(.max_restarts = 1000)));
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;
    tr_system *sys = tr_sim_node(sim, 0);
    b->sim = sim;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        (void)tr_spawn(sys, client, TR_INIT(client, .index = i));
    }
    while (b->done < CLIENTS) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return TR_OK;
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;
    return b->broken == NULL ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err at_rest(tr_sim *sim, void *user)
{
    const board *b = user;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(tr_sim_node(sim, 0), &m);
    uint64_t lives = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        lives += b->lives[i];
        if (b->alive[i] != 0) {
            return tr_sim_fail(sim, "%s is still alive", keys[i]);
        }
    }
    if (m.virtual_active != 0 || m.parked != 0) {
        return tr_sim_fail(sim, "%llu active, %llu wait",
                           (unsigned long long)m.virtual_active,
                           (unsigned long long)m.parked);
    }
    // A restart is another incarnation, but not another activation.
    if (m.activations > lives || lives > m.activations + b->failures) {
        return tr_sim_fail(sim, "%llu activations, %llu lives",
                           (unsigned long long)m.activations,
                           (unsigned long long)lives);
    }
    return b->answers > 0 ? TR_OK : tr_sim_fail(sim, "nobody was answered");
}

static tr_err fresh_node(tr_system *sys, uint32_t index, void *user)
{
    memset(user, 0, sizeof(board));
    return node(sys, index, user);
}

int main(int argc, char **argv)
{
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = 1, .node = fresh_node,
                   .workload = workload, .invariant = holds, .at_end = at_rest,
                   .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
