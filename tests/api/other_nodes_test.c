/*
 * other_nodes_test.c - actors of one node ask and tell those of another, and
 * each knows who has sent its message.
 *
 * Each node hosts one kind that the other does not: a message for "near" is
 * handled on the first node, one for "far" on the second.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <troupe/troupe.h>

#define PATIENCE TR_SECONDS(60)

enum { KEYS = 8, NUMBERS = 200 };

/* ---- actors that say who has sent ---- */

/* has_sender: only refs of virtual actors reach another node. */
TR_MESSAGE(Seen, (tr_ref, self), (tr_ref, sender), (bool, has_sender),
           (uint64_t, incarnation), (uint32_t, count), (uint32_t, wrong));
TR_REQUEST(Look, Seen);                    // who has sent this request
TR_REQUEST(Last, Seen);                    // who has sent the last number
TR_REQUEST(AskOther, Seen, (tr_ref, to));  // the answer of `to` to Look
TR_REQUEST(TellOther, Seen, (tr_ref, to), (uint32_t, count));
TR_REQUEST(PassOn, Seen, (uint32_t, copied));  // to a child
TR_MESSAGE(Number, (uint32_t, n));

typedef struct Witness {
    tr_ref sender;
    uint32_t count, wrong;
} Witness;

static tr_err say(tr_ctx *ctx, const void *m, const Witness *self,
                  tr_ref sender)
{
    tr_node node = tr_cluster_self(tr_system_of(ctx));
    return tr_reply(ctx, (const Look *)m, .self = tr_self(ctx),
                    .sender = sender, .has_sender = !tr_ref_is_nobody(sender),
                    .incarnation = node.incarnation, .count = self->count,
                    .wrong = self->wrong);
}

static tr_err on_look(tr_ctx *ctx, Witness *self, const Look *m)
{
    return say(ctx, m, self, tr_sender(ctx));
}

static tr_err on_last(tr_ctx *ctx, Witness *self, const Last *m)
{
    return say(ctx, m, self, self->sender);
}

static tr_err on_number(tr_ctx *ctx, Witness *self, const Number *m)
{
    self->sender = tr_sender(ctx);
    self->wrong += m->n != ++self->count;
    return TR_OK;
}

/* Waits before it asks: the turn goes on later, and is still that actor's. */
static tr_err on_ask_other(tr_ctx *ctx, Witness *self, const AskOther *m)
{
    Seen seen;
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    TR_OR_REFUSE(ctx, m, tr_ask(ctx, m->to, &seen, PATIENCE, Look));
    return tr_reply(ctx, m, .self = seen.self, .sender = seen.sender,
                    .has_sender = seen.has_sender,
                    .incarnation = seen.incarnation);
}

static tr_err on_tell_other(tr_ctx *ctx, Witness *self, const TellOther *m)
{
    Seen seen;
    (void)self;
    for (uint32_t n = 1; n <= m->count; n++) {
        tr_tell(ctx, m->to, Number, .n = n);
    }
    TR_OR_REFUSE(ctx, m, tr_ask(ctx, m->to, &seen, PATIENCE, Last));
    return tr_reply(ctx, m, .self = seen.self, .sender = seen.sender,
                    .has_sender = seen.has_sender,
                    .incarnation = seen.incarnation, .count = seen.count,
                    .wrong = seen.wrong);
}

static tr_err on_passed(tr_ctx *ctx, Witness *self, const PassOn *m)
{
    return say(ctx, m, self, tr_sender(ctx));
}

TR_ACTOR(passed, Witness, TR_ON(PassOn, on_passed));

static tr_err on_pass_on(tr_ctx *ctx, Witness *self, const PassOn *m)
{
    tr_ref child = tr_spawn(ctx, passed);
    (void)self;
    if (m->copied) {
        tr_forward_copy(ctx, child, m, m);
    } else {
        tr_forward(ctx, child, m);
    }
    return TR_OK;
}

#define HANDLERS                                                               \
    TR_ON(Look, on_look), TR_ON(Last, on_last), TR_ON(Number, on_number),      \
        TR_ON(AskOther, on_ask_other), TR_ON(TellOther, on_tell_other),        \
        TR_ON(PassOn, on_pass_on)

TR_ACTOR(near, Witness, HANDLERS);
TR_ACTOR(far, Witness, HANDLERS);

/* ---- the stage ---- */

typedef struct stage {
    tr_engine *engine;
    tr_system *here, *there;
} stage;

static tr_system *open_node(stage *s, const tr_actor_def *def)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .workers = 1, .ns = "shop"));
    TR_MUST((tr_host)(sys, def, NULL));
    TR_MUST(tr_cluster_join(sys, .engine = s->engine, .lease = TR_SECONDS(3),
                            .timeout = PATIENCE));
    return sys;
}

static int set_up(void **state)
{
    stage *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    TR_MUST(tr_engine_memory(&s->engine, "nodes", NULL));
    s->here = open_node(s, &near);
    s->there = open_node(s, &far);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    stage *s = *state;
    TR_MUST(tr_system_close(s->here, PATIENCE));
    TR_MUST(tr_system_close(s->there, PATIENCE));
    tr_engine_close(s->engine);
    free(s);
    return 0;
}

