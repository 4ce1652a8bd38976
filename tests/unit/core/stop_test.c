/*
 * stop_test.c - stopping, poison, kill, results (K1..K25, X1, X13..X16).
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "core/lifecycle.h"

/* ---- the order of an end ---- */

static void family_order(stage *s)
{
    enum { SAYS = PRE_STOP | POST_STOP };
    tr_ref p = PLAY(s, "p", (.says = SAYS));
    tr_ref c = CHILD(s, p, "c", (.says = SAYS));
    tr_ref g = CHILD(s, c, "g", (.says = SAYS));
    assert_int_equal(tr_started(s->sys, g, 0), TR_OK);
    mourn(s, p);
    tr_stop(s->sys, p);
    heard(s, "p pre_stop");  // X16: the last chance to talk to children
    heard(s, "c pre_stop");
    heard(s, "g pre_stop");
    heard(s, "g post_stop");
    heard(s, "c post_stop");
    assert_int_equal(heard(s, "p post_stop"), TR_STOPPED);
    assert_int_equal(ended(s, p), TR_STOPPED);
    quiet(s);
}

static void test_K1_K6_X1_X16_children_end_between_the_two_hooks(void **state)
{
    (void)state;
    everywhere(family_order);
}

/* Of many children some are gone already, some take their time. */
static void all_children_first(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_MINUTES(60));
    tr_ref gone = CHILD(s, p, "gone", ());
    (void)CHILD(s, p, "quick", ());
    tr_ref slow = CHILD(s, p, "slow", (), .stop_timeout = TR_MINUTES(60));
    tr_tell(s->sys, slow, Nap, .span = TR_MINUTES(20));
    tr_stop(s->sys, gone);
    (void)joined(s, gone);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_stop(s->sys, p);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    // K6: the parent answers while it waits: a look from a watcher does.
    mourn(s, p);
    assert_int_equal(tr_state_of(s->sys, p), TR_STATE_STOPPING);
    tr_expect_nothing(s->probe, TR_MINUTES(19));
    assert_int_equal(heard(s, "slow woke"), TR_OK);
    heard(s, "p post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_K5_K6_K8_the_last_child_ends_the_wait(void **state)
{
    (void)state;
    virtually(all_children_first);
}

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

/* A child that would sleep for hours is forced when its time is over. */
static void deadline_forces(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_SECONDS(10));
    tr_ref c =
        CHILD(s, p, "c", (.says = POST_STOP), .stop_timeout = TR_MINUTES(600));
    tr_tell(s->sys, c, Nap, .span = TR_MINUTES(600));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    mourn(s, c);
    mourn(s, p);
    tr_nanos start = tr_sim_now(s->sim);
    tr_stop(s->sys, p);
    tr_expect_nothing(s->probe, TR_SECONDS(9));
    // The parent goes on at once; the child unwinds beside it.
    for (int i = 0; i < 3; i++) {
        const Note *n = tr_expect(s->probe, TR_SECONDS(3), Note);
        if (strcmp(n->text, "c woke") == 0) {
            assert_int_equal(n->number, TR_EKILLED);
        } else if (strcmp(n->text, "c post_stop") == 0) {
            assert_int_equal(n->number, TR_FORCED);
        } else {
            assert_string_equal(n->text, "p post_stop");
            assert_int_equal(n->number, TR_STOPPED);
        }
    }
    for (int i = 0; i < 2; i++) {
        const tr_terminated *t = tr_expect(s->deaths, 0, tr_terminated);
        assert_int_equal(t->reason,
                         tr_ref_eq(t->actor, c) ? TR_FORCED : TR_STOPPED);
    }
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(12));
}

static void test_K7_K10_X15_children_are_forced_at_the_deadline(void **state)
{
    (void)state;
    virtually(deadline_forces);
}

static void own_deadline(stage *s)
{
    // Rule 3: after the default of 5 s the waits of the turn end.
    tr_ref a = PLAY(s, "a", (.says = PRE_STOP));
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(600));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_nanos start = tr_sim_now(s->sim);
    mourn(s, a);
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

/* ---- watchers see a world without it ---- */

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

/* What is true at the moment before anybody is told of an end. */
static struct {
    const tri_up *up;  // the system's own
    stage *s;
    tr_ref whom;
    bool unnamed, untold;
} moment;

