/*
 * sim_inode.h - what the simulated disk is made of.
 *
 * A file has two contents: what reads see, and what is on the platter. The
 * operations between the two are kept in order until a sync or a crash takes
 * them to the platter, or forgets them. So has its name: there is the one that
 * is seen and the one that a crash finds.
 *
 * Private to sim_disk.c (the calls of a program), sim_disk_lock.c (their
 * locks) and sim_disk_crash.c (what happens to it all from outside).
 *
 * Threads: none of this is thread-safe.
 * Ownership: a disk owns its inodes and open files; an inode owns its
 * contents, its operations and its locks.
 */
#ifndef TRI_SIM_SIM_INODE_H
#define TRI_SIM_SIM_INODE_H

#include "sim/sim.h"
#include "sim/sim_content.h"

/* Something done to a file that is not on the platter yet. */
typedef struct tri_sim_operation {
    tri_link link;
    bool is_truncate;
    bool is_lost;     // a fault: it never gets there
    uint64_t offset;  // or the size to truncate to
    size_t size;
    char bytes[];
} tri_sim_operation;

typedef struct tri_sim_inode {
    tri_link link;
    uint32_t node;
    uint32_t open_count;
    bool named;          // its name is in the directory, as we see it
    bool named_platter;  // and on the platter
    bool left_behind;    // only those see it who died with it
    tri_content seen;
    tri_content platter;
    tri_list pending;  // of tri_sim_operation
    tri_list locks;    // sim_disk_lock.c
    char path[];
} tri_sim_inode;

struct tri_file {
    uint64_t magic;
    tri_link link;
    tr_sim *sim;
    tri_sim_inode *inode;
    bool writable;
    bool made_name;  // the first sync is one of its folder, too
    bool dead;       // its node has crashed
};

struct tri_sim_disk {
    tri_list inodes, files;
    bool unplugged;  // nothing works any more
};

/* A new file that is seen under this name; NULL: no memory. */
tri_sim_inode *tri_sim_inode_new(tri_sim_disk *disk, uint32_t node,
                                 const char *path);
/* The file that is seen under this name, or NULL. */
tri_sim_inode *tri_sim_inode_find(const tri_sim_disk *disk, uint32_t node,
                                  const char *path);
void tri_sim_inode_free(tri_sim_inode *it);
/* Frees it unless it is open or has a name. */
void tri_sim_inode_free_if_unused(tri_sim_inode *it);

/* Does the operation on the platter. */
void tri_sim_inode_apply(tri_sim_inode *it, const tri_sim_operation *op);
/* Forgets what is not on the platter yet. */
void tri_sim_pending_drop(tri_sim_inode *it);
/* The folder of this file is synced: its names are what they look like. */
void tri_sim_folder_sync(tri_sim_disk *disk, tri_sim_inode *it);

/* Gives up what this open file has locked. */
void tri_sim_locks_drop(tri_file *file);
/* Frees all locks of the inode. */
void tri_sim_locks_free(tri_sim_inode *it);

/* Whether the end of the range is still an offset. */
static inline bool tri_sim_range_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

#endif
