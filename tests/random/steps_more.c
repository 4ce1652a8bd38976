/*
 * steps_more.c - the verbs of time, topics, memory, watching for others, and of
 * looking at a system.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actor.h"

void step_BECOME(turn *t, const step *s)
{
    if (t->kind == TURN_WRITES) {
        t->life->other = s->arg % 2 == 0;
        (tr_become)(t->ctx, player_behaviours[t->life->other]);
    }
}

/* ---- time ---- */

static void set_timer(turn *t, const step *s, bool periodic)
{
    life *l = t->life;
    tr_nanos span = step_short_span(s);

    if (l->timer_count == TIMERS) {
        return;
    }
    timer *it = &l->timers[l->timer_count];
    Tick m = {.timer = l->timer_count++, .incarnation = l->incarnation};
    *it = (timer){.due = tr_now(t->ctx) + span,
                  .span = span,
                  .active = true,
                  .periodic = periodic};
    it->id = periodic ? (tr_every)(t->ctx, span, &Tick_tr_type, &m)
                      : (tr_after)(t->ctx, span, &Tick_tr_type, &m);
}

void step_AFTER(turn *t, const step *s)
{
    set_timer(t, s, false);
}

void step_EVERY(turn *t, const step *s)
{
    set_timer(t, s, true);
}

void step_CANCEL(turn *t, const step *s)
{
    life *l = t->life;

    if (l->timer_count > 0) {
        timer *it = &l->timers[s->arg % l->timer_count];
        tr_cancel(t->ctx, it->id);
        it->active = false;
    }
}

void step_RECEIVE_TIMEOUT(turn *t, const step *s)
{
    bool on = s->arg % 3 != 0;

    t->life->timeout |= on;
    tr_receive_timeout(t->ctx, on ? step_short_span(s) : 0);
    t->life->timeout = on;
}

void step_CONTEXT(turn *t, const step *s)
{
    tr_context context = {.deadline = tr_now(t->ctx) + step_short_span(s)};

    tr_context_set(t->ctx, s->arg % 3 == 0 ? NULL : &context);
}

static tr_err blocks(void *arg)
{
    // Long enough for the actor to be ended meanwhile, now and then.
    nanosleep(&(struct timespec){.tv_nsec = (long)(uintptr_t)arg}, NULL);
    return (tr_err)(TR_EUSER + 7);
}

void step_BLOCKING(turn *t, const step *s)
{
    uintptr_t span = t->trial->sim != NULL ? 0 : s->arg * 20;
    tr_err err = tr_blocking(t->ctx, blocks, (void *)span);
    if (err == TR_OK || err == TR_EWOULDBLOCK) {
        broken("tr_blocking", "%s, not the result of the function",
               tr_errname(err));
    }
}

/* ---- topics ---- */

void step_SUBSCRIBE(turn *t, const step *s)
{
    (void)s;
    t->life->joined = true;
    if (tr_topic_join(t->ctx, "topic") != TR_OK) {
        broken("tr_topic_join", "%s", tr_error_text(t->from));
    }
}

void step_LEAVE(turn *t, const step *s)
{
    (void)s;
    tr_topic_leave(t->ctx, "topic");
    // What was published before may still come.
}

void step_PUBLISH(turn *t, const step *s)
{
    // A published message may cause another one: counted like any message.
    if (step_note(t, TR_NOBODY, true, 0) != NULL) {
        tr_topic_publish(t->from, "topic", Event, .number = s->arg);
    }
}

/* ---- memory ---- */

void step_ALLOC(turn *t, const step *s)
{
    size_t size = 1 + s->arg % 5000;
    uint32_t failed = t->note == NULL ? 0 : atomic_load(&t->note->failed);

    // Above heap_limit it panics: then this turn has ended.
    turn_end(t->life, t->kind);
    if (t->note != NULL) {
        atomic_store(&t->note->failed, TR_EPANIC);
    }
    unsigned char *memory = tr_alloc(t->ctx, size);
    turn_begin(t->life, t->kind, "a turn that goes on");
    if (t->note != NULL) {
        atomic_store(&t->note->failed, failed);
    }
    for (size_t i = 0; i < size; i++) {
        if (memory[i] != 0) {
            broken("tr_alloc", "memory is not zero");
        }
    }
    memset(memory, 7, size);
    if (s->arg % 2 == 0) {
        tr_free(t->ctx, memory);
    }
}

static void closes(void *object)
{
    ((life *)object)->closers--;
}

void step_ON_END(turn *t, const step *s)
{
    (void)s;
    t->life->closers++;
    tr_on_end(t->ctx, closes, t->life);
}

/* ---- watching ---- */

/* The target of a watch that others set, whose notices are not counted. The
 * slot is read once: another thread may put a new actor there meanwhile. */
