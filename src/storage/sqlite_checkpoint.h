/*
 * sqlite_checkpoint.h - the checkpointer: a thread that copies the pages of
 * the write-ahead log into the database.
 */
#ifndef TRI_STORAGE_SQLITE_CHECKPOINT_H
#define TRI_STORAGE_SQLITE_CHECKPOINT_H

#include "base/world.h"
#include "storage/inbox.h"
#include "storage/sqlite_db.h"

/* All fields except the inbox belong to the checkpointer's thread. */
typedef struct tri_sqlite_checkpointer {
    tri_inbox inbox;  // without ops; the writer wakes it
    tri_sqlite_db db;
    tri_thread *thread;
} tri_sqlite_checkpointer;

/* The thread; takes the store and returns when its inbox is closed. */
void tri_sqlite_checkpoint_loop(void *store);

#endif
