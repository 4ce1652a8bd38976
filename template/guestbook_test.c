/*
 * guestbook_test.c - the guestbook in a simulated world.
 *
 * The actor is unchanged; only its clock is virtual. tr_sim_advance lets an
 * hour pass at once, and no test depends on the speed of the machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guestbook.h"

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,         \
                    #condition);                                               \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static void signs(tr_system *sys, tr_ref book, const char *name,
                  const char *text, uint32_t guests)
{
    Thanks thanks;
    TR_MUST(tr_ask(sys, book, &thanks, 0, Sign, .name = name));
    CHECK(strcmp(thanks.text, text) == 0);
    CHECK(thanks.guests == guests);
    tr_drop(Thanks, &thanks);
}

int main(void)
{
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim),
                           .log_level = TR_LOG_WARN));
    tr_ref book = tr_spawn(sys, guestbook);

    signs(sys, book, "Ada", "Welcome, Ada! You are the first.", 1);
    signs(sys, book, "Grace", "Welcome, Grace! Before you came Ada.", 2);
    CHECK(tr_ask(sys, book, NULL, 0, Sign, .name = "") == TR_EINVAL);

    tr_sim_advance(sim, TR_MINUTES(59));
    signs(sys, book, "Barbara", "Welcome, Barbara! Before you came Grace.", 3);
    tr_sim_advance(sim, TR_MINUTES(61));
    signs(sys, book, "Frances", "Welcome, Frances! You are the first.", 1);

    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
    puts("guestbook: all is well");
    return 0;
}
