/*
 * sim_buggify.h - places in the code where a simulation may do the unlikely:
 * TR_BUGGIFY of programs and TRI_BUGGIFY of the library.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_BUGGIFY_H
#define TRI_SIM_SIM_BUGGIFY_H

#include <stdbool.h>

#include "troupe/base.h"

/* Returns true with probability p; counts and traces it for the site. */
bool tri_sim_buggify(tr_sim *sim, double p, const char *site);
void tri_sim_sites_free(tr_sim *sim);

#endif
