/*
 * model_of_actors_test.c - what every actor may rely on: one message at a
 * time, copies, refs that are values, systems that share nothing.
 */
#include "support/fixture.h"

#include <stdatomic.h>

TR_MESSAGE(Step, (uint32_t, from), (uint64_t, number));

enum { SENDERS = 3, STEPS = 3000 };

typedef struct Counter {
    tr_ref probe;
    uint64_t seen[SENDERS];
    uint64_t all;
} Counter;

static _Atomic(int) inside;

static _Atomic(int) disorder;

static tr_err on_step(tr_ctx *ctx, Counter *self, const Step *m)
{
    // Relaxed: only the numbers count.
    if (atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed) != 0 ||
        m->number != self->seen[m->from]) {
        atomic_fetch_add_explicit(&disorder, 1, memory_order_relaxed);
    }
    self->seen[m->from]++;
    if (++self->all == SENDERS * STEPS) {
        tr_tell(ctx, self->probe, Note, .text = "all");
    }
    atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_ON(Step, on_step));

typedef struct sender {
    tr_system *sys;
    tr_ref to;
    uint32_t index;
} sender;

static void send_steps(void *arg)
{
    sender *it = arg;
    for (uint64_t i = 0; i < STEPS; i++) {
        tr_tell(it->sys, it->to, Step, .from = it->index, .number = i);
    }
}

static void one_at_a_time(stage *s)
{
    // Relaxed: no other thread runs yet.
    atomic_store_explicit(&disorder, 0, memory_order_relaxed);
    tr_ref c = tr_spawn(s->sys, counter, TR_INIT(counter, .probe = s->to));
    sender senders[SENDERS];
    tr_thread *threads[SENDERS];
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (sender){s->sys, c, i};
        assert_int_equal(
            tr_thread_start(s->sys, &threads[i], send_steps, &senders[i]),
            TR_OK);
    }
    heard(s, "all");
    for (uint32_t i = 0; i < SENDERS; i++) {
        tr_thread_join(s->sys, threads[i]);
    }
    assert_int_equal(atomic_load_explicit(&disorder, memory_order_relaxed), 0);
}

static void test_C1_C2_C9_C10_one_at_a_time_in_the_order_of_each_sender(
    void **state)
{
    (void)state;
    everywhere(one_at_a_time);
}

static _Atomic(int) meeting;

static tr_err on_meet(tr_ctx *ctx, Player *self, const Say *m)
{
    (void)m;
    // Acquire and release: both must be here at the same time.
    atomic_fetch_add_explicit(&meeting, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&meeting, memory_order_acquire) < 2) {
    }
    note(ctx, self, "met", 0, TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(meeter, Player, TR_ON(Say, on_meet));

static void test_C4_two_actors_run_at_once(void **state)
{
    (void)state;
    static stage s;
    stage_open(&s, 0, NULL);
    atomic_store_explicit(&meeting, 0, memory_order_relaxed);
    for (int i = 0; i < 2; i++) {
        tr_ref m = tr_spawn(s.sys, meeter, TR_INIT(meeter, .probe = s.to));
        tr_tell(s.sys, m, Say, .text = "");
    }
    (void)tr_expect(s.probe, patience(&s), Note);
    (void)tr_expect(s.probe, patience(&s), Note);
    stage_close(&s);
}

static void copies(stage *s)
{
    char text[] = "before";
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Say, .text = text);
    memcpy(text, "after!", sizeof(text));
    heard(s, "a before");
    // A ref may outlive its actor and be sent in messages.
    tr_tell(s->sys, a, End, .ref = a);
    (void)joined(s, a);
    tr_tell(s->sys, a, Say, .text = "nobody hears");
    tr_stop(s->sys, a);
    tr_kill(s->sys, a);
    tr_poison(s->sys, a);
    assert_int_equal(tr_ask(s->sys, a, NULL, 0, Get), TR_EGONE);
    quiet(s);
}

static void test_C3_C6_C15_messages_are_copies_and_refs_are_values(void **state)
{
    (void)state;
    everywhere(copies);
}

