/*
 * vfs_sqlite_index.c - the index of a write-ahead log, shared by all.
 *
 * The index is memory that all connections map from the file
 * "<database>-shm". Its locks are bytes 120..127 of that file. Byte 128 tells
 * the living from the dead: each connection holds it shared while it maps, so
 * whoever gets it exclusively is alone, and what is in the file was left by a
 * crash and is thrown away.
 *
 * Invariant: while a connection has the index open it holds byte 128, so
 * nobody empties what it has mapped. What is mapped has room on the disk.
 */
#include "storage/vfs_sqlite_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define SHM_LOCK_FIRST UINT64_C(120)
#define SHM_ALIVE_BYTE (SHM_LOCK_FIRST + SQLITE_SHM_NLOCK)
#define UNLOCK_RETRIES 3

static int index_lock(tri_vfs_file *it, uint64_t first, uint64_t size, int lock)
{
    tr_err err = it->ops->file_lock(it->index.file, first, size, lock);

    // SQLite does not look at what an unlock answers, and a lock that stays
    // keeps all others waiting until this connection is closed.
    for (int i = 0; i < UNLOCK_RETRIES && lock == TRI_LOCK_NONE; i++) {
        if (err == TR_OK) {
            break;
        }
        err = it->ops->file_lock(it->index.file, first, size, lock);
    }
    if (err == TR_EFULL) {
        return SQLITE_BUSY;
    }
    return tri_vfs_code(err, SQLITE_IOERR_SHMLOCK, it->path);
}

/* Joins those who map the index; the first one empties it. */
static int index_join(tri_vfs_file *it)
{
    int code = index_lock(it, SHM_ALIVE_BYTE, 1, TRI_LOCK_EXCLUSIVE);

    if (code == SQLITE_OK) {
        tr_err err = it->ops->file_truncate(it->index.file, 0);
        code = tri_vfs_code(err, SQLITE_IOERR_SHMOPEN, it->path);
    } else if (code == SQLITE_BUSY) {
        code = SQLITE_OK;
    }
    if (code != SQLITE_OK) {
        return code;
    }
    // Busy here: the first one is emptying it right now. SQLite tries again.
    return index_lock(it, SHM_ALIVE_BYTE, 1, TRI_LOCK_SHARED);
}

static void index_path(char *out, const char *database)
{
    // xOpen has left room.
    int length =
        snprintf(out, TRI_VFS_PATH_MAX, "%s" TRI_VFS_INDEX_SUFFIX, database);

    TRI_CHECK(length > 0);
    TRI_CHECK(length < TRI_VFS_PATH_MAX);
}

void tri_vfs_index_close(tri_vfs_file *it)
{
    tri_vfs_index *index = &it->index;

    for (size_t i = 0; i < index->count; i++) {
        if (index->regions[i] != NULL) {
            it->ops->file_unmap(index->file, index->regions[i],
                                index->region_size);
        }
    }
    free(index->regions);
    if (index->file != NULL) {
        it->ops->file_close(index->file);  // and with it all its locks
    }
    memset(index, 0, sizeof(*index));
}

static int index_open(tri_vfs_file *it)
{
    char path[TRI_VFS_PATH_MAX];

    TRI_CHECK(it->path != NULL);
    index_path(path, it->path);
    tr_err err =
        it->ops->file_open(it->vfs->world, &it->index.file, path,
                           TRI_FILE_READ | TRI_FILE_WRITE | TRI_FILE_CREATE);
    if (err != TR_OK) {
        return tri_vfs_not_opened(it->vfs, err, path);
    }
    int code = index_join(it);
    if (code != SQLITE_OK) {
        tri_vfs_index_close(it);
    }
    return code;
}

/* Makes the list of regions long enough; the new ones are not mapped yet. */
static int index_reserve(tri_vfs_index *index, size_t count)
{
    if (count <= index->count) {
        return SQLITE_OK;
    }
    void **regions = realloc(index->regions, count * sizeof(*regions));
    if (regions == NULL) {
        return SQLITE_IOERR_NOMEM;
    }
    memset(regions + index->count, 0,
           (count - index->count) * sizeof(*regions));
    index->regions = regions;
    index->count = count;
    return SQLITE_OK;
}

