/*
 * vfs_sqlite_index.c - the index of a write-ahead log, shared by all
 * connections.
 *
 * The index is memory that all connections map from the file
 * "<database>-shm". Its locks are bytes 120..127 of that file. Each connection
 * holds byte 128 shared while it has the index open. A connection that gets
 * byte 128 exclusively is the only one: the contents of the file are left over
 * from a crash, and it empties the file.
 *
 * Invariant: a connection that has the index open holds byte 128, so that no
 * other one empties the file. All mapped regions are allocated on the disk.
 */
#include "storage/vfs_sqlite_index.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "storage/vfs_sqlite.h"
#include "troupe/base.h"

#define SHM_LOCK_FIRST UINT64_C(120)
#define SHM_ALIVE_BYTE (SHM_LOCK_FIRST + SQLITE_SHM_NLOCK)
#define UNLOCK_RETRIES 3

static int index_lock(tri_vfs_file *it, uint64_t first, uint64_t size, int lock)
{
    tr_err err = it->ops->file_lock(it->index.file, first, size, lock);

    // SQLite ignores the result of an unlock, and a lock that stays would keep
    // all others waiting until this connection is closed: so retry.
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

/* Takes byte 128; the first connection empties the file. */
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
    // Busy here: another connection is emptying the file. SQLite tries again.
    return index_lock(it, SHM_ALIVE_BYTE, 1, TRI_LOCK_SHARED);
}

static void index_path(char *out, const char *database)
{
    // Paths are limited so that the suffix fits: mxPathname in vfs_sqlite.c.
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
        it->ops->file_close(index->file);  // ends all its locks
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
        return tri_vfs_open_failed(it->vfs, err, path);
    }
    int code = index_join(it);
    if (code != SQLITE_OK) {
        tri_vfs_index_close(it);
    }
    return code;
}

/* Makes room for `count` regions; new ones are not mapped yet. */
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
 * Makes the file `wanted` bytes long by writing zeros. Truncating it to that
 * length would leave a hole, and on a full disk a later access to the hole
 * would raise SIGBUS. Only the connection with the writer's lock extends the
 * file, so no other one writes here.
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

/* Maps region `i`. *out stays NULL if it does not exist and !extend. */
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
    // SQLite orders its plain accesses to the mapped index by this call alone.
    // It pairs with the same call in another process. There is no atomic object
    // to name, so it must be a fence.
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
        // SQLite holds the database exclusively here, so no connection opens
        // the index now. A file that stays does no harm: the next connection
        // empties it.
        index_path(path, it->path);
        (void)it->ops->file_remove(it->vfs->world, path, false);
    }
    return SQLITE_OK;
}
