/*
 * sqlite_journal_sync.h - brings the index of the journal up to a snapshot.
 */
#ifndef TRI_STORAGE_SQLITE_JOURNAL_SYNC_H
#define TRI_STORAGE_SQLITE_JOURNAL_SYNC_H

#include <stdint.h>

#include "storage/sqlite_db.h"
#include "storage/sqlite_journal.h"

/*
 * Reads, in the transaction that the connection is in, how far the journal is
 * folded (*folded) and the number of its newest row (*last), and adds the rows
 * to the index that it does not know: other processes wrote them. Returns an
 * SQLite code.
 */
int tri_sqlite_journal_sync(tri_sqlite_db *db, tri_journal *journal,
                            uint64_t *folded, uint64_t *last);

#endif
