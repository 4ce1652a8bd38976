/*
 * check.c - ends the process when a check fails.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void tr_abort(const char *site, const char *what)
{
    // No checks here: a second failure would hide the first.
    fprintf(stderr, "troupe: %s: %s\n", site != NULL ? site : "?",
            what != NULL ? what : "?");
    abort();
}
