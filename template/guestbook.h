/* guestbook.h - the requests of a guestbook and their answers. */
#ifndef GUESTBOOK_H
#define GUESTBOOK_H

#include <troupe/troupe.h>

/* A request names the type of its answer: another reply does not compile. */
TR_MESSAGE(Thanks, (const char *, text), (uint32_t, guests));
TR_REQUEST(Sign, Thanks, (const char *, name));

/* The actor's state; it is zero at the start. */
typedef struct Guestbook {
    uint32_t guests;
    char *last;  // the last guest, in the actor's own memory
} Guestbook;

TR_ACTOR_DECLARE(guestbook, Guestbook);

#endif
