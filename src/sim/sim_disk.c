/*
 * sim_disk.c - the calls of a program on its files, and the faults that may
 * strike each of them.
 *
 * A write is seen at once and kept as pending; a sync takes what is pending to
 * the platter. A map is an address in the content that reads see, shared by
 * all who map it; what is written through a map never reaches the platter.
 *
 * Invariant: a write or truncation that succeeds is pending, in the order in
 * which reads see it, until a sync or a crash. A sync takes it to the platter,
 * unless the fault lost_write has marked it (is_lost). A file whose node has
 * crashed neither reads nor changes anything.
 */
#include "sim/sim_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "sim/sim.h"
#include "sim/sim_content.h"
#include "sim/sim_disk_lock.h"
#include "sim/sim_fault.h"
#include "sim/sim_inode.h"
#include "sim/sim_node.h"
#include "sim/sim_thread.h"

#define SIZE_LIMIT (UINT64_C(1) << 40)  // of a file; beyond is TR_EIO

/* ---- faults ---- */

static uint32_t node_of(const tri_file *file)
{
    return file->inode->node;
}

static bool strikes(tri_file *file, tri_sim_fault fault)
{
    return tri_sim_strikes(file->sim, fault, node_of(file));
}

/* Delays or fails an operation that begins. */
static tr_err draw_faults(tr_sim *sim, uint32_t node)
{
    if (sim->disk->unplugged) {
        return TR_EIO;
    }
    if (tri_sim_strikes(sim, TRI_FAULT_disk_slow, node)) {
        tr_nanos span = (tr_nanos)tri_sim_fault_below(sim, TRI_FAULT_disk_slow,
                                                      (uint64_t)sim->delay_max);
        // Delays threads only: a handler that slept would stop the whole world.
        (void)tri_sim_sleep(sim, span);
    }
    return tri_sim_strikes(sim, TRI_FAULT_disk_error, node) ? TR_EIO : TR_OK;
}

/* Begins an operation on an open file. */
static tr_err begin(tri_file *file)
{
    TRI_CHECK(file->magic == TRI_SIM_FILE_MAGIC);
    if (file->dead) {
        return TR_EIO;
    }
    tr_err err = draw_faults(file->sim, node_of(file));

    // The node may have crashed while a slow operation slept.
    return file->dead ? TR_EIO : err;
}

/* ---- opening ---- */

static tr_err find_or_make(tri_sim_disk *disk, uint32_t node, const char *path,
                           uint32_t flags, tri_sim_inode **out)
{
    *out = tri_sim_inode_find(disk, node, path);
    if (*out != NULL) {
        bool must_be_new =
            (flags & TRI_FILE_CREATE) && (flags & TRI_FILE_EXCLUSIVE);
        return must_be_new ? TR_EEXIST : TR_OK;
    }
    if (!(flags & TRI_FILE_CREATE)) {
        return TR_ENOENT;
    }
    *out = tri_sim_inode_new(disk, node, path);
    return *out != NULL ? TR_OK : TR_ENOMEM;
}

tr_err tri_sim_file_open(tri_world *world, tri_file **out, const char *path,
                         uint32_t flags)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tri_sim_disk *disk = node->sim->disk;
    tri_sim_inode *found;

    TRI_CHECK(out != NULL);
    TRI_CHECK(path != NULL);
    TRI_CHECK(flags & (TRI_FILE_READ | TRI_FILE_WRITE));
    *out = NULL;
    tr_err err = draw_faults(node->sim, node->index);
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
    file->magic = TRI_SIM_FILE_MAGIC;
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

void tri_sim_file_close(tri_file *file)
{
    if (file == NULL) {
        return;
    }
    TRI_CHECK(file->magic == TRI_SIM_FILE_MAGIC);
    TRI_CHECK(file->inode->open_count > 0);
    tri_sim_locks_drop(file);
    file->inode->open_count--;
    tri_sim_inode_free_if_unused(file->inode);
    tri_list_remove(&file->link);
    file->magic = 0;
    free(file);
}

/* ---- reading and writing ---- */

