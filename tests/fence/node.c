/*
 * node.c - a node of the fence test: counters that are stored, and clients that
 * add to them and read them.
 *
 * The workload makes each part of the fence necessary. In each second all
 * clients write to one group of counters; later they only read it. So the
 * successor of a paused node has often loaded a counter, and not written it
 * yet, when the paused node wakes up with a write under way. A quarter of the
 * clients only reads, and so is not held up by a store that waits for a paused
 * node. Half of the writes are for counters that were last seen on the client's
 * own node: its acknowledgements come through after a pause, those of others
 * do not. Counters with an odd number may be on any node. Slow counters are
 * too; their handlers store several times, and last so long that the owner of
 * the shard may be replaced meanwhile.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "break.h"
#include "fence.h"

#define ASK_TIMEOUT   TR_SECONDS(10)
#define CLOSE_TIMEOUT TR_SECONDS(20)
#define RETRY_AFTER   TR_MS(5)
#define SLOW_REST     TR_MS(400)

enum {
    FINAL_TRIES = 1000,
    SLOW_CLIENTS = 16,  // of a node, besides the others
};

/* ---- the process ---- */

/* What the counters and clients of a process share. */
typedef struct site {
    board *board;
    uint32_t index;
    int log;
    _Atomic(uint32_t) hosts[COUNTERS];  // process that was last seen
    _Atomic(uint32_t) mine[COUNTERS];   // newest activation of this process
} site;

static site here;

/* Appends a record; the process may be killed at any time after that. */
static void log_record(const record *r)
{
    if (write(here.log, r, sizeof(*r)) != (ssize_t)sizeof(*r)) {
        perror("log");
        abort();
    }
}

/* ---- counters ---- */

TR_STATE(Counter, (uint64_t, value), (uint64_t, writer));
TR_MESSAGE(Count, (uint64_t, value), (uint64_t, writer), (uint64_t, epoch),
           (uint32_t, host), (uint32_t, done), (uint32_t, refused));
TR_REQUEST(Add, Count, (uint64_t, op), (uint32_t, count), (int64_t, rest));
TR_REQUEST(Read, Count);

/* True if an update that has failed so was surely not stored. */
static bool is_not_stored(tr_err err)
{
    return err == TR_EFENCED || err == TR_ESTORAGE;
}

static tr_err on_start(tr_ctx *ctx, Counter *self)
{
    uint32_t key = (uint32_t)strtoul(tr_key(ctx), NULL, 10);
    uint32_t activation = atomic_fetch_add(&here.board->activations, 1) + 1;

    (void)self;
    atomic_store(&here.mine[key], activation);
    token_begin(&here.board->guards[key], activation, tr_epoch(ctx));
    return TR_OK;
}

/* Writes to something that only the epoch guards. */
static void use_token(tr_ctx *ctx)
{
    uint32_t key = (uint32_t)strtoul(tr_key(ctx), NULL, 10);
    uint64_t epoch = tr_epoch(ctx);

    if (token_check(&here.board->guards[key], atomic_load(&here.mine[key]),
                    epoch) == TOKEN_TOO_LATE) {
        log_record(&(record){.begin = clock_now(),
                             .epoch = epoch,
                             .key = key,
                             .host = (uint32_t)getpid(),
                             .what = RECORD_TOKEN});
    }
}

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    uint32_t done = 0;
    uint64_t epoch = 0;
    tr_err err = TR_OK;

    while (done < m->count && err == TR_OK) {
        Counter next = {.value = self->value + 1, .writer = m->op};
        epoch = tr_epoch(ctx);
        err = tr_persist(ctx, self, &next);
        done += err == TR_OK;
        if (m->rest > 0 && tr_sleep(ctx, m->rest) != TR_OK) {
            break;  // the actor ends; the answer may still arrive
        }
        use_token(ctx);
    }
    return tr_reply(ctx, m, .value = self->value, .writer = self->writer,
                    .epoch = epoch, .host = (uint32_t)getpid(), .done = done,
                    .refused = is_not_stored(err) ? m->count - done : 0);
}

static tr_err on_read(tr_ctx *ctx, Counter *self, const Read *m)
{
    return tr_reply(ctx, m, .value = self->value, .writer = self->writer,
                    .epoch = tr_epoch(ctx), .host = (uint32_t)getpid());
}

TR_ACTOR(owned, Counter, TR_HOOK(pre_start, on_start), TR_ON(Add, on_add),
         TR_ON(Read, on_read));
TR_ACTOR(roaming, Counter, TR_HOOK(pre_start, on_start), TR_ON(Add, on_add),
         TR_ON(Read, on_read));

