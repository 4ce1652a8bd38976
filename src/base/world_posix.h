/*
 * world_posix.h - what the files of the real world share.
 *
 * world_posix.c has time, random numbers, threads, waiting and signals;
 * posix_poller.c descriptors; posix_file.c files. The contracts are those of
 * tri_world_ops (world.h).
 */
#ifndef TRI_BASE_WORLD_POSIX_H
#define TRI_BASE_WORLD_POSIX_H

#include <time.h>

#include "base/world.h"

/* What an errno means to a caller. */
tr_err tri_posix_err(int number);
/* The monotonic time that is timeout from now; never beyond TR_FOREVER. */
tr_nanos tri_posix_deadline(tr_nanos timeout);
struct timespec tri_posix_timespec(tr_nanos nanos);
/* The monotonic clock. */
tr_nanos tri_posix_mono(tri_world *world);

/* ---- descriptors ---- */

void tri_posix_poller_free(tri_poller *poller);
tr_err tri_posix_poller_new(tri_world *world, tri_poller **out);
tr_err tri_posix_poller_add(tri_poller *poller, int fd, uint32_t events,
                            uint64_t token);
void tri_posix_poller_remove(tri_poller *poller, int fd);
uint32_t tri_posix_poller_wait(tri_poller *poller, tri_fd_event *events,
                               uint32_t max, tr_nanos timeout);
void tri_posix_poller_wake(tri_poller *poller);
int tri_posix_poller_fd(tri_poller *poller);
void tri_posix_poller_alarm(tri_poller *poller, tr_nanos due);

/* ---- files ---- */

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
tr_err tri_posix_file_exists(tri_world *world, const char *path, bool *out);

#endif
