/*
 * catalog_check.c - the walker of the catalog, by a name without prefix.
 */
#include "support/catalog_check.h"

#include "cluster/virtual/catalog.h"

void catalog_check(tr_system *sys)
{
    tri_catalog_check(sys, 0, TRI_SHARDS);
}
