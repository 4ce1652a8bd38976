/*
 * sim_inode.h - the parts of the simulated disk: inodes, open files, pending
 * operations.
 *
 * A file has two contents: what reads see, and what is on the platter. The
 * operations between the two are pending, in order, until a sync takes them to
 * the platter or a crash keeps some of them. The name of a file likewise has
 * two states: the one that is seen, and the one that a crash finds.
 *
 * Private to sim_inode.c, sim_disk.c (the calls of a program), sim_disk_lock.c
 * (their locks) and sim_disk_crash.c (crashes).
 *
 * Threads: none of this is thread-safe.
 * Ownership: a disk owns its inodes and open files; an inode owns its
 * contents, its operations and its locks.
 */
#ifndef TRI_SIM_SIM_INODE_H
#define TRI_SIM_SIM_INODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sim/sim_content.h"
#include "troupe/base.h"

#define TRI_SIM_SECTOR     ((size_t)512)  // bytes that a disk writes whole
#define TRI_SIM_FILE_MAGIC UINT64_C(0x73696d2066696c65)

/* A write or truncation that is not on the platter yet. */
typedef struct tri_sim_operation {
    tri_link link;
    bool is_truncate;
    bool is_lost;     // by a fault: it never reaches the platter
    uint64_t offset;  // or the size to truncate to
    size_t size;
    char bytes[];
} tri_sim_operation;

typedef struct tri_sim_inode {
    tri_link link;
    uint32_t node;
    uint32_t open_count;
    bool named;          // its name is in the directory as programs see it
    bool named_platter;  // ... and as the platter has it
    bool left_behind;    // only files opened before a crash refer to it
    tri_content seen;
    tri_content platter;
    tri_list pending;  // of tri_sim_operation
    tri_list locks;    // sim_disk_lock.c
    char *path;
} tri_sim_inode;

struct tri_file {
    uint64_t magic;
    tri_link link;
    tr_sim *sim;
    tri_sim_inode *inode;
    bool writable;
    bool made_name;  // its first sync also syncs the folder
    bool dead;       // its node has crashed
};

typedef struct tri_sim_disk {
    tri_list inodes, files;
    bool unplugged;  // every operation fails
} tri_sim_disk;

/* Makes a file that is seen under this name. NULL: no memory. */
tri_sim_inode *tri_sim_inode_new(tri_sim_disk *disk, uint32_t node,
                                 const char *path);
/* Returns the file that is seen under this name, or NULL. */
tri_sim_inode *tri_sim_inode_find(const tri_sim_disk *disk, uint32_t node,
                                  const char *path);
/* Gives it another name. Returns false without memory. */
bool tri_sim_inode_rename(tri_sim_inode *it, const char *path);
void tri_sim_inode_free(tri_sim_inode *it);
/* Frees it unless it is open or has a name. */
void tri_sim_inode_free_if_unused(tri_sim_inode *it);

/* Applies the operation to the platter. */
void tri_sim_inode_apply(tri_sim_inode *it, const tri_sim_operation *op);
/* Frees all pending operations. */
void tri_sim_inode_drop_pending(tri_sim_inode *it);
/* Syncs the folder of this file: all its names reach the platter as seen. */
void tri_sim_folder_sync(tri_sim_disk *disk, tri_sim_inode *it);

/* Returns true if the end of the range is still a valid offset. */
static inline bool tri_sim_range_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

#endif
