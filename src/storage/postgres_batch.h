/*
 * postgres_batch.h - a batch: the statements of one transaction, and the ops
 * that they carry out.
 *
 * Invariant: an op of the batch is either in `bulk` or in one step, and in no
 * list. Both have room for limits.batch ops, `steps` for two more.
 */
#ifndef TRI_STORAGE_POSTGRES_BATCH_H
#define TRI_STORAGE_POSTGRES_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/postgres_db.h"
#include "storage/postgres_sql.h"
#include "storage/store_op.h"
#include "troupe/base.h"

/* A statement of a batch. */
typedef struct tri_pg_step {
    tri_pg_sql sql;
    tri_store_op *op;  // NULL: the statement is about several ops
    bool refused;      // not done; the next batch asks for the stored version
} tri_pg_step;

typedef struct tri_pg_batch {
    tri_store_op **bulk;  // in one statement: all SAVEs, sorted; all LOADs
    bool *bulk_done;      // which of them were saved
    uint32_t bulk_count;
    tri_pg_step *steps;
    uint32_t step_count;
    uint64_t *fences;  // of the bulk, sorted, without duplicates
    uint64_t *epochs;  // of these, from the answer
    uint32_t fence_count;
    uint64_t *missing;  // fences without a row in the table `fences`
    uint32_t missing_count;
    size_t size;   // bytes of all ops
    bool raising;  // the batch has one op, whose epoch is above the fence

    uint32_t step;       // whose result comes next
    bool answered;       // that result has come
    tri_pg_fault fault;  // err is set if the transaction has failed
} tri_pg_batch;

/* Makes an empty batch for `count` ops. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_pg_batch_init(tri_pg_batch *batch, uint32_t count);
/* Frees a batch, also one whose init failed. */
void tri_pg_batch_fini(tri_pg_batch *batch);
/* Makes the batch empty. */
void tri_pg_batch_clear(tri_pg_batch *batch);
bool tri_pg_batch_is_empty(const tri_pg_batch *batch);

/* Adds a step at the end, or at the front; there must be room. */
void tri_pg_batch_add(tri_pg_batch *batch, tri_pg_sql sql, tri_store_op *op);
void tri_pg_batch_add_first(tri_pg_batch *batch, tri_pg_sql sql);
/* Adds an op to the bulk; there must be room. */
void tri_pg_batch_add_bulk(tri_pg_batch *batch, tri_store_op *op);

/* Returns whether the step asks why an op of an earlier batch was refused. */
bool tri_pg_step_is_query(const tri_pg_step *step);

#endif
