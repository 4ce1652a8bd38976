/*
 * vfs_sqlite_index.h - the methods for the shared index of a write-ahead log.
 *
 * Private to vfs_sqlite_file.c, which puts them into the table of methods.
 */
#ifndef TRI_STORAGE_VFS_SQLITE_INDEX_H
#define TRI_STORAGE_VFS_SQLITE_INDEX_H

#include <sqlite3.h>

#include "storage/vfs_sqlite_file.h"

/* SQLite's documentation of sqlite3_io_methods says what these must do. */
int tri_vfs_shm_map(sqlite3_file *base, int region, int size, int extend,
                    void volatile **out);
int tri_vfs_shm_lock(sqlite3_file *base, int offset, int count, int flags);
void tri_vfs_shm_barrier(sqlite3_file *base);
int tri_vfs_shm_unmap(sqlite3_file *base, int remove);

/* Unmaps and closes the index, if it is open, and so ends its locks. */
void tri_vfs_index_close(tri_vfs_file *it);

#endif
