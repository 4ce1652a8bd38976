/*
 * sourcing_read_test.c - the bytes of events: others read them, page by page,
 * and whoever writes them chooses the serializer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/system/ledger.h"

/* ---- projections ---- */

TR_MESSAGE(Sum, (int64_t, cents), (uint64_t, last), (uint32_t, pages),
           (uint32_t, others));
TR_REQUEST(Project, Sum, (const char *, kind), (const char *, key),
           (uint64_t, first));

static tr_err on_project(tr_ctx *ctx, Ledger *self, const Project *m)
{
    tr_event_page page = {.more = true};
    Sum sum = {.cents = 0};
    (void)self;
    for (uint64_t next = m->first; page.more; sum.pages++) {
        tr_err err = tr_events_read(ctx, m->kind, m->key, next, &page);
        if (err != TR_OK) {
            return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
        }
        for (size_t i = 0; i < page.count; i++) {
            const tr_stored_event *event = &page.events[i];
            Deposited d;
            if (strcmp(event->type, "Deposited") != 0) {
                assert_int_equal(tr_event_decode(ctx, event, Deposited, &d),
                                 TR_EINVAL);
                assert_non_null(strstr(tr_error_text(ctx), "not a Dep"));
                sum.others++;
                continue;
            }
            TR_TRY(tr_event_decode(ctx, event, Deposited, &d));
            assert_string_equal(d.memo, "p");
            sum.cents += d.cents;
            next = event->sequence + 1;
        }
        sum.last = page.last;
    }
    return tr_reply(ctx, m, .cents = sum.cents, .last = sum.last,
                    .pages = sum.pages, .others = sum.others);
}

TR_ACTOR(projection, Ledger, TR_ON(Project, on_project));

static void test_events_are_read_in_pages(void **state)
{
    fixture *f = *state;
    Sum sum;
    for (uint64_t i = 0; i < PAGES_OF_EVENTS; i++) {
        append_raw(f, KEY("sue"), i, "Deposited {\"cents\":2,\"memo\":\"p\"}");
    }
    append_raw(f, KEY("sue"), PAGES_OF_EVENTS, "Withdrawn {\"cents\":1}");
    tr_ref ref = spawn_with(f, projection, .name = "sum");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue"),
                     TR_OK);
    assert_int_equal(sum.cents, 2 * PAGES_OF_EVENTS);
    assert_int_equal(sum.last, PAGES_OF_EVENTS + 1);
    assert_int_equal(sum.others, 1);
    assert_true(sum.pages > 2);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue",
                            .first = PAGES_OF_EVENTS),
                     TR_OK);
    assert_int_equal(sum.cents, 2);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/nobody"),
                     TR_OK);
    assert_int_equal(sum.last, 0);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "led/ger", .key = "x"),
                     TR_EINVAL);
    tr_storage_fail_nth(f->store, 1, TR_EIO);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Project,
                            .kind = "ledger", .key = "/user/sue"),
                     TR_ESTORAGE);
}

TR_REQUEST(Peek, Sum, (const char *, kind), (const char *, key));

/* Reads the first event as a deposit, whatever it is. */
static tr_err on_peek(tr_ctx *ctx, Ledger *self, const Peek *m)
{
    tr_event_page page;
    Deposited d;
    (void)self;
    tr_err err = tr_events_read(ctx, m->kind, m->key, 1, &page);
    if (err == TR_OK && page.count > 0) {
        memset(&d, 0x5a, sizeof(d));
        err = tr_event_decode(ctx, &page.events[0], Deposited, &d);
    }
    if (err != TR_OK) {
        return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
    }
    return tr_reply(ctx, m, .cents = page.count > 0 ? d.cents : 0,
                    .last = page.last);
}

static tr_err on_peek_damaged(tr_ctx *ctx, Ledger *self, const Peek *m)
{
    tr_event_page page;
    Deposited d;
    (void)self;
    TR_TRY(tr_events_read(ctx, m->kind, m->key, 1, &page));
    TR_ASSERT(ctx, page.count == 1 && page.last == 1);
    const tr_stored_event *event = &page.events[0];
    TR_ASSERT(ctx, event->sequence == 1 && event->type[0] == '\0');
    TR_ASSERT(ctx, event->stored.size == 3 &&
                       memcmp(event->stored.at, "\1\2\3", 3) == 0);
    memset(&d, 0x5a, sizeof(d));
    TR_ASSERT(ctx, tr_event_decode(ctx, event, Deposited, &d) == TR_EINVAL);
    TR_ASSERT(ctx, d.cents == 0 && d.memo == NULL);
    TR_ASSERT(ctx, strstr(tr_error_text(ctx), "event 1") != NULL);
    return tr_reply(ctx, m, .cents = -1);
}

TR_ACTOR(peeping, Ledger, LEDGER, TR_ON(Peek, on_peek));
TR_ACTOR(mending, Ledger, TR_ON(Peek, on_peek_damaged));

/* ST1: a damaged event can be looked at as it lies there. */
static void test_ST1_a_damaged_event_is_read_as_bytes(void **state)
{
    fixture *f = *state;
    Sum sum;
    append_raw(f, KEY("tim"), 0, "\1\2\3");
    tr_ref ref = spawn_with(f, mending, .name = "mender");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek,
                            .kind = "ledger", .key = "/user/tim"),
                     TR_OK);
    assert_int_equal(sum.cents, -1);
}

