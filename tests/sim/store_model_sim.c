/*
 * store_model_sim.c - stores against a model of what storage.h promises.
 *
 * Two nodes, one with an SQLite file on a disk that fails but does not lie,
 * one with a store in memory. The workload writes under a few keys: with the
 * version that is stored and with others, with epochs that are high enough
 * and with lower ones; it appends, trims, reads. Several operations are in
 * progress at a time, and nodes are killed meanwhile.
 *   - a write with another version, or of an earlier epoch, is refused;
 *   - a correct write is never refused, but may fail;
 *   - a write that returned TR_OK is seen by every later read, on a disk also
 *     after a crash; one that was refused or failed is not seen; one of
 *     unknown outcome was made completely or not at all.
 *
 * Covers ST10, ST12, ST16 and ST17.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "few_seeds.h"
#include "storage/storage.h"
#include "troupe/troupe.h"

enum {
    NODES = 2,    // the first one has a disk
    KEYS = 4,     // each in another shard
    AT_ONCE = 3,  // operations in progress
    ROUNDS = 250,
    EVENTS_MAX = 64,
    PATIENCE = 60,  // seconds
};

/* What is known of one key. Two states are possible after TR_EUNKNOWN. */
typedef struct state {
    uint64_t version, value;
} state;

typedef struct known {
    state now, perhaps;
    bool unsure;                // one of both is true
    uint64_t fence, fence_max;  // lower and upper bound
    uint64_t events[EVENTS_MAX + 4];
    uint64_t last, perhaps_last;  // ... number of the last event
    uint64_t first;               // events before it may be trimmed
    bool events_unsure;
} known;

typedef struct job job;

typedef struct board {
    tr_sim *sim;
    job *jobs;                  // of this run
    tr_storage *stores[NODES];  // NULL: closed
    uint32_t boots[NODES];
    known keys[NODES][KEYS];
    uint64_t next;  // value
    uint64_t done, refused, failed, unknown, lost;
    char broken[200];
} board;

/* One operation; it outlives a node that is killed meanwhile. */
struct job {
    job *next_job;
    tri_store_op op;
    board *board;
    uint32_t node, key;
    bool right;  // correct: must not be refused
    bool answered;
    uint64_t value;  // saved, or of the events
    uint64_t values[2];
    tri_store_bytes events[2];
    char text[8];
};

static void broken(const job *j, const char *what)
{
    board *b = j->board;

    if (b->broken[0] == '\0') {
        snprintf(b->broken, sizeof(b->broken),
                 "%s store, key %" PRIu32 ", call %d, number %" PRIu64
                 ", epoch %" PRIu64 ": %s (%s)",
                 j->node == 0 ? "sqlite" : "memory", j->key, (int)j->op.call,
                 j->op.number, j->op.epoch, what, tr_errname(j->op.err));
    }
}

static known *known_of(const job *j)
{
    return &j->board->keys[j->node][j->key];
}

/* ---- operations ---- */

static void answered(tri_store_op *op)
{
    job *j = op->user;

    j->answered = true;
}

static void ask_load(job *j)
{
    j->op.call = TR_STORE_LOAD;
    j->right = true;
}

static void ask_save(job *j, bool deletes)
{
    const known *k = known_of(j);
    tr_sim *sim = j->board->sim;

    j->op.call = deletes ? TR_STORE_DELETE : TR_STORE_SAVE;
    j->op.number = k->now.version;
    j->op.after = deletes ? k->last : 0;
    if (tr_sim_random(sim, 4) == 0) {
        j->right = false;
        j->op.number = k->now.version > 0 && tr_sim_random(sim, 2) == 0
                           ? k->now.version - 1
                           : k->now.version + 1 + tr_sim_random(sim, 3);
    }
    j->value = ++j->board->next;
    j->op.bytes = (tri_store_bytes){&j->value, sizeof(j->value)};
}

static void ask_append(job *j)
{
    const known *k = known_of(j);
    tr_sim *sim = j->board->sim;
    uint32_t count = 1 + (uint32_t)tr_sim_random(sim, 2);

    j->op.call = TR_STORE_APPEND;
    j->op.number = k->last;
    if (tr_sim_random(sim, 4) == 0) {
        j->right = false;
        j->op.number = k->last > 0 && tr_sim_random(sim, 2) == 0 ? k->last - 1
                                                                 : k->last + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        j->values[i] = ++j->board->next;
        j->events[i] = (tri_store_bytes){&j->values[i], sizeof(uint64_t)};
    }
    j->op.events = j->events;
    j->op.event_count = count;
}

/* Chooses an operation; a key whose state is uncertain is read first. */
static void choose(job *j)
{
    known *k = known_of(j);
    tr_sim *sim = j->board->sim;
    uint64_t what = tr_sim_random(sim, 16);

    if (k->unsure) {
        ask_load(j);
    } else if (k->events_unsure || what == 0) {
        j->op.call = TR_STORE_READ;
        j->op.number = k->first;
    } else if (what < 3) {
        ask_load(j);
    } else if (what < 10) {
        ask_save(j, what == 9);
    } else if (what < 14 && k->last + 2 <= EVENTS_MAX) {
        ask_append(j);
    } else if (what == 14) {
        j->op.call = TR_STORE_TRIM;
        j->op.number = k->last > 0 ? tr_sim_random(sim, k->last) : 0;
    } else {
        j->op.call = TR_STORE_FENCE;
    }
}

