/*
 * file_job.h - one operation on files, as a thread for blocking calls does it.
 *
 * A job has copies of all it needs, because the turn that asks for it may be
 * ended before the thread has done it.
 *
 * Threads: the one that makes a job, then the one that runs it.
 */
#ifndef TRI_SYSTEM_FILE_JOB_H
#define TRI_SYSTEM_FILE_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

typedef enum tri_file_op {
    TRI_OP_OPEN,
    TRI_OP_READ,
    TRI_OP_WRITE,
    TRI_OP_SYNC,
    TRI_OP_RESIZE,
    TRI_OP_SIZE,
    TRI_OP_LOAD,
    TRI_OP_SAVE,
    TRI_OP_REMOVE,
} tri_file_op;

typedef struct tri_file_job {
    tri_file_op op;
    tri_world *world;
    tri_file *file;     // of an open file; made by TRI_OP_OPEN
    const char *path;   // of the others
    uint32_t flags;     // of TRI_OP_OPEN: TRI_FILE_*
    void *buf;          // read into
    const void *bytes;  // written
    size_t size;        // of the buffer, or of the bytes
    uint64_t offset;    // or a size of the file
    size_t done;        // bytes read
} tri_file_job;

/* Does the operation. Blocks. */
tr_err tri_file_job_run(tri_file_job *job);

#endif
