/*
 * serve_test.c - servers: limits, failures, slow clients and draining, in the
 * real world and in a simulated one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <troupe/troupe.h>

#define ANY  "tcp://127.0.0.1:0"
#define LONG TR_SECONDS(60)

typedef struct Line {
    tr_stream *stream;
    _Atomic(uint32_t) *ended;  // or NULL
} Line;

/* Echoes lines. "fail" fails, "panic" panics, "slow" says so and sleeps. */
static tr_err line_run(tr_ctx *ctx, Line *self)
{
    char line[64];
    size_t got;

    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0,
                             &got));
        if (got == 0) {
            return TR_OK;
        }
        if (strncmp(line, "fail", 4) == 0) {
            return tr_fail(ctx, TR_EFAILED, "as the client wished");
        }
        TR_ASSERT(ctx, strncmp(line, "panic", 5) != 0);
        if (strncmp(line, "slow", 4) == 0) {
            TR_TRY(tr_write(ctx, self->stream, 0, {"wait\n", 5}));
            TR_TRY(tr_sleep(ctx, TR_MS(100)));
        }
        TR_TRY(tr_write(ctx, self->stream, 0, {line, got}));
    }
}

static tr_err line_stop(tr_ctx *ctx, Line *self, tr_reason reason)
{
    (void)ctx;
    (void)reason;
    if (self->ended != NULL) {
        atomic_fetch_add(self->ended, 1);
    }
    return TR_OK;
}

TR_ACTOR(liner, Line, TR_HOOK(on_run, line_run), TR_HOOK(post_stop, line_stop));

/* A connection that others write to, while on_run reads. */
TR_MESSAGE(Here, (tr_ref, ref));
TR_MESSAGE(Write, (const char *, text));
TR_REQUEST(Flood, tr_none);

typedef struct Duplex {
    tr_stream *stream;
    tr_ref owner;  // gets a Here
} Duplex;

/* Repeats each line through the mailbox; "bye" ends at once. */
static tr_err duplex_run(tr_ctx *ctx, Duplex *self)
{
    char line[64] = "";
    size_t got;

    tr_tell(ctx, self->owner, Here, .ref = tr_self(ctx));
    do {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line) - 1, 0,
                             &got));
        line[got] = '\0';
        tr_tell(ctx, tr_self(ctx), Write, .text = line);
    } while (got > 0 && strcmp(line, "bye\n") != 0);
    return TR_OK;
}

static tr_err on_write(tr_ctx *ctx, Duplex *self, const Write *m)
{
    return tr_write(ctx, self->stream, 0, {m->text, strlen(m->text)});
}

/* Writes until the connection breaks. */
static tr_err on_flood(tr_ctx *ctx, Duplex *self, const Flood *m)
{
    static const char flood[64 * 1024];
    (void)m;
    for (;;) {
        TR_TRY(tr_write(ctx, self->stream, 0, {flood, sizeof(flood)}));
    }
}

TR_ACTOR(duplex, Duplex, TR_HOOK(on_run, duplex_run), TR_ON(Write, on_write),
         TR_ON(Flood, on_flood));

/* ---- a system in one of the worlds ---- */

static void discard(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static tr_system *open_in(tr_sim **sim, bool simulated)
{
    tr_system *sys;

    *sim = NULL;
    if (simulated) {
        assert_int_equal(tr_sim_new(sim, 3), TR_OK);
    }
    assert_int_equal(
        tr_system_open(&sys, .log = discard,
                       .world = simulated ? tr_sim_world(*sim) : NULL),
        TR_OK);
    return sys;
}

static void close_in(tr_sim *sim, tr_system *sys)
{
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

static void in_both_worlds(void (*check)(tr_system *sys))
{
    for (int simulated = 0; simulated < 2; simulated++) {
        tr_sim *sim;
        tr_system *sys = open_in(&sim, simulated);
        check(sys);
        close_in(sim, sys);
    }
}

static tr_stream *client_of(tr_system *sys, const char *at)
{
    tr_stream *stream;

    assert_int_equal(tr_connect(sys, &stream, at, LONG), TR_OK);
    return stream;
}

static void say(tr_system *sys, tr_stream *stream, const char *text)
{
    assert_int_equal(tr_write(sys, stream, LONG, {text, strlen(text)}), TR_OK);
}

static void expect_line(tr_system *sys, tr_stream *stream, const char *text)
{
    char line[64] = "";
    size_t got;

    assert_int_equal(
        tr_read_until(sys, stream, '\n', line, sizeof(line) - 1, LONG, &got),
        TR_OK);
    assert_string_equal(line, text);
}

/* The other side has closed, in good order or with a reset. */
static void expect_end(tr_system *sys, tr_stream *stream)
{
    char text[4];
    size_t got;
    tr_err err = tr_read(sys, stream, text, 4, LONG, &got);

    assert_true(err == TR_ERESET || (err == TR_OK && got == 0));
    tr_stream_close(sys, stream);
}

/* ---- tests ---- */

static void check_a_failure(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, liner, .name = "server", .bound = at);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *good = client_of(sys, at);

    say(sys, good, "one\n");
    expect_line(sys, good, "one\n");
    for (int i = 0; i < 10; i++) {  // more than any limit of restarts
        tr_stream *bad = client_of(sys, at);
        say(sys, bad, i % 2 == 0 ? "fail\n" : "panic\n");
        expect_end(sys, bad);
    }
    for (int i = 0; i < 10; i++) {  // unread bytes: the close is a reset
        tr_stream *bad = client_of(sys, at);
        say(sys, bad, "one\ntwo\nthree\n");
        expect_line(sys, bad, "one\n");
        tr_stream_close(sys, bad);
    }
    say(sys, good, "still here\n");
    expect_line(sys, good, "still here\n");
    assert_int_equal(tr_state_of(sys, ref), TR_STATE_RUNNING);
    tr_stream_close(sys, good);
}

static void test_a_failing_connection_ends_alone(void **state)
{
    (void)state;
    in_both_worlds(check_a_failure);
}

static void check_last_words(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, duplex, .bound = at);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *client = client_of(sys, at);

    say(sys, client, "one\ntwo\nbye\n");
    expect_line(sys, client, "one\n");
    expect_line(sys, client, "two\n");
    expect_line(sys, client, "bye\n");
    expect_end(sys, client);
}

