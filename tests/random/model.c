/*
 * model.c - notes of messages and lives, and the rules that are checked as
 * they happen.
 */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <unistd.h>

char *broken_rule;

void broken(const char *rule, const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    if (broken_rule != NULL) {
        snprintf(broken_rule, BROKEN_SIZE, "%s", rule);
    }
    fprintf(stderr, "broken: %s: ", rule);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    fflush(stderr);
    _exit(3);
}

life *life_new(trial *t, uint32_t slot, uint32_t parent)
{
    uint32_t index =
        atomic_fetch_add_explicit(&t->life_count, 1, memory_order_relaxed);

    if (index >= LIVES) {
        return NULL;
    }
    life *l = &t->lives[index];
    l->slot = slot;
    l->parent = parent;
    // Release: pairs with the acquire in stage_of.
    atomic_store_explicit(&l->stage, STAGE_SPAWNED, memory_order_release);
    return l;
}

void life_set_ref(life *l, tr_ref ref)
{
    atomic_store_explicit(&l->cell, ref.cell, memory_order_relaxed);
    // Release: pairs with the acquire in life_ref.
    atomic_store_explicit(&l->id, ref.id, memory_order_release);
}

tr_ref life_ref(const life *l)
{
    // Acquire: pairs with the release in life_set_ref.
    uint64_t id = atomic_load_explicit(&l->id, memory_order_acquire);
    uint64_t cell = atomic_load_explicit(&l->cell, memory_order_relaxed);

    return id == 0 ? TR_NOBODY : (tr_ref){.cell = cell, .id = id};
}

tr_ref slot_ref(const trial *t, uint32_t slot)
{
    uint32_t newest =
        atomic_load_explicit(&t->slots[slot], memory_order_relaxed);

    return newest == 0 ? TR_NOBODY : life_ref(&t->lives[newest - 1]);
}

note *note_new(trial *t, uint32_t source, tr_ref to, bool is_ask,
               uint8_t priority)
{
    uint32_t index =
        atomic_fetch_add_explicit(&t->note_count, 1, memory_order_relaxed);

    if (index >= NOTES) {
        return NULL;
    }
    uint32_t *sent = source < LIVES ? &t->lives[source].sent
                                    : &t->thread_sent[source - LIVES];
    note *n = &t->notes[index];
    n->source = source;
    n->seq = ++*sent;
    n->to = to;
    n->is_ask = is_ask;
    n->priority = priority;
    // Release: pairs with the acquire in is_sent.
    atomic_store_explicit(&n->sent, true, memory_order_release);
    return n;
}

uint32_t note_index(const trial *t, const note *n)
{
    return (uint32_t)(n - t->notes);
}

void note_begin(trial *t, life *l, note *n)
{
    uint32_t again = atomic_load_explicit(&n->again, memory_order_relaxed);

    if (!tr_ref_eq(n->to, life_ref(l)) && again == 0) {
        broken("rule 39 (refs)", "note %u reached another actor",
               note_index(t, n));
    }
    // With threads the asker may note its time-out at this moment.
    if (t->sim != NULL && n->is_ask && again == 0 &&
        atomic_load(&n->ends) > 0 && n->err == TR_ETIMEDOUT) {
        broken("rule 14 (time-outs)", "note %u runs after its time-out",
               note_index(t, n));
    }
    n->order = ++l->order;
    if (atomic_fetch_add_explicit(&n->begun, 1, memory_order_relaxed) > again) {
        broken("rule 2 (at most once)", "note %u is handled twice",
               note_index(t, n));
    }
}

void note_end(note *n, tr_err err, const Answer *answer)
{
    if (atomic_fetch_add_explicit(&n->ends, 1, memory_order_relaxed) > 0) {
        broken("rule 11 (one answer)", "an asker got a second result, %s",
               tr_errname(err));
    }
    n->err = err;
    n->value = answer != NULL ? answer->value : 0;
}

/* ---- turns and hooks ---- */

