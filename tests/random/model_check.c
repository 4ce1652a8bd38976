/*
 * model_check.c - the rules that are checked when a program is at rest, and
 * after its system was closed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static uint32_t lives_of(trial *t)
{
    uint32_t count = atomic_load(&t->life_count);

    return count < LIVES ? count : LIVES;
}

static uint32_t notes_of(trial *t)
{
    uint32_t count = atomic_load(&t->note_count);

    return count < NOTES ? count : NOTES;
}

static bool has_option(const trial *t, uint32_t slot, spawn_option what)
{
    const slot_plan *s = &t->plan->slots[slot];

    for (uint32_t i = 0; i < s->option_count; i++) {
        if (s->options[i].what == what) {
            return true;
        }
    }
    return false;
}

static bool is_sent(const note *n)
{
    // Acquire: pairs with the release in note_new.
    return atomic_load_explicit(&n->sent, memory_order_acquire) &&
           !atomic_load(&n->refused);
}

/* Every message by tr_tell to the actor is handled or a dead letter. */
static const note *missing(trial *t, const life *l)
{
    uint32_t notes = notes_of(t);

    for (uint32_t i = 0; i < notes; i++) {
        const note *n = &t->notes[i];
        if (is_sent(n) && !n->is_ask && tr_ref_eq(n->to, life_ref(l)) &&
            atomic_load(&n->begun) == 0 && atomic_load(&n->dead) == 0) {
            return n;
        }
    }
    return NULL;
}

static bool balanced(trial *t, const life *l)
{
    return missing(t, l) == NULL || has_option(t, l->slot, O_DRAIN);
}

static bool told(trial *t, life *l)
{
    // Acquire: pairs with the release in watch_add.
    uint32_t count =
        atomic_load_explicit(&l->watch_count, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load(&l->watches[i].active) &&
            !atomic_load(&l->watches[i].perhaps) &&
            tr_state_of(t->sys, l->watches[i].ref) == TR_STATE_TERMINATED) {
            return false;
        }
    }
    return atomic_load(&l->nobody) == 0;
}

static bool is_alive(trial *t, const life *l)
{
    return life_ref(l).id != 0 &&
           tr_state_of(t->sys, life_ref(l)) == TR_STATE_RUNNING;
}

/* Returns the first life that is not at rest, or NULL. */
static life *restless(trial *t)
{
    for (uint32_t i = 0; i < lives_of(t); i++) {
        life *l = &t->lives[i];
        if (life_ref(l).id != 0 &&
            (!balanced(t, l) ||
             (is_alive(t, l) && !l->lenient && !told(t, l)))) {
            return l;
        }
    }
    return NULL;
}

bool model_settled(trial *t)
{
    return restless(t) == NULL;
}

void model_unsettled(trial *t)
{
    life *l = restless(t);
    static char tree[1 << 16];

    (void)tr_tree(t->sys, tree, sizeof(tree));
    fprintf(stderr, "%s", tree);
    if (l == NULL) {
        broken("rule 2 (at most once)", "the program came to rest too late");
    }
    if (!balanced(t, l)) {
        const note *n = missing(t, l);
        broken("rule 2 (at most once)",
               "slot %u: note %u, priority %u, was neither handled nor is it "
               "a dead letter",
               l->slot, n == NULL ? 0 : note_index(t, n),
               n == NULL ? 0 : n->priority);
    }
    broken("rule 33 (exactly one notice)",
           "slot %u has not been told of an end", l->slot);
}

/* ---- after the end ---- */

