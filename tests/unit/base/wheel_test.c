/*
 * wheel_test.c - the timer wheel compared with an array, and on virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/check.h"
#include "base/rand.h"
#include "base/wheel.h"

enum { TIMERS = 96 };

#define HOUR TR_MINUTES(60)
#define DAY  (24 * HOUR)

/* The contract of the wheel, implemented with arrays. */
typedef struct model {
    tri_wheel wheel;
    tri_rand rand;
    tr_nanos now;
    tr_nanos present;  // overdue timers fire as if due at this time
    uint64_t armed;    // number of arms so far
    tri_timer timers[TIMERS];
    tr_nanos turn[TIMERS];   // when it fires; -1: not armed
    uint64_t order[TIMERS];  // value of `armed` when it was armed
    tr_nanos due[TIMERS];    // as given, rounded up
    uint32_t kind[TIMERS];
} model;

static tr_nanos round_up(tr_nanos due)
{
    return (due + 7) / 8 * 8;
}

static tr_nanos round_down(tr_nanos now)
{
    return now / 8 * 8;
}

static tr_nanos later(tr_nanos a, tr_nanos b)
{
    return a > b ? a : b;
}

static void model_init(model *m, uint64_t seed, tr_nanos now)
{
    *m = (model){.now = now, .present = round_down(now)};
    tri_rand_init(&m->rand, seed);
    tri_wheel_init(&m->wheel, now);
    for (int i = 0; i < TIMERS; i++) {
        m->turn[i] = -1;
    }
}

/* Returns the timer that fires first, or -1. */
static int model_first(const model *m)
{
    int first = -1;

    for (int i = 0; i < TIMERS; i++) {
        if (m->turn[i] < 0) {
            continue;
        }
        if (first < 0 || m->turn[i] < m->turn[first] ||
            (m->turn[i] == m->turn[first] && m->order[i] < m->order[first])) {
            first = i;
        }
    }
    return first;
}

static void model_arm(model *m, int i, tr_nanos due)
{
    uint32_t kind = (uint32_t)tri_rand_below(&m->rand, 8);

    tri_wheel_arm(&m->wheel, &m->timers[i], due, kind);
    m->kind[i] = kind;
    m->due[i] = round_up(due);
    m->turn[i] = later(m->due[i], m->present);
    m->order[i] = m->armed++;
    assert_true(tri_timer_is_armed(&m->timers[i]));
}

static void model_cancel(model *m, int i)
{
    tri_wheel_cancel(&m->wheel, &m->timers[i]);
    m->turn[i] = -1;
    assert_false(tri_timer_is_armed(&m->timers[i]));
}

/* Returns a span of any size, often a round one, so that due times coincide. */
static tr_nanos random_span(model *m)
{
    static const tr_nanos round[] = {0,
                                     1,
                                     8,
                                     512,
                                     32768,
                                     TR_MS(1),
                                     TR_MS(10),
                                     TR_SECONDS(1),
                                     TR_SECONDS(30),
                                     HOUR,
                                     DAY};
    uint64_t bits = tri_rand_below(&m->rand, 56);

    if (tri_rand_below(&m->rand, 3) == 0) {
        return round[tri_rand_below(&m->rand, TRI_COUNT_OF(round))];
    }
    return (tr_nanos)tri_rand_below(&m->rand, UINT64_C(1) << bits);
}

/* Expires one timer of wheel and model. Returns false if none was due. */
static bool model_expire(model *m)
{
    int first = model_first(m);
    tri_timer *timer = tri_wheel_expire(&m->wheel, m->now);

    if (first < 0 || m->turn[first] > m->now) {
        assert_null(timer);
        m->present = later(m->present, round_down(m->now));
        return false;
    }
    assert_ptr_equal(timer, &m->timers[first]);
    assert_false(tri_timer_is_armed(timer));
    assert_true(tri_timer_due(timer) == m->due[first]);
    assert_int_equal(tri_timer_kind(timer), m->kind[first]);
    m->present = later(m->present, m->turn[first]);
    m->turn[first] = -1;
    return true;
}

