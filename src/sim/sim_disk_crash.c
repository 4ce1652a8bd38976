/*
 * sim_disk_crash.c - what a crash leaves of the files of a node.
 *
 * A crash applies a part of the pending operations to the platter, in one of
 * several ways that disks are known for, and makes the platter what reads see.
 * Those who had a file open keep what they saw, and can do nothing with it
 * but close it.
 *
 * Invariant: behind a crash nothing of the node is pending, and its names are
 * on the platter as they are seen. What a sync has taken there stays there.
 */
#include "sim/sim_disk.h"

#include "sim/sim_inode.h"

/* Applies each sector of a write, or not. */
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

/* How a crash treats what was not synced; drawn for each file. */
enum { KEEP_NONE, KEEP_ALL, KEEP_PREFIX, KEEP_ANY, KEEP_WAYS };

static uint64_t count_pending(const tri_sim_inode *it)
{
    uint64_t count = 0;

    for (tri_link *link = it->pending.head.next; link != &it->pending.head;
         link = link->next) {
        count++;
    }
    return count;
}

static void count_crash(tr_sim *sim, uint64_t way)
{
    tri_sim_count(sim, TRI_EVENT_crash_none, way == KEEP_NONE);
    tri_sim_count(sim, TRI_EVENT_crash_all, way == KEEP_ALL);
    tri_sim_count(sim, TRI_EVENT_crash_prefix, way == KEEP_PREFIX);
    tri_sim_count(sim, TRI_EVENT_crash_parts, way == KEEP_ANY);
}

static void crash_content(tr_sim *sim, tri_sim_inode *it, tri_rand *rand)
{
    uint64_t way = tri_rand_below(rand, KEEP_WAYS);
    uint64_t keep = way == KEEP_ALL ? UINT64_MAX : 0;
    uint64_t i = 0;

    if (tri_list_first(&it->pending) != NULL) {
        count_crash(sim, way);
    }
    if (way == KEEP_PREFIX) {
        keep = tri_rand_below(rand, count_pending(it) + 1);
    }
    for (tri_link *link = it->pending.head.next; link != &it->pending.head;
         link = link->next, i++) {
        const tri_sim_operation *op =
            tri_container_of(link, tri_sim_operation, link);
        bool torn =
            (way == KEEP_PREFIX && i == keep && tri_rand_next(rand) & 1) ||
            (way == KEEP_ANY && tri_rand_below(rand, 3) == 0);
        bool kept =
            i < keep || (way == KEEP_ANY && tri_rand_below(rand, 2) == 0);
        if (op->is_lost) {
            continue;
        }
        if (torn && !op->is_truncate) {
            apply_torn(it, op, rand);
        } else if (kept) {
            tri_sim_inode_apply(it, op);
        }
    }
    tri_sim_pending_drop(it);
}

/*
 * Those who had the file open when the power went may still hold maps of what
 * they saw, so that stays with them. The platter goes to a new inode.
 */
static tri_sim_inode *crash_leave_behind(tri_sim_disk *disk, tri_sim_inode *it)
{
    if (it->open_count == 0) {
        return it;
    }
    tri_sim_inode *fresh = tri_sim_inode_new(disk, it->node, it->path);
    if (fresh == NULL) {
        tr_abort("sim", "no memory for a simulated disk");
    }
    // At the same place: the order of inodes decides who draws first.
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

/* A name that differs from the platter's may be either. */
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
    for (tri_link *link = disk->files.head.next; link != &disk->files.head;
         link = link->next) {
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

    crash_files(disk, node);
    // From the newest: it has the first claim to its name.
    while (link != &disk->inodes.head) {
        tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        link = link->prev;
        if (it->node == node && !it->left_behind) {
            crash_name(disk, it, rand);
            crash_content(sim, it, rand);
            it = crash_leave_behind(disk, it);
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
    tri_link *link = disk->inodes.head.next;

    while (link != &disk->inodes.head) {
        tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        link = link->next;
        if (it->node == node && !it->left_behind) {
            it->named = false;
            it->named_platter = false;
            tri_sim_inode_free_if_unused(it);
        }
    }
}

void tri_sim_disk_unplug(tr_sim *sim)
{
    tri_list *files = &sim->disk->files;

    sim->disk->unplugged = true;
    for (tri_link *link = files->head.next; link != &files->head;
         link = link->next) {
        tri_container_of(link, tri_file, link)->dead = true;
    }
}

uint64_t tri_sim_disk_unsynced(const tr_sim *sim, uint32_t node)
{
    uint64_t count = 0;
    const tri_list *inodes = &sim->disk->inodes;

    for (tri_link *link = inodes->head.next; link != &inodes->head;
         link = link->next) {
        const tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        count += it->node == node ? count_pending(it) : 0;
    }
    return count;
}
