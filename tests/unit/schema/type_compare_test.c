/*
 * type_compare_test.c - descriptions of the same type and of different types.
 */
#include "schema_types.h"

#include "schema/type_compare.h"

/* Copies a type's description, as another source file would have it. */
typedef struct copied {
    tr_type type;
    tr_field fields[16];
} copied;

static const tr_type *copy_type(copied *out, const tr_type *type)
{
    out->type = *type;
    memcpy(out->fields, type->fields, type->field_count * sizeof(tr_field));
    out->type.fields = out->fields;
    return &out->type;
}

static void test_copies_are_the_same(void **state)
{
    copied line, order;

    (void)state;
    for (size_t i = 0; i < ALL_TYPES; i++) {
        assert_true(
            tri_type_same(all_types[i], copy_type(&order, all_types[i])));
    }
    copy_type(&order, &Order_tr_type);
    order.fields[1].type = copy_type(&line, &Line_tr_type);
    order.fields[2].type = &line.type;
    assert_true(tri_type_same(&Order_tr_type, &order.type));
}

static void expect_difference(const tr_type *a, const tr_type *b,
                              const char *text)
{
    char buf[80];

    assert_false(tri_type_same(a, b));
    assert_string_equal(tri_type_difference(a, b, buf, sizeof(buf)), text);
}

static void test_each_difference_is_named(void **state)
{
    copied line, order;
    tr_field *field = &order.fields[0];
    char buf[80];

    (void)state;
    copy_type(&order, &Order_tr_type);
    assert_string_equal(
        tri_type_difference(&Order_tr_type, &order.type, buf, sizeof(buf)), "");
    expect_difference(&Deposit_tr_type, &Eight_tr_type, "Deposit: name");
    field->name = "number";
    expect_difference(&Order_tr_type, &order.type, "Order.id: name");
    copy_type(&order, &Order_tr_type);
    field->kind = TR_KIND_INT;
    expect_difference(&Order_tr_type, &order.type, "Order.id: kind");
    copy_type(&order, &Order_tr_type);
    field->size = 8;
    expect_difference(&Order_tr_type, &order.type, "Order.id: size");
    copy_type(&order, &Order_tr_type);
    field->offset = 8;
    expect_difference(&Order_tr_type, &order.type, "Order.id: offset");
    copy_type(&order, &Order_tr_type);
    order.fields[3].element = TR_KIND_INT;
    expect_difference(&Order_tr_type, &order.type, "Order.weights: elements");
    copy_type(&order, &Order_tr_type);
    order.fields[1].type = NULL;
    expect_difference(&Order_tr_type, &order.type, "Order.first: type");
    copy_type(&order, &Order_tr_type);
    order.fields[2].type = copy_type(&line, &Line_tr_type);
    line.fields[1].kind = TR_KIND_UINT;
    expect_difference(&Order_tr_type, &order.type, "Line.price: kind");
    copy_type(&order, &Order_tr_type);
    order.type.field_count--;
    expect_difference(&Order_tr_type, &order.type, "Order: number of fields");
    copy_type(&order, &Order_tr_type);
    order.type.schema++;
    expect_difference(&Order_tr_type, &order.type, "Order: schema");
    copy_type(&order, &Order_tr_type);
    order.type.size += 8;
    expect_difference(&Order_tr_type, &order.type, "Order: size");
    copy_type(&order, &Order_tr_type);
    order.type.reply = &Line_tr_type;
    expect_difference(&Order_tr_type, &order.type, "Order: reply");
}

static void test_types_nested_too_deeply_differ(void **state)
{
    static tr_type a, b;
    static const tr_field of_a[] = {{"in", &a, 0, 8, TR_KIND_NESTED, 0}};
    static const tr_field of_b[] = {{"in", &b, 0, 8, TR_KIND_NESTED, 0}};

    (void)state;
    a = (tr_type){"T", 1, 8, 1, 1, of_a, NULL};
    b = (tr_type){"T", 1, 8, 1, 1, of_b, NULL};
    expect_difference(&a, &b, "T: depth");
    assert_true(tri_type_same(&a, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_are_the_same),
        cmocka_unit_test(test_each_difference_is_named),
        cmocka_unit_test(test_types_nested_too_deeply_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