/*
 * Makes the file `wanted` bytes long by writing zeros. To only truncate would
 * leave a hole, and a full disk would then be a SIGBUS at some later touch.
 * Only the holder of the writer's lock extends, so nobody else writes here.
 */
static tr_err index_extend(tri_vfs_file *it, uint64_t have, uint64_t wanted)
{
    static const char zeros[TRI_VFS_SECTOR];

    while (have < wanted) {
        size_t size = (size_t)TRI_MIN(sizeof(zeros), wanted - have);
        TR_TRY(it->ops->file_write(it->index.file, zeros, size, have));
        have += size;
    }
    return TR_OK;
}

/* Maps region `i`. *out stays NULL if it is not there and may not be made. */
static int index_map_region(tri_vfs_file *it, size_t i, bool extend, void **out)
{
    tri_vfs_index *index = &it->index;
    uint64_t begin = (uint64_t)i * index->region_size;
    uint64_t end = begin + index->region_size;
    uint64_t have = 0;

    tr_err err = it->ops->file_size(index->file, &have);
    if (err != TR_OK) {
        return tri_vfs_code(err, SQLITE_IOERR_SHMSIZE, it->path);
    }
    if (have < end && !extend) {
        return SQLITE_OK;
    }
    err = index_extend(it, have, end);
    if (err != TR_OK) {
        return tri_vfs_code(err, SQLITE_IOERR_SHMSIZE, it->path);
    }
    err = it->ops->file_map(index->file, begin, index->region_size, out);
    return tri_vfs_code(err, SQLITE_IOERR_SHMMAP, it->path);
}

int tri_vfs_shm_map(sqlite3_file *base, int region, int size, int extend,
                    void volatile **out)
{
    tri_vfs_file *it = tri_vfs_file_of(base);
    tri_vfs_index *index = &it->index;
    int code = SQLITE_OK;

    *out = NULL;
    TRI_CHECK(region >= 0);
    TRI_CHECK(size > 0);
    if (index->file == NULL) {
        code = index_open(it);
        if (code != SQLITE_OK) {
            return code;
        }
        index->region_size = (size_t)size;
    }
    TRI_CHECK(index->region_size == (size_t)size);
    code = index_reserve(index, (size_t)region + 1);
    if (code == SQLITE_OK && index->regions[region] == NULL) {
        code = index_map_region(it, (size_t)region, extend != 0,
                                &index->regions[region]);
    }
    if (code == SQLITE_OK) {
        *out = index->regions[region];
    }
    return code;
}

int tri_vfs_shm_lock(sqlite3_file *base, int offset, int count, int flags)
{
    tri_vfs_file *it = tri_vfs_file_of(base);
    int lock = TRI_LOCK_NONE;

    TRI_CHECK(offset >= 0);
    TRI_CHECK(count >= 1);
    TRI_CHECK(offset + count <= SQLITE_SHM_NLOCK);
    if (it->index.file == NULL) {
        return SQLITE_IOERR_SHMLOCK;
    }
    if (flags & SQLITE_SHM_LOCK) {
        lock =
            (flags & SQLITE_SHM_SHARED) ? TRI_LOCK_SHARED : TRI_LOCK_EXCLUSIVE;
    }
    return index_lock(it, SHM_LOCK_FIRST + (uint64_t)offset, (uint64_t)count,
                      lock);
}

void tri_vfs_shm_barrier(sqlite3_file *base)
{
    (void)base;
    // SQLite orders its plain accesses to the mapped index by this call alone,
    // and its partner is the same call in another process: there is no atomic
    // object to name, so it must be a fence.
    atomic_thread_fence(memory_order_seq_cst);
}

int tri_vfs_shm_unmap(sqlite3_file *base, int remove)
{
    tri_vfs_file *it = tri_vfs_file_of(base);
    char path[TRI_VFS_PATH_MAX];

    if (it->index.file == NULL) {
        return SQLITE_OK;
    }
    tri_vfs_index_close(it);
    if (remove) {
        // SQLite has the database exclusively here, so nobody opens the index
        // meanwhile. A file that stays does no harm: the next one empties it.
        index_path(path, it->path);
        (void)it->ops->file_remove(it->vfs->world, path, false);
    }
    return SQLITE_OK;
}
