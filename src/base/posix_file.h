/*
 * posix_file.h - files of the real world.
 *
 * The functions are the file_* entries of tri_world_ops; world.h has their
 * contracts. They are declared for the table in world_posix.c.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_POSIX_FILE_H
#define TRI_BASE_POSIX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_posix_file_open(tri_world *world, tri_file **out, const char *path,
                           uint32_t flags);
void tri_posix_file_close(tri_file *file);
tr_err tri_posix_file_read(tri_file *file, void *at, size_t size,
                           uint64_t offset, size_t *done);
tr_err tri_posix_file_write(tri_file *file, const void *at, size_t size,
                            uint64_t offset);
tr_err tri_posix_file_sync(tri_file *file);
tr_err tri_posix_file_truncate(tri_file *file, uint64_t size);
tr_err tri_posix_file_size(tri_file *file, uint64_t *out);
tr_err tri_posix_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                           int lock);
tr_err tri_posix_file_map(tri_file *file, uint64_t offset, size_t size,
                          void **out);
void tri_posix_file_unmap(tri_file *file, void *at, size_t size);
tr_err tri_posix_file_remove(tri_world *world, const char *path, bool sync_dir);
tr_err tri_posix_file_rename(tri_world *world, const char *path,
                             const char *new_path);
tr_err tri_posix_file_exists(tri_world *world, const char *path, bool *out);

#endif
