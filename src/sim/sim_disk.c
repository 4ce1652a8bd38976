/*
 * sim_disk.c - files in memory that forget like a disk.
 *
 * A file has two contents: what reads see, and what is on the platter. The
 * operations between the two are kept in order; a sync applies them to the
 * platter, a crash applies a part of them and makes the platter what reads
 * see. A map is an address in the content that reads see, and is shared by all
 * who map it. What is written through a map never reaches the platter.
 *
 * Invariant: seen == platter + pending, in order (but for maps, and for writes
 * that a fault lost). An inode lives while it is open, or has a name now or on
 * the platter.
 */
#include "sim/sim_disk.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_content.h"

#define FILE_MAGIC UINT64_C(0x73696d2066696c65)

#define SIZE_LIMIT (UINT64_C(1) << 40)  // of a file; beyond is TR_EIO

/* Something done to a file that is not on the platter yet. */
typedef struct operation {
    tri_link link;
    bool is_truncate;
    bool is_lost;     // a fault: it never gets there
    uint64_t offset;  // or the size to truncate to
    size_t size;
    char bytes[];
} operation;

typedef struct range_lock {
    tri_link link;
    tri_file *owner;
    uint64_t begin, end;
    int kind;
} range_lock;

typedef struct inode {
    tri_link link;
    uint32_t node;
    uint32_t open_count;
    bool named;          // its name is in the directory, as we see it
    bool named_platter;  // and on the platter
    bool left_behind;    // only those see it who died with it
    tri_content seen;
    tri_content platter;
    tri_list pending;  // of operation
    tri_list locks;    // of range_lock
    char path[];
} inode;

struct tri_file {
    uint64_t magic;
    tri_link link;
    tr_sim *sim;
    inode *inode;
    bool writable;
    bool made_name;  // the first sync is one of its folder, too
    bool dead;       // its node has crashed
};

struct tri_sim_disk {
    tri_list inodes, files;
    bool unplugged;  // nothing works any more
};

/* ---- inodes and names ---- */

static void drop_pending(inode *it)
{
    tri_link *link;

    while ((link = tri_list_first(&it->pending)) != NULL) {
        tri_list_remove(link);
        free(tri_container_of(link, operation, link));
    }
}

static void inode_free(inode *it)
{
    tri_link *link;

    drop_pending(it);
    while ((link = tri_list_first(&it->locks)) != NULL) {
        tri_list_remove(link);
        free(tri_container_of(link, range_lock, link));
    }
    tri_content_fini(&it->seen);
    tri_content_fini(&it->platter);
    tri_list_remove(&it->link);
    free(it);
}

static void inode_free_if_unused(inode *it)
{
    if (it->open_count == 0 && !it->named && !it->named_platter) {
        inode_free(it);
    }
}

static inode *inode_find(const tri_sim_disk *disk, uint32_t node,
                         const char *path)
{
    for (tri_link *link = disk->inodes.head.next; link != &disk->inodes.head;
         link = link->next) {
        inode *it = tri_container_of(link, inode, link);
        if (it->node == node && it->named && strcmp(it->path, path) == 0) {
            return it;
        }
    }
    return NULL;
}

