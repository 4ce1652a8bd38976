/*
 * actor.c - the actor kind of all random programs: hooks and handlers that
 * tell the model what happens, and perform the steps of the program.
 */
#include "actor.h"

typedef struct Player {
    trial *trial;
    life *life;
    uint32_t handled;  // by this incarnation
} Player;

static turn turn_of(tr_ctx *ctx, const Player *self, turn_kind kind)
{
    return (turn){.trial = self->trial,
                  .ctx = ctx,
                  .from.ctx = ctx,
                  .life = self->life,
                  .kind = kind,
                  .source = (uint32_t)(self->life - self->trial->lives)};
}

static const slot_plan *slot_of(const Player *self)
{
    return &self->trial->plan->slots[self->life->slot];
}

/* Performs the steps of a hook or callback as one turn. */
static tr_err run_steps(tr_ctx *ctx, const Player *self, hook h,
                        const char *what)
{
    turn t = turn_of(ctx, self, TURN_WRITES);
    const script *s = &slot_of(self)->hooks[h];

    turn_begin(self->life, TURN_WRITES, what);
    tr_err err = perform(&t, s->steps, s->count);
    turn_end(self->life, TURN_WRITES);
    return err;
}

/* ---- hooks ---- */

static tr_err run_hook(tr_ctx *ctx, Player *self, hook h, tr_reason reason)
{
    if (h == HOOK_pre_start) {
        life_set_ref(self->life, tr_self(ctx));
        if (self->handled != 0) {
            broken("rule 28 (a restart)", "slot %u starts with an old state",
                   self->life->slot);
        }
    }
    if (self->life->turn || self->life->readers > 0) {
        broken("rule 6 (what runs while a turn is parked)",
               "hook %d of slot %u beside a turn", h, self->life->slot);
    }
    life_hook(self->trial, self->life, h, reason, tr_incarnation(ctx));
    if (h == HOOK_post_stop && reason == TR_RESTARTING && !self->life->keeps) {
        watch_forget_children(self->trial, self->life);
    }
    tr_err err = run_steps(ctx, self, h, "a hook");
    if (h == HOOK_post_stop && reason != TR_RESTARTING) {
        watch_forget(self->life);
        atomic_store(&self->life->ended, tr_now(ctx));
    }
    return err;
}

