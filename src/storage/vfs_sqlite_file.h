/*
 * vfs_sqlite_file.h - an open file of SQLite's, on a file of a world.
 *
 * Private to vfs_sqlite.c (the VFS, which opens files), vfs_sqlite_file.c
 * (what is done with one, and its locks) and vfs_sqlite_index.c (the shared
 * index of a write-ahead log).
 *
 * Threads: a file belongs to one connection, and SQLite sees to it that one
 * thread at a time is in there.
 * Ownership: SQLite owns the room of a tri_vfs_file; that owns the world's
 * file and its index from xOpen to xClose.
 */
#ifndef TRI_STORAGE_VFS_SQLITE_FILE_H
#define TRI_STORAGE_VFS_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "storage/vfs_sqlite.h"

#define TRI_VFS_PATH_MAX     4096    // with the zero, and with the suffix
#define TRI_VFS_INDEX_SUFFIX "-shm"  // a database's index, behind its name
#define TRI_VFS_SECTOR       4096

enum { TRI_VFS_NAME_SIZE = 32 };

struct tri_sqlite_vfs {
    sqlite3_vfs base;
    tri_world *world;
    char name[TRI_VFS_NAME_SIZE];
    _Atomic(tr_err) not_opened;  // why a file last was not, for a person
};

/* The mapped index of a write-ahead log. */
typedef struct tri_vfs_index {
    tri_file *file;  // NULL: not open
    void **regions;  // each NULL until it is asked for
    size_t count;
    size_t region_size;
} tri_vfs_index;

/* SQLite makes room for this one; it holds zeros until xOpen has succeeded. */
typedef struct tri_vfs_file {
    sqlite3_file base;
    tri_sqlite_vfs *vfs;
    const tri_world_ops *ops;
    tri_file *file;
    const char *path;  // SQLite's; lives as long as the file; NULL: temporary
    int level;         // SQLITE_LOCK_NONE .. SQLITE_LOCK_EXCLUSIVE
    tri_vfs_index index;
} tri_vfs_file;

/* What xOpen gives a file. */
extern const sqlite3_io_methods tri_vfs_file_methods;

/* The one that SQLite calls a sqlite3_file; it must be open. */
tri_vfs_file *tri_vfs_file_of(sqlite3_file *base);

/* What to tell SQLite; `code` says what was tried, the log gets the reason. */
int tri_vfs_code(tr_err err, int code, const char *path);

/* An open that failed; the code for SQLite, which may ask why. */
static inline int tri_vfs_not_opened(tri_sqlite_vfs *vfs, tr_err err,
                                     const char *path)
{
    // Relaxed: a hint, with nothing behind it.
    atomic_store_explicit(&vfs->not_opened, err, memory_order_relaxed);
    return tri_vfs_code(err, SQLITE_CANTOPEN, path);
}

/* The methods of the index; see SQLite for what each of them must do. */
int tri_vfs_shm_map(sqlite3_file *base, int region, int size, int extend,
                    void volatile **out);
int tri_vfs_shm_lock(sqlite3_file *base, int offset, int count, int flags);
void tri_vfs_shm_barrier(sqlite3_file *base);
int tri_vfs_shm_unmap(sqlite3_file *base, int remove);

/* Unmaps and closes the index, if there is one, and ends its locks. */
void tri_vfs_index_close(tri_vfs_file *it);

#endif