static inode *inode_new(tri_sim_disk *disk, uint32_t node, const char *path)
{
    size_t size = strlen(path) + 1;
    inode *it = calloc(1, sizeof(*it) + size);

    if (it == NULL) {
        return NULL;
    }
    it->node = node;
    it->named = true;
    memcpy(it->path, path, size);
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

static bool same_folder(const inode *a, const inode *b)
{
    size_t size = folder_size(a->path);

    return a->node == b->node && size == folder_size(b->path) &&
           memcmp(a->path, b->path, size) == 0;
}

/* The folder of this file is synced: its names are what they look like. */
static void sync_folder(tri_sim_disk *disk, inode *it)
{
    tri_link *link = disk->inodes.head.next;

    it->open_count++;  // it must not be freed on the way
    while (link != &disk->inodes.head) {
        inode *other = tri_container_of(link, inode, link);
        link = link->next;
        if (same_folder(other, it)) {
            other->named_platter = other->named;
            inode_free_if_unused(other);
        }
    }
    it->open_count--;
}

/* ---- faults ---- */

static uint32_t node_of(const tri_file *file)
{
    return file->inode->node;
}

static bool strikes(tri_file *file, tri_sim_fault fault)
{
    return tri_sim_strikes(file->sim, fault, node_of(file));
}

/* At the beginning of each operation: it may be late, and it may fail. */
static tr_err trouble(tr_sim *sim, uint32_t node)
{
    if (sim->disk->unplugged) {
        return TR_EIO;
    }
    if (tri_sim_strikes(sim, TRI_FAULT_disk_slow, node)) {
        tr_nanos span = (tr_nanos)tri_sim_fault_below(sim, TRI_FAULT_disk_slow,
                                                      (uint64_t)sim->delay_max);
        // A handler cannot be late without stopping the world.
        (void)tri_sim_sleep(sim, span);
    }
    return tri_sim_strikes(sim, TRI_FAULT_disk_error, node) ? TR_EIO : TR_OK;
}

static tr_err begin(tri_file *file)
{
    TRI_CHECK(file->magic == FILE_MAGIC);
    if (file->dead) {
        return TR_EIO;
    }
    tr_err err = trouble(file->sim, node_of(file));

    // The node may have crashed while this operation was slow.
    return file->dead ? TR_EIO : err;
}

/* ---- opening ---- */

static tr_err find_or_make(tri_sim_disk *disk, uint32_t node, const char *path,
                           uint32_t flags, inode **out)
{
    *out = inode_find(disk, node, path);
    if (*out != NULL) {
        bool must_be_new =
            (flags & TRI_FILE_CREATE) && (flags & TRI_FILE_EXCLUSIVE);
        return must_be_new ? TR_EEXIST : TR_OK;
    }
    if (!(flags & TRI_FILE_CREATE)) {
        return TR_ENOENT;
    }
    *out = inode_new(disk, node, path);
    return *out != NULL ? TR_OK : TR_ENOMEM;
}

tr_err tri_sim_file_open(tri_world *world, tri_file **out, const char *path,
                         uint32_t flags)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tri_sim_disk *disk = node->sim->disk;
    inode *found;

    TRI_CHECK(out != NULL);
    TRI_CHECK(path != NULL);
    TRI_CHECK(flags & (TRI_FILE_READ | TRI_FILE_WRITE));
    *out = NULL;
    tr_err err = trouble(node->sim, node->index);
    if (err != TR_OK) {
        return err;
    }
    tri_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return TR_ENOMEM;
    }
    err = find_or_make(disk, node->index, path, flags, &found);
    if (err != TR_OK) {
        free(file);
        return err;
    }
    found->open_count++;
    file->magic = FILE_MAGIC;
    file->sim = node->sim;
    file->inode = found;
    file->writable = (flags & TRI_FILE_WRITE) != 0;
    file->made_name = (flags & TRI_FILE_CREATE) && !(flags & TRI_FILE_DELETE);
    if (flags & TRI_FILE_DELETE) {
        found->named = false;
        found->named_platter = false;
    }
    tri_list_push_back(&disk->files, &file->link);
    *out = file;
    return TR_OK;
}

static void locks_of_owner_drop(tri_file *file)
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

void tri_sim_file_close(tri_file *file)
{
    if (file == NULL) {
        return;
    }
    TRI_CHECK(file->magic == FILE_MAGIC);
    locks_of_owner_drop(file);
    file->inode->open_count--;
    inode_free_if_unused(file->inode);
    tri_list_remove(&file->link);
    file->magic = 0;
    free(file);
}

/* ---- reading and writing ---- */

static bool range_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

tr_err tri_sim_file_read(tri_file *file, void *at, size_t size, uint64_t offset,
                         size_t *done)
{
    *done = 0;
    if (!range_fits(offset, size)) {
        return TR_EINVAL;
    }
    tr_err err = begin(file);
    if (err != TR_OK) {
        return err;
    }
    *done = tri_content_read(&file->inode->seen, at, size, offset);
    if (*done > 0 && strikes(file, TRI_FAULT_disk_bit_flip)) {
        uint64_t bit = tri_sim_fault_below(file->sim, TRI_FAULT_disk_bit_flip,
                                           (uint64_t)*done * 8);
        ((char *)at)[bit / 8] ^= (char)(1 << bit % 8);
    }
    return TR_OK;
}

/* Does it as readers see it, and remembers it for the platter. */
static tr_err do_write(inode *it, const char *at, size_t size, uint64_t offset,
                       bool is_lost)
{
    operation *op = malloc(sizeof(*op) + size);

    if (op == NULL) {
        return TR_ENOMEM;
    }
    *op = (operation){.offset = offset, .size = size, .is_lost = is_lost};
    memcpy(op->bytes, at, size);
    if (!tri_content_write(&it->seen, at, size, offset)) {
        free(op);
        return TR_ENOMEM;
    }
    tri_list_push_back(&it->pending, &op->link);
    return TR_OK;
}

