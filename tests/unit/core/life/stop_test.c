/*
 * stop_test.c - stop, poison and kill: what is still handled, how long it may
 * take, what others see of the end.
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "support/core.h"

/* ---- stop ---- */

static void message_is_completed(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP | POST_STOP),
                    .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(1));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_tell(s->sys, a, Say, .text = "queued");
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_tell(s->sys, a, Say, .text = "late");
    const tr_dead_letter *dead = tr_expect(s->probe, 0, tr_dead_letter);
    assert_int_equal(dead->reason, TR_DEAD_STOPPING);
    assert_int_equal(heard(s, "a woke"), TR_OK);
    heard(s, "a pre_stop");
    heard(s, "a post_stop");
    dead = tr_expect(s->probe, 0, tr_dead_letter);
    assert_int_equal(dead->reason, TR_DEAD_DRAINED);
    assert_string_equal(dead->type, "Say");
    quiet(s);
}

static void test_K1_K2_K3_X13_stop_completes_the_message_not_the_queue(
    void **state)
{
    (void)state;
    virtually(message_is_completed);
}

static void own_deadline(stage *s)
{
    // The default stop timeout ends the waits of the turn.
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP));
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(600));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_nanos start = tr_sim_now(s->sim);
    watch_end(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "a woke"), TR_ESTOPPED);
    tr_nanos took = tr_sim_now(s->sim) - start;
    assert_true(took >= TR_SECONDS(5) && took < TR_SECONDS(6));
    heard(s, "a pre_stop");
    assert_int_equal(ended(s, a), TR_STOPPED);
}

static void test_X17_an_actor_has_five_seconds_to_stop(void **state)
{
    (void)state;
    virtually(own_deadline);
}

static tr_err end_myself(tr_ctx *ctx, Player *self, const Say *m)
{
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    note(ctx, self, "goes on", tr_stopping(ctx), TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(mortal, Player, TR_ON(Say, end_myself),
         TR_HOOK(post_stop, player_post_stop));

static void ways_to_end(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    watch_end(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(ended(s, a), TR_STOPPED);

    tr_ref b =
        PLAY(s, "b", (), .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    watch_end(s, b);
    tr_tell(s->sys, b, Fail);
    assert_int_equal(ended(s, b), TR_FAILED);

    tr_ref c = PLAY(s, "c", ());
    tr_ref child = CHILD(s, c, "child", ());
    watch_end(s, child);
    tr_stop(s->sys, c);
    assert_int_equal(ended(s, child), TR_STOPPED);

    tr_ref d =
        tr_spawn(s->sys, mortal, .name = "d", TR_INIT(mortal, .probe = s->to));
    watch_end(s, d);
    tr_tell(s->sys, d, Say, .text = "");
    assert_int_equal(heard(s, "d goes on"), true);
    assert_int_equal(ended(s, d), TR_STOPPED);

    tr_ref e = PLAY(s, "e", ());
    watch_end(s, e);
    tr_system_terminate(s->sys);
    assert_int_equal(ended(s, e), TR_STOPPED);
}

static void test_L24_the_five_ways_to_end(void **state)
{
    (void)state;
    everywhere(ways_to_end);
}

static void last_handle(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = POST_STOP), .auto_stop = true);
    watch_end(s, a);
    (void)tr_handle_hold(s->sys, a);
    tr_handle_drop(s->sys, a);
    tr_tell(s->sys, a, Say, .text = "still here");
    heard(s, "a still here");
    tr_tell(s->sys, a, Say, .text = "first");
    tr_handle_drop(s->sys, a);
    heard(s, "a first");  // mail that was sent before is handled
    assert_int_equal(heard(s, "a post_stop"), TR_STOPPED);
    assert_int_equal(ended(s, a), TR_STOPPED);
    // Without the option handles have no effect.
    tr_ref b = PLAY(s, "b", ());
    (void)tr_handle_hold(s->sys, b);
    tr_handle_drop(s->sys, b);
    tr_handle_drop(s->sys, b);
    (void)gotten(s, b);
    assert_int_equal(tr_state_of(s->sys, b), TR_STATE_RUNNING);
}

static void test_L25_K23_X37_dropping_the_last_handle_stops_the_actor(
    void **state)
{
    (void)state;
    everywhere(last_handle);
}

static void post_stop_always(stage *s)
{
    tr_ref a = PLAY(s, "a", (.says = POST_STOP));
    tr_ref b = PLAY(s, "b", (.says = POST_STOP));
    tr_ref c = PLAY(s, "c", (.says = POST_STOP));
    tr_ref d = PLAY(s, "d", (.says = POST_STOP),
                    .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    tr_ref all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tr_started(s->sys, all[i], 0), TR_OK);
    }
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "a post_stop"), TR_STOPPED);
    tr_poison(s->sys, b);
    assert_int_equal(heard(s, "b post_stop"), TR_STOPPED);
    tr_kill(s->sys, c);
    assert_int_equal(heard(s, "c post_stop"), TR_KILLED);
    tr_tell(s->sys, d, Panic);
    assert_int_equal(heard(s, "d post_stop"), TR_FAILED);
}

