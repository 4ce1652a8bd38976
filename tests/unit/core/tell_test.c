/*
 * tell_test.c - from a send to its handler: T1, T2, T4, T9, T11, T16, PA1.
 */
#include "core/message.h"
#include "support/fixture.h"

/* T1: the sender goes on; what it sent is handled without it. */
static void tell_and_forget(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Nap, .span = TR_MS(20));
    tr_tell(s->sys, a, Say, .text = "later");  // while it sleeps
    assert_int_equal(heard(s, "a woke"), TR_OK);
    heard(s, "a later");
    quiet(s);  // and nothing comes back
}

static void test_T1_a_tell_waits_for_nobody(void **state)
{
    (void)state;
    everywhere(tell_and_forget);
}

/* T2: each ref leads to its own actor, however it was had. */
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
    tr_ref b = PLAY(s, "b", ());  // another under the same name
    tr_tell(s->sys, refs[1], Add, .number = 50);
    assert_int_equal(gotten(s, b).number, 0);
    // Nor to one that lives in the same place.
    tr_ref old = CHILD(s, refs[0], "old", ());
    tr_stop(s->sys, old);
    (void)joined(s, old);
    bool same = false;
    tr_ref heirs[10];
    for (int i = 0; i < 10; i++) {
        heirs[i] = CHILD(s, refs[0], NULL, ());
        same |= heirs[i].cell == old.cell;
    }
    assert_true(same || s->sim == NULL);  // threads do not share what is free
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

/* T4: priority, time and way are of the envelope, not of the message. */
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
    // Its time is over before its turn comes: not handled.
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

static void test_T4_priority_time_and_sender_travel_along(void **state)
{
    (void)state;
    virtually(envelope);
}

/* ---- types ---- */

TR_MESSAGE(Price, (int64_t, cents));
TR_MESSAGE(Weight, (int64_t, grams));
TR_REQUEST(Quote, Price, (int64_t, amount));

typedef struct Shop {
    tr_ref probe;
} Shop;

static tr_err on_quote(tr_ctx *ctx, Shop *self, const Quote *m)
{
    (void)self;
    return tr_reply(ctx, m, .cents = m->amount * 3);
}

static tr_err on_price(tr_ctx *ctx, Shop *self, const Price *m)
{
    tr_tell(ctx, self->probe, Note, .text = "price", .number = m->cents);
    return TR_OK;
}

static tr_err on_weight(tr_ctx *ctx, Shop *self, const Weight *m)
{
    tr_tell(ctx, self->probe, Note, .text = "weight", .number = m->grams);
    return TR_OK;
}

TR_ACTOR(shop, Shop, TR_ON(Quote, on_quote), TR_ON(Price, on_price),
         TR_ON(Weight, on_weight));

/* The description of a type as another source file has it. */
static tr_type copy_of(const tr_type *type, tr_field *fields)
{
    tr_type copy = *type;
    memcpy(fields, type->fields, (type->field_count + 1u) * sizeof(tr_field));
    copy.fields = fields;
    return copy;
}

/* T11, T16: name and fields select the handler, not the address. */
static void by_type(stage *s)
{
    tr_ref a = tr_spawn(s->sys, shop, TR_INIT(shop, .probe = s->to));
    tr_tell(s->sys, a, Price, .cents = 1);
    tr_tell(s->sys, a, Weight, .grams = 2);
    assert_int_equal(heard(s, "price"), 1);
    assert_int_equal(heard(s, "weight"), 2);

    static tr_field fields[2];
    static tr_type elsewhere;
    elsewhere = copy_of(&Price_tr_type, fields);
    (tr_tell)((tr_from){.sys = s->sys}, a, &elsewhere, &(Price){.cents = 3});
    assert_int_equal(heard(s, "price"), 3);

    // Another name for the same fields is another message.
    tr_probe_subscribe(s->deaths, tr_unhandled);
    TR_MESSAGE(Prize, (int64_t, cents));
    tr_tell(s->sys, a, Prize, .cents = 4);
    const tr_unhandled *u = tr_expect(s->deaths, patience(s), tr_unhandled);
    assert_string_equal(u->type, "Prize");
    assert_true(tr_ref_eq(u->actor, a));

    // So are other fields under the same name; nothing of it is misread.
    static const tr_field two[] = {{"cents", NULL, 0, 8, TR_KIND_INT, 0},
                                   {"tax", NULL, 8, 8, TR_KIND_INT, 0},
                                   {NULL, NULL, 0, 0, 0, 0}};
    static const tr_type wider = {"Price", 12345, 16, 2, 0, two, NULL};
    int64_t values[2] = {5, 6};
    (tr_tell)((tr_from){.sys = s->sys}, a, &wider, values);
    u = tr_expect(s->deaths, patience(s), tr_unhandled);
    assert_string_equal(u->type, "Price");
    quiet(s);
}

