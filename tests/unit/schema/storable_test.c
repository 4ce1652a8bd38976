/*
 * storable_test.c - finds refs and texts that a stored form cannot keep, in
 * every place where a field can be.
 */
#include "schema_types.h"

#include "schema/storable.h"

TR_MESSAGE(Leaf, (const char *, text), (tr_ref, ref));
TR_MESSAGE(Tree, (int64_t, number), (nested, Leaf, inner), (list, Leaf, list),
           (fixed, tr_ref, fixed, 3), (array, tr_ref, refs),
           (optional, nested, Leaf, maybe), (tr_bytes, bytes));

static const tr_ref named = {.cell = 8, .id = 1}, other = {.cell = 16, .id = 2};

static size_t text_of_named(void *user, tr_ref ref, char *buf, size_t size)
{
    (void)user;
    (void)buf;
    assert_true(size >= TRI_REF_TEXT_MAX);
    return ref.cell == named.cell ? 5 : 0;
}

static const tri_ref_codec refs = {.to_text = text_of_named};

static void assert_refused(const Tree *tree, const char *why)
{
    tri_codec_error error;

    assert_int_equal(
        tri_storable_check(&Tree_tr_type, tree, &refs, true, &error),
        TR_EINVAL);
    assert_string_equal(error.text, why);
}

#define NO_REF "only the ref of a virtual actor can be stored"

static void test_a_ref_without_a_name_is_found_everywhere(void **state)
{
    Leaf leaves[] = {{.ref = named}, {.ref = other}};
    tr_ref three[] = {{0}, named, other};

    (void)state;
    assert_refused(&(Tree){.inner.ref = other}, "inner.ref: " NO_REF);
    assert_refused(&(Tree){.list = {leaves, 2}}, "list[1].ref: " NO_REF);
    assert_refused(&(Tree){.fixed = {{0}, named, other}}, "fixed[2]: " NO_REF);
    assert_refused(&(Tree){.refs = {three, 3}}, "refs[2]: " NO_REF);
    assert_refused(&(Tree){.maybe = TR_SOME({.ref = other})},
                   "maybe.ref: " NO_REF);
}

static void test_without_a_codec_no_ref_has_a_name(void **state)
{
    tri_codec_error error;
    Leaf leaf = {.ref = named};

    (void)state;
    assert_int_equal(
        tri_storable_check(&Leaf_tr_type, &leaf, NULL, true, &error),
        TR_EINVAL);
    leaf.ref = (tr_ref){0, TR_ENOENT};
    TR_MUST(tri_storable_check(&Leaf_tr_type, &leaf, NULL, true, &error));
}

static void test_text_is_checked_only_if_asked(void **state)
{
    Leaf leaves[] = {{.text = "\xc3\xa9"}, {.text = "ab\xc3"}};
    Tree tree = {.list = {leaves, 2}, .bytes = {"\xff", 1}};
    tri_codec_error error;

    (void)state;
    assert_refused(&tree, "list[1].text: not UTF-8 at byte 2; use tr_bytes for "
                          "other bytes");
    TR_MUST(tri_storable_check(&Tree_tr_type, &tree, &refs, false, &error));
    tree.list.count = 1;
    TR_MUST(tri_storable_check(&Tree_tr_type, &tree, &refs, true, &error));
}

/* The absent value of an optional field is not looked at. */
static void test_what_is_absent_is_not_checked(void **state)
{
    Tree tree = {.maybe = {.value = {.text = "\xff", .ref = other}}};
    tri_codec_error error;

    (void)state;
    TR_MUST(tri_storable_check(&Tree_tr_type, &tree, &refs, true, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ref_without_a_name_is_found_everywhere),
        cmocka_unit_test(test_without_a_codec_no_ref_has_a_name),
        cmocka_unit_test(test_text_is_checked_only_if_asked),
        cmocka_unit_test(test_what_is_absent_is_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
