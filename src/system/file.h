/*
 * file.h - a file of the program: a file of the world with an owner.
 *
 * A file is shared: by its opener until it is closed, by the closer of the
 * actor that owns it, and by each call in progress. The last one closes the
 * file of the world.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_FILE_H
#define TRI_SYSTEM_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "system/io.h"

#define TRI_FILE_MAGIC UINT64_C(0x545246494c454141)

struct tr_file {
    uint64_t magic;
    tri_io *io;
    tri_file *raw;
    _Atomic(uint32_t) holders;
    _Atomic(bool) closed;
    uint64_t owner;  // id of an actor; 0: the program
    tri_link link;   // in io->files; guarded by its lock
};

/* Closes the files that are left in a system, whose actors have ended. */
void tri_files_close(tri_io *io);

#endif
