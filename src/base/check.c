/*
 * check.c - how a failed check ends the process.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void tr_abort(const char *site, const char *what)
{
    // Not checked in turn: a second failure here would hide the first.
    fprintf(stderr, "troupe: %s: %s\n", site != NULL ? site : "?",
            what != NULL ? what : "?");
    abort();
}
