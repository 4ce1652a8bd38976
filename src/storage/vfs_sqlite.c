/*
 * vfs_sqlite.c - SQLite's calls, turned into those of a world.
 *
 * Locks. A database is locked by bytes that lie beyond its data (SQLite never
 * uses that page), as every program that has it open agrees:
 *
 *     0x40000000  pending    +1  reserved    +2 .. +511  shared
 *
 * SHARED       reads the shared bytes (and passes by pending to get there)
 * RESERVED     writes reserved: one writer prepares, readers go on
 * PENDING      writes pending: no new readers come in
 * EXCLUSIVE    writes the shared bytes: all readers have left
 *
 * A world's locks belong to the open file, and each connection opens its own,
 * so connections exclude each other in the same way whether they are in one
 * process or in two. There is no table of open files to keep.
 *
 * Invariant: `level` never says more than what is locked. A step that fails
 * in the middle of a change leaves the level of the steps before it.
 *
 * The index of the write-ahead log is memory that all connections map from
 * the file "<database>-shm". Its locks are bytes 120..127 of that file. Byte
 * 128 tells the living from the dead: each connection holds it shared while
 * it maps, so whoever gets it exclusively is alone, and what is in the file
 * was left by a crash and is thrown away.
 */
#include "storage/vfs_sqlite.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define PENDING_BYTE  UINT64_C(0x40000000)
#define RESERVED_BYTE (PENDING_BYTE + 1)
#define SHARED_FIRST  (PENDING_BYTE + 2)
#define SHARED_SIZE   UINT64_C(510)
#define ALL_SIZE      (SHARED_FIRST + SHARED_SIZE - PENDING_BYTE)

#define SHM_LOCK_FIRST UINT64_C(120)
#define SHM_ALIVE_BYTE (SHM_LOCK_FIRST + SQLITE_SHM_NLOCK)
#define SHM_SUFFIX     "-shm"
#define UNLOCK_RETRIES 3

#define PATH_SIZE_MAX   4096
#define NAME_SIZE       32
#define SECTOR_SIZE     4096
#define NANOS_PER_MICRO 1000
#define NANOS_PER_MS    1000000
#define MS_PER_DAY      86400000.0

/* Milliseconds from the start of the Julian calendar's days to 1970. */
#define JULIAN_MS_1970 INT64_C(210866760000000)

struct tri_sqlite_vfs {
    sqlite3_vfs base;
    tri_world *world;
    char name[NAME_SIZE];
};

/* The mapped index of a write-ahead log. */
typedef struct index_map {
    tri_file *file;  // NULL: not open
    void **regions;  // each NULL until it is asked for
    size_t count;
    size_t region_size;
} index_map;

/* SQLite makes room for this one; it holds zeros until xOpen has succeeded. */
typedef struct vfs_file {
    sqlite3_file base;
    tri_sqlite_vfs *vfs;
    const tri_world_ops *ops;
    tri_file *file;
    const char *path;  // SQLite's; lives as long as the file; NULL: temporary
    int level;         // SQLITE_LOCK_NONE .. SQLITE_LOCK_EXCLUSIVE
    index_map index;
} vfs_file;

static vfs_file *file_of(sqlite3_file *base)
{
    vfs_file *it = tri_container_of(base, vfs_file, base);

    TRI_CHECK(it->file != NULL);
    return it;
}

static tri_world *world_of(sqlite3_vfs *base)
{
    return tri_container_of(base, tri_sqlite_vfs, base)->world;
}

/* What to tell SQLite; `code` says what was tried, the log gets the reason. */
static int code_of(tr_err err, int code, const char *path)
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
    vfs_file *it = file_of(base);
    size_t done = 0;

    TRI_CHECK(size >= 0);
    tr_err err =
        it->ops->file_read(it->file, at, (size_t)size, (uint64_t)offset, &done);
    if (err != TR_OK) {
        return code_of(err, SQLITE_IOERR_READ, it->path);
    }
    if (done < (size_t)size) {
        // SQLite counts on zeros behind the end.
        memset((char *)at + done, 0, (size_t)size - done);
        return SQLITE_IOERR_SHORT_READ;
    }
    return SQLITE_OK;
}

