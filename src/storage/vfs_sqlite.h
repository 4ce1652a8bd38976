/*
 * vfs_sqlite.h - SQLite on the files of a world.
 *
 * SQLite reaches files, time and random numbers through a table it calls a
 * VFS. This one hands all of it to a tri_world, so the real SQLite runs on the
 * simulated disk as well. The files and locks are those of SQLite's own unix
 * VFS: other programs may have the same database open at the same time.
 *
 * A path is used as it is given, because a world has no working directory and
 * no links. All who share a database must name it by the same absolute path
 * without links: the log's name is made from the database's.
 *
 * Threads: any. A connection follows SQLite's own rules.
 * A child of fork must not use a connection of its parent, nor close it.
 */
#ifndef TRI_STORAGE_VFS_SQLITE_H
#define TRI_STORAGE_VFS_SQLITE_H

#include "base/world.h"

typedef struct tri_sqlite_vfs tri_sqlite_vfs;

/*
 * Registers a VFS over `world` under a name that no other one has. The caller
 * owns *out; the world is borrowed until it is closed. On failure *out is NULL.
 * Errors: TR_ENOMEM, TR_ESTORAGE (SQLite did not start).
 */
TR_NODISCARD tr_err tri_sqlite_vfs_open(tri_sqlite_vfs **out, tri_world *world);

/* For sqlite3_open_v2; lives as long as the VFS. */
const char *tri_sqlite_vfs_name(const tri_sqlite_vfs *vfs);

/* After the last connection that uses it was closed. NULL is allowed. */
void tri_sqlite_vfs_close(tri_sqlite_vfs *vfs);

#endif
