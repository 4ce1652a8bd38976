/*
 * events_test.c - the event stream and topics (EV1..EV5, DW12).
 */
#include "support/fixture.h"

#include <stdatomic.h>

TR_MESSAGE(News, (const char *, text), (int64_t, number));
TR_MESSAGE(Other);

/* ---- the library's own ---- */

static void lifecycle_event(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", ());
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_probe_subscribe(s->probe, tr_lifecycle);
    tr_nanos before = tr_now(s->sys);
    tr_stop(s->sys, a);
    for (;;) {
        const tr_lifecycle *e = tr_expect(s->probe, patience(s), tr_lifecycle);
        if (e->state == TR_STATE_STOPPED) {
            assert_true(tr_ref_eq(e->actor, a));
            assert_true(tr_ref_eq(e->parent, p));
            assert_string_equal(e->name, "/user/p/a");
            assert_true(e->at >= before && e->at <= tr_now(s->sys));
            break;
        }
    }
}

static void test_EV1_EV4_DW12_an_end_is_published(void **state)
{
    (void)state;
    everywhere(lifecycle_event);
}

/* ---- subscribers ---- */

typedef struct Reader {
    tr_ref probe;
} Reader;

static tr_err reader_start(tr_ctx *ctx, Reader *self)
{
    (void)self;
    tr_subscribe(ctx, News);
    tr_subscribe(ctx, News);  // as once
    return tr_topic_join(ctx, "sport");
}

static tr_err reader_news(tr_ctx *ctx, Reader *self, const News *m)
{
    if (strcmp(m->text, "enough") == 0) {
        tr_unsubscribe(ctx, News);
        tr_topic_leave(ctx, "sport");
        tr_topic_leave(ctx, "never joined");
    }
    tr_tell(ctx, self->probe, Note, .text = m->text, .number = m->number);
    return TR_OK;
}

static tr_err reader_get(tr_ctx *ctx, Reader *self, const Get *m)
{
    (void)self;
    return tr_reply(ctx, m, .incarnation = tr_incarnation(ctx));
}

static tr_err reader_fail(tr_ctx *ctx, Reader *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(reader, Reader, TR_HOOK(pre_start, reader_start),
         TR_ON(News, reader_news), TR_ON(Get, reader_get),
         TR_ON(Fail, reader_fail));

static tr_ref new_reader(stage *s)
{
    tr_ref r = tr_spawn(s->sys, reader, TR_INIT(reader, .probe = s->to));
    assert_int_equal(tr_started(s->sys, r, 0), TR_OK);
    return r;
}

static void many_subscribers(stage *s)
{
    enum { MANY = 70 };  // more than one batch
    tr_ref all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = new_reader(s);
    }
    tr_publish(s->sys, News, .text = "one");
    tr_publish(s->sys, Other);  // nobody listens
    for (int i = 0; i < MANY; i++) {
        heard(s, "one");
    }
    for (int i = 1; i < MANY; i++) {
        tr_stop(s->sys, all[i]);
        (void)joined(s, all[i]);
    }
    // Those who have ended do not count as lost.
    tr_publish(s->sys, News, .text = "enough");
    heard(s, "enough");
    tr_publish(s->sys, News, .text = "too much");
    tr_topic_publish(s->sys, "sport", News, .text = "goal");
    (void)gotten(s, all[0]);
    quiet(s);
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    assert_int_equal(m.events_lost, 0);
}

static void test_EV2_every_subscriber_gets_it_once(void **state)
{
    (void)state;
    everywhere(many_subscribers);
}

static uint64_t lost(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.events_lost;
}

/* It does not read: so many wait, what comes then is counted, not kept. */
static void slow_subscriber(stage *s)
{
    enum { WAITING = 32768, MORE = 10 };
    tr_probe *slow;
    assert_int_equal(tr_probe_new(&slow, s->sys), TR_OK);
    tr_probe_subscribe(slow, News);
    tr_probe_subscribe(s->probe, News);
    for (int64_t i = 0; i < WAITING + MORE; i++) {
        tr_publish(s->sys, News, .text = "", .number = i);
        // Whoever keeps up is not concerned.
        assert_int_equal(tr_expect(s->probe, patience(s), News)->number, i);
    }
    assert_int_equal(lost(s), MORE);
    for (int64_t i = 0; i < WAITING; i++) {
        assert_int_equal(tr_expect(slow, patience(s), News)->number, i);
    }
    tr_expect_nothing(slow, TR_MS(1));
    tr_publish(s->sys, News, .text = "", .number = -1);
    assert_int_equal(tr_expect(slow, patience(s), News)->number, -1);
    assert_int_equal(lost(s), MORE);
    tr_probe_free(slow);
}

