/*
 * out_of_memory_test.c - the n-th allocation of a scenario fails, for every n.
 *
 * A scenario with spawning, asking, telling with text, watching, timers,
 * futures, keeping, stashing, restarting and stopping runs on virtual time.
 * Whatever fails must end in TR_ENOMEM, a dead letter or a supervised failure;
 * the system must close, and the sanitizers must find nothing.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "support/core.h"

enum { SCENARIO_MAX = 5000 };

/* Checks an error that a call may return when memory is short. */
static void clean(tr_err err)
{
    switch (err) {
    case TR_OK:
    case TR_ENOMEM:
    case TR_ENOENT:  // the target could not be spawned
    case TR_EGONE:
    case TR_ESTOPPED:
    case TR_ERESTARTED:
    case TR_ENOREPLY:
    case TR_EFAILED:
    case TR_EPANIC:  // from tr_alloc and similar calls
    case TR_ETIMEDOUT:
    case TR_EUSER:
        return;
    default:
        fail_msg("%s", tr_errname(err));
    }
}

static tr_err act_text(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    return tr_reply(ctx, m, .value = 1,
                    .text = tr_textf(ctx, "a text that is not short: %d", 5));
}

static tr_err act_many_things(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    Acted out;
    tr_future futures[2];
    size_t index;
    (void)arg;
    puppet first = {.stage = self->stage};
    tr_ref child =
        tr_spawn(ctx, puppets, .name = "child", .init = &first,
                 .init_size = sizeof(first), .watch = true, .mailbox_limit = 10,
                 .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    self->kept = tr_dup(ctx, "kept");
    char *room = tr_alloc(ctx, 100);
    room = tr_realloc(ctx, room, 200);
    tr_free(ctx, room);
    (void)tr_after(ctx, TR_SECONDS(1), Note, .value = 1);
    tr_timer beat = tr_every(ctx, TR_SECONDS(1), Note, .value = 2);
    tr_receive_timeout(ctx, TR_SECONDS(3));
    tr_tell_urgent(ctx, child, 2, Note, .value = 3);
    clean(tr_ask(ctx, self->stage->two, &out, TR_SECONDS(5), Act,
                 .fn = (uint64_t)(uintptr_t)act_text));
    for (int i = 0; i < 2; i++) {
        futures[i] = tr_async(ctx, self->stage->three, TR_SECONDS(5), Act,
                              .fn = (uint64_t)(uintptr_t)act_text);
    }
    clean(tr_await_any(ctx, futures, 2, &index));
    clean(tr_await(ctx, futures[0], Act, &out));
    clean(tr_sleep(ctx, TR_MS(10)));
    tr_cancel(ctx, beat);
    tr_ask_pipe(ctx, self->stage->two, TR_SECONDS(5), Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    tr_watch(ctx, self->stage->two);
    tr_subscribe(ctx, Note);
    tr_publish(ctx, Note, .value = 9);
    tr_unsubscribe(ctx, Note);
    tr_stop(ctx, child);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_stash(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    if (self->value++ == 0) {
        return tr_stash(ctx, m);
    }
    tr_unstash_all(ctx);
    return TR_OK;
}

static void scenario(stage *it)
{
    Acted out;
    tr_ref extra = stage_spawn(it, .name = "extra", .joinable = true);
    tr_tell(it->probe, it->two, Acted, .value = 1, .text = "unhandled text");
    clean(stage_ask_for(it, it->one, act_many_things, NULL, TR_SECONDS(20)));
    if (tr_ask(it->sys, it->two, &out, TR_SECONDS(5), Act,
               .fn = (uint64_t)(uintptr_t)act_text) == TR_OK) {
        tr_drop(Acted, &out);
    }
    stage_tell(it, extra, act_stash, NULL);
    stage_tell(it, extra, act_stash, NULL);
    stage_tell(it, it->three, act_keep, NULL);
    stage_pass(it, TR_SECONDS(2));
    clean(stage_ask_for(it, it->one, act_fail, NULL, TR_SECONDS(5)));
    clean(stage_ask_for(it, it->three, act_panic, NULL, TR_SECONDS(5)));
    stage_pass(it, TR_SECONDS(2));
    tr_watch_for(it->sys, it->three, it->two);
    tr_stop(it->sys, it->two);
    tr_poison(it->sys, extra);
    clean(tr_join(it->sys, extra, TR_SECONDS(5), NULL, NULL));
    stage_pass(it, TR_SECONDS(5));
}

/* Runs the scenario; returns true if the n-th allocation was reached. */
static bool run_failing(int64_t n)
{
    stage it;
    stage_open(&it);
    tri_mem_fail_after(&it.sys->mem, n);
    scenario(&it);
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&it.sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&it.sys->mem, -1);
    stage_close(&it);
    return reached;
}

static void test_the_nth_allocation_fails_for_every_n(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    int64_t n = 0;
    while (run_failing(n)) {
        n++;
        assert_true(n < SCENARIO_MAX);
    }
    print_message("%lld allocations\n", (long long)n);
    assert_true(n > 50);
}

/* Stops, kills, restarts and notices work without memory. */
static void test_stop_and_restart_need_no_memory(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    for (int64_t n = 0; n < 8; n++) {
        stage it;
        stage_open(&it);
        tr_probe_watch(it.probe, it.two);
        stage_tell(&it, it.one, act_fail, NULL);
        stage_tell(&it, it.three, act_sleep, (void *)TR_SECONDS(1));
        stage_run_ready(&it);  // the failure has happened, the restart has not
        tri_mem_fail_after(&it.sys->mem, n);
        tr_stop(it.sys, it.two);
        tr_kill(it.sys, it.three);
        stage_pass(&it, TR_SECONDS(2));
        assert_int_equal(atomic_load(&it.restarts), 1);
        assert_int_equal(atomic_load(&it.stops), 2);
        tri_mem_fail_after(&it.sys->mem, -1);
        assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason,
                         TR_STOPPED);
        stage_close(&it);
    }
}

typedef struct bare {
    int nothing;
} bare;

static tr_err on_bare(tr_ctx *ctx, bare *self, const Note *m)
{
    (void)ctx;
    self->nothing = (int)m->value;
    return TR_OK;
}

TR_ACTOR(bares, bare, TR_ON(Note, on_bare));

static tr_err act_watch_it(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    tr_watch(ctx, *(tr_ref *)arg);
    return tr_reply(ctx, m, .value = 0);
}

typedef struct short_watch {
    tr_ref target;
    int64_t n;  // this many allocations succeed
} short_watch;

static tr_err act_watch_and_not(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    tri_mem *mem = &self->stage->sys->mem;
    short_watch *it = arg;
    (void)m;
    tri_mem_fail_after(mem, it->n);
    tr_watch(ctx, it->target);  // panics if the watcher itself lacks memory
    clean(tr_sleep(ctx, TR_MS(1)));
    tri_mem_fail_after(mem, -1);
    // The target has memory for a watcher now.
    TR_TRY(act_ask(ctx, self->stage->three, act_watch_it, &it->target,
                   TR_SECONDS(1)));
    tr_unwatch(ctx, it->target);
    return tr_sleep(ctx, TR_MS(1));
}

/* The target had no memory to note the watcher: unwatch finds no watch. */
static void test_DW9_unwatch_after_a_watch_without_memory(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    int watched = 0;
    for (int64_t n = 0; n < 12; n++) {
        stage it;
        stage_open(&it);
        short_watch plan = {.target = tr_spawn(it.sys, bares), .n = n};
        stage_run_ready(&it);
        tr_err err = stage_ask(&it, it.one, act_watch_and_not, &plan);
        tri_mem_fail_after(&it.sys->mem, -1);
        tr_stop(it.sys, plan.target);
        stage_pass(&it, TR_SECONDS(1));
        if (err == TR_OK) {
            // Only the second watcher is notified.
            expect_notes(&it, 1000 + TR_STOPPED);
            watched++;
        } else {
            expect_err(err, TR_EPANIC);
            assert_int_equal(atomic_load(&it.note_count), 0);
        }
        stage_close(&it);
    }
    assert_in_range(watched, 1, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_nth_allocation_fails_for_every_n),
        cmocka_unit_test(test_stop_and_restart_need_no_memory),
        cmocka_unit_test(test_DW9_unwatch_after_a_watch_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
