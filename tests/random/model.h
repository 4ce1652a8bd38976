/*
 * model.h - what a random program has observed, and what it must have been.
 *
 * Actors and threads write what happens into notes (one for each message) and
 * lives (one for each spawn). Most rules are checked where they could break; the
 * others when all mail is handled and after the system is closed. A broken rule
 * ends the process.
 *
 * The fields are plain where the library itself orders the accesses (an actor's
 * own turns; a message's sender before its handler), so that the thread
 * sanitizer checks that order, too. The others are atomics.
 */
#ifndef TROUPE_RANDOM_MODEL_H
#define TROUPE_RANDOM_MODEL_H

#include <stdatomic.h>

#include <troupe/troupe.h>

#include "plan.h"

enum {
    LIVES = 256,     // most spawns of a trial
    NOTES = 8192,    // most messages of a trial
    TIMERS = 16,     // most timers of one incarnation
    KEPT = 8,        // most kept requests of one incarnation
    PURSES = 4,      // virtual actors
    SUMS = 1024,     // highest sum of a purse that is checked
    WATCHES = 64,    // most watches of one life
    FAILURES = 100,  // different errors of failing steps
    ANSWERED =
        1 << 20,  // in note.answer: the reply with value note.answer - 2^20
};

TR_MESSAGE(Answer, (uint32_t, value));
TR_MESSAGE(Work, (uint32_t, note), (uint32_t, script));
TR_REQUEST(Ask, Answer, (uint32_t, note), (uint32_t, script));
TR_REQUEST(Read, Answer, (uint32_t, note), (uint32_t, script));
TR_REQUEST(Beside, Answer, (uint32_t, note), (uint32_t, script));
TR_MESSAGE(Tick, (uint32_t, timer), (uint32_t, incarnation));
TR_MESSAGE(Event, (uint32_t, number));

/* What happened to one message. */
typedef struct note {
    tr_ref to;
    uint32_t source;   // index of a life, or LIVES + index of a thread
    uint32_t seq;      // among the messages of its source
    uint8_t priority;  // 0: ordinary
    bool is_ask;
    atomic_bool sent;     // the fields above are filled in
    atomic_bool refused;  // tr_try_tell returned an error
    bool loose;           // its order is not promised
    atomic_uint again;    // how often it may be handled once more
    atomic_uint begun;    // how often its handler has begun
    atomic_uint dead;     // how often it was a dead letter
    atomic_uint reason;   // why
    uint32_t order;       // in the life that handled it, first time
    atomic_uint answer;   // what the handler answered: an error or ANSWERED
    atomic_uint failed;   // the error that its handler failed with
    atomic_uint ends;     // how often the asker got a result
    tr_err err;           // that result
    uint32_t value;       // the value of the reply
} note;

typedef enum stage {
    STAGE_NONE,
    STAGE_SPAWNED,
    STAGE_STARTING,    // pre_start has begun
    STAGE_RUNNING,     // post_start has begun
    STAGE_RESTARTING,  // pre_restart has begun
    STAGE_BETWEEN,     // post_stop(TR_RESTARTING) has begun
    STAGE_STOPPING,    // pre_stop has begun
    STAGE_ENDED,       // post_stop has begun
} stage;

/* What a turn may run beside: rule 6 (what runs while a turn is parked). */
typedef enum turn_kind {
    TURN_WRITES,  // handlers, hooks and callbacks
    TURN_READS,   // TR_ON_READ
    TURN_BESIDE,  // TR_ON_INTERLEAVE
    TURN_RUNS,    // on_run
} turn_kind;

typedef struct timer {
    tr_timer id;
    tr_nanos due;
    tr_nanos span;
    bool active, periodic;
} timer;

typedef struct kept {
    const void *message;
    note *note;
} kept;

typedef struct watch {
    tr_ref ref;
    atomic_bool active;
    atomic_bool perhaps;  // a restart may have ended it: rule 28 (a restart)
} watch;