static tr_err on_look(tr_ctx *ctx, Player *self, const Say *m)
{
    char path[TR_PATH_SIZE];
    bool right = strcmp(tr_name(ctx), "child") == 0 &&
                 strcmp(tr_ref_path(ctx, tr_self(ctx), path, sizeof(path)),
                        "/user/p/child") == 0 &&
                 strcmp(tr_ref_path(ctx, tr_parent(ctx), path, sizeof(path)),
                        "/user/p") == 0 &&
                 tr_ref_eq(tr_sender(ctx), self->probe) &&
                 tr_incarnation(ctx) == 1 && tr_children(ctx, NULL, 0) == 0 &&
                 !tr_stopping(ctx) && tr_now(ctx) <= tr_now(tr_system_of(ctx));
    note(ctx, self, m->text, right, TR_NOBODY);
    return TR_OK;
}

TR_ACTOR(looker, Player, TR_ON(Say, on_look));

typedef struct Mother {
    tr_ref probe;
} Mother;

static tr_err mother_start(tr_ctx *ctx, Mother *self)
{
    (void)tr_spawn(ctx, looker, .name = "child",
                   TR_INIT(looker, .probe = self->probe));
    return TR_OK;
}

static tr_err mother_looks(tr_ctx *ctx, Mother *self, const Say *m)
{
    tr_ref children[2];
    size_t count = tr_children(ctx, children, 2);
    bool right = count == 1 && tr_ref_eq(children[0], tr_child(ctx, "child")) &&
                 tr_ref_eq(children[0], tr_lookup(ctx, "child")) &&
                 tr_ref_eq(tr_child(ctx, "nobody"), TR_NOBODY) &&
                 tr_ref_eq(tr_parent(ctx), tr_lookup(ctx, "/user"));
    tr_tell(ctx, self->probe, Note, .text = m->text, .number = right);
    return TR_OK;
}

TR_ACTOR(mother, Mother, TR_HOOK(pre_start, mother_start),
         TR_ON(Say, mother_looks));

static void context(stage *s)
{
    tr_ref p =
        tr_spawn(s->sys, mother, .name = "p", TR_INIT(mother, .probe = s->to));
    assert_int_equal(tr_started(s->sys, p, 0), TR_OK);
    tr_ref c = tr_lookup(s->sys, "/user/p/child");
    tr_tell(s->probe, c, Say, .text = "looked");
    assert_int_equal(heard(s, "child looked"), true);
    tr_tell(s->probe, p, Say, .text = "she looked");
    assert_int_equal(heard(s, "she looked"), true);
}

static void test_C7_the_context_knows_path_parent_and_children(void **state)
{
    (void)state;
    everywhere(context);
}

static void test_C5_C17_systems_share_nothing(void **state)
{
    (void)state;
    static stage one, two;
    stage_open(&one, 0, NULL);
    stage_open(&two, 5, NULL);
    tr_ref a = PLAY(&one, "a", ());
    tr_ref b = PLAY(&two, "a", ());  // the same name, the same code
    (void)gotten(&one, a);
    (void)gotten(&two, b);
    // A ref of another system is refused before its cell is read.
    assert_int_equal(tr_try_tell(one.sys, b, Strange), TR_EFOREIGN);
    assert_int_equal(tr_try_tell(two.sys, a, Strange), TR_EFOREIGN);
    assert_int_equal(tr_state_of(one.sys, b), TR_STATE_TERMINATED);
    tr_stop(one.sys, b);
    (void)gotten(&two, b);
    stage_close(&two);
    (void)gotten(&one, a);
    stage_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_C1_C2_C9_C10_one_at_a_time_in_the_order_of_each_sender),
        cmocka_unit_test(test_C4_two_actors_run_at_once),
        cmocka_unit_test(
            test_C3_C6_C15_messages_are_copies_and_refs_are_values),
        cmocka_unit_test(test_C7_the_context_knows_path_parent_and_children),
        cmocka_unit_test(test_C5_C17_systems_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
