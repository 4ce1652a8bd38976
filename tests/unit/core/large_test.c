/*
 * large_test.c - states and messages beyond the blocks that are cached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { WORDS = 64 * 1024 };  // half a megabyte

TR_MESSAGE(Put, (uint32_t, index), (int64_t, value));
TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Total, Sum);
TR_MESSAGE(Fall);
TR_MESSAGE(Parcel, (const char *, text));

/* ---- a large state ---- */

typedef struct Ledger {
    int64_t words[WORDS];
} Ledger;

static tr_err on_put(tr_ctx *ctx, Ledger *self, const Put *m)
{
    (void)ctx;
    self->words[m->index] = m->value;
    return TR_OK;
}

static tr_err on_total(tr_ctx *ctx, Ledger *self, const Total *m)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < WORDS; i++) {
        sum += self->words[i];
    }
    return tr_reply(ctx, m, .value = sum);
}

static tr_err on_fall(tr_ctx *ctx, Ledger *self, const Fall *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to");
}

TR_ACTOR(ledger, Ledger, TR_ON(Put, on_put), TR_ON(Total, on_total),
         TR_ON(Fall, on_fall));

static int64_t total(tr_system *sys, tr_ref ref)
{
    Sum sum;
    TR_MUST(tr_ask(sys, ref, &sum, TR_SECONDS(5), Total));
    return sum.value;
}

static void test_X51_a_large_state_begins_anew_with_each_life(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
    for (int life = 0; life < 3; life++) {  // memory that was another's
        tr_ref ref = tr_spawn(sys, ledger);
        assert_int_equal(total(sys, ref), 0);
        tr_tell(sys, ref, Put, .index = 0, .value = 5);
        tr_tell(sys, ref, Put, .index = WORDS - 1, .value = 7);
        assert_int_equal(total(sys, ref), 12);
        tr_tell(sys, ref, Fall);
        tr_sim_advance(sim, TR_SECONDS(5));
        assert_int_equal(total(sys, ref), 0);
        tr_tell(sys, ref, Put, .index = 1, .value = 1);
        tr_stop(sys, ref);
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* ---- a budget of memory ---- */

static void test_PA7_a_large_message_beyond_the_budget_is_refused(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20, BUDGET = 32 << 20 };
    static char text[SIZE];
    memset(text, 'x', sizeof(text) - 1);
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9,
                           .memory_budget = BUDGET));
    tr_ref ref = tr_spawn(sys, ledger);
    tr_sim_advance(sim, TR_SECONDS(1));  // its state is in the budget, too
    tr_err err = TR_OK;
    int taken = 0;
    while (err == TR_OK && taken < 2 * BUDGET / SIZE) {
        err = tr_try_tell(sys, ref, Parcel, .text = text);
        taken += err == TR_OK;
    }
    assert_int_equal(err, TR_ENOMEM);
    assert_in_range(taken, 1, BUDGET / SIZE);
    tr_sim_advance(sim, TR_SECONDS(1));  // unhandled: their memory is back
    assert_int_equal(tr_try_tell(sys, ref, Parcel, .text = text), TR_OK);
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X51_a_large_state_begins_anew_with_each_life),
        cmocka_unit_test(test_PA7_a_large_message_beyond_the_budget_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