/* One spawn of a slot. */
typedef struct life {
    uint32_t slot;
    uint32_t parent;          // source of the spawn
    bool keeps;               // its children, at a restart
    _Atomic(tr_nanos) ended;  // when its last post_stop returned, or 0
    _Atomic uint64_t cell, id;
    atomic_uint stage;
    bool turn;         // a writing turn is at work, perhaps parked
    uint32_t readers;  // reading turns
    uint32_t incarnation;
    atomic_uint holds;    // handles of an actor that stops without any
    atomic_bool lenient;  // others may have begun or ended its watches
    // Of the incarnation:
    timer timers[TIMERS];
    uint32_t timer_count;
    kept kept[KEPT];
    uint32_t kept_count;
    uint32_t then_open, pipe_open;  // asks whose callback has not come
    uint32_t closers;               // tr_on_end that have not been called
    bool other;                     // it has become the other behaviour
    bool joined;                    // the topic
    bool timeout;                   // tr_receive_timeout is set
    uint32_t order;                 // messages handled
    uint32_t sent;                  // messages sent
    watch watches[2 * WATCHES];
    uint32_t watch_calls;
    atomic_uint watch_count;
    atomic_uint nobody;  // watches of nobody that are not answered yet
} life;

/* What was learnt of one virtual actor. */
typedef struct purse_notes {
    atomic_uint begun, confirmed;
    atomic_uint not_run;     // certainly
    atomic_bool seen[SUMS];  // sums that were answered
} purse_notes;

/* One run of a program. */
typedef struct trial {
    const plan *plan;
    tr_system *sys;
    tr_sim *sim;
    life lives[LIVES];
    atomic_uint life_count;
    atomic_uint slots[SLOTS];  // 1 + index of the newest life, or 0
    note notes[NOTES];
    atomic_uint note_count;
    uint32_t thread_sent[THREADS];
    tr_storage *memory, *store;  // of the purses
    purse_notes purses[PURSES];
    atomic_bool failed[FAILURES + 1];  // with TR_EUSER + index; last: panics
    atomic_uint decided;               // calls of deciders
    atomic_uint called;                // handler calls
} trial;

/* Where the name of the broken rule is left for the parent process, or NULL. */
extern char *broken_rule;
enum { BROKEN_SIZE = 64 };

/* Prints which rule was broken and how, and ends the process. */
_Noreturn void broken(const char *rule, const char *format, ...)
    TR_PRINTF(2, 3);

/* Takes a new life; NULL if the trial has used up all of them. */
life *life_new(trial *t, uint32_t slot, uint32_t parent);
void life_set_ref(life *l, tr_ref ref);
tr_ref life_ref(const life *l);
/* Returns the newest actor of a slot, or nobody. */
tr_ref slot_ref(const trial *t, uint32_t slot);

/* Takes a note for a message that is about to be sent; NULL: none is left. */
note *note_new(trial *t, uint32_t source, tr_ref to, bool is_ask,
               uint8_t priority);
uint32_t note_index(const trial *t, const note *n);
/* Notes that the handler of a message begins in a life. */
void note_begin(trial *t, life *l, note *n);
/* Notes the result of an ask and checks that it tells the truth so far. */
void note_end(note *n, tr_err err, const Answer *answer);

/* Begin and end a turn of a life: one at a time, in the order of a life. */
void turn_begin(life *l, turn_kind kind, const char *what);
void turn_end(life *l, turn_kind kind);
void life_handles(life *l, uint32_t incarnation);
void life_hook(trial *t, life *l, hook h, tr_reason reason,
               uint32_t incarnation);

/* False if the life has used up its watches: a notice may cause a watch. */
bool watch_may(const life *l);
void watch_add(life *l, tr_ref ref);
void watch_remove(life *l, tr_ref ref);
void watch_told(life *l, tr_ref ref, uint32_t reason);
/* Ends all watches of an actor that ends. */
void watch_forget(life *l);
/*
 * A restart has ended the watches of the children that it stopped. A notice of
 * one that had ended before may still come.
 */
void watch_forget_children(trial *t, life *l);

void dead_add(void *user, const tr_type *type, const void *event);

/* Returns true if every message was handled or is a dead letter. */
bool model_settled(trial *t);
/* Names what is missing when model_settled has not become true in time. */
_Noreturn void model_unsettled(trial *t);
/* Checks the rules that need a system at rest. */
void model_at_rest(trial *t);
/* Checks everything else after the system was closed. */
void model_at_end(trial *t, tr_err closed, const tr_close_report *report);

#endif
