/*
 * watch_for_test.c - watching and unwatching on behalf of another actor.
 */
#include "support/fixture.h"

#include "support/core.h"
#include "unit/core/watching.h"

static void watch_for(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    tr_watch_for(s->sys, w, a);
    (void)gotten(s, w);
    tr_watch_for(s->probe, tr_probe_ref(s->deaths), a);
    tr_stop(s->sys, a);
    heard(s, "w terminated");
    assert_int_equal(ended(s, a), TR_STOPPED);
    tr_watch_for(s->sys, w, a);
    heard(s, "w terminated");
    // The watcher has ended: nothing happens.
    tr_stop(s->sys, w);
    (void)joined(s, w);
    tr_ref b = PLAY(s, "b", ());
    tr_watch_for(s->sys, w, b);
    tr_watch_for(s->sys, TR_NOBODY, b);
    tr_stop(s->sys, b);
    (void)joined(s, b);
    quiet(s);
}

static void test_DW26_watching_on_behalf_of_another(void **state)
{
    (void)state;
    everywhere(watch_for);
}

static void unwatch_for(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, w, Watch, .ref = a);  // it began the watch itself
    (void)gotten(s, w);
    tr_unwatch_for(s->sys, w, a);
    (void)gotten(s, w);
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 0);
    }
    tr_stop(s->sys, a);
    (void)joined(s, a);
    quiet(s);
    // Calls of one sender take effect in order.
    tr_ref b = PLAY(s, "b", ());
    tr_watch_for(s->sys, w, b);
    tr_unwatch_for(s->sys, w, b);
    tr_watch_for(s->sys, w, b);
    (void)gotten(s, w);
    tr_stop(s->sys, b);
    assert_int_equal(heard(s, "w terminated"), TR_STOPPED);
    quiet(s);
}

static void test_DW26_DW8_unwatching_on_behalf_of_another(void **state)
{
    (void)state;
    everywhere(unwatch_for);
}

static void unwatch_nothing(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    tr_ref gone = PLAY(s, "gone", ());
    tr_stop(s->sys, gone);
    (void)joined(s, gone);
    tr_unwatch_for(s->sys, w, a);  // it watches nobody
    tr_unwatch_for(s->sys, w, TR_NOBODY);
    tr_unwatch_for(s->sys, w, gone);
    tr_unwatch_for(s->sys, gone, a);
    tr_unwatch_for(s->sys, TR_NOBODY, a);
    assert_int_equal(gotten(s, w).incarnation, 1);
    assert_int_equal(gotten(s, a).incarnation, 1);
    quiet(s);
}

static void test_DW26_DW8_unwatching_what_is_not_watched(void **state)
{
    (void)state;
    everywhere(unwatch_nothing);
}

TR_REQUEST(Arrange, tr_none, (tr_ref, watcher), (tr_ref, target), (bool, off));
TR_REQUEST(WatchForMe, tr_none, (tr_ref, target));
TR_REQUEST(EndOf, tr_none, (tr_ref, target), (bool, off));

typedef struct Agent {
    int64_t told;
} Agent;

static tr_err on_arrange(tr_ctx *ctx, Agent *self, const Arrange *m)
{
    (void)self;
    if (m->off) {
        tr_unwatch_for(ctx, m->watcher, m->target);
    } else {
        tr_watch_for(ctx, m->watcher, m->target);
    }
    return tr_reply(ctx, m);
}

static tr_err on_watch_for_me(tr_ctx *ctx, Agent *self, const WatchForMe *m)
{
    (void)self;
    tr_watch_for(ctx, tr_sender(ctx), m->target);
    return tr_reply(ctx, m);
}

/* Watches, stops the target, and unwatches before the notice is handled. */
static tr_err on_end_of(tr_ctx *ctx, Agent *self, const EndOf *m)
{
    (void)self;
    tr_watch_for(ctx, tr_self(ctx), m->target);
    tr_stop(ctx, m->target);
    TR_TRY(tr_sleep(ctx, TR_MS(20)));
    if (m->off) {
        tr_unwatch_for(ctx, tr_self(ctx), m->target);
    }
    return tr_reply(ctx, m);
}

static tr_err agent_hears(tr_ctx *ctx, Agent *self, const tr_terminated *m)
{
    (void)ctx, (void)m;
    self->told++;
    return TR_OK;
}

