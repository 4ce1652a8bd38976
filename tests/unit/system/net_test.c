/*
 * net_test.c - the calls of net.h, in the real world and in a simulated one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/troupe.h>
#include <unistd.h>

#define ANY  "tcp://127.0.0.1:0"
#define LONG TR_SECONDS(60)

/* A system with a listener that the test accepts from itself. */
typedef struct place {
    tr_sim *sim;  // NULL: the real world
    tr_system *sys;
    tr_stream *listener, *client, *server;
    char at[TR_ADDRESS_SIZE];
} place;

static void place_open(place *it, bool simulated)
{
    *it = (place){0};
    if (simulated) {
        assert_int_equal(tr_sim_new(&it->sim, 7), TR_OK);
    }
    assert_int_equal(
        tr_system_open(&it->sys,
                       .world = simulated ? tr_sim_world(it->sim) : NULL),
        TR_OK);
    assert_int_equal(tr_listen(it->sys, &it->listener, ANY, 0), TR_OK);
    (void)tr_stream_address(it->listener, false, it->at, sizeof(it->at));
    assert_int_equal(tr_connect(it->sys, &it->client, it->at, LONG), TR_OK);
    assert_int_equal(tr_accept(it->sys, &it->server, it->listener, LONG),
                     TR_OK);
}

static void place_close(place *it)
{
    tr_stream_close(it->sys, it->client);
    tr_stream_close(it->sys, it->server);
    tr_stream_close(it->sys, it->listener);
    assert_int_equal(tr_system_close(it->sys, 0), TR_OK);
    tr_sim_free(it->sim);
}

static void in_both_worlds(void (*check)(place *it))
{
    for (int simulated = 0; simulated < 2; simulated++) {
        place it;
        place_open(&it, simulated);
        check(&it);
        place_close(&it);
    }
}

/* ---- outside of actors ---- */

