/*
 * 16_reset_client.c - a server outlives clients that reset, vanish or fail its
 * connections.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <troupe/troupe.h>

enum { BAD_CLIENTS = 200 };

#define LONG TR_SECONDS(60)

typedef struct Echo {
    tr_stream *stream;
} Echo;

/* As in the guide, with one line more: a program's own failure. */
static tr_err echo(tr_ctx *ctx, Echo *self)
{
    char line[1024];
    size_t got;
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0,
                             &got));
        if (got == 0) return TR_OK;
        TR_ASSERT(ctx, line[0] != '!');
        TR_TRY(tr_write(ctx, self->stream, 0, {line, got}));
    }
}
TR_ACTOR(connection, Echo, TR_HOOK(on_run, echo));

static void discard(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void talk(tr_system *sys, tr_stream *stream, const char *text)
{
    char line[64] = "";
    size_t got;

    assert_int_equal(tr_write(sys, stream, LONG, {text, strlen(text)}), TR_OK);
    assert_int_equal(
        tr_read_until(sys, stream, '\n', line, sizeof(line) - 1, LONG, &got),
        TR_OK);
    assert_string_equal(line, text);
}

/*
 * Connects with the system's own calls, writes, and closes with a reset; if it
 * listens, after the server has answered.
 */
static void reset_client(const char *at, const char *text, bool listens)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct linger abort_it = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte;

    assert_true(fd >= 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(at, ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    if (listens) {
        assert_int_equal(read(fd, &byte, 1), 1);
    }
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it)), 0);
    close(fd);
}

static void test_a_server_outlives_bad_clients(void **state)
{
    (void)state;
    char at[TR_ADDRESS_SIZE];
    tr_system *sys;
    tr_stream *good;

    assert_int_equal(tr_system_open(&sys, .log = discard), TR_OK);
    tr_ref ref = tr_serve(sys, "tcp://127.0.0.1:0", connection, .bound = at);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    assert_int_equal(tr_connect(sys, &good, at, LONG), TR_OK);
    for (int i = 0; i < BAD_CLIENTS; i++) {
        reset_client(at,
                     i % 3 == 0   ? "a line\nanother\n"
                     : i % 3 == 1 ? "!fails\n"
                                  : "half a line",
                     false);
        if (i % 20 == 0) talk(sys, good, "still here\n");
    }
    talk(sys, good, "the last one\n");
    assert_int_equal(tr_state_of(sys, ref), TR_STATE_RUNNING);
    tr_stream_close(sys, good);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_a_reset_is_not_a_failure(void **state)
{
    (void)state;
    char at[TR_ADDRESS_SIZE];
    tr_system *sys;
    tr_metrics_snapshot metrics = {.size = sizeof(metrics)};

    assert_int_equal(tr_system_open(&sys, .log = discard), TR_OK);
    tr_ref ref = tr_serve(sys, "tcp://127.0.0.1:0", connection, .bound = at);
    for (int i = 0; i < 10; i++) {
        reset_client(at, "a line\n", true);
    }
    tr_probe *probe;
    assert_int_equal(tr_probe_new(&probe, sys), TR_OK);
    tr_probe_watch(probe, ref);
    tr_stop(sys, ref);  // ends after its connections
    assert_int_equal(tr_expect(probe, LONG, tr_terminated)->reason, TR_STOPPED);
    tr_probe_free(probe);
    tr_metrics(sys, &metrics);
    assert_int_equal(metrics.failures, 0);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- the trap itself: a program that accepts by hand ---- */

TR_MESSAGE(Ended, (uint32_t, reason), (uint32_t, err));

typedef struct Porter {
    tr_stream *door;
    tr_ref probe;
} Porter;

/* Accepts one connection, for an actor with the default policy. */
static tr_err porter_run(tr_ctx *ctx, Porter *self)
{
    tr_stream *stream;
    TR_TRY(tr_accept(ctx, &stream, self->door, TR_FOREVER));
    return tr_ref_err(tr_spawn(ctx, connection, .name = "c",
                               TR_INIT(connection, .stream = stream)));
}

static tr_err porter_hears(tr_ctx *ctx, Porter *self, const tr_child_end *end)
{
    tr_tell(ctx, self->probe, Ended, .reason = end->reason, .err = end->err);
    return TR_OK;
}

TR_ACTOR(porter, Porter, TR_HOOK(on_run, porter_run),
         TR_HOOK(child_terminated, porter_hears));

/* Ends a connection that was accepted by hand, and returns how it has ended. */
static Ended hand_over(bool fails)
{
    char at[TR_ADDRESS_SIZE];
    tr_system *sys;
    tr_stream *door, *client;
    tr_probe *probe;
    assert_int_equal(tr_system_open(&sys, .log = discard), TR_OK);
    assert_int_equal(tr_probe_new(&probe, sys), TR_OK);
    assert_int_equal(tr_listen(sys, &door, "tcp://127.0.0.1:0", 0), TR_OK);
    tr_stream_address(door, false, at, sizeof(at));
    (void)tr_spawn(sys, porter, .name = "porter",
                   TR_INIT(porter, door, tr_probe_ref(probe)));
    assert_int_equal(tr_connect(sys, &client, at, LONG), TR_OK);
    talk(sys, client, "hello\n");
    if (fails) {
        assert_int_equal(tr_write(sys, client, LONG, {"!fails\n", 7}), TR_OK);
    } else {
        tr_restart(sys, tr_lookup(sys, "/user/porter/c"));
    }
    Ended ended = *tr_expect(probe, LONG, Ended);
    char rest[8];
    size_t got = 1;
    tr_err err = tr_read(sys, client, rest, sizeof(rest), LONG, &got);
    assert_true(err == TR_ERESET || (err == TR_OK && got == 0));
    tr_stream_close(sys, client);
    tr_stream_close(sys, door);
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    return ended;
}

/* Its stream is gone, so a next incarnation would use a dangling pointer. */
static void test_an_actor_that_was_given_a_stream_is_not_restarted(void **state)
{
    (void)state;
    Ended ended = hand_over(true);
    assert_int_equal(ended.reason, TR_FAILED);
    assert_int_equal(ended.err, TR_EPANIC);
    ended = hand_over(false);
    assert_int_equal(ended.reason, TR_STOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_outlives_bad_clients),
        cmocka_unit_test(test_a_reset_is_not_a_failure),
        cmocka_unit_test(
            test_an_actor_that_was_given_a_stream_is_not_restarted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
