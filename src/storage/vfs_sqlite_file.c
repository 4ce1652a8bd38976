/*
 * vfs_sqlite_file.c - the methods of an open file, and the locks of a database.
 *
 * Locks. The locks of a database are byte ranges in a page that SQLite never
 * uses for data. All programs that open the database use the same ranges:
 *
 *     0x40000000  pending    +1  reserved    +2 .. +511  shared
 *
 * SHARED       holds `shared` for reading; takes `pending` on its way there
 * RESERVED     holds `reserved` for writing: one writer, readers go on
 * PENDING      holds `pending` for writing: no new readers
 * EXCLUSIVE    holds `shared` for writing: all readers have left
 *
 * The locks of a world belong to the open file, and each connection opens its
 * own file. So connections exclude each other in the same way within a process
 * and between processes, and no table of open files is needed.
 *
 * Invariant: `level` is never higher than what is locked. A change that fails
 * in the middle leaves the level of the steps that were done.
 */
#include "storage/vfs_sqlite_file.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "storage/vfs_sqlite_index.h"

#define PENDING_BYTE  UINT64_C(0x40000000)
#define RESERVED_BYTE (PENDING_BYTE + 1)
#define SHARED_FIRST  (PENDING_BYTE + 2)
#define SHARED_SIZE   UINT64_C(510)
#define ALL_SIZE      (SHARED_FIRST + SHARED_SIZE - PENDING_BYTE)

tri_vfs_file *tri_vfs_file_of(sqlite3_file *base)
{
    tri_vfs_file *it = tri_container_of(base, tri_vfs_file, base);

    TRI_CHECK(it->file != NULL);
    return it;
}

int tri_vfs_code(tr_err err, int code, const char *path)
{
    if (err == TR_OK) {
        return SQLITE_OK;
    }
    if (err == TR_ENOMEM) {
        return SQLITE_IOERR_NOMEM;
    }
    sqlite3_log(code, "%s: %s", path == NULL ? "temporary file" : path,
                tr_strerror(err));
    return code;
}

/* ---- reading and writing ---- */

static int vfs_read(sqlite3_file *base, void *at, int size,
                    sqlite3_int64 offset)
{
    tri_vfs_file *it = tri_vfs_file_of(base);
    size_t done = 0;

    TRI_CHECK(size >= 0);
    TRI_CHECK(offset >= 0);
    tr_err err =
        it->ops->file_read(it->file, at, (size_t)size, (uint64_t)offset, &done);
    if (err != TR_OK) {
        return tri_vfs_code(err, SQLITE_IOERR_READ, it->path);
    }
    if (done < (size_t)size) {
        // SQLite expects zeros after the end of the file.
        memset((char *)at + done, 0, (size_t)size - done);
        return SQLITE_IOERR_SHORT_READ;
    }
    return SQLITE_OK;
}

static int vfs_write(sqlite3_file *base, const void *at, int size,
                     sqlite3_int64 offset)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    TRI_CHECK(size >= 0);
    TRI_CHECK(offset >= 0);
    tr_err err =
        it->ops->file_write(it->file, at, (size_t)size, (uint64_t)offset);
    return tri_vfs_code(err, SQLITE_IOERR_WRITE, it->path);
}

static int vfs_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    TRI_CHECK(size >= 0);
    tri_vfs_file *it = tri_vfs_file_of(base);
    tr_err err = it->ops->file_truncate(it->file, (uint64_t)size);

    return tri_vfs_code(err, SQLITE_IOERR_TRUNCATE, it->path);
}

static int vfs_sync(sqlite3_file *base, int flags)
{
    (void)flags;  // a world has one kind of sync
    tri_vfs_file *it = tri_vfs_file_of(base);

    return tri_vfs_code(it->ops->file_sync(it->file), SQLITE_IOERR_FSYNC,
                        it->path);
}

static int vfs_file_size(sqlite3_file *base, sqlite3_int64 *out)
{
    tri_vfs_file *it = tri_vfs_file_of(base);
    uint64_t size = 0;
    tr_err err = it->ops->file_size(it->file, &size);

    *out = (sqlite3_int64)size;
    return tri_vfs_code(err, SQLITE_IOERR_FSTAT, it->path);
}

/* ---- locks of the database ---- */

/* Locks or unlocks a range of bytes. Returns an SQLite code. */
static int lock_range(tri_vfs_file *it, uint64_t first, uint64_t size, int lock)
{
    tr_err err = it->ops->file_lock(it->file, first, size, lock);

    if (err == TR_EFULL) {
        return SQLITE_BUSY;
    }
    return tri_vfs_code(
        err, lock == TRI_LOCK_NONE ? SQLITE_IOERR_UNLOCK : SQLITE_IOERR_LOCK,
        it->path);
}

/* Goes from NONE to SHARED. */
static int lock_shared(tri_vfs_file *it)
{
    int code = lock_range(it, PENDING_BYTE, 1, TRI_LOCK_SHARED);

    if (code != SQLITE_OK) {
        return code;
    }
    code = lock_range(it, SHARED_FIRST, SHARED_SIZE, TRI_LOCK_SHARED);
    int unlocked = lock_range(it, PENDING_BYTE, 1, TRI_LOCK_NONE);
    if (code == SQLITE_OK && unlocked == SQLITE_OK) {
        it->level = SQLITE_LOCK_SHARED;
        return SQLITE_OK;
    }
    // If this fails as well, the lock stays although `level` does not show it.
    // Closing the file ends it.
    (void)lock_range(it, PENDING_BYTE, ALL_SIZE, TRI_LOCK_NONE);
    return code != SQLITE_OK ? code : unlocked;
}

