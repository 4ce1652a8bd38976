/*
 * postgres_batch.c - making, filling and clearing a batch.
 */
#include "storage/postgres_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

tr_err tri_pg_batch_init(tri_pg_batch *batch, uint32_t count)
{
    TRI_CHECK(count > 0);
    batch->bulk = calloc(count, sizeof(*batch->bulk));
    batch->bulk_done = calloc(count, sizeof(*batch->bulk_done));
    batch->steps = calloc(count + 2, sizeof(*batch->steps));
    batch->fences = calloc(count, sizeof(*batch->fences));
    batch->epochs = calloc(count, sizeof(*batch->epochs));
    batch->missing = calloc(count, sizeof(*batch->missing));
    bool ok = batch->bulk != NULL && batch->bulk_done != NULL &&
              batch->steps != NULL && batch->fences != NULL &&
              batch->epochs != NULL && batch->missing != NULL;
    return ok ? TR_OK : TR_ENOMEM;
}

void tri_pg_batch_fini(tri_pg_batch *batch)
{
    TRI_CHECK(tri_pg_batch_is_empty(batch));
    free(batch->bulk);
    free(batch->bulk_done);
    free(batch->steps);
    free(batch->fences);
    free(batch->epochs);
    free(batch->missing);
}

void tri_pg_batch_clear(tri_pg_batch *batch)
{
    batch->bulk_count = 0;
    batch->step_count = 0;
    batch->fence_count = 0;
    batch->missing_count = 0;
    batch->size = 0;
    batch->raising = false;
    batch->step = 0;
    batch->answered = false;
    batch->fault = (tri_pg_fault){0};
}

bool tri_pg_batch_is_empty(const tri_pg_batch *batch)
{
    return batch->step_count == 0 && batch->bulk_count == 0;
}

void tri_pg_batch_add(tri_pg_batch *batch, tri_pg_sql sql, tri_store_op *op)
{
    TRI_CHECK(sql < TRI_PG_COUNT);
    batch->steps[batch->step_count++] = (tri_pg_step){.sql = sql, .op = op};
}

void tri_pg_batch_add_first(tri_pg_batch *batch, tri_pg_sql sql)
{
    TRI_CHECK(sql < TRI_PG_COUNT);
    memmove(batch->steps + 1, batch->steps,
            batch->step_count * sizeof(*batch->steps));
    batch->steps[0] = (tri_pg_step){.sql = sql};
    batch->step_count++;
}

void tri_pg_batch_add_bulk(tri_pg_batch *batch, tri_store_op *op)
{
    TRI_CHECK(op != NULL);
    batch->bulk[batch->bulk_count++] = op;
}

bool tri_pg_step_is_query(const tri_pg_step *step)
{
    return step->sql == TRI_PG_VERSION || step->sql == TRI_PG_LAST;
}
