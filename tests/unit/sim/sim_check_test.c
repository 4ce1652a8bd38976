/*
 * sim_check_test.c - the invariants of every run: each one broken on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "core/runtime.h"
#include "sim/sim_run.h"

TR_MESSAGE(Answer);
TR_REQUEST(Question, Answer);
TR_MESSAGE(Ask, (tr_ref, whom));

/* Answers late. */
static tr_err on_question(tr_ctx *ctx, void *self, const Question *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MINUTES(2)));
    return tr_reply(ctx, m);
}

TR_ACTOR(silent, void, TR_ON(Question, on_question));

static tr_err on_ask(tr_ctx *ctx, const void *self, const Ask *m)
{
    (void)self;
    tr_err err = tr_ask(ctx, m->whom, NULL, TR_MINUTES(5), Question);

    return err == TR_ETIMEDOUT || err == TR_ECLOSED ? TR_OK : err;
}

TR_ACTOR(asker, void, TR_ON_INTERLEAVE(Ask, on_ask));

typedef struct plant {
    void (*spoil)(struct plant *it);
    void (*mend)(struct plant *it);  // before the run is cleaned up
    tri_cell *cell, *idle;
    tri_ext *ext;
    uint64_t was;
    char text[TRI_SIM_LINE_MAX];
} plant;

static tr_err workload(tr_sim *sim, void *user)
{
    plant *it = user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref whom = tr_spawn(sys, silent), who = tr_spawn(sys, asker);

    tr_tell(sys, who, Ask, .whom = whom);
    tr_tell(sys, who, Ask, .whom = whom);
    tr_sim_advance(sim, TR_SECONDS(1));
    it->cell = tri_ref_cell(who);
    it->ext = tri_ext_of(it->cell);
    it->idle = tri_ref_cell(tr_spawn(sys, silent));
    if (it->spoil != NULL) {
        it->spoil(it);
    }
    // Steps, so that somebody looks.
    for (int i = 0; i < 200; i++) {
        tr_sim_advance(sim, TR_MS(100));
    }
    return TR_OK;
}

static void seen(tr_sim *sim, void *user)
{
    plant *it = user;

    memcpy(it->text, sim->fail_text, sizeof(it->text));
    if (it->mend != NULL) {
        it->mend(it);
    }
}

static tr_err run(plant *it)
{
    tr_sim_options options = {.size = sizeof(options), .workload = workload,
                              .user = it, .nodes = 1};
    tri_sim_plan plan = {.seed = 5, .silent = true};
    tri_sim_result result;

    return tri_sim_run_plan(&options, &plan, &result, seen, it);
}

static void expect_found(plant it, const char *what)
{
    assert_int_equal(run(&it), TR_EFAILED);
    if (strstr(it.text, what) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", what, it.text);
    }
}

static void test_TE4_a_sound_run_passes(void **state)
{
    (void)state;
    plant it = {0};

    assert_int_equal(run(&it), TR_OK);
}

static void spoil_history(plant *it)
{
    // Relaxed, here and below: the world is one thread.
    it->was = atomic_load_explicit(&it->cell->history, memory_order_relaxed);
    atomic_store_explicit(&it->cell->history,
                          (uint32_t)TR_STATE_STOPPED << 4 | TR_STATE_RUNNING,
                          memory_order_relaxed);
}

static void mend_history(plant *it)
{
    atomic_store_explicit(&it->cell->history, (uint32_t)it->was,
                          memory_order_relaxed);
}

static void test_TE4_an_illegal_transition_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_history, .mend = mend_history},
                 "invariant transition");
}

static void spoil_turns(plant *it)
{
    it->was = it->ext->parked->kind;
    it->ext->parked->kind = TRI_TURN_WRITE;
    it->ext->parked->next->kind = TRI_TURN_WRITE;
}

static void mend_turns(plant *it)
{
    it->ext->parked->kind = (uint8_t)it->was;
    it->ext->parked->next->kind = (uint8_t)it->was;
}

static void test_TE4_two_writing_turns_are_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_turns, .mend = mend_turns},
                 "invariant sequential");
}

static void spoil_correlation(plant *it)
{
    it->was = it->ext->waits->correlation;
    it->ext->waits->correlation = it->ext->waits->next->correlation;
}

static void spoil_correlation_too(plant *it)
{
    it->was = it->ext->waits->correlation;
    it->ext->waits->correlation = it->ext->correlation + 1;
}

static void mend_correlation(plant *it)
{
    it->ext->waits->correlation = it->was;
}

static void test_TE4_correlations_that_are_wrong_are_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_correlation, .mend = mend_correlation},
                 "one number for two requests");
    expect_found(
        (plant){.spoil = spoil_correlation_too, .mend = mend_correlation},
        "a number that was never given");
}

static void spoil_timer(plant *it)
{
    it->was = (uint64_t)it->ext->waits->deadline;
    it->ext->waits->deadline -= TR_MINUTES(5);
}

static void mend_timer(plant *it)
{
    it->ext->waits->deadline = (tr_nanos)it->was;
}

static void test_TE4_a_wait_beyond_its_time_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_timer, .mend = mend_timer},
                 "invariant timeout");
}

/* A message in the mailbox of an actor that nobody has woken. */
static void spoil_mail(plant *it)
{
    atomic_fetch_add_explicit(&it->idle->queued, 1, memory_order_relaxed);
}

static void mend_mail(plant *it)
{
    atomic_fetch_sub_explicit(&it->idle->queued, 1, memory_order_relaxed);
}

static void test_TE4_a_forgotten_message_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_mail, .mend = mend_mail},
                 "invariant rest");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_a_sound_run_passes),
        cmocka_unit_test(test_TE4_an_illegal_transition_is_found),
        cmocka_unit_test(test_TE4_two_writing_turns_are_found),
        cmocka_unit_test(test_TE4_correlations_that_are_wrong_are_found),
        cmocka_unit_test(test_TE4_a_wait_beyond_its_time_is_found),
        cmocka_unit_test(test_TE4_a_forgotten_message_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
