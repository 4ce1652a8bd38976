/*
 * tell_test.c - tr_tell, from the call to the handler.
 */
#include "support/fixture.h"

/* The sender goes on while the receiver sleeps. */
static void tell_and_forget(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Nap, .span = TR_MS(20));
    tr_tell(s->sys, a, Say, .text = "later");  // while it sleeps
    assert_int_equal(heard(s, "a woke"), TR_OK);
    heard(s, "a later");
    quiet(s);  // a tell has no answer
}

static void test_T1_a_tell_does_not_wait(void **state)
{
    (void)state;
    everywhere(tell_and_forget);
}

/* A ref from tr_spawn or tr_lookup leads to its own actor. */
static void ref_to_actor(stage *s)
{
    tr_ref refs[3] = {PLAY(s, "a", ()), PLAY(s, "b", ()), PLAY(s, "c", ())};
    char path[TR_PATH_SIZE];
    for (int i = 0; i < 3; i++) {
        tr_tell(s->sys, refs[i], Add, .number = i + 1);
        tr_ref again =
            tr_lookup(s->sys, tr_ref_path(s->sys, refs[i], path, sizeof(path)));
        assert_true(tr_ref_eq(again, refs[i]));
        assert_int_equal(gotten(s, again).number, i + 1);
    }
    tr_stop(s->sys, refs[1]);
    (void)joined(s, refs[1]);
    tr_ref b = PLAY(s, "b", ());  // another actor of the same name
    tr_tell(s->sys, refs[1], Add, .number = 50);
    assert_int_equal(gotten(s, b).number, 0);
    // Nor does the old ref lead to the next actor in the cell.
    tr_ref old = CHILD(s, refs[0], "old", ());
    tr_stop(s->sys, old);
    (void)joined(s, old);
    bool same = false;
    tr_ref heirs[10];
    for (int i = 0; i < 10; i++) {
        heirs[i] = CHILD(s, refs[0], NULL, ());
        same |= heirs[i].cell == old.cell;
    }
    assert_true(same ||
                s->sim ==
                    NULL);  // on real threads another worker may have the cell
    tr_tell(s->sys, old, Add, .number = 60);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(gotten(s, heirs[i]).number, 0);
    }
}

static void test_T2_a_ref_finds_its_actor(void **state)
{
    (void)state;
    everywhere(ref_to_actor);
}

/* Priority, deadline and sender are not fields of the message. */
static void envelope(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(2));
    tr_sim_advance(s->sim, 0);
    tr_tell(s->probe, a, Say, .text = "third");
    tr_tell_urgent(s->probe, a, 1, Say, .text = "second");
    tr_tell_urgent(s->probe, a, 5, Say, .text = "first");
    Count count;
    // The request expires before its turn: it is not handled.
    assert_int_equal(tr_ask(s->sys, a, &count, TR_SECONDS(1), Get),
                     TR_ETIMEDOUT);
    heard(s, "a woke");
    const Note *n = tr_expect(s->probe, patience(s), Note);
    assert_string_equal(n->text, "a first");
    assert_true(tr_ref_eq(n->ref, s->to));  // the sender
    heard(s, "a second");
    heard(s, "a third");
    quiet(s);
}

static void test_T4_a_message_carries_priority_deadline_and_sender(void **state)
{
    (void)state;
    virtually(envelope);
}

typedef struct Shop {
    tr_ref probe;
} Shop;

TR_MESSAGE(Order, (int64_t, amount), (tr_ref, reply_to));
TR_MESSAGE(Delivered, (int64_t, amount));
TR_MESSAGE(Begin);

typedef struct Customer {
    tr_ref store;
    tr_ref probe;
} Customer;

static tr_err on_begin(tr_ctx *ctx, Customer *self, const Begin *m)
{
    (void)m;
    tr_tell(ctx, self->store, Order, .amount = 1, .reply_to = tr_self(ctx));
    tr_tell(ctx, self->store, Order, .amount = 2, .reply_to = self->probe);
    return TR_OK;
}

static tr_err on_delivered(tr_ctx *ctx, Customer *self, const Delivered *m)
{
    tr_tell(ctx, self->probe, Delivered, .amount = 100 + m->amount);
    return TR_OK;
}

TR_ACTOR(customer, Customer, TR_ON(Begin, on_begin),
         TR_ON(Delivered, on_delivered));

static tr_err on_order(tr_ctx *ctx, Shop *self, const Order *m)
{
    (void)self;
    tr_tell(ctx, m->reply_to, Delivered, .amount = m->amount);
    return TR_OK;
}

TR_ACTOR(warehouse, Shop, TR_ON(Order, on_order));

static void by_reference(stage *s)
{
    tr_ref store = tr_spawn(s->sys, warehouse);
    tr_ref a = tr_spawn(s->sys, customer,
                        TR_INIT(customer, .store = store, .probe = s->to));
    tr_tell(s->sys, a, Begin);
    // One answer takes a detour: the order is not fixed.
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        sum += tr_expect(s->probe, patience(s), Delivered)->amount;
    }
    assert_int_equal(sum, 101 + 2);
    quiet(s);
}

static void test_PA1_an_answer_goes_to_the_ref_in_the_message(void **state)
{
    (void)state;
    everywhere(by_reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T1_a_tell_does_not_wait),
        cmocka_unit_test(test_T2_a_ref_finds_its_actor),
        cmocka_unit_test(
            test_T4_a_message_carries_priority_deadline_and_sender),
        cmocka_unit_test(test_PA1_an_answer_goes_to_the_ref_in_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