static void look_at_end(tri_worker *worker, tri_cell *cell)
{
    stage *s = moment.s;
    if (cell == tri_ref_cell(moment.whom)) {
        moment.unnamed =
            tr_ref_err(tr_lookup(s->sys, "/user/king")) == TR_ENOENT &&
            tr_state_of(s->sys, moment.whom) == TR_STATE_TERMINATED;
        tri_cell *deaths = tri_ref_cell(tr_probe_ref(s->deaths));
        // Relaxed: one thread does it all.
        moment.untold =
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
    mourn(s, king);
    tr_stop(s->sys, king);
    assert_int_equal(ended(s, king), TR_STOPPED);
    s->sys->up = moment.up;
    assert_true(moment.unnamed);
    assert_true(moment.untold);
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

/* ---- only that one ---- */

static void siblings_stay(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = PLAY(s, "b", ());
    tr_stop(s->sys, a);
    (void)joined(s, a);
    (void)gotten(s, b);
    // X40, GD13: guardians are not for everybody to stop.
    tr_stop(s->sys, tr_lookup(s->sys, "/user"));
    tr_stop(s->sys, tr_lookup(s->sys, "/"));
    tr_kill(s->sys, tr_lookup(s->sys, "/system"));
    static const char *const guardians[] = {"/", "/user", "/system", "/temp",
                                            "/deadLetters"};
    tr_probe_subscribe(s->probe, tr_dead_letter);
    for (size_t i = 0; i < sizeof(guardians) / sizeof(guardians[0]); i++) {
        tr_ref ref = tr_lookup(s->sys, guardians[i]);
        tr_poison(s->sys, ref);
        tr_tell(s->sys, ref, Strange);  // what came before is handled then
        (void)tr_expect(s->probe, patience(s), tr_dead_letter);
        assert_int_equal(tr_state_of(s->sys, ref), TR_STATE_RUNNING);
    }
    (void)gotten(s, b);
    assert_int_equal(tr_ref_err(PLAY(s, "c", ())), TR_OK);
}

static void test_K14_S8_X40_GD13_only_that_child_stops(void **state)
{
    (void)state;
    everywhere(siblings_stay);
}

/* ---- between two messages ---- */

static tr_err stops_itself(tr_ctx *ctx, Player *self, const Say *m)
{
    note(ctx, self, m->text, m->number, TR_NOBODY);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(brief, Player, TR_ON(Say, stops_itself));

static void after_each_message(stage *s)
{
    uint64_t before, after;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    before = m.dead_letters;
    tr_ref a =
        tr_spawn(s->sys, brief, .name = "a", TR_INIT(brief, .probe = s->to));
    mourn(s, a);
    for (int i = 0; i < 10; i++) {
        tr_tell(s->sys, a, Say, .text = "one", .number = i);
    }
    assert_int_equal(heard(s, "a one"), 0);
    (void)ended(s, a);
    quiet(s);  // the other nine were there, and were not handled
    tr_metrics(s->sys, &m);
    after = m.dead_letters;
    assert_int_equal(after - before, 9);
}

static void test_X26_K3_system_mail_is_seen_after_each_message(void **state)
{
    (void)state;
    everywhere(after_each_message);
}

/* ---- poison ---- */

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
    // "three" was before or after the end of the queue.
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

static void test_K15_X13_poison_works_after_the_queue(void **state)
{
    (void)state;
    everywhere(poison_comes_last);
}

/* ---- kill ---- */

static void kill_is_at_once(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", (.says = ALL_HOOKS & ~(PRE_START | POST_START)));
    tr_ref c = CHILD(s, a, "c", (.says = PRE_STOP | POST_STOP));
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    tr_tell(s->sys, a, Nap, .span = TR_MINUTES(60));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_tell(s->sys, a, Say, .text = "ignored");
    mourn(s, a);
    tr_nanos start = tr_sim_now(s->sim);
    tr_kill(s->sys, a);
    assert_int_equal(heard(s, "a woke"), TR_EKILLED);
    const tr_dead_letter *nap = tr_expect(s->probe, 0, tr_dead_letter);
    assert_string_equal(nap->type, "Nap");  // cut short: not handled
    assert_int_equal(heard(s, "c post_stop"), TR_KILLED);
    assert_int_equal(heard(s, "a post_stop"), TR_KILLED);
    const tr_dead_letter *dead = tr_expect(s->probe, 0, tr_dead_letter);
    assert_string_equal(dead->type, "Say");
    assert_int_equal(ended(s, a), TR_KILLED);
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(1));
    quiet(s);
}

static void test_K16_X14_kill_skips_queue_and_pre_stop_and_takes_children(
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
    mourn(s, a);
    tr_kill(s->sys, a);
    assert_int_equal(heard(s, "c woke"), TR_EKILLED);
    assert_int_equal(heard(s, "a post_stop"), TR_KILLED);
    assert_int_equal(ended(s, a), TR_KILLED);
}

static void test_X14_kill_hurries_a_stop_that_has_begun(void **state)
{
    (void)state;
    virtually(kill_while_stopping);
}

static void killed_failures(stage *s)
{
    // Waiting for its restart.
    tr_ref a = PLAY(s, "a", (.says = PRE_START | POST_RESTART),
                    .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(9),
                                                .backoff_max = TR_SECONDS(9)));
    heard(s, "a pre_start");
    tr_tell(s->sys, a, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    mourn(s, a);
    tr_kill(s->sys, a);
    assert_int_equal(ended(s, a), TR_KILLED);
    quiet(s);
}

static void test_X14_the_killed_are_not_restarted(void **state)
{
    (void)state;
    virtually(killed_failures);
}

/* ---- results ---- */

static void results(stage *s)
{
    tr_result r;
    Player end;
    tr_ref a = PLAY(s, "a", (.count = 4), .joinable = true);
    tr_tell(s->sys, a, Add, .number = 3);
    tr_poison(s->sys, a);
    assert_int_equal(tr_join(s->sys, a, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_STOPPED);  // K17: completed, not killed
    assert_int_equal(r.err, TR_OK);
    assert_string_equal(r.text, "");
    assert_int_equal(end.count, 7);  // K21

    tr_ref b = PLAY(s, "b", (.count = 5), .joinable = true);
    tr_kill(s->sys, b);
    memset(&end, 0, sizeof(end));
    assert_int_equal(tr_join(s->sys, b, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_KILLED);

    tr_ref c = PLAY(s, "c", (.count = 6), .joinable = true,
                    .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    mourn(s, c);
    tr_tell(s->sys, c, Fail, .err = TR_EUSER + 5);
    assert_int_equal(ended(s, c), TR_FAILED);
    // After its end: the result was kept, and is handed out once.
    assert_int_equal(tr_join(s->sys, c, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_FAILED);  // K18
    assert_int_equal(r.err, TR_EUSER + 5);
    assert_int_equal(r.phase, TR_IN_HANDLER);
    assert_string_equal(r.text, "told to fail");
    assert_int_equal(end.count, 6);
    assert_int_equal(tr_join(s->sys, c, patience(s), &r, &end), TR_ENOENT);

    tr_ref d = PLAY(s, "d", (.count = 6, .fails = PRE_START), .joinable = true);
    end.count = -1;
    assert_int_equal(tr_join(s->sys, d, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.phase, TR_IN_START);  // K19
    assert_int_equal(end.count, 0);          // K21: there is none
}

static void test_K17_K18_K19_K20_K21_SP18_X35_join_the_result(void **state)
{
    (void)state;
    everywhere(results);
}

static void joins_that_fail(stage *s)
{
    tr_result r;
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_join(s->sys, a, TR_MS(1), &r, NULL), TR_ETIMEDOUT);
    assert_int_equal(tr_join(s->sys, TR_NOBODY, 0, &r, NULL), TR_ENOENT);
    tr_stop(s->sys, a);
    tr_err err = tr_join(s->sys, a, patience(s), &r, NULL);
    assert_true(err == TR_OK || err == TR_ENOENT);
    assert_int_equal(tr_join(s->sys, a, 0, &r, NULL), TR_ENOENT);
}

static void test_K20_what_cannot_be_joined(void **state)
{
    (void)state;
    everywhere(joins_that_fail);
}

typedef struct Joiner {
    tr_ref probe;
    tr_ref whom;
} Joiner;

static tr_err joiner_joins(tr_ctx *ctx, Joiner *self, const Say *m)
{
    (void)m;
    tr_result r = {0};
    Player end = {0};
    tr_err err = tr_join(ctx, self->whom, TR_FOREVER, &r, &end);
    tr_tell(ctx, self->probe, Note, .text = "joined", .number = err);
    tr_tell(ctx, self->probe, Note, .text = "reason", .number = r.reason);
    tr_tell(ctx, self->probe, Note, .text = "count", .number = end.count);
    err = tr_join(ctx, tr_self(ctx), 0, NULL, NULL);
    tr_tell(ctx, self->probe, Note, .text = "self", .number = err);
    err = tr_join(ctx, tr_parent(ctx), 0, NULL, NULL);
    tr_tell(ctx, self->probe, Note, .text = "parent", .number = err);
    return TR_OK;
}

TR_ACTOR(joiner, Joiner, TR_ON(Say, joiner_joins));

static void join_from_inside(stage *s)
{
    tr_ref a = PLAY(s, "a", (.count = 11), .joinable = true);
    tr_ref j =
        tr_spawn(s->sys, joiner, TR_INIT(joiner, .probe = s->to, .whom = a));
    tr_tell(s->sys, j, Say, .text = "");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "joined"), TR_OK);
    assert_int_equal(heard(s, "reason"), TR_STOPPED);
    assert_int_equal(heard(s, "count"), 11);
    assert_int_equal(heard(s, "self"), TR_EDEADLOCK);  // rule 20
    assert_int_equal(heard(s, "parent"), TR_EDEADLOCK);
}

static void test_K20_an_actor_joins_another(void **state)
{
    (void)state;
    everywhere(join_from_inside);
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

/* ---- cost and memory ---- */

static uint64_t steps_to_stop(uint32_t children)
{
    static stage s;
    stage_open(&s, 3, NULL);
    tr_ref p = PLAY(&s, "p", ());
    tr_ref last = TR_NOBODY;
    for (uint32_t i = 0; i < children; i++) {
        last = CHILD(&s, p, NULL, ());
    }
    assert_int_equal(tr_started(s.sys, last, 0), TR_OK);
    uint64_t before = tr_sim_steps(s.sim);
    tr_stop(s.sys, p);
    (void)joined(&s, p);
    uint64_t steps = tr_sim_steps(s.sim) - before;
    stage_close(&s);
    return steps;
}

static void test_K12_the_end_of_a_family_takes_steps_by_its_size(void **state)
{
    (void)state;
    uint64_t small = steps_to_stop(100);
    uint64_t large = steps_to_stop(400);
    assert_true(large < 5 * small);
    assert_true(large > 400);  // each takes part
}

static void memory_comes_back(stage *s)
{
    tr_metrics_snapshot before = {.size = sizeof(before)};
    tr_metrics_snapshot after = before;
    tr_metrics(s->sys, &before);
    tr_ref p = PLAY(s, "p", ());
    tr_ref q = PLAY(s, "q", ());
    tr_tell(s->sys, p, Watch, .ref = q);  // K25: a cycle of watches
    tr_tell(s->sys, q, Watch, .ref = p);
    tr_ref c = CHILD(s, p, "c", ());
    tr_tell(s->sys, c, Watch, .ref = p);
    (void)gotten(s, c);
    tr_stop(s->sys, p);
    (void)joined(s, p);
    tr_stop(s->sys, q);
    (void)joined(s, q);
    do {
        tr_metrics(s->sys, &after);
    } while (s->sim == NULL && (after.actors != before.actors ||
                                after.ended != before.ended + 3));
    assert_int_equal(after.actors, before.actors);
    assert_int_equal(after.spawned - before.spawned, 3);
    assert_int_equal(after.ended - before.ended, 3);
}

static void test_K24_K25_RG3_TE11_nothing_stays_of_the_dead(void **state)
{
    (void)state;
    everywhere(memory_comes_back);
}

/* ---- ending while the failure is on its way ---- */

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

static void test_X21_X22_a_failed_child_ends_when_its_parent_knows(void **state)
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
        mourn(&s, c);
        tr_tell(s.sys, p, Say, .text = "holds");
        heard(&s, "p holds");
        tr_tell(s.sys, c, Fail);
        while (tr_state_of(s.sys, c) != TR_STATE_FAILED) {
        }
        tr_stop(s.sys, c);
        // Others fail and end in the meantime, perhaps in its memory.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_K1_K6_X1_X16_children_end_between_the_two_hooks),
        cmocka_unit_test(test_K5_K6_K8_the_last_child_ends_the_wait),
        cmocka_unit_test(
            test_K1_K2_K3_X13_stop_completes_the_message_not_the_queue),
        cmocka_unit_test(test_K7_K10_X15_children_are_forced_at_the_deadline),
        cmocka_unit_test(test_X17_an_actor_has_five_seconds_to_stop),
        cmocka_unit_test(test_K9_X1_X2_RG6_a_watcher_may_take_over_the_name),
        cmocka_unit_test(test_K9_X1_X2_the_name_is_free_before_watchers_know),
        cmocka_unit_test(
            test_X1_DW12_EV1_the_name_is_free_when_the_end_is_published),
        cmocka_unit_test(test_K14_S8_X40_GD13_only_that_child_stops),
        cmocka_unit_test(test_X26_K3_system_mail_is_seen_after_each_message),
        cmocka_unit_test(test_K15_X13_poison_works_after_the_queue),
        cmocka_unit_test(
            test_K16_X14_kill_skips_queue_and_pre_stop_and_takes_children),
        cmocka_unit_test(test_X14_kill_hurries_a_stop_that_has_begun),
        cmocka_unit_test(test_X14_the_killed_are_not_restarted),
        cmocka_unit_test(test_K17_K18_K19_K20_K21_SP18_X35_join_the_result),
        cmocka_unit_test(test_K20_what_cannot_be_joined),
        cmocka_unit_test(test_K20_an_actor_joins_another),
        cmocka_unit_test(test_K22_X38_post_stop_runs_in_every_end),
        cmocka_unit_test(test_K12_the_end_of_a_family_takes_steps_by_its_size),
        cmocka_unit_test(test_K24_K25_RG3_TE11_nothing_stays_of_the_dead),
        cmocka_unit_test(
            test_X21_X22_a_failed_child_ends_when_its_parent_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
