/*
 * trial.h - one run of a random program.
 */
#ifndef TROUPE_RANDOM_TRIAL_H
#define TROUPE_RANDOM_TRIAL_H

#include "plan.h"

/* Runs a program to its end. A broken rule ends the process. */
void trial_run(const plan *p);

#endif