static bool is_owned(uint32_t key)
{
    return key < FAST_COUNTERS && key % 2 == 0;
}

static const char *kind_of(uint32_t key)
{
    return is_owned(key) ? "owned" : "roaming";
}

/* ---- clients ---- */

TR_MESSAGE(Step);
/* What a client does. */
enum { WRITES, ONLY_READS, WRITES_SLOWLY };

TR_STATE(Client, (uint64_t, next_op), (uint32_t, sort));

/* True if a request that has failed so has surely not reached its actor. */
static bool is_not_sent(tr_err err)
{
    return err == TR_EUNREACHABLE || err == TR_ENOENT || err == TR_EFULL;
}

static void note_count(record *r, const Count *count)
{
    r->end = clock_now();
    r->value = count->value;
    r->writer = count->writer;
    r->epoch = count->epoch;
    r->host = count->host;
    // Relaxed: a guess that orders nothing.
    atomic_store_explicit(&here.hosts[r->key], count->host,
                          memory_order_relaxed);
}

static tr_err add(tr_ctx *ctx, Client *self, uint32_t key, uint32_t count,
                  tr_nanos rest)
{
    char name[16];
    Count answer = {0};
    record r = {.op = self->next_op++,
                .begin = clock_now(),
                .key = key,
                .what = RECORD_BEGIN,
                .count = (uint8_t)count,
                .owned = is_owned(key)};

    (void)snprintf(name, sizeof(name), "%" PRIu32, key);
    log_record(&r);
    tr_err err = tr_ask_virtual(ctx, kind_of(key), name, &answer, ASK_TIMEOUT,
                                Add, .op = r.op, .count = count, .rest = rest);
    note_count(&r, &answer);
    r.what = RECORD_ADD;
    r.count = (uint8_t)answer.done;
    r.refused = (uint16_t)(is_not_sent(err) ? count : answer.refused);
    log_record(&r);
    // Relaxed: a number to show.
    atomic_fetch_add_explicit(&here.board->acknowledged[here.index],
                              answer.done, memory_order_relaxed);
    return err == TR_OK && answer.done < count ? TR_EFAILED : err;
}

static tr_err see(tr_ctx *ctx, uint32_t key)
{
    char name[16];
    Count answer;
    record r = {.begin = clock_now(),
                .key = key,
                .what = RECORD_READ,
                .owned = is_owned(key)};

    (void)snprintf(name, sizeof(name), "%" PRIu32, key);
    TR_TRY(tr_ask_virtual(ctx, kind_of(key), name, &answer, ASK_TIMEOUT, Read));
    note_count(&r, &answer);
    log_record(&r);
    return TR_OK;
}

/* Returns a counter of the group that was written `ago` seconds ago. */
static uint32_t pick_key(tr_ctx *ctx, uint32_t ago)
{
    uint64_t second = (uint64_t)(clock_now() / TR_SECONDS(1));

    return (uint32_t)((second + GROUPS - ago) % GROUPS) * GROUP_SIZE +
           (uint32_t)tr_random(ctx, GROUP_SIZE);
}

/* Returns a counter to write to, in half of the cases one that is here. */
static uint32_t pick_to_write(tr_ctx *ctx)
{
    uint32_t key = pick_key(ctx, 0);
    uint32_t first = key - key % GROUP_SIZE;

    if (tr_random(ctx, 2) == 0) {
        return key;
    }
    for (uint32_t i = 0; i < GROUP_SIZE; i++) {
        uint32_t next = first + (key + i) % GROUP_SIZE;
        // Relaxed: as in note_count.
        if (atomic_load_explicit(&here.hosts[next], memory_order_relaxed) ==
            (uint32_t)getpid()) {
            return next;
        }
    }
    return key;
}

static uint32_t pick_slow(tr_ctx *ctx)
{
    return FAST_COUNTERS + (uint32_t)tr_random(ctx, SLOW_COUNTERS);
}

static tr_err do_something(tr_ctx *ctx, Client *self)
{
    uint64_t dice = tr_random(ctx, 16);

    if (self->sort == WRITES_SLOWLY) {
        return add(ctx, self, pick_slow(ctx), BURST, SLOW_REST);
    }
    if (self->sort == WRITES && dice < 12) {
        return add(ctx, self, pick_to_write(ctx), dice == 0 ? BURST : 1, 0);
    }
    if (dice == 15) {
        return see(ctx, pick_slow(ctx));
    }
    return see(ctx, pick_key(ctx, (uint32_t)tr_random(ctx, READ_GROUPS)));
}

static tr_err on_step(tr_ctx *ctx, Client *self, const Step *m)
{
    (void)m;
    if (do_something(ctx, self) != TR_OK) {
        TR_TRY(tr_sleep(ctx, RETRY_AFTER));
    }
    tr_tell(ctx, tr_self(ctx), Step);
    return TR_OK;
}

