/*
 * fixture.h - a stage for tests of actors: a system, a probe, and players.
 *
 * A player is an actor that does what messages tell it, and sends a note of
 * what happens to it: "a pre_start" means that the hook of the actor named a
 * has run. Notes go to the stage's probe; `heard` takes the next note and
 * compares it.
 *
 * `everywhere` runs a scenario on real threads and, on virtual time, with
 * several seeds, each of which is another order of turns. A scenario expects
 * only what holds in every order.
 */
#ifndef TEST_SUPPORT_FIXTURE_H
#define TEST_SUPPORT_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { STAGE_SEEDS = 6, STAGE_LOG = 1 << 14 };

typedef struct stage {
    tr_sim *sim;  // NULL: on real threads
    tr_system *sys;
    tr_probe *probe;
    tr_ref to;         // of the probe
    tr_probe *deaths;  // watches actors; apart, because ends overtake mail
    pthread_mutex_t log_lock;
    tr_err failure;  // that closing must return; TR_OK at the beginning
    size_t log_used;
    char log[STAGE_LOG];  // as many lines as fit
} stage;

/* ---- players ---- */

/* Hooks and events, as bits of Player.says, .fails and .panics. */
enum {
    PRE_START = 1,
    POST_START = 2,
    PRE_STOP = 4,
    POST_STOP = 8,
    PRE_RESTART = 16,
    POST_RESTART = 32,
    DECIDE = 64,
    TERMINATED = 128,  // always noted, unless .deaf
    ALL_HOOKS = 63,
};

typedef struct Player {
    tr_ref probe;
    uint32_t says;    // hooks that send a note
    uint32_t fails;   // hooks that return TR_EIO
    uint32_t panics;  // hooks that panic
    uint32_t times;   // ... only the first incarnations; 0: all
    bool sleepy;      // hooks sleep a minute before their note
    bool deaf;        // sends no note of tr_terminated
    tr_directive decision;
    int64_t count;
} Player;

TR_MESSAGE(Note, (const char *, text), (int64_t, number), (tr_ref, ref));

/* Sends a note with this text: "a hello". */
TR_MESSAGE(Say, (const char *, text), (int64_t, number));
TR_MESSAGE(Fail, (uint32_t, err));
TR_MESSAGE(Panic);
TR_MESSAGE(Nap, (int64_t, span));  // sleeps, then sends the note "a woke"
TR_MESSAGE(Add, (int64_t, number));
TR_MESSAGE(Watch, (tr_ref, ref), (bool, in_order), (bool, stop));
TR_MESSAGE(End, (tr_ref, ref));  // stops ref
TR_MESSAGE(Strange);             // players have no handler for it
TR_MESSAGE(Count, (int64_t, number), (uint32_t, incarnation));
TR_REQUEST(Get, Count);
TR_MESSAGE(Born, (tr_ref, ref));
TR_REQUEST(Bear, Born, (uint64_t, options));

static inline void note(tr_ctx *ctx, const Player *self, const char *what,
                        int64_t number, tr_ref ref)
{
    tr_tell(ctx, self->probe, Note,
            .text = tr_textf(ctx, "%s %s", tr_name(ctx), what),
            .number = number, .ref = ref);
}

static inline tr_err player_hook(tr_ctx *ctx, Player *self, uint32_t which,
                                 const char *name, int64_t number)
{
    bool now = self->times == 0 || tr_incarnation(ctx) <= self->times;
    if (self->says & which) {
        if (self->sleepy) {
            TR_TRY(tr_sleep(ctx, TR_MINUTES(1)));
        }
        note(ctx, self, name, number, TR_NOBODY);
    }
    if (now && (self->panics & which)) {
        tr_panic(ctx, "%s panics", name);
    }
    return now && (self->fails & which) ? tr_fail(ctx, TR_EIO, "%s", name)
                                        : TR_OK;
}

static inline tr_err player_pre_start(tr_ctx *ctx, Player *self)
{
    return player_hook(ctx, self, PRE_START, "pre_start", self->count);
}

static inline tr_err player_post_start(tr_ctx *ctx, Player *self)
{
    return player_hook(ctx, self, POST_START, "post_start", 0);
}

static inline tr_err player_pre_stop(tr_ctx *ctx, Player *self)
{
    return player_hook(ctx, self, PRE_STOP, "pre_stop", 0);
}

static inline tr_err player_post_stop(tr_ctx *ctx, Player *self,
                                      tr_reason reason)
{
    return player_hook(ctx, self, POST_STOP, "post_stop", reason);
}

static inline tr_err player_pre_restart(tr_ctx *ctx, Player *self,
                                        const tr_failure *cause)
{
    return player_hook(ctx, self, PRE_RESTART, "pre_restart", cause->err);
}

