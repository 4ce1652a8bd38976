/*
 * urgent_drop_old_test.c - urgent mail to an actor that drops its oldest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Note, (uint32_t, n));

typedef struct Echo {
    tr_ref to;
} Echo;

static tr_err on_note(tr_ctx *ctx, Echo *self, const Note *m)
{
    tr_tell(ctx, self->to, Note, .n = m->n);
    return TR_OK;
}

TR_ACTOR(echo, Echo, TR_ON(Note, on_note));

static void test_urgent_mail_wakes_an_actor_that_drops_its_oldest(void **state)
{
    tr_system *sys;
    tr_probe *probe;
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref ref =
        tr_spawn(sys, echo, TR_INIT(echo, tr_probe_ref(probe)),
                 .mailbox_limit = 100, .overflow = TR_OVERFLOW_DROP_OLD);
    for (uint32_t n = 1; n <= 4; n++) {
        tr_tell_urgent(sys, ref, 1, Note, .n = n);
        assert_int_equal(tr_expect(probe, TR_SECONDS(30), Note)->n, n);
    }
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* A sender drops the oldest message that has not been sorted, urgent or not. */
static void test_a_full_mailbox_drops_the_oldest_urgent_message(void **state)
{
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
    (void)state;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim),
                           .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref ref = tr_spawn(sys, echo, TR_INIT(echo, tr_probe_ref(probe)),
                          .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_OLD);
    // The simulated actor runs only while the probe waits.
    tr_tell_urgent(sys, ref, 1, Note, .n = 1);
    tr_tell_urgent(sys, ref, 2, Note, .n = 2);
    tr_tell(sys, ref, Note, .n = 3);
    assert_int_equal(tr_expect(probe, 0, Note)->n, 2);
    assert_int_equal(tr_expect(probe, 0, Note)->n, 3);
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgent_mail_wakes_an_actor_that_drops_its_oldest),
        cmocka_unit_test(test_a_full_mailbox_drops_the_oldest_urgent_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
