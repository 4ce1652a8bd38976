/*
 * file.c - the public calls on files: owners, and jobs for the threads that
 * block.
 *
 * Invariant: an actor that has opened a file has one closer for it, which holds
 * the file. A job that a turn has asked for is shared by the turn and the
 * thread; the last of them frees it, with the file that nobody took over.
 */
#include "system/file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/file_job.h"
#include "system/stream.h"
#include "troupe/actor.h"
#include "troupe/file.h"

_Static_assert((int)TR_FILE_READ == (int)TRI_FILE_READ &&
                   (int)TR_FILE_WRITE == (int)TRI_FILE_WRITE &&
                   (int)TR_FILE_CREATE == (int)TRI_FILE_CREATE &&
                   (int)TR_FILE_EXCLUSIVE == (int)TRI_FILE_EXCLUSIVE,
               "the flags are the same");

/* ---- holding and closing ---- */

static void file_hold(tr_file *file)
{
    // Relaxed: the caller holds the file already, or its list is locked.
    atomic_fetch_add_explicit(&file->holders, 1, memory_order_relaxed);
}

static void file_drop(tr_file *file)
{
    tri_io *io = file->io;
    // Release: publishes what this holder did. Acquire: the last holder sees
    // what all the others did. With the lock, so that tri_files_close finds no
    // file without holders.
    tri_lock_take(&io->files_lock);
    bool is_last =
        atomic_fetch_sub_explicit(&file->holders, 1, memory_order_acq_rel) == 1;
    if (is_last) {
        tri_list_remove(&file->link);
    }
    tri_lock_drop(&io->files_lock);
    if (is_last) {
        io->sys->world->ops->file_close(file->raw);
        file->magic = 0;
        free(file);
    }
}

/* Closes the file once. */
static void file_close(tr_file *file)
{
    TRI_CHECK(file->magic == TRI_FILE_MAGIC);
    // Relaxed: the holders order the rest.
    if (!atomic_exchange_explicit(&file->closed, true, memory_order_relaxed)) {
        file_drop(file);  // the opener's
    }
}

/* The closer of the owner, at the end of its incarnation. */
static void owner_ended(void *object)
{
    file_close(object);
    file_drop(object);
}

/* Makes the file of a file of the world. Takes raw, on every path. */
static tr_err file_new(tri_io *io, tr_ctx *ctx, tri_file *raw, tr_file **out)
{
    tr_file *file = tri_mem_calloc(&io->sys->mem, sizeof(*file));
    *out = file;
    if (file == NULL) {
        io->sys->world->ops->file_close(raw);
        return TR_ENOMEM;
    }
    file->magic = TRI_FILE_MAGIC;
    file->io = io;
    file->raw = raw;
    // Relaxed: no other thread knows the file yet.
    atomic_store_explicit(&file->holders, 1, memory_order_relaxed);
    tri_lock_take(&io->files_lock);
    tri_list_push_back(&io->files, &file->link);
    tri_lock_drop(&io->files_lock);
    if (ctx == NULL) {
        return TR_OK;
    }
    file->owner = tri_cell_ref(ctx->sys, ctx->cell).id;
    file_hold(file);
    if (!tri_closer_add(ctx, owner_ended, file)) {
        file_drop(file);
        file_close(file);
        *out = NULL;
        return TR_ENOMEM;
    }
    return TR_OK;
}

void(tr_file_close)(tr_from from, tr_file *file)
{
    if (file == NULL) {
        return;
    }
    TRI_CHECK(file->magic == TRI_FILE_MAGIC);
    TRI_CHECK(tri_from_system(from) == file->io->sys);
    file_hold(file);
    file_close(file);
    if (tri_from_is_ctx(from) &&
        file->owner == tri_cell_ref(from.ctx->sys, from.ctx->cell).id &&
        tri_closer_remove(from.ctx->cell, file)) {
        file_drop(file);
    }
    file_drop(file);
}

/* Holds the first file of the list, or returns NULL. */
static tr_file *any_file(tri_io *io)
{
    tri_lock_take(&io->files_lock);
    tri_link *first = tri_list_first(&io->files);
    tr_file *file =
        first != NULL ? tri_container_of(first, tr_file, link) : NULL;
    if (file != NULL) {
        file_hold(file);
    }
    tri_lock_drop(&io->files_lock);
    return file;
}

