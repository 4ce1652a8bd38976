/*
 * watch_test.c - death watch: exactly one notice (DW1..DW30, X8..X12, X46,
 * X47); on behalf of another: watch_for_test.c. Covers TE7.
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "core/lifecycle.h"

static void watch_it(stage *s, tr_ref watcher, tr_ref target)
{
    tr_tell(s->sys, watcher, Watch, .ref = target);
    (void)gotten(s, watcher);
}

static void unwatch_it(stage *s, tr_ref watcher, tr_ref target)
{
    tr_tell(s->sys, watcher, Watch, .ref = target, .stop = true);
    (void)gotten(s, watcher);
}

/* How many watchers ref knows of; all that was sent to it has arrived. */
static uint32_t watchers_of(stage *s, tr_ref ref)
{
    (void)gotten(s, ref);
    tri_ext *ext =
        atomic_load_explicit(&tri_ref_cell(ref)->ext, memory_order_acquire);
    uint32_t count = 0;
    for (tri_watch *w = ext != NULL ? ext->watchers : NULL; w != NULL;
         w = w->next) {
        count++;
    }
    return count;
}

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
    // The watch is over: nothing more is known of it.
    watch_it(s, w, a);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
}

static void test_DW1_DW11_DW13_DW14_X9_an_end_is_told_once(void **state)
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
    // DW24: some of them are gone; that is nobody else's trouble.
    for (int i = 0; i < 10; i++) {
        tr_kill(s->sys, w[i]);
    }
    tr_stop(s->sys, a);
    uint32_t heard_of = 0;
    for (int i = 10; i < MANY; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        assert_true(tr_ref_eq(n->ref, a));
        heard_of++;
        if (heard_of == MANY - 10) {
            break;
        }
    }
    // Of the ten, those may have heard that were faster than the kill.
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
    assert_int_equal(gotten(s, w).incarnation, 1);  // and no failure
    tr_stop(s->sys, a);
    heard(s, "w terminated");
    quiet(s);
}

static void test_DW6_DW7_X11_watching_twice_is_watching_once(void **state)
{
    (void)state;
    everywhere(watch_twice);
}

/* ---- unwatch ---- */

