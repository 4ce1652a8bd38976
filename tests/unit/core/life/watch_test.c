/*
 * watch_test.c - death watch: each watch ends in exactly one notice. Covers
 * TE7.
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "unit/core/watching.h"

/* ---- one notice ---- */

static void one_notice(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    watch_it(s, w, a);
    quiet(s);
    tr_stop(s->sys, a);
    const Note *n = tr_expect(s->probe, patience(s), Note);
    assert_string_equal(n->text, "w terminated");
    assert_true(tr_ref_eq(n->ref, a));
    assert_int_equal(n->number, TR_STOPPED);
    quiet(s);
    // The watch is over; a new one finds no actor.
    watch_it(s, w, a);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
}

static void test_DW1_DW11_DW13_DW14_X9_one_end_gives_one_notice(void **state)
{
    (void)state;
    everywhere(one_notice);
}

static void reasons(stage *s)
{
    static const tr_reason wanted[] = {TR_STOPPED, TR_STOPPED, TR_KILLED,
                                       TR_FAILED};
    tr_ref w = PLAY(s, "w", ());
    for (int i = 0; i < 4; i++) {
        tr_ref a = PLAY(s, NULL, (),
                        .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
        watch_it(s, w, a);
        switch (i) {
        case 0:
            tr_stop(s->sys, a);
            break;
        case 1:
            tr_poison(s->sys, a);
            break;
        case 2:
            tr_kill(s->sys, a);
            break;
        default:
            tr_tell(s->sys, a, Fail);
            break;
        }
        assert_int_equal(heard(s, "w terminated"), wanted[i]);
    }
}

static void test_X8_DW19_DW20_S5_the_notice_has_a_reason(void **state)
{
    (void)state;
    everywhere(reasons);
}

static void many_watchers(stage *s)
{
    enum { MANY = 50 };
    tr_ref a = PLAY(s, "a", ());
    tr_ref w[MANY];
    for (int i = 0; i < MANY; i++) {
        w[i] = PLAY(s, NULL, ());
        watch_it(s, w[i], a);
    }
    // Ten watchers are killed; the others are notified as before.
    for (int i = 0; i < 10; i++) {
        tr_kill(s->sys, w[i]);
    }
    tr_stop(s->sys, a);
    uint32_t notices = 0;
    for (int i = 10; i < MANY; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        assert_true(tr_ref_eq(n->ref, a));
        notices++;
        if (notices == MANY - 10) {
            break;
        }
    }
    // The ten may have been notified before the kill.
    tr_ref fence = PLAY(s, "fence", ());
    (void)gotten(s, fence);
}

static void test_DW4_DW11_DW24_each_watcher_is_told(void **state)
{
    (void)state;
    everywhere(many_watchers);
}

static void watch_twice(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    for (int i = 0; i < 5; i++) {
        watch_it(s, w, a);
    }
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 1);
    }
    // Watching twice is no failure.
    assert_int_equal(gotten(s, w).incarnation, 1);
    tr_stop(s->sys, a);
    heard(s, "w terminated");
    quiet(s);
}

static void test_DW6_DW7_X11_watching_twice_is_watching_once(void **state)
{
    (void)state;
    everywhere(watch_twice);
}

/* ---- targets that have ended or end ---- */