void turn_begin(life *l, turn_kind kind, const char *what)
{
    bool wrong = (kind == TURN_WRITES && (l->turn || l->readers > 0)) ||
                 (kind == TURN_READS && l->turn);

    if (wrong) {
        broken("rule 6 (what runs while a turn is parked)",
               "%s of slot %u begins beside %s", what, l->slot,
               l->turn ? "a writing turn" : "a reading turn");
    }
    l->turn |= kind == TURN_WRITES;
    l->readers += kind == TURN_READS;
}

void turn_end(life *l, turn_kind kind)
{
    if (kind == TURN_WRITES) {
        l->turn = false;
    }
    l->readers -= kind == TURN_READS;
}

static stage stage_of(const life *l)
{
    // Acquire: pairs with the release in life_new.
    return (stage)atomic_load_explicit(&l->stage, memory_order_acquire);
}

static void set_stage(life *l, stage to)
{
    // Release: a reader of the stage may read slot and parent.
    atomic_store_explicit(&l->stage, to, memory_order_release);
}

void life_handles(life *l, uint32_t incarnation)
{
    if (stage_of(l) != STAGE_RUNNING || l->incarnation != incarnation) {
        broken("rule 20 (states)",
               "slot %u handles a message in stage %d, incarnation %u of %u",
               l->slot, stage_of(l), incarnation, l->incarnation);
    }
}

/* The children have ended when post_stop runs: rule 25 (order of an end). */
static void children_ended(trial *t, const life *l)
{
    uint32_t me = (uint32_t)(l - t->lives);
    uint32_t count = atomic_load(&t->life_count);

    for (uint32_t i = 0; i < count && i < LIVES; i++) {
        const life *child = &t->lives[i];
        stage at = stage_of(child);
        if (at > STAGE_SPAWNED && child->parent == me &&
            life_ref(child).id != 0 && at != STAGE_ENDED &&
            at != STAGE_BETWEEN) {
            broken("rule 25 (order of an end)",
                   "slot %u runs post_stop, its child in slot %u is in "
                   "stage %d",
                   l->slot, child->slot, at);
        }
    }
}

void watch_forget(life *l)
{
    uint32_t count =
        atomic_load_explicit(&l->watch_count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        atomic_store_explicit(&l->watches[i].active, false,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&l->nobody, 0, memory_order_relaxed);
}

void watch_forget_children(trial *t, life *l)
{
    uint32_t me = (uint32_t)(l - t->lives);
    uint32_t lives = atomic_load(&t->life_count);
    uint32_t count =
        atomic_load_explicit(&l->watch_count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < lives && k < LIVES; k++) {
            if (!tr_ref_eq(life_ref(&t->lives[k]), l->watches[i].ref)) {
                continue;
            }
            known = true;
            if (t->lives[k].parent == me) {
                atomic_store_explicit(&l->watches[i].perhaps, true,
                                      memory_order_relaxed);
            }
        }
        // One that never started may have been a child, or not.
        if (!known) {
            atomic_store(&l->lenient, true);
        }
    }
}

/* What belongs to an incarnation begins anew. */
static void begin_incarnation(life *l, uint32_t incarnation)
{
    if (l->closers > 0) {
        broken("rule 28 (a restart)", "slot %u: %u of tr_on_end not called",
               l->slot, l->closers);
    }
    l->incarnation = incarnation;
    l->timer_count = l->kept_count = l->then_open = l->pipe_open = 0;
    l->other = l->joined = l->timeout = false;
}