#define PLAIN_HOOK(name)                                                       \
    static tr_err name(tr_ctx *ctx, Player *self)                              \
    {                                                                          \
        return run_hook(ctx, self, HOOK_##name, TR_STOPPED);                   \
    }
PLAIN_HOOK(pre_start)
PLAIN_HOOK(post_start)
PLAIN_HOOK(pre_stop)
PLAIN_HOOK(post_restart)

static tr_err post_stop(tr_ctx *ctx, Player *self, tr_reason reason)
{
    return run_hook(ctx, self, HOOK_post_stop, reason);
}

static tr_err pre_restart(tr_ctx *ctx, Player *self, const tr_failure *cause)
{
    (void)cause;  // of a sibling that failed, if a cohort restarts
    return run_hook(ctx, self, HOOK_pre_restart, TR_RESTARTING);
}

static tr_err on_run(tr_ctx *ctx, Player *self)
{
    turn t = turn_of(ctx, self, TURN_RUNS);
    const script *s = &slot_of(self)->hooks[HOOK_on_run];

    return perform(&t, s->steps, s->count);
}

static tr_directive decide(const Player *self, const tr_failure *failure)
{
    const plan *p = self->trial->plan;
    uint32_t at = atomic_fetch_add(&self->trial->decided, 1);

    if (failure->err == TR_OK) {
        broken("decide", "a failure without an error");
    }
    return (tr_directive)p->decisions[at % 8];
}

/* ---- handlers ---- */

static void handler_begins(tr_ctx *ctx, const Player *self, turn_kind kind,
                           const char *what)
{
    atomic_fetch_add(&self->trial->called, 1);
    life_handles(self->life, tr_incarnation(ctx));
    turn_begin(self->life, kind, what);
}

static tr_err handle(tr_ctx *ctx, const Player *self, turn_kind kind,
                     const void *message, bool is_request)
{
    trial *it = self->trial;
    turn t = turn_of(ctx, self, kind);
    const Work *m = message;  // Ask, Read and Beside have the same fields

    handler_begins(ctx, self, kind, "a handler");
    t.note = &it->notes[m->note];
    t.message = message;
    t.is_request = is_request;
    note_begin(it, self->life, t.note);
    const script *s = &it->plan->scripts[m->script];
    tr_err err = perform(&t, s->steps, s->count);
    turn_end(self->life, kind);
    return err;
}

static tr_err on_work(tr_ctx *ctx, Player *self, const Work *m)
{
    self->handled++;
    return handle(ctx, self, TURN_WRITES, m, false);
}

static tr_err on_ask(tr_ctx *ctx, Player *self, const Ask *m)
{
    self->handled++;
    return handle(ctx, self, TURN_WRITES, m, true);
}

static tr_err on_read(tr_ctx *ctx, const Player *self, const Read *m)
{
    return handle(ctx, self, TURN_READS, m, true);
}

static tr_err on_beside(tr_ctx *ctx, const Player *self, const Beside *m)
{
    return handle(ctx, self, TURN_BESIDE, m, true);
}

static tr_err on_terminated(tr_ctx *ctx, Player *self, const tr_terminated *m)
{
    atomic_fetch_add(&self->trial->called, 1);
    life_handles(self->life, tr_incarnation(ctx));
    watch_told(self->life, m->actor, m->reason);
    return run_steps(ctx, self, HOOK_terminated, "a tr_terminated");
}

static tr_err on_tick(tr_ctx *ctx, Player *self, const Tick *m)
{
    life *l = self->life;
    timer *it = &l->timers[m->timer];

    atomic_fetch_add(&self->trial->called, 1);
    life_handles(l, tr_incarnation(ctx));
    if (m->incarnation != l->incarnation || !it->active) {
        broken("rule 38 (timers)",
               "slot %u: a tick of incarnation %u in %u, timer %s", l->slot,
               m->incarnation, l->incarnation,
               it->active ? "active" : "cancelled");
    }
    if (tr_now(ctx) < it->due) {
        broken("rule 38 (timers)", "slot %u: a timer fires early", l->slot);
    }
    it->active = it->periodic;
    it->due += it->span;
    return run_steps(ctx, self, HOOK_tick, "a tick");
}

tr_err player_then(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    Player *it = self;

    life_handles(it->life, tr_incarnation(ctx));
    if (it->life->then_open == 0 || (reply != NULL) != (err == TR_OK)) {
        broken("rule 17 (callbacks)", "slot %u: a callback too many, or %s",
               it->life->slot, tr_errname(err));
    }
    it->life->then_open--;
    return run_steps(ctx, it, HOOK_then, "a callback");
}

static tr_err pipe_ends(tr_ctx *ctx, Player *self)
{
    atomic_fetch_add(&self->trial->called, 1);
    life_handles(self->life, tr_incarnation(ctx));
    if (self->life->pipe_open == 0) {
        broken("rule 17 (callbacks)", "slot %u: a piped answer too many",
               self->life->slot);
    }
    self->life->pipe_open--;
    return run_steps(ctx, self, HOOK_then, "a piped answer");
}

static tr_err on_answer(tr_ctx *ctx, Player *self, const Answer *m)
{
    (void)m;
    return pipe_ends(ctx, self);
}

static tr_err on_ask_failed(tr_ctx *ctx, Player *self, const tr_ask_failed *m)
{
    if (m->err == TR_OK) {
        broken("rule 17 (callbacks)", "tr_ask_failed without an error");
    }
    return pipe_ends(ctx, self);
}

static tr_err on_event(tr_ctx *ctx, Player *self, const Event *m)
{
    (void)m;
    atomic_fetch_add(&self->trial->called, 1);
    life_handles(self->life, tr_incarnation(ctx));
    // An event that was queued before a restart is kept like all mail.
    if (!self->life->joined && self->life->incarnation == 1) {
        broken("tr_topic_join",
               "slot %u gets an event of a topic that it "
               "has not joined",
               self->life->slot);
    }
    return TR_OK;
}

static tr_err on_timeout(tr_ctx *ctx, Player *self, const tr_timeout *m)
{
    (void)m;
    atomic_fetch_add(&self->trial->called, 1);
    life_handles(self->life, tr_incarnation(ctx));
    if (!self->life->timeout) {
        broken("tr_receive_timeout", "slot %u gets a tr_timeout, none is set",
               self->life->slot);
    }
    return TR_OK;
}

#define HANDLERS                                                               \
    TR_ON(Work, on_work), TR_ON(Ask, on_ask), TR_ON_READ(Read, on_read),       \
        TR_ON_INTERLEAVE(Beside, on_beside),                                   \
        TR_ON(tr_terminated, on_terminated), TR_ON(Tick, on_tick),             \
        TR_ON(Answer, on_answer), TR_ON(tr_ask_failed, on_ask_failed),         \
        TR_ON(Event, on_event), TR_ON(tr_timeout, on_timeout)

TR_ACTOR(player, Player, HANDLERS, TR_HOOK(pre_start, pre_start),
         TR_HOOK(post_start, post_start), TR_HOOK(pre_stop, pre_stop),
         TR_HOOK(post_stop, post_stop), TR_HOOK(pre_restart, pre_restart),
         TR_HOOK(post_restart, post_restart), TR_HOOK(on_run, on_run),
         TR_HOOK(decide, decide));
/* The other behaviour: the same handlers, no hooks. */
TR_ACTOR(other, Player, HANDLERS);

const tr_actor_def *const player_behaviours[2] = {&player, &other};

static tr_err around(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    (void)user;
    if (tr_msg_type(msg) == NULL || tr_ref_err(tr_self(ctx)) != TR_OK) {
        broken("interceptors", "a message without a type, or nobody's");
    }
    return tr_proceed(call);
}

static const tr_interceptor passes = {.name = "passes", .around = around};
const tr_interceptor *const player_interceptors[] = {&passes, &passes, NULL};

/* ---- spawning ---- */

static void set_option(tr_spawn_options *o, tr_supervision *policy,
                       const option *it, char name[8], uint32_t slot)
{
    switch ((spawn_option)it->what) {
    case O_NAME:
        snprintf(name, 8, "s%u", slot);
        o->name = name;
        break;
    case O_SUPERVISION:
        option_supervision(policy, it->arg);
        policy->keep_children = it->arg / 1000 % 2;
        policy->clear_mailbox = it->arg / 2000 % 2;
        policy->jitter = it->arg / 4000 % 2;
        o->supervision = policy;
        break;
    case O_TEMPORARY:
        o->restart = TR_TEMPORARY;
        break;
    case O_SOFT_LIMIT:
        o->soft_limit = 1 + it->arg % 8;
        break;
    case O_MAILBOX:
        o->mailbox_limit = 1 + it->arg % 8;
        o->overflow = (tr_overflow)(it->arg / 8 % 5);
        break;
    case O_WATCHED:
        o->watch = true;
        break;
    case O_JOINABLE:
        o->joinable = true;
        break;
    case O_DRAIN:
        o->drain = TR_DRAIN_DROP;
        break;
    case O_DISPATCHER:
        o->dispatcher = plan_dispatcher(it->arg);
        break;
    case O_AUTO_STOP:
        o->auto_stop = true;
        break;
    case O_INTERCEPTED:
        o->interceptors = player_interceptors;
        break;
    case O_INHERIT:
        o->inherit_supervision = true;
        break;
    case O_STOP_TIMEOUT:
        o->stop_timeout = TR_SECONDS(20);
        break;
    case O_HEAP_LIMIT:
        o->heap_limit = 1 << 20;
        break;
    default:
        break;
    }
}

/* The errors of tr_spawn that a correct program can meet. */
static void check_refused_spawn(const turn *t, const tr_spawn_options *o,
                                tr_err err)
{
    bool fits = err == TR_ESTOPPED || err == TR_ECLOSED ||
                (err == TR_EEXIST && o->name != NULL) ||
                (err == TR_ELIMIT && o->dispatcher != NULL);

    if (!fits) {
        broken("tr_spawn", "%s: %s", tr_errname(err), tr_error_text(t->from));
    }
}

void spawn_slot(turn *t, uint32_t slot)
{
    trial *it = t->trial;
    const slot_plan *s = &it->plan->slots[slot];
    tr_supervision policy = {.size = sizeof(policy)};
    char name[8];
    life *l = life_new(it, slot, t->source);

    if (l == NULL) {
        return;
    }
    tr_spawn_options o = {.size = sizeof(o),
                          TR_INIT(player, .trial = it, .life = l)};
    for (uint32_t i = 0; i < s->option_count; i++) {
        set_option(&o, &policy, &s->options[i], name, slot);
    }
    l->keeps = o.supervision != NULL
                   ? policy.keep_children
                   : o.inherit_supervision && t->life != NULL && t->life->keeps;
    o.watch = o.watch && (t->life == NULL || watch_may(t->life));
    tr_ref ref = (tr_spawn)(t->from, &player, &o);
    // Rule 33 (exactly one notice): a spawn that failed begins no watch.
    if (o.watch && t->life != NULL && ref.cell != 0) {
        watch_add(t->life, ref);
    }
    if (tr_ref_err(ref) != TR_OK) {
        check_refused_spawn(t, &o, tr_ref_err(ref));
        return;
    }
    life_set_ref(l, ref);
    atomic_store(&l->holds, o.auto_stop);
    atomic_store_explicit(&it->slots[slot], 1 + (uint32_t)(l - it->lives),
                          memory_order_relaxed);
}
