/*
 * shutdown_test.c - the end of a system (SH1..SH14, X17, X18, SP23, RG4, RG5).
 * Covers TE8 and TE9.
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "support/core.h"

/* What happened, in order; read when the system is closed. */
typedef struct record {
    _Atomic(int) next;
    int ended_user, hooked, ended_system, late;
} record;

static record happened;

static int tick(void)
{
    // Relaxed: the end of the system orders it before the look.
    return atomic_fetch_add_explicit(&happened.next, 1, memory_order_relaxed) +
           1;
}

typedef struct Hooked {
    bool silent;  // does not answer the hook
    bool ends;    // ... but ends
} Hooked;

static tr_err hooked_start(tr_ctx *ctx, Hooked *self)
{
    (void)self;
    TR_TRY(tr_on_terminate(ctx));
    return tr_on_terminate(ctx);  // again: as once
}

static tr_err hooked_end(tr_ctx *ctx, Hooked *self,
                         const tr_termination_hook *m)
{
    (void)m;
    happened.hooked = tick();
    if (self->ends) {
        tr_stop(ctx, tr_self(ctx));
    } else if (!self->silent) {
        tr_termination_done(ctx);
    }
    return tr_on_terminate(ctx) == TR_ECLOSED ? TR_OK : TR_EUSER;
}

static tr_err hooked_post_stop(tr_ctx *ctx, Hooked *self, tr_reason reason)
{
    (void)ctx;
    (void)self;
    (void)reason;
    happened.ended_system = tick();
    return TR_OK;
}

TR_ACTOR(hooked, Hooked, TR_HOOK(pre_start, hooked_start),
         TR_HOOK(post_stop, hooked_post_stop),
         TR_ON(tr_termination_hook, hooked_end));

static tr_ref spawn_hooked(stage *s, bool silent)
{
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tr_ref ref = tri_spawn_under(
        &who, s->sys->system, &hooked,
        TR_OPTIONS(tr_spawn_options, TR_INIT(hooked, .silent = silent)), 0);
    tri_leave(&who);
    assert_int_equal(tr_started(s->sys, ref, 0), TR_OK);
    return ref;
}

typedef struct Last {
    int unused;
} Last;

static tr_err last_post_stop(tr_ctx *ctx, Last *self, tr_reason reason)
{
    (void)ctx;
    (void)self;
    (void)reason;
    happened.ended_user = tick();
    return TR_OK;
}

TR_ACTOR(last, Last, TR_HOOK(post_stop, last_post_stop));

/* Opens, lets `prepare` do something, closes; once for each world. */
static void closed_everywhere(void (*prepare)(stage *s),
                              void (*check)(stage *s, tr_err err,
                                            const tr_close_report *report,
                                            tr_nanos took))
{
    static stage s;
    for (uint64_t seed = 0; seed <= STAGE_SEEDS; seed++) {
        memset(&happened, 0, sizeof(happened));
        stage_open(&s, seed, NULL);
        prepare(&s);
        tr_probe_free(s.probe);
        tr_probe_free(s.deaths);
        tr_close_report report = {.size = sizeof(report)};
        tr_nanos start = seed != 0 ? tr_sim_now(s.sim) : 0;
        tr_err err = tr_system_close_report(s.sys, 0, &report);
        check(&s, err, &report, seed != 0 ? tr_sim_now(s.sim) - start : 0);
        tr_sim_free(s.sim);
    }
}

/* ---- the sequence ---- */

static void three_parts(stage *s)
{
    assert_int_equal(tr_started(s->sys, tr_spawn(s->sys, last), 0), TR_OK);
    (void)spawn_hooked(s, false);
}

static void in_order(stage *s, tr_err err, const tr_close_report *report,
                     tr_nanos took)
{
    (void)s;
    assert_int_equal(err, TR_OK);
    assert_int_equal(happened.ended_user, 1);
    assert_int_equal(happened.hooked, 2);
    assert_int_equal(happened.ended_system, 3);
    assert_int_equal(report->stopped, 2);
    assert_int_equal(report->forced, 0);
    assert_int_equal(report->zombies, 0);
    assert_true(took < TR_SECONDS(1));
}

