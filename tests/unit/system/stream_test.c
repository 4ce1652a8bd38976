/*
 * stream_test.c - streams when memory runs out, or the n-th call of the world
 * fails, for every n.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <troupe/troupe.h>

#include "base/world.h"
#include "support/fail_world.h"
#include "support/starve.h"

#define ANY  "tcp://127.0.0.1:0"
#define LONG TR_SECONDS(60)

enum { TRIES_MAX = 1000 };

/* Everything a program does with streams, outside of actors. */
static tr_err talk(tr_system *sys)
{
    tr_stream *listener = NULL, *client = NULL, *server = NULL;
    char at[TR_ADDRESS_SIZE], line[16];
    size_t got = 0;

    tr_err err = tr_listen(sys, &listener, ANY, 0);
    if (err == TR_OK) {
        (void)tr_stream_address(listener, false, at, sizeof(at));
        err = tr_connect(sys, &client, at, LONG);
    }
    if (err == TR_OK) {
        err = tr_accept(sys, &server, listener, LONG);
    }
    if (err == TR_OK) {
        err = tr_write(sys, client, LONG, {"one\ntwo\n", 8});
    }
    for (int i = 0; err == TR_OK && i < 2; i++) {
        err = tr_read_until(sys, server, '\n', line, sizeof(line), LONG, &got);
        assert_true(err != TR_OK || got == 4);
    }
    if (err == TR_OK) {
        err = tr_write(sys, server, LONG, {line, got});
    }
    if (err == TR_OK) {
        err = tr_read_exactly(sys, client, line, 4, LONG, &got);
    }
    tr_stream_close(sys, server);
    tr_stream_close(sys, client);
    tr_stream_close(sys, listener);
    return err;
}

static void test_every_call_of_the_world_may_fail(void **state)
{
    (void)state;
    fail_world *world = fail_world_new(tri_world_posix());
    bool failed = true;

    for (uint64_t n = 1; failed && n < TRIES_MAX; n++) {
        tr_system *sys;
        fail_world_arm(world, n, FAIL_STREAM);
        assert_int_equal(tr_system_open(&sys, .world = fail_world_of(world)),
                         TR_OK);
        tr_err err = talk(sys);
        failed = fail_world_has_failed(world);
        assert_int_equal(err, failed ? TR_ERESET : TR_OK);
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
    }
    assert_false(failed);
    fail_world_free(world);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;

    for (int n = 0; failed && n < TRIES_MAX; n++) {
        tr_system *sys;
        assert_int_equal(tr_system_open(&sys), TR_OK);
        starve_arm(n);
        tr_err err = talk(sys);
        failed = starve_end();
        assert_int_equal(err, failed ? TR_ENOMEM : TR_OK);
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
    }
    assert_false(failed);
}

typedef struct Lined {
    tr_stream *stream;
} Lined;

static tr_err lined_run(tr_ctx *ctx, Lined *self)
{
    char line[16];
    size_t got;
    TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line), 0, &got));
    return got > 0 ? tr_write(ctx, self->stream, 0, {line, got}) : TR_OK;
}
TR_ACTOR(lined, Lined, TR_HOOK(on_run, lined_run));

static void discard(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

/* In a simulated world the actors run on this thread, and starve with it. */
static void test_every_allocation_of_a_server_may_fail(void **state)
{
    (void)state;
    bool failed = true;

    for (int n = 0; failed && n < TRIES_MAX; n++) {
        tr_sim *sim;
        tr_system *sys;
        tr_stream *client = NULL;
        char at[TR_ADDRESS_SIZE] = "", line[16];
        size_t got = 0;
        assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
        assert_int_equal(
            tr_system_open(&sys, .log = discard, .world = tr_sim_world(sim)),
            TR_OK);
        starve_arm(n);
        tr_err err = tr_ref_err(tr_serve(sys, ANY, lined, .bound = at));
        if (err == TR_OK) {
            err = tr_connect(sys, &client, at, LONG);
        }
        if (err == TR_OK) {
            err = tr_write(sys, client, LONG, {"one\n", 4});
        }
        if (err == TR_OK) {
            err = tr_read(sys, client, line, sizeof(line), LONG, &got);
        }
        failed = starve_end();
        assert_true(failed || (err == TR_OK && got == 4));
        tr_stream_close(sys, client);
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
        tr_sim_free(sim);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_of_the_world_may_fail),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_server_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