static void test_mail_is_handled_after_on_run(void **state)
{
    (void)state;
    in_both_worlds(check_last_words);
}

static void check_broken_in_handler(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_probe *owner, *events;
    assert_int_equal(tr_probe_new(&owner, sys), TR_OK);
    assert_int_equal(tr_probe_new(&events, sys), TR_OK);
    tr_probe_subscribe(events, tr_supervision_event);
    tr_ref ref =
        tr_serve(sys, ANY, duplex, .bound = at, .write_timeout = TR_MS(20),
                 TR_INIT(duplex, .owner = tr_probe_ref(owner)));
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *client = client_of(sys, at);

    tr_ref connection = tr_expect(owner, LONG, Here)->ref;
    tr_probe_watch(owner, connection);
    // The client does not read. The asker hears of it; for everybody else it
    // is the end of a connection.
    assert_int_equal(tr_ask(sys, connection, NULL, LONG, Flood), TR_ETIMEDOUT);
    assert_int_equal(tr_expect(owner, LONG, tr_terminated)->reason, TR_STOPPED);
    tr_expect_nothing(events, TR_MS(1));
    tr_stream_close(sys, client);
    tr_probe_free(events);
    tr_probe_free(owner);
}

static void test_a_broken_connection_in_a_handler_is_no_failure(void **state)
{
    (void)state;
    in_both_worlds(check_broken_in_handler);
}

static void check_limit(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE], text[4];
    size_t got;
    tr_ref ref = tr_serve(sys, ANY, liner, .bound = at, .connections = 2);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *one = client_of(sys, at), *two = client_of(sys, at);
    tr_stream *three = client_of(sys, at);  // waits to be accepted

    say(sys, one, "1\n");
    say(sys, two, "2\n");
    say(sys, three, "3\n");
    expect_line(sys, one, "1\n");
    expect_line(sys, two, "2\n");
    assert_int_equal(tr_read(sys, three, text, 4, TR_MS(30), &got),
                     TR_ETIMEDOUT);
    tr_stream_close(sys, one);
    expect_line(sys, three, "3\n");
    tr_stream_close(sys, two);
    tr_stream_close(sys, three);
}

static void check_limit_per_address(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, liner, .bound = at, .per_address = 1);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *one = client_of(sys, at);

    say(sys, one, "1\n");
    expect_line(sys, one, "1\n");
    expect_end(sys, client_of(sys, at));
    say(sys, one, "2\n");
    expect_line(sys, one, "2\n");
    tr_stream_close(sys, one);
}

static void check_rate(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, liner, .bound = at, .per_second = 1);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_nanos start = tr_now(sys);

    for (int i = 0; i < 3; i++) {
        tr_stream *one = client_of(sys, at);
        say(sys, one, "x\n");
        expect_line(sys, one, "x\n");
        tr_stream_close(sys, one);
    }
    assert_true(tr_now(sys) - start >= TR_SECONDS(1));
}

static void test_a_server_has_limits(void **state)
{
    (void)state;
    in_both_worlds(check_limit);
    in_both_worlds(check_limit_per_address);
    tr_sim *sim;
    tr_system *sys = open_in(&sim, true);  // virtual time: it waits seconds
    check_rate(sys);
    close_in(sim, sys);
}

static void check_timeouts(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    tr_ref ref =
        tr_serve(sys, ANY, liner, .bound = at, .read_timeout = TR_MS(20));
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *silent = client_of(sys, at);

    say(sys, silent, "half a line");
    expect_end(sys, silent);
}

static void test_a_silent_client_is_cut_off(void **state)
{
    (void)state;
    in_both_worlds(check_timeouts);
}

