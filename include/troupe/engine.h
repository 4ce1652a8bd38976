/*
 * engine.h - engines: where the nodes of a cluster agree on who they are.
 *
 * An engine keeps a small table that all nodes of a cluster share: a record of
 * each node and the owner of each shard. It holds no states of actors; those
 * are in a store (storage.h). Programs open an engine and give it to the call
 * that joins the cluster; they do not read or write it themselves.
 *
 * Threads: any. One engine may serve several systems.
 * Ownership: the caller owns an engine and closes it after the systems that
 * use it. With tr_engine_options.system that system owns the engine.
 */
#ifndef TROUPE_ENGINE_H
#define TROUPE_ENGINE_H

#include <troupe/base.h>

/* A field that is zero takes the default named beside it. */
typedef struct tr_engine_options {
    size_t size;
    const void *world;  // tr_sim_world(sim); default: the real one
    char *text;         // gets why it failed; default: standard error
    size_t text_size;   // bytes at text; a longer text is cut
    tr_system *system;  // lives in its world and is closed with it
} tr_engine_options;

TR_BEGIN_DECLS

/*
 * Opens an engine in memory: all engines of that name in this process share
 * one table, which is gone when the last of them is closed. In a simulation
 * the simulated nodes share the table; it outlives each of them, and the seed
 * decides when it is slow, out of reach, or loses an answer. options may be
 * NULL.
 * Errors: TR_EINVAL (the options, or a name that is empty or has more than 255
 * bytes), TR_ENOMEM, TR_ELIMIT (no more threads).
 */
TR_API TR_NODISCARD tr_err tr_engine_memory(tr_engine **out, const char *name,
                                            const tr_engine_options *options);
/*
 * Opens an engine in an SQLite file, which is created if it does not exist.
 * Component troupe-sqlite. All processes of one machine that name the file by
 * the same absolute path without symbolic links share it; the file is the
 * engine's alone, not that of a store. What has been answered has reached the
 * disk. options may be NULL.
 * Errors: TR_EINVAL (the options), TR_ESTORAGE (no such folder, damaged, not
 * the file of an engine, or of a newer Troupe), TR_ENOMEM, TR_ELIMIT (no more
 * threads).
 */
TR_API TR_NODISCARD tr_err tr_engine_sqlite(tr_engine **out, const char *file,
                                            const tr_engine_options *options);
/*
 * Closes an engine; NULL is allowed. No system may use it any more (a check).
 */
TR_API void tr_engine_close(tr_engine *engine);

TR_END_DECLS

#endif