static void model_check_next(const model *m)
{
    int first = model_first(m);
    tr_nanos next = tri_wheel_next(&m->wheel);

    if (first < 0) {
        assert_true(next == TR_FOREVER);
        return;
    }
    assert_true(next <= m->turn[first]);
    assert_true(next >= m->present);
}

static int random_timer(model *m)
{
    return (int)tri_rand_below(&m->rand, TIMERS);
}

static void model_step(model *m)
{
    switch (tri_rand_below(&m->rand, 8)) {
    case 0:
    case 1:
    case 2:
        model_arm(m, random_timer(m), m->now + random_span(m));
        break;
    case 3:
        model_cancel(m, random_timer(m));
        break;
    case 4:  // overdue
        model_arm(m, random_timer(m),
                  (tr_nanos)tri_rand_below(&m->rand, (uint64_t)m->now + 1));
        break;
    case 5:
        m->now += random_span(m) / 16;
        break;
    case 6:
        if (tri_wheel_next(&m->wheel) != TR_FOREVER) {
            m->now = later(m->now, tri_wheel_next(&m->wheel));
        }
        break;
    default:
        // Arms and cancels between the calls, as handlers do.
        while (model_expire(m)) {
            if (tri_rand_below(&m->rand, 4) == 0) {
                model_arm(m, random_timer(m), m->now + random_span(m) / 64);
            }
            if (tri_rand_below(&m->rand, 8) == 0) {
                tr_nanos back = random_span(m) / 64;
                model_arm(m, random_timer(m), later(0, m->now - back));
            }
            if (tri_rand_below(&m->rand, 4) == 0) {
                model_cancel(m, random_timer(m));
            }
        }
    }
}

static void test_random_operations_against_array(void **state)
{
    (void)state;
    static model m;
    const tr_nanos starts[] = {0, 1, DAY, INT64_C(1) << 60};

    for (uint64_t seed = 0; seed < 40; seed++) {
        model_init(&m, seed, starts[seed % TRI_COUNT_OF(starts)]);
        for (int step = 0; step < 5000; step++) {
            model_step(&m);
            model_check_next(&m);
            if (step % 16 == 0) {
                tri_wheel_check(&m.wheel);
            }
        }
        m.now = TR_FOREVER;
        while (model_expire(&m)) {
        }
        assert_int_equal(tri_wheel_count(&m.wheel), 0);
        tri_wheel_check(&m.wheel);
    }
}

/* A clock that moves only to tri_wheel_next hits every due time exactly. */
static void run_virtual_time(uint32_t timers, tr_nanos wait_min, tr_nanos span,
                             uint32_t *fired, uint32_t *early)
{
    tri_timer *all = calloc(timers, sizeof(*all));
    tri_wheel wheel;
    tri_rand rand;
    tr_nanos now = 12345;

    assert_non_null(all);
    tri_rand_init(&rand, timers);
    tri_wheel_init(&wheel, now);
    for (uint32_t i = 0; i < timers; i++) {
        tr_nanos wait =
            wait_min + (tr_nanos)tri_rand_below(&rand, (uint64_t)span);
        tri_wheel_arm(&wheel, &all[i], now + wait, i % 8);
    }
    *fired = 0;
    *early = 0;
    while (tri_wheel_next(&wheel) != TR_FOREVER) {
        tr_nanos next = tri_wheel_next(&wheel);
        assert_true(next > now);
        now = next;
        uint32_t before = *fired;
        tri_timer *timer;
        while ((timer = tri_wheel_expire(&wheel, now)) != NULL) {
            assert_true(tri_timer_due(timer) == now);
            (*fired)++;
        }
        *early += *fired == before;
    }
    assert_int_equal(*fired, timers);
    free(all);
}

static void test_virtual_time_hits_due_times_exactly(void **state)
{
    (void)state;
    uint32_t fired, early;

    for (uint32_t timers = 1; timers <= 8; timers++) {
        run_virtual_time(timers, 8, 30 * DAY, &fired, &early);
        assert_int_equal(early, 0);
        run_virtual_time(timers, HOUR, 64, &fired, &early);
        assert_int_equal(early, 0);
    }
    run_virtual_time(20000, 8, TR_SECONDS(30), &fired, &early);
    assert_true(early < fired / 2);
    run_virtual_time(20000, HOUR, TR_MS(1), &fired, &early);
    assert_true(early < fired / 2);
}

