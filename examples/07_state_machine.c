/*
 * state machine - behaviours, and messages put aside for later.
 *
 * Notice: `door` and `door_open` are two handler tables for one state; the
 * current table decides which messages are possible. A message that comes too
 * early is stashed and comes back in its order. TR_ACTOR_FORWARD declares a
 * behaviour before its definition, so that two behaviours can change into each
 * other.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Place, (uint32_t, number));
TR_REQUEST(Open, tr_none);
TR_REQUEST(Close, tr_none);
TR_REQUEST(Enter, Place, (const char *, who));

typedef struct Door {
    uint32_t inside;
} Door;

/* ---- closed ---- */

// [snippet: closed]
TR_ACTOR_FORWARD(door_open, Door);

static tr_err closed_open(tr_ctx *ctx, Door *self, const Open *m)
{
    puts("door opens");
    tr_become(ctx, self, door_open);  // from the next message on
    tr_unstash_all(ctx);
    return tr_reply(ctx, m);
}

static tr_err closed_enter(tr_ctx *ctx, Door *self, const Enter *m)
{
    (void)self;
    printf("%s waits\n", m->who);
    return tr_stash(ctx, m);  // with its asker
}

TR_ACTOR(door, Door, TR_ON(Open, closed_open), TR_ON(Enter, closed_enter));
// [end]

/* ---- open ---- */

// [snippet: open]
static tr_err open_enter(tr_ctx *ctx, Door *self, const Enter *m)
{
    printf("%s enters\n", m->who);
    return tr_reply(ctx, m, .number = ++self->inside);
}

static tr_err open_close(tr_ctx *ctx, Door *self, const Close *m)
{
    puts("door closes");
    tr_become(ctx, self, door);
    return tr_reply(ctx, m);
}

TR_ACTOR(door_open, Door, TR_ON(Enter, open_enter), TR_ON(Close, open_close));
// [end]

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, door, .name = "door");

    tr_tell(sys, ref, Enter, .who = "Ann");
    tr_tell(sys, ref, Enter, .who = "Bob");
    tr_err err = tr_ask(sys, ref, NULL, TR_SECONDS(30), Close);
    printf("close: %s\n", tr_errname(err));  // not in this state
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Open));
    Place place;
    TR_MUST(tr_ask(sys, ref, &place, TR_SECONDS(30), Enter, .who = "Eve"));
    printf("Eve is number %u\n", place.number);
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Close));
    return tr_system_close(sys, 0) != TR_OK;
}
