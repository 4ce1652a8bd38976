/*
 * 17_fan_out.c - one slow subscriber does not stall the others, and the log
 * says who is slow and who waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Tick, (uint32_t, n));
TR_MESSAGE(Rest, (int64_t, span));
TR_MESSAGE(Seen, (uint32_t, count), (uint32_t, last));
TR_REQUEST(Read, Seen);
TR_MESSAGE(Err, (uint32_t, err));
TR_REQUEST(Listen, Err, (uint32_t, limit), (uint32_t, overflow),
           (const char *, topic));
TR_MESSAGE(Flood, (tr_ref, to), (uint32_t, count));

typedef struct Listener {
    Seen seen;
} Listener;

static tr_err on_tick(tr_ctx *ctx, Listener *self, const Tick *m)
{
    (void)ctx;
    self->seen.count++;
    self->seen.last = m->n;
    return TR_OK;
}

static tr_err on_rest(tr_ctx *ctx, Listener *self, const Rest *m)
{
    (void)self;
    return tr_sleep(ctx, m->span);
}

static tr_err on_read(tr_ctx *ctx, Listener *self, const Read *m)
{
    return tr_reply(ctx, m, .count = self->seen.count, .last = self->seen.last);
}

static tr_err on_listen(tr_ctx *ctx, Listener *self, const Listen *m)
{
    tr_overflow overflow = (tr_overflow)m->overflow;
    (void)self;
    if (m->topic != NULL) {
        return tr_reply(ctx, m,
                        .err =
                            tr_topic_join_with(ctx, m->topic, .limit = m->limit,
                                               .overflow = overflow));
    }
    return tr_reply(ctx, m,
                    .err = tr_subscribe_with(ctx, Tick, .limit = m->limit,
                                             .overflow = overflow));
}

static tr_err on_flood(tr_ctx *ctx, Listener *self, const Flood *m)
{
    (void)self;
    for (uint32_t i = 1; i <= m->count; i++) {
        tr_tell(ctx, m->to, Tick, .n = i);
    }
    return TR_OK;
}

TR_ACTOR(listener, Listener, TR_ON(Tick, on_tick), TR_ON(Rest, on_rest),
         TR_ON(Read, on_read), TR_ON(Listen, on_listen),
         TR_ON(Flood, on_flood));

static char logged[65536];

static void keep_line(void *user, const tr_log_record *record)
{
    (void)user;
    strncat(logged, record->path != NULL ? record->path : "-",
            sizeof(logged) - strlen(logged) - 1);
    strncat(logged, record->text, sizeof(logged) - strlen(logged) - 1);
    strncat(logged, "\n", sizeof(logged) - strlen(logged) - 1);
}

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
} world;

static world open_world(void)
{
    world w;
    logged[0] = '\0';
    TR_MUST(tr_sim_new(&w.sim, 3));
    TR_MUST(tr_system_open(&w.sys, .world = tr_sim_world(w.sim),
                           .log_level = TR_LOG_INFO, .log = keep_line));
    return w;
}

static void close_world(world w)
{
    assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
    tr_sim_free(w.sim);
}

static tr_err listen(world w, tr_ref ref, uint32_t limit, tr_overflow overflow,
                     const char *topic)
{
    Err reply;
    TR_MUST(tr_ask(w.sys, ref, &reply, 0, Listen, .limit = limit,
                   .overflow = overflow, .topic = topic));
    return (tr_err)reply.err;
}

/* Lets the world run for a span of its time; ref does not end meanwhile. */
static void run_for(world w, tr_ref ref, tr_nanos span)
{
    assert_int_equal(tr_join(w.sys, ref, span, NULL, NULL), TR_ETIMEDOUT);
}

/* Makes the actor sleep, and returns when it does. */
static void make_slow(world w, tr_ref ref)
{
    tr_tell(w.sys, ref, Rest, .span = TR_SECONDS(20));
    run_for(w, ref, TR_SECONDS(1));
}

static Seen seen_by(world w, tr_ref ref)
{
    Seen seen;
    TR_MUST(tr_ask(w.sys, ref, &seen, TR_MINUTES(1), Read));
    return seen;
}

static uint64_t events_lost(world w)
{
    tr_metrics_snapshot metrics = {.size = sizeof(metrics)};
    tr_metrics(w.sys, &metrics);
    return metrics.events_lost;
}

enum { PUBLISHED = 100, LIMIT = 10 };

/* Publishes the numbers from first to last, as events or to a topic. */
static void publish(world w, const char *topic, uint32_t first, uint32_t last)
{
    for (uint32_t n = first; n <= last; n++) {
        if (topic != NULL) {
            tr_topic_publish(w.sys, topic, Tick, .n = n);
        } else {
            tr_publish(w.sys, Tick, .n = n);
        }
    }
}

static void expect_stopped(world w, tr_ref ref)
{
    tr_result result;
    TR_MUST(tr_join(w.sys, ref, TR_MINUTES(1), &result, NULL));
    assert_int_equal(result.reason, TR_STOPPED);
}