static void test_fires_neither_early_nor_late(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timer = {0};

    for (uint32_t bit = 3; bit < 63; bit++) {
        tr_nanos due = INT64_C(1) << bit;
        tri_wheel_init(&wheel, 0);
        tri_wheel_arm(&wheel, &timer, due, 5);
        assert_true(tri_wheel_next(&wheel) == due);
        assert_null(tri_wheel_expire(&wheel, due - 1));
        assert_true(tri_wheel_next(&wheel) == due);
        assert_ptr_equal(tri_wheel_expire(&wheel, due), &timer);
        assert_true(tri_timer_due(&timer) == due);
        assert_int_equal(tri_timer_kind(&timer), 5);
        assert_null(tri_wheel_expire(&wheel, due));
    }
}

static void test_due_is_rounded_up(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timer = {0};

    tri_wheel_init(&wheel, 0);
    tri_wheel_arm(&wheel, &timer, 1001, 7);
    assert_null(tri_wheel_expire(&wheel, 1001));
    assert_null(tri_wheel_expire(&wheel, 1007));
    assert_ptr_equal(tri_wheel_expire(&wheel, 1008), &timer);
    assert_int_equal(tri_timer_due(&timer), 1008);
}

/* Armed far ahead and close by, and once rearmed: the last arming counts. */
static void test_same_due_fires_in_arm_order(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timers[5] = {0};
    tr_nanos due = HOUR;

    tri_wheel_init(&wheel, 0);
    tri_wheel_arm(&wheel, &timers[3], due, 0);
    tri_wheel_arm(&wheel, &timers[1], due, 0);
    assert_null(tri_wheel_expire(&wheel, HOUR - TR_SECONDS(1)));
    tri_wheel_arm(&wheel, &timers[4], due, 0);
    assert_null(tri_wheel_expire(&wheel, HOUR - 64));
    tri_wheel_arm(&wheel, &timers[0], due, 0);
    tri_wheel_arm(&wheel, &timers[3], due, 0);
    assert_null(tri_wheel_expire(&wheel, HOUR - 1));
    tri_wheel_arm(&wheel, &timers[2], due, 0);
    const int expected[] = {1, 4, 0, 3, 2};
    for (size_t i = 0; i < TRI_COUNT_OF(expected); i++) {
        assert_ptr_equal(tri_wheel_expire(&wheel, due), &timers[expected[i]]);
    }
    assert_null(tri_wheel_expire(&wheel, due));
}

static void test_cancel_is_idempotent(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timer = {0};

    tri_wheel_init(&wheel, 100);
    tri_wheel_cancel(&wheel, &timer);
    tri_wheel_arm(&wheel, &timer, 500, 1);
    assert_int_equal(tri_wheel_count(&wheel), 1);
    tri_wheel_cancel(&wheel, &timer);
    tri_wheel_cancel(&wheel, &timer);
    assert_int_equal(tri_wheel_count(&wheel), 0);
    assert_true(tri_wheel_next(&wheel) == TR_FOREVER);
    assert_null(tri_wheel_expire(&wheel, 1000));
    tri_wheel_check(&wheel);
}

static void test_forever_never_fires(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timer = {0};

    tri_wheel_init(&wheel, 0);
    tri_wheel_arm(&wheel, &timer, TR_FOREVER, 1);
    assert_false(tri_timer_is_armed(&timer));
    assert_true(tri_wheel_next(&wheel) == TR_FOREVER);
    // TR_FOREVER disarms an armed timer.
    tri_wheel_arm(&wheel, &timer, 50, 1);
    tri_wheel_arm(&wheel, &timer, TR_FOREVER, 1);
    assert_false(tri_timer_is_armed(&timer));
    // The last possible time.
    tri_wheel_arm(&wheel, &timer, TR_FOREVER - 7, 1);
    assert_true(tri_wheel_next(&wheel) == TR_FOREVER - 7);
    assert_null(tri_wheel_expire(&wheel, TR_FOREVER - 8));
    assert_ptr_equal(tri_wheel_expire(&wheel, TR_FOREVER), &timer);
}