static tr_ref lenient_target(turn *t, const step *s)
{
    uint32_t newest = atomic_load(&t->trial->slots[s->slot]);

    if (newest == 0) {
        return TR_NOBODY;
    }
    atomic_store(&t->trial->lives[newest - 1].lenient, true);
    return life_ref(&t->trial->lives[newest - 1]);
}

static bool may_send(turn *t)
{
    return step_note(t, TR_NOBODY, true, 0) != NULL;
}

void step_WATCH_FOR(turn *t, const step *s)
{
    tr_ref whom = slot_ref(t->trial, s->arg % SLOTS);
    tr_ref watcher = lenient_target(t, s);

    if (may_send(t)) {
        tr_watch_for(t->from, watcher, whom);
    }
}

void step_UNWATCH_FOR(turn *t, const step *s)
{
    tr_ref whom = slot_ref(t->trial, s->arg % SLOTS);

    tr_unwatch_for(t->from, lenient_target(t, s), whom);
}

void step_WATCH_IN_ORDER(turn *t, const step *s)
{
    tr_ref ref = step_target(t, s);

    if (watch_may(t->life)) {
        watch_add(t->life, ref);
        tr_watch_in_order(t->ctx, ref);
    }
}

/* ---- handles, probes ---- */

static life *newest_of(turn *t, const step *s)
{
    uint32_t newest = atomic_load(&t->trial->slots[s->slot]);

    return newest == 0 ? NULL : &t->trial->lives[newest - 1];
}

void step_HOLD(turn *t, const step *s)
{
    life *l = newest_of(t, s);

    if (l != NULL && atomic_load(&l->holds) > 0) {
        (void)tr_handle_hold(t->from, life_ref(l));
        atomic_fetch_add(&l->holds, 1);
    }
}

void step_DROP(turn *t, const step *s)
{
    life *l = newest_of(t, s);
    uint32_t holds = l == NULL ? 0 : atomic_load(&l->holds);

    // Only what is held may be dropped.
    while (holds > 0) {
        if (atomic_compare_exchange_weak(&l->holds, &holds, holds - 1)) {
            tr_handle_drop(t->from, life_ref(l));
            return;
        }
    }
}

void step_PROBE(turn *t, const step *s)
{
    tr_probe *probe;
    tr_ref to = step_target(t, s);

    if (tr_probe_new(&probe, t->trial->sys) != TR_OK) {
        return;
    }
    note *n = step_note(t, to, false, 0);
    if (n != NULL) {
        n->loose = true;
        tr_tell(probe, to, Work, .note = note_index(t->trial, n),
                .script = s->script);
    }
    tr_probe_watch(probe, to);
    tr_probe_free(probe);
}

/* ---- the system ---- */

void step_TERMINATE(turn *t, const step *s)
{
    (void)s;
    tr_system_terminate(t->trial->sys);
}

void step_CHILDREN(turn *t, const step *s)
{
    tr_ref children[LIVES];
    size_t count = tr_children(t->ctx, children, LIVES);

    (void)s;
    for (size_t i = 0; i < count && i < LIVES; i++) {
        if (children[i].cell == 0) {
            broken("tr_children", "nobody is a child");
        }
    }
}

/* Looks at everything; memory checkers and the thread sanitizer judge. */
void step_OBSERVE(turn *t, const step *s)
{
    enum { ACTORS = 64, KINDS = 8, TEXT = 4096 };
    tr_system *sys = t->trial->sys;
    tr_metrics_snapshot metrics = {.size = sizeof(metrics)};
    tr_actor_info *actors = calloc(ACTORS, sizeof(*actors));
    tr_kind_metrics *kinds = calloc(KINDS, sizeof(*kinds));
    tr_dead_info *letters = calloc(ACTORS, sizeof(*letters));
    char *text = malloc(TEXT);

    actors->size = sizeof(*actors);
    kinds->size = sizeof(*kinds);
    letters->size = sizeof(*letters);
    (void)tr_tree(sys, text, TEXT);
    (void)tr_metrics_text(sys, text, TEXT);
    (void)tr_actors(sys, actors, ACTORS);
    (void)tr_metrics_kinds(sys, kinds, KINDS);
    (void)tr_dead_letters(sys, letters, ACTORS);
    tr_metrics(sys, &metrics);
    (void)tr_ref_path(t->from, step_target(t, s), text, TEXT);
    tr_err err = tr_actor_info_of(t->from, step_target(t, s), actors);
    if (err != TR_OK && err != TR_ENOENT) {
        broken("tr_actor_info_of", "%s", tr_errname(err));
    }
    free(actors);
    free(kinds);
    free(letters);
    free(text);
}
