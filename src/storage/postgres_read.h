/*
 * postgres_read.h - the pipeline for reads.
 */
#ifndef TRI_STORAGE_POSTGRES_READ_H
#define TRI_STORAGE_POSTGRES_READ_H

#include "storage/postgres_pipeline.h"

extern const tri_pg_pipeline_ops tri_pg_reading;

#endif
