/*
 * file.h - files in straight-line code.
 *
 * A handler that calls one of these parks while a thread for blocking calls
 * (tr_blocking) does the work; outside of handlers the calling thread does it.
 * There are no timeouts: a disk cannot be interrupted. If a handler is ended
 * while it waits, what it has asked for still happens.
 *
 * In a simulated world every node has a disk of its own, which starts empty and
 * is as tr_faults says: operations fail, writes are torn, lost or misdirected,
 * reads are wrong, a kill loses what was not synced. It has no folders: a path
 * is a name, and every folder exists.
 *
 * Threads: any; several calls may use one file at the same time.
 * Ownership: a file belongs to the actor that opened it and is closed at the
 * end of that incarnation, if tr_file_close was not called before. A file that
 * was opened outside of actors belongs to the program, which closes it before
 * the system. A file must not be used after its end. Paths are borrowed for
 * the call; buffers are, too, also if the handler is ended meanwhile.
 * Errors of all calls: TR_EIO (the disk has failed, or is full), TR_ENOMEM,
 * TR_ELIMIT (descriptors, threads), TR_EFOREIGN (the file belongs to another
 * system), TR_EWOULDBLOCK (`sys` inside a handler), TR_ECLOSED (the file was
 * closed); in a handler an ended-wait error (actor.h).
 */
#ifndef TROUPE_FILE_H
#define TROUPE_FILE_H

#include <stddef.h>
#include <troupe/base.h>

typedef struct tr_file tr_file;  // an open file

/* How a file is opened. */
enum {
    TR_FILE_READ = 1,
    TR_FILE_WRITE = 2,      // also allows to read
    TR_FILE_CREATE = 4,     // make the file if there is none
    TR_FILE_EXCLUSIVE = 8,  // with CREATE: TR_EEXIST if there is one
};

TR_BEGIN_DECLS

/*
 * Opens a file. flags: TR_FILE_*, at least READ or WRITE.
 * Errors: TR_ENOENT, TR_EEXIST, TR_EINVAL (the flags; a folder; not a path),
 * TR_EIO (also: no right).
 */
TR_API TR_NODISCARD tr_err tr_file_open(tr_from from, tr_file **out,
                                        const char *path, uint32_t flags);
/*
 * Reads size bytes at an offset; fewer, or none, only at the end of the file.
 * Errors: TR_EINVAL (the offset).
 */
TR_API TR_NODISCARD tr_err tr_file_read(tr_from from, tr_file *file, void *buf,
                                        size_t size, uint64_t offset,
                                        size_t *got);
/*
 * Writes all bytes at an offset, also beyond the end. They survive a crash
 * after the next tr_file_sync. After an error an unknown part is written.
 * Errors: TR_EINVAL (the offset, or not opened for writing).
 */
TR_API TR_NODISCARD tr_err tr_file_write(tr_from from, tr_file *file,
                                         const void *bytes, size_t size,
                                         uint64_t offset);
/*
 * Makes everything that was written durable, and the name of a new file. After
 * an error it is unknown what is durable, and a later TR_OK does not tell.
 */
TR_API TR_NODISCARD tr_err tr_file_sync(tr_from from, tr_file *file);
/*
 * Cuts the file off at a size, or makes it longer with zeros.
 * Errors: TR_EINVAL (the size, or not opened for writing).
 */
TR_API TR_NODISCARD tr_err tr_file_resize(tr_from from, tr_file *file,
                                          uint64_t size);
/* Stores how many bytes the file has. */
TR_API TR_NODISCARD tr_err tr_file_size(tr_from from, tr_file *file,
                                        uint64_t *size);
/*
 * Closes the file; NULL is allowed. Does not sync. Calls in progress end
 * normally.
 */
TR_API void tr_file_close(tr_from from, tr_file *file);

/*
 * Reads a whole file into a buffer.
 * Errors: TR_ENOENT, TR_EINVAL (not a path), TR_ELIMIT (the file has more than
 * size bytes; *got are stored).
 */
TR_API TR_NODISCARD tr_err tr_file_load(tr_from from, const char *path,
                                        void *buf, size_t size, size_t *got);
/*
 * Writes a whole file at once: after a crash the path has the old content or
 * the new one, and after TR_OK the new one. Readers see one of them, too. Needs
 * a second file for a moment, PATH.<16 digits>.new, which a crash may leave.
 * After an error the old content is still there, except that the last step, to
 * make the new name durable, may have failed: then both are possible.
 * Errors: TR_ENOENT (no such folder), TR_EINVAL (not a path).
 */
TR_API TR_NODISCARD tr_err tr_file_save(tr_from from, const char *path,
                                        const void *bytes, size_t size);
/*
 * Removes a file, durably.
 * Errors: TR_ENOENT, TR_EINVAL (not a path).
 */
TR_API TR_NODISCARD tr_err tr_file_remove(tr_from from, const char *path);

TR_END_DECLS

#ifndef __cplusplus

#define tr_file_open(from, out, path, flags)                                   \
    __extension__(tr_file_open)((from), (out), (path), (flags))
#define tr_file_read(from, file, buf, size, offset, got)                       \
    __extension__(tr_file_read)((from), (file), (buf), (size), (offset), (got))
#define tr_file_write(from, file, bytes, size, offset)                         \
    __extension__(tr_file_write)((from), (file), (bytes), (size), (offset))
#define tr_file_sync(from, file) __extension__(tr_file_sync)((from), (file))
#define tr_file_resize(from, file, size)                                       \
    __extension__(tr_file_resize)((from), (file), (size))
#define tr_file_size(from, file, size)                                         \
    __extension__(tr_file_size)((from), (file), (size))
#define tr_file_close(from, file) __extension__(tr_file_close)((from), (file))
#define tr_file_load(from, path, buf, size, got)                               \
    __extension__(tr_file_load)((from), (path), (buf), (size), (got))
#define tr_file_save(from, path, bytes, size)                                  \
    __extension__(tr_file_save)((from), (path), (bytes), (size))
#define tr_file_remove(from, path) __extension__(tr_file_remove)((from), (path))

#endif /* !__cplusplus */
#endif
