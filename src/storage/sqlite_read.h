/*
 * sqlite_read.h - the reader: a thread that carries out all reads.
 */
#ifndef TRI_STORAGE_SQLITE_READ_H
#define TRI_STORAGE_SQLITE_READ_H

#include <stdint.h>

#include "base/world.h"
#include "storage/inbox.h"
#include "storage/sqlite_db.h"

/* All fields except the inbox belong to the reader's thread. */
typedef struct tri_sqlite_reader {
    tri_inbox inbox;
    tri_sqlite_db db;
    uint64_t stamp;  // of the cache of versions, before the snapshot
    tri_thread *thread;
} tri_sqlite_reader;

/* The thread; takes the store and returns when its inbox is closed. */
void tri_sqlite_read_loop(void *store);

#endif
