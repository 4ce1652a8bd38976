/*
 * sqlite_layout.h - the tables in the file of a store or an engine.
 *
 * `application_id` marks a file as ours, `user_version` is the number of its
 * layout. A new file gets the newest layout, an older layout is upgraded, and
 * files of other programs and of newer layouts are refused.
 */
#ifndef TRI_STORAGE_SQLITE_LAYOUT_H
#define TRI_STORAGE_SQLITE_LAYOUT_H

#include "storage/sqlite_db.h"
#include "storage/sqlite_fault.h"

/* The tables of a store. */
extern const tri_sqlite_layout tri_sqlite_store_layout;

/*
 * Checks, without changing anything, that the file is empty or ours. Returns
 * an SQLite code; SQLITE_OK with why->err set means that the file is refused.
 */
int tri_sqlite_layout_check(tri_sqlite_db *db, tri_sqlite_fault *why);

/*
 * Checks the file again, makes or upgrades the tables, and writes the barrier
 * commit (see sqlite_layout.c), all in one transaction. Returns as
 * tri_sqlite_layout_check does.
 */
int tri_sqlite_layout_make(tri_sqlite_db *db, tri_sqlite_fault *why);

#endif
