/*
 * postgres_write.h - the pipeline for writes.
 */
#ifndef TRI_STORAGE_POSTGRES_WRITE_H
#define TRI_STORAGE_POSTGRES_WRITE_H

#include "storage/postgres_pipeline.h"

extern const tri_pg_pipeline_ops tri_pg_writing;

#endif
