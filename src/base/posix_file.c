/*
 * posix_file.c - files of the real world: read, write, sync, lock, map.
 *
 * A new file survives a crash only if its directory has been synced as well;
 * the first sync of a file syncs both.
 */
#define _GNU_SOURCE  // F_OFD_SETLK

#include "base/posix_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/pages.h"
#include "base/world_posix.h"

#define FILE_MODE 0644  // before the process's umask

struct tri_file {
    int fd;
    bool writable;
    // True once the file's name is durable in its directory. Atomic, because
    // threads may share a file; two of them may both sync the directory.
    atomic_bool name_synced;
    char path[];
};

static int open_flags(uint32_t flags)
{
    int result = O_CLOEXEC;

    TRI_CHECK(flags & (TRI_FILE_READ | TRI_FILE_WRITE));
    if (!(flags & TRI_FILE_WRITE)) {
        result |= O_RDONLY;
    } else {
        // Also for writing alone: read locks and maps need both.
        result |= O_RDWR;
    }
    if (flags & TRI_FILE_CREATE) {
        result |= O_CREAT;
    }
    if (flags & TRI_FILE_EXCLUSIVE) {
        result |= O_EXCL;
    }
    return result;
}

/*
 * Syncs the directory of `path`, in which a name was added or removed. Returns
 * TR_OK for a missing directory: the name in it is gone.
 */
static tr_err sync_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    char *dir;

    if (slash == NULL) {
        dir = strdup(".");
    } else {
        dir = strndup(path, length == 0 ? 1 : length);
    }
    if (dir == NULL) {
        return TR_ENOMEM;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = fd < 0 ? errno : 0;
    free(dir);
    if (fd < 0) {
        return number == ENOENT ? TR_OK : tri_posix_err(number);
    }
    tr_err err = fsync(fd) == 0 ? TR_OK : tri_posix_err(errno);
    close(fd);
    return err;
}