static void check_drain(tr_system *sys)
{
    char at[TR_ADDRESS_SIZE];
    _Atomic(uint32_t) ended = 0;
    tr_ref ref =
        tr_serve(sys, ANY, liner, .bound = at, TR_INIT(liner, .ended = &ended));
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *idle = client_of(sys, at), *busy = client_of(sys, at), *late;

    say(sys, idle, "1\n");
    expect_line(sys, idle, "1\n");
    say(sys, busy, "2\n");
    expect_line(sys, busy, "2\n");
    say(sys, busy, "slow\nnext\n");
    expect_line(sys, busy, "wait\n");
    tr_stop(sys, ref);
    // What has come is answered; then the connections end.
    expect_line(sys, busy, "slow\n");
    expect_line(sys, busy, "next\n");
    expect_end(sys, busy);
    expect_end(sys, idle);
    tr_err joined = tr_join(sys, ref, LONG, NULL, NULL);
    assert_true(joined == TR_OK || joined == TR_ENOENT);  // it may be gone
    assert_int_equal(atomic_load(&ended), 2);
    assert_int_equal(tr_connect(sys, &late, at, LONG), TR_EUNREACHABLE);
}

static void test_a_stopped_server_drains(void **state)
{
    (void)state;
    in_both_worlds(check_drain);
}

/* A connection that does not end is stopped after the drain. */
static void test_a_drain_has_a_deadline(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys = open_in(&sim, true);
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, liner, .bound = at, .drain = TR_SECONDS(2));
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stream *one = client_of(sys, at);

    say(sys, one, "half a line");
    tr_sim_advance(sim, TR_SECONDS(1));
    tr_nanos start = tr_sim_now(sim);
    tr_stop(sys, ref);
    expect_end(sys, one);
    assert_true(tr_sim_now(sim) - start >= TR_SECONDS(2));
    assert_true(tr_sim_now(sim) - start < TR_SECONDS(4));
    close_in(sim, sys);
}

static void test_a_server_that_cannot_listen_is_nobody(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys = open_in(&sim, false);
    char at[TR_ADDRESS_SIZE];
    tr_ref ref = tr_serve(sys, ANY, liner, .bound = at, .name = "one");

    assert_int_equal(tr_ref_err(ref), TR_OK);
    assert_int_equal(tr_ref_err(tr_serve(sys, at, liner)), TR_EEXIST);
    assert_int_equal(tr_ref_err(tr_serve(sys, "nowhere", liner)), TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_serve(sys, ANY, liner, .drain = -1)),
                     TR_EINVAL);
    // The name is taken: the listener is closed again.
    assert_int_equal(tr_ref_err(tr_serve(sys, ANY, liner, .name = "one")),
                     TR_EEXIST);
    close_in(sim, sys);
}

/* ---- an acceptor of one's own ---- */

typedef struct Acceptor {
    char *at;
    tr_stream *listener;
    bool waste;  // accepts and uses nothing
} Acceptor;

typedef struct Child {
    tr_stream *stream;
} Child;

static tr_err child_run(tr_ctx *ctx, Child *self)
{
    TR_TRY(tr_write(ctx, self->stream, 0, {"hello\n", 6}));
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}
TR_ACTOR(child, Child, TR_HOOK(on_run, child_run));

static tr_err acceptor_start(tr_ctx *ctx, Acceptor *self)
{
    TR_TRY(tr_listen(ctx, &self->listener, ANY, 0));
    (void)tr_stream_address(self->listener, false, self->at, TR_ADDRESS_SIZE);
    return TR_OK;
}

static tr_err acceptor_run(tr_ctx *ctx, Acceptor *self)
{
    for (;;) {
        tr_stream *stream;
        TR_TRY(tr_accept(ctx, &stream, self->listener, 0));
        if (!self->waste) {
            (void)tr_spawn(ctx, child, TR_INIT(child, .stream = stream));
        }
    }
}
TR_ACTOR(acceptor, Acceptor, TR_HOOK(pre_start, acceptor_start),
         TR_HOOK(on_run, acceptor_run));

static void check_acceptor(tr_system *sys)
{
    for (int waste = 0; waste < 2; waste++) {
        char at[TR_ADDRESS_SIZE];
        tr_ref ref = tr_spawn(sys, acceptor,
                              TR_INIT(acceptor, .at = at, .waste = waste));
        assert_int_equal(tr_started(sys, ref, LONG), TR_OK);
        tr_stream *client = client_of(sys, at);
        if (!waste) {  // the stream ends with the child that has written to it
            expect_line(sys, client, "hello\n");
        } else {  // what nobody has used ends with the listener's actor
            tr_stop(sys, ref);
        }
        expect_end(sys, client);
    }
}

static void test_accepted_streams_belong_to_their_users(void **state)
{
    (void)state;
    in_both_worlds(check_acceptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failing_connection_ends_alone),
        cmocka_unit_test(test_mail_is_handled_after_on_run),
        cmocka_unit_test(test_a_broken_connection_in_a_handler_is_no_failure),
        cmocka_unit_test(test_a_server_has_limits),
        cmocka_unit_test(test_a_silent_client_is_cut_off),
        cmocka_unit_test(test_a_stopped_server_drains),
        cmocka_unit_test(test_a_drain_has_a_deadline),
        cmocka_unit_test(test_a_server_that_cannot_listen_is_nobody),
        cmocka_unit_test(test_accepted_streams_belong_to_their_users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
