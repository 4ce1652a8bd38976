/*
 * sim_disk_lock.c - locks on byte ranges of simulated files.
 *
 * Invariant: locks of one owner never overlap. Where locks of two owners
 * overlap, both are shared.
 */
#include "sim/sim_disk_lock.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"

typedef struct range_lock {
    tri_link link;
    tri_file *owner;
    uint64_t begin, end;
    int kind;
} range_lock;

void tri_sim_locks_drop(tri_file *file)
{
    TRI_CHECK(file->magic == TRI_SIM_FILE_MAGIC);
    TRI_LIST_EACH_SAFE (link, &file->inode->locks) {
        range_lock *lock = tri_container_of(link, range_lock, link);
        if (lock->owner == file) {
            tri_list_remove(&lock->link);
            free(lock);
        }
    }
}

void tri_sim_locks_free(tri_sim_inode *it)
{
    tri_link *link;

    while ((link = tri_list_pop_front(&it->locks)) != NULL) {
        free(tri_container_of(link, range_lock, link));
    }
}

static bool conflicts(const range_lock *lock, const tri_file *file,
                      uint64_t begin, uint64_t end, int kind)
{
    return lock->owner != file && lock->begin < end && begin < lock->end &&
           (kind == TRI_LOCK_EXCLUSIVE || lock->kind == TRI_LOCK_EXCLUSIVE);
}

/*
 * Removes [begin, end) from the file's own locks. A lock that loses its middle
 * becomes two; the second is made of *spare, which is then NULL.
 */
static void release_range(tri_file *file, uint64_t begin, uint64_t end,
                          range_lock **spare)
{
    tri_list *locks = &file->inode->locks;

    TRI_LIST_EACH_SAFE (link, locks) {
        range_lock *lock = tri_container_of(link, range_lock, link);
        if (lock->owner != file || lock->begin >= end || begin >= lock->end) {
            continue;
        }
        if (lock->begin < begin && lock->end > end) {
            range_lock *tail = *spare;
            TRI_CHECK(tail != NULL);  // locks of one owner never overlap
            *spare = NULL;
            *tail = *lock;
            tail->link = (tri_link){0};
            tail->begin = end;
            lock->end = begin;
            tri_list_push_back(locks, &tail->link);
        } else if (lock->begin < begin) {
            lock->end = begin;
        } else if (lock->end > end) {
            lock->begin = end;
        } else {
            tri_list_remove(&lock->link);
            free(lock);
        }
    }
}

static bool is_locked_by_other(tri_file *file, uint64_t begin, uint64_t end,
                               int kind)
{
    TRI_LIST_EACH (link, &file->inode->locks) {
        if (conflicts(tri_container_of(link, range_lock, link), file, begin,
                      end, kind)) {
            return true;
        }
    }
    return false;
}

tr_err tri_sim_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                         int lock)
{
    TRI_CHECK(file->magic == TRI_SIM_FILE_MAGIC);
    TRI_CHECK(lock >= TRI_LOCK_NONE);
    TRI_CHECK(lock <= TRI_LOCK_EXCLUSIVE);
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
    release_range(file, offset, end, &spare);
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