static void test_K22_X38_post_stop_runs_in_every_end(void **state)
{
    (void)state;
    everywhere(post_stop_always);
}

/* ---- poison and kill ---- */

static void poison_comes_last(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP | POST_STOP));
    tr_tell(s->sys, a, Say, .text = "one");
    tr_tell(s->sys, a, Say, .text = "two");
    tr_poison(s->sys, a);
    tr_tell(s->sys, a, Say, .text = "three");
    heard(s, "a one");
    heard(s, "a two");
    // "three" was refused by the mailbox or drained from it.
    bool refused = false;
    const char *left[] = {"a pre_stop", "a post_stop"};
    for (int i = 0; i < 3; i++) {
        const tr_msg *m = tr_expect_any(s->probe, patience(s));
        if (tr_msg_type(m)->schema == tr_dead_letter_tr_type.schema) {
            assert_false(refused);
            refused = true;
            continue;
        }
        const Note *n = tr_msg_payload(m);
        assert_string_equal(n->text, left[i - refused]);
    }
    assert_true(refused);
    tr_poison(s->sys, a);
    quiet(s);
}

static void test_K15_X13_poison_takes_effect_after_the_queue(void **state)
{
    (void)state;
    everywhere(poison_comes_last);
}

static void kill_is_at_once(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)));
    tr_ref c = CHILD(s, a, "c", (.says = PRE_STOP | POST_STOP));
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(60));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_tell(s->sys, a, Say, .text = "ignored");
    watch_end(s, a);
    tr_nanos start = tr_sim_now(s->sim);
    tr_kill(s->sys, a);
    assert_int_equal(heard(s, "a woke"), TR_EKILLED);
    const tr_dead_letter *nap = tr_expect(s->probe, 0, tr_dead_letter);
    assert_string_equal(nap->type, "Nap");  // its handler was interrupted
    assert_int_equal(heard(s, "c post_stop"), TR_KILLED);
    assert_int_equal(heard(s, "a post_stop"), TR_KILLED);
    const tr_dead_letter *dead = tr_expect(s->probe, 0, tr_dead_letter);
    assert_string_equal(dead->type, "Say");
    assert_int_equal(ended(s, a), TR_KILLED);
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    quiet(s);
}

static void test_K16_X14_kill_skips_queue_and_pre_stop_and_kills_children(
    void **state)
{
    (void)state;
    virtually(kill_is_at_once);
}

static void kill_while_stopping(stage *s)
{
    tr_ref a =
        PLAY(s, "a", (.says = POST_STOP), .stop_timeout = TR_MINUTES(60));
    tr_ref c = CHILD(s, a, "c", (), .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, c, Nap, .span = TR_MINUTES(60));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    watch_end(s, a);
    tr_kill(s->sys, a);
    assert_int_equal(heard(s, "c woke"), TR_EKILLED);
    assert_int_equal(heard(s, "a post_stop"), TR_KILLED);
    assert_int_equal(ended(s, a), TR_KILLED);
}

static void test_X14_a_kill_speeds_up_a_stop_that_has_begun(void **state)
{
    (void)state;
    virtually(kill_while_stopping);
}

static void killed_failures(stage *s)
{
    // The actor waits for its restart.
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_RESTART),
                    .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(9),
                                                .backoff_max = TR_SECONDS(9)));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    watch_end(s, a);
    tr_kill(s->sys, a);
    assert_int_equal(ended(s, a), TR_KILLED);
    quiet(s);
}

static void test_X14_a_killed_actor_is_not_restarted(void **state)
{
    (void)state;
    virtually(killed_failures);
}