/* A part of the bytes, in whole sectors: what a failed write leaves. */
static size_t torn_size(tr_sim *sim, tri_sim_fault fault, size_t size)
{
    uint64_t sectors = size / TRI_SIM_SECTOR;

    if (sectors == 0) {
        return 0;
    }
    return (size_t)tri_sim_fault_below(sim, fault, sectors) * TRI_SIM_SECTOR;
}

/* Another place in the file, sector for sector. */
static uint64_t wrong_place(tri_file *file, uint64_t offset)
{
    uint64_t sectors = file->inode->seen.size / TRI_SIM_SECTOR + 2;
    uint64_t other =
        tri_sim_fault_below(file->sim, TRI_FAULT_misdirected_write, sectors);

    return other * TRI_SIM_SECTOR + offset % TRI_SIM_SECTOR;
}

tr_err tri_sim_file_write(tri_file *file, const void *at, size_t size,
                          uint64_t offset)
{
    if (!range_fits(offset, size) || !file->writable) {
        return TR_EINVAL;
    }
    tr_err err = begin(file);
    if (err != TR_OK || size == 0) {
        return err;
    }
    if (offset + size > SIZE_LIMIT) {
        return TR_EIO;
    }
    tri_sim_fault torn = strikes(file, TRI_FAULT_torn_write)
                             ? TRI_FAULT_torn_write
                             : TRI_FAULT_disk_full;
    if (torn == TRI_FAULT_torn_write || strikes(file, TRI_FAULT_disk_full)) {
        size_t part = torn_size(file->sim, torn, size);
        if (part > 0) {
            (void)do_write(file->inode, at, part, offset, false);
        }
        return TR_EIO;
    }
    if (strikes(file, TRI_FAULT_misdirected_write)) {
        offset = wrong_place(file, offset);
    }
    bool is_lost = strikes(file, TRI_FAULT_lost_write);
    return do_write(file->inode, at, size, offset, is_lost);
}

tr_err tri_sim_file_truncate(tri_file *file, uint64_t size)
{
    if (!file->writable || size > INT64_MAX) {
        return TR_EINVAL;
    }
    tr_err err = begin(file);
    if (err != TR_OK) {
        return err;
    }
    if (size > SIZE_LIMIT) {
        return TR_EIO;
    }
    operation *op = calloc(1, sizeof(*op));
    if (op == NULL) {
        return TR_ENOMEM;
    }
    op->is_truncate = true;
    op->offset = size;
    if (!tri_content_resize(&file->inode->seen, size)) {
        free(op);
        return TR_ENOMEM;
    }
    tri_list_push_back(&file->inode->pending, &op->link);
    return TR_OK;
}

tr_err tri_sim_file_size(tri_file *file, uint64_t *out)
{
    *out = 0;
    if (file->dead) {
        return TR_EIO;
    }
    *out = file->inode->seen.size;
    return TR_OK;
}

/* ---- what reaches the platter ---- */

static void apply(inode *it, const operation *op)
{
    bool done = op->is_truncate ? tri_content_resize(&it->platter, op->offset)
                                : tri_content_write(&it->platter, op->bytes,
                                                    op->size, op->offset);

    if (!done) {
        tr_abort("sim", "no memory for a simulated disk");
    }
}

tr_err tri_sim_file_sync(tri_file *file)
{
    tr_err err = begin(file);

    if (err != TR_OK) {
        return err;
    }
    if (strikes(file, TRI_FAULT_sync_lie)) {
        return TR_OK;
    }
    inode *it = file->inode;
    tri_link *link;
    while ((link = tri_list_first(&it->pending)) != NULL) {
        operation *op = tri_container_of(link, operation, link);
        if (!op->is_lost) {
            apply(it, op);
        }
        tri_list_remove(link);
        free(op);
    }
    if (file->made_name && it->named) {
        sync_folder(file->sim->disk, it);
        file->made_name = false;
    }
    return TR_OK;
}

/* Applies each sector of a write, or not. */
static void apply_torn(inode *it, const operation *op, tri_rand *rand)
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

static uint64_t count_pending(const inode *it)
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

static void crash_content(tr_sim *sim, inode *it, tri_rand *rand)
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
        const operation *op = tri_container_of(link, operation, link);
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
            apply(it, op);
        }
    }
    drop_pending(it);
}

