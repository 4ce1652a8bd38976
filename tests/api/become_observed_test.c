/*
 * become_observed_test.c - an actor changes its behaviour while others look.
 *
 * Each round has a system of its own, in which nobody has seen the second
 * behaviour before; a build with -fsanitize=thread reports a data race.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Change);
TR_MESSAGE(Done);
TR_REQUEST(Ask, Done);

typedef struct Light {
    int unused;
} Light;

TR_ACTOR_FORWARD(red, Light);

static tr_err on_change(tr_ctx *ctx, Light *self, const Change *m)
{
    (void)m;
    tr_become(ctx, self, red);
    return TR_OK;
}

static tr_err on_ask(tr_ctx *ctx, const Light *self, const Ask *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(green, Light, TR_ON(Change, on_change));
TR_ACTOR(red, Light, TR_ON(Change, on_change), TR_ON_READ(Ask, on_ask));

static void test_looking_at_an_actor_that_becomes_another(void **state)
{
    enum { ROUNDS = 40, SIZE = 8192 };
    static char text[SIZE];
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        tr_system *sys;
        tr_actor_info info = {.size = sizeof(info)};
        TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = TR_LOG_ERROR));
        tr_ref ref = tr_spawn(sys, green);
        TR_MUST(tr_started(sys, ref, 0));
        tr_tell(sys, ref, Change);
        do {  // no other call orders the two threads
            (void)tr_tree(sys, text, sizeof(text));
            TR_MUST(tr_actor_info_of(sys, ref, &info));
        } while (strcmp(info.kind, "red") != 0);
        TR_MUST(tr_ask(sys, ref, NULL, 0, Ask));
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looking_at_an_actor_that_becomes_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