static int by_pair(const void *a, const void *b)
{
    const note *x = *(const note *const *)a, *y = *(const note *const *)b;

    if (x->source != y->source) {
        return x->source < y->source ? -1 : 1;
    }
    if (x->to.id != y->to.id) {
        return x->to.id < y->to.id ? -1 : 1;
    }
    if (x->priority != y->priority) {
        return x->priority < y->priority ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : 1;
}

/* Order for each pair and priority: rule 1. */
static void check_order(trial *t)
{
    static const note *sorted[NOTES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < notes_of(t); i++) {
        const note *n = &t->notes[i];
        if (atomic_load(&n->begun) > 0 && !n->loose) {
            sorted[count++] = n;
        }
    }
    qsort(sorted, count, sizeof(const note *), by_pair);
    for (uint32_t i = 1; i < count; i++) {
        const note *a = sorted[i - 1], *b = sorted[i];
        if (a->source == b->source && tr_ref_eq(a->to, b->to) &&
            a->priority == b->priority && a->order >= b->order) {
            broken("rule 1 (order)", "note %u was handled before note %u",
                   note_index(t, b), note_index(t, a));
        }
    }
}

/* Handled or a dead letter, not both: rule 2 (at most once). */
static void check_tell(trial *t, const note *n)
{
    // A message that an actor fails with while it ends is a dead letter, too,
    // and so is one that waits to be handled again.
    if (atomic_load(&n->begun) > 0 && atomic_load(&n->dead) > 0 &&
        atomic_load(&n->failed) == 0 && atomic_load(&n->again) == 0) {
        broken("rule 2 (at most once)",
               "note %u is handled and a dead letter, %s", note_index(t, n),
               tr_dead_reason_text(atomic_load(&n->reason)));
    }
}

static void check_ask(trial *t, const note *n)
{
    uint32_t begun = atomic_load(&n->begun), answer = atomic_load(&n->answer);
    uint32_t failed = atomic_load(&n->failed), at = note_index(t, n);
    const char *name = tr_errname(n->err);

    if (atomic_load(&n->ends) == 0) {
        return;
    }
    // A handler that stashes or forwards a request has not run it.
    if (tr_undelivered(n->err) && begun > atomic_load(&n->again)) {
        broken("rule 13 (certainly not run)", "note %u ran, its asker got %s",
               at, name);
    }
    if (n->err == TR_OK && answer != ANSWERED + n->value) {
        broken("rule 11 (one answer)", "note %u: got the reply %u, sent %u", at,
               n->value, answer);
    }
    if ((int)n->err >= (int)TR_EUSER && answer != n->err && failed != n->err) {
        broken("rule 12 (refusing)", "note %u: got %s %d, sent %u, failed %u",
               at, name, n->err, answer, failed);
    }
    if (n->err == TR_ENOREPLY && (begun == 0 || answer != 0)) {
        broken("rule 11 (one answer)", "note %u: %s, begun %u, answer %u", at,
               name, begun, answer);
    }
    if (n->err == TR_EPANIC && failed != TR_EPANIC) {
        broken("rule 12 (refusing)", "note %u: got %s, failed %u", at, name,
               failed);
    }
}

/* Counts are exact: rule 43 (metrics). Read between two steps of the world. */
void model_at_rest(trial *t)
{
    tr_metrics_snapshot all = {.size = sizeof(all)};
    tr_kind_metrics kinds[8] = {{.size = sizeof(kinds[0])}};
    uint64_t handled = 0, spawned = 0, lived = 0;

    if (t->sim == NULL) {
        return;  // handlers run meanwhile
    }
    size_t count = tr_metrics_kinds(t->sys, kinds, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        bool ours = strcmp(kinds[i].kind, "player") == 0 ||
                    strcmp(kinds[i].kind, "other") == 0;
        handled += ours ? kinds[i].messages : 0;
        spawned += ours ? kinds[i].spawned : 0;
    }
    for (uint32_t i = 0; i < lives_of(t); i++) {
        lived += life_ref(&t->lives[i]).id != 0;
    }
    tr_metrics(t->sys, &all);
    uint64_t called = atomic_load(&t->called);
    if (spawned != lived || handled > called || handled + all.parked < called) {
        broken("rule 43 (metrics)",
               "%" PRIu64 " spawned, counted %" PRIu64 "; %" PRIu64
               " handled, counted %" PRIu64 ", %" PRIu64 " parked",
               lived, spawned, called, handled, all.parked);
    }
}

/* True if an actor has failed with the error. */
static bool has_failed(trial *t, tr_err err)
{
    return err == TR_EPANIC ? atomic_load(&t->failed[FAILURES])
                            : err >= TR_EUSER && err < TR_EUSER + FAILURES &&
                                  atomic_load(&t->failed[err - TR_EUSER]);
}

/* A close is in time, or returns the failure that has ended the system. */
static void check_close(trial *t, tr_err closed, const tr_close_report *report)
{
    bool right = closed == report->failure &&
                 (closed == TR_OK || has_failed(t, closed)) &&
                 (closed == TR_OK) == (report->failure_text[0] == '\0');

    if (!right || report->forced > 0 || report->zombies > 0) {
        broken("rule 40 (systems)",
               "close: %s, %u stopped, %u forced, %u zombies, failure %s: %s",
               tr_errname(closed), report->stopped, report->forced,
               report->zombies, tr_errname(report->failure),
               report->failure_text);
    }
}

void model_at_end(trial *t, tr_err closed, const tr_close_report *report)
{
    check_close(t, closed, report);
    for (uint32_t i = 0; i < notes_of(t); i++) {
        if (t->notes[i].is_ask) {
            check_ask(t, &t->notes[i]);
        } else {
            check_tell(t, &t->notes[i]);
        }
    }
    check_order(t);
    for (uint32_t i = 0; i < lives_of(t); i++) {
        const life *l = &t->lives[i];
        stage at = (stage)atomic_load(&l->stage);
        if (at > STAGE_SPAWNED && at != STAGE_ENDED && at != STAGE_BETWEEN) {
            broken("rule 25 (order of an end)", "slot %u: closed in stage %d",
                   l->slot, at);
        }
    }
}