static void watching_the_dead(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    tr_stop(s->sys, a);
    (void)joined(s, a);
    watch_it(s, w, a);
    tr_reason reason = (tr_reason)heard(s, "w terminated");
    assert_true(reason == TR_NO_SUCH_ACTOR || reason == TR_STOPPED);
    watch_it(s, w, TR_NOBODY);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    tr_ref refused = PLAY(s, "no/name", ());
    watch_it(s, w, refused);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    tr_ref foreign = {a.cell ^ (UINT64_C(1) << 50), a.id};
    watch_it(s, w, foreign);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    // The next actor in its cell is not mistaken for it.
    for (int i = 0; i < 10; i++) {
        (void)PLAY(s, NULL, ());
    }
    watch_it(s, w, a);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_DW9_X10_T13_DW29_watching_an_ended_actor_notifies_at_once(
    void **state)
{
    (void)state;
    everywhere(watching_the_dead);
}

/* Nobody, an ended actor and an actor of another system. */
static void test_rule_26_watching_nobody_notifies_once(void **state)
{
    static stage s, other;
    (void)state;
    stage_open(&s, 1, NULL);
    stage_open(&other, 2, NULL);
    tr_ref w = PLAY(&s, "w", ());
    tr_ref ended_one = PLAY(&s, "short", ());
    tr_kill(s.sys, ended_one);
    tr_sim_advance(s.sim, 0);
    tr_ref refs[] = {TR_NOBODY, ended_one, PLAY(&other, "far", ())};
    for (int i = 0; i < 3; i++) {
        watch_it(&s, w, refs[i]);
        assert_int_equal(heard(&s, "w terminated"), TR_NO_SUCH_ACTOR);
    }
    // A thread outside watches on behalf of an actor.
    tr_ref a = PLAY(&s, "a", ());
    tr_watch_for(s.sys, w, a);
    tr_sim_advance(s.sim, 0);
    tr_stop(s.sys, a);
    assert_int_equal(heard(&s, "w terminated"), TR_STOPPED);
    quiet(&s);
    stage_close(&other);
    stage_close(&s);
}

/* The watch comes while the target runs its last hook. */
static void watch_while_stopping(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", (.says = POST_STOP, .sleepy = true),
                    .stop_timeout = TR_MINUTES(10));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(10));
    watch_it(s, w, a);
    tr_expect_nothing(s->probe, TR_SECONDS(40));
    heard(s, "a post_stop");
    assert_int_equal(heard(s, "w terminated"), TR_STOPPED);
    quiet(s);
}

static void test_DW10_X47_watching_a_stopping_actor_notifies_at_its_end(
    void **state)
{
    (void)state;
    virtually(watch_while_stopping);
}

static tr_ref late;  // watched in its final drain, then TR_NOBODY

/* The worker calls it while it drains the mailbox of the ended actor. */
static void watch_in_drain(void *user, const tr_log_record *record)
{
    stage *s = user;
    tr_ref ref = late;
    if (strstr(record->text, "dead letter: Say") != NULL &&
        !tr_ref_eq(ref, TR_NOBODY)) {
        late = TR_NOBODY;
        tr_probe_watch(s->deaths, ref);
    }
}

/* The actor is STOPPED, and its system lane still open. */
static void watch_in_final_drain(stage *s)
{
    s->sys->options.log = watch_in_drain;
    tr_ref a = PLAY(s, "a", (.deaf = true));
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(s->sim, TR_MS(500));
    tr_tell(s->sys, a, Say, .text = "left over");
    tr_stop(s->sys, a);
    late = a;
    heard(s, "a woke");
    assert_int_equal(ended(s, a), TR_STOPPED);
    quiet(s);
}

static void test_DW10_X47_a_watch_in_the_final_drain_is_answered(void **state)
{
    (void)state;
    virtually(watch_in_final_drain);
}

/* ---- order ---- */

