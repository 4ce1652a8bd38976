/*
 * file_job.c - the operations on files, on the files of a world.
 */
#include "system/file_job.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const tri_world_ops *ops_of(const tri_file_job *job)
{
    return job->world->ops;
}

/* ---- whole files ---- */

static tr_err load_from(tri_file_job *job, tri_file *file)
{
    uint64_t size;
    TR_TRY(ops_of(job)->file_size(file, &size));
    TR_TRY(ops_of(job)->file_read(file, job->buf, job->size, 0, &job->done));
    return size > job->size ? TR_ELIMIT : TR_OK;
}

static tr_err load(tri_file_job *job)
{
    tri_file *file;
    TR_TRY(ops_of(job)->file_open(job->world, &file, job->path, TRI_FILE_READ));
    tr_err err = load_from(job, file);
    ops_of(job)->file_close(file);
    return err;
}

/* Returns the path of the second file; the caller frees it. NULL: no memory. */
static char *second_path(tri_file_job *job)
{
    size_t size = strlen(job->path) + sizeof(".0123456789abcdef.new");
    char *path = malloc(size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s.%016" PRIx64 ".new", job->path,
                       ops_of(job)->random(job->world));
    }
    return path;
}

/* Writes the second file, durably. */
static tr_err write_second(tri_file_job *job, const char *path)
{
    tri_file *file;
    TR_TRY(ops_of(job)->file_open(job->world, &file, path,
                                  TRI_FILE_WRITE | TRI_FILE_CREATE |
                                      TRI_FILE_EXCLUSIVE));
    tr_err err = ops_of(job)->file_write(file, job->bytes, job->size, 0);
    if (err == TR_OK) {
        err = ops_of(job)->file_sync(file);
    }
    ops_of(job)->file_close(file);
    return err;
}

static tr_err save(tri_file_job *job)
{
    char *path = second_path(job);
    if (path == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = write_second(job, path);
    if (err == TR_OK) {
        err = ops_of(job)->file_rename(job->world, path, job->path);
    }
    if (err != TR_OK) {
        // Its name may never have been there, or be the new one already.
        (void)ops_of(job)->file_remove(job->world, path, false);
    }
    free(path);
    return err;
}

/* ---- all operations ---- */

tr_err tri_file_job_run(tri_file_job *job)
{
    const tri_world_ops *ops = ops_of(job);
    TRI_CHECK((job->file != NULL) != (job->path != NULL));
    switch (job->op) {
    case TRI_OP_OPEN:
        return ops->file_open(job->world, &job->file, job->path, job->flags);
    case TRI_OP_READ:
        return ops->file_read(job->file, job->buf, job->size, job->offset,
                              &job->done);
    case TRI_OP_WRITE:
        return ops->file_write(job->file, job->bytes, job->size, job->offset);
    case TRI_OP_SYNC:
        return ops->file_sync(job->file);
    case TRI_OP_RESIZE:
        return ops->file_truncate(job->file, job->offset);
    case TRI_OP_SIZE:
        return ops->file_size(job->file, &job->offset);
    case TRI_OP_LOAD:
        return load(job);
    case TRI_OP_SAVE:
        return save(job);
    case TRI_OP_REMOVE:
        return ops->file_remove(job->world, job->path, true);
    }
    return TR_EINVAL;
}
