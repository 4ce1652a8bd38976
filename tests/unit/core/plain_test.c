/*
 * plain_test.c - actors without hooks, names and the like, whose lives are
 * taken in few steps: they must not differ in anything that can be seen.
 */
#include "support/fixture.h"

#include <stdatomic.h>

TR_MESSAGE(Leave);  // stops itself
TR_MESSAGE(Grow, (uint32_t, depth), (bool, watched));
TR_MESSAGE(Sum, (int64_t, number));
TR_MESSAGE(Stay);  // stops itself, and does not return
TR_MESSAGE(Meet);
TR_MESSAGE(Trouble);

enum { FAN = 3, DEPTH = 4, TREE = 1 + 3 + 9 + 27 + 81 };

typedef struct Plain {
    tr_ref probe;  // of the top; the others have none
    int64_t sum, left;
    int64_t ends;  // of watched children, yet to be told
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

/* A child that is left with mail. */
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

/* Three children: one that will fail, one that will leave, and this one. */
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

static uint64_t lives(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.spawned - m.ended;
}

/* ---- the states ---- */

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
    mourn(s, a);
    tr_tell(s->sys, a, Leave);
    assert_int_equal(ended(s, a), TR_STOPPED);
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
}

static void test_L19_X24_the_states_of_a_plain_life(void **state)
{
    (void)state;
    everywhere(states_are_kept);
}

/* Whoever listens is told of each state, of those as of any other. */
static void states_are_told(stage *s)
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
        do {  // others may start, too
            e = tr_expect(events, patience(s), tr_lifecycle);
        } while (!tr_ref_eq(e->actor, a));
        assert_int_equal(e->state, wanted[i]);
    }
    tr_probe_free(events);
}

static void test_L20_EV4_a_listener_is_told_of_plain_lives(void **state)
{
    (void)state;
    everywhere(states_are_told);
}

/* ---- families ---- */

static void tree_grows(stage *s, bool watched)
{
    uint64_t before = lives(s);
    tr_ref top = tr_spawn(s->sys, plain, TR_INIT(plain, .probe = s->to));
    mourn(s, top);
    tr_tell(s->sys, top, Grow, .depth = DEPTH, .watched = watched);
    const Sum *sum = tr_expect(s->probe, patience(s), Sum);
    assert_int_equal(sum->number, TREE);
    assert_int_equal(ended(s, top), TR_STOPPED);
    while (lives(s) != before) {
        tri_lock_yield();  // the top is counted after it is told
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

static void test_K6_K8_K24_a_tree_of_plain_actors_ends(void **state)
{
    (void)state;
    everywhere(tree_ends);
    everywhere(watched_tree_ends);
}

/* Siblings are restarted together while one of them ends by itself. */
static void sibling_leaves(stage *s)
{
    tr_ref p = tr_spawn(s->sys, plain);
    Born born;
    assert_int_equal(tr_ask(s->sys, p, &born, 0, Bear), TR_OK);
    assert_int_equal(gotten(s, born.ref).incarnation, 1);
    tr_tell(s->sys, p, Trouble);
    wait_incarnation(s, born.ref, 2);
    mourn(s, p);
    tr_stop(s->sys, p);
    assert_int_equal(ended(s, p), TR_STOPPED);
}

static void test_X44_SV18_a_plain_sibling_ends_in_a_group(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        everywhere(sibling_leaves);
    }
}

/* ---- what is left ---- */

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

static void test_K2_DR1_what_a_plain_actor_leaves_is_dead_mail(void **state)
{
    (void)state;
    everywhere(mail_is_left);
}

/* ---- one that does not return ---- */

typedef struct Sitter {
    _Atomic(bool) *out;
} Sitter;

static tr_err on_stay(tr_ctx *ctx, Sitter *self, const Stay *m)
{
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    // Acquire: pairs with the test's store.
    while (!atomic_load_explicit(self->out, memory_order_acquire)) {
        tri_lock_yield();
    }
    return TR_OK;
}

TR_ACTOR(sitter, Sitter, TR_ON(Stay, on_stay));

static void test_X15_one_that_stopped_itself_is_forced(void **state)
{
    (void)state;
    static stage s;
    static _Atomic(bool) out;
    stage_open(&s, 0, NULL);
    tr_ref a = tr_spawn(s.sys, sitter, .stop_timeout = TR_MS(20),
                        TR_INIT(sitter, .out = &out));
    mourn(&s, a);
    tr_tell(s.sys, a, Stay);
    assert_int_equal(ended(&s, a), TR_FORCED);
    // Release: pairs with the handler.
    atomic_store_explicit(&out, true, memory_order_release);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_K2_DR1_what_a_plain_actor_leaves_is_dead_mail),
        cmocka_unit_test(test_K6_K8_K24_a_tree_of_plain_actors_ends),
        cmocka_unit_test(test_L19_X24_the_states_of_a_plain_life),
        cmocka_unit_test(test_L20_EV4_a_listener_is_told_of_plain_lives),
        cmocka_unit_test(test_X15_one_that_stopped_itself_is_forced),
        cmocka_unit_test(test_X44_SV18_a_plain_sibling_ends_in_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
