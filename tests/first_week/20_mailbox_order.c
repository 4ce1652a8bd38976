/*
 * 20_mailbox_order.c - a mailbox whose order is a function of the message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Job, (uint32_t, n), (uint32_t, weight));
TR_MESSAGE(Peek, (uint32_t, n));
TR_MESSAGE(Rest, (int64_t, span));

typedef struct Shop {
    tr_ref tell;
} Shop;

static tr_err on_job(tr_ctx *ctx, Shop *self, const Job *m)
{
    tr_tell(ctx, self->tell, Job, .n = m->n);
    return TR_OK;
}

static tr_err on_rest(tr_ctx *ctx, Shop *self, const Rest *m)
{
    (void)self;
    return tr_sleep(ctx, m->span);
}

static tr_err on_peek(tr_ctx *ctx, const Shop *self, const Peek *m)
{
    tr_tell(ctx, self->tell, Job, .n = m->n);
    return TR_OK;
}

TR_ACTOR(shop, Shop, TR_ON(Job, on_job), TR_ON(Rest, on_rest),
         TR_ON_INTERLEAVE(Peek, on_peek));

/* Heavy jobs first; looking comes last but one. */
static uint8_t by_weight(const tr_msg *msg)
{
    if (strcmp(tr_msg_type(msg)->name, "Job") == 0) {
        const Job *job = tr_msg_payload(msg);
        return (uint8_t)job->weight;
    }
    return strcmp(tr_msg_type(msg)->name, "Peek") == 0;
}

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
    tr_ref shop;
} world;

static world open_world(void)
{
    world w;
    TR_MUST(tr_sim_new(&w.sim, 11));
    TR_MUST(tr_system_open(&w.sys, .world = tr_sim_world(w.sim),
                           .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&w.probe, w.sys));
    w.shop = tr_spawn(w.sys, shop, TR_INIT(shop, tr_probe_ref(w.probe)),
                      .priority = by_weight);
    TR_MUST(tr_started(w.sys, w.shop, 0));
    return w;
}

static void close_world(world w)
{
    tr_probe_free(w.probe);
    assert_int_equal(tr_system_close(w.sys, 0), TR_OK);
    tr_sim_free(w.sim);
}

static void expect_order(world w, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tr_expect(w.probe, TR_MINUTES(1), Job)->n, numbers[i]);
    }
}

/* A simulated actor runs only while the test waits. */
static void test_MB22_a_function_of_the_message_decides_the_order(void **state)
{
    (void)state;
    world w = open_world();
    tr_tell(w.sys, w.shop, Job, .n = 1, .weight = 0);
    tr_tell(w.sys, w.shop, Job, .n = 2, .weight = 3);
    tr_tell(w.sys, w.shop, Job, .n = 3, .weight = 100);  // counts as 7
    tr_tell(w.sys, w.shop, Job, .n = 4, .weight = 3);
    tr_tell(w.sys, w.shop, Job, .n = 5, .weight = 0);
    tr_tell_urgent(w.sys, w.shop, 5, Job, .n = 6, .weight = 1);
    expect_order(w, (const uint32_t[]){3, 6, 2, 4, 1, 5}, 6);
    close_world(w);
}

static void test_MB22_mail_that_comes_later_is_sorted_in(void **state)
{
    (void)state;
    world w = open_world();
    tr_tell(w.sys, w.shop, Rest, .span = TR_SECONDS(1));
    assert_int_equal(tr_join(w.sys, w.shop, TR_MS(500), NULL, NULL),
                     TR_ETIMEDOUT);
    tr_tell(w.sys, w.shop, Job, .n = 1, .weight = 2);
    tr_tell(w.sys, w.shop, Job, .n = 2, .weight = 0);
    tr_tell(w.sys, w.shop, Job, .n = 3, .weight = 4);
    tr_tell(w.sys, w.shop, Peek, .n = 4);  // runs while the shop rests
    expect_order(w, (const uint32_t[]){4, 3, 1, 2}, 4);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB22_a_function_of_the_message_decides_the_order),
        cmocka_unit_test(test_MB22_mail_that_comes_later_is_sorted_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
