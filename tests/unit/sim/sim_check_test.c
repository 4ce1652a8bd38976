/*
 * sim_check_test.c - the built-in invariants (sim_check.c, sim_mail*.c): a
 * test breaks each of them on purpose, and the run must fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "base/check.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/virtual.h"
#include "sim/sim.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "support/aborts.h"
#include "support/core.h"

TR_MESSAGE(Answer);
TR_REQUEST(Question, Answer);
TR_MESSAGE(Ask, (tr_ref, whom));
TR_MESSAGE(AskThen, (tr_ref, whom));
TR_MESSAGE(Again, (uint64_t, then));
TR_MESSAGE(Work, (uint32_t, number));
TR_MESSAGE(Spin);

/* Answers after two minutes. */
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

static tr_err answered(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)ctx;
    (void)self;
    (void)reply;
    (void)err;
    return TR_OK;
}

static tr_err on_ask_then(tr_ctx *ctx, const void *self, const AskThen *m)
{
    (void)self;
    tr_ask_then(ctx, m->whom, TR_MINUTES(5), answered, Question);
    return TR_OK;
}

/* Calls the callback once more, as a faulty library would. */
static tr_err on_again(tr_ctx *ctx, const void *self, const Again *m)
{
    (void)self;
    return ((tr_then_fn)(uintptr_t)m->then)(ctx, NULL, NULL, TR_ETIMEDOUT);
}

TR_ACTOR(asker, void, TR_ON_INTERLEAVE(Ask, on_ask),
         TR_ON_INTERLEAVE(AskThen, on_ask_then),
         TR_ON_INTERLEAVE(Again, on_again));

/* Keeps the request and never answers it. */
static tr_err on_kept(tr_ctx *ctx, void *self, const Question *m)
{
    (void)self;
    (void)tr_keep(ctx, m);
    return TR_OK;
}

TR_ACTOR(keeper, void, TR_ON(Question, on_kept));

static tr_err on_work(tr_ctx *ctx, void *self, const Work *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_MS(100));
}

static tr_err on_spin(tr_ctx *ctx, void *self, const Spin *m)
{
    (void)self;
    (void)m;
    tr_tell(ctx, tr_self(ctx), Spin);
    return TR_OK;
}

TR_ACTOR(worker, void, TR_ON(Work, on_work), TR_ON(Spin, on_spin));

typedef struct plant {
    void (*spoil)(struct plant *it);
    void (*mend)(struct plant *it);  // undoes it, before the run is cleaned up
    bool busy;                       // the world never rests
    tri_cell *cell, *idle, *worker, *keeper;
    tri_ext *ext;
    tr_system *sys;
    tr_ref asker, idle_ref;
    uint64_t was;
    tri_wait *wait;
    tri_item *kept;
    char text[TRI_SIM_FAIL_MAX];
    char printed[4096];
} plant;

