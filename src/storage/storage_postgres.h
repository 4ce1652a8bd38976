/*
 * storage_postgres.h - the store in a PostgreSQL database: its parts.
 *
 *     submit --writes--> lane "write"   a thread and a connection
 *            --reads---> lane "read"    the same
 *
 * A lane takes what waits, sends it as one batch (one transaction, one round
 * trip) and, before the answer has come, the next one. A lane's own fields
 * are its thread's; only the inbox is for others. docs/design/0007-storage.md
 * says why.
 */
#ifndef TRI_STORAGE_STORAGE_POSTGRES_H
#define TRI_STORAGE_STORAGE_POSTGRES_H

#include "base/map.h"
#include "storage/inbox.h"
#include "storage/postgres_db.h"

#define TRI_PG_DEPTH 2  // batches on their way

/* A field left zero takes the default named beside it. */
typedef struct tri_pg_limits {
    uint32_t batch;     // operations in a transaction; 512
    size_t batch_size;  // no operation is added beyond; 4 MiB
    tr_nanos patience;  // operations wait for a lost connection; 5 s
    tr_nanos silence;   // of the server, then it is lost; 30 s
} tri_pg_limits;

/* A statement of a batch. */
typedef struct tri_pg_step {
    tri_pg_sql sql;
    tri_store_op *op;  // NULL: it is about several
    bool refused;      // not done; which version is stored is asked next
} tri_pg_step;

/*
 * Invariant: an op of the batch is in `group` or in one step, in no list.
 * Both have room for limits.batch, steps for two more.
 */
typedef struct tri_pg_batch {
    tri_store_op **group;  // all in one statement: SAVE, sorted; LOAD
    bool *done;            // of the group: which were saved
    uint32_t group_count;
    tri_pg_step *steps;
    uint32_t step_count;
    uint32_t *shards;  // of the group, sorted, each once
    uint64_t *epochs;  // their fences, from the answer
    uint32_t shard_count;
    uint32_t *missing;  // shards without a row in `fence`
    uint32_t missing_count;
    size_t size;   // bytes of all operations
    bool raising;  // has one operation, whose epoch is beyond the fence

    uint32_t step;       // whose result is awaited
    bool answered;       // that has come
    tri_pg_fault fault;  // the transaction has failed: err is set
} tri_pg_batch;

typedef struct tri_pg_lane tri_pg_lane;

/* What writing and reading do differently. */
typedef struct tri_pg_lane_ops {
    const char *name;
    bool is_writing;  // an answer that got lost is TR_EUNKNOWN
    /* Brings what the lane knows up to a new connection. */
    tr_err (*connected)(tri_pg_lane *lane, tri_pg_fault *why);
    /* Adds the op to the batch; false: it must go with the next one. */
    bool (*add)(tri_pg_lane *lane, tri_pg_batch *batch, tri_store_op *op);
    /* All ops are there: adds what goes before them. */
    void (*complete)(tri_pg_lane *lane, tri_pg_batch *batch);
    void (*bind)(tri_pg_lane *lane, tri_pg_batch *batch,
                 const tri_pg_step *step);
    void (*answer)(tri_pg_lane *lane, tri_pg_batch *batch, tri_pg_step *step,
                   const PGresult *result);
    /* The batch is committed; ops that are not answered yet are kept. */
    void (*committed)(tri_pg_lane *lane, tri_pg_batch *batch);
} tri_pg_lane_ops;

struct tri_pg_lane {
    const tri_pg_lane_ops *ops;
    tri_inbox inbox;
    const tri_pg_place *place;
    const tri_pg_limits *limits;
    tri_pg_db db;
    tri_pg_params params;
    tri_list pending;  // taken, not sent
    tri_list refused;  // not done; it is not known yet why
    tri_pg_batch batches[TRI_PG_DEPTH];
    uint32_t oldest, flying;  // batches on their way
    tri_map keys;             // writing: ops of the batch that is made
    uint64_t *fences;         // writing: epoch + 1 by shard; 0: no row
    uint32_t failures;        // to connect, one after the other
    tr_nanos lost_since, not_before;
    tri_thread *thread;
};

extern const tri_pg_lane_ops tri_pg_writing, tri_pg_reading;

TR_NODISCARD tr_err tri_pg_lane_init(tri_pg_lane *lane,
                                     const tri_pg_lane_ops *ops,
                                     const tri_pg_place *place,
                                     const tri_pg_limits *limits);
void tri_pg_lane_fini(tri_pg_lane *lane);
/* The thread; takes the lane and returns when its inbox is closed. */
void tri_pg_lane_run(void *lane);

/* Adds a step; there is room. */
void tri_pg_step_add(tri_pg_batch *batch, tri_pg_sql sql, tri_store_op *op);

/*
 * As tr_storage_postgres_with. NULL limits means every default; tests make
 * them small to reach what is rare.
 */
TR_NODISCARD tr_err tri_storage_postgres_open(tr_storage **out,
                                              tri_world *world,
                                              const char *conninfo,
                                              const tri_pg_limits *limits,
                                              tri_pg_fault *why);

#endif
