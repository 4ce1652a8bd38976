/*
 * stage.c - puppets, and the system that they run in.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the puppet ---- */

static tr_err run(tr_ctx *ctx, puppet *self, const void *m, uint64_t fn,
                  uint64_t arg)
{
    act_fn act = (act_fn)(uintptr_t)fn;
    return act(ctx, self, m, (void *)(uintptr_t)arg);
}

static tr_err on_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    return run(ctx, self, m, m->fn, m->arg);
}

static tr_err on_read(tr_ctx *ctx, const puppet *self, const ActRead *m)
{
    return run(ctx, (puppet *)(uintptr_t)self, m, m->fn, m->arg);
}

static tr_err on_beside(tr_ctx *ctx, const puppet *self, const ActBeside *m)
{
    return run(ctx, (puppet *)(uintptr_t)self, m, m->fn, m->arg);
}

static tr_err on_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, m->value);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, puppet *self, const tr_terminated *m)
{
    (void)ctx;
    stage_note(self->stage, 1000 + (int64_t)m->reason);
    return TR_OK;
}

static tr_err on_timeout(tr_ctx *ctx, puppet *self, const tr_timeout *m)
{
    (void)ctx;
    (void)m;
    stage_note(self->stage, -1);
    return TR_OK;
}

static tr_err on_start(tr_ctx *ctx, puppet *self)
{
    (void)ctx;
    atomic_fetch_add(&self->stage->starts, 1);
    return TR_OK;
}

static tr_err on_stop(tr_ctx *ctx, puppet *self, tr_reason reason)
{
    (void)ctx;
    if (reason == TR_RESTARTING) {
        atomic_fetch_add(&self->stage->restarts, 1);
    } else {
        atomic_fetch_add(&self->stage->stops, 1);
    }
    return TR_OK;
}

TR_ACTOR_PUBLIC(puppets, puppet, TR_ON(Act, on_act),
                TR_ON_READ(ActRead, on_read),
                TR_ON_INTERLEAVE(ActBeside, on_beside), TR_ON(Note, on_note),
                TR_ON(tr_terminated, on_terminated),
                TR_ON(tr_timeout, on_timeout), TR_HOOK(pre_start, on_start),
                TR_HOOK(post_stop, on_stop));

/* ---- the stage ---- */

static void keep_log(void *user, const tr_log_record *record)
{
    stage *it = user;
    if (it->sim != NULL) {
        snprintf(it->last_log, sizeof(it->last_log), "%s", record->text);
    }
}

static void count_dead(void *user, const tr_type *type, const void *event)
{
    stage *it = user;
    const tr_dead_letter *letter = event;
    (void)type;
    assert_true(letter->reason < STAGE_REASONS);
    atomic_fetch_add(&it->dead[letter->reason], 1);
}

static void count_overload(void *user, const tr_type *type, const void *event)
{
    stage *it = user;
    (void)type;
    (void)event;
    atomic_fetch_add(&it->overloads, 1);
}

static void open_system(stage *it, const tr_system_options *more)
{
    tr_system_options options = {.size = sizeof(options)};
    if (more != NULL) {
        options = *more;
    }
    options.log = keep_log;
    options.log_user = it;
    if (it->sim != NULL) {
        options.world = tr_sim_world(it->sim);
    }
    expect_ok((tr_system_open)(&it->sys, &options));
    expect_ok(tr_on_event(it->sys, tr_dead_letter, count_dead, it));
    expect_ok(tr_on_event(it->sys, tr_overload, count_overload, it));
    expect_ok(tr_probe_new(&it->probe, it->sys));
    it->one = stage_spawn(it, .name = "one");
    it->two = stage_spawn(it, .name = "two");
    it->three = stage_spawn(it, .name = "three");
}

void stage_open_seed(stage *it, uint64_t seed, const tr_system_options *more)
{
    memset(it, 0, sizeof(*it));
    expect_ok(tr_sim_new(&it->sim, seed));
    open_system(it, more);
    stage_run_ready(it);
}

