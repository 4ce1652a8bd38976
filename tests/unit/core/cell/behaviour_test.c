/*
 * behaviour_test.c - how a message finds its handler: by name and fields of
 * its type, in the behaviour that tr_become has chosen last.
 */
#include "support/fixture.h"

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

/* Copies the description of a type, as another source file would have it. */
static tr_type copy_of(const tr_type *type, tr_field *fields)
{
    tr_type copy = *type;
    memcpy(fields, type->fields, (type->field_count + 1u) * sizeof(tr_field));
    copy.fields = fields;
    return copy;
}

/* Name and fields select the handler; the address of the type does not. */
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

    // Other fields under the same name are another message, too.
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
 * The file of the asker declares another reply type than the file of the
 * handler. These are two different requests: the handler does not get the
 * other one, and the asker does not get an answer of the wrong type.
 */
static tr_type disagreeing;

typedef struct Asker {
    tr_ref shop;
} Asker;

TR_MESSAGE(Heard, (uint32_t, err));
TR_REQUEST(AskOtherType, Heard, (bool, later));

static tr_err on_ask_other_type(tr_ctx *ctx, Asker *self, const AskOtherType *m)
{
    int64_t out = 77;
    Quote quote = {.amount = 2};
    tr_err err;
    if (m->later) {
        tr_future f = (tr_async)(ctx, self->shop, 0, &disagreeing, &quote);
        err = (tr_await)(ctx, f, &Weight_tr_type, NULL, TR_HERE);
        // The future was made with another request.
        TR_ASSERT(ctx, err == TR_EINVAL);
        err = (tr_await)(ctx, f, &disagreeing, &out, TR_HERE);
    } else {
        err = (tr_ask)((tr_from){.ctx = ctx}, self->shop, &out, 0, &disagreeing,
                       &quote, TR_HERE);
    }
    TR_ASSERT(ctx, out == 0);
    return tr_reply(ctx, m, .err = err);
}

TR_ACTOR(asker, Asker, TR_ON(AskOtherType, on_ask_other_type));

static void two_reply_types(stage *s)
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
            tr_ask(s->sys, b, &heard_err, 0, AskOtherType, .later = later != 0),
            TR_OK);
        assert_int_equal(heard_err.err, TR_EUNHANDLED);
    }
    Price price;
    assert_int_equal(tr_ask(s->sys, a, &price, 0, Quote, .amount = 2), TR_OK);
    assert_int_equal(price.cents, 6);
}

static void test_T9_the_reply_type_is_part_of_a_request(void **state)
{
    (void)state;
    everywhere(two_reply_types);
}

static void typed(stage *s)
{
    tr_probe_subscribe(s->probe, tr_unhandled);
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Strange);
    const tr_unhandled *u = tr_expect(s->probe, patience(s), tr_unhandled);
    assert_true(tr_ref_eq(u->actor, a));
    assert_string_equal(u->type, "Strange");
    assert_int_equal(gotten(s, a).incarnation, 1);
}

static void test_C14_an_unhandled_message_is_published(void **state)
{
    (void)state;
    everywhere(typed);
}

/* ---- tr_become ---- */

typedef struct Door {
    tr_ref probe;
} Door;

TR_ACTOR_FORWARD(door_closed, Door);

static tr_err open_says(tr_ctx *ctx, Door *self, const Say *m)
{
    (void)m;
    tr_tell(ctx, self->probe, Note, .text = "open");
    tr_become(ctx, self, door_closed);
    return TR_OK;
}

static tr_err door_fails(tr_ctx *ctx, Door *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(door_open, Door, TR_ON(Say, open_says), TR_ON(Fail, door_fails));

static tr_err closed_says(tr_ctx *ctx, Door *self, const Say *m)
{
    (void)m;
    tr_tell(ctx, self->probe, Note, .text = "closed");
    tr_become(ctx, self, door_open);
    return TR_OK;
}

TR_ACTOR(door_closed, Door, TR_ON(Say, closed_says), TR_ON(Fail, door_fails));

static void becoming(stage *s)
{
    tr_ref d =
        tr_spawn(s->sys, door_closed, TR_INIT(door_closed, .probe = s->to));
    for (int i = 0; i < 3; i++) {
        tr_tell(s->sys, d, Say, .text = "");
    }
    heard(s, "closed");
    heard(s, "open");
    heard(s, "closed");
    // A restart goes back to the first behaviour.
    tr_tell(s->sys, d, Fail);
    tr_tell(s->sys, d, Say, .text = "");
    heard(s, "closed");
}

static void test_C18_a_behaviour_replaces_another(void **state)
{
    (void)state;
    everywhere(becoming);
}

typedef struct Shape {
    tr_ref probe;
    bool big;
} Shape;

static tr_err small_says(tr_ctx *ctx, Shape *self, const Say *m)
{
    (void)m;
    tr_tell(ctx, self->probe, Note, .text = "small");
    return TR_OK;
}

static tr_err big_says(tr_ctx *ctx, Shape *self, const Say *m)
{
    (void)m;
    tr_tell(ctx, self->probe, Note, .text = "big");
    return TR_OK;
}

TR_ACTOR(big_shape, Shape, TR_ON(Say, big_says));

static tr_err shape_start(tr_ctx *ctx, Shape *self)
{
    if (self->big) {
        tr_become(ctx, self, big_shape);
    }
    return TR_OK;
}

TR_ACTOR(shape, Shape, TR_HOOK(pre_start, shape_start), TR_ON(Say, small_says));

static void deferred(stage *s)
{
    tr_ref a =
        tr_spawn(s->sys, shape, TR_INIT(shape, .probe = s->to, .big = true));
    tr_tell(s->sys, a, Say, .text = "");
    heard(s, "big");
    tr_ref b = tr_spawn(s->sys, shape, TR_INIT(shape, .probe = s->to));
    tr_tell(s->sys, b, Say, .text = "");
    heard(s, "small");
}

static void test_SP13_C18_pre_start_may_choose_the_behaviour(void **state)
{
    (void)state;
    everywhere(deferred);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T11_T16_name_and_fields_select_the_handler),
        cmocka_unit_test(test_T9_the_reply_type_is_part_of_a_request),
        cmocka_unit_test(test_C14_an_unhandled_message_is_published),
        cmocka_unit_test(test_C18_a_behaviour_replaces_another),
        cmocka_unit_test(test_SP13_C18_pre_start_may_choose_the_behaviour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
