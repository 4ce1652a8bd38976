/*
 * store.c - the folder of a run, and the store in it.
 *
 * The build sets BANK_POSTGRES to 1 if the PostgreSQL component is built.
 */
#define _GNU_SOURCE  // nftw
#include "store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPEN_FOLDERS = 16 };  // that nftw may have open

/* All members must name the files without symbolic links. */
static bool make_folder(Store *store)
{
    const char *given = getenv("TMPDIR");
    char *parent =
        realpath(given != NULL && *given != '\0' ? given : "/tmp", NULL);
    snprintf(store->folder, sizeof(store->folder), "%s/troupe-bank-XXXXXX",
             parent != NULL ? parent : "/tmp");
    free(parent);
    if (mkdtemp(store->folder) == NULL) {
        perror(store->folder);
        store->folder[0] = '\0';
        return false;
    }
    return true;
}

bool store_prepare(Store *store, bool postgres)
{
    *store = (Store){.postgres = postgres};
    if (postgres && !BANK_POSTGRES) {
        fprintf(stderr, "bank: built without PostgreSQL; install libpq-dev "
                        "and build again\n");
        return false;
    }
    if (!make_folder(store)) {
        return false;
    }
    snprintf(store->engine, sizeof(store->engine), "sqlite:%s/engine.db",
             store->folder);
    if (postgres) {
        return postgres_start(store);
    }
    snprintf(store->place, sizeof(store->place), "%s/bank.db", store->folder);
    return true;
}

static int remove_one(const char *path, const struct stat *status, int kind,
                      struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void store_clean_up(Store *store, bool keep)
{
    postgres_stop(store);
    if (store->folder[0] == '\0') {
        return;
    }
    if (keep) {
        printf("the store is kept: %s\n", store->folder);
    } else if (nftw(store->folder, remove_one, OPEN_FOLDERS,
                    FTW_DEPTH | FTW_PHYS) != 0) {
        perror(store->folder);
    }
}

tr_err store_open(const Store *store, tr_storage **out, char *text,
                  size_t text_size)
{
    const tr_storage_options *options =
        TR_OPTIONS(tr_storage_options, .text = text, .text_size = text_size);
    if (BANK_POSTGRES && store->postgres) {
        return tr_storage_postgres_with(out, store->place, options);
    }
    return tr_storage_sqlite_with(out, store->place, options);
}