static tr_err workload(tr_sim *sim, void *user)
{
    plant *it = user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref whom = tr_spawn(sys, silent), who = tr_spawn(sys, asker);

    tr_ref keeps = tr_spawn(sys, keeper);
    tr_ref works = tr_spawn(sys, worker);

    tr_tell(sys, who, Ask, .whom = whom);
    tr_tell(sys, who, Ask, .whom = whom);
    tr_tell(sys, who, AskThen, .whom = whom);
    tr_tell(sys, who, Ask, .whom = keeps);
    tr_sim_advance(sim, TR_SECONDS(1));
    for (uint32_t i = 0; i < 4; i++) {
        tr_tell(sys, works, Work, .number = i);
    }
    tr_sim_advance(sim, TR_MS(10));  // the first is being handled
    it->sys = sys;
    it->asker = who;
    it->keeper = tri_ref_cell(keeps);
    it->worker = tri_ref_cell(works);
    it->cell = tri_ref_cell(who);
    it->ext = tri_ext_of(it->cell);
    it->idle_ref = tr_spawn(sys, worker);
    it->idle = tri_ref_cell(it->idle_ref);
    tr_sim_advance(sim, TR_MS(1));
    if (it->spoil != NULL) {
        it->spoil(it);
    }
    // More steps, after which the invariants are checked.
    for (int i = 0; i < 200; i++) {
        tr_sim_advance(sim, it->busy ? TR_MS(0) : TR_MS(100));
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
    tr_sim_options options = {.size = sizeof(options),
                              .workload = workload,
                              .user = it,
                              .nodes = 1,
                              .quiet_time = it->busy ? TR_MS(5) : 0};
    tri_sim_plan plan = {.seed = 5, .program = "prog"};
    tri_sim_result result;
    FILE *out = tmpfile();
    int error = dup(STDERR_FILENO);

    assert_non_null(out);
    assert_true(error >= 0 && dup2(fileno(out), STDERR_FILENO) >= 0);
    tr_err err = tri_sim_run_plan(&options, &plan, &result, seen, it);
    assert_true(dup2(error, STDERR_FILENO) >= 0);
    close(error);
    rewind(out);
    it->printed[fread(it->printed, 1, sizeof(it->printed) - 1, out)] = '\0';
    fclose(out);
    return err;
}

static void expect_in(const char *text, const char *what)
{
    if (strstr(text, what) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", what, text);
    }
}

static void expect_found(plant it, const char *what)
{
    if (run(&it) != TR_EFAILED) {
        fail_msg("%s: not found", what);
    }
    expect_in(it.text, what);
    // It prints the seed, the invariant, and the command that repeats it.
    expect_in(it.printed, "seed 5 failed at step ");
    expect_in(it.printed, what);
    expect_in(it.printed, "replay: prog --seed 5 --trace\n");
}

static void test_TE4_a_correct_run_passes(void **state)
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

static tri_wait *newest_wait(plant *it)
{
    return tri_list_item(tri_list_first(&it->ext->waits.list), tri_wait, link);
}

static void spoil_correlation(plant *it)
{
    it->was = newest_wait(it)->correlation;
    newest_wait(it)->correlation =
        tri_wait_older(it->ext, newest_wait(it))->correlation;
}

static void spoil_correlation_too(plant *it)
{
    it->was = newest_wait(it)->correlation;
    newest_wait(it)->correlation = it->ext->waits.correlation + 1;
}

static void mend_correlation(plant *it)
{
    newest_wait(it)->correlation = it->was;
}

static void test_TE4_wrong_correlations_are_found(void **state)
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
    it->wait = newest_wait(it);
    it->was = (uint64_t)it->wait->ask.deadline;
    it->wait->ask.deadline -= TR_MINUTES(5);
}

static void mend_timer(plant *it)
{
    it->wait->ask.deadline = (tr_nanos)it->was;
}

static void test_TE4_an_overdue_wait_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_timer, .mend = mend_timer},
                 "invariant timeout");
}

/* Counts a message for an actor that was not scheduled. */
static void spoil_mail(plant *it)
{
    atomic_fetch_add_explicit(&it->idle->queued, 1, memory_order_relaxed);
}

static void mend_mail(plant *it)
{
    atomic_fetch_sub_explicit(&it->idle->queued, 1, memory_order_relaxed);
}

static void test_TE4_a_message_without_a_wakeup_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_mail, .mend = mend_mail},
                 "invariant rest");
}

/* ---- structures that contradict themselves: the run aborts ---- */

static void run_it(void *it)
{
    (void)run(it);
}

static void expect_abort(void (*spoil)(plant *it))
{
    plant it = {.spoil = spoil};

    assert_true(aborts(run_it, &it));
}

static void spoil_cell(plant *it)
{
    it->idle->notice.kind = TRI_ITEM_REPLY;
}

static void test_a_damaged_cell_is_found(void **state)
{
    (void)state;
    expect_abort(spoil_cell);
}

static void spoil_extension(plant *it)
{
    it->ext->keep.stashed++;
}

static void test_a_damaged_extension_is_found(void **state)
{
    (void)state;
    expect_abort(spoil_extension);
}

static tri_virtual *new_record(plant *it)
{
    TR_MUST(tr_host(it->sys, worker));
    return tri_virtual_of(tri_ref_cell(tr_virtual(it->sys, "worker", "one")));
}

static void keep_record(plant *it)
{
    (void)new_record(it);
}

static void spoil_record(plant *it)
{
    tri_virtual *v = new_record(it);

    v->key_at = v->size;
}

static void spoil_shard(plant *it)
{
    tri_virtual *v = new_record(it);

    tri_cluster_shard(tri_cluster_of(it->sys), v)->active++;
}

static void test_a_damaged_record_or_shard_is_found(void **state)
{
    (void)state;
    plant sound = {.spoil = keep_record};

    assert_int_equal(run(&sound), TR_OK);
    expect_abort(spoil_record);
    expect_abort(spoil_shard);
}

/* ---- messages ---- */

/* Returns the oldest of three messages that wait for the worker. */
static tri_item *waiting(plant *it)
{
    tri_item *oldest = it->worker->queue;

    TRI_CHECK(oldest != NULL);
    TRI_CHECK(oldest->next != NULL);
    TRI_CHECK(oldest->next->next != NULL);
    return oldest;
}

