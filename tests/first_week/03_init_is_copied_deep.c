/*
 * 03_init_is_copied_deep.c - TR_INIT of a TR_STATE is copied with all that it
 * points to, once, and used again at each restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Item, (const char *, name), (int64_t, count));
TR_MESSAGE(Shown, (const char *, owner), (list, Item, items),
           (array, int32_t, marks), (tr_bytes, seal));
TR_REQUEST(Show, Shown);
TR_MESSAGE(Break);
TR_STATE(Shop, (const char *, owner), (list, Item, items),
         (array, int32_t, marks), (tr_bytes, seal), (tr_blob, photo));

static tr_err on_show(tr_ctx *ctx, Shop *self, const Show *m)
{
    return tr_reply(ctx, m, .owner = self->owner,
                    .items = {self->items.at, self->items.count},
                    .marks = {self->marks.at, self->marks.count},
                    .seal = tr_blob_bytes(self->photo).size > 0
                                ? tr_blob_bytes(self->photo)
                                : self->seal);
}

static tr_err on_break(tr_ctx *ctx, Shop *self, const Break *m)
{
    (void)m;
    self->owner = "nobody";
    self->items.count = 0;
    return tr_fail(ctx, TR_EFAILED, "broken");
}

TR_ACTOR(shop, Shop, TR_ON(Show, on_show), TR_ON(Break, on_break));

/* ---- first states from memory that is used again ---- */

typedef struct source {
    char owner[16], name[16], seal[4];
    Item items[2];
    int32_t marks[3];
} source;

static void source_fill(source *s, char letter)
{
    memset(s, letter, sizeof(*s));
    s->owner[8] = s->name[4] = '\0';
    s->items[0] = (Item){.name = s->name, .count = 7};
    s->items[1] = (Item){.name = NULL, .count = letter};
    for (int i = 0; i < 3; i++)
        s->marks[i] = letter + i;
}

static tr_ref spawn_shop(tr_system *sys, source *s, tr_blob photo)
{
    return tr_spawn(sys, shop,
                    TR_INIT(shop, .owner = s->owner, .items = {s->items, 2},
                            .marks = {s->marks, 3}, .seal = {s->seal, 4},
                            .photo = photo));
}

static void assert_shop(tr_system *sys, tr_ref ref, char letter,
                        const char *seal)
{
    Shown shown;
    char expected[9] = {letter, letter, letter, letter,
                        letter, letter, letter, letter};
    TR_MUST(tr_ask(sys, ref, &shown, 0, Show));
    assert_string_equal(shown.owner, expected);
    assert_int_equal(shown.items.count, 2);
    assert_string_equal(shown.items.at[0].name, expected + 4);
    assert_int_equal(shown.items.at[0].count, 7);
    assert_null(shown.items.at[1].name);
    assert_int_equal(shown.items.at[1].count, letter);
    assert_int_equal(shown.marks.count, 3);
    assert_int_equal(shown.marks.at[2], letter + 2);
    assert_int_equal(shown.seal.size, 4);
    assert_memory_equal(shown.seal.at, seal, 4);
    tr_drop(Shown, &shown);
}

/* The same memory has the first state of one actor and then of another. */
static void test_the_memory_of_tr_init_may_be_used_again(void **state)
{
    tr_system *sys;
    source *s = malloc(sizeof(*s));
    tr_blob none = {NULL}, photo;
    (void)state;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(tr_blob_new(sys, &photo, "blob", 4));
    source_fill(s, 'a');
    tr_ref a = spawn_shop(sys, s, none);
    tr_ref twin = spawn_shop(sys, s, none);
    source_fill(s, 'b');
    tr_ref b = spawn_shop(sys, s, photo);
    tr_blob_drop(photo);
    free(s);
    for (int life = 0; life < 2; life++) {
        assert_shop(sys, a, 'a', "aaaa");
        assert_shop(sys, twin, 'a', "aaaa");
        assert_shop(sys, b, 'b', "blob");
        tr_tell(sys, a, Break);
        tr_tell(sys, b, Break);
    }
    TR_MUST(tr_system_close(sys, 0));
}

/* The workers of a router are spawned later, from a copy of their options. */
static void test_the_workers_of_a_router_have_it_too(void **state)
{
    tr_system *sys;
    source *s = malloc(sizeof(*s));
    (void)state;
    TR_MUST(tr_system_open(&sys));
    source_fill(s, 'r');
    tr_spawn_options worker = {
        .size = sizeof(worker),
        TR_INIT(shop, .owner = s->owner, .items = {s->items, 2},
                .marks = {s->marks, 3}, .seal = {s->seal, 4})};
    tr_ref all = tr_router(sys, shop, .count = 2, .worker = &worker);
    assert_int_equal(tr_ref_err(all), TR_OK);
    memset(s, 'x', sizeof(*s));
    free(s);
    for (int i = 0; i < 6; i++) {
        assert_shop(sys, all, 'r', "rrrr");
        if (i == 2) tr_tell(sys, all, Break);
    }
    TR_MUST(tr_system_close(sys, 0));
}

static void open_with_guardian(tr_system **sys, const source *s)
{
    TR_MUST(
        tr_system_open(sys, .guardian = TR_DEF(shop),
                       TR_INIT(shop, .owner = s->owner, .items = {s->items, 2},
                               .marks = {s->marks, 3}, .seal = {s->seal, 4})));
}

/* Every call that takes TR_INIT, of a plain spawn's own kind or not. */
static void test_all_calls_that_take_tr_init_copy_it(void **state)
{
    tr_system *sys;
    source *s = malloc(sizeof(*s));
    (void)state;
    source_fill(s, 'g');
    open_with_guardian(&sys, s);
    tr_spawn_options options = {
        .size = sizeof(options),
        .name = "top",
        TR_INIT(shop, .owner = s->owner, .items = {s->items, 2},
                .marks = {s->marks, 3}, .seal = {s->seal, 4})};
    tr_ref top = (tr_top_level)(sys, &shop, &options);
    tr_ref temp = (tr_spawn_temp)((tr_from){.sys = sys}, &shop, &options);
    options.name = NULL;
    TR_MUST(tr_host(sys, shop, .spawn = &options));
    memset(s, 'x', sizeof(*s));
    free(s);
    memset(&options, 0, sizeof(options));
    assert_shop(sys, tr_lookup(sys, "/user"), 'g', "gggg");
    assert_shop(sys, temp, 'g', "gggg");
    for (int life = 0; life < 2; life++) {
        assert_shop(sys, top, 'g', "gggg");
        assert_shop(sys, tr_virtual(sys, "shop", "v"), 'g', "gggg");
        tr_tell(sys, top, Break);
        tr_tell(sys, tr_virtual(sys, "shop", "v"), Break);
    }
    TR_MUST(tr_system_close(sys, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_memory_of_tr_init_may_be_used_again),
        cmocka_unit_test(test_the_workers_of_a_router_have_it_too),
        cmocka_unit_test(test_all_calls_that_take_tr_init_copy_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
