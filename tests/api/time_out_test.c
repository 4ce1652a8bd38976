/*
 * time_out_test.c - rule 60: a time-out below zero is over; and an ask keeps
 * its time-out while it waits for room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Rest, (int64_t, span));
TR_MESSAGE(Count, (uint32_t, n));
TR_REQUEST(Ask, Count);
TR_REQUEST(Relay, Count, (tr_ref, to), (int64_t, timeout));
TR_MESSAGE(Later, (tr_ref, to), (tr_ref, tell));
TR_REQUEST(WaitFd, Count);

typedef struct Worker {
    uint32_t asked;
    tr_ref tell;
} Worker;

static tr_err on_rest(tr_ctx *ctx, Worker *self, const Rest *m)
{
    (void)self;
    return tr_sleep(ctx, m->span);
}

static tr_err on_ask(tr_ctx *ctx, Worker *self, const Ask *m)
{
    return tr_reply(ctx, m, .n = ++self->asked);
}

/* Asks another actor and replies with the error. */
static tr_err on_relay(tr_ctx *ctx, Worker *self, const Relay *m)
{
    (void)self;
    Count count;
    tr_err err = tr_ask(ctx, m->to, &count, m->timeout, Ask);
    if (err == TR_OK && m->timeout < 0) {
        return tr_reply(ctx, m, .n = TR_OK);
    }
    if (m->timeout < 0) {
        tr_future future = tr_async(ctx, m->to, m->timeout, Ask);
        if (tr_await(ctx, future, Ask, &count) != err ||
            tr_join(ctx, m->to, m->timeout, NULL, NULL) != err ||
            tr_started(ctx, m->to, m->timeout) != err) {
            return tr_reply(ctx, m, .n = TR_OK);
        }
    }
    return tr_reply(ctx, m, .n = err);
}

static tr_err then(tr_ctx *ctx, void *state, const void *reply, tr_err err)
{
    const Worker *self = state;
    (void)reply;
    tr_tell(ctx, self->tell, Count, .n = err);
    return TR_OK;
}

static tr_err on_later(tr_ctx *ctx, Worker *self, const Later *m)
{
    self->tell = m->tell;
    tr_ask_then(ctx, m->to, -1, then, Ask);
    tr_ask_pipe(ctx, m->to, -1, Ask);
    return TR_OK;
}

static tr_err on_failed(tr_ctx *ctx, Worker *self, const tr_ask_failed *m)
{
    tr_tell(ctx, self->tell, Count, .n = m->err);
    return TR_OK;
}

static tr_err on_wait_fd(tr_ctx *ctx, Worker *self, const WaitFd *m)
{
    uint32_t ready;
    (void)self;
    return tr_reply(ctx, m,
                    .n = tr_wait_fd(ctx, STDIN_FILENO, TR_FD_READ, -1, &ready));
}

TR_ACTOR(worker, Worker, TR_ON(Rest, on_rest), TR_ON(Ask, on_ask),
         TR_ON(Relay, on_relay), TR_ON(Later, on_later),
         TR_ON(tr_ask_failed, on_failed), TR_ON(WaitFd, on_wait_fd));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
} world;

static world open_world(void)
{
    world w;
    TR_MUST(tr_sim_new(&w.sim, 7));
    TR_MUST(tr_system_open(&w.sys, .world = tr_sim_world(w.sim),
                           .log_level = TR_LOG_ERROR));
    return w;
}

static void close_world(world w)
{
    assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
    tr_sim_free(w.sim);
}

/* Spawns an actor that sleeps and whose mailbox, which blocks, is full. */
static tr_ref spawn_full(tr_system *sys, tr_nanos sleeps)
{
    tr_ref ref = tr_spawn(sys, worker, .mailbox_limit = 1,
                          .overflow = TR_OVERFLOW_BLOCK);
    TR_MUST(tr_started(sys, ref, 0));
    tr_tell(sys, ref, Rest, .span = sleeps);
    tr_actor_info info = {.size = sizeof(info)};
    do {  // a join with a time-out lets the world run
        assert_int_equal(tr_join(sys, ref, TR_MS(1), NULL, NULL), TR_ETIMEDOUT);
        TR_MUST(tr_actor_info_of(sys, ref, &info));
    } while (info.depth > 0);
    tr_tell(sys, ref, Rest, .span = 0);
    return ref;
}