void life_hook(trial *t, life *l, hook h, tr_reason reason,
               uint32_t incarnation)
{
    stage from = stage_of(l);
    bool right = true;

    switch (h) {
    case HOOK_pre_start:
        right = from == STAGE_SPAWNED || from == STAGE_BETWEEN;
        begin_incarnation(l, incarnation);
        set_stage(l, STAGE_STARTING);
        break;
    case HOOK_post_start:
        right = from == STAGE_STARTING;
        set_stage(l, STAGE_RUNNING);
        break;
    case HOOK_post_restart:
        right = from == STAGE_RUNNING && incarnation > 1;
        break;
    case HOOK_pre_restart:
        right = from == STAGE_RUNNING || from == STAGE_STARTING;
        set_stage(l, STAGE_RESTARTING);
        break;
    case HOOK_pre_stop:
        // A stop may come between pre_start and post_start, or between
        // pre_restart and post_stop.
        right = from == STAGE_RUNNING || from == STAGE_RESTARTING ||
                from == STAGE_STARTING;
        set_stage(l, STAGE_STOPPING);
        break;
    case HOOK_post_stop:
        right = from == STAGE_RUNNING || from == STAGE_STOPPING ||
                from == STAGE_RESTARTING || from == STAGE_STARTING;
        if (reason != TR_RESTARTING || !l->keeps) {
            children_ended(t, l);
        }
        set_stage(l, reason == TR_RESTARTING ? STAGE_BETWEEN : STAGE_ENDED);
        break;
    default:
        break;
    }
    if (!right || incarnation != l->incarnation) {
        broken("rule 20 (states)",
               "slot %u: hook %d in stage %d, incarnation %u of %u", l->slot, h,
               from, incarnation, l->incarnation);
    }
}

/* ---- watches ---- */

static watch *watch_find(life *l, tr_ref ref)
{
    uint32_t count =
        atomic_load_explicit(&l->watch_count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        if (tr_ref_eq(l->watches[i].ref, ref) &&
            atomic_load_explicit(&l->watches[i].active, memory_order_relaxed)) {
            return &l->watches[i];
        }
    }
    return NULL;
}

bool watch_may(const life *l)
{
    return l->watch_calls < WATCHES;
}

void watch_add(life *l, tr_ref ref)
{
    uint32_t count =
        atomic_load_explicit(&l->watch_count, memory_order_relaxed);

    l->watch_calls++;
    if (ref.cell == 0) {
        // Watching twice is watching once, while the notice waits.
        atomic_store_explicit(&l->nobody, 1, memory_order_relaxed);
        return;
    }
    watch *w = watch_find(l, ref);
    if (w != NULL) {
        atomic_store_explicit(&w->perhaps, false, memory_order_relaxed);
        return;
    }
    if (count == 2 * WATCHES) {
        broken("the tester", "too many watches");
    }
    l->watches[count].ref = ref;
    atomic_store_explicit(&l->watches[count].active, true,
                          memory_order_relaxed);
    // Release: pairs with the acquire in model_settled.
    atomic_store_explicit(&l->watch_count, count + 1, memory_order_release);
}

void watch_remove(life *l, tr_ref ref)
{
    watch *w = watch_find(l, ref);

    if (ref.cell == 0) {
        atomic_store_explicit(&l->nobody, 0, memory_order_relaxed);
    }
    if (w != NULL) {
        atomic_store_explicit(&w->active, false, memory_order_relaxed);
    }
}

void watch_told(life *l, tr_ref ref, uint32_t reason)
{
    if (ref.cell == 0 &&
        atomic_load_explicit(&l->nobody, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&l->nobody, 1, memory_order_relaxed);
        return;
    }
    if (watch_find(l, ref) == NULL && l->lenient) {
        return;
    }
    if (watch_find(l, ref) == NULL) {
        broken("rule 33 (exactly one notice)",
               "slot %u is told of an end that it does not watch, reason %u%s",
               l->slot, reason, ref.cell == 0 ? ", of nobody" : "");
    }
    watch_remove(l, ref);
}

/* ---- dead letters ---- */

void dead_add(void *user, const tr_type *type, const void *event)
{
    trial *t = user;
    const tr_dead_letter *letter = event;
    const tr_msg *msg = tr_dead_message(letter);

    (void)type;
    // A message whose handler failed counts as handled: rule 28 (a restart).
    if (msg == NULL || letter->reason == TR_DEAD_FAILED ||
        tr_msg_type(msg)->schema != Work_tr_type.schema) {
        return;
    }
    const Work *m = tr_msg_payload(msg);
    note *n = &t->notes[m->note];
    atomic_store(&n->reason, letter->reason);
    if (atomic_fetch_add(&n->dead, 1) > 0) {
        broken("rule 2 (at most once)", "note %u is a dead letter twice: %s",
               m->note, tr_dead_reason_text(letter->reason));
    }
}
