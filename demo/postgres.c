/*
 * postgres.c - a PostgreSQL server for one run.
 */
#include <stdio.h>

#include "store.h"

bool postgres_start(Store *store)
{
    (void)store;
    fprintf(stderr, "bank: this Troupe was built without PostgreSQL\n");
    return false;
}

void postgres_stop(Store *store)
{
    (void)store;
}
