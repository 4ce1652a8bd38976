/*
 * steps_ask.c - the verbs of requests beside tr_ask: futures, callbacks, and
 * what a handler may do with a request but answer it.
 */
#include "actor.h"

static void ask_as(turn *t, const step *s, const tr_type *type)
{
    tr_ref to = step_target(t, s);
    Answer answer = {0};
    note *n = step_note(t, to, true, 0);

    if (n == NULL) {
        return;
    }
    // Readers and interleaving handlers overtake.
    n->loose = true;
    // Ask, Read and Beside have the same fields.
    Ask m = {.note = note_index(t->trial, n), .script = s->script};
    tr_err err =
        (tr_ask)(t->from, to, &answer, step_span(t, s), type, &m, TR_HERE);
    note_end(n, err, &answer);
}

void step_READ(turn *t, const step *s)
{
    ask_as(t, s, &Read_tr_type);
}

void step_BESIDE(turn *t, const step *s)
{
    ask_as(t, s, &Beside_tr_type);
}

static void await_two(turn *t, const step *s, bool any)
{
    note *notes[2];
    tr_future futures[2];
    size_t first = 0;

    for (int i = 0; i < 2; i++) {
        tr_ref to = slot_ref(t->trial, (s->slot + (uint32_t)i) % SLOTS);
        notes[i] = step_note(t, to, true, 0);
        if (notes[i] == NULL) {
            return;
        }
        futures[i] = tr_async(t->ctx, to, step_span(t, s), Ask,
                              .note = note_index(t->trial, notes[i]),
                              .script = s->script);
    }
    if (any && tr_await_any(t->ctx, futures, 2, &first) != TR_OK) {
        return;
    }
    for (size_t i = first; i < (any ? first + 1 : 2); i++) {
        Answer answer = {0};
        tr_err err = tr_await(t->ctx, futures[i], Ask, &answer);
        note_end(notes[i], err, &answer);
    }
}

void step_ASYNC(turn *t, const step *s)
{
    await_two(t, s, false);
}

void step_ASYNC_ANY(turn *t, const step *s)
{
    await_two(t, s, true);
}

void step_THEN(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    note *n = step_note(t, to, true, 0);

    if (n != NULL) {
        t->life->then_open++;
        tr_ask_then(t->ctx, to, step_span(t, s), player_then, Ask,
                    .note = note_index(t->trial, n), .script = s->script);
    }
}

void step_PIPE(turn *t, const step *s)
{
    tr_ref to = step_target(t, s);
    note *n = step_note(t, to, true, 0);

    if (n != NULL) {
        t->life->pipe_open++;
        tr_ask_pipe(t->ctx, to, step_span(t, s), Ask,
                    .note = note_index(t->trial, n), .script = s->script);
    }
}

/* ---- what becomes of a request ---- */

void step_KEEP(turn *t, const step *s)
{
    life *l = t->life;

    (void)s;
    if (!t->is_request || t->taken || l->kept_count == KEPT) {
        return;
    }
    l->kept[l->kept_count++] =
        (kept){.message = (tr_keep)(t->ctx, t->message), .note = t->note};
    t->taken = true;
}

void step_ANSWER(turn *t, const step *s)
{
    life *l = t->life;

    if (l->kept_count == 0) {
        return;
    }
    kept it = l->kept[--l->kept_count];
    uint32_t none = 0, value = s->arg % 100;
    bool first = atomic_compare_exchange_strong(&it.note->answer, &none,
                                                ANSWERED + value);
    tr_err err = (tr_reply)(t->ctx, it.message, &(Answer){.value = value});
    if (err != (first ? TR_OK : TR_EEXIST)) {
        broken("tr_reply", "%s for the %s answer to a kept request",
               tr_errname(err), first ? "first" : "second");
    }
    tr_release(t->ctx, it.message);
}

/* Puts the message elsewhere: it may be handled once more. */
static bool may_pass_on(turn *t)
{
    if (t->message == NULL || t->taken || t->kind != TURN_WRITES ||
        atomic_load(&t->note->answer) != 0 ||
        atomic_load(&t->note->again) > 1) {
        return false;
    }
    t->note->loose = true;
    atomic_fetch_add(&t->note->again, 1);
    t->over = true;
    return true;
}

void step_FORWARD(turn *t, const step *s)
{
    // Mail by tr_tell is counted for the actor that it was sent to.
    if (t->is_request && may_pass_on(t)) {
        tr_forward(t->ctx, step_target(t, s), t->message);
    }
}

void step_STASH(turn *t, const step *s)
{
    (void)s;
    if (may_pass_on(t) && tr_stash(t->ctx, t->message) != TR_OK) {
        broken("tr_stash", "%s", tr_error_text(t->from));
    }
}

void step_UNSTASH(turn *t, const step *s)
{
    (void)s;
    tr_unstash_all(t->ctx);
}
