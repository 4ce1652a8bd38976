/*
 * no_hooks_test.c - actors without hooks, names and other options start and
 * stop on a shorter path; nobody can see a difference.
 */
#include "support/fixture.h"

#include <sched.h>
#include <stdatomic.h>

/* ---- the states ---- */

TR_MESSAGE(Leave);  // stops itself
TR_MESSAGE(Grow, (uint32_t, depth), (bool, watched));
TR_MESSAGE(Sum, (int64_t, number));
TR_MESSAGE(Meet);
TR_MESSAGE(Trouble);

enum { FAN = 3, DEPTH = 4, TREE = 1 + 3 + 9 + 27 + 81 };

typedef struct Plain {
    tr_ref probe;  // only the top of the tree has one
    int64_t sum, left;
    int64_t ends;  // notices of watched children to come
    tr_ref fails, leaves;
} Plain;

TR_ACTOR_FORWARD(plain, Plain);

static tr_err report(tr_ctx *ctx, Plain *self)
{
    tr_ref to = self->probe.cell != 0 ? self->probe : tr_parent(ctx);
    tr_tell(ctx, to, Sum, .number = self->sum + 1);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err on_grow(tr_ctx *ctx, Plain *self, const Grow *m)
{
    if (m->depth == 0) {
        return report(ctx, self);
    }
    self->left = FAN;
    self->ends = m->watched ? FAN : 0;
    for (int i = 0; i < FAN; i++) {
        tr_ref child = tr_spawn(ctx, plain, .watch = m->watched);
        tr_tell(ctx, child, Grow, .depth = m->depth - 1, .watched = m->watched);
    }
    return TR_OK;
}

static tr_err on_sum(tr_ctx *ctx, Plain *self, const Sum *m)
{
    self->sum += m->number;
    self->left--;
    return self->left == 0 && self->ends == 0 ? report(ctx, self) : TR_OK;
}

static tr_err on_child_gone(tr_ctx *ctx, Plain *self, const tr_terminated *m)
{
    TR_ASSERT(ctx, m->reason == TR_STOPPED);
    TR_ASSERT(ctx, tr_state_of(ctx, m->actor) == TR_STATE_TERMINATED);
    self->ends--;
    return self->left == 0 && self->ends == 0 ? report(ctx, self) : TR_OK;
}

static tr_err on_leave(tr_ctx *ctx, Plain *self, const Leave *m)
{
    (void)self, (void)m;
    TR_ASSERT(ctx, !tr_stopping(ctx));
    tr_stop(ctx, tr_self(ctx));
    TR_ASSERT(ctx, tr_stopping(ctx));
    return TR_OK;
}

/* Spawns a child that ends with mail in its mailbox. */
static tr_err on_meet(tr_ctx *ctx, Plain *self, const Meet *m)
{
    (void)self, (void)m;
    tr_ref child = tr_spawn(ctx, plain);
    tr_tell(ctx, child, Leave);
    tr_tell(ctx, child, Sum, .number = 1);
    tr_tell(ctx, child, Sum, .number = 2);
    return TR_OK;
}

static tr_err on_get_plain(tr_ctx *ctx, Plain *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->sum,
                    .incarnation = tr_incarnation(ctx));
}

static tr_err on_fail_plain(tr_ctx *ctx, Plain *self, const Fail *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to fail");
}

/* Spawns a child that will fail, one that will leave, and a third one. */
static tr_err on_bear_plain(tr_ctx *ctx, Plain *self, const Bear *m)
{
    const tr_supervision *together =
        TR_SUPERVISE(.on_failure = TR_RESTART, .scope = TR_ALL_FOR_ONE);
    self->fails = tr_spawn(ctx, plain, .supervision = together);
    self->leaves = tr_spawn(ctx, plain);
    return tr_reply(ctx, m, .ref = tr_spawn(ctx, plain));
}

static tr_err on_trouble(tr_ctx *ctx, Plain *self, const Trouble *m)
{
    (void)m;
    tr_tell(ctx, self->fails, Fail);
    tr_tell(ctx, self->leaves, Leave);
    return TR_OK;
}

TR_ACTOR(plain, Plain, TR_ON(Grow, on_grow), TR_ON(Sum, on_sum),
         TR_ON(Leave, on_leave), TR_ON(Meet, on_meet), TR_ON(Get, on_get_plain),
         TR_ON(Fail, on_fail_plain), TR_ON(Bear, on_bear_plain),
         TR_ON(Trouble, on_trouble), TR_ON(tr_terminated, on_child_gone));

static void states_are_kept(stage *s)
{
    tr_ref a = tr_spawn(s->sys, plain);
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
    static const tr_state wanted[] = {TR_STATE_RUNNING, TR_STATE_STARTING,
                                      TR_STATE_CREATED, (tr_state)0};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_int_equal(info.history[i], wanted[i]);
    }
    assert_int_equal(gotten(s, a).incarnation, 1);
    watch_end(s, a);
    tr_tell(s->sys, a, Leave);
    assert_int_equal(ended(s, a), TR_STOPPED);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
}

static void test_L19_X24_states_are_recorded_without_hooks(void **state)
{
    (void)state;
    everywhere(states_are_kept);
}