static int open_uninterrupted(const char *path, int flags)
{
    int fd;

    do {
        fd = open(path, flags, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

tr_err tri_posix_file_open(tri_world *world, tri_file **out, const char *path,
                           uint32_t flags)
{
    (void)world;
    TRI_CHECK(out != NULL);
    TRI_CHECK(path != NULL);
    *out = NULL;

    size_t size = strlen(path) + 1;
    tri_file *file = calloc(1, sizeof(*file) + size);
    if (file == NULL) {
        return TR_ENOMEM;
    }
    file->fd = open_uninterrupted(path, open_flags(flags));
    if (file->fd < 0) {
        tr_err err = tri_posix_err(errno);
        free(file);
        return err;
    }
    file->writable = (flags & TRI_FILE_WRITE) != 0;
    memcpy(file->path, path, size);
    if (flags & TRI_FILE_DELETE) {
        // Now rather than at close, so that it is gone after a crash as well.
        (void)unlink(path);
    }
    // Only a name that this call may have added has to be synced.
    atomic_init(&file->name_synced, (flags & TRI_FILE_CREATE) == 0 ||
                                        (flags & TRI_FILE_DELETE) != 0);
    *out = file;
    return TR_OK;
}

void tri_posix_file_close(tri_file *file)
{
    if (file == NULL) {
        return;
    }
    // The result is ignored: Linux frees the descriptor in every case.
    (void)close(file->fd);
    free(file);
}

static bool range_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

tr_err tri_posix_file_read(tri_file *file, void *at, size_t size,
                           uint64_t offset, size_t *done)
{
    TRI_CHECK(file != NULL);
    TRI_CHECK(at != NULL || size == 0);
    size_t have = 0;

    *done = 0;
    if (!range_fits(offset, size)) {
        return TR_EINVAL;
    }
    while (have < size) {
        ssize_t got = pread(file->fd, (char *)at + have, size - have,
                            (off_t)(offset + have));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return tri_posix_err(errno);
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    *done = have;
    return TR_OK;
}

tr_err tri_posix_file_write(tri_file *file, const void *at, size_t size,
                            uint64_t offset)
{
    TRI_CHECK(file != NULL);
    TRI_CHECK(at != NULL || size == 0);
    size_t have = 0;

    if (!range_fits(offset, size)) {
        return TR_EINVAL;
    }
    while (have < size) {
        ssize_t put = pwrite(file->fd, (const char *)at + have, size - have,
                             (off_t)(offset + have));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return tri_posix_err(errno);
        }
        if (put == 0) {
            return TR_EIO;  // no progress and no errno
        }
        have += (size_t)put;
    }
    return TR_OK;
}

/* Syncs the file, and the directory too if the name may be new. */
tr_err tri_posix_file_sync(tri_file *file)
{
    TRI_CHECK(file != NULL);
    int result;

    do {
        result = fdatasync(file->fd);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return tri_posix_err(errno);
    }
    // Relaxed, here and below: the flag publishes nothing.
    if (atomic_load_explicit(&file->name_synced, memory_order_relaxed)) {
        return TR_OK;
    }
    tr_err err = sync_dir_of(file->path);
    if (err == TR_OK) {
        atomic_store_explicit(&file->name_synced, true, memory_order_relaxed);
    }
    return err;
}

tr_err tri_posix_file_truncate(tri_file *file, uint64_t size)
{
    TRI_CHECK(file != NULL);
    int result;

    if (size > INT64_MAX) {
        return TR_EINVAL;
    }
    do {
        result = ftruncate(file->fd, (off_t)size);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? TR_OK : tri_posix_err(errno);
}

tr_err tri_posix_file_size(tri_file *file, uint64_t *out)
{
    TRI_CHECK(file != NULL);
    TRI_CHECK(out != NULL);
    struct stat status;

    *out = 0;
    if (fstat(file->fd, &status) != 0) {
        return tri_posix_err(errno);
    }
    *out = (uint64_t)status.st_size;
    return TR_OK;
}

/*
 * Locks a range for the open file (F_OFD_SETLK), not for the process: two opens
 * in one process exclude each other, and closing one keeps the other's locks.
 */
tr_err tri_posix_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                           int lock)
{
    static const short kinds[] = {[TRI_LOCK_NONE] = F_UNLCK,
                                  [TRI_LOCK_SHARED] = F_RDLCK,
                                  [TRI_LOCK_EXCLUSIVE] = F_WRLCK};
    int result;

    TRI_CHECK(lock >= TRI_LOCK_NONE && lock <= TRI_LOCK_EXCLUSIVE);
    // The kernel would take a size of 0 as "to the end of the file".
    if (size == 0 || !range_fits(offset, size)) {
        return TR_EINVAL;
    }
    struct flock range = {.l_type = kinds[lock],
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)offset,
                          .l_len = (off_t)size};
    do {
        result = fcntl(file->fd, F_OFD_SETLK, &range);
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
        return TR_OK;
    }
    return errno == EAGAIN || errno == EACCES ? TR_EFULL : tri_posix_err(errno);
}

/*
 * Maps a range that may begin at any offset: the kernel maps whole pages, so
 * the mapping begins at the page boundary below. Errors: TR_EINVAL (the range
 * reaches beyond the end of the file, where an access would raise SIGBUS),
 * TR_ENOMEM, TR_EIO.
 */
tr_err tri_posix_file_map(tri_file *file, uint64_t offset, size_t size,
                          void **out)
{
    TRI_CHECK(file != NULL);
    TRI_CHECK(out != NULL);
    uint64_t end;

    *out = NULL;
    tr_err err = tri_posix_file_size(file, &end);
    if (err != TR_OK) {
        return err;
    }
    if (size == 0 || offset > end || size > end - offset) {
        return TR_EINVAL;
    }
    size_t lead = (size_t)(offset % tri_page_size());
    int access = PROT_READ | (file->writable ? PROT_WRITE : 0);
    char *base = mmap(NULL, size + lead, access, MAP_SHARED, file->fd,
                      (off_t)(offset - lead));
    if (base == MAP_FAILED) {
        return tri_posix_err(errno);
    }
    *out = base + lead;
    return TR_OK;
}

void tri_posix_file_unmap(tri_file *file, void *at, size_t size)
{
    (void)file;
    TRI_CHECK(at != NULL);
    size_t lead = (uintptr_t)at % tri_page_size();

    TRI_CHECK(munmap((char *)at - lead, size + lead) == 0);
}

tr_err tri_posix_file_remove(tri_world *world, const char *path, bool sync_dir)
{
    (void)world;
    TRI_CHECK(path != NULL);
    if (unlink(path) != 0) {
        return tri_posix_err(errno);
    }
    return sync_dir ? sync_dir_of(path) : TR_OK;
}

tr_err tri_posix_file_rename(tri_world *world, const char *path,
                             const char *new_path)
{
    (void)world;
    TRI_CHECK(path != NULL);
    TRI_CHECK(new_path != NULL);
    if (rename(path, new_path) != 0) {
        return tri_posix_err(errno);
    }
    return sync_dir_of(new_path);
}

tr_err tri_posix_file_exists(tri_world *world, const char *path, bool *out)
{
    (void)world;
    TRI_CHECK(path != NULL);
    struct stat status;

    *out = stat(path, &status) == 0;
    if (*out || errno == ENOENT || errno == ENOTDIR) {
        return TR_OK;
    }
    return tri_posix_err(errno);
}