static void test_S9_SH1_SH2_SH3_SH4_SH8_SH13_X18_GD14_the_order_of_the_end(
    void **state)
{
    (void)state;
    closed_everywhere(three_parts, in_order);
}

static void silent_hook(stage *s)
{
    if (s->sim == NULL) {
        return;  // five real seconds
    }
    (void)spawn_hooked(s, true);
}

static void goes_on(stage *s, tr_err err, const tr_close_report *report,
                    tr_nanos took)
{
    (void)report;
    assert_int_equal(err, TR_OK);
    if (s->sim != NULL) {
        assert_true(stage_logged(s, "did not answer the termination hook"));
        assert_true(took >= TR_SECONDS(5) && took < TR_SECONDS(6));
        assert_int_equal(happened.ended_system, 2);
    }
}

static void test_SH5_SH6_X17_a_silent_hook_has_five_seconds(void **state)
{
    (void)state;
    closed_everywhere(silent_hook, goes_on);
}

static void early_hook(stage *s)
{
    // One ends before, one when it is told.
    tr_ref early = spawn_hooked(s, true);
    tr_stop(s->sys, early);
    (void)joined(s, early);
    tr_ref user = tr_spawn(s->sys, hooked, TR_INIT(hooked, .ends = true));
    assert_int_equal(tr_started(s->sys, user, 0), TR_OK);
}

static void did_not_wait(stage *s, tr_err err, const tr_close_report *report,
                         tr_nanos took)
{
    (void)report;
    assert_int_equal(err, TR_OK);
    assert_int_equal(happened.hooked, 2);  // the one that was told
    assert_true(took < TR_SECONDS(1));
    assert_false(stage_logged(s, "termination hook"));
}

static void test_SH7_a_hook_that_has_ended_is_done(void **state)
{
    (void)state;
    closed_everywhere(early_hook, did_not_wait);
}

/* ---- those who do not stop ---- */

TR_MESSAGE(Stay);

typedef struct Stubborn {
    int unused;
} Stubborn;

static tr_err stubborn_stays(tr_ctx *ctx, Stubborn *self, const Stay *m)
{
    (void)self;
    (void)m;
    happened.late = tr_sleep(ctx, TR_MINUTES(600));
    return TR_OK;
}

TR_ACTOR(stubborn, Stubborn, TR_ON(Stay, stubborn_stays));

static void never_stops(stage *s)
{
    if (s->sim == NULL) {
        return;
    }
    tr_ref a = tr_spawn(s->sys, stubborn, .name = "rock",
                        .stop_timeout = TR_MINUTES(600));
    tr_tell(s->sys, a, Stay);
    (void)tr_spawn(s->sys, last);
    tr_sim_advance(s->sim, TR_SECONDS(1));
}

static void is_forced(stage *s, tr_err err, const tr_close_report *report,
                      tr_nanos took)
{
    if (s->sim == NULL) {
        assert_int_equal(err, TR_OK);
        return;
    }
    assert_int_equal(err, TR_ETIMEDOUT);
    assert_int_equal(report->forced, 1);
    assert_int_equal(report->stopped, 1);
    assert_int_equal(report->zombies, 0);
    // Half of the 30 s; then its waits end with TR_ECLOSED (rule 7).
    assert_true(took >= TR_SECONDS(15) && took < TR_SECONDS(16));
    assert_int_equal(happened.late, TR_ECLOSED);
    assert_true(stage_logged(s, "/user/rock did not stop in time: "
                                "state STOPPING"));
}

static void test_SH11_SH12_SH13_X17_RG4_RG5_the_late_are_named_and_forced(
    void **state)
{
    (void)state;
    closed_everywhere(never_stops, is_forced);
}

/* ---- again and again ---- */

static void terminate_it(void *arg)
{
    for (int i = 0; i < 10; i++) {
        tr_system_terminate(arg);
    }
}