void stage_open(stage *it)
{
    stage_open_seed(it, 1, NULL);
}

void stage_open_real(stage *it, const tr_system_options *more)
{
    memset(it, 0, sizeof(*it));
    open_system(it, more);
}

void stage_close(stage *it)
{
    tr_probe_free(it->probe);
    expect_ok(tr_system_close(it->sys, 0));
    tr_sim_free(it->sim);
}

tr_ref stage_puppet(stage *it, const tr_spawn_options *options)
{
    tr_spawn_options full = *options;
    puppet first = {.stage = it};
    full.init = &first;
    full.init_type = puppets.state;
    full.init_size = sizeof(first);
    tr_ref ref = (tr_spawn)((tr_from){.sys = it->sys}, &puppets, &full);
    return ref;
}

tr_err stage_ask_for(stage *it, tr_ref ref, act_fn fn, void *arg,
                     tr_nanos timeout)
{
    Acted done;
    tr_err err =
        tr_ask(it->sys, ref, &done, timeout, Act, .fn = (uint64_t)(uintptr_t)fn,
               .arg = (uint64_t)(uintptr_t)arg);
    tr_drop(Acted, &done);
    // A function that does not reply has ended, too.
    return err == TR_ENOREPLY ? TR_OK : err;
}

tr_err stage_ask(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    return stage_ask_for(it, ref, fn, arg, TR_SECONDS(1000));
}

void stage_tell(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    act_tell(it->probe, ref, fn, arg);
}

void stage_run_ready(stage *it)
{
    tr_sim_advance(it->sim, 0);
}

void stage_pass(stage *it, tr_nanos span)
{
    tr_sim_advance(it->sim, span);
}

/* ---- functions that many tests use ---- */

tr_err act_nothing(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    return tr_reply(ctx, m, .value = 1);
}

tr_err act_sleep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, (tr_nanos)(uintptr_t)arg));
    return tr_reply(ctx, m, .value = 2);
}

tr_err act_keep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    self->kept = (void *)(uintptr_t)tr_keep(ctx, m);
    return TR_OK;
}

tr_err act_fail(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    return tr_fail(ctx, TR_EUSER, "as told");
}

tr_err act_panic(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_panic(ctx, "as told");
}

tr_err act_meet(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)m;
    self->peer = *(const tr_ref *)arg;
    return TR_OK;
}

void stage_note(stage *it, int64_t value)
{
    uint32_t at = atomic_fetch_add(&it->note_count, 1);
    if (at < STAGE_NOTES) {
        it->notes[at] = value;
    }
}

void stage_expect_notes(stage *it, const int64_t *values, size_t count)
{
    uint32_t have = atomic_load(&it->note_count);
    for (size_t i = 0; i < count && i < have; i++) {
        if (it->notes[i] != values[i]) {
            fail_msg("note %zu is %lld, not %lld", i, (long long)it->notes[i],
                     (long long)values[i]);
        }
    }
    if (have != count) {
        fail_msg("%u notes, not %zu", have, count);
    }
}

uint32_t stage_dead(stage *it, tr_dead_reason reason)
{
    if (it->sim != NULL) {
        stage_run_ready(it);  // events are delivered by actors, too
    }
    return atomic_load(&it->dead[reason]);
}

uint32_t stage_depth(stage *it, tr_ref ref)
{
    tr_actor_info info = {.size = sizeof(info)};
    expect_ok(tr_actor_info_of(it->sys, ref, &info));
    return info.depth;
}

uint64_t stage_scaled(uint64_t count)
{
    const char *text = getenv("TR_TEST_SCALE");
    double scale = text != NULL && text[0] != '\0' ? atof(text) : 1.0;
    double scaled = (double)count * scale;
    return scaled < 1.0 ? 1 : (uint64_t)scaled;
}

void stage_same_err(tr_err got, tr_err wanted, const char *file, int line)
{
    if (got != wanted) {
        print_error("%s, not %s\n", tr_errname(got), tr_errname(wanted));
        _fail(file, line);
    }
}
