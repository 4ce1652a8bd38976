/*
 * 12_what_an_end_reports.c - a failing stop hook, the hooks of an actor that
 * could not start, the numbers of a close report, the time-out of a close, the
 * metric `asks`, and asking another system inside a handler.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Pong, (uint32_t, err));
TR_REQUEST(Ping, Pong);

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(plain, void, TR_ON(Ping, on_ping));

/* ---- stop hooks that fail ---- */

static tr_err bad_end(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    return tr_fail(ctx, TR_EUSER + 1, "cannot close the ledger");
}

static tr_err bad_begin_of_end(tr_ctx *ctx, void *self)
{
    (void)self;
    tr_panic(ctx, "cannot say goodbye");
}

TR_ACTOR(bad_post_stop, void, TR_ON(Ping, on_ping),
         TR_HOOK(post_stop, bad_end));
TR_ACTOR(bad_both, void, TR_ON(Ping, on_ping),
         TR_HOOK(pre_stop, bad_begin_of_end), TR_HOOK(post_stop, bad_end));

static tr_result stopped(tr_system *sys, const tr_actor_def *def, bool joinable)
{
    tr_ref ref = (tr_spawn)((tr_from){.sys = sys}, def,
                            TR_OPTIONS(tr_spawn_options, .joinable = joinable));
    tr_result result;
    assert_int_equal(tr_started(sys, ref, 0), TR_OK);
    if (joinable) {
        tr_stop(sys, ref);
    } else {  // the join comes first
        tr_poison(sys, ref);
    }
    assert_int_equal(tr_join(sys, ref, 0, &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_STOPPED);
    return result;
}

static void test_first_week_12_a_join_tells_of_a_failing_stop_hook(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .log_level = TR_LOG_ERROR),
                     TR_OK);
    for (int joinable = 0; joinable < 2; joinable++) {
        tr_result r = stopped(sys, &bad_post_stop, joinable);
        assert_int_equal(r.err, TR_EUSER + 1);
        assert_int_equal(r.phase, TR_IN_STOP);
        assert_string_equal(r.text, "cannot close the ledger");
        r = stopped(sys, &bad_both, joinable);  // the first error is kept
        assert_int_equal(r.err, TR_EPANIC);
        assert_string_equal(r.text, "cannot say goodbye");
        r = stopped(sys, &plain, joinable);
        assert_int_equal(r.err, TR_OK);
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

/* ---- hooks after a failed start ---- */

static int pre_stops, post_stops;

static tr_err bad_start(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_fail(ctx, TR_EUSER, "cannot open the ledger");
}

static tr_err count_pre_stop(tr_ctx *ctx, void *self)
{
    (void)ctx, (void)self;
    pre_stops++;
    return TR_OK;
}

static tr_err count_post_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self;
    assert_int_equal(reason, TR_FAILED);
    post_stops++;
    return TR_OK;
}

TR_ACTOR(cannot_start, void, TR_ON(Ping, on_ping),
         TR_HOOK(pre_start, bad_start), TR_HOOK(pre_stop, count_pre_stop),
         TR_HOOK(post_stop, count_post_stop));

static void test_first_week_12_L14_a_failed_start_runs_post_stop_only(
    void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .log_level = TR_LOG_ERROR),
                     TR_OK);
    tr_ref ref = tr_spawn(sys, cannot_start, .joinable = true);
    tr_result r;
    assert_int_equal(tr_join(sys, ref, 0, &r, NULL), TR_OK);
    assert_int_equal(r.reason, TR_FAILED);
    assert_int_equal(r.phase, TR_IN_START);
    assert_int_equal(pre_stops, 0);
    assert_int_equal(post_stops, 1);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

/* ---- numbers ---- */

