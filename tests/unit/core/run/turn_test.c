/*
 * turn_test.c - turns of one actor: one runs at a time, some may run beside a
 * turn that waits, a batch takes several messages.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <pthread.h>
#include <sched.h>

#include "support/core.h"
#include "unit/core/waiting.h"

enum { SENDERS = 3 };

typedef struct turnstile {
    stage *stage;
    _Atomic(int) inside;
    _Atomic(uint64_t) passed, crowded;
    uint64_t each;
} turnstile;

static tr_err act_pass(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    turnstile *it = arg;
    (void)ctx;
    (void)self;
    (void)m;
    if (atomic_fetch_add(&it->inside, 1) != 0) {
        atomic_fetch_add(&it->crowded, 1);
    }
    atomic_fetch_add(&it->passed, 1);
    atomic_fetch_sub(&it->inside, 1);
    return TR_OK;
}

static void *send_many(void *arg)
{
    turnstile *it = arg;
    for (uint64_t i = 0; i < it->each; i++) {
        act_tell(it->stage->sys, it->stage->one, act_pass, it);
    }
    return NULL;
}

static void test_MB2_MB6_one_turn_at_a_time(void **state)
{
    stage it;
    turnstile gate_one = {.stage = &it, .each = stage_scaled(100000)};
    pthread_t threads[SENDERS];
    tr_system_options options = {.size = sizeof(options), .workers = 4};
    (void)state;
    stage_open_real(&it, &options);
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, send_many, &gate_one), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    assert_int_equal(atomic_load(&gate_one.passed), SENDERS * gate_one.each);
    assert_int_equal(atomic_load(&gate_one.crowded), 0);
    stage_close(&it);
}

static tr_err act_watch_the_ended(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    (void)self;
    (void)m;
    // The notice is plain system mail: no signal and no flag of the cell.
    tr_watch(ctx, *(tr_ref *)arg);
    return TR_OK;
}

static void test_MB14_X26_system_mail_is_seen_between_detached_messages(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_kill(it.sys, it.two);
    expect_err(tr_join(it.sys, it.two, 0, NULL, NULL), TR_OK);
    // The first wakes the actor; the others are detached together.
    stage_tell(&it, it.one, act_nothing, NULL);
    stage_tell(&it, it.one, act_watch_the_ended, &it.two);
    tr_tell(it.sys, it.one, Note, .value = 1);
    tr_tell(it.sys, it.one, Note, .value = 2);
    stage_run_ready(&it);
    expect_notes(&it, 1000 + TR_NO_SUCH_ACTOR, 1, 2);
    stage_close(&it);
}

enum { EACH = 100 };

typedef struct order {
    tr_ref to[2];
    char text[2 * EACH + 1];
    _Atomic(uint32_t) used;
} order;

typedef struct Taker {
    order *order;
    char letter;
} Taker;

static tr_err on_take(tr_ctx *ctx, Taker *self, const Note *m)
{
    (void)ctx;
    (void)m;
    self->order->text[atomic_fetch_add(&self->order->used, 1)] = self->letter;
    return TR_OK;
}

TR_ACTOR(takers, Taker, TR_ON(Note, on_take));

static tr_err act_send_in_turns(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    order *it = arg;
    (void)self;
    (void)m;
    for (int i = 0; i < 2 * EACH; i++) {
        tr_tell(ctx, it->to[i % 2], Note, .value = i);
    }
    return TR_OK;
}

/*
 * A worker runs one cell at a time and handles several of its messages in one
 * batch. Sent A, B, A, B, ... they are handled A, A, ..., B, B, ...
 */
static void test_MB18_DP6_a_batch_takes_several_messages(void **state)
{
    stage it;
    order seen = {0};
    (void)state;
    stage_open_real(&it, NULL);
    tr_ref sender = stage_spawn(&it, .dispatcher = "concurrent");
    for (int i = 0; i < 2; i++) {
        seen.to[i] =
            tr_spawn(it.sys, takers,
                     TR_INIT(takers, .order = &seen, .letter = (char)('A' + i)),
                     .dispatcher = "concurrent");
        expect_ok(tr_started(it.sys, seen.to[i], 0));
    }
    expect_ok(stage_ask(&it, sender, act_send_in_turns, &seen));
    while (atomic_load(&seen.used) < 2 * EACH) {
        sched_yield();
    }
    int runs = 1;
    for (int i = 1; i < 2 * EACH; i++) {
        runs += seen.text[i] != seen.text[i - 1];
    }
    int batch = TRI_BATCH_MESSAGES == 1 ? 1 : TRI_CLOCK_FIRST;
    assert_true(runs >= 2);
    assert_true(runs <= 2 * EACH / batch + 2);
    stage_close(&it);
}

