/*
 * actor.h - the actor kind of all random programs, and what its turns do.
 */
#ifndef TROUPE_RANDOM_ACTOR_H
#define TROUPE_RANDOM_ACTOR_H

#include "model.h"

/* Who performs steps: an actor in a turn, or an outside thread. */
typedef struct turn {
    trial *trial;
    tr_ctx *ctx;  // NULL outside
    tr_from from;
    life *life;  // NULL outside
    turn_kind kind;
    uint32_t source;  // as in note.source
    note *note;       // of the message that is handled, or NULL
    const void *message;
    bool is_request;  // the message is one
    bool taken;       // the message was kept
    tr_err err;       // what the handler returns
    bool over;        // the rest of the steps is left out
} turn;

/* One function for each verb. */
#define X(name, handler, outside, hook, text)                                  \
    void step_##name(turn *t, const step *s);
VERBS(X)
#undef X

/* What verbs have in common. */
tr_nanos step_span(const turn *t, const step *s);
tr_nanos step_short_span(const step *s);
tr_ref step_target(const turn *t, const step *s);
/* Takes a note for a message of this turn; NULL: none is left. */
note *step_note(turn *t, tr_ref to, bool is_ask, uint8_t priority);

/* The callback of tr_ask_then, and the other behaviour of tr_become. */
tr_err player_then(tr_ctx *ctx, void *self, const void *reply, tr_err err);
extern const tr_actor_def *const player_behaviours[2];
extern const tr_interceptor *const player_interceptors[];

/* Performs steps; returns what a handler is to return. */
tr_err perform(turn *t, const step *steps, uint32_t count);

/* Fills in the policy that the argument of an option stands for. */
void option_supervision(tr_supervision *out, uint32_t arg);

/* Spawns an actor of a slot. */
void spawn_slot(turn *t, uint32_t slot);

#endif