/* ---- the name ---- */

typedef struct Heir {
    tr_ref probe;
    tr_ref old;
} Heir;

static tr_err heir_start(tr_ctx *ctx, Heir *self)
{
    tr_watch(ctx, self->old);
    return TR_OK;
}

static tr_err heir_inherits(tr_ctx *ctx, Heir *self, const tr_terminated *m)
{
    tr_system *sys = tr_system_of(ctx);
    tr_ref found = tr_lookup(ctx, "/user/king");
    tr_ref next = tr_spawn(sys, player, .name = "king",
                           TR_INIT(player, .probe = self->probe));
    bool free = found.cell == 0 && tr_ref_err(next) == TR_OK &&
                tr_state_of(ctx, m->actor) == TR_STATE_TERMINATED;
    tr_tell(ctx, self->probe, Note, .text = "heir", .number = free);
    return TR_OK;
}

TR_ACTOR(heir, Heir, TR_HOOK(pre_start, heir_start),
         TR_ON(tr_terminated, heir_inherits));

static void name_is_free(stage *s)
{
    tr_ref king = PLAY(s, "king", ());
    tr_ref h =
        tr_spawn(s->sys, heir, TR_INIT(heir, .probe = s->to, .old = king));
    assert_int_equal(tr_started(s->sys, h, 0), TR_OK);
    tr_stop(s->sys, king);
    assert_int_equal(heard(s, "heir"), true);
}

static void test_K9_X1_X2_RG6_a_watcher_may_take_over_the_name(void **state)
{
    (void)state;
    everywhere(name_is_free);
}

/* What look_at_end sees before anybody is notified of the end. */
static struct {
    const tri_up *up;  // the table of the system
    stage *s;
    tr_ref whom;
    bool name_free, no_notice;
} moment;

static void look_at_end(tri_worker *worker, tri_cell *cell)
{
    stage *s = moment.s;
    if (cell == tri_ref_cell(moment.whom)) {
        moment.name_free =
            tr_ref_err(tr_lookup(s->sys, "/user/king")) == TR_ENOENT &&
            tr_state_of(s->sys, moment.whom) == TR_STATE_TERMINATED;
        tri_cell *deaths = tri_ref_cell(tr_probe_ref(s->deaths));
        // Relaxed: one thread does it all.
        moment.no_notice =
            (atomic_load_explicit(&deaths->sys_mail, memory_order_relaxed) &
             ~TRI_SYS_BITS) == 0;
        moment.whom = TR_NOBODY;
    }
    moment.up->ended(worker, cell);
}

static void name_before_watchers(stage *s)
{
    tri_up up = *s->sys->up;
    moment.up = s->sys->up;
    moment.s = s;
    moment.whom = PLAY(s, "king", ());
    assert_int_equal(tr_started(s->sys, moment.whom, 0), TR_OK);
    up.ended = look_at_end;
    s->sys->up = &up;
    tr_ref king = moment.whom;
    watch_end(s, king);
    tr_stop(s->sys, king);
    assert_int_equal(ended(s, king), TR_STOPPED);
    s->sys->up = moment.up;
    assert_true(moment.name_free);
    assert_true(moment.no_notice);
}

static void test_K9_X1_X2_the_name_is_free_before_watchers_know(void **state)
{
    (void)state;
    virtually(name_before_watchers);
}

static void name_is_free_for_listeners(stage *s)
{
    tr_probe_subscribe(s->probe, tr_lifecycle);
    tr_ref a = PLAY(s, "a", ());
    tr_stop(s->sys, a);
    for (;;) {
        const tr_lifecycle *e = tr_expect(s->probe, patience(s), tr_lifecycle);
        if (tr_ref_eq(e->actor, a) && e->state == TR_STATE_STOPPED) {
            assert_string_equal(e->name, "/user/a");
            break;
        }
    }
    assert_int_equal(tr_ref_err(PLAY(s, "a", ())), TR_OK);
}

static void test_X1_DW12_EV1_the_name_is_free_when_the_end_is_published(
    void **state)
{
    (void)state;
    everywhere(name_is_free_for_listeners);
}

/* ---- a failure on its way ---- */

static _Atomic(bool) go_on;

