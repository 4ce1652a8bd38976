/*
 * storage.h - stores for the state of actors.
 *
 * A store keeps one value per actor, under its path or, for a virtual actor,
 * `namespace::kind/key`, with the epoch of the writer: a writer that has been
 * replaced cannot overwrite its successor (TR_EFENCED). Actors use it through
 * tr_spawn_options.storage, tr_host_options.storage and tr_persist.
 *
 * Threads: any; one store may serve several systems.
 * Ownership: the caller owns what a constructor gives and closes it after the
 * systems that use it.
 */
#ifndef TROUPE_STORAGE_H
#define TROUPE_STORAGE_H

#include <troupe/base.h>

TR_BEGIN_DECLS

/* Keeps states as long as the store is open. Errors: TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_storage_memory(tr_storage **out);
/*
 * In an SQLite file, made if missing. Component troupe-sqlite.
 * Errors: TR_ESTORAGE, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_storage_sqlite(tr_storage **out,
                                             const char *file);
/*
 * In a PostgreSQL database; dsn as libpq reads it. Component troupe-postgres.
 * Errors: TR_ESTORAGE, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_storage_postgres(tr_storage **out,
                                               const char *dsn);
/* Takes storage; NULL is allowed. No system may use it any more (a check). */
TR_API void tr_storage_close(tr_storage *storage);

TR_END_DECLS

#endif
