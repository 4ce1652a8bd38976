/*
 * steps.c - performs the steps of a random program: one function for each
 * verb.
 */
#include <time.h>

#include "actor.h"

tr_nanos step_span(const turn *t, const step *s)
{
    return TR_MS(plan_span_ms(t->trial->plan, s->arg));
}

tr_ref step_target(const turn *t, const step *s)
{
    return slot_ref(t->trial, s->slot);
}

tr_nanos step_short_span(const step *s)
{
    return TR_MS(1 + s->arg % 8);
}

note *step_note(turn *t, tr_ref to, bool is_ask, uint8_t priority)
{
    note *n = note_new(t->trial, t->source, to, is_ask, priority);

    // Turns that run beside each other have no order among themselves.
    if (n != NULL && t->kind != TURN_WRITES) {
        n->loose = true;
    }
    return n;
}

void step_SPAWN(turn *t, const step *s)
{
    spawn_slot(t, s->slot);
}

void step_TELL(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    note *n = step_note(t, to, false, 0);

    if (n != NULL) {
        tr_tell(t->from, to, Work, .note = note_index(t->trial, n),
                .script = s->script);
    }
}

void step_TRY_TELL(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    note *n = step_note(t, to, false, 0);

    if (n == NULL) {
        return;
    }
    tr_err err = tr_try_tell(t->from, to, Work, .note = note_index(t->trial, n),
                             .script = s->script);
    if (err != TR_OK) {
        atomic_store(&n->refused, true);
    }
}

void step_URGENT(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    uint8_t priority = (uint8_t)(1 + s->arg % TR_PRIORITY_MAX);
    note *n = step_note(t, to, false, priority);

    if (n != NULL) {
        tr_tell_urgent(t->from, to, priority, Work,
                       .note = note_index(t->trial, n), .script = s->script);
    }
}

void step_ASK(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    Answer answer = {0};
    note *n = step_note(t, to, true, 0);

    if (n == NULL) {
        return;
    }
    tr_err err = tr_ask(t->from, to, &answer, step_span(t, s), Ask,
                        .note = note_index(t->trial, n), .script = s->script);
    note_end(n, err, &answer);
}

void step_STOP(turn *t, const step *s)
{
    tr_stop(t->from, step_target(t, s));
}

void step_POISON(turn *t, const step *s)
{
    tr_poison(t->from, step_target(t, s));
}

void step_KILL(turn *t, const step *s)
{
    tr_kill(t->from, step_target(t, s));
}

void step_WATCH(turn *t, const step *s)
{
    tr_ref ref = step_target(t, s);

    if (watch_may(t->life)) {
        watch_add(t->life, ref);
        tr_watch(t->ctx, ref);
    }
}

void step_UNWATCH(turn *t, const step *s)
{
    tr_ref ref = step_target(t, s);

    if (ref.id != 0) {
        tr_unwatch(t->ctx, ref);
        watch_remove(t->life, ref);
    }
}

void step_SLEEP(turn *t, const step *s)
{
    tr_nanos span = TR_MS(s->arg % 4);

    if (t->ctx != NULL) {
        tr_nanos from = tr_now(t->ctx);
        tr_err err = tr_sleep(t->ctx, span);
        if (err == TR_OK && tr_now(t->ctx) - from < span) {
            broken("rule 38 (timers)", "a sleep ended early");
        }
    } else if (t->trial->sim != NULL) {
        tr_sim_advance(t->trial->sim, span);
    } else {  // a step of the program, on which nothing depends
        nanosleep(&(struct timespec){.tv_nsec = span}, NULL);
    }
}

void step_REPLY(turn *t, const step *s)
{
    if (!t->is_request) {
        return;
    }
    uint32_t none = 0, value = s->arg;
    // Before the reply: the asker may go on while tr_reply returns.
    bool first = atomic_compare_exchange_strong(&t->note->answer, &none,
                                                ANSWERED + value);
    tr_err err = (tr_reply)(t->ctx, t->message, &(Answer){.value = value});
    if (err != (first ? TR_OK : TR_EEXIST)) {
        broken("tr_reply", "%s for the %s answer", tr_errname(err),
               first ? "first" : "second");
    }
}

void step_REFUSE(turn *t, const step *s)
{
    uint32_t none = 0, err = TR_EUSER + s->arg % FAILURES;

    if (!t->is_request) {
        return;
    }
    (void)atomic_compare_exchange_strong(&t->note->answer, &none, err);
    if (tr_refuse(t->ctx, t->message, (tr_err)err, "no") != TR_OK) {
        broken("tr_refuse", "returned an error");
    }
}

static void fails_with(turn *t, uint32_t err)
{
    atomic_store(
        &t->trial->failed[err == TR_EPANIC ? FAILURES : err - TR_EUSER], true);
    if (t->note != NULL) {
        atomic_store(&t->note->failed, err);
    }
    t->over = true;
}

void step_FAIL(turn *t, const step *s)
{
    fails_with(t, TR_EUSER + s->arg % FAILURES);
    t->err = tr_fail(t->ctx, (tr_err)(TR_EUSER + s->arg % FAILURES), "failed");
}

void step_PANIC(turn *t, const step *s)
{
    (void)s;
    fails_with(t, TR_EPANIC);
    turn_end(t->life, t->kind);
    tr_panic(t->ctx, "panicked");
}

void step_STARTED(turn *t, const step *s)
{
    tr_err err = tr_started(t->from, step_target(t, s), step_span(t, s));

    if (err == TR_EINVAL) {
        broken("tr_started", "%s", tr_errname(err));
    }
}

/* When the actor's last post_stop returned; 0 if it has not, or is unknown. */
static tr_nanos end_of(trial *t, tr_ref ref)
{
    tr_nanos ended = 0;

    for (uint32_t i = 0; i < atomic_load(&t->life_count) && i < LIVES; i++) {
        if (tr_ref_eq(life_ref(&t->lives[i]), ref)) {
            ended = atomic_load(&t->lives[i].ended);
        }
    }
    return ended;
}

void step_JOIN(turn *t, const step *s)
{
    tr_result result = {0};
    tr_ref ref = step_target(t, s);
    tr_err err = tr_join(t->from, ref, step_span(t, s), &result, NULL);

    // In virtual time the end follows its last hook at once.
    tr_nanos ended = end_of(t->trial, ref);
    if (err == TR_ETIMEDOUT && t->trial->sim != NULL && ended != 0 &&
        tr_now(t->from) - ended > TR_MS(1)) {
        broken("rule 26 (tr_join)", "slot %u has ended, its join has not",
               s->slot);
    }

    if (err == TR_OK && (result.reason == 0 ||
                         tr_state_of(t->from, ref) != TR_STATE_TERMINATED)) {
        broken("rule 26 (tr_join)", "slot %u is joined and has not ended",
               s->slot);
    }
}

static void (*const performers[VERBS_COUNT])(turn *, const step *) = {
#define X(name, handler, outside, hook, text) step_##name,
    VERBS(X)
#undef X
};

tr_err perform(turn *t, const step *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count && !t->over; i++) {
        performers[steps[i].verb](t, &steps[i]);
    }
    return t->err;
}