TR_ACTOR(client, Client, TR_ON(Step, on_step));

static void start_clients(tr_system *sys, uint32_t count)
{
    for (uint32_t i = 0; i < count + SLOW_CLIENTS; i++) {
        // Unique among all processes: the process, the client, a number.
        uint64_t op = (uint64_t)getpid() << 40 | (uint64_t)i << 28;
        uint32_t sort = i >= count   ? WRITES_SLOWLY
                        : i % 4 == 0 ? ONLY_READS
                                     : WRITES;
        tr_ref ref = tr_spawn(sys, client,
                              TR_INIT(client, .next_op = op + 1, .sort = sort));
        tr_tell(sys, ref, Step);
    }
}

/* ---- the node ---- */

static void on_member(void *user, const tr_type *type, const void *event)
{
    (void)user;
    (void)type;
    (void)event;
    // Relaxed: the driver only looks whether the number has changed.
    atomic_store_explicit(&here.board->changed[here.index], clock_now(),
                          memory_order_relaxed);
}

/* Maps the board and opens the log of this process. */
static void begin_process(const settings *s, uint32_t index)
{
    char name[32], path[PATH_SIZE];

    here.board = board_map(s, false);
    here.index = index;
    (void)snprintf(name, sizeof(name), "node-%" PRIu32 ".log", index);
    here.log =
        open(file_path(s, name, path), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (here.log < 0) {
        perror(path);
        exit(2);
    }
}

/* Opens a system that hosts the counters and has joined the cluster. */
static tr_system *join(const settings *s)
{
    char path[PATH_SIZE];
    tr_system *sys;
    tr_storage *store;
    tr_engine *engine;

    TR_MUST(tr_system_open(&sys, .ns = "fence", .workers = 2,
                           .handler_limit = TR_FOREVER,
                           .log_level = TR_LOG_WARN));
    TR_MUST(tr_storage_sqlite_with(
        &store, file_path(s, "state.db", path),
        &(tr_storage_options){.size = sizeof(tr_storage_options),
                              .system = sys}));
    TR_MUST(
        tr_engine_sqlite(&engine, file_path(s, "engine.db", path),
                         &(tr_engine_options){.size = sizeof(tr_engine_options),
                                              .system = sys}));
    TR_MUST(tr_on_event(sys, tr_member_event, on_member, NULL));
    TR_MUST(tr_host(sys, owned, .storage = store));
    TR_MUST(
        tr_host(sys, roaming, .storage = store, .placement = TR_PLACE_RANDOM));
    tr_err err =
        tr_cluster_join(sys, .engine = engine, .lease = TR_MS(s->lease_ms));
    if (err != TR_OK) {
        fprintf(stderr, "join: %s: %s\n", tr_strerror(err),
                tr_error_text(NULL));
        exit(3);
    }
    break_fence(sys, s->broken);
    return sys;
}

int node_run(const settings *s, uint32_t index)
{
    begin_process(s, index);
    tr_system *sys = join(s);
    atomic_store(&here.board->joined[index], true);
    start_clients(sys, s->clients);
    tr_err err = tr_system_run(sys);
    if (err == TR_OK) {
        err = tr_system_close(sys, CLOSE_TIMEOUT);
    }
    if (err != TR_OK) {
        fprintf(stderr, "close: %s: %s\n", tr_strerror(err),
                tr_error_text(NULL));
    }
    return err == TR_OK ? 0 : 4;
}

/* ---- the reader ---- */

/* Reads one final value; tries again while the cluster takes over. */
static tr_err read_final(tr_system *sys, uint32_t key)
{
    char name[16];
    Count answer;
    record r = {.key = key, .what = RECORD_FINAL, .owned = is_owned(key)};
    tr_err err = TR_EUNKNOWN;

    (void)snprintf(name, sizeof(name), "%" PRIu32, key);
    for (int i = 0; i < FINAL_TRIES && err != TR_OK; i++) {
        r.begin = clock_now();
        err =
            tr_ask_virtual(sys, kind_of(key), name, &answer, ASK_TIMEOUT, Read);
    }
    if (err == TR_OK) {
        note_count(&r, &answer);
        log_record(&r);
    }
    return err;
}

int reader_run(const settings *s)
{
    begin_process(s, 0);
    tr_system *sys = join(s);
    for (uint32_t key = 0; key < COUNTERS; key++) {
        TR_MUST(read_final(sys, key));
    }
    return tr_system_close(sys, CLOSE_TIMEOUT) == TR_OK ? 0 : 4;
}
