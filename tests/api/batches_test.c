/*
 * batches_test.c - a dispatcher runs one mailbox for several messages before it
 * turns to the next.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

/* The preset torture makes batches of one message. */
#ifdef TRI_TORTURE
enum { BATCH = 1 };
#else
enum { BATCH = 8 };  // a thread reads its clock after so many at the earliest
#endif

enum { EACH = 200, TAKERS = 2, ALL = TAKERS * EACH };

TR_MESSAGE(Take);
TR_MESSAGE(Done);
TR_REQUEST(Send, Done);

/* Who took the messages, in order; there is one thread. */
static uint32_t order[ALL], taken;

typedef struct Taker {
    uint32_t number;
    tr_ref probe;
} Taker;

static tr_err on_take(tr_ctx *ctx, Taker *self, const Take *m)
{
    (void)m;
    order[taken++] = self->number;
    if (taken == ALL) {
        tr_tell(ctx, self->probe, Done);
    }
    return TR_OK;
}

TR_ACTOR(taker, Taker, TR_ON(Take, on_take));

typedef struct Sender {
    tr_ref to[TAKERS];
} Sender;

static tr_err on_send(tr_ctx *ctx, Sender *self, const Send *m)
{
    for (int i = 0; i < ALL; i++) {
        tr_tell(ctx, self->to[i % TAKERS], Take);
    }
    return tr_reply(ctx, m);
}

TR_ACTOR(sender, Sender, TR_ON(Send, on_send));

/* Sent A, B, A, B, ... they are taken A, A, ..., B, B, ... */
static void test_MB18_DP6_a_mailbox_is_run_for_several_messages(void **state)
{
    tr_system *sys;
    tr_probe *probe;
    Sender init;
    Done done;
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&probe, sys));
    taken = 0;
    for (uint32_t i = 0; i < TAKERS; i++) {
        init.to[i] =
            tr_spawn(sys, taker,
                     TR_INIT(taker, .number = i, .probe = tr_probe_ref(probe)),
                     .dispatcher = "concurrent");
        TR_MUST(tr_started(sys, init.to[i], 0));
    }
    tr_ref from =
        tr_spawn(sys, sender, TR_INIT(sender, .to = {init.to[0], init.to[1]}),
                 .dispatcher = "concurrent");
    TR_MUST(tr_ask(sys, from, &done, 0, Send));
    (void)tr_expect(probe, TR_SECONDS(60), Done);
    uint32_t runs = 1;
    for (int i = 1; i < ALL; i++) {
        runs += order[i] != order[i - 1];
    }
    assert_true(runs >= TAKERS);
    assert_true(runs <= ALL / BATCH + TAKERS);
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB18_DP6_a_mailbox_is_run_for_several_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
