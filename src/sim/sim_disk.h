/*
 * sim_disk.h - the files of simulated nodes, in memory.
 *
 * Every node has files of its own. A write is seen by readers at once and is
 * durable after a sync; a crash keeps any part of what was not synced
 * (sim_disk_crash.h). The functions of files are those of the world's table;
 * base/world.h has their contracts.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_DISK_H
#define TRI_SIM_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_sim_file_open(tri_world *world, tri_file **out, const char *path,
                         uint32_t flags);
void tri_sim_file_close(tri_file *file);
tr_err tri_sim_file_read(tri_file *file, void *at, size_t size, uint64_t offset,
                         size_t *done);
tr_err tri_sim_file_write(tri_file *file, const void *at, size_t size,
                          uint64_t offset);
tr_err tri_sim_file_sync(tri_file *file);
tr_err tri_sim_file_truncate(tri_file *file, uint64_t size);
tr_err tri_sim_file_size(tri_file *file, uint64_t *out);
/* A map must not cross a multiple of TRI_SIM_CHUNK: TR_EINVAL. */
tr_err tri_sim_file_map(tri_file *file, uint64_t offset, size_t size,
                        void **out);
void tri_sim_file_unmap(tri_file *file, void *at, size_t size);
tr_err tri_sim_file_remove(tri_world *world, const char *path, bool sync_dir);
tr_err tri_sim_file_rename(tri_world *world, const char *path,
                           const char *new_path);
tr_err tri_sim_file_exists(tri_world *world, const char *path, bool *out);

/* Makes sim->disk, the disks of all nodes. Errors: TR_ENOMEM. */
tr_err tri_sim_disk_new(tr_sim *sim);
/* Frees the disks and all files, also those that were left open. */
void tri_sim_disk_free(tr_sim *sim);

#endif