/*
 * Those who had the file open when the power went may still hold maps of what
 * they saw, so that stays with them. The platter goes to a new inode.
 */
static inode *crash_leave_behind(tri_sim_disk *disk, inode *it)
{
    if (it->open_count == 0) {
        return it;
    }
    inode *fresh = inode_new(disk, it->node, it->path);
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
static void crash_name(tri_sim_disk *disk, inode *it, tri_rand *rand)
{
    if (it->named == it->named_platter) {
        return;
    }
    bool named = tri_rand_next(rand) & 1;
    if (named && !it->named && inode_find(disk, it->node, it->path) != NULL) {
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
            locks_of_owner_drop(file);
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
        inode *it = tri_container_of(link, inode, link);
        link = link->prev;
        if (it->node == node && !it->left_behind) {
            crash_name(disk, it, rand);
            crash_content(sim, it, rand);
            it = crash_leave_behind(disk, it);
            if (!tri_content_copy(&it->seen, &it->platter)) {
                tr_abort("sim", "no memory for a simulated disk");
            }
            inode_free_if_unused(it);
        }
    }
}

void tri_sim_disk_lose(tr_sim *sim, uint32_t node)
{
    tri_sim_disk *disk = sim->disk;
    tri_link *link = disk->inodes.head.next;

    while (link != &disk->inodes.head) {
        inode *it = tri_container_of(link, inode, link);
        link = link->next;
        if (it->node == node && !it->left_behind) {
            it->named = false;
            it->named_platter = false;
            inode_free_if_unused(it);
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
        const inode *it = tri_container_of(link, inode, link);
        count += it->node == node ? count_pending(it) : 0;
    }
    return count;
}

/* ---- locks ---- */

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
    if (size == 0 || !range_fits(offset, size)) {
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

/* ---- maps ---- */

tr_err tri_sim_file_map(tri_file *file, uint64_t offset, size_t size,
                        void **out)
{
    tri_content *seen = &file->inode->seen;

    *out = NULL;
    tr_err err = begin(file);
    if (err != TR_OK) {
        return err;
    }
    if (size == 0 || offset > seen->size || size > seen->size - offset ||
        offset / TRI_SIM_CHUNK != (offset + size - 1) / TRI_SIM_CHUNK) {
        return TR_EINVAL;
    }
    *out = tri_content_at(seen, offset, size);
    return *out != NULL ? TR_OK : TR_ENOMEM;
}

void tri_sim_file_unmap(tri_file *file, void *at, size_t size)
{
    (void)file;
    (void)size;
    TRI_CHECK(at != NULL);
}

/* ---- names ---- */

tr_err tri_sim_file_remove(tri_world *world, const char *path, bool sync_dir)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tr_err err = trouble(node->sim, node->index);

    if (err != TR_OK) {
        return err;
    }
    inode *it = inode_find(node->sim->disk, node->index, path);
    if (it == NULL) {
        return TR_ENOENT;
    }
    it->named = false;
    if (sync_dir) {
        sync_folder(node->sim->disk, it);
    }
    inode_free_if_unused(it);
    return TR_OK;
}

tr_err tri_sim_file_exists(tri_world *world, const char *path, bool *out)
{
    tri_sim_node *node = tri_sim_node_of(world);

    *out = false;
    tr_err err = trouble(node->sim, node->index);
    if (err != TR_OK) {
        return err;
    }
    *out = inode_find(node->sim->disk, node->index, path) != NULL;
    return TR_OK;
}

/* ---- the whole ---- */

tr_err tri_sim_disk_new(tr_sim *sim)
{
    tri_sim_disk *disk = calloc(1, sizeof(*disk));

    sim->disk = disk;
    if (disk == NULL) {
        return TR_ENOMEM;
    }
    tri_list_init(&disk->inodes);
    tri_list_init(&disk->files);
    return TR_OK;
}

void tri_sim_disk_free(tr_sim *sim)
{
    tri_sim_disk *disk = sim->disk;
    tri_link *link;

    if (disk == NULL) {
        return;
    }
    while ((link = tri_list_first(&disk->files)) != NULL) {
        tri_sim_file_close(tri_container_of(link, tri_file, link));
    }
    while ((link = tri_list_first(&disk->inodes)) != NULL) {
        inode_free(tri_container_of(link, inode, link));
    }
    free(disk);
    sim->disk = NULL;
}