static inline tr_err player_post_restart(tr_ctx *ctx, Player *self)
{
    return player_hook(ctx, self, POST_RESTART, "post_restart",
                       tr_incarnation(ctx));
}

static inline tr_directive player_decide(const Player *self,
                                         const tr_failure *failure)
{
    (void)failure;
    return self->decision;
}

static inline tr_err on_say(tr_ctx *ctx, Player *self, const Say *m)
{
    note(ctx, self, m->text, m->number, tr_sender(ctx));
    return TR_OK;
}

static inline tr_err on_fail(tr_ctx *ctx, Player *self, const Fail *m)
{
    (void)self;
    return tr_fail(ctx, m->err != 0 ? (tr_err)m->err : TR_EUSER,
                   "told to fail");
}

static inline tr_err on_panic(tr_ctx *ctx, Player *self, const Panic *m)
{
    (void)self;
    (void)m;
    tr_panic(ctx, "told to panic");
}

static inline tr_err on_nap(tr_ctx *ctx, Player *self, const Nap *m)
{
    tr_err err = tr_sleep(ctx, m->span);
    note(ctx, self, "woke", err, TR_NOBODY);
    return err;
}

static inline tr_err on_add(tr_ctx *ctx, Player *self, const Add *m)
{
    (void)ctx;
    self->count += m->number;
    return TR_OK;
}

static inline tr_err on_watch(tr_ctx *ctx, Player *self, const Watch *m)
{
    (void)self;
    if (m->stop) {
        tr_unwatch(ctx, m->ref);
    } else if (m->in_order) {
        tr_watch_in_order(ctx, m->ref);
    } else {
        tr_watch(ctx, m->ref);
    }
    return TR_OK;
}

static inline tr_err on_end(tr_ctx *ctx, Player *self, const End *m)
{
    (void)self;
    tr_stop(ctx, m->ref);
    return TR_OK;
}

static inline tr_err on_get(tr_ctx *ctx, Player *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->count,
                    .incarnation = tr_incarnation(ctx));
}

static tr_err on_bear(tr_ctx *ctx, Player *self, const Bear *m);

static inline tr_err on_terminated(tr_ctx *ctx, Player *self,
                                   const tr_terminated *m)
{
    if (!self->deaf) {
        note(ctx, self, "terminated", m->reason, m->actor);
    }
    return self->fails & TERMINATED ? TR_EIO : TR_OK;
}

TR_ACTOR(player, Player, TR_HOOK(pre_start, player_pre_start),
         TR_HOOK(post_start, player_post_start),
         TR_HOOK(pre_stop, player_pre_stop),
         TR_HOOK(post_stop, player_post_stop),
         TR_HOOK(pre_restart, player_pre_restart),
         TR_HOOK(post_restart, player_post_restart),
         TR_HOOK(decide, player_decide), TR_ON(Say, on_say),
         TR_ON(Fail, on_fail), TR_ON(Panic, on_panic), TR_ON(Nap, on_nap),
         TR_ON(Add, on_add), TR_ON(Watch, on_watch), TR_ON(End, on_end),
         TR_ON(Get, on_get), TR_ON(Bear, on_bear),
         TR_ON(tr_terminated, on_terminated));

static tr_err on_bear(tr_ctx *ctx, Player *self, const Bear *m)
{
    (void)self;
    const tr_spawn_options *options =
        (const tr_spawn_options *)(uintptr_t)m->options;
    return tr_reply(ctx, m, .ref = (tr_spawn)(ctx, &player, options));
}

/* Lets the parent spawn a child; returns its ref. */
static inline tr_ref bear(stage *s, tr_ref parent,
                          const tr_spawn_options *options)
{
    Born born;
    assert_int_equal(tr_ask(s->sys, parent, &born, 0, Bear,
                            .options = (uint64_t)(uintptr_t)options),
                     TR_OK);
    return born.ref;
}