static void test_an_outside_ask_keeps_its_time_out_at_a_full_mailbox(
    void **state)
{
    (void)state;
    world w = open_world();
    tr_ref full = spawn_full(w.sys, TR_SECONDS(20));
    tr_nanos start = tr_now(w.sys);
    Count count;
    assert_int_equal(tr_ask(w.sys, full, &count, TR_MS(10), Ask), TR_ETIMEDOUT);
    assert_true(tr_now(w.sys) - start < TR_SECONDS(5));
    close_world(w);
}

static void test_an_ask_in_a_handler_waits_for_room(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref asker = tr_spawn(w.sys, worker);
    tr_ref full = spawn_full(w.sys, TR_SECONDS(2));
    Count count;
    TR_MUST(tr_ask(w.sys, asker, &count, 0, Relay, .to = full,
                   .timeout = TR_MS(100)));
    assert_int_equal(count.n, TR_ETIMEDOUT);
    TR_MUST(tr_ask(w.sys, asker, &count, 0, Relay, .to = full,
                   .timeout = TR_SECONDS(10)));
    assert_int_equal(count.n, TR_OK);
    TR_MUST(tr_ask(w.sys, full, &count, 0, Ask));
    assert_int_equal(count.n, 2);  // the ask that timed out did not run
    close_world(w);
}

static void test_a_time_out_below_zero_is_over(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref one = tr_spawn(w.sys, worker), two = tr_spawn(w.sys, worker);
    tr_nanos start = tr_now(w.sys);
    Count count;
    assert_int_equal(tr_ask(w.sys, one, &count, -1, Ask), TR_ETIMEDOUT);
    assert_non_null(strstr(tr_error_text(w.sys), "timed out"));
    assert_int_equal(tr_started(w.sys, one, -1), TR_ETIMEDOUT);
    assert_int_equal(tr_join(w.sys, one, INT64_MIN, NULL, NULL), TR_ETIMEDOUT);
    TR_MUST(tr_ask(w.sys, two, &count, 0, Relay, .to = one, .timeout = -1));
    assert_int_equal(count.n, TR_ETIMEDOUT);
    TR_MUST(tr_ask(w.sys, two, &count, 0, WaitFd));
    assert_int_equal(count.n, TR_ETIMEDOUT);
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, w.sys));
    tr_tell(probe, two, Later, .to = one, .tell = tr_probe_ref(probe));
    assert_int_equal(tr_expect(probe, 0, Count)->n, TR_ETIMEDOUT);
    assert_int_equal(tr_expect(probe, 0, Count)->n, TR_ETIMEDOUT);
    tr_probe_free(probe);
    TR_MUST(tr_ask(w.sys, one, &count, 0, Ask));
    assert_int_equal(count.n, 1);  // no other request was sent
    assert_true(tr_now(w.sys) - start < TR_SECONDS(5));
    close_world(w);
}

static void test_options_refuse_a_time_out_below_zero(void **state)
{
    tr_system *sys;
    (void)state;
    assert_int_equal(tr_system_open(&sys, .ask_timeout = -1), TR_EINVAL);
    assert_int_equal(tr_system_open(&sys, .close_timeout = -1), TR_EINVAL);
    assert_int_equal(tr_system_open(&sys, .handler_limit = -1), TR_EINVAL);
}

static void test_a_close_below_zero_gives_the_actors_no_time(void **state)
{
    (void)state;
    world w = open_world();
    tr_ref ref = tr_spawn(w.sys, worker, .stop_timeout = TR_SECONDS(20));
    TR_MUST(tr_started(w.sys, ref, 0));
    tr_tell(w.sys, ref, Rest, .span = TR_SECONDS(20));
    assert_int_equal(tr_join(w.sys, ref, TR_MS(500), NULL, NULL), TR_ETIMEDOUT);
    assert_int_equal(tr_system_close(w.sys, -1), TR_ETIMEDOUT);
    tr_sim_free(w.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_an_outside_ask_keeps_its_time_out_at_a_full_mailbox),
        cmocka_unit_test(test_an_ask_in_a_handler_waits_for_room),
        cmocka_unit_test(test_a_time_out_below_zero_is_over),
        cmocka_unit_test(test_options_refuse_a_time_out_below_zero),
        cmocka_unit_test(test_a_close_below_zero_gives_the_actors_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