static void test_overdue_fires_at_once(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timers[4] = {0};

    tri_wheel_init(&wheel, HOUR);
    tri_wheel_arm(&wheel, &timers[0], HOUR + 8, 0);
    tri_wheel_arm(&wheel, &timers[1], 80, 1);
    tri_wheel_arm(&wheel, &timers[2], -5, 2);
    tri_wheel_arm(&wheel, &timers[3], HOUR, 3);
    tri_wheel_check(&wheel);
    assert_true(tri_wheel_next(&wheel) <= HOUR);
    assert_ptr_equal(tri_wheel_expire(&wheel, HOUR), &timers[1]);
    assert_int_equal(tri_timer_due(&timers[1]), 80);
    tri_wheel_cancel(&wheel, &timers[2]);
    assert_int_equal(tri_timer_due(&timers[2]), 0);
    assert_ptr_equal(tri_wheel_expire(&wheel, HOUR), &timers[3]);
    assert_null(tri_wheel_expire(&wheel, HOUR));
    assert_ptr_equal(tri_wheel_expire(&wheel, 2 * HOUR), &timers[0]);
}

static void test_a_clock_that_goes_back_fires_nothing(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer timer = {0};

    tri_wheel_init(&wheel, 0);
    assert_null(tri_wheel_expire(&wheel, HOUR));
    tri_wheel_arm(&wheel, &timer, HOUR + 80, 0);
    assert_null(tri_wheel_expire(&wheel, 0));
    tri_wheel_check(&wheel);
    assert_null(tri_wheel_expire(&wheel, HOUR + 79));
    assert_ptr_equal(tri_wheel_expire(&wheel, HOUR + 80), &timer);
}

/* Idle time of any length costs nothing, or this would never end. */
static void test_clock_may_jump(void **state)
{
    (void)state;
    tri_wheel wheel;
    tri_timer near = {0}, far = {0};
    tr_nanos now = 0;

    tri_wheel_init(&wheel, now);
    for (int i = 0; i < 10000; i++) {
        tri_wheel_arm(&wheel, &near, now + 8, 0);
        tri_wheel_arm(&wheel, &far, now + 9 * DAY, 0);
        now += 10 * DAY;
        assert_ptr_equal(tri_wheel_expire(&wheel, now), &near);
        assert_ptr_equal(tri_wheel_expire(&wheel, now), &far);
        assert_null(tri_wheel_expire(&wheel, now));
    }
}

/* The same calls on timers laid out the other way round. */
static void test_order_does_not_depend_on_addresses(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static tri_timer up[COUNT], down[COUNT];
    tri_wheel a, b;
    tri_rand rand;

    tri_rand_init(&rand, 9);
    tri_wheel_init(&a, 0);
    tri_wheel_init(&b, 0);
    for (int i = 0; i < COUNT; i++) {
        tr_nanos due = (tr_nanos)tri_rand_below(&rand, 300) * 1000;
        tri_wheel_arm(&a, &up[i], due, 0);
        tri_wheel_arm(&b, &down[COUNT - 1 - i], due, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        tri_timer *from_a = tri_wheel_expire(&a, DAY);
        tri_timer *from_b = tri_wheel_expire(&b, DAY);
        assert_non_null(from_a);
        assert_non_null(from_b);
        assert_int_equal(from_a - up, COUNT - 1 - (from_b - down));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_against_array),
        cmocka_unit_test(test_virtual_time_hits_due_times_exactly),
        cmocka_unit_test(test_fires_neither_early_nor_late),
        cmocka_unit_test(test_due_is_rounded_up),
        cmocka_unit_test(test_same_due_fires_in_arm_order),
        cmocka_unit_test(test_cancel_is_idempotent),
        cmocka_unit_test(test_forever_never_fires),
        cmocka_unit_test(test_overdue_fires_at_once),
        cmocka_unit_test(test_a_clock_that_goes_back_fires_nothing),
        cmocka_unit_test(test_clock_may_jump),
        cmocka_unit_test(test_order_does_not_depend_on_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
