/*
 * sqlite_sum.h - the checksums of rows.
 *
 * SQLite has checksums for its log, but not for the pages of the database: a
 * bit that flips there would be read as a state that was never saved. So each
 * row has a column `sum` over its key, its number (a version, an event number,
 * a due time) and its bytes. States and events are summed in different ways,
 * because SQLite would read a misplaced page of one table as rows of the other.
 *
 * All sums are at most TRI_STORE_NUMBER_MAX and fit an integer column.
 */
#ifndef TRI_STORAGE_SQLITE_SUM_H
#define TRI_STORAGE_SQLITE_SUM_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/store_op.h"

/* Returns the sum of a state, a journal row or a reminder. */
uint64_t tri_sqlite_sum(tri_store_bytes key, uint64_t number,
                        tri_store_bytes bytes);
/* Returns the same sum, for a caller that has tri_hash_bytes of the key. */
uint64_t tri_sqlite_sum_hashed(uint64_t key_hash, uint64_t number,
                               tri_store_bytes bytes);
/* Returns the sum of an event whose append ends with event `upto`. */
uint64_t tri_sqlite_event_sum(tri_store_bytes key, uint64_t number,
                              uint64_t upto, tri_store_bytes bytes);
/*
 * Returns the sum of an event and all events before it, from the event's own
 * sum and the chain sum `prev` of the event before.
 */
uint64_t tri_sqlite_chain_sum(uint64_t sum, uint64_t prev);
/* Returns whether a column of the current row holds this sum. */
bool tri_sqlite_sum_fits(sqlite3_stmt *statement, int column, uint64_t sum);

#endif
