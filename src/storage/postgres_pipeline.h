/*
 * postgres_pipeline.h - a thread that sends operations through a connection.
 *
 * It takes the operations that wait, sends them as one batch (one transaction,
 * one round trip), and sends the next batch before the first is answered:
 * libpq's pipeline mode. A store has two, one for writes and one for reads.
 */
#ifndef TRI_STORAGE_POSTGRES_PIPELINE_H
#define TRI_STORAGE_POSTGRES_PIPELINE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "storage/postgres_batch.h"
#include "storage/postgres_db.h"
#include "storage/postgres_wire.h"
#include "storage/store_op.h"
#include "troupe/base.h"

#define TRI_PG_DEPTH 2  // batches in flight

/* A field left zero takes the default named beside it. */
typedef struct tri_pg_limits {
    uint32_t batch;     // operations in a transaction; 512
    size_t batch_size;  // bytes, then no operation is added; 4 MiB
    tr_nanos patience;  // how long operations wait for a connection; 5 s
    tr_nanos silence;   // of the server, then the connection is lost; 30 s
} tri_pg_limits;

typedef struct tri_pg_pipeline tri_pg_pipeline;

/* What differs between the pipelines for writes and for reads. */
typedef struct tri_pg_pipeline_ops {
    const char *name;
    bool is_writing;  // an op whose answer is lost is TR_EUNKNOWN
    /* Reads what the pipeline must know after connecting. */
    tr_err (*connected)(tri_pg_pipeline *pipeline, tri_pg_fault *why);
    /* Adds the op to the batch. Returns false if it must go to the next one. */
    bool (*add)(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                tri_store_op *op);
    /* Adds the steps for the bulk, after the last op was added. */
    void (*complete)(tri_pg_pipeline *pipeline, tri_pg_batch *batch);
    /* Fills the parameters of a step. */
    void (*bind)(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                 const tri_pg_step *step);
    /* Sets the answers of the ops of a step from its result. */
    void (*answer)(tri_pg_pipeline *pipeline, tri_pg_batch *batch,
                   tri_pg_step *step, const PGresult *result);
    /* Called after the commit. Ops it puts into a list are answered later. */
    void (*committed)(tri_pg_pipeline *pipeline, tri_pg_batch *batch);
} tri_pg_pipeline_ops;

/* All fields except the inbox belong to the pipeline's thread. */
struct tri_pg_pipeline {
    const tri_pg_pipeline_ops *ops;
    tri_inbox inbox;
    const tri_pg_server *server;
    const tri_pg_limits *limits;
    tri_pg_db db;
    tri_pg_params params;
    char scan_end[TRI_STORE_KEY_MAX];  // a parameter of the latest scan
    tri_list pending;                  // ops taken from the inbox, not sent
    tri_list refused;  // ops not done; the stored version is asked next
    tri_pg_batch batches[TRI_PG_DEPTH];
    uint32_t oldest, in_flight;       // batches
    tri_map keys;                     // writes: of the batch that is filled
    tri_map fences;                   // writes: number -> epoch + 1 of rows
    uint32_t failures;                // to connect, in a row
    tr_nanos lost_since, not_before;  // of the connection; the next try
    tri_thread *thread;
};

/* Makes a pipeline in zeroed memory. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_pg_pipeline_init(tri_pg_pipeline *pipeline,
                                         const tri_pg_pipeline_ops *ops,
                                         const tri_pg_server *server,
                                         const tri_pg_limits *limits);
/* Frees a pipeline, also one whose init failed. */
void tri_pg_pipeline_fini(tri_pg_pipeline *pipeline);
/* The thread; takes the pipeline and returns when its inbox is closed. */
void tri_pg_pipeline_run(void *pipeline);

#endif
