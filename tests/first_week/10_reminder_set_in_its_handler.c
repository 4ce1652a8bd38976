/*
 * 10_reminder_set_in_its_handler.c - a handler of a reminder that cannot set
 * the same reminder again fails, and the reminder comes again after a second.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

/* What the handler of the first delivery does. */
typedef enum plan {
    REMIND_FAILS,    // setting it again fails, and so does the handler
    FORGET_FAILS,    // forgetting it fails, and so does the handler
    REMIND_UNKNOWN,  // it may or may not have been set
    SET_THEN_FAIL,   // it is set again, then the handler fails
} plan;

typedef struct fate {
    plan plan;
    int calls;
    tr_storage *capture;
} fate;

TR_MESSAGE(Wake);
TR_REQUEST(Begin, tr_none);
TR_STATE(Sleeper, (uint64_t, fate));

static tr_err on_begin(tr_ctx *ctx, Sleeper *self, const Begin *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_remind(ctx, "wake", TR_SECONDS(10), 0, Wake));
    return tr_reply(ctx, m);
}

static tr_err on_wake(tr_ctx *ctx, Sleeper *self, const Wake *m)
{
    fate *it = (fate *)(uintptr_t)self->fate;
    (void)m;
    if (++it->calls > 1) return TR_OK;
    switch (it->plan) {
    case REMIND_FAILS:
        tr_storage_fail_nth(it->capture, 1, TR_ESTORAGE);
        return tr_remind(ctx, "wake", TR_SECONDS(5000), 0, Wake);
    case FORGET_FAILS:
        tr_storage_fail_nth(it->capture, 1, TR_ESTORAGE);
        return tr_forget(ctx, "wake");
    case REMIND_UNKNOWN:
        tr_storage_fail_nth(it->capture, 1, TR_EUNKNOWN);
        return tr_remind(ctx, "wake", TR_SECONDS(20), 0, Wake);
    default:
        TR_TRY(tr_remind(ctx, "wake", TR_SECONDS(20), 0, Wake));
        return tr_fail(ctx, TR_EFAILED, "after it was set");
    }
}

TR_ACTOR(sleeper, Sleeper, TR_ON(Begin, on_begin),
         TR_ON_REMINDER(Wake, on_wake));

/* Returns how often the reminder has come so long after the first time. */
static int calls_after(plan chosen, tr_nanos span)
{
    tr_sim *sim;
    tr_system *sys;
    tr_storage *inner;
    fate it = {.plan = chosen};
    TR_MUST(tr_sim_new(&sim, 7));
    TR_MUST(tr_storage_memory(&inner));
    TR_MUST(tr_storage_capture(&it.capture, inner));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    tr_ref ref = tr_spawn(sys, sleeper, .name = "s", .storage = it.capture,
                          TR_INIT(sleeper, .fate = (uint64_t)(uintptr_t)&it));
    TR_MUST(tr_ask(sys, ref, NULL, 0, Begin));
    tr_sim_advance(sim, TR_SECONDS(10) - TR_MS(100));
    assert_int_equal(it.calls, 0);
    tr_sim_advance(sim, TR_MS(200) + span);
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(it.capture);
    tr_storage_close(inner);
    tr_sim_free(sim);
    return it.calls;
}

static void test_it_comes_again_after_a_second(void **state)
{
    (void)state;
    assert_int_equal(calls_after(REMIND_FAILS, TR_MS(500)), 1);
    assert_int_equal(calls_after(REMIND_FAILS, TR_SECONDS(2)), 2);
    assert_int_equal(calls_after(FORGET_FAILS, TR_MS(500)), 1);
    assert_int_equal(calls_after(FORGET_FAILS, TR_SECONDS(2)), 2);
}

/* The second one replaced the first: it comes at its own time, and once. */
static void test_what_was_set_comes_at_its_time(void **state)
{
    static const plan plans[] = {SET_THEN_FAIL, REMIND_UNKNOWN};
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls_after(plans[i], TR_SECONDS(19)), 1);
        assert_int_equal(calls_after(plans[i], TR_SECONDS(21)), 2);
        assert_int_equal(calls_after(plans[i], TR_SECONDS(1000)), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_comes_again_after_a_second),
        cmocka_unit_test(test_what_was_set_comes_at_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