void tri_files_close(tri_io *io)
{
    tri_world *world = io->sys->world;
    tr_file *file;
    // Threads that are in a call return now, and leave their files.
    while ((file = any_file(io)) != NULL) {
        file_close(file);
        file_drop(file);
        world->ops->yield(world);
    }
}

/* ---- jobs of turns ---- */

/* A job with copies of its path and its bytes behind it. */
typedef struct turn_job {
    _Atomic(uint32_t) holders;
    tr_err err;
    tr_file *held;  // the open file of the job, or NULL
    tri_file_job job;
    char bytes[];
} turn_job;

static void turn_job_drop(turn_job *it)
{
    // Acquire and release: the last holder frees what both have written.
    if (atomic_fetch_sub_explicit(&it->holders, 1, memory_order_acq_rel) > 1) {
        return;
    }
    if (it->held != NULL) {
        file_drop(it->held);
    } else if (it->job.file != NULL) {
        it->job.world->ops->file_close(it->job.file);  // nobody took it over
    }
    free(it);
}

static tr_err turn_job_run(void *arg)
{
    turn_job *it = arg;
    it->err = tri_file_job_run(&it->job);
    turn_job_drop(it);
    return TR_OK;
}

static size_t path_size(const tri_file_job *job)
{
    return job->path != NULL ? strlen(job->path) + 1 : 0;
}

/* Copies the job, with what it borrows. Takes no hold of the file. */
static turn_job *turn_job_new(tr_system *sys, const tri_file_job *job)
{
    size_t path = path_size(job);
    if (job->size > SIZE_MAX - path - sizeof(turn_job)) {
        return NULL;
    }
    size_t bytes = job->buf != NULL || job->bytes != NULL ? job->size : 0;
    turn_job *it = tri_mem_calloc(&sys->mem, sizeof(*it) + path + bytes);
    if (it == NULL) {
        return NULL;
    }
    it->job = *job;
    if (job->path != NULL) {
        it->job.path = memcpy(it->bytes, job->path, path);
    }
    if (job->bytes != NULL && bytes > 0) {
        it->job.bytes = memcpy(it->bytes + path, job->bytes, bytes);
    }
    it->job.buf = job->buf != NULL ? it->bytes + path : NULL;
    return it;
}

/* Gives the results of the job to the caller's job. */
static void turn_job_give(turn_job *it, tri_file_job *job)
{
    job->done = it->job.done;
    job->offset = it->job.offset;
    if (job->buf != NULL && it->job.done > 0) {
        memcpy(job->buf, it->job.buf, it->job.done);
    }
    if (it->held == NULL) {
        job->file = it->job.file;
        it->job.file = NULL;
    }
}

static tr_err run_in_turn(tr_ctx *ctx, tri_file_job *job, tr_file *held)
{
    turn_job *it = turn_job_new(ctx->sys, job);
    if (it == NULL) {
        return TR_ENOMEM;
    }
    if (held != NULL) {
        file_hold(held);
        it->held = held;
    }
    // Relaxed: the thread does not know it yet.
    atomic_store_explicit(&it->holders, 2, memory_order_relaxed);
    tr_err err = tr_blocking(ctx, turn_job_run, it);
    if (err == TR_ENOMEM || err == TR_ELIMIT) {
        turn_job_drop(it);  // the thread's: the call has not begun
    } else if (err == TR_OK) {
        err = it->err;
        turn_job_give(it, job);
    }
    turn_job_drop(it);
    return err;
}

/* ---- calls ---- */

/* Does a job, on this thread or for this turn. */
static tr_err run(tr_from from, tri_file_job *job, tr_file *held)
{
    tr_ctx *ctx;
    TR_TRY(tri_stream_caller(from, &ctx));
    job->world = tri_from_system(from)->world;
    return ctx != NULL ? run_in_turn(ctx, job, held) : tri_file_job_run(job);
}