static void spoil_order(plant *it)
{
    tri_item *a = waiting(it), *b = a->next;

    a->next = b->next;
    b->next = a;
    it->worker->queue = b;
}

static void test_TE2_TE4_messages_out_of_order_are_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_order}, "invariant fifo: Work");
}

static void spoil_a_message(plant *it)
{
    tri_item *a = waiting(it);

    a->next = a->next->next;
    atomic_fetch_sub_explicit(&it->worker->queued, 1, memory_order_relaxed);
}

static void test_TE4_a_lost_message_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_a_message},
                 "invariant mail: a message is lost");
}

static void spoil_a_block(plant *it)
{
    tri_item *a = waiting(it), *b = a->next;

    a->next = b->next;
    atomic_fetch_sub_explicit(&it->worker->queued, 1, memory_order_relaxed);
    // Freed, and its block is used again for another message.
    tri_msg_free(&it->sys->outside->cache, tri_msg_from(b));
    tr_tell(it->sys, it->idle_ref, Work, .number = 9);
}

static void test_TE4_a_message_freed_unhandled_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_a_block}, "invariant mail: a message");
}

/* Loses the wake-up of an actor, while another actor is always busy. */
static void spoil_a_wakeup(plant *it)
{
    atomic_fetch_and_explicit(&it->idle->mail, ~TRI_MAIL_IDLE,
                              memory_order_relaxed);
    tr_tell(it->sys, it->idle_ref, Work, .number = 1);
    tr_tell(it->sys, tr_spawn(it->sys, worker), Spin);
}

static void mend_wakeup(plant *it)
{
    tri_schedule(it->sys->driven_worker, it->idle);
}

static void test_TE4_a_message_that_starves_is_found(void **state)
{
    (void)state;
    expect_found(
        (plant){.spoil = spoil_a_wakeup, .mend = mend_wakeup, .busy = true},
        "invariant liveness: a message");
}

/* ---- calls ---- */

static tri_wait *then_wait(plant *it)
{
    tri_wait *w = newest_wait(it);

    while (w != NULL && w->kind != TRI_WAIT_THEN) {
        w = tri_wait_older(it->ext, w);
    }
    assert_non_null(w);
    return w;
}

static void spoil_callback(plant *it)
{
    tri_wait *w = then_wait(it);

    tri_disarm(it->sys, w->wheel, &w->timer);
    tri_wait_unlink(w);
    free(w);
}

static void test_TE4_a_callback_never_called_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_callback},
                 "invariant callback: tr_ask_then was never called");
}

static void spoil_callback_too(plant *it)
{
    tr_tell(it->sys, it->asker, Again,
            .then = (uint64_t)(uintptr_t)then_wait(it)->then.fn);
}

static void test_TE4_a_callback_called_twice_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_callback_too},
                 "invariant callback: tr_ask_then was called a second time");
}

static void spoil_request(plant *it)
{
    tri_ext *ext = tri_ext_of(it->keeper);

    it->kept = ext->keep.kept;
    assert_non_null(it->kept);
    ext->keep.kept = NULL;
}

static void mend_request(plant *it)
{
    tri_ext_of(it->keeper)->keep.kept = it->kept;
}

static void test_TE4_a_call_without_its_request_is_found(void **state)
{
    (void)state;
    expect_found((plant){.spoil = spoil_request, .mend = mend_request},
                 "invariant liveness: a call waits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_a_correct_run_passes),
        cmocka_unit_test(test_TE4_an_illegal_transition_is_found),
        cmocka_unit_test(test_TE4_two_writing_turns_are_found),
        cmocka_unit_test(test_TE4_wrong_correlations_are_found),
        cmocka_unit_test(test_TE4_an_overdue_wait_is_found),
        cmocka_unit_test(test_TE4_a_message_without_a_wakeup_is_found),
        cmocka_unit_test(test_a_damaged_cell_is_found),
        cmocka_unit_test(test_a_damaged_extension_is_found),
        cmocka_unit_test(test_a_damaged_record_or_shard_is_found),
        cmocka_unit_test(test_TE2_TE4_messages_out_of_order_are_found),
        cmocka_unit_test(test_TE4_a_lost_message_is_found),
        cmocka_unit_test(test_TE4_a_message_freed_unhandled_is_found),
        cmocka_unit_test(test_TE4_a_message_that_starves_is_found),
        cmocka_unit_test(test_TE4_a_callback_never_called_is_found),
        cmocka_unit_test(test_TE4_a_callback_called_twice_is_found),
        cmocka_unit_test(test_TE4_a_call_without_its_request_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
