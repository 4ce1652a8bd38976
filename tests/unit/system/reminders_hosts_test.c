/*
 * reminders_hosts_test.c - reminders of several kinds, namespaces and stores
 * beside each other, and handlers that take longer than the service looks away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "support/core.h"

enum { LOG_MAX = 64, LOOK_SEEDS = 20 };

TR_MESSAGE(Ring, (int64_t, number));
TR_REQUEST(Ask, tr_none, (int64_t, delay), (int64_t, period),
           (const char *, name), (int64_t, number));
TR_REQUEST(Drop, tr_none, (const char *, name));
TR_REQUEST(Look, tr_none);
TR_STATE(Bell, (int64_t, count));

/* What rang, in order; everything runs in one thread. */
static struct {
    int64_t number[LOG_MAX];
    int count;
    tr_nanos busy;  // so long is each handler of a slow one
    bool keep;      // it keeps the message and lets go of it later
    const Ring *kept;
    tr_storage *other;  // where the crowd keeps its states
} rang;

static void note(int64_t number)
{
    assert_true(rang.count < LOG_MAX);
    rang.number[rang.count++] = number;
}

static tr_err bell_ring(tr_ctx *ctx, Bell *self, const Ring *m)
{
    (void)ctx;
    (void)self;
    note(m->number);
    return TR_OK;
}

static tr_err slow_ring(tr_ctx *ctx, Bell *self, const Ring *m)
{
    (void)self;
    note(m->number);
    if (rang.keep) {
        rang.keep = false;
        rang.kept = tr_keep(ctx, m);
        return TR_OK;
    }
    return tr_sleep(ctx, rang.busy);
}

static tr_err bell_ask(tr_ctx *ctx, Bell *self, const Ask *m)
{
    (void)self;
    tr_err err =
        tr_remind(ctx, m->name, m->delay, m->period, Ring, .number = m->number);
    return err == TR_OK ? tr_reply(ctx, m)
                        : tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
}

static tr_err bell_drop(tr_ctx *ctx, Bell *self, const Drop *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, m->name));
    return tr_reply(ctx, m);
}

/* Lets go of what was kept. */
static tr_err bell_look(tr_ctx *ctx, Bell *self, const Look *m)
{
    (void)self;
    if (rang.kept != NULL) {
        tr_release(ctx, rang.kept);
        rang.kept = NULL;
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(bell, Bell, TR_ON_REMINDER(Ring, bell_ring), TR_ON(Ask, bell_ask),
         TR_ON(Drop, bell_drop), TR_ON(Look, bell_look));
TR_ACTOR(bells, Bell, TR_ON_REMINDER(Ring, bell_ring), TR_ON(Ask, bell_ask),
         TR_ON(Drop, bell_drop), TR_ON(Look, bell_look));
TR_ACTOR(slow, Bell, TR_ON_REMINDER(Ring, slow_ring), TR_ON(Ask, bell_ask),
         TR_ON(Drop, bell_drop), TR_ON(Look, bell_look));

/*
 * Two others start, with reminders: the service looks into their store, and
 * has another look to do before it hears that this one has come.
 */
static tr_err crowd_ring(tr_ctx *ctx, Bell *self, const Ring *m)
{
    (void)self;
    note(m->number);
    for (int i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "c%d-%d", rang.count, i);
        assert_int_not_equal(
            tr_spawn(ctx, bell, .name = name, .storage = rang.other).cell, 0);
    }
    return TR_OK;
}

TR_ACTOR(crowd, Bell, TR_ON_REMINDER(Ring, crowd_ring), TR_ON(Ask, bell_ask),
         TR_ON(Drop, bell_drop), TR_ON(Look, bell_look));

typedef struct fixture {
    tr_sim *sim;
    tr_storage *one, *two;
} fixture;

static tr_system *up(fixture *f, const char *ns)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(f->sim), .ns = ns,
                           .log_level = 9));
    return sys;
}

static void open_fixture_with(fixture *f, uint64_t seed)
{
    memset(&rang, 0, sizeof(rang));
    TR_MUST(tr_sim_new(&f->sim, seed));
    TR_MUST(tr_storage_memory(&f->one));
    TR_MUST(tr_storage_memory(&f->two));
}

static void open_fixture(fixture *f)
{
    open_fixture_with(f, 3);
}

static void close_fixture(fixture *f)
{
    tr_storage_close(f->one);
    tr_storage_close(f->two);
    tr_sim_free(f->sim);
}

static void remind_each(tr_system *sys, const char *kind, const char *key,
                        const char *name, tr_nanos delay, tr_nanos period,
                        int64_t number)
{
    assert_int_equal(tr_ask(sys, tr_virtual(sys, kind, key), NULL,
                            TR_SECONDS(5), Ask, .delay = delay,
                            .period = period, .name = name, .number = number),
                     TR_OK);
}

