/*
 * actor_id_test.c - names of virtual actors: made, read back, or refused with
 * a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cluster/virtual/actor_id.h"

static void refused(tr_err err, const tri_actor_id *id, const char *why,
                    const char *part)
{
    assert_int_equal(err, TR_EINVAL);
    assert_int_equal(id->size, 0);
    assert_non_null(strstr(why, part));
}

static void test_VA1_same_triple_same_text(void **state)
{
    tri_actor_id a, b, c;
    const char *why;
    (void)state;
    assert_int_equal(tri_actor_id_make(&a, "prod", "account", "a-1", &why),
                     TR_OK);
    assert_int_equal(tri_actor_id_make(&b, "prod", "account", "a-1", &why),
                     TR_OK);
    assert_int_equal(tri_actor_id_make(&c, "test", "account", "a-1", &why),
                     TR_OK);
    assert_string_equal(a.text, b.text);
    assert_string_not_equal(a.text, c.text);
    assert_null(why);
}

static void test_VA2_text_form(void **state)
{
    tri_actor_id a, b;
    const char *why;
    (void)state;
    assert_int_equal(tri_actor_id_make(&a, "prod", "account", "a_1", &why),
                     TR_OK);
    assert_string_equal(a.text, "prod::account/a_1");
    assert_string_equal(a.text + a.kind_at, "account/a_1");
    assert_string_equal(a.text + a.key_at, "a_1");
    assert_int_equal(tri_actor_id_parse(&b, a.text, &why), TR_OK);
    assert_string_equal(b.text, a.text);
    assert_int_equal(b.kind_at, a.kind_at);
    assert_int_equal(b.key_at, a.key_at);
}

static void test_VA2_other_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "'::'"},
        {"account/alice", "'::'"},
        {"prod:account/alice", "'::'"},
        {"prod::account", "'/'"},
        {"prod::/alice", "empty"},
        {"::account/alice", "empty"},
        {"prod::account/", "empty"},
        {"prod::account/a/b", "character"},
        {"prod::a::b/c", "character"},
        {"prod::account/al ice", "character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tri_actor_id id;
        const char *why = "";
        tr_err err = tri_actor_id_parse(&id, cases[i].text, &why);
        refused(err, &id, why, cases[i].why);
    }
}

static void test_VA3_no_field_is_empty(void **state)
{
    tri_actor_id id;
    const char *why;
    (void)state;
    tr_err err = tri_actor_id_make(&id, "", "k", "x", &why);
    refused(err, &id, why, "empty");
    err = tri_actor_id_make(&id, "n", "", "x", &why);
    refused(err, &id, why, "empty");
    err = tri_actor_id_make(&id, "n", "k", "", &why);
    refused(err, &id, why, "empty");
    err = tri_actor_id_make(&id, "n", NULL, "x", &why);
    refused(err, &id, why, "missing");
}

static void test_VA4_letters_digits_dash_underscore(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        char key[2] = {(char)c, '\0'};
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || c == '-' || c == '_';
        tri_actor_id id;
        const char *why;
        assert_int_equal(tri_actor_id_make(&id, "n", "k", key, &why) == TR_OK,
                         plain);
        assert_int_equal(tri_actor_id_is_field(key, &why), plain);
    }
}

static void test_VA4_at_most_256_characters(void **state)
{
    char key[TRI_ACTOR_ID_MAX + 2];
    tri_actor_id id, again;
    const char *why;
    (void)state;
    memset(key, 'x', sizeof(key));
    key[TRI_ACTOR_ID_MAX - 5] = '\0';  // n::k/ has five
    assert_int_equal(tri_actor_id_make(&id, "n", "k", key, &why), TR_OK);
    assert_int_equal(id.size, TRI_ACTOR_ID_MAX);
    assert_int_equal(tri_actor_id_parse(&again, id.text, &why), TR_OK);
    key[TRI_ACTOR_ID_MAX - 5] = 'x';
    key[TRI_ACTOR_ID_MAX - 4] = '\0';
    tr_err err = tri_actor_id_make(&id, "n", "k", key, &why);
    refused(err, &id, why, "256");
    key[TRI_ACTOR_ID_MAX - 4] = 'x';
    key[TRI_ACTOR_ID_MAX + 1] = '\0';
    err = tri_actor_id_make(&id, key, "k", "x", &why);
    refused(err, &id, why, "256");
    key[TRI_ACTOR_ID_MAX] = '\0';
    err = tri_actor_id_make(&id, key, "k", "x", &why);
    refused(err, &id, why, "256");
}

static void test_VA5_no_field_contains_a_separator(void **state)
{
    tri_actor_id id;
    const char *why;
    (void)state;
    tr_err err = tri_actor_id_make(&id, "a::b", "k", "x", &why);
    refused(err, &id, why, "character");
    err = tri_actor_id_make(&id, "n", "k/l", "x", &why);
    refused(err, &id, why, "character");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_VA1_same_triple_same_text),
        cmocka_unit_test(test_VA2_text_form),
        cmocka_unit_test(test_VA2_other_texts_are_refused),
        cmocka_unit_test(test_VA3_no_field_is_empty),
        cmocka_unit_test(test_VA4_letters_digits_dash_underscore),
        cmocka_unit_test(test_VA4_at_most_256_characters),
        cmocka_unit_test(test_VA5_no_field_contains_a_separator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
