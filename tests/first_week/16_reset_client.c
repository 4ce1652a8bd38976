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

/* Connects with the system's own calls, writes, and closes with a reset. */
static void reset_client(const char *at, const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct linger abort_it = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(at, ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
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
        reset_client(at, i % 3 == 0   ? "a line\nanother\n"
                         : i % 3 == 1 ? "!fails\n"
                                      : "half a line");
        if (i % 20 == 0) talk(sys, good, "still here\n");
    }
    talk(sys, good, "the last one\n");
    assert_int_equal(tr_state_of(sys, ref), TR_STATE_RUNNING);
    tr_stream_close(sys, good);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_outlives_bad_clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