static void remind(tr_system *sys, const char *kind, const char *key,
                   const char *name, tr_nanos delay, int64_t number)
{
    remind_each(sys, kind, key, name, delay, 0, number);
}

static int times(int64_t number)
{
    int count = 0;
    for (int i = 0; i < rang.count; i++) {
        count += rang.number[i] == number;
    }
    return count;
}

/* Names that begin alike, in kinds, keys and namespaces: each gets its own. */
static void test_ST9_reminders_of_many_kinds_and_stores(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f);
    tr_system *a = up(&f, "a"), *ab = up(&f, "ab");
    TR_MUST(tr_host(a, bell, .storage = f.one, .idle = TR_SECONDS(5)));
    TR_MUST(tr_host(a, bells, .storage = f.one, .idle = TR_SECONDS(5)));
    TR_MUST(tr_host(a, slow, .storage = f.two, .idle = TR_SECONDS(5)));
    TR_MUST(tr_host(ab, bell, .storage = f.one, .idle = TR_SECONDS(5)));
    remind(a, "bell", "s", "r", TR_SECONDS(20), 1);
    remind(a, "bells", "s", "r", TR_SECONDS(20), 2);
    remind(a, "slow", "s", "r", TR_SECONDS(20), 3);
    remind(ab, "bell", "s", "r", TR_SECONDS(20), 4);
    remind(a, "bell", "s", "rr", TR_SECONDS(20), 5);
    remind(a, "bell", "ss", "r", TR_MINUTES(300), 6);  // for a later look
    // Away and back: what one has stored is not taken by another.
    tr_system_close(a, 0);
    tr_sim_advance(f.sim, TR_SECONDS(30));
    assert_int_equal(rang.count, 1);
    assert_int_equal(rang.number[0], 4);
    a = up(&f, "a");
    TR_MUST(tr_host(a, slow, .storage = f.two, .idle = TR_SECONDS(5)));
    TR_MUST(tr_host(a, bells, .storage = f.one, .idle = TR_SECONDS(5)));
    tr_sim_advance(f.sim, TR_SECONDS(5));
    assert_int_equal(times(2) + times(3), 2);
    assert_int_equal(rang.count, 3);  // bell is not hosted yet
    TR_MUST(tr_host(a, bell, .storage = f.one, .idle = TR_SECONDS(5)));
    tr_sim_advance(f.sim, TR_SECONDS(5));  // long before the next refresh
    assert_int_equal(rang.count, 5);
    assert_int_equal(times(1) + times(5), 2);
    tr_sim_advance(f.sim, TR_MINUTES(300));
    assert_int_equal(times(6), 1);
    assert_int_equal(rang.count, 6);
    tr_system_close(a, 0);
    tr_system_close(ab, 0);
    close_fixture(&f);
}

/* Several are being handled while the service looks into the store again. */
static void test_ST9_handlers_that_take_long(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f);
    tr_system *sys = up(&f, "a");
    rang.busy = TR_MINUTES(30);
    TR_MUST(tr_host(sys, slow, .storage = f.one, .idle = TR_MINUTES(5)));
    for (int i = 0; i < 4; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        remind(sys, "slow", key, "r", TR_SECONDS(10), i);
        remind(sys, "slow", key, "s", TR_MINUTES(60), 10 + i);
    }
    tr_sim_advance(f.sim, TR_MINUTES(20));
    assert_int_equal(rang.count, 4);  // none came twice
    tr_sim_advance(f.sim, TR_MINUTES(120));
    assert_int_equal(rang.count, 8);
    tr_sim_advance(f.sim, TR_MINUTES(120));
    assert_int_equal(rang.count, 8);
    // The system ends while two are at it and two wait: they come again.
    remind(sys, "slow", "x", "r", TR_SECONDS(10), 20);
    remind(sys, "slow", "y", "r", TR_SECONDS(10), 21);
    remind(sys, "slow", "x", "later", TR_MINUTES(10), 22);
    tr_sim_advance(f.sim, TR_SECONDS(20));
    assert_int_equal(times(20) + times(21), 2);
    (void)!tr_system_close(sys, TR_SECONDS(20));
    sys = up(&f, "a");
    rang.busy = 0;
    TR_MUST(tr_host(sys, slow, .storage = f.one, .idle = TR_MINUTES(5)));
    tr_sim_advance(f.sim, TR_MINUTES(30));
    assert_int_equal(times(20), 2);
    assert_int_equal(times(21), 2);
    assert_int_equal(times(22), 1);
    tr_system_close(sys, 0);
    close_fixture(&f);
}

