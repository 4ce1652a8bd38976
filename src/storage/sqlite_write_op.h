/*
 * sqlite_write_op.h - carries out one write, inside a transaction of the
 * writer.
 */
#ifndef TRI_STORAGE_SQLITE_WRITE_OP_H
#define TRI_STORAGE_SQLITE_WRITE_OP_H

#include "storage/sqlite_fold.h"
#include "storage/store_op.h"

/*
 * Checks the fence and the version, writes, and raises the fence if the epoch
 * is higher. If a check refuses the op, it has failed, and SQLITE_OK is
 * returned. Returns an SQLite code.
 */
int tri_sqlite_write_op(tri_sqlite_store *store, tri_store_op *op);

#endif