/* Goes to EXCLUSIVE, or as far as PENDING if readers are left. */
static int lock_exclusive(tri_vfs_file *it)
{
    int code;

    if (it->level < SQLITE_LOCK_PENDING) {
        code = lock_range(it, PENDING_BYTE, 1, TRI_LOCK_EXCLUSIVE);
        if (code != SQLITE_OK) {
            return code;
        }
        it->level = SQLITE_LOCK_PENDING;
    }
    code = lock_range(it, SHARED_FIRST, SHARED_SIZE, TRI_LOCK_EXCLUSIVE);
    if (code == SQLITE_OK) {
        it->level = SQLITE_LOCK_EXCLUSIVE;
    }
    return code;
}

static int vfs_lock(sqlite3_file *base, int level)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    if (it->level >= level) {
        return SQLITE_OK;
    }
    if (level == SQLITE_LOCK_SHARED) {
        return lock_shared(it);
    }
    // SQLite goes through SHARED to all higher levels.
    TRI_CHECK(it->level >= SQLITE_LOCK_SHARED);
    if (level == SQLITE_LOCK_EXCLUSIVE) {
        return lock_exclusive(it);
    }
    TRI_CHECK(level == SQLITE_LOCK_RESERVED);
    int code = lock_range(it, RESERVED_BYTE, 1, TRI_LOCK_EXCLUSIVE);
    if (code == SQLITE_OK) {
        it->level = SQLITE_LOCK_RESERVED;
    }
    return code;
}

static int unlock_to_shared(tri_vfs_file *it)
{
    if (it->level == SQLITE_LOCK_EXCLUSIVE) {
        int code = lock_range(it, SHARED_FIRST, SHARED_SIZE, TRI_LOCK_SHARED);
        if (code != SQLITE_OK) {
            // We hold this range alone, so it cannot be busy.
            return code == SQLITE_BUSY ? SQLITE_IOERR_RDLOCK : code;
        }
        it->level = SQLITE_LOCK_PENDING;
    }
    int code = lock_range(it, PENDING_BYTE, 2, TRI_LOCK_NONE);
    if (code == SQLITE_OK) {
        it->level = SQLITE_LOCK_SHARED;
    }
    return code;
}

static int vfs_unlock(sqlite3_file *base, int level)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    if (it->level <= level) {
        return SQLITE_OK;
    }
    if (level == SQLITE_LOCK_SHARED) {
        return unlock_to_shared(it);
    }
    TRI_CHECK(level == SQLITE_LOCK_NONE);
    int code = lock_range(it, PENDING_BYTE, ALL_SIZE, TRI_LOCK_NONE);
    if (code == SQLITE_OK) {
        it->level = SQLITE_LOCK_NONE;
    }
    return code;
}

/*
 * Finds out whether a connection has RESERVED. A world cannot tell who holds a
 * lock, so this takes the lock and drops it. A writer that tries to take it in
 * between gets "busy", and SQLite tries again.
 */
static int vfs_check_reserved(sqlite3_file *base, int *out)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    *out = 1;
    if (it->level >= SQLITE_LOCK_RESERVED) {
        return SQLITE_OK;
    }
    int code = lock_range(it, RESERVED_BYTE, 1, TRI_LOCK_SHARED);
    if (code == SQLITE_BUSY) {
        return SQLITE_OK;
    }
    *out = 0;
    if (code != SQLITE_OK) {
        return SQLITE_IOERR_CHECKRESERVEDLOCK;
    }
    return lock_range(it, RESERVED_BYTE, 1, TRI_LOCK_NONE);
}

/* ---- other methods ---- */

static int vfs_close(sqlite3_file *base)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    tri_vfs_index_close(it);
    it->ops->file_close(it->file);
    it->file = NULL;
    return SQLITE_OK;
}

static int vfs_file_control(sqlite3_file *base, int what, void *arg)
{
    tri_vfs_file *it = tri_vfs_file_of(base);

    if (what != SQLITE_FCNTL_VFSNAME) {
        return SQLITE_NOTFOUND;
    }
    *(char **)arg = sqlite3_mprintf("%s", it->vfs->name);
    return SQLITE_OK;
}

static int vfs_sector_size(sqlite3_file *base)
{
    (void)base;
    return TRI_VFS_SECTOR;
}

static int vfs_characteristics(sqlite3_file *base)
{
    (void)base;
    // A write that a crash interrupts damages no bytes outside of its range.
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* Version 2: with the shared index, without mapping the database. */
const sqlite3_io_methods tri_vfs_file_methods = {
    .iVersion = 2,
    .xClose = vfs_close,
    .xRead = vfs_read,
    .xWrite = vfs_write,
    .xTruncate = vfs_truncate,
    .xSync = vfs_sync,
    .xFileSize = vfs_file_size,
    .xLock = vfs_lock,
    .xUnlock = vfs_unlock,
    .xCheckReservedLock = vfs_check_reserved,
    .xFileControl = vfs_file_control,
    .xSectorSize = vfs_sector_size,
    .xDeviceCharacteristics = vfs_characteristics,
    .xShmMap = tri_vfs_shm_map,
    .xShmLock = tri_vfs_shm_lock,
    .xShmBarrier = tri_vfs_shm_barrier,
    .xShmUnmap = tri_vfs_shm_unmap,
};
