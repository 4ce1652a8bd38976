/*
 * vfs_sqlite_file.h - a file that SQLite has open, on a file of a world.
 *
 * Private to vfs_sqlite.c (the VFS, which opens files), vfs_sqlite_file.c
 * (the methods of an open file, and its locks) and vfs_sqlite_index.c (the
 * shared index of a write-ahead log).
 *
 * Threads: a file belongs to one connection; SQLite calls its methods from one
 * thread at a time.
 * Ownership: SQLite owns the memory of a tri_vfs_file. The tri_vfs_file owns
 * the file of the world and the index, from xOpen to xClose.
 */
#ifndef TRI_STORAGE_VFS_SQLITE_FILE_H
#define TRI_STORAGE_VFS_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/world.h"
#include "storage/vfs_sqlite.h"
#include "troupe/base.h"

#define TRI_VFS_PATH_MAX     4096    // with the suffix and the terminating zero
#define TRI_VFS_INDEX_SUFFIX "-shm"  // after the name of the database
#define TRI_VFS_SECTOR       4096

enum { TRI_VFS_NAME_SIZE = 32 };

struct tri_sqlite_vfs {
    sqlite3_vfs base;
    tri_world *world;
    char name[TRI_VFS_NAME_SIZE];
    _Atomic(tr_err) open_error;  // of the last open that failed
};

/* The mapped index of a write-ahead log. */
typedef struct tri_vfs_index {
    tri_file *file;  // NULL: not open
    void **regions;  // each NULL until SQLite asks for it
    size_t count;
    size_t region_size;
} tri_vfs_index;

/* SQLite allocates it; it is all zero until xOpen has succeeded. */
typedef struct tri_vfs_file {
    sqlite3_file base;
    tri_sqlite_vfs *vfs;
    const tri_world_ops *ops;
    tri_file *file;
    const char *path;  // owned by SQLite; NULL: a temporary file
    int level;         // SQLITE_LOCK_NONE .. SQLITE_LOCK_EXCLUSIVE
    tri_vfs_index index;
} tri_vfs_file;

/* The methods that xOpen gives a file. */
extern const sqlite3_io_methods tri_vfs_file_methods;

/* Returns the tri_vfs_file of a sqlite3_file, which must be open. */
tri_vfs_file *tri_vfs_file_of(sqlite3_file *base);

/*
 * Returns the code for SQLite: SQLITE_OK, or `code`, which says what failed.
 * The reason goes to SQLite's log.
 */
int tri_vfs_code(tr_err err, int code, const char *path);

/* Returns the code for an open that failed, and keeps the reason. */
static inline int tri_vfs_open_failed(tri_sqlite_vfs *vfs, tr_err err,
                                      const char *path)
{
    // Relaxed: only a hint, with no other data.
    atomic_store_explicit(&vfs->open_error, err, memory_order_relaxed);
    return tri_vfs_code(err, SQLITE_CANTOPEN, path);
}

#endif