static void test_EV2_X41_a_slow_subscriber_misses_events(void **state)
{
    (void)state;
    everywhere(slow_subscriber);
}

static void restarted_subscriber(stage *s)
{
    tr_ref r = new_reader(s);
    tr_tell(s->sys, r, Fail);
    while (gotten(s, r).incarnation != 2) {
    }
    tr_publish(s->sys, News, .text = "again");
    tr_topic_publish(s->sys, "sport", News, .text = "goal");
    heard(s, "again");  // it has subscribed anew, once
    heard(s, "goal");
    (void)gotten(s, r);
    quiet(s);
}

static void test_EV2_a_restart_ends_subscriptions(void **state)
{
    (void)state;
    everywhere(restarted_subscriber);
}

static void probe_leaves(stage *s)
{
    tr_probe *other;
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_probe_subscribe(other, News);
    tr_publish(s->sys, News, .text = "one");
    assert_string_equal(tr_expect(other, patience(s), News)->text, "one");
    tr_probe_free(other);
    tr_publish(s->sys, News, .text = "two");
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    assert_int_equal(m.events_lost, 0);
}

static void test_EV2_a_probe_unsubscribes_when_it_ends(void **state)
{
    (void)state;
    everywhere(probe_leaves);
}

static void topics(stage *s)
{
    tr_ref a = new_reader(s);
    tr_ref b = new_reader(s);
    tr_topic_publish(s->sys, "sport", News, .text = "goal");
    tr_topic_publish(s->sys, "weather", News, .text = "rain");
    heard(s, "goal");
    heard(s, "goal");
    tr_stop(s->sys, a);
    (void)joined(s, a);
    tr_topic_publish(s->sys, "sport", News, .text = "another");
    heard(s, "another");
    (void)gotten(s, b);
    quiet(s);
}

static void test_PA_topics_reach_their_members(void **state)
{
    (void)state;
    everywhere(topics);
}

/* ---- callbacks ---- */

typedef struct seen {
    tr_system *sys;
    tr_ref probe;
    _Atomic(int) inside;
    bool overlap;
    int64_t count;
    bool in_order;
} seen;

static void call(void *user, const tr_type *type, const void *event)
{
    seen *it = user;
    const News *n = event;
    (void)type;
    // Relaxed: it only counts who is inside.
    it->overlap |=
        atomic_fetch_add_explicit(&it->inside, 1, memory_order_relaxed) != 0;
    it->in_order &= n->number == it->count;
    it->count++;
    if (strcmp(n->text, "last") == 0) {
        // The callback may use the system: no lock is held.
        tr_publish(it->sys, Other);
        tr_tell(it->sys, it->probe, Note, .text = "called",
                .number = it->count);
    }
    atomic_fetch_sub_explicit(&it->inside, 1, memory_order_relaxed);
}

/* The second one of the type is called as well. */
static void call_too(void *user, const tr_type *type, const void *event)
{
    seen *it = user;
    const News *n = event;
    (void)type;
    if (strcmp(n->text, "last") == 0) {
        tr_tell(it->sys, it->probe, Note, .text = "called too");
    }
}

static void callbacks(stage *s)
{
    static seen it;  // callbacks run until the system is closed
    memset(&it, 0, sizeof(it));
    it.sys = s->sys;
    it.probe = s->to;
    it.in_order = true;
    assert_int_equal(tr_on_event(s->sys, News, call, &it), TR_OK);
    assert_int_equal(tr_on_event(s->sys, News, call_too, &it), TR_OK);
    for (int i = 0; i < 99; i++) {
        tr_publish(s->sys, News, .text = "", .number = i);
    }
    tr_publish(s->sys, News, .text = "last", .number = 99);
    assert_int_equal(heard(s, "called"), 100);
    heard(s, "called too");
    assert_false(it.overlap);
    assert_true(it.in_order);
    tr_system_terminate(s->sys);
    assert_int_equal(tr_on_event(s->sys, News, call, &it), TR_ECLOSED);
}

static void test_EV3_callbacks_run_one_at_a_time(void **state)
{
    (void)state;
    everywhere(callbacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_EV1_EV4_DW12_an_end_is_published),
        cmocka_unit_test(test_EV2_every_subscriber_gets_it_once),
        cmocka_unit_test(test_EV2_X41_a_slow_subscriber_misses_events),
        cmocka_unit_test(test_EV2_a_restart_ends_subscriptions),
        cmocka_unit_test(test_EV2_a_probe_unsubscribes_when_it_ends),
        cmocka_unit_test(test_PA_topics_reach_their_members),
        cmocka_unit_test(test_EV3_callbacks_run_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