static int vfs_write(sqlite3_file *base, const void *at, int size,
                     sqlite3_int64 offset)
{
    vfs_file *it = file_of(base);

    TRI_CHECK(size >= 0);
    tr_err err =
        it->ops->file_write(it->file, at, (size_t)size, (uint64_t)offset);
    return code_of(err, SQLITE_IOERR_WRITE, it->path);
}

static int vfs_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    vfs_file *it = file_of(base);
    tr_err err = it->ops->file_truncate(it->file, (uint64_t)size);

    return code_of(err, SQLITE_IOERR_TRUNCATE, it->path);
}

static int vfs_sync(sqlite3_file *base, int flags)
{
    (void)flags;  // data only, or all: a world knows one strength
    vfs_file *it = file_of(base);

    return code_of(it->ops->file_sync(it->file), SQLITE_IOERR_FSYNC, it->path);
}

static int vfs_file_size(sqlite3_file *base, sqlite3_int64 *out)
{
    vfs_file *it = file_of(base);
    uint64_t size = 0;
    tr_err err = it->ops->file_size(it->file, &size);

    *out = (sqlite3_int64)size;
    return code_of(err, SQLITE_IOERR_FSTAT, it->path);
}

/* ---- locks of the database ---- */

static int lock_range(vfs_file *it, uint64_t first, uint64_t size, int lock)
{
    tr_err err = it->ops->file_lock(it->file, first, size, lock);

    if (err == TR_EFULL) {
        return SQLITE_BUSY;
    }
    return code_of(
        err, lock == TRI_LOCK_NONE ? SQLITE_IOERR_UNLOCK : SQLITE_IOERR_LOCK,
        it->path);
}

static int lock_shared(vfs_file *it)
{
    int code = lock_range(it, PENDING_BYTE, 1, TRI_LOCK_SHARED);

    if (code != SQLITE_OK) {
        return code;
    }
    code = lock_range(it, SHARED_FIRST, SHARED_SIZE, TRI_LOCK_SHARED);
    int opened = lock_range(it, PENDING_BYTE, 1, TRI_LOCK_NONE);
    if (code == SQLITE_OK && opened == SQLITE_OK) {
        it->level = SQLITE_LOCK_SHARED;
        return SQLITE_OK;
    }
    // If this fails, too, the lock is held without being counted. Closing
    // the file ends it.
    (void)lock_range(it, PENDING_BYTE, ALL_SIZE, TRI_LOCK_NONE);
    return code != SQLITE_OK ? code : opened;
}

static int lock_exclusive(vfs_file *it)
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
    vfs_file *it = file_of(base);

    if (it->level >= level) {
        return SQLITE_OK;
    }
    if (level == SQLITE_LOCK_SHARED) {
        return lock_shared(it);
    }
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