static job *submit(board *b, uint32_t node, uint32_t key)
{
    job *j = calloc(1, sizeof(*j));

    if (j == NULL) {
        tr_abort(TR_HERE, "out of memory");
    }
    *j = (job){.next_job = b->jobs,
               .board = b,
               .node = node,
               .key = key,
               .right = true};
    b->jobs = j;
    known *k = known_of(j);
    snprintf(j->text, sizeof(j->text), "k%" PRIu32, key);
    j->op.shard = key;
    j->op.key = (tri_store_bytes){j->text, strlen(j->text)};
    j->op.done = answered;
    j->op.user = j;
    j->op.epoch = k->fence_max + (tr_sim_random(b->sim, 10) == 0);
    choose(j);
    bool is_write = j->op.call != TR_STORE_LOAD && j->op.call != TR_STORE_READ;
    if (is_write && k->fence > 1 && tr_sim_random(b->sim, 6) == 0) {
        j->op.epoch = 1 + tr_sim_random(b->sim, k->fence - 1);
        j->right = false;
    }
    if (is_write && j->op.epoch > k->fence_max) {
        k->fence_max = j->op.epoch;
    }
    tri_storage_submit(b->stores[node], &j->op);
    return j;
}

/* ---- results ---- */

static bool is_state(const state *s, const tri_store_op *op)
{
    uint64_t value = 0;

    if (s->version == 0 || !op->found) {
        return s->version == 0 && !op->found;
    }
    memcpy(&value, op->out, op->out_size < 8 ? op->out_size : 8);
    return op->version == s->version && op->out_size == 8 && value == s->value;
}

static void take_load(job *j)
{
    known *k = known_of(j);

    if (k->unsure && is_state(&k->perhaps, &j->op)) {
        k->now = k->perhaps;
    } else if (!is_state(&k->now, &j->op)) {
        broken(j, "a state that was not stored");
    }
    k->unsure = false;
}

static void take_events(job *j)
{
    known *k = known_of(j);
    tri_store_row row;
    uint64_t last = 0, value;

    for (size_t at = 0; tri_store_row_next(&j->op, &at, &row);) {
        bool next = last == 0 || row.number == last + 1;
        value = 0;
        memcpy(&value, row.bytes.at, row.bytes.size < 8 ? row.bytes.size : 8);
        if (!next || row.number > EVENTS_MAX ||
            value != k->events[row.number]) {
            broken(j, "an event that was not stored there");
            return;
        }
        last = row.number;
    }
    if (k->events_unsure && j->op.version == k->perhaps_last) {
        k->last = k->perhaps_last;
        k->first = k->last == 0 ? 1 : k->first;
    } else if (j->op.version != k->last) {
        broken(j, "another last event");
    }
    if (last != k->last) {
        broken(j, "the last events are missing");
    }
    k->events_unsure = false;
}

/* Updates the model as if the write was made. */
static state after(const job *j)
{
    return j->op.call == TR_STORE_SAVE ? (state){j->op.number + 1, j->value}
                                       : (state){0, 0};
}

static void write_down(job *j)
{
    known *k = known_of(j);

    for (uint32_t i = 0; i < j->op.event_count; i++) {
        k->events[j->op.number + 1 + i] = j->values[i];
    }
}

static void take_done(job *j)
{
    known *k = known_of(j);

    j->board->done++;
    if (!j->right) {
        broken(j, "done, although it had to be refused");
        return;
    }
    switch (j->op.call) {
    case TR_STORE_LOAD:
        take_load(j);
        return;
    case TR_STORE_READ:
        take_events(j);
        return;
    case TR_STORE_APPEND:
        write_down(j);
        k->last = j->op.number + j->op.event_count;
        break;
    case TR_STORE_TRIM:
        k->first = j->op.number + 1 > k->first ? j->op.number + 1 : k->first;
        break;
    case TR_STORE_FENCE:
        break;
    case TR_STORE_DELETE:
        k->last = 0;
        k->first = 1;
        k->now = after(j);
        break;
    default:
        k->now = after(j);
        break;
    }
    k->fence = j->op.epoch > k->fence ? j->op.epoch : k->fence;
}

static void take_unknown(job *j)
{
    known *k = known_of(j);

    j->board->unknown++;
    if (!j->right) {
        return;  // it was certainly not made
    }
    if (j->op.call == TR_STORE_SAVE || j->op.call == TR_STORE_DELETE) {
        k->perhaps = after(j);
        k->unsure = true;
        k->perhaps_last = 0;
        k->events_unsure = j->op.call == TR_STORE_DELETE;
    } else if (j->op.call == TR_STORE_APPEND) {
        write_down(j);
        k->perhaps_last = j->op.number + j->op.event_count;
        k->events_unsure = true;
    }
}

