/*
 * sim_disk_crash.h - what happens to the files of a node from outside: loss of
 * power, loss of the disk, the end of the run.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_DISK_CRASH_H
#define TRI_SIM_SIM_DISK_CRASH_H

#include <stdint.h>

#include "troupe/base.h"

/*
 * Cuts the power of a node. Each file keeps what was synced and any subset of
 * the later writes, each in whole sectors or not at all. Names made or removed
 * without a sync may be there or not. Open files of the node return TR_EIO
 * from now on; they must still be closed.
 */
void tri_sim_disk_crash(tr_sim *sim, uint32_t node);
/* Removes all files of the node; after a crash. */
void tri_sim_disk_lose(tr_sim *sim, uint32_t node);
/* Fails every operation of every node from now on: the run is over. */
void tri_sim_disk_unplug(tr_sim *sim);

/* Returns how many operations a crash of the node could lose. */
uint64_t tri_sim_disk_unsynced(const tr_sim *sim, uint32_t node);

#endif
