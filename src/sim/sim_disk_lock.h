/*
 * sim_disk_lock.h - locks on byte ranges of simulated files.
 *
 * Threads: the one that runs the world.
 * Ownership: an inode owns its locks; each belongs to the open file that took
 * it, and ends with that file or with its node.
 */
#ifndef TRI_SIM_SIM_DISK_LOCK_H
#define TRI_SIM_SIM_DISK_LOCK_H

#include <stdint.h>

#include "base/world.h"
#include "sim/sim_inode.h"
#include "troupe/base.h"

/* For the world's table: see base/world.h. */
tr_err tri_sim_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                         int lock);

/* Releases all locks of this open file. */
void tri_sim_locks_drop(tri_file *file);
/* Frees all locks of the inode. */
void tri_sim_locks_free(tri_sim_inode *it);

#endif
