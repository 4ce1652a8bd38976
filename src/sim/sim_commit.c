/*
 * sim_commit.c - checks that stores acknowledge each version once.
 *
 * Answers may come in another order than the commits were made, so a version
 * is compared with the others of its key by its number, never by its time.
 */
#include "sim/sim_commit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "troupe/sim.h"

/* A version, or an event, and its writer. */
typedef struct commit {
    uint32_t node;
    uint64_t epoch, round;
} commit;

/* A key of a store: the highest version that is known, and its writer. */
typedef struct row {
    uint64_t version, epoch;
    uint64_t round;  // + 1 with each write that expected nothing stored
    uint32_t node;
} row;

typedef struct tri_sim_commits {
    tri_map rows, commits;
    uint64_t count;
} tri_sim_commits;

static uint64_t row_key(const tri_written *it)
{
    return tri_hash_mix(tri_hash_bytes(it->key, it->key_size) ^
                        tri_hash_mix((uint64_t)(uintptr_t)it->store) ^
                        (uint64_t)it->is_event);
}

/* Returns true if a fault may have undone a durable write. */
static bool disk_has_lied(const tr_sim *sim)
{
    static const tri_sim_fault lies[] = {
        TRI_FAULT_lost_write, TRI_FAULT_misdirected_write,
        TRI_FAULT_disk_bit_flip, TRI_FAULT_sync_lie, TRI_FAULT_disk_lost};

    for (size_t i = 0; i < TRI_COUNT_OF(lies); i++) {
        if (sim->faults[lies[i]].fired > 0) {
            return true;
        }
    }
    return sim->disk_replaced;
}

/* Returns the entry of the key, all zero if it is new; NULL without memory. */
static void *get_or_new(tri_map *map, uint64_t key, size_t size, bool *is_new)
{
    void *it = tri_map_get(map, key);

    *is_new = it == NULL;
    if (it == NULL) {
        it = calloc(1, size);
        if (it != NULL && tri_map_put(map, key, it) != TR_OK) {
            free(it);
            it = NULL;
        }
    }
    return it;
}

static void fail(tr_sim *sim, const tri_written *it, uint32_t node,
                 const char *what, uint64_t version, uint32_t other,
                 uint64_t epoch)
{
    (void)tr_sim_fail(sim,
                      "invariant commit: %s of %.*s, %" PRIu64
                      ", by node %" PRIu32 " in epoch %" PRIu64
                      " and by node %" PRIu32 " in epoch %" PRIu64,
                      what, (int)it->key_size, it->key, version, other, epoch,
                      node, it->epoch);
}

/* Checks that the version was not committed before, in this round. */
static void check_once(tr_sim *sim, row *r, uint32_t node,
                       const tri_written *it, uint64_t version)
{
    bool is_new;
    commit *c =
        get_or_new(&sim->commits->commits, tri_hash_mix(row_key(it) + version),
                   sizeof(*c), &is_new);

    if (c == NULL) {
        return;
    }
    if (!is_new && c->round == r->round) {
        fail(sim, it, node,
             it->is_event ? "two commits of one event"
                          : "two commits of one version",
             version, c->node, c->epoch);
    }
    *c = (commit){.node = node, .epoch = it->epoch, .round = r->round};
}

/* Checks that higher versions have no earlier epoch. */
static void check_epoch(tr_sim *sim, row *r, uint32_t node,
                        const tri_written *it)
{
    bool falls =
        it->version > r->version ? it->epoch < r->epoch : it->epoch > r->epoch;

    if (r->version != 0 && falls) {
        fail(sim, it, node,
             "a commit of an earlier epoch behind one of a "
             "later",
             it->version, r->node, r->epoch);
    }
    if (it->version > r->version) {
        r->version = it->version;
        r->epoch = it->epoch;
        r->node = node;
    }
}

/* Makes the tables if there are none. False: no room for another commit. */
static bool prepare_tables(tr_sim *sim)
{
    if (sim->commits == NULL) {
        sim->commits = calloc(1, sizeof(*sim->commits));
        if (sim->commits == NULL) {
            return false;
        }
        tri_map_init(&sim->commits->rows, NULL, NULL);
        tri_map_init(&sim->commits->commits, NULL, NULL);
    }
    return tri_map_count(&sim->commits->commits) < TRI_SIM_COMMITS_MAX;
}

void tri_sim_commit(tr_sim *sim, uint32_t node, const tri_written *it)
{
    bool is_new;

    TRI_CHECK(it->version > it->before);
    if (disk_has_lied(sim) || !prepare_tables(sim)) {
        return;
    }
    row *r = get_or_new(&sim->commits->rows, row_key(it), sizeof(*r), &is_new);
    if (r == NULL) {
        return;
    }
    sim->commits->count++;
    if (it->before == 0) {
        *r = (row){.round = r->round + 1};
    }
    for (uint64_t v = it->before + 1; v <= it->version; v++) {
        check_once(sim, r, node, it, v);
    }
    check_epoch(sim, r, node, it);
}

uint64_t tri_sim_commits_checked(const tr_sim *sim)
{
    return sim->commits != NULL ? sim->commits->count : 0;
}

static void free_all(tri_map *map)
{
    void *value;

    for (tri_map_iter i = tri_map_iter_begin(map);
         (value = tri_map_iter_next(map, &i)) != NULL;) {
        free(value);
    }
    tri_map_fini(map);
}

void tri_sim_commits_free(tr_sim *sim)
{
    if (sim->commits != NULL) {
        free_all(&sim->commits->rows);
        free_all(&sim->commits->commits);
        free(sim->commits);
        sim->commits = NULL;
    }
}
