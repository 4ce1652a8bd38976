/*
 * persist_blobs_test.c - blobs in stored states: a state holds them, the next
 * one, a failure, a restart and the end let go of them. Each test keeps one
 * hold of its own and counts when all actors have ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "schema/blob.h"

TR_MESSAGE(Page, (tr_blob, image), (const char *, caption));
TR_MESSAGE(Added, (tr_blob, image), (list, Page, pages));
TR_STATE(Album, (tr_blob, cover), (list, Page, pages),
         (optional, nested, Page, last));

TR_MESSAGE(Cover, (tr_blob, image), (uint64_t, pages));
TR_REQUEST(Put, Cover, (tr_blob, image), (uint32_t, times));
TR_REQUEST(Get, Cover);
TR_REQUEST(Read, Cover);
TR_MESSAGE(Scribble, (tr_blob, image));
TR_MESSAGE(Crash);

static tr_err on_put(tr_ctx *ctx, Album *self, const Put *m)
{
    for (uint32_t i = 0; i <= m->times; i++) {
        Page pages[2] = {{m->image, "one"}, {self->cover, "two"}};
        Album next = {.cover = m->image,
                      .pages = {pages, 2},
                      .last = TR_SOME({m->image, "three"})};
        tr_err err = tr_persist(ctx, self, &next);
        if (err != TR_OK) {
            return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
        }
    }
    return tr_reply(ctx, m, .image = self->cover, .pages = self->pages.count);
}

static tr_err on_get(tr_ctx *ctx, const Album *self, const Get *m)
{
    return tr_reply(ctx, m, .image = self->cover, .pages = self->pages.count);
}

/* What the actor writes over a field is no concern of the state's holds. */
static tr_err on_scribble(tr_ctx *ctx, Album *self, const Scribble *m)
{
    (void)ctx, (void)m;
    self->cover = (tr_blob){NULL};
    self->pages.count = 0;
    return TR_OK;
}

static tr_err on_crash(tr_ctx *ctx, Album *self, const Crash *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EFAILED, "on purpose");
}

TR_ACTOR(album, Album, TR_ON(Put, on_put), TR_ON_READ(Get, on_get),
         TR_ON(Scribble, on_scribble), TR_ON(Crash, on_crash));

static void added(Album *self, const Added *e)
{
    self->cover = e->image;
    self->pages.at = e->pages.at;
    self->pages.count = e->pages.count;
}

static tr_err on_add(tr_ctx *ctx, Album *self, const Put *m)
{
    for (uint32_t i = 0; i <= m->times; i++) {
        Page pages[2] = {{m->image, "one"}, {self->cover, "two"}};
        tr_err err =
            tr_emit(ctx, self, Added, .image = m->image, .pages = {pages, 2});
        if (err != TR_OK) {
            return tr_refuse(ctx, m, err, "%s", tr_error_text(ctx));
        }
    }
    return tr_reply(ctx, m, .image = self->cover, .pages = self->pages.count);
}

/* Decodes all events; what they hold ends with the turn. */
static tr_err on_read(tr_ctx *ctx, Album *self, const Read *m)
{
    tr_event_page page;
    Added event = {.image = {NULL}};
    (void)self;
    TR_TRY(tr_events_read(ctx, NULL, NULL, 1, &page));
    for (size_t i = 0; i < page.count; i++) {
        TR_TRY(tr_event_decode(ctx, &page.events[i], Added, &event));
    }
    return tr_reply(ctx, m, .image = event.image, .pages = page.count);
}

TR_ACTOR(sourced, Album, TR_ON(Put, on_add), TR_ON_READ(Get, on_get),
         TR_ON(Read, on_read), TR_ON(Scribble, on_scribble),
         TR_ON(Crash, on_crash), TR_APPLY(Added, added), TR_SNAPSHOT_EVERY(3));

static const tr_actor_def *const both[] = {&album, &sourced};

typedef struct fixture {
    tr_system *sys;
    tr_storage *memory, *store;
    tr_blob blob;  // one hold is ours
} fixture;

static int open_all(void **state)
{
    static fixture f;
    TR_MUST(tr_storage_memory(&f.memory));
    TR_MUST(tr_storage_capture(&f.store, f.memory));
    TR_MUST(tr_system_open(&f.sys, .workers = 2, .log_level = 9));
    TR_MUST(tr_blob_new(f.sys, &f.blob, "picture", 7));
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    tr_blob_drop(f->blob);
    tr_storage_close(f->store);
    tr_storage_close(f->memory);
    return 0;
}

