/*
 * store.h - the folder of a run: the engine of the cluster, and where the
 * accounts are stored, SQLite or a PostgreSQL server.
 *
 * Ownership: the caller that prepares a store cleans it up. Each node opens it
 * separately.
 */
#ifndef DEMO_STORE_H
#define DEMO_STORE_H

#include <sys/types.h>

#include <troupe/troupe.h>

enum { STORE_TEXT = 512 };

typedef struct Store {
    bool postgres;
    char folder[128];         // temporary; everything is in it
    char engine[STORE_TEXT];  // TROUPE_ENGINE of all members
    char place[STORE_TEXT];   // the file, or how to reach the server
    pid_t server;             // of PostgreSQL, or 0
} Store;

/*
 * Makes the folder and, for PostgreSQL, a server in it. Returns false after
 * printing why it failed.
 */
bool store_prepare(Store *store, bool postgres);
/* Stops the server; removes the folder unless it is to be kept. */
void store_clean_up(Store *store, bool keep);
/* Opens the store for a node. text says why it failed. */
tr_err store_open(const Store *store, tr_storage **out, char *text,
                  size_t text_size);

/*
 * Starts the server (postgres.c) and fills in place and server. Returns false
 * after printing why it failed.
 */
bool postgres_start(Store *store);
void postgres_stop(Store *store);

#endif
