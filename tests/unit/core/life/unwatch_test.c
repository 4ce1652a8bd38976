/*
 * unwatch_test.c - watches that end without a notice: by tr_unwatch, or with
 * their watcher.
 */
#include "support/fixture.h"

#include "unit/core/watching.h"

static void unwatching(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    unwatch_it(s, w, a);  // there is no watch
    unwatch_it(s, w, TR_NOBODY);
    watch_it(s, w, a);
    unwatch_it(s, w, a);
    unwatch_it(s, w, a);
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 0);
    }
    tr_stop(s->sys, a);
    (void)joined(s, a);
    (void)gotten(s, w);
    quiet(s);
    // A watch after an unwatch counts.
    tr_ref b = PLAY(s, "b", ());
    watch_it(s, w, b);
    unwatch_it(s, w, b);
    watch_it(s, w, b);
    tr_stop(s->sys, b);
    heard(s, "w terminated");
    quiet(s);
}

static void test_DW2_DW8_DW22_unwatch_ends_the_watch(void **state)
{
    (void)state;
    everywhere(unwatching);
}

/* Takes back watches whose notices are queued while it sleeps. */
typedef struct Fickle {
    tr_ref probe;
    tr_ref refs[4];
} Fickle;

static tr_err fickle_start(tr_ctx *ctx, Fickle *self)
{
    for (int i = 0; i < 4; i++) {
        tr_watch(ctx, self->refs[i]);
    }
    return TR_OK;
}

static tr_err fickle_naps(tr_ctx *ctx, Fickle *self, const Nap *m)
{
    TR_TRY(tr_sleep(ctx, m->span));
    // All four notices are queued: unwatch removes three of them.
    tr_unwatch(ctx, self->refs[3]);
    tr_unwatch(ctx, self->refs[0]);
    tr_unwatch(ctx, self->refs[1]);
    tr_watch(ctx, self->refs[0]);  // a new notice, behind the others
    return TR_OK;
}

static tr_err fickle_hears(tr_ctx *ctx, Fickle *self, const tr_terminated *m)
{
    for (int i = 0; i < 4; i++) {
        if (tr_ref_eq(self->refs[i], m->actor)) {
            tr_tell(ctx, self->probe, Note, .text = "gone", .number = i);
        }
    }
    return TR_OK;
}

TR_ACTOR(fickle, Fickle, TR_HOOK(pre_start, fickle_start),
         TR_ON(Nap, fickle_naps), TR_ON(tr_terminated, fickle_hears));

static void unwatch_pending(stage *s)
{
    Fickle as = {.probe = s->to};
    for (int i = 0; i < 4; i++) {
        as.refs[i] = PLAY(s, NULL, ());
    }
    tr_ref f = tr_spawn(s->sys, fickle, .init = &as, .init_type = fickle.state,
                        .init_size = sizeof(as));
    tr_tell(s->sys, f, Nap, .span = TR_SECONDS(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    for (int i = 0; i < 4; i++) {
        tr_stop(s->sys, as.refs[i]);
        tr_sim_advance(s->sim, TR_MS(1));
    }
    assert_int_equal(heard(s, "gone"), 2);
    assert_int_equal(heard(s, "gone"), 0);
    quiet(s);
}

static void test_DW22_unwatch_drops_a_queued_notice(void **state)
{
    (void)state;
    virtually(unwatch_pending);
}

static void watcher_ends(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    for (int i = 0; i < 20; i++) {
        tr_ref w = PLAY(s, NULL, ());
        watch_it(s, w, a);
        tr_stop(s->sys, w);
        (void)joined(s, w);
    }
    // The target has forgotten all of them.
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 0);
    }
    tr_stop(s->sys, a);
    (void)joined(s, a);
    quiet(s);
}

static void test_X12_DW17_DW18_K25_a_watcher_that_ends_stops_watching(
    void **state)
{
    (void)state;
    everywhere(watcher_ends);
}

static void watcher_restarts(stage *s)
{
    tr_ref w = PLAY(s, "w", (.says = POST_RESTART));
    tr_ref a = PLAY(s, "a", ());
    watch_it(s, w, a);
    tr_tell(s->sys, w, Fail);
    heard(s, "w post_restart");
    tr_stop(s->sys, a);  // the new incarnation still watches it
    heard(s, "w terminated");
    quiet(s);
}

static void test_DW23_a_restart_keeps_own_watches(void **state)
{
    (void)state;
    everywhere(watcher_restarts);
}

static void parent_is_told(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .watch = true);
    tr_ref b = CHILD(s, p, "b", ());
    (void)gotten(s, p);
    tr_stop(s->sys, a);
    heard(s, "p terminated");
    tr_stop(s->sys, b);
    (void)joined(s, b);
    (void)gotten(s, p);
    quiet(s);  // not watched: no notice
    // An unwatched child still ends with its parent.
    tr_ref c = CHILD(s, p, "c", (.says = POST_STOP), .watch = true);
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    unwatch_it(s, p, c);
    watch_end(s, p);
    tr_stop(s->sys, p);
    heard(s, "c post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
    assert_int_equal(tr_state_of(s->sys, c), TR_STATE_TERMINATED);
}

static void test_SP20_X11_tr_terminated_comes_of_watched_children_only(
    void **state)
{
    (void)state;
    everywhere(parent_is_told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DW2_DW8_DW22_unwatch_ends_the_watch),
        cmocka_unit_test(test_DW22_unwatch_drops_a_queued_notice),
        cmocka_unit_test(
            test_X12_DW17_DW18_K25_a_watcher_that_ends_stops_watching),
        cmocka_unit_test(test_DW23_a_restart_keeps_own_watches),
        cmocka_unit_test(
            test_SP20_X11_tr_terminated_comes_of_watched_children_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