/* Does a job with an open file. */
static tr_err run_open(tr_from from, tr_file *file, tri_file_job *job)
{
    TRI_CHECK(file != NULL && file->magic == TRI_FILE_MAGIC);
    if (tri_from_system(from) != file->io->sys) {
        return TR_EFOREIGN;
    }
    // Relaxed: a call that misses a close made at the same time holds the file.
    if (atomic_load_explicit(&file->closed, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    job->file = file->raw;
    file_hold(file);
    tr_err err = run(from, job, file);
    file_drop(file);
    return err;
}

/* Does a job with a path, and says what went wrong with it. */
static tr_err run_path(tr_from from, const char *path, const char *what,
                       tri_file_job *job)
{
    TRI_CHECK(path != NULL);
    job->path = path;
    tr_err err = run(from, job, NULL);
    if (err != TR_OK && err != TR_EWOULDBLOCK) {
        tri_error_set(tri_from_is_ctx(from) ? from.ctx : NULL, "%s %s: %s",
                      what, path, tr_strerror(err));
    }
    return err;
}

tr_err(tr_file_open)(tr_from from, tr_file **out, const char *path,
                     uint32_t flags)
{
    TRI_CHECK(out != NULL);
    uint32_t known =
        TR_FILE_READ | TR_FILE_WRITE | TR_FILE_CREATE | TR_FILE_EXCLUSIVE;
    tri_file_job job = {.op = TRI_OP_OPEN, .flags = flags};
    tri_io *io;
    *out = NULL;
    if ((flags & ~known) || !(flags & (TR_FILE_READ | TR_FILE_WRITE))) {
        return TR_EINVAL;
    }
    TR_TRY(tri_io_need(tri_from_system(from), &io));
    TR_TRY(run_path(from, path, "opening", &job));
    return file_new(io, tri_from_is_ctx(from) ? from.ctx : NULL, job.file, out);
}

tr_err(tr_file_read)(tr_from from, tr_file *file, void *buf, size_t size,
                     uint64_t offset, size_t *got)
{
    TRI_CHECK(got != NULL);
    TRI_CHECK(buf != NULL || size == 0);
    tri_file_job job = {
        .op = TRI_OP_READ, .buf = buf, .size = size, .offset = offset};
    *got = 0;
    tr_err err = run_open(from, file, &job);
    *got = job.done;
    return err;
}

tr_err(tr_file_write)(tr_from from, tr_file *file, const void *bytes,
                      size_t size, uint64_t offset)
{
    TRI_CHECK(bytes != NULL || size == 0);
    tri_file_job job = {
        .op = TRI_OP_WRITE, .bytes = bytes, .size = size, .offset = offset};
    return run_open(from, file, &job);
}

tr_err(tr_file_sync)(tr_from from, tr_file *file)
{
    tri_file_job job = {.op = TRI_OP_SYNC};
    return run_open(from, file, &job);
}

tr_err(tr_file_resize)(tr_from from, tr_file *file, uint64_t size)
{
    tri_file_job job = {.op = TRI_OP_RESIZE, .offset = size};
    return run_open(from, file, &job);
}

tr_err(tr_file_size)(tr_from from, tr_file *file, uint64_t *size)
{
    TRI_CHECK(size != NULL);
    tri_file_job job = {.op = TRI_OP_SIZE};
    *size = 0;
    tr_err err = run_open(from, file, &job);
    *size = err == TR_OK ? job.offset : 0;
    return err;
}

tr_err(tr_file_load)(tr_from from, const char *path, void *buf, size_t size,
                     size_t *got)
{
    TRI_CHECK(got != NULL);
    TRI_CHECK(buf != NULL || size == 0);
    tri_file_job job = {.op = TRI_OP_LOAD, .buf = buf, .size = size};
    *got = 0;
    tr_err err = run_path(from, path, "loading", &job);
    *got = job.done;
    return err;
}

tr_err(tr_file_save)(tr_from from, const char *path, const void *bytes,
                     size_t size)
{
    TRI_CHECK(bytes != NULL || size == 0);
    tri_file_job job = {.op = TRI_OP_SAVE, .bytes = bytes, .size = size};
    return run_path(from, path, "saving", &job);
}

tr_err(tr_file_remove)(tr_from from, const char *path)
{
    tri_file_job job = {.op = TRI_OP_REMOVE};
    return run_path(from, path, "removing", &job);
}