static void test_first_week_12_SH13_the_report_counts_from_the_beginning(
    void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    for (int i = 0; i < 200; i++) {
        tr_ref ref = tr_spawn(sys, plain);
        assert_int_equal(tr_ref_err(ref), TR_OK);
    }
    tr_ref early = tr_spawn(sys, plain);
    tr_stop(sys, early);
    tr_sim_advance(sim, TR_MS(10));
    tr_system_terminate(sys);
    tr_sim_advance(sim, TR_SECONDS(1));  // most of them have ended now
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(sys, 0, &report), TR_OK);
    assert_int_equal(report.stopped, 200);
    tr_sim_free(sim);
}

/* ---- connections that are open ---- */

enum { CLIENTS = 200 };

typedef struct Visitor {
    tr_stream *stream;
} Visitor;

static tr_err visitor_run(tr_ctx *ctx, Visitor *self)
{
    char byte;
    size_t got;
    TR_TRY(tr_write(ctx, self->stream, 0, {"!", 1}));
    return tr_read(ctx, self->stream, &byte, 1, 0, &got);
}

TR_ACTOR(visitor, Visitor, TR_HOOK(on_run, visitor_run));

static void test_first_week_12_SH13_open_connections_count(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    tr_stream *clients[CLIENTS];
    char at[TR_ADDRESS_SIZE], byte;
    size_t got;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref server = tr_serve(sys, "tcp://127.0.0.1:0", visitor, .bound = at);
    assert_int_equal(tr_ref_err(server), TR_OK);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(tr_connect(sys, &clients[i], at, 0), TR_OK);
        assert_int_equal(tr_read(sys, clients[i], &byte, 1, 0, &got), TR_OK);
    }
    tr_system_terminate(sys);
    tr_sim_advance(sim, TR_MINUTES(1));
    for (int i = 0; i < CLIENTS; i++) {
        tr_stream_close(sys, clients[i]);
    }
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(sys, 0, &report), TR_OK);
    assert_int_equal(report.stopped, CLIENTS + 1);  // and the server
    assert_int_equal(report.forced, 0);
    tr_sim_free(sim);
}

static void test_first_week_12_PA5_asks_of_outside_threads_count(void **state)
{
    (void)state;
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys), TR_OK);
    tr_ref ref = tr_spawn(sys, plain);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tr_ask(sys, ref, NULL, 0, Ping), TR_OK);
    }
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    assert_int_equal(m.asks, 5);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- a close that is late ---- */

TR_MESSAGE(Dawdle);

/* Waits again and again until it is forced, as far as a handler can. */
static tr_err on_dawdle(tr_ctx *ctx, void *self, const Dawdle *m)
{
    (void)self, (void)m;
    return tr_sleep(ctx, TR_MINUTES(60));
}

static tr_err end_in_an_hour(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    return tr_sleep(ctx, TR_MINUTES(60));
}

static tr_err hook_in_an_hour(tr_ctx *ctx, void *self,
                              const tr_termination_hook *m)
{
    (void)self, (void)m;  // never calls tr_termination_done
    return tr_sleep(ctx, TR_MINUTES(60));
}

static tr_err wants_a_hook(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_on_terminate(ctx);
}

TR_ACTOR(late, void, TR_HOOK(pre_start, wants_a_hook), TR_ON(Dawdle, on_dawdle),
         TR_ON(tr_termination_hook, hook_in_an_hour),
         TR_HOOK(post_stop, end_in_an_hour));

/* On virtual time: the clock says how long the close has waited. */
static void test_first_week_12_SH12_a_close_keeps_its_time_out(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tr_sim *sim;
        tr_system *sys;
        assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
        assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                        .log_level = TR_LOG_ERROR + 1),
                         TR_OK);
        tr_ref refs[] = {
            tr_top_level(sys, late, .name = "top",
                         .stop_timeout = TR_MINUTES(60)),
            tr_spawn_temp(sys, late, .stop_timeout = TR_MINUTES(60)),
            tr_spawn(sys, late, .stop_timeout = TR_MINUTES(60)),
        };
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(tr_started(sys, refs[i], 0), TR_OK);
            tr_tell(sys, refs[i], Dawdle);
        }
        tr_sim_advance(sim, TR_MS(1));
        tr_nanos start = tr_sim_now(sim);
        tr_close_report report = {.size = sizeof(report)};
        assert_int_equal(tr_system_close_report(sys, TR_MS(500), &report),
                         TR_ETIMEDOUT);
        assert_true(tr_sim_now(sim) - start <= TR_MS(500));
        assert_int_equal(report.forced, 3);
        assert_int_equal(report.zombies, 0);
        tr_sim_free(sim);
    }
}