/* Mail and a notice come while the watcher sleeps; the notice is first. */
static void before_user_mail(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    watch_it(s, w, a);
    tr_tell(s->sys, w, Nap, .span = TR_SECONDS(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    tr_tell(s->sys, w, Say, .text = "mail");
    tr_stop(s->sys, a);
    heard(s, "w woke");
    heard(s, "w terminated");
    heard(s, "w mail");
}

static void test_DW3_DW5_S2_a_notice_overtakes_user_mail(void **state)
{
    (void)state;
    virtually(before_user_mail);
}

typedef struct Talker {
    tr_ref to;
} Talker;

static tr_err talker_says(tr_ctx *ctx, Talker *self, const Say *m)
{
    (void)m;
    for (int i = 0; i < 3; i++) {
        tr_tell(ctx, self->to, Say, .text = "last words", .number = i);
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(talker, Talker, TR_ON(Say, talker_says));

static void in_order(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = tr_spawn(s->sys, talker, TR_INIT(talker, .to = w));
    tr_tell(s->sys, w, Watch, .ref = a, .in_order = true);
    (void)gotten(s, w);
    tr_tell(s->sys, a, Say, .text = "");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heard(s, "w last words"), i);
    }
    assert_int_equal(heard(s, "w terminated"), TR_STOPPED);
    quiet(s);
    // Unwatch ends an ordered watch, too; an ended target gives a notice.
    tr_ref b = PLAY(s, "b", ());
    tr_tell(s->sys, w, Watch, .ref = b, .in_order = true);
    unwatch_it(s, w, b);
    tr_stop(s->sys, b);
    (void)joined(s, b);
    tr_tell(s->sys, w, Watch, .ref = a, .in_order = true);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_X46_an_ordered_notice_follows_the_mail_of_its_target(
    void **state)
{
    (void)state;
    everywhere(in_order);
}

/* ---- cycles and probes ---- */

static void circular(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = PLAY(s, "b", ());
    tr_ref c = PLAY(s, "c", ());
    watch_it(s, a, b);
    watch_it(s, b, c);
    watch_it(s, c, a);
    watch_it(s, a, a);  // watching itself has no effect
    tr_stop(s->sys, a);
    heard(s, "c terminated");
    tr_stop(s->sys, b);
    (void)joined(s, b);
    tr_stop(s->sys, c);
    (void)joined(s, c);
    quiet(s);
}

static void test_DW16_DW21_X11_actors_may_watch_each_other_in_cycles(
    void **state)
{
    (void)state;
    everywhere(circular);
}

/* All watchers of a ring end at once. */
static void ring_ends(stage *s)
{
    enum { RING = 64 };
    tr_ref p = PLAY(s, "p", ());
    tr_ref ring[RING];
    for (int i = 0; i < RING; i++) {
        ring[i] = CHILD(s, p, NULL, (.deaf = true));
    }
    for (int i = 0; i < RING; i++) {
        tr_tell(s->sys, ring[i], Watch, .ref = ring[(i + 1) % RING]);
        tr_tell(s->sys, ring[i], Watch, .ref = ring[(i + 7) % RING]);
    }
    watch_end(s, p);
    tr_stop(s->sys, p);
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_DW16_X11_a_ring_of_watchers_ends(void **state)
{
    (void)state;
    everywhere(ring_ends);
}

static void probe_is_watched(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_probe *other;
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_ref ref = tr_probe_ref(other);
    watch_it(s, w, ref);
    tr_probe_free(other);
    heard(s, "w terminated");
    // A freed probe leaves no watch behind.
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_probe_watch(other, a);
    tr_probe_free(other);
    if (s->sim != NULL) {
        assert_int_equal(watchers_of(s, a), 0);
    }
    tr_stop(s->sys, a);
    (void)joined(s, a);
    quiet(s);
}

static void test_DW21_X12_probes_watch_and_are_watched(void **state)
{
    (void)state;
    everywhere(probe_is_watched);
}

/* ---- many watchers ---- */

/*
 * Gauges watch and unwatch targets that are being stopped. A gauge whose last
 * call was a watch must get exactly one notice.
 */
TR_MESSAGE(Gust, (tr_ref, ref), (bool, on));
TR_MESSAGE(Tally, (int64_t, heard));
TR_REQUEST(GetTally, Tally);

typedef struct Gauge {
    int64_t heard;
} Gauge;

static tr_err gauge_gust(tr_ctx *ctx, Gauge *self, const Gust *m)
{
    (void)self;
    if (m->on) {
        tr_watch(ctx, m->ref);
    } else {
        tr_unwatch(ctx, m->ref);
    }
    return TR_OK;
}

static tr_err gauge_hears(tr_ctx *ctx, Gauge *self, const tr_terminated *m)
{
    (void)ctx;
    (void)m;
    self->heard++;
    return TR_OK;
}

static tr_err gauge_tells(tr_ctx *ctx, Gauge *self, const GetTally *m)
{
    return tr_reply(ctx, m, .heard = self->heard);
}

TR_ACTOR(gauge, Gauge, TR_ON(Gust, gauge_gust),
         TR_ON(tr_terminated, gauge_hears), TR_ON(GetTally, gauge_tells));

static int64_t tally(stage *s, tr_ref ref)
{
    Tally t;
    assert_int_equal(tr_ask(s->sys, ref, &t, patience(s), GetTally), TR_OK);
    return t.heard;
}

static void storm(stage *s)
{
    enum { GAUGES = 8, TARGETS = 20 };
    tr_ref gauges[GAUGES];
    for (int i = 0; i < GAUGES; i++) {
        gauges[i] = tr_spawn(s->sys, gauge);
    }
    int64_t wanted = 0;
    for (int t = 0; t < TARGETS; t++) {
        tr_ref target = PLAY(s, NULL, ());
        watch_end(s, target);
        for (int i = 0; i < GAUGES; i++) {
            // The even gauges watch once and never unwatch.
            tr_tell(s->sys, gauges[i], Gust, .ref = target, .on = i % 2 == 0);
            if (i == 3) {
                tr_stop(s->sys, target);
            }
            if (i % 2 == 1) {
                tr_tell(s->sys, gauges[i], Gust, .ref = target, .on = true);
                tr_tell(s->sys, gauges[i], Gust, .ref = target, .on = false);
            }
        }
        wanted++;
        (void)ended(s, target);
    }
    for (int i = 0; i < GAUGES; i++) {
        int64_t n = tally(s, gauges[i]);
        if (i % 2 == 0) {
            while (n < wanted) {  // notices are on their way
                n = tally(s, gauges[i]);
            }
            assert_int_equal(n, wanted);
        } else {
            // An odd gauge may get a notice between watch and unwatch.
            assert_true(n <= wanted);
        }
    }
}

static void test_DW10_DW11_X47_exactly_one_notice_under_load(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        everywhere(storm);
    }
}

/* Counted by all watchers of the crowd. */
static _Atomic(uint32_t) watching, notified;

typedef struct Watcher {
    tr_ref whom;
} Watcher;

static tr_err watcher_start(tr_ctx *ctx, Watcher *self)
{
    tr_watch(ctx, self->whom);
    // Relaxed: only the number counts.
    atomic_fetch_add_explicit(&watching, 1, memory_order_relaxed);
    return TR_OK;
}

static tr_err watcher_hears(tr_ctx *ctx, Watcher *self, const tr_terminated *m)
{
    (void)ctx;
    (void)m;
    self->whom = TR_NOBODY;
    // Relaxed: only the number counts.
    atomic_fetch_add_explicit(&notified, 1, memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(watcher, Watcher, TR_HOOK(pre_start, watcher_start),
         TR_ON(tr_terminated, watcher_hears));

static void test_DW4_DW28_a_hundred_thousand_watchers(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    static stage s;
    stage_open(&s, 0, NULL);
    tr_ref a = PLAY(&s, "a", ());
    for (int i = 0; i < MANY; i++) {
        (void)tr_spawn(s.sys, watcher, TR_INIT(watcher, .whom = a));
    }
    // Relaxed, all: only the numbers count.
    while (atomic_load_explicit(&watching, memory_order_relaxed) < MANY) {
    }
    assert_int_equal(atomic_load_explicit(&notified, memory_order_relaxed), 0);
    tr_stop(s.sys, a);
    while (atomic_load_explicit(&notified, memory_order_relaxed) < MANY) {
    }
    stage_close(&s);
    assert_int_equal(atomic_load_explicit(&notified, memory_order_relaxed),
                     MANY);
}

static void test_DW30_X48_C16_death_watch_on_one_polled_thread(void **state)
{
    (void)state;
    static stage s;
    stage_open(&s, 0, TR_OPTIONS(tr_system_options, .poll = true));
    one_notice(&s);
    stage_close(&s);
    stage_open(&s, 0, TR_OPTIONS(tr_system_options, .poll = true));
    storm(&s);
    stage_close(&s);
    stage_open(&s, 0, TR_OPTIONS(tr_system_options, .poll = true));
    watching_the_dead(&s);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DW1_DW11_DW13_DW14_X9_one_end_gives_one_notice),
        cmocka_unit_test(test_X8_DW19_DW20_S5_the_notice_has_a_reason),
        cmocka_unit_test(test_DW4_DW11_DW24_each_watcher_is_told),
        cmocka_unit_test(test_DW6_DW7_X11_watching_twice_is_watching_once),
        cmocka_unit_test(
            test_DW9_X10_T13_DW29_watching_an_ended_actor_notifies_at_once),
        cmocka_unit_test(test_rule_26_watching_nobody_notifies_once),
        cmocka_unit_test(
            test_DW10_X47_watching_a_stopping_actor_notifies_at_its_end),
        cmocka_unit_test(test_DW10_X47_a_watch_in_the_final_drain_is_answered),
        cmocka_unit_test(test_DW3_DW5_S2_a_notice_overtakes_user_mail),
        cmocka_unit_test(
            test_X46_an_ordered_notice_follows_the_mail_of_its_target),
        cmocka_unit_test(
            test_DW16_DW21_X11_actors_may_watch_each_other_in_cycles),
        cmocka_unit_test(test_DW16_X11_a_ring_of_watchers_ends),
        cmocka_unit_test(test_DW21_X12_probes_watch_and_are_watched),
        cmocka_unit_test(test_DW10_DW11_X47_exactly_one_notice_under_load),
        cmocka_unit_test(test_DW4_DW28_a_hundred_thousand_watchers),
        cmocka_unit_test(test_DW30_X48_C16_death_watch_on_one_polled_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
