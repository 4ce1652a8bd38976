/*
 * sim_disk_lock.c - the locks of simulated files, on ranges of bytes.
 *
 * A lock belongs to the open file that took it, as base/world.h wants it, and
 * ends with it or with its node.
 *
 * Invariant: locks of one owner never overlap. Where locks of two owners do,
 * both are shared.
 */
#include "sim/sim_disk.h"

#include <stdlib.h>

#include "sim/sim_inode.h"

typedef struct range_lock {
    tri_link link;
    tri_file *owner;
    uint64_t begin, end;
    int kind;
} range_lock;

void tri_sim_locks_drop(tri_file *file)
{
    tri_list *locks = &file->inode->locks;
    tri_link *link = locks->head.next;

    while (link != &locks->head) {
        range_lock *lock = tri_container_of(link, range_lock, link);
        link = link->next;
        if (lock->owner == file) {
            tri_list_remove(&lock->link);
            free(lock);
        }
    }
}

void tri_sim_locks_free(tri_sim_inode *it)
{
    tri_link *link;

    while ((link = tri_list_first(&it->locks)) != NULL) {
        tri_list_remove(link);
        free(tri_container_of(link, range_lock, link));
    }
}

static bool in_the_way(const range_lock *lock, const tri_file *file,
                       uint64_t begin_at, uint64_t end, int kind)
{
    return lock->owner != file && lock->begin < end && begin_at < lock->end &&
           (kind == TRI_LOCK_EXCLUSIVE || lock->kind == TRI_LOCK_EXCLUSIVE);
}

/*
 * Takes [begin, end) out of the owner's locks. One that is cut in the middle
 * becomes two, for which `spare` is used.
 */
static void cut_own(tri_file *file, uint64_t begin_at, uint64_t end,
                    range_lock **spare)
{
    tri_list *locks = &file->inode->locks;
    tri_link *link = locks->head.next;

    while (link != &locks->head) {
        range_lock *lock = tri_container_of(link, range_lock, link);
        link = link->next;
        if (lock->owner != file || lock->begin >= end ||
            begin_at >= lock->end) {
            continue;
        }
        if (lock->begin < begin_at && lock->end > end) {
            range_lock *tail = *spare;
            TRI_CHECK(tail != NULL);  // one's own locks never overlap
            *spare = NULL;
            *tail = *lock;
            tail->link = (tri_link){0};
            tail->begin = end;
            lock->end = begin_at;
            tri_list_push_back(locks, &tail->link);
        } else if (lock->begin < begin_at) {
            lock->end = begin_at;
        } else if (lock->end > end) {
            lock->begin = end;
        } else {
            tri_list_remove(&lock->link);
            free(lock);
        }
    }
}

static bool is_locked_by_other(tri_file *file, uint64_t begin_at, uint64_t end,
                               int kind)
{
    const tri_list *locks = &file->inode->locks;

    for (tri_link *link = locks->head.next; link != &locks->head;
         link = link->next) {
        if (in_the_way(tri_container_of(link, range_lock, link), file, begin_at,
                       end, kind)) {
            return true;
        }
    }
    return false;
}

tr_err tri_sim_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                         int lock)
{
    TRI_CHECK(lock >= TRI_LOCK_NONE && lock <= TRI_LOCK_EXCLUSIVE);
    if (size == 0 || !tri_sim_range_fits(offset, size)) {
        return TR_EINVAL;
    }
    if (file->dead) {
        return TR_EIO;
    }
    uint64_t end = offset + size;
    if (lock != TRI_LOCK_NONE && is_locked_by_other(file, offset, end, lock)) {
        return TR_EFULL;
    }
    range_lock *spare = calloc(1, sizeof(*spare));
    range_lock *added = calloc(1, sizeof(*added));
    if (spare == NULL || added == NULL) {
        free(spare);
        free(added);
        return TR_ENOMEM;
    }
    cut_own(file, offset, end, &spare);
    free(spare);
    if (lock == TRI_LOCK_NONE) {
        free(added);
        return TR_OK;
    }
    *added =
        (range_lock){.owner = file, .begin = offset, .end = end, .kind = lock};
    tri_list_push_back(&file->inode->locks, &added->link);
    return TR_OK;
}