static void take(job *j)
{
    switch (j->op.err) {
    case TR_OK:
        take_done(j);
        break;
    case TR_EFENCED:
    case TR_ENOENT:
        j->board->refused++;
        if (j->right) {
            broken(j, "refused, although nobody else writes");
        }
        break;
    case TR_EUNKNOWN:
        take_unknown(j);
        break;
    case TR_EIO:
    case TR_ESTORAGE:
        j->board->failed++;
        break;
    default:
        broken(j, "an odd answer");
        break;
    }
    tri_store_op_fini(&j->op);
}

/* ---- the run ---- */

static bool is_up(const board *b, uint32_t node, uint32_t boot)
{
    return tr_sim_node(b->sim, node) != NULL && b->stores[node] != NULL &&
           b->boots[node] == boot;
}

static bool all_answered(job *const *jobs, uint32_t count)
{
    uint32_t i = 0;

    while (i < count && jobs[i]->answered) {
        i++;
    }
    return i == count;
}

/* Makes some operations on different keys and waits for their results. */
static tr_err some(board *b, uint32_t node)
{
    job *jobs[AT_ONCE];
    uint32_t count = 1 + (uint32_t)tr_sim_random(b->sim, AT_ONCE);
    uint32_t first = (uint32_t)tr_sim_random(b->sim, KEYS);
    uint32_t boot = b->boots[node];
    tr_nanos begun = tr_sim_now(b->sim);

    for (uint32_t i = 0; i < count; i++) {
        jobs[i] = submit(b, node, (first + i) % KEYS);
    }
    if (tr_sim_random(b->sim, 25) == 0) {
        tr_sim_kill(b->sim, node,
                    (tr_nanos)tr_sim_random(b->sim, TR_SECONDS(1)));
    }
    while (is_up(b, node, boot) && !all_answered(jobs, count)) {
        tr_sim_advance(b->sim, TR_MS(1));
        if (tr_sim_now(b->sim) - begun > TR_SECONDS(PATIENCE)) {
            return tr_sim_fail(b->sim, "no answer for a minute");
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (jobs[i]->answered) {
            take(jobs[i]);
        } else {
            b->lost++;
            take_unknown(jobs[i]);
        }
    }
    return TR_OK;
}

/* A store in memory ends with the process. */
static void forget(board *b)
{
    tr_storage_close(b->stores[1]);
    b->stores[1] = NULL;
    memset(b->keys[1], 0, sizeof(b->keys[1]));
    for (uint32_t i = 0; i < KEYS; i++) {
        b->keys[1][i].first = 1;
    }
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    board *b = user;

    b->boots[index]++;
    if (index == 1) {
        forget(b);
        return tr_storage_memory(&b->stores[1]);
    }
    b->stores[0] = NULL;
    return tr_storage_sqlite_with(
        &b->stores[0], "model.db",
        TR_OPTIONS(tr_storage_options, .system = sys));
}

static void free_jobs(board *b)
{
    while (b->jobs != NULL) {
        job *next = b->jobs->next_job;
        tri_store_op_fini(&b->jobs->op);
        free(b->jobs);
        b->jobs = next;
    }
}

static void begin(tr_sim *sim, void *user)
{
    board *b = user;
    tr_storage *memory = b->stores[1];

    free_jobs(b);
    memset(b, 0, sizeof(*b));
    b->sim = sim;
    b->stores[1] = memory;
    for (uint32_t i = 0; i < KEYS; i++) {
        b->keys[0][i].first = 1;
    }
}

static tr_err holds(tr_sim *sim, void *user)
{
    const board *b = user;

    return b->broken[0] == '\0' ? TR_OK : tr_sim_fail(sim, "%s", b->broken);
}

static tr_err workload(tr_sim *sim, void *user)
{
    board *b = user;

    for (int round = 0; round < ROUNDS && b->broken[0] == '\0'; round++) {
        uint32_t n = tr_sim_random(sim, 4) == 0;
        if (is_up(b, n, b->boots[n])) {
            TR_TRY(some(b, n));
        }
        if (tr_sim_random(sim, 4) == 0) {
            tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_SECONDS(1)));
        }
    }
    return TR_OK;
}

/* Reads all keys once more, without faults. */
static tr_err all_is_there(tr_sim *sim, void *user)
{
    board *b = user;

    for (uint32_t round = 0; round < 8 * KEYS; round++) {
        TR_TRY(some(b, round % NODES));
        tr_sim_advance(sim, TR_SECONDS(2));
        TR_TRY(holds(sim, user));
    }
    return b->done > 0 && b->refused > 0 ? TR_OK
                                         : tr_sim_fail(sim, "nothing is done");
}

int main(int argc, char **argv)
{
    static board b;
    int status = few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = workload, .invariant = holds,
                   .at_end = all_is_there, .user = &b,
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0002,
                                        .early_wake = 0.01, .disk_error = 0.001,
                                        .disk_full = 0.001, .disk_slow = 0.005,
                                        .torn_write = 0.001,
                                        .delay_max = TR_MS(100))));

    free_jobs(&b);
    tr_storage_close(b.stores[1]);
    return status;
}