static tr_ref named(tr_system *sys, const char *kind, uint32_t number)
{
    char key[] = {'k', (char)('0' + number % 10), '\0'};
    return tr_virtual(sys, kind, key);
}

static uint64_t incarnation_of(tr_system *sys)
{
    return tr_cluster_self(sys).incarnation;
}

/* ---- tests ---- */

static void test_DP9_PA4_actors_of_other_nodes_are_asked(void **state)
{
    stage *s = *state;
    Seen seen;
    for (uint32_t i = 0; i < KEYS; i++) {
        TR_MUST(
            tr_ask(s->here, named(s->here, "far", i), &seen, PATIENCE, Look));
        assert_int_equal(seen.incarnation, incarnation_of(s->there));
        assert_true(tr_ref_eq(seen.self, named(s->here, "far", i)));
        TR_MUST(tr_ask(s->there, named(s->there, "near", i), &seen, PATIENCE,
                       Look));
        assert_int_equal(seen.incarnation, incarnation_of(s->here));
        assert_true(tr_ref_eq(seen.self, named(s->there, "near", i)));
    }
}

/* All of them come, in the order of sending. */
static void test_DP9_PA4_actors_of_other_nodes_are_told(void **state)
{
    stage *s = *state;
    Seen seen;
    for (uint32_t i = 0; i < KEYS; i++) {
        TR_MUST(tr_ask(s->here, named(s->here, "near", i), &seen, PATIENCE,
                       TellOther, .to = named(s->here, "far", i),
                       .count = NUMBERS));
        assert_int_equal(seen.incarnation, incarnation_of(s->there));
        assert_int_equal(seen.count, NUMBERS);
        assert_int_equal(seen.wrong, 0);
    }
}

/* Plain and virtual actors of a system that has joined nothing. */
static void test_T18_the_sender_is_the_actor_whose_turn_it_is(void **state)
{
    tr_system *sys;
    Seen seen;
    (void)state;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(tr_host(sys, near));
    tr_ref senders[] = {tr_spawn(sys, near), named(sys, "near", 1)};
    tr_ref targets[] = {tr_spawn(sys, near), named(sys, "near", 2)};
    for (int i = 0; i < 4; i++) {
        tr_ref sender = senders[i % 2], target = targets[i / 2];
        TR_MUST(tr_ask(sys, sender, &seen, PATIENCE, AskOther, .to = target));
        assert_true(tr_ref_eq(seen.sender, sender));
        TR_MUST(tr_ask(sys, sender, &seen, PATIENCE, TellOther, .to = target,
                       .count = 1));
        assert_true(tr_ref_eq(seen.sender, sender));
        tr_tell(sys, target, Number, .n = 1);  // of no actor
        TR_MUST(tr_ask(sys, target, &seen, PATIENCE, Last));
        assert_false(seen.has_sender);
    }
    TR_MUST(tr_system_close(sys, PATIENCE));
}

static void test_T18_the_sender_is_known_on_the_other_node(void **state)
{
    stage *s = *state;
    Seen seen;
    tr_ref sender = named(s->here, "near", 8);
    tr_ref target = named(s->here, "far", 9);
    TR_MUST(tr_ask(s->here, sender, &seen, PATIENCE, TellOther, .to = target,
                   .count = 1));
    assert_int_equal(seen.incarnation, incarnation_of(s->there));
    assert_true(tr_ref_eq(seen.sender, sender));
    tr_tell(s->here, target, Number, .n = 2);
    TR_MUST(tr_ask(s->here, target, &seen, PATIENCE, Last));
    assert_int_equal(seen.count, 2);
    assert_false(seen.has_sender);
}

/* The answer finds the asker; the asker's ref does not come with a request. */
static void test_a_request_of_another_node_has_no_sender(void **state)
{
    stage *s = *state;
    Seen seen;
    tr_ref sender = named(s->here, "near", 6);
    tr_ref target = named(s->here, "far", 7);
    TR_MUST(tr_ask(s->here, sender, &seen, PATIENCE, AskOther, .to = target));
    assert_int_equal(seen.incarnation, incarnation_of(s->there));
    assert_false(seen.has_sender);
    // Passed on, and passed on as a copy.
    for (uint32_t copied = 0; copied < 2; copied++) {
        TR_MUST(
            tr_ask(s->here, target, &seen, PATIENCE, PassOn, .copied = copied));
        assert_int_equal(seen.incarnation, incarnation_of(s->there));
        assert_false(seen.has_sender);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP9_PA4_actors_of_other_nodes_are_asked),
        cmocka_unit_test(test_DP9_PA4_actors_of_other_nodes_are_told),
        cmocka_unit_test(test_T18_the_sender_is_the_actor_whose_turn_it_is),
        cmocka_unit_test(test_T18_the_sender_is_known_on_the_other_node),
        cmocka_unit_test(test_a_request_of_another_node_has_no_sender),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
