/* guestbook.h - what a guestbook is asked, and what it answers. */
#ifndef GUESTBOOK_H
#define GUESTBOOK_H

#include <troupe/troupe.h>

/* A request names its answer: a reply of another type does not compile. */
TR_MESSAGE(Thanks, (const char *, text), (uint32_t, guests));
TR_REQUEST(Sign, Thanks, (const char *, name));

/* The actor's state; zero is how it begins. */
typedef struct Guestbook {
    uint32_t guests;
    char *last;  // who signed last, in the actor's own memory
} Guestbook;

TR_ACTOR_DECLARE(guestbook, Guestbook);

#endif