static tr_err hold_the_thread(tr_ctx *ctx, Player *self, const Say *m)
{
    note(ctx, self, m->text, 0, TR_NOBODY);
    // Acquire: pairs with the test.
    while (!atomic_load_explicit(&go_on, memory_order_acquire)) {
    }
    return TR_OK;
}

TR_ACTOR(holder, Player, TR_ON(Say, hold_the_thread), TR_ON(Bear, on_bear));

static void test_X21_X22_a_failed_child_ends_after_its_parent_has_decided(
    void **state)
{
    (void)state;
    static stage s;
    stage_open(&s, 0, NULL);
    for (int round = 0; round < 20; round++) {
        // Release: pairs with the actor.
        atomic_store_explicit(&go_on, false, memory_order_release);
        tr_ref p = tr_spawn(s.sys, holder, .name = "p",
                            TR_INIT(holder, .probe = s.to));
        tr_ref c = CHILD(&s, p, "c", (.says = POST_STOP));
        assert_int_equal(tr_started(s.sys, c, 0), TR_OK);
        watch_end(&s, c);
        tr_tell(s.sys, p, Say, .text = "holds");
        heard(&s, "p holds");
        tr_tell(s.sys, c, Fail);
        while (tr_state_of(s.sys, c) != TR_STATE_FAILED) {
        }
        tr_stop(s.sys, c);
        // Other actors fail and end meanwhile, perhaps in cells beside it.
        for (int i = 0; i < 5; i++) {
            tr_ref x = PLAY(&s, "x", (),
                            .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
            tr_tell(s.sys, x, Fail);
            (void)joined(&s, x);
            while (tr_ref_err(tr_lookup(s.sys, "/user/x")) == TR_OK) {
            }
        }
        assert_int_equal(tr_state_of(s.sys, c), TR_STATE_FAILED);
        atomic_store_explicit(&go_on, true, memory_order_release);
        tr_reason reason = (tr_reason)heard(&s, "c post_stop");
        assert_int_equal(reason, TR_STOPPED);
        assert_int_equal(ended(&s, c), TR_STOPPED);
        tr_stop(s.sys, p);
        (void)joined(&s, p);
        while (tr_ref_err(tr_lookup(s.sys, "/user/p")) == TR_OK) {
        }
    }
    stage_close(&s);
}

/*
 * The time-outs of parents and child end at the same moment. The child still
 * has the time that rule 41 (force) gives it, and ends in order.
 */
static void time_outs_end_together(stage *s)
{
    tr_ref g = PLAY(s, "g", (.says = POST_STOP));
    tr_ref p = CHILD(s, g, "p", (.says = POST_STOP));
    tr_ref a = CHILD(s, p, "a", (.says = POST_STOP));
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, g);
    assert_true(heard(s, "a woke") != TR_OK);
    heard(s, "a post_stop");
    heard(s, "p post_stop");
    heard(s, "g post_stop");
    quiet(s);
    assert_false(stage_logged(s, "ended by force"));
}

static void test_rule_41_time_outs_that_end_together_leave_time(void **state)
{
    (void)state;
    virtually(time_outs_end_together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_K1_K2_K3_X13_stop_completes_the_message_not_the_queue),
        cmocka_unit_test(test_X17_an_actor_has_five_seconds_to_stop),
        cmocka_unit_test(test_L24_the_five_ways_to_end),
        cmocka_unit_test(
            test_L25_K23_X37_dropping_the_last_handle_stops_the_actor),
        cmocka_unit_test(test_K22_X38_post_stop_runs_in_every_end),
        cmocka_unit_test(test_K15_X13_poison_takes_effect_after_the_queue),
        cmocka_unit_test(
            test_K16_X14_kill_skips_queue_and_pre_stop_and_kills_children),
        cmocka_unit_test(test_X14_a_kill_speeds_up_a_stop_that_has_begun),
        cmocka_unit_test(test_X14_a_killed_actor_is_not_restarted),
        cmocka_unit_test(test_K9_X1_X2_RG6_a_watcher_may_take_over_the_name),
        cmocka_unit_test(test_K9_X1_X2_the_name_is_free_before_watchers_know),
        cmocka_unit_test(
            test_X1_DW12_EV1_the_name_is_free_when_the_end_is_published),
        cmocka_unit_test(
            test_X21_X22_a_failed_child_ends_after_its_parent_has_decided),
        cmocka_unit_test(test_rule_41_time_outs_that_end_together_leave_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
