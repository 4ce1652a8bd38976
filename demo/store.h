/*
 * store.h - where the accounts are kept: SQLite, or a PostgreSQL of our own.
 *
 * Ownership: whoever prepares a store cleans it up. Nodes open it by itself.
 */
#ifndef DEMO_STORE_H
#define DEMO_STORE_H

#include <sys/types.h>

#include <troupe/troupe.h>

enum { STORE_TEXT = 512 };

typedef struct Store {
    bool postgres;
    char folder[128];        // temporary; everything lies in it
    char place[STORE_TEXT];  // the file, or how to reach the server
    pid_t server;            // of PostgreSQL, or 0
} Store;

/*
 * Makes the folder and, for PostgreSQL, a server in it. False: why not has
 * been printed.
 */
bool store_prepare(Store *store, bool postgres);
/* Stops the server; removes the folder unless it shall be kept. */
void store_clean_up(Store *store, bool keep);
/* For a node. text says why it failed. */
tr_err store_open(const Store *store, tr_storage **out, char *text,
                  size_t text_size);

/* postgres.c: fills place and server. False: why not has been printed. */
bool postgres_start(Store *store);
void postgres_stop(Store *store);

#endif
