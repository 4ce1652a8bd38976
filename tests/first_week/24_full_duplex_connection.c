/*
 * 24_full_duplex_connection.c - what a connection needs that reads in on_run
 * and writes in handlers: last words are written, a broken connection is not a
 * failure, and a loop in on_run does not use more and more memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

enum {
    LINE_SIZE = 64,
    TEXT_SIZE = 64 * 1024,     // of an answer
    ROUNDS = 1000,             // 64 MB of answers
    BUDGET = 16 * 1024 * 1024  // for all of them
};

#define LONG TR_SECONDS(60)

TR_MESSAGE(Line, (const char *, text));
TR_REQUEST(Flood, tr_none);
TR_MESSAGE(Here, (tr_ref, ref));
TR_MESSAGE(Large, (const char *, text));
TR_REQUEST(GetLarge, Large);
TR_MESSAGE(Finished, (uint32_t, err));

/* ---- a connection ---- */

typedef struct Connection {
    tr_stream *stream;
    tr_ref owner;
} Connection;

/* Repeats each line through the mailbox; "bye" is the last one. */
static tr_err connection_run(tr_ctx *ctx, Connection *self)
{
    char line[LINE_SIZE] = "";
    size_t got;

    tr_tell(ctx, self->owner, Here, .ref = tr_self(ctx));
    do {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, LINE_SIZE - 1, 0,
                             &got));
        line[got] = '\0';
        tr_tell(ctx, tr_self(ctx), Line, .text = line);
    } while (got > 0 && strcmp(line, "bye\n") != 0);
    return TR_OK;
}

static tr_err connection_line(tr_ctx *ctx, Connection *self, const Line *m)
{
    return tr_write(ctx, self->stream, 0, {m->text, strlen(m->text)});
}

/* Writes until the connection breaks. */
static tr_err connection_flood(tr_ctx *ctx, Connection *self, const Flood *m)
{
    static const char flood[64 * 1024];
    (void)m;
    for (;;) {
        TR_TRY(tr_write(ctx, self->stream, 0, {flood, sizeof(flood)}));
    }
}

TR_ACTOR(connection, Connection, TR_HOOK(on_run, connection_run),
         TR_ON(Line, connection_line), TR_ON(Flood, connection_flood));

static void test_last_words_are_written(void **state)
{
    (void)state;
    char at[TR_ADDRESS_SIZE], text[LINE_SIZE] = "";
    size_t got;
    tr_system *sys;
    tr_stream *client;
    assert_int_equal(tr_system_open(&sys), TR_OK);
    assert_int_equal(
        tr_ref_err(tr_serve(sys, "tcp://127.0.0.1:0", connection, .bound = at)),
        TR_OK);
    assert_int_equal(tr_connect(sys, &client, at, LONG), TR_OK);
    assert_int_equal(tr_write(sys, client, LONG, {"one\nbye\n", 8}), TR_OK);
    assert_int_equal(tr_read_exactly(sys, client, text, 8, LONG, &got), TR_OK);
    assert_string_equal(text, "one\nbye\n");
    assert_int_equal(tr_read(sys, client, text, 1, LONG, &got), TR_OK);
    assert_int_equal(got, 0);
    tr_stream_close(sys, client);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_a_broken_connection_in_a_handler_is_no_failure(void **state)
{
    (void)state;
    char at[TR_ADDRESS_SIZE];
    tr_system *sys;
    tr_stream *client;
    tr_probe *owner, *failures;
    assert_int_equal(tr_system_open(&sys), TR_OK);
    assert_int_equal(tr_probe_new(&owner, sys), TR_OK);
    assert_int_equal(tr_probe_new(&failures, sys), TR_OK);
    tr_probe_subscribe(failures, tr_supervision_event);
    tr_ref server = tr_serve(sys, "tcp://127.0.0.1:0", connection, .bound = at,
                             .write_timeout = TR_MS(20),
                             TR_INIT(connection, .owner = tr_probe_ref(owner)));
    assert_int_equal(tr_ref_err(server), TR_OK);
    assert_int_equal(tr_connect(sys, &client, at, LONG), TR_OK);
    tr_ref ref = tr_expect(owner, LONG, Here)->ref;
    tr_probe_watch(owner, ref);
    // The client does not read.
    assert_int_equal(tr_ask(sys, ref, NULL, LONG, Flood), TR_ETIMEDOUT);
    assert_int_equal(tr_expect(owner, LONG, tr_terminated)->reason, TR_STOPPED);
    tr_expect_nothing(failures, TR_MS(1));
    tr_stream_close(sys, client);
    tr_probe_free(failures);
    tr_probe_free(owner);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- a loop ---- */

static tr_err on_get_large(tr_ctx *ctx, void *self, const GetLarge *m)
{
    char *text = tr_scratch(ctx, TEXT_SIZE);
    (void)self;
    memset(text, 'x', TEXT_SIZE - 1);
    return tr_reply(ctx, m, .text = text);
}

TR_ACTOR(store, void, TR_ON(GetLarge, on_get_large));

typedef struct Looper {
    tr_ref store, owner;
    bool reset;
} Looper;

static tr_err looper_run(tr_ctx *ctx, Looper *self)
{
    tr_err err = TR_OK;
    for (int i = 0; i < ROUNDS && err == TR_OK; i++) {
        Large large;
        err = tr_ask(ctx, self->store, &large, LONG, GetLarge);
        TR_ASSERT(ctx, err != TR_OK || large.text[TEXT_SIZE - 2] == 'x');
        if (self->reset) tr_scratch_reset(ctx);
    }
    tr_scratch_reset(ctx);
    tr_tell(ctx, self->owner, Finished, .err = (uint32_t)err);
    return TR_OK;
}

TR_ACTOR(looper, Looper, TR_HOOK(on_run, looper_run));

static void discard(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

/* Returns how the loop has ended. */
static tr_err loop(bool reset)
{
    tr_system *sys;
    tr_probe *owner;
    assert_int_equal(
        tr_system_open(&sys, .memory_budget = BUDGET, .log = discard), TR_OK);
    assert_int_equal(tr_probe_new(&owner, sys), TR_OK);
    tr_ref from = tr_spawn(sys, store);
    (void)tr_spawn(sys, looper,
                   TR_INIT(looper, .store = from, .owner = tr_probe_ref(owner),
                           .reset = reset));
    tr_err err = (tr_err)tr_expect(owner, LONG, Finished)->err;
    tr_probe_free(owner);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    return err;
}

static void test_a_loop_in_on_run_does_not_grow(void **state)
{
    (void)state;
    assert_int_equal(loop(true), TR_OK);
    assert_int_not_equal(loop(false), TR_OK);  // the budget is used up
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_words_are_written),
        cmocka_unit_test(test_a_broken_connection_in_a_handler_is_no_failure),
        cmocka_unit_test(test_a_loop_in_on_run_does_not_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
