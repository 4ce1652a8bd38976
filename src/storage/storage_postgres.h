/*
 * storage_postgres.h - the store in a PostgreSQL database.
 *
 *     submit --writes--> pipeline for writes   a thread and a connection
 *            --reads---> pipeline for reads    the same
 *
 * docs/design/0007-storage.md says why.
 */
#ifndef TRI_STORAGE_STORAGE_POSTGRES_H
#define TRI_STORAGE_STORAGE_POSTGRES_H

#include "base/world.h"
#include "storage/postgres_db.h"
#include "storage/postgres_pipeline.h"
#include "troupe/base.h"

/*
 * Opens the store as tr_storage_postgres_with does. NULL limits means every
 * default; tests make them small to reach rare cases.
 */
TR_NODISCARD tr_err tri_storage_postgres_open(tr_storage **out,
                                              tri_world *world,
                                              const char *conninfo,
                                              const tri_pg_limits *limits,
                                              tri_pg_fault *why);

#endif