/* ---- beside a parked turn ---- */

static void test_rule_01_X50_interleaving_handlers_run_beside_a_parked_writer(
    void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_tell(&it, it.one, act_note, (void *)4);
    tell_beside(&it, it.one, act_note, (void *)3);
    stage_run_ready(&it);
    expect_notes(&it, 1, 3);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 3, 2, 4);
    stage_close(&it);
}

static void test_rule_01_X50_reads_run_beside_readers_only(void **state)
{
    stage it;
    nap reader = {TR_SECONDS(1), 1, 2, TR_OK};
    nap writer = {TR_SECONDS(1), 5, 6, TR_OK};
    (void)state;
    stage_open(&it);
    tell_read(&it, it.one, act_nap, &reader);
    tell_read(&it, it.one, act_note, (void *)3);
    stage_run_ready(&it);
    expect_notes(&it, 1, 3);
    // Readers wait behind a writer in the queue.
    stage_tell(&it, it.one, act_nap, &writer);
    tell_read(&it, it.one, act_note, (void *)4);
    stage_run_ready(&it);
    expect_notes(&it, 1, 3);
    // No reader runs beside a writer.
    stage_pass(&it, TR_MS(1500));
    expect_notes(&it, 1, 3, 2, 5);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 3, 2, 5, 6, 4);
    stage_close(&it);
}

static tr_err act_keep_and_count(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    TR_TRY(act_keep(ctx, self, m, arg));
    stage_note(self->stage, 0);
    return TR_OK;
}

static tr_err act_answer_kept(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    const Act *kept = self->kept;
    self->kept = NULL;
    return tr_reply(ctx, kept, .value = (int64_t)(intptr_t)arg);
}

typedef struct wait_for {
    tr_ref whom;
    _Atomic(int64_t) got;
} wait_for;

static tr_err act_wait_for(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    wait_for *it = arg;
    Acted out;
    (void)self;
    (void)m;
    TR_TRY(tr_ask(ctx, it->whom, &out, TR_FOREVER, Act,
                  .fn = (uint64_t)(uintptr_t)act_keep_and_count));
    atomic_store(&it->got, out.value);
    return TR_OK;
}

/* On a real thread, where a cell with one parked turn has a fast path. */
static void test_rule_01_X50_each_of_two_parked_turns_continues(void **state)
{
    stage it;
    (void)state;
    stage_open_real(&it, TR_OPTIONS(tr_system_options, .workers = 1));
    wait_for first = {.whom = it.two}, second = {.whom = it.three};
    tell_beside(&it, it.one, act_wait_for, &first);
    tell_beside(&it, it.one, act_wait_for, &second);
    while (atomic_load(&it.note_count) < 2) {
        sched_yield();
    }
    // The older wait is answered first, then the newer one.
    expect_ok(stage_ask(&it, it.two, act_answer_kept, (void *)22));
    while (atomic_load(&first.got) != 22) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&second.got), 0);
    tell_beside(&it, it.one, act_wait_for, &first);
    while (atomic_load(&it.note_count) < 3) {
        sched_yield();
    }
    expect_ok(stage_ask(&it, it.two, act_answer_kept, (void *)23));
    while (atomic_load(&first.got) != 23) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&second.got), 0);
    expect_ok(stage_ask(&it, it.three, act_answer_kept, (void *)33));
    while (atomic_load(&second.got) != 33) {
        sched_yield();
    }
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB2_MB6_one_turn_at_a_time),
        cmocka_unit_test(
            test_MB14_X26_system_mail_is_seen_between_detached_messages),
        cmocka_unit_test(test_MB18_DP6_a_batch_takes_several_messages),
        cmocka_unit_test(
            test_rule_01_X50_interleaving_handlers_run_beside_a_parked_writer),
        cmocka_unit_test(test_rule_01_X50_reads_run_beside_readers_only),
        cmocka_unit_test(test_rule_01_X50_each_of_two_parked_turns_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