/* Publishes while `slow`, who listens with that overflow, sleeps. */
static void fan_out(const char *topic, tr_overflow overflow)
{
    world w = open_world();
    tr_ref slow = tr_spawn(w.sys, listener, .name = "slow");
    tr_ref fast = tr_spawn(w.sys, listener, .name = "fast");
    assert_int_equal(listen(w, slow, LIMIT, overflow, topic), TR_OK);
    assert_int_equal(listen(w, fast, 0, TR_OVERFLOW_FAIL, topic), TR_OK);
    make_slow(w, slow);
    publish(w, topic, 1, PUBLISHED);
    assert_int_equal(seen_by(w, fast).count, PUBLISHED);
    Seen seen = seen_by(w, slow);
    assert_int_equal(seen.count, LIMIT);
    assert_int_equal(seen.last, LIMIT);
    assert_int_equal(events_lost(w), PUBLISHED - LIMIT);
    assert_non_null(strstr(logged, "/user/slow is too slow"));
    assert_null(strstr(logged, "/user/fast is too slow"));
    close_world(w);
}

static void test_a_slow_subscriber_misses_events(void **state)
{
    (void)state;
    fan_out(NULL, TR_OVERFLOW_DROP_NEW);
    fan_out(NULL, TR_OVERFLOW_FAIL);
}

static void test_a_slow_member_of_a_topic_misses_messages(void **state)
{
    (void)state;
    fan_out("ticks", TR_OVERFLOW_DROP_NEW);
    fan_out("ticks", TR_OVERFLOW_FAIL);
}

/* One message beyond the limit stops the subscriber, and none before it. */
static void stop_if_slow(const char *topic)
{
    world w = open_world();
    tr_ref slow = tr_spawn(w.sys, listener, .name = "slow");
    tr_ref fast = tr_spawn(w.sys, listener, .name = "fast");
    assert_int_equal(listen(w, slow, LIMIT, TR_OVERFLOW_STOP, topic), TR_OK);
    assert_int_equal(listen(w, fast, 0, TR_OVERFLOW_FAIL, topic), TR_OK);
    make_slow(w, slow);
    publish(w, topic, 1, LIMIT);
    run_for(w, slow, TR_SECONDS(1));
    assert_int_equal(tr_state_of(w.sys, slow), TR_STATE_RUNNING);
    publish(w, topic, LIMIT + 1, LIMIT + 1);
    expect_stopped(w, slow);
    assert_int_equal(seen_by(w, fast).count, LIMIT + 1);
    assert_int_equal(events_lost(w), 1);
    close_world(w);
}

static void test_a_slow_subscriber_may_be_stopped(void **state)
{
    (void)state;
    stop_if_slow(NULL);
    stop_if_slow("ticks");
}

static void test_a_publisher_neither_waits_nor_drops_old_mail(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref ref = tr_spawn(w.sys, listener);
    assert_int_equal(listen(w, ref, 1, TR_OVERFLOW_BLOCK, NULL), TR_EINVAL);
    assert_int_equal(listen(w, ref, 1, TR_OVERFLOW_DROP_OLD, "t"), TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_router(w.sys, listener, .limit = 1,
                                          .overflow = TR_OVERFLOW_BLOCK)),
                     TR_EINVAL);
    close_world(w);
}

/* Every second message is for the worker that sleeps. */
static void test_a_router_passes_over_a_full_worker(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref router = tr_router(w.sys, listener, .name = "router", .count = 2,
                              .limit = LIMIT);
    TR_MUST(tr_started(w.sys, router, 0));
    tr_ref one = tr_lookup(w.sys, "/user/router/0");
    tr_ref two = tr_lookup(w.sys, "/user/router/1");
    make_slow(w, one);
    for (uint32_t n = 1; n <= PUBLISHED; n++) {
        tr_tell(w.sys, router, Tick, .n = n);
        run_for(w, router, TR_MS(1));
    }
    assert_int_equal(seen_by(w, two).count, PUBLISHED - LIMIT);
    assert_int_equal(seen_by(w, one).count, LIMIT);
    close_world(w);
}

static void test_a_broadcast_makes_dead_letters_for_a_full_worker(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref router = tr_router(w.sys, listener, .name = "router", .count = 2,
                              .routing = TR_BROADCAST, .limit = LIMIT);
    TR_MUST(tr_started(w.sys, router, 0));
    tr_ref one = tr_lookup(w.sys, "/user/router/0");
    tr_ref two = tr_lookup(w.sys, "/user/router/1");
    make_slow(w, one);
    for (uint32_t n = 1; n <= PUBLISHED; n++) {
        tr_tell(w.sys, router, Tick, .n = n);
        run_for(w, router, TR_MS(1));
    }
    tr_dead_info dead = {.size = sizeof(dead)};
    assert_int_equal(tr_dead_letters(w.sys, &dead, 1), PUBLISHED - LIMIT);
    assert_int_equal(dead.reason, TR_DEAD_FULL);
    assert_int_equal(seen_by(w, two).count, PUBLISHED);
    assert_int_equal(seen_by(w, one).count, LIMIT);
    close_world(w);
}

