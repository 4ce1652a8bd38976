/*
 * 19_dead_letter_content.c - what was in a dead letter, and how many are kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Order, (uint32_t, id), (const char *, what));
TR_MESSAGE(Plain, (int64_t, a), (int64_t, b));

/* ---- a handler that sends dead orders to another actor ---- */

typedef struct Undertaker {
    tr_ref to;
} Undertaker;

static tr_err undertaker_start(tr_ctx *ctx, Undertaker *self)
{
    (void)self;
    tr_subscribe(ctx, tr_dead_letter);
    return TR_OK;
}

static tr_err on_dead(tr_ctx *ctx, Undertaker *self, const tr_dead_letter *m)
{
    const tr_msg *message = tr_dead_message(m);
    TR_ASSERT(ctx, message != NULL);
    TR_ASSERT(ctx, strcmp(tr_msg_type(message)->name, m->type) == 0);
    (tr_tell)(ctx, self->to, tr_msg_type(message), tr_msg_payload(message));
    return TR_OK;
}

TR_ACTOR(undertaker, Undertaker, TR_HOOK(pre_start, undertaker_start),
         TR_ON(tr_dead_letter, on_dead));

static tr_system *open_system(uint32_t kept)
{
    tr_system *sys;
    TR_MUST(
        tr_system_open(&sys, .log_level = TR_LOG_ERROR, .dead_letters = kept));
    return sys;
}

static void test_the_ring_shows_the_content(void **state)
{
    (void)state;
    tr_system *sys = open_system(0);
    tr_tell(sys, TR_NOBODY, Order, .id = 42, .what = "three pens");
    tr_dead_info dead = {.size = sizeof(dead)};
    assert_int_equal(tr_dead_letters(sys, &dead, 1), 1);
    assert_string_equal(dead.type, "Order");
    assert_non_null(strstr(dead.content, "42"));
    assert_non_null(strstr(dead.content, "three pens"));
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_a_handler_gets_the_message_itself(void **state)
{
    (void)state;
    tr_system *sys = open_system(0);
    tr_probe *probe, *events;
    TR_MUST(tr_probe_new(&probe, sys));
    TR_MUST(tr_probe_new(&events, sys));
    tr_probe_subscribe(events, tr_dead_letter);
    tr_ref ref =
        tr_spawn(sys, undertaker, TR_INIT(undertaker, tr_probe_ref(probe)));
    TR_MUST(tr_started(sys, ref, 0));
    tr_tell(sys, TR_NOBODY, Order, .id = 7, .what = "ink");
    tr_tell(sys, TR_NOBODY, Plain, .a = 1, .b = 2);
    const Order *order = tr_expect(probe, TR_SECONDS(30), Order);
    assert_int_equal(order->id, 7);
    assert_string_equal(order->what, "ink");
    assert_int_equal(tr_expect(probe, TR_SECONDS(30), Plain)->b, 2);
    const tr_dead_letter *letter =
        tr_expect(events, TR_SECONDS(30), tr_dead_letter);
    assert_non_null(strstr(letter->content, "ink"));
    const Order *same = tr_msg_payload(tr_dead_message(letter));
    assert_string_equal(same->what, "ink");
    tr_probe_free(events);
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_DL2_the_ring_has_the_size_of_the_option(void **state)
{
    enum { KEPT = 3 };
    (void)state;
    tr_system *sys = open_system(KEPT);
    for (uint32_t i = 0; i < 2 * KEPT; i++) {
        tr_tell(sys, TR_NOBODY, Order, .id = 100 + i);
    }
    tr_dead_info dead[2 * KEPT] = {{.size = sizeof(dead[0])}};
    assert_int_equal(tr_dead_letters(sys, dead, 2 * KEPT), KEPT);
    assert_non_null(strstr(dead[0].content, "105"));
    assert_non_null(strstr(dead[KEPT - 1].content, "103"));
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    assert_int_equal(tr_system_open(&sys, .dead_letters = UINT32_MAX),
                     TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_shows_the_content),
        cmocka_unit_test(test_a_handler_gets_the_message_itself),
        cmocka_unit_test(test_DL2_the_ring_has_the_size_of_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
