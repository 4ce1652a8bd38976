/*
 * 07_text_not_utf8.c - a stored text is never changed: JSON refuses text that
 * is not UTF-8, by the name of its field; the binary form keeps it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Line, (const char *, text));
TR_MESSAGE(Said, (const char *, title), (const char *, text));
TR_REQUEST(Write, tr_none, (const char *, title), (const char *, text));
TR_REQUEST(Read, Said);
TR_STATE(Page, (const char *, title), (list, Line, lines));

static tr_err on_write(tr_ctx *ctx, Page *self, const Write *m)
{
    Line lines[] = {{.text = "first"}, {.text = m->text}};
    Page next = {.title = m->title, .lines = {lines, 2}};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

static tr_err on_read(tr_ctx *ctx, Page *self, const Read *m)
{
    return tr_reply(ctx, m, .title = self->title,
                    .text =
                        self->lines.count > 1 ? self->lines.at[1].text : NULL);
}

TR_ACTOR(page, Page, TR_ON(Write, on_write), TR_ON(Read, on_read));

/* ---- a diary stores events ---- */

TR_STATE(Diary, (const char *, text));

static void apply_line(Diary *self, const Line *e)
{
    self->text = e->text;
}

static tr_err on_diary_write(tr_ctx *ctx, Diary *self, const Write *m)
{
    TR_OR_REFUSE(ctx, m, tr_emit(ctx, self, Line, .text = m->text));
    return tr_reply(ctx, m);
}

TR_ACTOR(diary, Diary, TR_ON(Write, on_diary_write),
         TR_APPLY(Line, apply_line));

typedef struct desk {
    tr_storage *store;
    tr_system *sys;
    tr_ref page;
} desk;

static void open_desk(desk *d, const tr_serializer *form)
{
    TR_MUST(tr_system_open(&d->sys));
    d->page = tr_spawn(d->sys, page, .name = "page", .storage = d->store,
                       .serializer = form);
}

static tr_err write_page(desk *d, const char *title, const char *text)
{
    return tr_ask(d->sys, d->page, NULL, 0, Write, .title = title,
                  .text = text);
}

static void assert_page(desk *d, const char *title, const char *text)
{
    Said said;
    TR_MUST(tr_ask(d->sys, d->page, &said, 0, Read));
    assert_string_equal(said.title, title);
    assert_string_equal(said.text, text);
    tr_drop(Said, &said);
}

static void test_json_refuses_text_that_is_not_utf8(void **state)
{
    desk d;
    (void)state;
    TR_MUST(tr_storage_memory(&d.store));
    open_desk(&d, NULL);
    TR_MUST(write_page(&d, "caf\xc3\xa9", "\xf0\x9f\x8e\xad and \"\n"));
    assert_int_equal(write_page(&d, "caf\xe9", "x"), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(d.sys), "title: not UTF-8"));
    assert_non_null(strstr(tr_error_text(d.sys), "byte 3"));
    assert_int_equal(write_page(&d, "x", "\xff"), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(d.sys), "lines[1].text: not UTF-8"));
    assert_page(&d, "caf\xc3\xa9", "\xf0\x9f\x8e\xad and \"\n");
    TR_MUST(tr_system_close(d.sys, 0));
    open_desk(&d, NULL);
    assert_page(&d, "caf\xc3\xa9", "\xf0\x9f\x8e\xad and \"\n");
    TR_MUST(tr_system_close(d.sys, 0));
    tr_storage_close(d.store);
}

static void test_the_binary_form_keeps_every_byte(void **state)
{
    desk d;
    (void)state;
    TR_MUST(tr_storage_memory(&d.store));
    open_desk(&d, &tr_serializer_binary);
    TR_MUST(write_page(&d, "caf\xe9", "\xff\xfe"));
    TR_MUST(tr_system_close(d.sys, 0));
    open_desk(&d, &tr_serializer_binary);
    assert_page(&d, "caf\xe9", "\xff\xfe");
    TR_MUST(tr_system_close(d.sys, 0));
    tr_storage_close(d.store);
}

static void test_json_refuses_it_in_events_too(void **state)
{
    tr_storage *store;
    tr_system *sys;
    (void)state;
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, diary, .name = "d", .storage = store);
    TR_MUST(tr_ask(sys, ref, NULL, 0, Write, .text = "caf\xc3\xa9"));
    assert_int_equal(tr_ask(sys, ref, NULL, 0, Write, .text = "\xff"),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(sys), "text: not UTF-8"));
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_refuses_text_that_is_not_utf8),
        cmocka_unit_test(test_the_binary_form_keeps_every_byte),
        cmocka_unit_test(test_json_refuses_it_in_events_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