/* ---- routers that have no worker left with room ---- */

enum { WORKERS = 2 };

static tr_ref worker_of(world w, uint32_t number)
{
    char path[64];
    snprintf(path, sizeof(path), "/user/router/%u", number);
    return tr_lookup(w.sys, path);
}

/* Makes both workers sleep with as many messages as the router allows. */
static tr_ref full_router(world w, tr_routing routing, tr_overflow overflow)
{
    tr_ref router = tr_router(
        w.sys, listener, .name = "router", .count = WORKERS, .routing = routing,
        .field = "n", .limit = LIMIT, .overflow = overflow);
    TR_MUST(tr_started(w.sys, router, 0));
    for (uint32_t i = 0; i < WORKERS; i++) {
        make_slow(w, worker_of(w, i));
        for (uint32_t n = 1; n <= LIMIT; n++) {
            tr_tell(w.sys, worker_of(w, i), Tick, .n = n);
        }
    }
    return router;
}

/* The router answers at once: the workers sleep for longer than the asker. */
static void expect_refused(world w, tr_ref router, uint32_t letters_each)
{
    tr_dead_info info = {.size = sizeof(info)};
    assert_int_equal(tr_ask(w.sys, router, NULL, TR_SECONDS(2), Read),
                     TR_EFULL);
    assert_int_equal(tr_dead_letters(w.sys, &info, 1), letters_each);
    assert_int_equal(info.reason, TR_DEAD_FULL);
    tr_tell(w.sys, router, Tick, .n = 7);
    run_for(w, router, TR_MS(10));
    assert_int_equal(tr_dead_letters(w.sys, &info, 1), 2 * letters_each);
}

static void refuse_when_full(tr_routing routing, tr_overflow overflow)
{
    world w = open_world();
    tr_ref router = full_router(w, routing, overflow);
    expect_refused(w, router, routing == TR_BROADCAST ? WORKERS : 1);
    run_for(w, router, TR_MINUTES(1));  // FAIL and DROP_NEW stop nobody
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(seen_by(w, worker_of(w, i)).count, LIMIT);
    }
    assert_int_equal(tr_ask(w.sys, router, NULL, TR_SECONDS(2), Read), TR_OK);
    close_world(w);
}

static void test_a_request_to_full_workers_gets_efull(void **state)
{
    (void)state;
    for (tr_routing routing = TR_ROUND_ROBIN; routing <= TR_HASH_OF_FIELD;
         routing++) {
        refuse_when_full(routing, TR_OVERFLOW_FAIL);
        refuse_when_full(routing, TR_OVERFLOW_DROP_NEW);
    }
}

/* One message stops the worker it was for; the other one goes on. */
static void test_a_full_worker_may_be_stopped(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref router = full_router(w, TR_ROUND_ROBIN, TR_OVERFLOW_STOP);
    tr_ref first = worker_of(w, 0), second = worker_of(w, 1);
    assert_int_equal(tr_ask(w.sys, router, NULL, TR_SECONDS(2), Read),
                     TR_EFULL);
    expect_stopped(w, first);
    assert_int_equal(seen_by(w, second).count, LIMIT);
    assert_int_equal(seen_by(w, router).count, LIMIT);  // the one that is left
    close_world(w);
}

static void test_a_broadcast_stops_every_full_worker(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref router = full_router(w, TR_BROADCAST, TR_OVERFLOW_STOP);
    tr_ref first = worker_of(w, 0), second = worker_of(w, 1);
    tr_tell(w.sys, router, Tick, .n = 7);
    expect_stopped(w, first);
    expect_stopped(w, second);
    expect_stopped(w, router);  // with its last worker
    close_world(w);
}

/* ---- senders that wait ---- */

static void test_the_log_says_who_waits_for_room(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref slow = tr_spawn(w.sys, listener, .name = "slow", .soft_limit = 5);
    tr_ref sender = tr_spawn(w.sys, listener, .name = "sender");
    make_slow(w, slow);
    tr_tell(w.sys, sender, Flood, .to = slow, .count = 20);
    run_for(w, sender, TR_SECONDS(5));
    const char *line = strstr(logged, "/user/sendera sender waits for room");
    assert_non_null(line);
    assert_non_null(strstr(line, "/user/slow"));
    run_for(w, sender, TR_SECONDS(20));
    assert_int_equal(seen_by(w, slow).count, 20);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_subscriber_misses_events),
        cmocka_unit_test(test_a_slow_member_of_a_topic_misses_messages),
        cmocka_unit_test(test_a_slow_subscriber_may_be_stopped),
        cmocka_unit_test(test_a_publisher_neither_waits_nor_drops_old_mail),
        cmocka_unit_test(test_a_router_passes_over_a_full_worker),
        cmocka_unit_test(test_a_broadcast_makes_dead_letters_for_a_full_worker),
        cmocka_unit_test(test_a_request_to_full_workers_gets_efull),
        cmocka_unit_test(test_a_full_worker_may_be_stopped),
        cmocka_unit_test(test_a_broadcast_stops_every_full_worker),
        cmocka_unit_test(test_the_log_says_who_waits_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