static void often_terminated(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    watch_end(s, a);
    tr_thread *threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            tr_thread_start(s->sys, &threads[i], terminate_it, s->sys), TR_OK);
    }
    (void)ended(s, a);
    for (int i = 0; i < 3; i++) {
        tr_thread_join(s->sys, threads[i]);
    }
    tr_system_terminate(s->sys);
    // SP23: nobody is born any more.
    tr_ref late = PLAY(s, "late", ());
    assert_int_equal(tr_ref_err(late), TR_ECLOSED);
    assert_int_equal(tr_dispatcher_add(s->sys, "late"), TR_ECLOSED);
    tr_tell(s->sys, late, Strange);
}

static void test_SH9_SP23_terminate_again_and_at_once(void **state)
{
    (void)state;
    everywhere(often_terminated);
}

typedef struct Ender {
    int unused;
} Ender;

static tr_err ender_ends(tr_ctx *ctx, Ender *self, const Stay *m)
{
    (void)self;
    (void)m;
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}

TR_ACTOR(ender, Ender, TR_ON(Stay, ender_ends));

static void test_SH10_C12_run_returns_when_an_actor_ends_the_system(
    void **state)
{
    (void)state;
    static stage s;
    stage_open(&s, 0, NULL);
    tr_tell(s.sys, tr_spawn(s.sys, ender, .name = "main"), Stay);
    assert_int_equal(tr_system_run(s.sys), TR_OK);
    stage_close(&s);
}

/* ---- children of those who end ---- */

typedef struct Parent {
    tr_ref probe;
} Parent;

static tr_err parent_pre_stop(tr_ctx *ctx, Parent *self)
{
    tr_ref ref =
        tr_spawn(ctx, player, .name = "last",
                 TR_INIT(player, .probe = self->probe, .says = POST_STOP));
    tr_tell(ctx, self->probe, Note, .text = "pre", .number = tr_ref_err(ref));
    // So that it has started before it is stopped.
    return tr_started(ctx, ref, 0);
}

static tr_err parent_post_stop(tr_ctx *ctx, Parent *self, tr_reason reason)
{
    tr_ref ref = tr_spawn(ctx, player, TR_INIT(player, .probe = self->probe));
    tr_tell(ctx, self->probe, Note, .text = "post", .number = tr_ref_err(ref));
    (void)reason;
    return TR_OK;
}

static tr_err parent_fails(tr_ctx *ctx, Parent *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(parent, Parent, TR_HOOK(pre_stop, parent_pre_stop),
         TR_HOOK(post_stop, parent_post_stop), TR_ON(Fail, parent_fails));
TR_ACTOR(childless, Parent, TR_HOOK(post_stop, parent_post_stop),
         TR_ON(Fail, parent_fails));

static void born_at_the_end(stage *s)
{
    tr_ref p = tr_spawn(s->sys, parent, TR_INIT(parent, .probe = s->to));
    assert_int_equal(tr_started(s->sys, p, 0), TR_OK);
    tr_stop(s->sys, p);
    assert_int_equal(heard(s, "pre"), TR_OK);
    heard(s, "last post_stop");  // stopped with the others
    assert_int_equal(heard(s, "post"), TR_ESTOPPED);
    // One that never had a child, at its end and in a restart.
    tr_ref d = tr_spawn(s->sys, childless, TR_INIT(childless, .probe = s->to));
    while (tr_state_of(s->sys, d) != TR_STATE_RUNNING) {
        if (s->sim != NULL) {  // a look only: a wait would leave traces
            tr_sim_advance(s->sim, TR_MS(1));
        }
    }
    tr_stop(s->sys, d);
    assert_int_equal(heard(s, "post"), TR_ESTOPPED);
    tr_ref c = tr_spawn(s->sys, childless, TR_INIT(childless, .probe = s->to));
    tr_tell(s->sys, c, Fail);
    assert_int_equal(heard(s, "post"), TR_ESTOPPED);
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);  // again
    tr_stop(s->sys, c);
    assert_int_equal(heard(s, "post"), TR_ESTOPPED);
}

static void test_SP23_rule_24_no_child_is_born_after_pre_stop(void **state)
{
    (void)state;
    everywhere(born_at_the_end);
}

