/*
 * sim_inode.c - a file of the simulated disk: its name and its contents.
 *
 * Invariant: seen == platter + pending, in order (except for writes through
 * maps, and for writes that a fault lost). An inode lives while it is open, or
 * has a name that is seen or on the platter.
 */
#include "sim/sim_inode.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/sim_disk_lock.h"

void tri_sim_inode_drop_pending(tri_sim_inode *it)
{
    tri_link *link;

    while ((link = tri_list_pop_front(&it->pending)) != NULL) {
        free(tri_container_of(link, tri_sim_operation, link));
    }
}

void tri_sim_inode_free(tri_sim_inode *it)
{
    TRI_CHECK(it->open_count == 0);
    tri_sim_inode_drop_pending(it);
    tri_sim_locks_free(it);
    tri_content_fini(&it->seen);
    tri_content_fini(&it->platter);
    tri_list_remove(&it->link);
    free(it->path);
    free(it);
}

void tri_sim_inode_free_if_unused(tri_sim_inode *it)
{
    if (it->open_count == 0 && !it->named && !it->named_platter) {
        tri_sim_inode_free(it);
    }
}

tri_sim_inode *tri_sim_inode_find(const tri_sim_disk *disk, uint32_t node,
                                  const char *path)
{
    TRI_LIST_EACH (link, &disk->inodes) {
        tri_sim_inode *it = tri_container_of(link, tri_sim_inode, link);
        if (it->node == node && it->named && strcmp(it->path, path) == 0) {
            return it;
        }
    }
    return NULL;
}

bool tri_sim_inode_rename(tri_sim_inode *it, const char *path)
{
    char *copy = strdup(path);

    if (copy == NULL) {
        return false;
    }
    free(it->path);
    it->path = copy;
    return true;
}

tri_sim_inode *tri_sim_inode_new(tri_sim_disk *disk, uint32_t node,
                                 const char *path)
{
    tri_sim_inode *it = calloc(1, sizeof(*it));

    if (it == NULL) {
        return NULL;
    }
    if (!tri_sim_inode_rename(it, path)) {
        free(it);
        return NULL;
    }
    it->node = node;
    it->named = true;
    tri_list_init(&it->pending);
    tri_list_init(&it->locks);
    tri_list_push_back(&disk->inodes, &it->link);
    return it;
}

static size_t folder_size(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static bool same_folder(const tri_sim_inode *a, const tri_sim_inode *b)
{
    size_t size = folder_size(a->path);

    return a->node == b->node && size == folder_size(b->path) &&
           memcmp(a->path, b->path, size) == 0;
}

void tri_sim_folder_sync(tri_sim_disk *disk, tri_sim_inode *it)
{
    it->open_count++;  // keeps it alive during the loop
    TRI_LIST_EACH_SAFE (link, &disk->inodes) {
        tri_sim_inode *other = tri_container_of(link, tri_sim_inode, link);
        if (same_folder(other, it)) {
            other->named_platter = other->named;
            tri_sim_inode_free_if_unused(other);
        }
    }
    it->open_count--;
}

void tri_sim_inode_apply(tri_sim_inode *it, const tri_sim_operation *op)
{
    TRI_CHECK(!op->is_lost);
    bool done = op->is_truncate ? tri_content_resize(&it->platter, op->offset)
                                : tri_content_write(&it->platter, op->bytes,
                                                    op->size, op->offset);

    if (!done) {
        tr_abort("sim", "no memory for a simulated disk");
    }
}
