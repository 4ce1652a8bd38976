/*
 * sim_disk.h - files in memory that forget like a disk.
 *
 * Every node has files of its own. A write is seen at once and durable after a
 * sync; a crash keeps any part of what was not synced. The functions are those
 * of the world's table (base/world.h), which see for their contracts.
 */
#ifndef TRI_SIM_SIM_DISK_H
#define TRI_SIM_SIM_DISK_H

#include "sim/sim.h"
#include "sim/sim_content.h"

#define TRI_SIM_SECTOR ((size_t)512)  // what a disk writes whole

/* A map must not cross a multiple of TRI_SIM_CHUNK: TR_EINVAL. */
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
tr_err tri_sim_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                         int lock);
tr_err tri_sim_file_map(tri_file *file, uint64_t offset, size_t size,
                        void **out);
void tri_sim_file_unmap(tri_file *file, void *at, size_t size);
tr_err tri_sim_file_remove(tri_world *world, const char *path, bool sync_dir);
tr_err tri_sim_file_exists(tri_world *world, const char *path, bool *out);

/*
 * The node loses power. Of each file stays what was synced, and of the writes
 * since then any subset, each of them in whole sectors or not at all. Names
 * made or removed without a sync may be back or gone. Open files of the node
 * answer TR_EIO from now on; they must still be closed.
 */
void tri_sim_disk_crash(tr_sim *sim, uint32_t node);
/* After a crash: all that the node had is gone. */
void tri_sim_disk_lose(tr_sim *sim, uint32_t node);

/* The run is over: every operation of every node fails from now on. */
void tri_sim_disk_unplug(tr_sim *sim);

/* How many writes would be at risk in a crash of the node. */
uint64_t tri_sim_disk_unsynced(const tr_sim *sim, uint32_t node);

tr_err tri_sim_disk_new(tr_sim *sim);
/* Frees files that were left open, too. */
void tri_sim_disk_free(tr_sim *sim);

#endif