static void test_T11_T16_name_and_fields_select_the_handler(void **state)
{
    (void)state;
    everywhere(by_type);
}

/*
 * T9: the file of the handler declares another answer than that of the asker:
 * to them these are two requests, and no answer is taken for what it is not.
 */
static tr_type disagreeing;

typedef struct Asker {
    tr_ref shop;
} Asker;

TR_MESSAGE(Heard, (uint32_t, err));
TR_REQUEST(AskWrongly, Heard, (bool, later));

static tr_err on_ask_wrongly(tr_ctx *ctx, Asker *self, const AskWrongly *m)
{
    int64_t out = 77;
    Quote quote = {.amount = 2};
    tr_err err;
    if (m->later) {
        tr_future f = (tr_async)(ctx, self->shop, 0, &disagreeing, &quote);
        err = (tr_await)(ctx, f, &Weight_tr_type, NULL, TR_HERE);
        TR_ASSERT(ctx, err == TR_EINVAL);  // not what was asked
        err = (tr_await)(ctx, f, &disagreeing, &out, TR_HERE);
    } else {
        err = (tr_ask)((tr_from){.ctx = ctx}, self->shop, &out, 0, &disagreeing,
                       &quote, TR_HERE);
    }
    TR_ASSERT(ctx, out == 0);
    return tr_reply(ctx, m, .err = err);
}

TR_ACTOR(asker, Asker, TR_ON(AskWrongly, on_ask_wrongly));

static void wrong_answers(stage *s)
{
    disagreeing = Quote_tr_type;
    disagreeing.reply = &Weight_tr_type;
    tr_ref a = tr_spawn(s->sys, shop, TR_INIT(shop, .probe = s->to));
    int64_t out = 77;
    assert_int_equal((tr_ask)((tr_from){.sys = s->sys}, a, &out, 0,
                              &disagreeing, &(Quote){.amount = 2}, TR_HERE),
                     TR_EUNHANDLED);
    assert_int_equal(out, 0);
    tr_ref b = tr_spawn(s->sys, asker, TR_INIT(asker, .shop = a));
    for (int later = 0; later < 2; later++) {
        Heard heard_err;
        assert_int_equal(
            tr_ask(s->sys, b, &heard_err, 0, AskWrongly, .later = later != 0),
            TR_OK);
        assert_int_equal(heard_err.err, TR_EUNHANDLED);
    }
    Price price;
    assert_int_equal(tr_ask(s->sys, a, &price, 0, Quote, .amount = 2), TR_OK);
    assert_int_equal(price.cents, 6);
}

static void test_T9_no_answer_of_another_type_is_taken(void **state)
{
    (void)state;
    everywhere(wrong_answers);
}

/* ---- the pattern ---- */

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
    // Two ways: their order is open.
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        sum += tr_expect(s->probe, patience(s), Delivered)->amount;
    }
    assert_int_equal(sum, 101 + 2);
    quiet(s);
}

/* PA1: the answer goes to the ref that the message carries. */
static void test_PA1_request_and_response_by_reference(void **state)
{
    (void)state;
    everywhere(by_reference);
}

/* PA1: a payload of any size is copied, all of it and nothing else. */
static void test_PA1_payloads_of_all_sizes_are_copied(void **state)
{
    (void)state;
    enum { MOST = 3 * TRI_BLOCK_ALIGN };
    unsigned char from[MOST], to[MOST + 1];
    for (size_t i = 0; i < MOST; i++) {
        from[i] = (unsigned char)(i + 1);
    }
    for (size_t size = 0; size <= MOST; size++) {
        memset(to, 0, sizeof(to));
        tri_copy_payload(to, from, size);
        assert_memory_equal(to, from, size);
        for (size_t i = size; i < sizeof(to); i++) {
            assert_int_equal(to[i], 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T1_a_tell_waits_for_nobody),
        cmocka_unit_test(test_PA1_payloads_of_all_sizes_are_copied),
        cmocka_unit_test(test_T2_a_ref_finds_its_actor),
        cmocka_unit_test(test_T4_priority_time_and_sender_travel_along),
        cmocka_unit_test(test_T11_T16_name_and_fields_select_the_handler),
        cmocka_unit_test(test_T9_no_answer_of_another_type_is_taken),
        cmocka_unit_test(test_PA1_request_and_response_by_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
