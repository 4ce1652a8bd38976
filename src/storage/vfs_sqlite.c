/*
 * vfs_sqlite.c - the VFS: opens and removes files by name, and gives SQLite
 * the time and random numbers. The methods of an open file are in
 * vfs_sqlite_file.c.
 *
 * Invariant: all that SQLite gets from the operating system comes from the
 * world that the VFS was opened for. The VFS has no state of its own, so a
 * simulated run depends only on its world.
 */
#include "storage/vfs_sqlite.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "storage/vfs_sqlite_file.h"

#define NANOS_PER_MICRO 1000
#define NANOS_PER_MS    1000000
#define MS_PER_DAY      86400000.0

/* Milliseconds from the first Julian day to 1970. */
#define JULIAN_MS_1970 INT64_C(210866760000000)

static tri_world *world_of(sqlite3_vfs *base)
{
    return tri_container_of(base, tri_sqlite_vfs, base)->world;
}

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
    tri_vfs_file *it = tri_container_of(out, tri_vfs_file, base);
    char own_name[TRI_VFS_PATH_MAX];
    const char *path = name;
    uint32_t how = open_flags(flags);

    memset(it, 0, sizeof(*it));
    if (name == NULL) {  // a temporary file
        snprintf(own_name, sizeof(own_name), "%s/troupe-%016" PRIx64,
                 sqlite3_temp_directory != NULL ? sqlite3_temp_directory
                                                : P_tmpdir,
                 vfs->world->ops->random(vfs->world));
        path = own_name;
        how |= TRI_FILE_CREATE | TRI_FILE_EXCLUSIVE | TRI_FILE_DELETE;
    }
    tr_err err = vfs->world->ops->file_open(vfs->world, &it->file, path, how);
    if (err != TR_OK) {
        return tri_vfs_open_failed(vfs, err, path);
    }
    it->vfs = vfs;
    it->ops = vfs->world->ops;
    it->path = name;
    it->base.pMethods = &tri_vfs_file_methods;
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
    return tri_vfs_code(err, SQLITE_IOERR_DELETE, name);
}

/* An empty file does not exist for SQLite: it is no log and no journal. */
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
        return tri_vfs_code(err, SQLITE_IOERR_ACCESS, name);
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
    return tri_vfs_code(err, SQLITE_IOERR_ACCESS, name);
}

static int vfs_full_path(sqlite3_vfs *base, const char *name, int size,
                         char *out)
{
    tri_sqlite_vfs *vfs = tri_container_of(base, tri_sqlite_vfs, base);
    size_t length = strlen(name);

    if (length + 1 > (size_t)size) {
        return tri_vfs_open_failed(vfs, TR_EINVAL, name);
    }
    memcpy(out, name, length + 1);
    return SQLITE_OK;
}

/* Extensions of SQLite cannot be loaded through a world. */
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
    _Atomic(uint32_t) never = 0;  // no thread changes it: only the time ends it
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
    tri_sqlite_vfs *vfs = tri_container_of(base, tri_sqlite_vfs, base);

    (void)size;
    (void)out;
    // Relaxed: only a hint, with no other data. Other errors are in SQLite's
    // log.
    return (int)atomic_load_explicit(&vfs->open_error, memory_order_relaxed);
}

/*
 * Seeds SQLite's random numbers from the world. SQLite has one generator for
 * the process and seeds it from its default VFS. A simulated run must depend
 * only on the seed of its world, so our VFS is the default while the generator
 * is seeded again. A simulated world has one thread.
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
    // The address makes the name unique among the registered VFSs.
    snprintf(vfs->name, sizeof(vfs->name), "troupe-%" PRIxPTR, (uintptr_t)vfs);
    vfs->base = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = sizeof(tri_vfs_file),
        .mxPathname = TRI_VFS_PATH_MAX - sizeof(TRI_VFS_INDEX_SUFFIX),
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
    TRI_CHECK(vfs != NULL);
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
