/*
 * cluster_bench.c - what a cluster promises under load: shards that move, and
 * names that are forgotten. Uses the public headers alone.
 *
 * Nodes are systems of this process, joined through an SQLite engine in a
 * temporary folder and TCP on the loopback device.
 *
 *   move    two nodes have --actors active actors; a third one joins and gets
 *           a third of all shards, then leaves again. Once for actors that are
 *           active on the owner of their shard, once for actors placed on any.
 *           No turn of a bus takes more than 10 ms of CPU time, and the third
 *           node has its shards within 2 s.
 *   names   two nodes; one sends to --keys keys by name, and, when the actors
 *           of these are idle again, to as many others. The first half fills
 *           the pools of records, which are as large as the most names that
 *           were in use at once; the second half leaves the memory of the
 *           process as it is, within 5 %.
 *
 * Each figure is one line, `name value unit (limit)`. Ends with 1 if a limit
 * was missed.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <troupe/troupe.h>

enum {
    NODES_MAX = 3,
    SHARDS = 4096,
    WINDOW = 2000,  // messages under way at most
    KEY_SIZE = 32,
    TURN_LIMIT_US = 10 * 1000,
    CLAIM_LIMIT_MS = 2000,
    RSS_LIMIT_PERCENT = 5,
};

#define PATIENCE 120.0  // seconds until the program gives up

static atomic_llong handled;  // of all actors of the process
static bool missed;           // some limit was not kept

TR_STATE(Item, (int64_t, touches));
TR_MESSAGE(Touch);

static tr_err on_touch(tr_ctx *ctx, Item *self, const Touch *m)
{
    (void)ctx;
    (void)m;
    self->touches++;
    atomic_fetch_add(&handled, 1);
    return TR_OK;
}

TR_ACTOR(item, Item, TR_ON(Touch, on_touch));

/* ---- small things ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

static void fail(const char *what)
{
    fprintf(stderr, "cluster_bench: %s\n", what);
    exit(2);
}

/* Prints a figure; limit 0: there is none. */
static void report(const char *name, double value, const char *unit,
                   double limit)
{
    printf("%s %.1f %s", name, value, unit);
    if (limit > 0) {
        printf(" (limit %.0f)%s", limit, value > limit ? " MISSED" : "");
        missed |= value > limit;
    }
    printf("\n");
    fflush(stdout);
}

/* Returns the memory of the process that is resident, in KiB. */
static double resident(void)
{
    long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &total, &pages) != 2) {
        fail("/proc/self/statm cannot be read");
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* ---- nodes ---- */

typedef struct nodes {
    char folder[64], file[96];
    tr_engine *engine;
    tr_storage *store;
    tr_placement placement;
    tr_nanos idle;
    uint32_t max_active;
    tr_system *sys[NODES_MAX];
    uint32_t count;
} nodes;

static void nodes_open(nodes *it)
{
    snprintf(it->folder, sizeof(it->folder), "/tmp/cluster_bench.XXXXXX");
    if (mkdtemp(it->folder) == NULL) {
        fail("no temporary folder");
    }
    snprintf(it->file, sizeof(it->file), "%s/engine", it->folder);
    TR_MUST(tr_engine_sqlite(&it->engine, it->file, NULL));
    TR_MUST(tr_storage_memory(&it->store));
}

/* Opens one more node and joins the cluster. */
static void nodes_join(nodes *it)
{
    tr_system **sys = &it->sys[it->count++];
    TR_MUST(tr_system_open(sys, .ns = "bench", .log_level = TR_LOG_ERROR));
    TR_MUST(tr_host(*sys, item, .storage = it->store, .idle = it->idle,
                    .max_active = it->max_active, .placement = it->placement));
    TR_MUST(tr_cluster_join(*sys, .engine = it->engine));
}

static void nodes_close(nodes *it)
{
    while (it->count > 0) {
        TR_MUST(tr_system_close(it->sys[--it->count], 0));
    }
    tr_engine_close(it->engine);
    tr_storage_close(it->store);
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s", it->file, ends[i]);
        (void)unlink(name);
    }
    (void)rmdir(it->folder);
}

/* True if every node knows that each of `count` nodes has its share. */
static bool is_balanced(const nodes *it)
{
    for (uint32_t i = 0; i < it->count; i++) {
        tr_member members[NODES_MAX + 1];
        size_t count = tr_cluster_members(it->sys[i], members, NODES_MAX + 1);
        if (count != it->count) {
            return false;
        }
        for (size_t k = 0; k < count; k++) {
            if (members[k].shards < SHARDS / it->count) {
                return false;
            }
        }
    }
    return true;
}

static void await_balance(const nodes *it)
{
    double until = now() + PATIENCE;
    while (!is_balanced(it)) {
        if (now() > until) {
            fail("the shards are not shared out");
        }
        rest();
    }
}