static void unwatching(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_ref a = PLAY(s, "a", ());
    unwatch_it(s, w, a);  // DW8
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
    // And again, after all.
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

/* Notices wait while the watcher is asleep; some are not wanted then. */
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
    // All four are pending now: the first, the middle, then the last go.
    tr_unwatch(ctx, self->refs[3]);
    tr_unwatch(ctx, self->refs[0]);
    tr_unwatch(ctx, self->refs[1]);
    tr_watch(ctx, self->refs[0]);  // comes again, behind the others
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

static void test_DW22_a_notice_that_waits_is_dropped_by_unwatch(void **state)
{
    (void)state;
    virtually(unwatch_pending);
}

/* ---- the dead and the unknown ---- */

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
    // Another actor in its memory is not mistaken for it.
    for (int i = 0; i < 10; i++) {
        (void)PLAY(s, NULL, ());
    }
    watch_it(s, w, a);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_DW9_X10_T13_DW29_watching_the_dead_tells_at_once(void **state)
{
    (void)state;
    everywhere(watching_the_dead);
}

/* The target is in its last hook when the watch comes. */
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

static void test_DW10_X47_watching_the_dying_tells_when_it_is_over(void **state)
{
    (void)state;
    virtually(watch_while_stopping);
}

/* ---- the last moment ---- */

static tr_ref late;  // to be watched in its final drain; then nobody

/* Called by the worker that drains the mailbox of the dead. */
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

/* The watch finds a lane that is open still, of an actor that is STOPPED. */
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

/* The watcher is asleep; mail and a death come; the death is first. */
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

static void test_DW3_DW5_S2_a_death_goes_before_user_mail(void **state)
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
    // Unwatch takes this one back, too; a dead one is told in order as well.
    tr_ref b = PLAY(s, "b", ());
    tr_tell(s->sys, w, Watch, .ref = b, .in_order = true);
    unwatch_it(s, w, b);
    tr_stop(s->sys, b);
    (void)joined(s, b);
    tr_tell(s->sys, w, Watch, .ref = a, .in_order = true);
    assert_int_equal(heard(s, "w terminated"), TR_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_X46_in_order_after_all_that_the_dead_had_sent(void **state)
{
    (void)state;
    everywhere(in_order);
}

/* ---- circles, oneself, strangers ---- */

static void circular(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = PLAY(s, "b", ());
    tr_ref c = PLAY(s, "c", ());
    watch_it(s, a, b);
    watch_it(s, b, c);
    watch_it(s, c, a);
    watch_it(s, a, a);  // oneself: nobody is left to be told
    tr_stop(s->sys, a);
    heard(s, "c terminated");
    tr_stop(s->sys, b);
    (void)joined(s, b);
    tr_stop(s->sys, c);
    (void)joined(s, c);
    quiet(s);
}

static void test_DW16_DW21_X11_anybody_watches_anybody_in_circles(void **state)
{
    (void)state;
    everywhere(circular);
}

/* A ring of watchers who all end at once. */
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
    mourn(s, p);
    tr_stop(s->sys, p);
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_DW16_X11_a_ring_of_watchers_ends(void **state)
{
    (void)state;
    everywhere(ring_ends);
}

/* ---- the watcher ends ---- */

static void watcher_ends(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    for (int i = 0; i < 20; i++) {
        tr_ref w = PLAY(s, NULL, ());
        watch_it(s, w, a);
        tr_stop(s->sys, w);
        (void)joined(s, w);
    }
    // X12: nothing of them is left in the one that stays.
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
    tr_stop(s->sys, a);  // rule 14: the new incarnation has not watched
    (void)joined(s, a);
    (void)gotten(s, w);
    quiet(s);
}

static void test_X12_DW23_a_restart_ends_own_watches(void **state)
{
    (void)state;
    everywhere(watcher_restarts);
}

/* ---- parents ---- */

static void parent_is_told(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (), .watch = true);  // SP20
    tr_ref b = CHILD(s, p, "b", ());
    (void)gotten(s, p);
    tr_stop(s->sys, a);
    heard(s, "p terminated");
    tr_stop(s->sys, b);
    (void)joined(s, b);
    (void)gotten(s, p);
    quiet(s);  // not asked for, not told
    // X11: an unwatch does not cut the tie to the child.
    tr_ref c = CHILD(s, p, "c", (.says = POST_STOP), .watch = true);
    assert_int_equal(tr_started(s->sys, c, 0), TR_OK);
    unwatch_it(s, p, c);
    mourn(s, p);
    tr_stop(s->sys, p);
    heard(s, "c post_stop");
    assert_int_equal(ended(s, p), TR_STOPPED);
    assert_int_equal(tr_state_of(s->sys, c), TR_STATE_TERMINATED);
}

static void test_DW25_SP20_X11_parents_and_their_children(void **state)
{
    (void)state;
    everywhere(parent_is_told);
}

/* ---- probes ---- */

static void probe_is_watched(stage *s)
{
    tr_ref w = PLAY(s, "w", ());
    tr_probe *other;
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_ref ref = tr_probe_ref(other);
    watch_it(s, w, ref);
    tr_probe_free(other);
    heard(s, "w terminated");
    // And a probe that watched leaves nothing behind.
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

/* ---- storms ---- */

/*
 * Watchers watch and unwatch targets that are being stopped. Whoever's last
 * word was a watch must hear exactly once, whoever's was an unwatch never.
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
        mourn(s, target);
        for (int i = 0; i < GAUGES; i++) {
            // The even ones end with a watch, which is never taken back.
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
            // Between watch and unwatch it may hear of the dead.
            assert_true(n <= wanted);
        }
    }
}

static void test_DW10_DW11_X47_exactly_one_in_a_storm(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        everywhere(storm);
    }
}

/* One of a crowd: they only count, together. */
static _Atomic(uint32_t) watching, told;

typedef struct Face {
    tr_ref whom;
} Face;

static tr_err face_start(tr_ctx *ctx, Face *self)
{
    tr_watch(ctx, self->whom);
    // Relaxed: only the number counts.
    atomic_fetch_add_explicit(&watching, 1, memory_order_relaxed);
    return TR_OK;
}

static tr_err face_hears(tr_ctx *ctx, Face *self, const tr_terminated *m)
{
    (void)ctx;
    (void)m;
    self->whom = TR_NOBODY;
    // Relaxed: only the number counts.
    atomic_fetch_add_explicit(&told, 1, memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(face, Face, TR_HOOK(pre_start, face_start),
         TR_ON(tr_terminated, face_hears));

static void test_DW4_DW28_a_hundred_thousand_watchers(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    static stage s;
    stage_open(&s, 0, NULL);
    tr_ref a = PLAY(&s, "a", ());
    for (int i = 0; i < MANY; i++) {
        (void)tr_spawn(s.sys, face, TR_INIT(face, .whom = a));
    }
    // Relaxed, all: only the numbers count.
    while (atomic_load_explicit(&watching, memory_order_relaxed) < MANY) {
    }
    assert_int_equal(atomic_load_explicit(&told, memory_order_relaxed), 0);
    tr_stop(s.sys, a);
    while (atomic_load_explicit(&told, memory_order_relaxed) < MANY) {
    }
    stage_close(&s);
    assert_int_equal(atomic_load_explicit(&told, memory_order_relaxed), MANY);
}

/* ---- without threads ---- */

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
        cmocka_unit_test(test_DW1_DW11_DW13_DW14_X9_an_end_is_told_once),
        cmocka_unit_test(test_X8_DW19_DW20_S5_the_notice_has_a_reason),
        cmocka_unit_test(test_DW4_DW11_DW24_each_watcher_is_told),
        cmocka_unit_test(test_DW6_DW7_X11_watching_twice_is_watching_once),
        cmocka_unit_test(test_DW2_DW8_DW22_unwatch_ends_the_watch),
        cmocka_unit_test(test_DW22_a_notice_that_waits_is_dropped_by_unwatch),
        cmocka_unit_test(test_DW9_X10_T13_DW29_watching_the_dead_tells_at_once),
        cmocka_unit_test(
            test_DW10_X47_watching_the_dying_tells_when_it_is_over),
        cmocka_unit_test(test_DW10_X47_a_watch_in_the_final_drain_is_answered),
        cmocka_unit_test(test_DW3_DW5_S2_a_death_goes_before_user_mail),
        cmocka_unit_test(test_X46_in_order_after_all_that_the_dead_had_sent),
        cmocka_unit_test(test_DW16_DW21_X11_anybody_watches_anybody_in_circles),
        cmocka_unit_test(test_DW16_X11_a_ring_of_watchers_ends),
        cmocka_unit_test(
            test_X12_DW17_DW18_K25_a_watcher_that_ends_stops_watching),
        cmocka_unit_test(test_X12_DW23_a_restart_ends_own_watches),
        cmocka_unit_test(test_DW25_SP20_X11_parents_and_their_children),
        cmocka_unit_test(test_DW21_X12_probes_watch_and_are_watched),
        cmocka_unit_test(test_DW10_DW11_X47_exactly_one_in_a_storm),
        cmocka_unit_test(test_DW4_DW28_a_hundred_thousand_watchers),
        cmocka_unit_test(test_DW30_X48_C16_death_watch_on_one_polled_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