/* Subscribers hear of each state, as with any other actor. */
static void states_are_published(stage *s)
{
    tr_probe *events;
    assert_int_equal(tr_probe_new(&events, s->sys), TR_OK);
    tr_probe_subscribe(events, tr_lifecycle);
    tr_ref a = tr_spawn(s->sys, plain);
    tr_tell(s->sys, a, Leave);
    static const tr_state wanted[] = {TR_STATE_STARTING, TR_STATE_RUNNING,
                                      TR_STATE_STOPPING, TR_STATE_STOPPED,
                                      TR_STATE_TERMINATED};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const tr_lifecycle *e;
        do {  // other actors may start, too
            e = tr_expect(events, patience(s), tr_lifecycle);
        } while (!tr_ref_eq(e->actor, a));
        assert_int_equal(e->state, wanted[i]);
    }
    tr_probe_free(events);
}

static void test_L20_EV4_states_are_published_without_hooks(void **state)
{
    (void)state;
    everywhere(states_are_published);
}

/* ---- families ---- */

static uint64_t lives(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.spawned - m.ended;
}

static void tree_grows(stage *s, bool watched)
{
    uint64_t before = lives(s);
    tr_ref top = tr_spawn(s->sys, plain, TR_INIT(plain, .probe = s->to));
    watch_end(s, top);
    tr_tell(s->sys, top, Grow, .depth = DEPTH, .watched = watched);
    const Sum *sum = tr_expect(s->probe, patience(s), Sum);
    assert_int_equal(sum->number, TREE);
    assert_int_equal(ended(s, top), TR_STOPPED);
    while (lives(s) != before) {
        sched_yield();  // the end is counted after the notice is sent
    }
    quiet(s);
}

static void tree_ends(stage *s)
{
    tree_grows(s, false);
}

static void watched_tree_ends(stage *s)
{
    tree_grows(s, true);
}

static void test_K6_K8_K24_a_tree_of_actors_without_hooks_ends(void **state)
{
    (void)state;
    everywhere(tree_ends);
    everywhere(watched_tree_ends);
}

/* Siblings are restarted together while one of them stops itself. */
static void sibling_leaves(stage *s)
{
    tr_ref p = tr_spawn(s->sys, plain);
    Born born;
    assert_int_equal(tr_ask(s->sys, p, &born, 0, Bear), TR_OK);
    assert_int_equal(gotten(s, born.ref).incarnation, 1);
    tr_tell(s->sys, p, Trouble);
    wait_incarnation(s, born.ref, 2);
    watch_end(s, p);
    tr_stop(s->sys, p);
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_X44_SV18_a_sibling_ends_while_its_cohort_restarts(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        everywhere(sibling_leaves);
    }
}

/* ---- the end ---- */

static void mail_is_left(stage *s)
{
    tr_probe *dead;
    assert_int_equal(tr_probe_new(&dead, s->sys), TR_OK);
    tr_probe_subscribe(dead, tr_dead_letter);
    tr_ref a = tr_spawn(s->sys, plain);
    tr_tell(s->sys, a, Meet);
    for (int i = 0; i < 2; i++) {
        const tr_dead_letter *letter =
            tr_expect(dead, patience(s), tr_dead_letter);
        assert_string_equal(letter->type, "Sum");
    }
    tr_expect_nothing(dead, 1);
    tr_probe_free(dead);
}

static void test_K2_DR1_mail_left_by_an_actor_without_hooks_is_dead(
    void **state)
{
    (void)state;
    everywhere(mail_is_left);
}

TR_MESSAGE(Stay);  // stops its actor and does not return

typedef struct Sitter {
    _Atomic(bool) *out;
} Sitter;

static tr_err on_stay(tr_ctx *ctx, Sitter *self, const Stay *m)
{
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    // Acquire: pairs with the test's store.
    while (!atomic_load_explicit(self->out, memory_order_acquire)) {
        sched_yield();
    }
    return TR_OK;
}

TR_ACTOR(sitter, Sitter, TR_ON(Stay, on_stay));

static void test_X15_an_actor_stuck_after_its_own_stop_is_forced(void **state)
{
    (void)state;
    static stage s;
    static _Atomic(bool) out;
    stage_open(&s, 0, NULL);
    tr_ref a = tr_spawn(s.sys, sitter, .stop_timeout = TR_MS(20),
                        TR_INIT(sitter, .out = &out));
    watch_end(&s, a);
    tr_tell(s.sys, a, Stay);
    assert_int_equal(ended(&s, a), TR_FORCED);
    // Release: pairs with the handler.
    atomic_store_explicit(&out, true, memory_order_release);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L19_X24_states_are_recorded_without_hooks),
        cmocka_unit_test(test_L20_EV4_states_are_published_without_hooks),
        cmocka_unit_test(test_K6_K8_K24_a_tree_of_actors_without_hooks_ends),
        cmocka_unit_test(
            test_X44_SV18_a_sibling_ends_while_its_cohort_restarts),
        cmocka_unit_test(
            test_K2_DR1_mail_left_by_an_actor_without_hooks_is_dead),
        cmocka_unit_test(test_X15_an_actor_stuck_after_its_own_stop_is_forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
