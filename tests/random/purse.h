/*
 * purse.h - virtual actors with a stored state, as a part of random programs.
 */
#ifndef TROUPE_RANDOM_PURSE_H
#define TROUPE_RANDOM_PURSE_H

#include "actor.h"

/* Hosts the purses; their store fails now and then with that option. */
void purses_open(trial *t, bool fails);
/* Checks that every deposit that was confirmed is stored, and no other. */
void purses_at_rest(trial *t);
/* Closes their store, after the system. */
void purses_close(trial *t);

#endif
