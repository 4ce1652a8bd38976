/*
 * bus_peer_test.c - a bus and a peer that does what it wants: calls and types.
 */
#include "played_peer.h"

TR_MESSAGE(Begin, (tr_ref, to));

static tr_err on_begin_message(tr_ctx *ctx, void *self, const Begin *m)
{
    Sum sum;
    (void)self;
    tr_err ignored = tr_ask(ctx, m->to, &sum, TR_MS(50), Plus, .a = 1);
    (void)ignored;  // nobody answers
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Begin, on_begin_message));

static void test_BU1_BU2_BU5_BU9_VA13_calls_of_a_bus(void **state)
{
    enum { CALLS = 12 };
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    tri_peer *there = f.bus->peers[1];
    assert_non_null(there);
    assert_null(f.bus->peers[2]);  // BU9: only whom it has to do with
    for (int i = 0; i < CALLS; i++) {
        name("far", i, text, sizeof(text));
        tr_tell(f.sys, tr_spawn(f.sys, asker), Begin,
                .to = tr_virtual_named(f.sys, text));
    }
    run(&f, 6);
    // BU1: the bus holds its node, its peers, what it waits for, a counter.
    assert_int_equal(f.bus->here, 0);
    assert_int_equal(tri_map_count(&f.bus->calls), CALLS);
    assert_int_equal(f.requests, CALLS);
    for (uint32_t i = 1; i < f.requests; i++) {
        assert_true(f.correlations[i] > f.correlations[i - 1]);  // VA13
    }
    assert_true(f.bus->next_number >= f.correlations[CALLS - 1]);
    run(&f, 20);  // their time is over
    assert_int_equal(tri_map_count(&f.bus->calls), 0);
    assert_ptr_equal(f.bus->peers[1], there);
    assert_int_equal(there->session.stream, 1);  // BU9: one for all of them
    close_peer(&f);
}

typedef struct Result {
    tr_err *err;
    char *text;
} Result;

TR_MESSAGE(Try, (tr_ref, to));

static tr_err on_try(tr_ctx *ctx, Result *self, const Try *m)
{
    Sum sum;
    *self->err = tr_ask(ctx, m->to, &sum, TR_SECONDS(100), Plus, .a = 1);
    snprintf(self->text, 256, "%s", tr_error_text(ctx));
    return TR_OK;
}

TR_ACTOR(trier, Result, TR_ON(Try, on_try));

/* A node that sends everything back does not make it go round for ever. */
static void test_MS7_BU6_X30_to_and_fro_has_an_end(void **state)
{
    peer f;
    char text[64], said[256] = "";
    tr_err err = TR_OK;
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    f.stubborn = true;
    name("far", 0, text, sizeof(text));
    Result result = {.err = &err, .text = said};
    tr_tell(
        f.sys,
        tr_spawn(f.sys, trier, .init = &result, .init_size = sizeof(result)),
        Try, .to = tr_virtual_named(f.sys, text));
    run(&f, 100);
    assert_int_equal(err, TR_ELIMIT);
    assert_non_null(strstr(said, "too often"));
    assert_int_equal(f.sent_back, TRI_RETURNS_MAX + 1);
    assert_int_equal(tri_map_count(&f.bus->calls), 0);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);

    name("far", 1, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 100);
    assert_int_equal(f.sent_back, 2 * (TRI_RETURNS_MAX + 1));
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 1);
    assert_int_equal(letters[0].reason, TR_DEAD_FORWARDED);
    assert_int_equal(tri_bus_count(f.sys).too_often, 2);
    close_peer(&f);
}

/* An owner that took the question and has given us up says nothing. */
static void test_DI6_X8_X10_a_question_is_asked_again(void **state)
{
    enum { WAIT = TRI_ASK_WAIT / TR_MS(5) };  // steps
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    name_at(1, "far", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 40);
    assert_int_equal(f.questions, 1);
    uint64_t first = f.question;
    run(&f, WAIT);
    assert_int_equal(f.questions, 2);
    assert_true(f.question > first);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    // Not for ever: then its mail is given up, as with an owner who is lost.
    run(&f, WAIT + 40);
    assert_int_equal(f.questions, 2);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 1);
    assert_int_equal(letters[0].reason, TR_DEAD_UNREACHABLE);
    assert_int_equal(f.tells, 0);
    close_peer(&f);
}

static void test_MS12_a_payload_must_be_of_its_type(void **state)
{
    peer f;
    char text[64];
    unsigned char bytes[64];
    Plus plus = {.a = 2, .b = 3};
    (void)state;
    open_peer(&f, "shop");
    name("adder", 0, text, sizeof(text));
    declare(&f, &Plus_tr_type, "");
    size_t size =
        tri_binary_write(&Plus_tr_type, &plus, bytes, sizeof(bytes), NULL);
    assert_true(size > 1 && size <= sizeof(bytes));
    assert_int_equal(request(&f, text, bytes, size), TR_OK);
    for (size_t cut = 1; cut < size; cut++) {
        tr_err err = request(&f, text, bytes, cut);
        assert_true(err == TR_ESCHEMA || err == TR_OK);
        if (err == TR_ESCHEMA) {
            assert_non_null(strstr(f.text, "Plus"));
        }
    }
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(request(&f, text, bytes, sizeof(bytes)), TR_ESCHEMA);
    assert_non_null(strstr(f.text, "Plus"));
    // The actor is not hurt by any of it.
    size = tri_binary_write(&Plus_tr_type, &plus, bytes, sizeof(bytes), NULL);
    assert_int_equal(request(&f, text, bytes, size), TR_OK);
    close_peer(&f);
}

static void test_MS12_what_was_not_declared_is_refused(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "shop");
    name("adder", 0, text, sizeof(text));
    assert_int_equal(request(&f, text, "", 0), TR_EINVAL);
    assert_non_null(strstr(f.text, "declared"));
    close_peer(&f);
}

static void test_VA8_VA9_another_namespace_is_kept_out(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_peer(&f, "stage");
    name("adder", 0, text, sizeof(text));
    declare(&f, &Plus_tr_type, "");
    assert_int_equal(request(&f, text, "", 0), TR_EFOREIGN);
    // Its kinds are not ours either.
    uint64_t nodes;
    bool stateless;
    assert_false(tri_bus_kind_of(f.bus, "far", 3, &nodes, &stateless) &&
                 nodes != 0);
    close_peer(&f);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BU1_BU2_BU5_BU9_VA13_calls_of_a_bus),
        cmocka_unit_test(test_MS7_BU6_X30_to_and_fro_has_an_end),
        cmocka_unit_test(test_DI6_X8_X10_a_question_is_asked_again),
        cmocka_unit_test(test_MS12_a_payload_must_be_of_its_type),
        cmocka_unit_test(test_MS12_what_was_not_declared_is_refused),
        cmocka_unit_test(test_VA8_VA9_another_namespace_is_kept_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