static tr_err agent_get(tr_ctx *ctx, Agent *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->told);
}

TR_ACTOR(agent, Agent, TR_ON(Arrange, on_arrange),
         TR_ON(WatchForMe, on_watch_for_me), TR_ON(EndOf, on_end_of),
         TR_ON(tr_terminated, agent_hears), TR_ON(Get, agent_get));

static void arrange(stage *s, tr_ref from, tr_ref watcher, tr_ref target,
                    bool off)
{
    TR_MUST(tr_ask(s->sys, from, NULL, patience(s), Arrange, .watcher = watcher,
                   .target = target, .off = off));
}

static void from_an_actor(stage *s)
{
    tr_ref go = tr_spawn(s->sys, agent);
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    arrange(s, go, w, a, false);
    arrange(s, go, tr_probe_ref(s->deaths), a, false);
    arrange(s, go, w, a, true);
    arrange(s, go, tr_probe_ref(s->deaths), a, true);
    (void)gotten(s, w);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    quiet(s);
    tr_expect_nothing(s->deaths, TR_MS(1));
    // A probe is a watcher like any other.
    tr_ref b = PLAY(s, "b", ());
    arrange(s, go, tr_probe_ref(s->deaths), b, true);
    arrange(s, go, tr_probe_ref(s->deaths), b, false);
    tr_stop(s->sys, b);
    assert_int_equal(ended(s, b), TR_STOPPED);
}

static void test_DW26_DW21_actors_arrange_watches_of_probes(void **state)
{
    (void)state;
    everywhere(from_an_actor);
}

/* After tr_unwatch_for a queued notice is not handled. */
static void queued_notice(stage *s)
{
    tr_ref go = tr_spawn(s->sys, agent);
    Count told;
    for (int off = 0; off < 2; off++) {
        tr_ref a = PLAY(s, NULL, ());
        TR_MUST(tr_ask(s->sys, go, NULL, patience(s), EndOf, .target = a,
                       .off = off == 1));
        (void)joined(s, a);
        TR_MUST(tr_ask(s->sys, go, &told, patience(s), Get));
        assert_int_equal(told.number, 1);
    }
}

static void test_DW26_a_queued_notice_is_taken_back(void **state)
{
    (void)state;
    virtually(queued_notice);
}

/* The watcher is a thread that asks; the watch ends with its ask. */
static void for_a_thread(stage *s)
{
    tr_ref go = tr_spawn(s->sys, agent);
    tr_ref a = PLAY(s, "a", ());
    TR_MUST(tr_ask(s->sys, go, NULL, patience(s), WatchForMe, .target = a));
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 0);
    }
    tr_stop(s->sys, a);
    (void)joined(s, a);
    quiet(s);
}

static void test_DW26_a_watch_for_an_asking_thread_ends_with_the_ask(
    void **state)
{
    (void)state;
    everywhere(for_a_thread);
}

/* A call without memory is logged and changes no watch. */
static void without_memory(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = PLAY(s, "b", ());
    tr_watch_for(s->sys, w, a);
    (void)gotten(s, w);
    tri_mem_fail_after(&s->sys->mem, 0);
    tr_unwatch_for(s->sys, w, a);
    tri_mem_fail_after(&s->sys->mem, 0);
    tr_watch_for(s->sys, w, b);
    tri_mem_fail_after(&s->sys->mem, -1);
    assert_true(stage_logged(s, "out of memory for a tr_unwatch_for on behalf"
                                " of another"));
    assert_true(stage_logged(s, "out of memory for a watch on behalf of"
                                " another"));
    tr_stop(s->sys, b);
    (void)joined(s, b);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "w terminated"), TR_STOPPED);
    quiet(s);
}

static void test_DW26_rule_27_unwatching_without_memory(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    virtually(without_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DW26_watching_on_behalf_of_another),
        cmocka_unit_test(test_DW26_DW8_unwatching_on_behalf_of_another),
        cmocka_unit_test(test_DW26_DW8_unwatching_what_is_not_watched),
        cmocka_unit_test(test_DW26_DW21_actors_arrange_watches_of_probes),
        cmocka_unit_test(test_DW26_a_queued_notice_is_taken_back),
        cmocka_unit_test(
            test_DW26_a_watch_for_an_asking_thread_ends_with_the_ask),
        cmocka_unit_test(test_DW26_rule_27_unwatching_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