tr_err tri_sim_file_read(tri_file *file, void *at, size_t size, uint64_t offset,
                         size_t *done)
{
    TRI_CHECK(done != NULL);
    *done = 0;
    if (!tri_sim_range_fits(offset, size)) {
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

/* Writes what readers see, and adds the operation to the pending ones. */
static tr_err write_pending(tri_sim_inode *it, const char *at, size_t size,
                            uint64_t offset, bool is_lost)
{
    tri_sim_operation *op = malloc(sizeof(*op) + size);

    if (op == NULL) {
        return TR_ENOMEM;
    }
    *op =
        (tri_sim_operation){.offset = offset, .size = size, .is_lost = is_lost};
    memcpy(op->bytes, at, size);
    if (!tri_content_write(&it->seen, at, size, offset)) {
        free(op);
        return TR_ENOMEM;
    }
    tri_list_push_back(&it->pending, &op->link);
    return TR_OK;
}

/* Draws how many bytes a failed write leaves, in whole sectors. */
static size_t torn_size(tr_sim *sim, tri_sim_fault fault, size_t size)
{
    uint64_t sectors = size / TRI_SIM_SECTOR;

    if (sectors == 0) {
        return 0;
    }
    return (size_t)tri_sim_fault_below(sim, fault, sectors) * TRI_SIM_SECTOR;
}

/* Draws the offset of a misdirected write: another sector of the file. */
static uint64_t wrong_offset(tri_file *file, uint64_t offset)
{
    uint64_t sectors = file->inode->seen.size / TRI_SIM_SECTOR + 2;
    uint64_t other =
        tri_sim_fault_below(file->sim, TRI_FAULT_misdirected_write, sectors);

    return other * TRI_SIM_SECTOR + offset % TRI_SIM_SECTOR;
}

tr_err tri_sim_file_write(tri_file *file, const void *at, size_t size,
                          uint64_t offset)
{
    if (!tri_sim_range_fits(offset, size) || !file->writable) {
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
            (void)write_pending(file->inode, at, part, offset, false);
        }
        return TR_EIO;
    }
    if (strikes(file, TRI_FAULT_misdirected_write)) {
        offset = wrong_offset(file, offset);
    }
    bool is_lost = strikes(file, TRI_FAULT_lost_write);
    return write_pending(file->inode, at, size, offset, is_lost);
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
    tri_sim_operation *op = calloc(1, sizeof(*op));
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
    TRI_CHECK(file->magic == TRI_SIM_FILE_MAGIC);
    *out = 0;
    if (file->dead) {
        return TR_EIO;
    }
    *out = file->inode->seen.size;
    return TR_OK;
}

/* ---- reaching the platter ---- */

tr_err tri_sim_file_sync(tri_file *file)
{
    tr_err err = begin(file);

    if (err != TR_OK) {
        return err;
    }
    if (strikes(file, TRI_FAULT_sync_lie)) {
        return TR_OK;
    }
    tri_sim_inode *it = file->inode;
    tri_link *link;
    while ((link = tri_list_pop_front(&it->pending)) != NULL) {
        tri_sim_operation *op = tri_container_of(link, tri_sim_operation, link);
        if (!op->is_lost) {
            tri_sim_inode_apply(it, op);
        }
        free(op);
    }
    if (file->made_name && it->named) {
        tri_sim_folder_sync(file->sim->disk, it);
        file->made_name = false;
    }
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
    tr_err err = draw_faults(node->sim, node->index);

    TRI_CHECK(path != NULL);
    if (err != TR_OK) {
        return err;
    }
    tri_sim_inode *it = tri_sim_inode_find(node->sim->disk, node->index, path);
    if (it == NULL) {
        return TR_ENOENT;
    }
    it->named = false;
    if (sync_dir) {
        tri_sim_folder_sync(node->sim->disk, it);
    }
    tri_sim_inode_free_if_unused(it);
    return TR_OK;
}

/*
 * A crash finds the old name or the new one: both steps, the rename and the
 * sync of the folder, happen between two steps of the world.
 */
tr_err tri_sim_file_rename(tri_world *world, const char *path,
                           const char *new_path)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tri_sim_disk *disk = node->sim->disk;

    TRI_CHECK(path != NULL);
    TRI_CHECK(new_path != NULL);
    TR_TRY(draw_faults(node->sim, node->index));
    tri_sim_inode *it = tri_sim_inode_find(disk, node->index, path);
    if (it == NULL) {
        return TR_ENOENT;
    }
    tri_sim_inode *other = tri_sim_inode_find(disk, node->index, new_path);
    if (other == it) {
        return TR_OK;
    }
    if (!tri_sim_inode_rename(it, new_path)) {
        return TR_ENOMEM;
    }
    if (other != NULL) {
        other->named = false;
    }
    tri_sim_folder_sync(disk, it);
    // The folder was synced, or its sync has failed: the program cannot tell.
    return tri_sim_strikes(node->sim, TRI_FAULT_disk_error, node->index)
               ? TR_EIO
               : TR_OK;
}

tr_err tri_sim_file_exists(tri_world *world, const char *path, bool *out)
{
    tri_sim_node *node = tri_sim_node_of(world);

    *out = false;
    tr_err err = draw_faults(node->sim, node->index);
    if (err != TR_OK) {
        return err;
    }
    *out = tri_sim_inode_find(node->sim->disk, node->index, path) != NULL;
    return TR_OK;
}

/* ---- making and freeing ---- */

tr_err tri_sim_disk_new(tr_sim *sim)
{
    TRI_CHECK(sim->disk == NULL);
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
        tri_sim_inode_free(tri_container_of(link, tri_sim_inode, link));
    }
    free(disk);
    sim->disk = NULL;
}
