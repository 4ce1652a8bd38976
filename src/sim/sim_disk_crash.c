/*
 * sim_disk_crash.c - what a crash leaves of the files of a node.
 *
 * A crash applies some of the pending operations to the platter, in one of
 * several ways that disks are known for, and makes the platter what reads see.
 * Files that were open keep the content that they saw; all they can still do
 * is close.
 *
 * Invariant: after a crash the node has no pending operation, and its names
 * are on the platter as they are seen. What a sync took to the platter stays.
 */
#include "sim/sim_disk_crash.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_content.h"
#include "sim/sim_disk_lock.h"
#include "sim/sim_fault.h"
#include "sim/sim_inode.h"
#include "sim/sim_stream.h"

/* Applies some sectors of a write, as drawn. */
static void apply_torn(tri_sim_inode *it, const tri_sim_operation *op,
                       tri_rand *rand)
{
    size_t done = 0;

    while (done < op->size) {
        uint64_t at = op->offset + done;
        size_t span = TRI_SIM_SECTOR - (size_t)(at % TRI_SIM_SECTOR);
        span = (size_t)tri_min(span, op->size - done);
        if (tri_rand_next(rand) & 1 &&
            !tri_content_write(&it->platter, op->bytes + done, span, at)) {
            tr_abort("sim", "no memory for a simulated disk");
        }
        done += span;
    }
}

/* Which pending operations of a file a crash keeps; drawn for each file. */
enum { KEEP_NONE, KEEP_ALL, KEEP_PREFIX, KEEP_ANY, KEEP_CHOICES };

static uint64_t count_pending(const tri_sim_inode *it)
{
    uint64_t count = 0;

    TRI_LIST_EACH (link, &it->pending) {
        count++;
    }
    return count;
}

static void count_crash(tr_sim *sim, uint64_t choice)
{
    tri_sim_count_event(sim, TRI_EVENT_crash_none, choice == KEEP_NONE);
    tri_sim_count_event(sim, TRI_EVENT_crash_all, choice == KEEP_ALL);
    tri_sim_count_event(sim, TRI_EVENT_crash_prefix, choice == KEEP_PREFIX);
    tri_sim_count_event(sim, TRI_EVENT_crash_parts, choice == KEEP_ANY);
}

static void crash_content(tr_sim *sim, tri_sim_inode *it, tri_rand *rand)
{
    uint64_t choice = tri_rand_below(rand, KEEP_CHOICES);
    uint64_t keep = choice == KEEP_ALL ? UINT64_MAX : 0;
    uint64_t i = 0;

    if (tri_list_first(&it->pending) != NULL) {
        count_crash(sim, choice);
    }
    if (choice == KEEP_PREFIX) {
        keep = tri_rand_below(rand, count_pending(it) + 1);
    }
    TRI_LIST_EACH (link, &it->pending) {
        const tri_sim_operation *op =
            tri_container_of(link, tri_sim_operation, link);
        bool torn =
            (choice == KEEP_PREFIX && i == keep && tri_rand_next(rand) & 1) ||
            (choice == KEEP_ANY && tri_rand_below(rand, 3) == 0);
        bool kept =
            i < keep || (choice == KEEP_ANY && tri_rand_below(rand, 2) == 0);
        i++;
        if (op->is_lost) {
            continue;
        }
        if (torn && !op->is_truncate) {
            apply_torn(it, op, rand);
        } else if (kept) {
            tri_sim_inode_apply(it, op);
        }
    }
    tri_sim_inode_drop_pending(it);
}

/*
 * Separates the platter from files that are still open: their owners may hold
 * maps of what they saw, so that content stays with the old inode. Returns the
 * inode that has the platter now.
 */
static tri_sim_inode *crash_separate(tri_sim_disk *disk, tri_sim_inode *it)
{
    if (it->open_count == 0) {
        return it;
    }
    tri_sim_inode *fresh = tri_sim_inode_new(disk, it->node, it->path);
    if (fresh == NULL) {
        tr_abort("sim", "no memory for a simulated disk");
    }
    // In the place of the old one: the order of inodes is the order of draws.
    tri_list_remove(&fresh->link);
    tri_link_insert(&it->link, &fresh->link);
    it->left_behind = true;
    fresh->named = it->named;
    fresh->named_platter = it->named_platter;
    it->named = false;
    it->named_platter = false;
    fresh->platter = it->platter;
    it->platter = (tri_content){0};
    return fresh;
}

/* Draws whether an unsynced name is there or not. */
static void crash_name(tri_sim_disk *disk, tri_sim_inode *it, tri_rand *rand)
{
    if (it->named == it->named_platter) {
        return;
    }
    bool named = tri_rand_next(rand) & 1;
    if (named && !it->named &&
        tri_sim_inode_find(disk, it->node, it->path) != NULL) {
        named = false;  // a newer file has the name
    }
    it->named = named;
    it->named_platter = named;
}

static void crash_files(tri_sim_disk *disk, uint32_t node)
{
    TRI_LIST_EACH (link, &disk->files) {
        tri_file *file = tri_container_of(link, tri_file, link);
        if (file->inode->node == node) {
            file->dead = true;
            tri_sim_locks_drop(file);
        }
    }
}

void tri_sim_disk_crash(tr_sim *sim, uint32_t node)
{
    tri_sim_disk *disk = sim->disk;
    tri_rand *rand = tri_sim_rand(sim, TRI_STREAM_CRASH);
    tri_link *link = disk->inodes.head.prev;

    TRI_CHECK(!sim->stepping);
    crash_files(disk, node);
    // From the newest to the oldest: of two files with one name the newer
    // one keeps it.
    while (link != &disk->inodes.head) {
        tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        link = link->prev;
        if (it->node == node && !it->left_behind) {
            crash_name(disk, it, rand);
            crash_content(sim, it, rand);
            it = crash_separate(disk, it);
            if (!tri_content_copy(&it->seen, &it->platter)) {
                tr_abort("sim", "no memory for a simulated disk");
            }
            tri_sim_inode_free_if_unused(it);
        }
    }
}

void tri_sim_disk_lose(tr_sim *sim, uint32_t node)
{
    tri_sim_disk *disk = sim->disk;

    TRI_LIST_EACH_SAFE (link, &disk->inodes) {
        tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        if (it->node == node && !it->left_behind) {
            it->named = false;
            it->named_platter = false;
            tri_sim_inode_free_if_unused(it);
        }
    }
}

void tri_sim_disk_unplug(tr_sim *sim)
{
    sim->disk->unplugged = true;
    TRI_LIST_EACH (link, &sim->disk->files) {
        tri_container_of(link, tri_file, link)->dead = true;
    }
}

uint64_t tri_sim_disk_unsynced(const tr_sim *sim, uint32_t node)
{
    uint64_t count = 0;

    TRI_LIST_EACH (link, &sim->disk->inodes) {
        const tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        count += it->node == node ? count_pending(it) : 0;
    }
    return count;
}