static void check_lines(place *it)
{
    char text[16] = "";
    size_t got;

    assert_int_equal(tr_write(it->sys, it->client, 0, {"one\ntw", 6}, {"", 0},
                              {"o\nrest", 6}),
                     TR_OK);
    assert_int_equal(
        tr_read_until(it->sys, it->server, '\n', text, 16, LONG, &got), TR_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(text, "one\n", 4);
    assert_int_equal(
        tr_read_until(it->sys, it->server, '\n', text, 16, LONG, &got), TR_OK);
    assert_memory_equal(text, "two\n", got);
    // The buffer has bytes that the other calls must see.
    assert_int_equal(tr_read_exactly(it->sys, it->server, text, 3, LONG, &got),
                     TR_OK);
    assert_memory_equal(text, "res", 3);
    assert_int_equal(tr_read(it->sys, it->server, text, 16, LONG, &got), TR_OK);
    assert_int_equal(got, 1);
    assert_int_equal(text[0], 't');
}

static void check_limit(place *it)
{
    char text[8];
    size_t got;

    assert_int_equal(tr_write(it->sys, it->client, 0, {"0123456789\n", 11}),
                     TR_OK);
    assert_int_equal(
        tr_read_until(it->sys, it->server, '\n', text, 8, LONG, &got),
        TR_ELIMIT);
    assert_int_equal(got, 8);
    assert_int_equal(
        tr_read_until(it->sys, it->server, '\n', text, 8, LONG, &got), TR_OK);
    assert_int_equal(got, 3);
    assert_int_equal(tr_read(it->sys, it->server, text, 0, LONG, &got),
                     TR_EINVAL);
    // A time-out below 0 is over already.
    assert_int_equal(tr_read(it->sys, it->server, text, 8, -1, &got),
                     TR_ETIMEDOUT);
}

static void check_end(place *it)
{
    char text[8];
    size_t got;

    assert_int_equal(tr_write(it->sys, it->client, 0, {"abc", 3}), TR_OK);
    assert_int_equal(tr_shutdown(it->sys, it->client), TR_OK);
    assert_int_equal(tr_write(it->sys, it->client, 0, {"d", 1}), TR_ERESET);
    assert_int_equal(tr_read_exactly(it->sys, it->server, text, 8, LONG, &got),
                     TR_ERESET);
    assert_int_equal(got, 3);
    assert_int_equal(tr_read_exactly(it->sys, it->server, text, 8, LONG, &got),
                     TR_OK);
    assert_int_equal(got, 0);
    assert_int_equal(
        tr_read_until(it->sys, it->server, '\n', text, 8, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    assert_int_equal(tr_write(it->sys, it->server, 0, {"back", 4}), TR_OK);
    assert_int_equal(tr_read_exactly(it->sys, it->client, text, 4, LONG, &got),
                     TR_OK);
}

static void check_timeouts(place *it)
{
    static char block[256 * 1024];
    char text[8];
    size_t got;
    tr_stream *none;
    tr_err err = TR_OK;

    assert_int_equal(tr_read(it->sys, it->server, text, 8, TR_MS(5), &got),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_accept(it->sys, &none, it->listener, TR_MS(5)),
                     TR_ETIMEDOUT);
    assert_null(none);
    for (int i = 0; i < 1000 && err == TR_OK; i++) {
        err = tr_write(it->sys, it->client, TR_MS(5), {block, sizeof(block)});
    }
    assert_int_equal(err, TR_ETIMEDOUT);
}

static void check_errors(place *it)
{
    tr_stream *none;

    assert_int_equal(tr_listen(it->sys, &none, it->at, 0), TR_EEXIST);
    assert_non_null(strstr(tr_error_text(it->sys), it->at));
    assert_int_equal(tr_listen(it->sys, &none, "7000", 0), TR_EINVAL);
    assert_int_equal(tr_connect(it->sys, &none, "tcp://127.0.0.1", LONG),
                     TR_EINVAL);
    tr_stream_close(it->sys, it->listener);
    it->listener = NULL;
    assert_int_equal(tr_connect(it->sys, &none, it->at, LONG), TR_EUNREACHABLE);
    assert_null(none);
}

static void check_names(place *it)
{
    char name[TR_ADDRESS_SIZE];
    tr_stream *by_name, *accepted;

    (void)snprintf(name, sizeof(name), "tcp://localhost%s",
                   strrchr(it->at, ':'));
    assert_int_equal(tr_connect(it->sys, &by_name, name, LONG), TR_OK);
    assert_int_equal(tr_accept(it->sys, &accepted, it->listener, LONG), TR_OK);
    tr_stream_close(it->sys, accepted);
    tr_stream_close(it->sys, by_name);
}

static void test_outside_threads_use_streams(void **state)
{
    (void)state;
    in_both_worlds(check_lines);
    in_both_worlds(check_limit);
    in_both_worlds(check_end);
    in_both_worlds(check_timeouts);
    in_both_worlds(check_errors);
    in_both_worlds(check_names);
}

/* Streams that are left open are closed with the system. */
static void test_a_system_closes_streams_that_are_left(void **state)
{
    (void)state;
    for (int simulated = 0; simulated < 2; simulated++) {
        place it;
        place_open(&it, simulated);
        it.listener = it.client = it.server = NULL;
        place_close(&it);
    }
}

static void test_a_polled_system_has_streams(void **state)
{
    (void)state;
    tr_system *sys;
    tr_stream *listener, *client, *server;
    char at[TR_ADDRESS_SIZE], text[4];
    size_t got;

    assert_int_equal(tr_system_open(&sys, .poll = true), TR_OK);
    assert_int_equal(tr_listen(sys, &listener, ANY, 0), TR_OK);
    (void)tr_stream_address(listener, false, at, sizeof(at));
    assert_int_equal(tr_connect(sys, &client, at, LONG), TR_OK);
    assert_int_equal(tr_accept(sys, &server, listener, LONG), TR_OK);
    assert_int_equal(tr_write(sys, client, 0, {"four", 4}), TR_OK);
    assert_int_equal(tr_read_exactly(sys, server, text, 4, LONG, &got), TR_OK);
    assert_int_equal(tr_read(sys, server, text, 4, TR_MS(1), &got),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- in actors ---- */

TR_MESSAGE(Say, (const char *, text));
TR_MESSAGE(Hang);
TR_MESSAGE(Answer, (int32_t, err), (const char *, text));
TR_REQUEST(Heard, Answer);

typedef struct Talker {
    const char *at;
    tr_stream *stream;
    tr_err err;
    bool over;  // on_run has read
    char line[64];
    const Heard *asked;
} Talker;

static tr_err talker_answer(tr_ctx *ctx, Talker *self)
{
    if (self->asked == NULL || !self->over) {
        return TR_OK;
    }
    (void)tr_reply(ctx, self->asked, .err = self->err, .text = self->line);
    tr_release(ctx, self->asked);
    self->asked = NULL;
    return TR_OK;
}

static tr_err talker_start(tr_ctx *ctx, Talker *self)
{
    return tr_connect(ctx, &self->stream, self->at, LONG);
}

/* Reads one line while handlers write. */
static tr_err talker_run(tr_ctx *ctx, Talker *self)
{
    size_t got = 0;

    self->err = tr_read_until(ctx, self->stream, '\n', self->line,
                              sizeof(self->line) - 1, LONG, &got);
    self->over = true;
    return talker_answer(ctx, self);
}

static tr_err talker_say(tr_ctx *ctx, Talker *self, const Say *m)
{
    return tr_write(ctx, self->stream, LONG, {m->text, strlen(m->text)});
}

static tr_err talker_hang_up(tr_ctx *ctx, Talker *self, const Hang *m)
{
    (void)m;
    tr_stream_close(ctx, self->stream);
    self->stream = NULL;
    return TR_OK;
}

static tr_err talker_heard(tr_ctx *ctx, Talker *self, const Heard *m)
{
    self->asked = tr_keep(ctx, m);
    return talker_answer(ctx, self);
}

TR_ACTOR(talker, Talker, TR_HOOK(pre_start, talker_start),
         TR_HOOK(on_run, talker_run), TR_ON(Say, talker_say),
         TR_ON(Hang, talker_hang_up), TR_ON(Heard, talker_heard));

static tr_ref talker_of(place *it, tr_stream **peer)
{
    tr_ref ref = tr_spawn(it->sys, talker, .joinable = true,
                          TR_INIT(talker, .at = it->at));
    assert_int_equal(tr_accept(it->sys, peer, it->listener, LONG), TR_OK);
    assert_int_equal(tr_started(it->sys, ref, LONG), TR_OK);
    return ref;
}

static void check_full_duplex(place *it)
{
    tr_stream *peer;
    Answer answer;
    char text[8] = "";
    size_t got;
    tr_ref ref = talker_of(it, &peer);

    // A handler writes while on_run reads the same stream.
    tr_tell(it->sys, ref, Say, .text = "hello");
    assert_int_equal(tr_read_exactly(it->sys, peer, text, 5, LONG, &got),
                     TR_OK);
    assert_string_equal(text, "hello");
    assert_int_equal(tr_write(it->sys, peer, 0, {"line\n", 5}), TR_OK);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Heard), TR_OK);
    assert_int_equal(answer.err, TR_OK);
    assert_string_equal(answer.text, "line\n");
    tr_drop(Answer, &answer);
    tr_stop(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    tr_stream_close(it->sys, peer);
}

static void check_closed_by_another_turn(place *it)
{
    tr_stream *peer;
    Answer answer;
    char text[8];
    size_t got;
    tr_ref ref = talker_of(it, &peer);

    tr_tell(it->sys, ref, Say, .text = "x");
    assert_int_equal(tr_read_exactly(it->sys, peer, text, 1, LONG, &got),
                     TR_OK);
    tr_tell(it->sys, ref, Hang);
    assert_int_equal(tr_read(it->sys, peer, text, 8, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Heard), TR_OK);
    assert_int_equal(answer.err, TR_ECLOSED);
    tr_drop(Answer, &answer);
    tr_stop(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    tr_stream_close(it->sys, peer);
}

static void check_end_of_the_actor(place *it)
{
    tr_stream *peer;
    char text[8];
    size_t got;
    tr_ref ref = talker_of(it, &peer);

    tr_kill(it->sys, ref);
    assert_int_equal(tr_read(it->sys, peer, text, 8, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    tr_stream_close(it->sys, peer);
}

static void test_actors_use_streams(void **state)
{
    (void)state;
    in_both_worlds(check_full_duplex);
    in_both_worlds(check_closed_by_another_turn);
    in_both_worlds(check_end_of_the_actor);
}

typedef struct Pair {
    tr_stream *stream;
} Pair;
TR_REQUEST(Misuse, Answer);

/* Calls that must be refused while on_run reads. */
static tr_err pair_misuse(tr_ctx *ctx, Pair *self, const Misuse *m)
{
    char text[4];
    size_t got;
    tr_stream *none;
    tr_err second = tr_read(ctx, self->stream, text, 4, LONG, &got);
    tr_err as_sys =
        tr_read(tr_system_of(ctx), self->stream, text, 4, LONG, &got);
    tr_err connect = tr_connect(tr_system_of(ctx), &none, "unix:/x", LONG);
    bool good = second == TR_EEXIST && as_sys == TR_EWOULDBLOCK &&
                connect == TR_EWOULDBLOCK;
    return tr_reply(ctx, m, .err = good ? TR_OK : TR_EFAILED, .text = "");
}

static tr_err pair_run(tr_ctx *ctx, Pair *self)
{
    char text[4];
    size_t got;
    return tr_read(ctx, self->stream, text, 4, LONG, &got);
}

TR_ACTOR(pair, Pair, TR_HOOK(on_run, pair_run), TR_ON(Misuse, pair_misuse));

static void check_misuse(place *it)
{
    Answer answer;
    tr_ref ref = tr_spawn(it->sys, pair, .joinable = true,
                          TR_INIT(pair, .stream = it->server));
    tr_system *other;
    size_t got;
    char text[4];

    assert_int_equal(tr_started(it->sys, ref, LONG), TR_OK);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Misuse), TR_OK);
    assert_int_equal(answer.err, TR_OK);
    tr_drop(Answer, &answer);
    assert_int_equal(tr_system_open(&other), TR_OK);
    assert_int_equal(tr_read(other, it->server, text, 4, LONG, &got),
                     TR_EFOREIGN);
    assert_int_equal(tr_system_close(other, 0), TR_OK);
    tr_stop(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    // The test accepted the stream, so it is open still.
    assert_int_equal(tr_write(it->sys, it->client, 0, {"x", 1}), TR_OK);
    assert_int_equal(tr_read(it->sys, it->server, text, 4, LONG, &got), TR_OK);
}

static void test_misuse_is_refused(void **state)
{
    (void)state;
    in_both_worlds(check_misuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_threads_use_streams),
        cmocka_unit_test(test_a_system_closes_streams_that_are_left),
        cmocka_unit_test(test_a_polled_system_has_streams),
        cmocka_unit_test(test_actors_use_streams),
        cmocka_unit_test(test_misuse_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