static tr_metrics_snapshot metrics(tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    return m;
}

static uint64_t active(const nodes *it)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < it->count; i++) {
        sum += metrics(it->sys[i]).virtual_active;
    }
    return sum;
}

static double longest_turn_us(const nodes *it)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < it->count; i++) {
        uint64_t turn = metrics(it->sys[i]).bus_turn_max;
        most = turn > most ? turn : most;
    }
    return (double)most / 1000;
}

/* ---- sending ---- */

/* Sends one message to each of the keys; returns when all were handled. */
static void touch_all(const nodes *it, long long first, long long count)
{
    long long begun = atomic_load(&handled);
    double until = now() + PATIENCE;
    for (long long i = 0; i < count;) {
        long long done = atomic_load(&handled) - begun;
        for (; i < count && i - done < WINDOW; i++) {
            char key[KEY_SIZE];
            snprintf(key, sizeof(key), "k-%lld", first + i);
            tr_tell_virtual(it->sys[0], "item", key, Touch);
        }
        if (now() > until) {
            fail("messages were not handled");
        }
        rest();
    }
    while (atomic_load(&handled) - begun < count) {
        if (now() > until) {
            fail("some messages were not handled");
        }
        rest();
    }
}

static void await_idle(const nodes *it)
{
    double until = now() + PATIENCE;
    while (active(it) > 0) {
        if (now() > until) {
            fail("some actors are not deactivated");
        }
        rest();
    }
}

/* ---- the two measurements ---- */

static void move(const char *name, tr_placement placement, long long actors)
{
    char label[64];
    nodes it = {.placement = placement, .idle = TR_SECONDS(3600)};
    nodes_open(&it);
    nodes_join(&it);
    nodes_join(&it);
    await_balance(&it);
    touch_all(&it, 0, actors);
    if (active(&it) != (uint64_t)actors) {
        fail("not all actors are active");
    }
    snprintf(label, sizeof(label), "%s_load_turn", name);
    report(label, longest_turn_us(&it), "us", 0);

    double begin = now();
    nodes_join(&it);
    await_balance(&it);
    snprintf(label, sizeof(label), "%s_claimed", name);
    report(label, (now() - begin) * 1e3, "ms", CLAIM_LIMIT_MS);
    touch_all(&it, 0, actors);
    snprintf(label, sizeof(label), "%s_join_turn", name);
    report(label, longest_turn_us(&it), "us", TURN_LIMIT_US);

    begin = now();
    TR_MUST(tr_system_close(it.sys[--it.count], 0));
    await_balance(&it);
    snprintf(label, sizeof(label), "%s_left", name);
    report(label, (now() - begin) * 1e3, "ms", CLAIM_LIMIT_MS);
    touch_all(&it, 0, actors);
    snprintf(label, sizeof(label), "%s_leave_turn", name);
    report(label, longest_turn_us(&it), "us", TURN_LIMIT_US);
    nodes_close(&it);
}

static void names(long long keys)
{
    nodes it = {.idle = TR_MS(100), .max_active = WINDOW};
    nodes_open(&it);
    nodes_join(&it);
    nodes_join(&it);
    await_balance(&it);
    report("names_rss_cold", resident() / 1024, "MiB", 0);
    touch_all(&it, 0, keys);
    await_idle(&it);
    double before = resident();
    touch_all(&it, keys, keys);
    await_idle(&it);
    double after = resident();
    report("names_kept", (double)metrics(it.sys[0]).virtual_names, "names", 0);
    report("names_rss_before", before / 1024, "MiB", 0);
    report("names_rss_after", after / 1024, "MiB", 0);
    report("names_rss_growth", (after - before) / before * 100, "percent",
           RSS_LIMIT_PERCENT);
    report("names_turn", longest_turn_us(&it), "us", TURN_LIMIT_US);
    nodes_close(&it);
}

int main(int argc, char **argv)
{
    long long actors = 100 * 1000, keys = 1000 * 1000;
    const char *only = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--actors") == 0) {
            actors = atoll(argv[i + 1]);
        } else if (strcmp(argv[i], "--keys") == 0) {
            keys = atoll(argv[i + 1]);
        } else if (strcmp(argv[i], "--only") == 0) {
            only = argv[i + 1];
        } else {
            fail("usage: [--actors N] [--keys N] [--only owner|random|names]");
        }
    }
    if (only[0] == '\0' || strcmp(only, "owner") == 0) {
        move("owner", TR_PLACE_OWNER, actors);
    }
    if (only[0] == '\0' || strcmp(only, "random") == 0) {
        move("random", TR_PLACE_RANDOM, actors);
    }
    if (only[0] == '\0' || strcmp(only, "names") == 0) {
        names(keys);
    }
    return missed;
}
