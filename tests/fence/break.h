/*
 * break.h - leaves out a part of the fence in a system that has joined.
 */
#ifndef TEST_FENCE_BREAK_H
#define TEST_FENCE_BREAK_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"

/* Sets *parts to TRI_FENCE_BREAK_* of a name; false: there is no such part. */
bool break_of_name(const char *name, uint32_t *parts);
/* Leaves these parts out from now on; 0: none. */
void break_fence(tr_system *sys, uint32_t parts);

#endif