/* A kept message is not handled yet: it is done when it is let go of. */
static void test_ST9_a_reminder_that_is_kept(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f);
    tr_system *sys = up(&f, "a");
    TR_MUST(tr_host(sys, slow, .storage = f.one, .idle = TR_MINUTES(500)));
    rang.keep = true;
    remind(sys, "slow", "k", "r", TR_SECONDS(10), 1);
    remind(sys, "slow", "k", "s", TR_SECONDS(15), 2);
    tr_sim_advance(f.sim, TR_SECONDS(30));
    assert_int_equal(times(1), 1);
    assert_int_equal(times(2), 1);
    assert_int_equal(
        tr_ask(sys, tr_virtual(sys, "slow", "k"), NULL, TR_SECONDS(5), Look),
        TR_OK);
    assert_int_equal(tr_ask(sys, tr_virtual(sys, "slow", "k"), NULL,
                            TR_SECONDS(5), Drop, .name = "r"),
                     TR_OK);
    tr_sim_advance(f.sim, TR_MINUTES(60));
    int before = rang.count;
    tr_sim_advance(f.sim, TR_MINUTES(60));
    assert_int_equal(rang.count, before);  // that was all
    tr_system_close(sys, 0);
    close_fixture(&f);
}

/* Names that are none; forgetting as setting. */
static void test_ST9_bad_names_and_missing_stores_are_refused(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f);
    tr_system *sys = up(&f, NULL);
    char name[200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    TR_MUST(tr_host(sys, bell, .storage = f.one));
    tr_ref ref = tr_virtual(sys, "bell", "k");
    assert_int_equal(tr_ask(sys, ref, NULL, TR_SECONDS(5), Drop, .name = name),
                     TR_EINVAL);
    assert_int_equal(tr_ask(sys, ref, NULL, TR_SECONDS(5), Drop, .name = NULL),
                     TR_EINVAL);
    // Without a store there is nothing to remind by, nor to forget.
    tr_ref poor = tr_spawn(sys, bell, .name = "poor");
    assert_int_equal(
        tr_ask(sys, poor, NULL, TR_SECONDS(5), Ask, .name = "r", .delay = 1),
        TR_ESTORAGE);
    assert_int_equal(tr_ask(sys, poor, NULL, TR_SECONDS(5), Drop, .name = "r"),
                     TR_ESTORAGE);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    close_fixture(&f);
}

/* The service looks after its messengers while the word of one is behind. */
static void test_ST9_a_postman_that_reports_late_is_not_counted_twice(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= LOOK_SEEDS; seed++) {
        fixture f;
        open_fixture_with(&f, seed);
        tr_system *sys = up(&f, "a");
        rang.other = f.two;
        TR_MUST(tr_host(sys, crowd, .storage = f.one));
        remind(sys, "crowd", "k", "once", TR_SECONDS(10), 1);
        remind_each(sys, "crowd", "k", "each", TR_SECONDS(20), TR_SECONDS(10),
                    2);
        tr_sim_advance(f.sim, TR_SECONDS(65));
        assert_int_equal(times(1), 1);
        assert_int_equal(times(2), 5);  // after 20 s, and each 10 s
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
        close_fixture(&f);
    }
}

/* What nobody will live to see is refused, not rung without end. */
static void test_ST9_a_next_time_beyond_all_time_is_refused(void **state)
{
    static const struct {
        tr_nanos delay, period;
        tr_err err;
    } cases[] = {
        {TR_SECONDS(1), TR_FOREVER, TR_EINVAL},
        {TR_FOREVER, 0, TR_EINVAL},
        {TR_FOREVER, TR_FOREVER, TR_EINVAL},
        {TR_FOREVER / 2, TR_FOREVER / 2, TR_EINVAL},
        {TR_MINUTES(60), TR_FOREVER / 4, TR_OK},
    };
    fixture f;
    (void)state;
    open_fixture(&f);
    tr_system *sys = up(&f, NULL);
    TR_MUST(tr_host(sys, bell, .storage = f.one));
    tr_ref ref = tr_virtual(sys, "bell", "k");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(tr_ask(sys, ref, NULL, TR_SECONDS(5), Ask, .name = "r",
                                .number = 1, .delay = cases[i].delay,
                                .period = cases[i].period),
                         cases[i].err);
        if (cases[i].err != TR_OK) {
            assert_non_null(strstr(tr_error_text(sys), "2262"));
        }
    }
    tr_sim_advance(f.sim, TR_MINUTES(59));
    assert_int_equal(rang.count, 0);
    tr_sim_advance(f.sim, TR_MINUTES(600));
    assert_int_equal(rang.count, 1);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ST9_reminders_of_many_kinds_and_stores),
        cmocka_unit_test(test_ST9_handlers_that_take_long),
        cmocka_unit_test(test_ST9_a_reminder_that_is_kept),
        cmocka_unit_test(test_ST9_bad_names_and_missing_stores_are_refused),
        cmocka_unit_test(
            test_ST9_a_postman_that_reports_late_is_not_counted_twice),
        cmocka_unit_test(test_ST9_a_next_time_beyond_all_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