/* ---- what is heard of it ---- */

static void count_ends(void *user, const tr_type *type, const void *event)
{
    const tr_lifecycle *e = event;
    (void)type;
    if (e->state == TR_STATE_STOPPED && strncmp(e->name, "/user/", 6) == 0) {
        // Relaxed: the end of the system orders it before the look.
        atomic_fetch_add_explicit((_Atomic(int) *)user, 1,
                                  memory_order_relaxed);
    }
}

static void with_listeners(stage *s)
{
    assert_int_equal(
        tr_on_event(s->sys, tr_lifecycle, count_ends, &happened.next), TR_OK);
    for (int i = 0; i < 20; i++) {
        (void)PLAY(s, NULL, ());
    }
}

static void heard_all(stage *s, tr_err err, const tr_close_report *report,
                      tr_nanos took)
{
    (void)s;
    (void)took;
    assert_int_equal(err, TR_OK);
    // Relaxed: the system is gone.
    assert_int_equal(atomic_load_explicit(&happened.next, memory_order_relaxed),
                     20);
    assert_int_equal(report->stopped, 20);
}

static void test_SH6_SH14_EV5_callbacks_get_the_last_events(void **state)
{
    (void)state;
    closed_everywhere(with_listeners, heard_all);
}

static void note_closed(void *arg)
{
    *(int *)arg = tick();
}

static void test_SH8_what_belongs_to_the_system_ends_after_it(void **state)
{
    (void)state;
    int first = 0, second = 0;
    tr_system *sys;

    assert_int_equal(tr_system_open(&sys), TR_OK);
    assert_non_null(tr_system_world(sys));
    assert_int_equal(tr_system_on_closed(sys, note_closed, &first), TR_OK);
    assert_int_equal(tr_system_on_closed(sys, note_closed, &second), TR_OK);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    assert_true(second > 0);
    assert_int_equal(first, second + 1);
}

/* ---- all the time there is ---- */

TR_MESSAGE(Begin);

static tr_err slept;

static tr_err slow_begins(tr_ctx *ctx, void *self, const Begin *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

static tr_err slow_post_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    slept = tr_sleep(ctx, TR_SECONDS(1));
    return TR_OK;
}

TR_ACTOR(slow, void, TR_ON(Begin, slow_begins),
         TR_HOOK(post_stop, slow_post_stop));

static void close_slow(tr_nanos timeout, tr_nanos by_default)
{
    tr_sim *sim;
    tr_system *sys;

    slept = TR_EUSER;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .close_timeout = by_default),
                     TR_OK);
    assert_int_equal(tr_host(sys, slow), TR_OK);
    tr_tell_virtual(sys, "slow", "a", Begin);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_system_close(sys, timeout), TR_OK);
    assert_int_equal(slept, TR_OK);
    tr_sim_free(sim);
}

static void test_SH11_SH12_a_close_without_a_limit_forces_nobody(void **state)
{
    (void)state;
    close_slow(TR_FOREVER, 0);
    close_slow(0, TR_FOREVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_S9_SH1_SH2_SH3_SH4_SH8_SH13_X18_GD14_the_order_of_the_end),
        cmocka_unit_test(test_SH5_SH6_X17_a_silent_hook_has_five_seconds),
        cmocka_unit_test(test_SH7_a_hook_that_has_ended_is_done),
        cmocka_unit_test(
            test_SH11_SH12_SH13_X17_RG4_RG5_the_late_are_named_and_forced),
        cmocka_unit_test(test_SH9_SP23_terminate_again_and_at_once),
        cmocka_unit_test(
            test_SH10_C12_run_returns_when_an_actor_ends_the_system),
        cmocka_unit_test(test_SP23_rule_24_no_child_is_born_after_pre_stop),
        cmocka_unit_test(test_SH6_SH14_EV5_callbacks_get_the_last_events),
        cmocka_unit_test(test_SH8_what_belongs_to_the_system_ends_after_it),
        cmocka_unit_test(test_SH11_SH12_a_close_without_a_limit_forces_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
