/*
 * message_test.c - messages: payloads of every kind and size are copied whole;
 * how large a message is.
 */
#include "support/stage.h"

#include <string.h>

#include "support/core.h"

TR_MESSAGE(Item, (const char *, name), (int32_t, count));
TR_MESSAGE(Parcel, (const char *, label), (tr_bytes, raw), (list, Item, items),
           (array, double, weights), (nested, Item, first),
           (fixed, uint8_t, key, 4), (tr_blob, blob), (tr_ref, from));
TR_REQUEST(Echo, Parcel, (const char *, label), (tr_bytes, raw),
           (list, Item, items), (array, double, weights), (tr_blob, blob));

/* Answers with all fields of the request. */
static tr_err on_echo(tr_ctx *ctx, puppet *self, const Echo *m)
{
    (void)self;
    return tr_reply(ctx, m, .label = m->label, .raw = m->raw,
                    .items = {m->items.at, m->items.count},
                    .weights = {m->weights.at, m->weights.count},
                    .first = m->items.count > 0 ? m->items.at[0] : (Item){0},
                    .key = {1, 2, 3, 4}, .blob = m->blob, .from = tr_self(ctx));
}

TR_ACTOR(echoes, puppet, TR_ON(Echo, on_echo));

static void expect_parcel(const Parcel *p, const char *label, size_t size)
{
    assert_string_equal(p->label, label);
    assert_int_equal(p->raw.size, size);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(((const unsigned char *)p->raw.at)[i], i & 0xff);
    }
    assert_int_equal(p->items.count, 2);
    assert_string_equal(p->items.at[0].name, "bolt");
    assert_int_equal(p->items.at[1].count, -7);
    assert_string_equal(p->first.name, "bolt");
    assert_int_equal(p->weights.count, 3);
    assert_true(p->weights.at[2] == 2.5);
    assert_int_equal(p->key[3], 4);
    assert_int_equal(tr_blob_bytes(p->blob).size, 5);
    assert_memory_equal(tr_blob_bytes(p->blob).at, "blob!", 5);
}

static void test_payloads_arrive_whole_at_every_size(void **state)
{
    stage it;
    tr_blob blob;
    static unsigned char raw[200000];
    static const size_t sizes[] = {0,    1,    15,   16,   100,
                                   1000, 8000, 8192, 9000, 200000};
    (void)state;
    for (size_t i = 0; i < sizeof(raw); i++) {
        raw[i] = (unsigned char)i;
    }
    stage_open(&it);
    expect_ok(tr_blob_new(it.sys, &blob, "blob!", 5));
    tr_ref echo = tr_spawn(it.sys, echoes, TR_INIT(echoes, .stage = &it));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        Item items[] = {{.name = "bolt", .count = 3},
                        {.name = "nut", .count = -7}};
        double weights[] = {0.5, 1.5, 2.5};
        char label[32] = "a label on the stack";
        Parcel parcel;
        expect_ok(tr_ask(it.sys, echo, &parcel, 0, Echo, .label = label,
                         .raw = {raw, sizes[i]}, .items = {items, 2},
                         .weights = {weights, 3}, .blob = blob));
        memset(label, 'x', sizeof(label) - 1);
        expect_parcel(&parcel, "a label on the stack", sizes[i]);
        assert_true(tr_ref_eq(parcel.from, echo));
        tr_drop(Parcel, &parcel);
    }
    tr_blob_drop(blob);
    stage_close(&it);
}

/* A payload of any size is copied, and nothing beyond it. */
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

static void test_S16_system_mail_does_not_enlarge_user_messages(void **state)
{
    (void)state;
    // System mail has its own structs behind the same small item.
    assert_int_equal(sizeof(tri_item), 24);
    assert_int_equal(sizeof(tr_msg), 48);
    assert_true(sizeof(tri_watch) > sizeof(tr_msg));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payloads_arrive_whole_at_every_size),
        cmocka_unit_test(test_PA1_payloads_of_all_sizes_are_copied),
        cmocka_unit_test(test_S16_system_mail_does_not_enlarge_user_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