static int unlock_to_shared(vfs_file *it)
{
    if (it->level == SQLITE_LOCK_EXCLUSIVE) {
        int code = lock_range(it, SHARED_FIRST, SHARED_SIZE, TRI_LOCK_SHARED);
        if (code != SQLITE_OK) {
            // Nobody can hold what we hold: busy would be a lie.
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
    vfs_file *it = file_of(base);

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
 * Says whether anybody has RESERVED. A world cannot be asked who holds a lock,
 * so this takes and returns it; a writer that comes in between is told "busy"
 * once, which SQLite repeats.
 */
static int vfs_check_reserved(sqlite3_file *base, int *out)
{
    vfs_file *it = file_of(base);

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

/* ---- the index of the write-ahead log ---- */

static int index_lock(vfs_file *it, uint64_t first, uint64_t size, int lock)
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
    return code_of(err, SQLITE_IOERR_SHMLOCK, it->path);
}

/* Joins those who map the index; the first one empties it. */
static int index_join(vfs_file *it)
{
    int code = index_lock(it, SHM_ALIVE_BYTE, 1, TRI_LOCK_EXCLUSIVE);

    if (code == SQLITE_OK) {
        tr_err err = it->ops->file_truncate(it->index.file, 0);
        code = code_of(err, SQLITE_IOERR_SHMOPEN, it->path);
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
    int length = snprintf(out, PATH_SIZE_MAX, "%s" SHM_SUFFIX, database);

    TRI_CHECK(length > 0);
    TRI_CHECK(length < PATH_SIZE_MAX);
}

static void index_close(vfs_file *it)
{
    index_map *index = &it->index;

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

static int index_open(vfs_file *it)
{
    char path[PATH_SIZE_MAX];

    TRI_CHECK(it->path != NULL);
    index_path(path, it->path);
    tr_err err =
        it->ops->file_open(it->vfs->world, &it->index.file, path,
                           TRI_FILE_READ | TRI_FILE_WRITE | TRI_FILE_CREATE);
    if (err != TR_OK) {
        return code_of(err, SQLITE_CANTOPEN, path);
    }
    int code = index_join(it);
    if (code != SQLITE_OK) {
        index_close(it);
    }
    return code;
}

/* Makes the list of regions long enough; the new ones are not mapped yet. */
static int index_reserve(index_map *index, size_t count)
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
static tr_err index_extend(vfs_file *it, uint64_t have, uint64_t wanted)
{
    static const char zeros[SECTOR_SIZE];

    while (have < wanted) {
        size_t size = (size_t)TRI_MIN(sizeof(zeros), wanted - have);
        TR_TRY(it->ops->file_write(it->index.file, zeros, size, have));
        have += size;
    }
    return TR_OK;
}

/* Maps region `i`. *out stays NULL if it is not there and may not be made. */
static int index_map_region(vfs_file *it, size_t i, bool extend, void **out)
{
    index_map *index = &it->index;
    uint64_t begin = (uint64_t)i * index->region_size;
    uint64_t end = begin + index->region_size;
    uint64_t have = 0;

    tr_err err = it->ops->file_size(index->file, &have);
    if (err != TR_OK) {
        return code_of(err, SQLITE_IOERR_SHMSIZE, it->path);
    }
    if (have < end && !extend) {
        return SQLITE_OK;
    }
    err = index_extend(it, have, end);
    if (err != TR_OK) {
        return code_of(err, SQLITE_IOERR_SHMSIZE, it->path);
    }
    err = it->ops->file_map(index->file, begin, index->region_size, out);
    return code_of(err, SQLITE_IOERR_SHMMAP, it->path);
}

static int vfs_shm_map(sqlite3_file *base, int region, int size, int extend,
                       void volatile **out)
{
    vfs_file *it = file_of(base);
    index_map *index = &it->index;
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

static int vfs_shm_lock(sqlite3_file *base, int offset, int count, int flags)
{
    vfs_file *it = file_of(base);
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

static void vfs_shm_barrier(sqlite3_file *base)
{
    (void)base;
    // SQLite orders its plain accesses to the mapped index by this call alone,
    // and its partner is the same call in another process: there is no atomic
    // object to name, so it must be a fence.
    atomic_thread_fence(memory_order_seq_cst);
}

static int vfs_shm_unmap(sqlite3_file *base, int remove)
{
    vfs_file *it = file_of(base);
    char path[PATH_SIZE_MAX];

    if (it->index.file == NULL) {
        return SQLITE_OK;
    }
    index_close(it);
    if (remove) {
        // SQLite has the database exclusively here, so nobody opens the index
        // meanwhile. A file that stays does no harm: the next one empties it.
        index_path(path, it->path);
        (void)it->ops->file_remove(it->vfs->world, path, false);
    }
    return SQLITE_OK;
}

/* ---- the rest of a file ---- */

static int vfs_close(sqlite3_file *base)
{
    vfs_file *it = file_of(base);

    index_close(it);
    it->ops->file_close(it->file);
    it->file = NULL;
    return SQLITE_OK;
}

static int vfs_file_control(sqlite3_file *base, int what, void *arg)
{
    vfs_file *it = file_of(base);

    if (what != SQLITE_FCNTL_VFSNAME) {
        return SQLITE_NOTFOUND;
    }
    *(char **)arg = sqlite3_mprintf("%s", it->vfs->name);
    return SQLITE_OK;
}

static int vfs_sector_size(sqlite3_file *base)
{
    (void)base;
    return SECTOR_SIZE;
}

static int vfs_characteristics(sqlite3_file *base)
{
    (void)base;
    // A write that is cut short by a crash harms no bytes beside its own.
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* Version 2: with the index of the log, without mapping the database. */
static const sqlite3_io_methods file_methods = {
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
    .xShmMap = vfs_shm_map,
    .xShmLock = vfs_shm_lock,
    .xShmBarrier = vfs_shm_barrier,
    .xShmUnmap = vfs_shm_unmap,
};

/* ---- the VFS ---- */

static uint32_t open_flags(int flags)
{
    uint32_t result = TRI_FILE_READ;

    if (flags & SQLITE_OPEN_READWRITE) {
        result |= TRI_FILE_WRITE;
    }
    if (flags & SQLITE_OPEN_CREATE) {
        result |= TRI_FILE_CREATE;
    }
    if (flags & SQLITE_OPEN_EXCLUSIVE) {
        result |= TRI_FILE_EXCLUSIVE;
    }
    if (flags & SQLITE_OPEN_DELETEONCLOSE) {
        result |= TRI_FILE_DELETE;
    }
    return result;
}

static int vfs_open(sqlite3_vfs *base, const char *name, sqlite3_file *out,
                    int flags, int *out_flags)
{
    tri_sqlite_vfs *vfs = tri_container_of(base, tri_sqlite_vfs, base);
    vfs_file *it = tri_container_of(out, vfs_file, base);
    char own_name[PATH_SIZE_MAX];
    const char *path = name;
    uint32_t how = open_flags(flags);

    memset(it, 0, sizeof(*it));
    if (name == NULL) {
        snprintf(own_name, sizeof(own_name), "%s/troupe-%016" PRIx64,
                 sqlite3_temp_directory != NULL ? sqlite3_temp_directory
                                                : P_tmpdir,
                 vfs->world->ops->random(vfs->world));
        path = own_name;
        how |= TRI_FILE_CREATE | TRI_FILE_EXCLUSIVE | TRI_FILE_DELETE;
    }
    tr_err err = vfs->world->ops->file_open(vfs->world, &it->file, path, how);
    if (err != TR_OK) {
        return code_of(err, SQLITE_CANTOPEN, path);
    }
    it->vfs = vfs;
    it->ops = vfs->world->ops;
    it->path = name;
    it->base.pMethods = &file_methods;
    if (out_flags != NULL) {
        *out_flags = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *base, const char *name, int sync_dir)
{
    tri_world *world = world_of(base);
    tr_err err = world->ops->file_remove(world, name, sync_dir != 0);

    if (err == TR_ENOENT) {
        return SQLITE_IOERR_DELETE_NOENT;
    }
    return code_of(err, SQLITE_IOERR_DELETE, name);
}

/* An empty file counts as none: a log or journal without a byte is not one. */
static int vfs_access(sqlite3_vfs *base, const char *name, int flags, int *out)
{
    tri_world *world = world_of(base);
    tri_file *file;
    uint64_t size = 0;

    *out = 0;
    if (flags != SQLITE_ACCESS_EXISTS) {
        bool exists = false;
        tr_err err = world->ops->file_exists(world, name, &exists);
        *out = exists;
        return code_of(err, SQLITE_IOERR_ACCESS, name);
    }
    tr_err err = world->ops->file_open(world, &file, name, TRI_FILE_READ);
    if (err == TR_ENOENT) {
        return SQLITE_OK;
    }
    if (err == TR_OK) {
        err = world->ops->file_size(file, &size);
        world->ops->file_close(file);
    }
    *out = size > 0;
    return code_of(err, SQLITE_IOERR_ACCESS, name);
}

static int vfs_full_path(sqlite3_vfs *base, const char *name, int size,
                         char *out)
{
    (void)base;
    size_t length = strlen(name);

    if (length + 1 > (size_t)size) {
        return SQLITE_CANTOPEN;
    }
    memcpy(out, name, length + 1);
    return SQLITE_OK;
}

/* SQLite's extensions are not loaded through a world. */
static void *vfs_no_library(sqlite3_vfs *base, const char *name)
{
    (void)base;
    (void)name;
    return NULL;
}

static void vfs_no_library_text(sqlite3_vfs *base, int size, char *out)
{
    (void)base;
    sqlite3_snprintf(size, out, "extensions cannot be loaded");
}

static void (*vfs_no_symbol(sqlite3_vfs *base, void *library,
                            const char *name))(void)
{
    (void)base;
    (void)library;
    (void)name;
    return NULL;
}

static void vfs_no_close(sqlite3_vfs *base, void *library)
{
    (void)base;
    (void)library;
}

static int vfs_randomness(sqlite3_vfs *base, int size, char *out)
{
    tri_world *world = world_of(base);
    int done = 0;

    while (done < size) {
        uint64_t draw = world->ops->random(world);
        size_t part = (size_t)TRI_MIN(sizeof(draw), (uint64_t)(size - done));
        memcpy(out + done, &draw, part);
        done += (int)part;
    }
    return done;
}

static int vfs_sleep(sqlite3_vfs *base, int micros)
{
    tri_world *world = world_of(base);
    _Atomic(uint32_t) never = 0;  // nobody changes it, so only time ends it
    tr_nanos end = world->ops->mono(world) + (tr_nanos)micros * NANOS_PER_MICRO;

    for (;;) {
        tr_nanos left = end - world->ops->mono(world);
        if (left <= 0 || !world->ops->park(world, &never, 0, left)) {
            return micros;
        }
    }
}

static int vfs_time(sqlite3_vfs *base, sqlite3_int64 *out)
{
    tri_world *world = world_of(base);

    *out = JULIAN_MS_1970 + world->ops->wall(world) / NANOS_PER_MS;
    return SQLITE_OK;
}

static int vfs_time_days(sqlite3_vfs *base, double *out)
{
    sqlite3_int64 ms = 0;
    int code = vfs_time(base, &ms);

    *out = (double)ms / MS_PER_DAY;
    return code;
}

static int vfs_last_error(sqlite3_vfs *base, int size, char *out)
{
    (void)base;
    (void)size;
    (void)out;
    return 0;  // the reason went to SQLite's log when it was known
}

/*
 * SQLite has one generator for the process and seeds it from its default VFS.
 * In a world that is decided by a seed, that must decide this, too: ours is
 * the default while the generator begins anew. Such a world is one thread.
 */
static void seed_from_world(tri_sqlite_vfs *vfs)
{
    sqlite3_vfs *old = sqlite3_vfs_find(NULL);
    char first;

    if (sqlite3_vfs_register(&vfs->base, 1) != SQLITE_OK) {
        return;
    }
    sqlite3_randomness(0, NULL);
    sqlite3_randomness(sizeof(first), &first);
    if (old != NULL) {
        (void)sqlite3_vfs_register(old, 1);
    }
}

tr_err tri_sqlite_vfs_open(tri_sqlite_vfs **out, tri_world *world)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    *out = NULL;

    tri_sqlite_vfs *vfs = calloc(1, sizeof(*vfs));
    if (vfs == NULL) {
        return TR_ENOMEM;
    }
    vfs->world = world;
    // The address is what no other registered one can have.
    snprintf(vfs->name, sizeof(vfs->name), "troupe-%" PRIxPTR, (uintptr_t)vfs);
    vfs->base = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = sizeof(vfs_file),
        .mxPathname = PATH_SIZE_MAX - sizeof(SHM_SUFFIX),
        .zName = vfs->name,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xDlOpen = vfs_no_library,
        .xDlError = vfs_no_library_text,
        .xDlSym = vfs_no_symbol,
        .xDlClose = vfs_no_close,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time_days,
        .xGetLastError = vfs_last_error,
        .xCurrentTimeInt64 = vfs_time,
    };
    int code = sqlite3_vfs_register(&vfs->base, 0);
    if (code != SQLITE_OK) {
        free(vfs);
        return code == SQLITE_NOMEM ? TR_ENOMEM : TR_ESTORAGE;
    }
    if (!world->ops->has_threads) {
        seed_from_world(vfs);
    }
    *out = vfs;
    return TR_OK;
}

const char *tri_sqlite_vfs_name(const tri_sqlite_vfs *vfs)
{
    return vfs->name;
}

void tri_sqlite_vfs_close(tri_sqlite_vfs *vfs)
{
    if (vfs == NULL) {
        return;
    }
    TRI_CHECK(sqlite3_vfs_unregister(&vfs->base) == SQLITE_OK);
    free(vfs);
}