/* ---- handlers that never return ---- */

enum { STUCK = 3 };

static sem_t stuck;

static tr_err on_stick(tr_ctx *ctx, void *self, const Dawdle *m)
{
    (void)ctx, (void)self, (void)m;
    sem_post(&stuck);
    while (pause() != 0) {  // always
    }
    return TR_OK;
}

TR_ACTOR(sticky, void, TR_ON(Dawdle, on_stick));

/* Closes a system whose handlers never return; the exit status is 0. */
static void close_stuck(void)
{
    tr_system *sys;
    tr_close_report report = {.size = sizeof(report)};
    sem_init(&stuck, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = STUCK + 1,
                           .log_level = TR_LOG_ERROR + 1));
    for (int i = 0; i < STUCK; i++) {
        tr_tell(sys, tr_spawn(sys, sticky), Dawdle);
    }
    for (int i = 0; i < STUCK; i++) {
        sem_wait(&stuck);
    }
    tr_err err = tr_system_close_report(sys, TR_MS(500), &report);
    _exit(err != TR_ETIMEDOUT || report.forced != STUCK ||
          report.zombies != STUCK);
}

/* How long it takes is a matter of unit.system.shutdown_late. */
static void test_first_week_12_SH12_handlers_that_never_return(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close_stuck();
    }
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- another system ---- */

typedef struct Bridge {
    tr_system *other;
    tr_ref far;
} Bridge;

static tr_err on_bridge(tr_ctx *ctx, Bridge *self, const Ping *m)
{
    tr_err ask = tr_ask(self->other, self->far, NULL, 0, Ping);
    tr_err join = tr_join(self->other, self->far, 0, NULL, NULL);
    tr_err started = tr_started(self->other, self->far, 0);
    return tr_reply(ctx, m, ask == join && ask == started ? ask : TR_EUSER);
}

TR_ACTOR(bridge, Bridge, TR_ON(Ping, on_bridge));

static void test_first_week_12_rule_19_waiting_for_another_system(void **state)
{
    (void)state;
    tr_system *here, *there;
    assert_int_equal(tr_system_open(&here, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    assert_int_equal(tr_system_open(&there, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    tr_ref far = tr_spawn(there, plain);
    tr_ref b =
        tr_spawn(here, bridge, TR_INIT(bridge, .other = there, .far = far));
    Pong pong;
    assert_int_equal(tr_ask(here, b, &pong, 0, Ping), TR_OK);
    assert_int_equal(pong.err, TR_EWOULDBLOCK);
    assert_int_equal(tr_system_close(here, 0), TR_OK);
    assert_int_equal(tr_system_close(there, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_first_week_12_a_join_tells_of_a_failing_stop_hook),
        cmocka_unit_test(
            test_first_week_12_L14_a_failed_start_runs_post_stop_only),
        cmocka_unit_test(
            test_first_week_12_SH13_the_report_counts_from_the_beginning),
        cmocka_unit_test(test_first_week_12_SH13_open_connections_count),
        cmocka_unit_test(test_first_week_12_SH12_a_close_keeps_its_time_out),
        cmocka_unit_test(test_first_week_12_SH12_handlers_that_never_return),
        cmocka_unit_test(test_first_week_12_PA5_asks_of_outside_threads_count),
        cmocka_unit_test(test_first_week_12_rule_19_waiting_for_another_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
