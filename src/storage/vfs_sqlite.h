/*
 * vfs_sqlite.h - SQLite on the files of a world.
 *
 * SQLite reaches files, time and random numbers through a table that it calls
 * a VFS. This VFS passes all calls on to a tri_world, so that the real SQLite
 * runs on the simulated disk as well. Its files and locks are those of
 * SQLite's own unix VFS: other programs may open the same database at the same
 * time.
 *
 * A path is used as it is given, because a world has no working directory and
 * no symbolic links. Programs that share a database must name it by the same
 * absolute path without links, because the name of the log is made from it.
 *
 * Threads: any. A connection follows SQLite's own rules.
 * A child of fork must neither use nor close a connection of its parent.
 */
#ifndef TRI_STORAGE_VFS_SQLITE_H
#define TRI_STORAGE_VFS_SQLITE_H

#include "base/world.h"
#include "troupe/base.h"

typedef struct tri_sqlite_vfs tri_sqlite_vfs;

/*
 * Registers a VFS over `world` under a unique name. The caller owns *out; the
 * world is borrowed until the VFS is closed. On failure *out is NULL.
 * Errors: TR_ENOMEM, TR_ESTORAGE (SQLite did not start).
 */
TR_NODISCARD tr_err tri_sqlite_vfs_open(tri_sqlite_vfs **out, tri_world *world);

/* Returns the name for sqlite3_open_v2; it lives as long as the VFS. */
const char *tri_sqlite_vfs_name(const tri_sqlite_vfs *vfs);

/* Closes the VFS; its connections must be closed before. NULL is allowed. */
void tri_sqlite_vfs_close(tri_sqlite_vfs *vfs);

#endif
