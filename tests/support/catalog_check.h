/*
 * catalog_check.h - checks the catalog of the virtual actors of a system, for
 * tests that use the public headers only otherwise.
 */
#ifndef TEST_SUPPORT_CATALOG_CHECK_H
#define TEST_SUPPORT_CATALOG_CHECK_H

#include <troupe/troupe.h>

/* Walks over all shards; a check fails if names and activations disagree. */
void catalog_check(tr_system *sys);

#endif