/* All actors end; nobody but the test may hold it then. */
static void expect_let_go(fixture *f, tr_blob blob)
{
    assert_int_equal(tr_system_close(f->sys, 0), TR_OK);
    assert_int_equal(tri_blob_holds(blob), 1);
}

static tr_ref spawn(fixture *f, const tr_actor_def *def, const char *name)
{
    return tr_spawn(f->sys, *def, .name = name, .storage = f->store,
                    .joinable = true,
                    .supervision = TR_SUPERVISE(.backoff_min = 1));
}

static tr_err put(fixture *f, tr_ref ref, tr_blob image, uint32_t times)
{
    return tr_ask(f->sys, ref, NULL, TR_SECONDS(60), Put, .image = image,
                  .times = times - 1);
}

/* The cover; the caller owns one hold. */
static tr_blob get(fixture *f, tr_ref ref)
{
    Cover cover;
    assert_int_equal(tr_ask(f->sys, ref, &cover, TR_SECONDS(60), Get), TR_OK);
    return cover.image;
}

static void test_ST11_the_next_state_releases_the_blobs_of_the_old(void **state)
{
    fixture *f = *state;
    tr_blob other;
    TR_MUST(tr_blob_new(f->sys, &other, "other", 5));
    for (size_t i = 0; i < 2; i++) {
        tr_ref ref = spawn(f, both[i], i == 0 ? "ann" : "bob");
        assert_int_equal(put(f, ref, f->blob, 7), TR_OK);
        assert_int_equal(put(f, ref, other, 2), TR_OK);
        tr_blob cover = get(f, ref);
        assert_memory_equal(tr_blob_bytes(cover).at, "other", 5);
        tr_blob_drop(cover);
        assert_int_equal(tri_blob_holds(f->blob), 1);  // while it lives
    }
    expect_let_go(f, f->blob);
    assert_int_equal(tri_blob_holds(other), 1);
    tr_blob_drop(other);
}

static void test_ST12_a_failed_save_releases_its_blobs(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        tr_ref ref = spawn(f, both[i], i == 0 ? "ann" : "bob");
        tr_blob_drop(get(f, ref));  // it has started
        tr_storage_fail_nth(f->store, 1, TR_EIO);
        assert_int_equal(put(f, ref, f->blob, 1), TR_ESTORAGE);
    }
    expect_let_go(f, f->blob);
}

static void test_a_loaded_state_releases_its_blobs(void **state)
{
    fixture *f = *state;
    tr_blob loaded[2];
    for (size_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "ann" : "bob";
        tr_ref ref = spawn(f, both[i], name);
        assert_int_equal(put(f, ref, f->blob, 5), TR_OK);
        tr_tell(f->sys, ref, Crash);
        loaded[i] = get(f, ref);  // of the second incarnation
        assert_ptr_not_equal(loaded[i].body, f->blob.body);
        assert_memory_equal(tr_blob_bytes(loaded[i]).at, "picture", 7);
    }
    expect_let_go(f, loaded[0]);
    assert_int_equal(tri_blob_holds(loaded[1]), 1);
    assert_int_equal(tri_blob_holds(f->blob), 1);
    tr_blob_drop(loaded[0]);
    tr_blob_drop(loaded[1]);
}

static void test_an_overwritten_state_releases_its_blobs(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        tr_ref ref = spawn(f, both[i], i == 0 ? "ann" : "bob");
        assert_int_equal(put(f, ref, f->blob, 2), TR_OK);
        tr_tell(f->sys, ref, Scribble, .image = f->blob);
        assert_null(get(f, ref).body);
        assert_int_equal(put(f, ref, f->blob, 1), TR_OK);
        tr_tell(f->sys, ref, Scribble);
    }
    expect_let_go(f, f->blob);
}

static void test_decoded_events_release_their_blobs(void **state)
{
    fixture *f = *state;
    Cover cover;
    tr_ref ref = spawn(f, &sourced, "ann");
    assert_int_equal(put(f, ref, f->blob, 5), TR_OK);
    assert_int_equal(tr_ask(f->sys, ref, &cover, TR_SECONDS(60), Read), TR_OK);
    assert_int_equal(cover.pages, 5);
    expect_let_go(f, cover.image);
    assert_int_equal(tri_blob_holds(f->blob), 1);
    tr_drop(Cover, &cover);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ST11_the_next_state_releases_the_blobs_of_the_old),
        TEST(test_ST12_a_failed_save_releases_its_blobs),
        TEST(test_a_loaded_state_releases_its_blobs),
        TEST(test_an_overwritten_state_releases_its_blobs),
        TEST(test_decoded_events_release_their_blobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