/* Spawns a top-level player; `fields`, in brackets, are those of Player. */
#define PLAY(s, child, fields, ...)                                            \
    tr_spawn((s)->sys, player, .name = (child), AS_(s, fields), ##__VA_ARGS__)
#define CHILD(s, parent, child, fields, ...)                                   \
    bear((s), (parent),                                                        \
         TR_OPTIONS(tr_spawn_options, .name = (child), AS_(s, fields),         \
                    ##__VA_ARGS__))
#define AS_(s, fields)                                                         \
    .init = &(const Player){.probe = (s)->to, TR_UNWRAP fields},               \
    .init_type = player.state, .init_size = sizeof(Player)

/* ---- the stage ---- */

static inline void stage_keep_log(void *user, const tr_log_record *record)
{
    stage *s = user;
    pthread_mutex_lock(&s->log_lock);
    int n = snprintf(s->log + s->log_used, STAGE_LOG - s->log_used,
                     "%d %s %s\n", record->level,
                     record->path != NULL ? record->path : "-", record->text);
    if (n > 0 && s->log_used + (size_t)n < STAGE_LOG) {
        s->log_used += (size_t)n;
    }
    pthread_mutex_unlock(&s->log_lock);
}

static inline bool stage_logged(stage *s, const char *text)
{
    pthread_mutex_lock(&s->log_lock);
    bool found = strstr(s->log, text) != NULL;
    pthread_mutex_unlock(&s->log_lock);
    return found;
}

/* Opens the stage; seed 0: on real threads. options may be NULL. */
static inline void stage_open(stage *s, uint64_t seed,
                              const tr_system_options *options)
{
    tr_system_options o = {.size = sizeof(o), .workers = 2};
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->log_lock, NULL);
    if (options != NULL) {
        o = *options;
    }
    if (seed != 0) {
        assert_int_equal(tr_sim_new(&s->sim, seed), TR_OK);
        o.world = tr_sim_world(s->sim);
    }
    o.log = stage_keep_log;
    o.log_user = s;
    assert_int_equal((tr_system_open)(&s->sys, &o), TR_OK);
    assert_int_equal(tr_probe_new(&s->probe, s->sys), TR_OK);
    s->to = tr_probe_ref(s->probe);
    assert_int_equal(tr_probe_new(&s->deaths, s->sys), TR_OK);
}

/* Closes the system, which must not have to force any actor. */
static inline void stage_close(stage *s)
{
    tr_probe_free(s->probe);
    tr_probe_free(s->deaths);
    assert_int_equal(tr_system_close(s->sys, 0), s->failure);
    tr_sim_free(s->sim);
}

static inline void with_options(const tr_system_options *options,
                                void (*scenario)(stage *s))
{
    static stage s;
    for (uint64_t seed = 0; seed <= STAGE_SEEDS; seed++) {
        stage_open(&s, seed, options);
        scenario(&s);
        stage_close(&s);
    }
}

static inline void everywhere(void (*scenario)(stage *s))
{
    with_options(NULL, scenario);
}

/* Runs a scenario about time: only on virtual time. */
static inline void virtually(void (*scenario)(stage *s))
{
    static stage s;
    for (uint64_t seed = 1; seed <= STAGE_SEEDS; seed++) {
        stage_open(&s, seed, NULL);
        scenario(&s);
        stage_close(&s);
    }
}

/* ---- what is expected ---- */

static inline tr_nanos patience(const stage *s)
{
    return s->sim != NULL ? TR_MINUTES(60) : TR_MINUTES(2);
}

#define heard(s, what) heard_((s), (what), __FILE__, __LINE__)

/* Takes the next note, which must have this text; returns its number. */
static inline int64_t heard_(stage *s, const char *text, const char *file,
                             int line)
{
    char site[256];
    snprintf(site, sizeof(site), "%s:%d (%s)", file, line, text);
    const Note *n = (tr_expect)(s->probe, patience(s), &Note_tr_type, site);
    if (strcmp(n->text, text) != 0) {
        print_error("%s:%d: heard \"%s\" instead of \"%s\"\n", file, line,
                    n->text, text);
        fail();
    }
    return n->number;
}

/* Watches ref, for `ended`. */
static inline void watch_end(stage *s, tr_ref ref)
{
    tr_probe_watch(s->deaths, ref);
}

/* Takes the next end of a watched actor, which must be ref; its reason. */
static inline tr_reason ended(stage *s, tr_ref ref)
{
    const tr_terminated *t = tr_expect(s->deaths, patience(s), tr_terminated);
    assert_true(tr_ref_eq(t->actor, ref));
    return (tr_reason)t->reason;
}

/* Expects no more notes: for an hour of virtual time, or 1 ns of real time. */
static inline void quiet(stage *s)
{
    tr_expect_nothing(s->probe, s->sim != NULL ? TR_MINUTES(60) : 1);
    tr_expect_nothing(s->deaths, 1);
}

/* Asks ref for its count, after all that was sent to it before. */
static inline Count gotten(stage *s, tr_ref ref)
{
    Count count;
    assert_int_equal(tr_ask(s->sys, ref, &count, patience(s), Get), TR_OK);
    return count;
}

/* Waits until ref has been restarted into this incarnation. */
static inline void wait_incarnation(stage *s, tr_ref ref, uint32_t wanted)
{
    while (gotten(s, ref).incarnation != wanted) {
        // Asks again.
    }
}

/* Waits for the end of ref. */
static inline tr_result joined(stage *s, tr_ref ref)
{
    tr_result result;
    tr_err err = tr_join(s->sys, ref, patience(s), &result, NULL);
    assert_true(err == TR_OK || err == TR_ENOENT);
    return result;
}

#endif