/* ST5: without a kind it is one's own events; a kind needs a key. */
static void test_ST5_ST9_whose_events_are_read(void **state)
{
    fixture *f = *state;
    Sum sum;
    append_raw(f, "local::peeping//user/una", 0, "Deposited {\"cents\":8}");
    append_raw(f, KEY("una"), 0, "Deposited {\"cents\":9}");
    tr_ref ref = spawn_with(f, peeping, .name = "una");
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek), TR_OK);
    assert_int_equal(sum.cents, 8);
    assert_int_equal(tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek,
                            .kind = "ledger", .key = "/user/una"),
                     TR_OK);
    assert_int_equal(sum.cents, 9);
    assert_int_equal(
        tr_ask(f->sys, ref, &sum, TR_SECONDS(60), Peek, .kind = "ledger"),
        TR_EINVAL);
    assert_non_null(
        strstr(tr_error_text(f->sys), "ledger/ is not a valid key"));
}

/* ---- another serializer (ST1) ---- */

static size_t write_hex(void *user, const tr_type *type, const void *value,
                        void *buf, size_t size)
{
    char json[512];
    size_t length = tr_json_write(type, value, json, sizeof(json));
    if (length >= sizeof(json)) {
        return SIZE_MAX;
    }
    ++*(_Atomic(int) *)user;
    for (size_t i = 0; i < length && 2 * i + 2 < size; i++) {
        snprintf((char *)buf + 2 * i, 3, "%02x", (unsigned char)json[i]);
    }
    return 2 * length;
}

static tr_err read_hex(void *user, const tr_type *type, void *value,
                       const void *bytes, size_t size)
{
    char json[512];
    (void)user;
    if (size / 2 >= sizeof(json)) {
        return TR_ELIMIT;
    }
    for (size_t i = 0; i + 1 < size; i += 2) {
        unsigned c;
        if (sscanf((const char *)bytes + i, "%2x", &c) != 1) {
            return TR_EINVAL;
        }
        json[i / 2] = (char)c;
    }
    return tr_json_read(type, value, json, size / 2);
}

static void test_ST1_ST2_another_serializer_can_be_plugged_in(void **state)
{
    fixture *f = *state;
    _Atomic(int) written = 0;
    const tr_serializer hex = {"hex", write_hex, read_hex, (void *)&written};
    const tr_serializer *all[] = {NULL, &hex, &hex};
    for (int i = 0; i < 3; i++) {  // each reads what those before wrote
        tr_ref ref = spawn_with(f, ledger, .name = "uma", .serializer = all[i]);
        expect(f, ref, 3 * i, i ? "u" : NULL, 3 * (uint64_t)i);
        assert_int_equal(deposit(f, ref, 1, "u", 3), TR_OK);
        tr_tell(f->sys, ref, Crash);
        expect(f, ref, 3 * i + 3, "u", 3 * (uint64_t)i + 3);
        end(f, ref);
    }
    assert_true(written > 0);
    drop_snapshot(f, KEY("uma"));
    expect_no_start(f,
                    spawn_failing(f, ledger, .name = "uma",
                                  .serializer = &tr_serializer_binary),
                    KEY("uma"), "event 4, a Deposited", "serializer hex");
}

static void test_ST1_the_compact_form_and_json_know_each_other(void **state)
{
    fixture *f = *state;
    tr_captured seen;
    for (int i = 0; i < 4; i++) {
        tr_ref ref =
            spawn_with(f, ledger, .name = "vic",
                       .serializer = i % 2 ? &tr_serializer_binary : NULL);
        expect(f, ref, 3 * i, i ? "v" : NULL, 3 * (uint64_t)i);
        assert_int_equal(deposit(f, ref, 1, "v", 3), TR_OK);
        end(f, ref);
    }
    bool binary = false, json = false;
    for (size_t i = 0; tr_storage_captured(f->store, i, &seen); i++) {
        if (seen.call == TR_STORE_APPEND) {
            binary |= seen.size > 17 &&
                      memcmp(seen.bytes, "Deposited/binary ", 17) == 0;
            json |=
                seen.size > 11 && memcmp(seen.bytes, "Deposited {", 11) == 0;
        }
    }
    assert_true(binary);
    assert_true(json);
}

static void test_ST1_a_serializer_needs_a_name(void **state)
{
    fixture *f = *state;
    const tr_serializer none = {"not a name", write_hex, read_hex, NULL};
    assert_int_equal(
        tr_ref_err(spawn_with(f, ledger, .name = "wes", .serializer = &none)),
        TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH_STORE(test_events_are_read_in_pages),
        IN_EACH_STORE(test_ST1_a_damaged_event_is_read_as_bytes),
        IN_EACH_STORE(test_ST5_ST9_whose_events_are_read),
        IN_EACH_STORE(test_ST1_ST2_another_serializer_can_be_plugged_in),
        IN_EACH_STORE(test_ST1_the_compact_form_and_json_know_each_other),
        IN_EACH_STORE(test_ST1_a_serializer_needs_a_name),
    };
    return cmocka_run_group_tests(tests, each_start, each_end);
}
