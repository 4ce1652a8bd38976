/*
 * 22_small_calls.c - calls that were missing: replies of probes, data for
 * callbacks, plain reasons, awaiting all, blobs without a copy, messages sent
 * on with changes, the log level.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Number, (int32_t, n));
TR_REQUEST(Double, Number, (int32_t, n), (const char *, note));
TR_REQUEST(Sum, Number, (tr_ref, to), (int32_t, count));
TR_REQUEST(Through, Number, (int32_t, deep), (int32_t, n));
TR_MESSAGE(Start, (tr_ref, to));
TR_MESSAGE(Picture, (tr_blob, pixels));
TR_MESSAGE(Crash);

enum { FUTURES = 5 };

/* ---- an actor that passes requests on, and doubles numbers ---- */

typedef struct Desk {
    tr_ref to;
} Desk;

static tr_err on_double(tr_ctx *ctx, Desk *self, const Double *m)
{
    if (!tr_ref_is_nobody(self->to)) {  // sends it on, changed
        Double changed = *m;
        changed.n += 100;
        changed.note = tr_textf(ctx, "%s, seen", m->note);
        tr_forward_copy(ctx, self->to, m, &changed);
        return TR_OK;
    }
    if (m->n < 0) {
        return tr_refuse(ctx, m, TR_EINVAL, "%d is below zero", m->n);
    }
    return tr_reply(ctx, m, .n = 2 * m->n);
}

static tr_err on_number(tr_ctx *ctx, Desk *self, const Number *m)
{
    Number changed = *m;
    changed.n++;
    tr_tell_copy(ctx, self->to, Number, &changed);
    return TR_OK;
}

static tr_err on_sum(tr_ctx *ctx, Desk *self, const Sum *m)
{
    tr_future futures[FUTURES];
    int32_t sum = 0;
    (void)self;
    for (int32_t i = 0; i < m->count; i++) {
        futures[i] = tr_async(ctx, m->to, 0, Double, .n = i);
    }
    TR_TRY(tr_await_all(ctx, futures, (size_t)m->count));
    for (int32_t i = m->count; i-- > 0;) {
        Number number;
        TR_TRY(tr_await(ctx, futures[i], Double, &number));
        sum += number.n;
    }
    return tr_reply(ctx, m, .n = sum);
}

/* The callback gets what tr_ask_then_with was given. */
static tr_err then(tr_ctx *ctx, void *state, const void *reply, tr_err err,
                   void *user)
{
    const Desk *self = state;
    const int32_t *plus = user;
    TR_TRY(err);
    tr_tell(ctx, self->to, Number, .n = ((const Number *)reply)->n + *plus);
    return TR_OK;
}

static tr_err on_start(tr_ctx *ctx, Desk *self, const Start *m)
{
    int32_t *plus = tr_alloc(ctx, sizeof(*plus));
    (void)self;
    *plus = 1000;
    tr_ask_then_with(ctx, m->to, 0, then, plus, Double, .n = 4);
    return TR_OK;
}

static tr_err on_crash(tr_ctx *ctx, Desk *self, const Crash *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EFAILED, "as told");
}

/* Asks the next desk, and that one the next, and the last one for Double. */
static tr_err on_through(tr_ctx *ctx, Desk *self, const Through *m)
{
    Number number;
    if (m->deep == 0) {
        TR_OR_REFUSE(ctx, m, m->n == 0 ? TR_EUSER : TR_OK);
        TR_OR_REFUSE(ctx, m,
                     tr_ask(ctx, self->to, &number, 0, Double, .n = m->n));
    } else {
        TR_OR_REFUSE(ctx, m,
                     tr_ask(ctx, self->to, &number, 0, Through,
                            .deep = m->deep - 1, .n = m->n));
    }
    return tr_reply(ctx, m, .n = number.n);
}

TR_ACTOR(desk, Desk, TR_ON(Through, on_through), TR_ON(Double, on_double),
         TR_ON(Number, on_number), TR_ON(Sum, on_sum), TR_ON(Start, on_start),
         TR_ON(Crash, on_crash));

typedef struct fixture {
    tr_system *sys;
    tr_probe *probe;
} fixture;

static fixture open_fixture(void)
{
    fixture it;
    TR_MUST(tr_system_open(&it.sys, .log_level = TR_LOG_ERROR + 1));
    TR_MUST(tr_probe_new(&it.probe, it.sys));
    return it;
}

static void close_fixture(fixture it)
{
    tr_probe_free(it.probe);
    assert_int_equal(tr_system_close(it.sys, 0), TR_OK);
}

static void test_a_probe_replies(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_probe *other;
    TR_MUST(tr_probe_new(&other, it.sys));
    tr_ref ref = tr_spawn(it.sys, desk, TR_INIT(desk, tr_probe_ref(other)));
    tr_tell(it.sys, ref, Start, .to = tr_probe_ref(it.probe));
    const Double *m = tr_expect(it.probe, TR_SECONDS(30), Double);
    assert_int_equal(m->n, 4);
    assert_int_equal(tr_probe_reply(it.probe, m, .n = 8), TR_OK);
    assert_int_equal(tr_probe_reply(it.probe, m, .n = 9), TR_EEXIST);
    Double mine = {.n = 1};
    assert_int_equal(tr_probe_reply(it.probe, &mine, .n = 9), TR_EINVAL);
    assert_int_equal(tr_expect(other, TR_SECONDS(30), Number)->n, 1008);
    tr_probe_free(other);
    close_fixture(it);
}

/* The asker gets an error when the probe goes on without an answer. */
static void test_a_probe_that_does_not_reply(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_probe *failures;
    TR_MUST(tr_probe_new(&failures, it.sys));
    tr_probe_subscribe(failures, tr_supervision_event);
    tr_ref ref = tr_spawn(it.sys, desk);
    for (int freed = 0; freed < 2; freed++) {
        tr_tell(it.sys, ref, Start, .to = tr_probe_ref(it.probe));
        (void)tr_expect(it.probe, TR_SECONDS(30), Double);
        if (freed) {
            tr_probe_free(it.probe);
        } else {
            tr_expect_nothing(it.probe, 1);
        }
        // `then` fails with the error that it got.
        const tr_supervision_event *e =
            tr_expect(failures, TR_SECONDS(30), tr_supervision_event);
        assert_int_equal(e->err, TR_ENOREPLY);
    }
    it.probe = failures;
    close_fixture(it);
}

static void test_a_callback_gets_its_data(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref doubles = tr_spawn(it.sys, desk);
    tr_ref ref = tr_spawn(it.sys, desk, TR_INIT(desk, tr_probe_ref(it.probe)));
    tr_tell(it.sys, ref, Start, .to = doubles);
    assert_int_equal(tr_expect(it.probe, TR_SECONDS(30), Number)->n, 1008);
    close_fixture(it);
}

static void test_a_reason_without_decoration(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref ref = tr_spawn(it.sys, desk);
    Number number;
    assert_int_equal(tr_ask(it.sys, ref, &number, 0, Double, .n = -3),
                     TR_EINVAL);
    assert_string_equal(tr_error_reason(it.sys), "-3 is below zero");
    assert_non_null(strstr(tr_error_text(it.sys), "-3 is below zero"));
    assert_int_equal(tr_ask(it.sys, TR_NOBODY, &number, 0, Double), TR_ENOENT);
    assert_string_equal(tr_error_reason(it.sys), tr_strerror(TR_ENOENT));
    close_fixture(it);
}

/* TR_OR_REFUSE adds its expression to the text, and not to the reason. */
static void test_a_reason_through_tr_or_refuse(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref ref = tr_spawn(it.sys, desk);
    for (int32_t deep = 0; deep < 3; deep++) {
        ref = tr_spawn(it.sys, desk, TR_INIT(desk, ref));
        assert_int_equal(
            tr_ask(it.sys, ref, NULL, 0, Through, .deep = deep, .n = -3),
            TR_EINVAL);
        assert_string_equal(tr_error_reason(it.sys), "-3 is below zero");
        assert_non_null(strstr(tr_error_text(it.sys), "tr_ask(ctx, self->to"));
        assert_non_null(strstr(tr_error_text(it.sys), "22_small_calls.c:"));
        assert_int_equal(
            tr_ask(it.sys, ref, NULL, 0, Through, .deep = deep, .n = 0),
            TR_EUSER);
        assert_string_equal(tr_error_reason(it.sys), tr_strerror(TR_EUSER));
    }
    close_fixture(it);
}

/* The compiler does not warn of it, and the call is made. */
static void test_an_error_is_ignored_on_purpose(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref ref = tr_spawn(it.sys, desk, TR_INIT(desk, tr_probe_ref(it.probe)));
    TR_IGNORE(tr_try_tell(it.sys, TR_NOBODY, Number, .n = 1));
    TR_IGNORE(tr_try_tell(it.sys, ref, Start, .to = tr_spawn(it.sys, desk)));
    assert_int_equal(tr_expect(it.probe, TR_SECONDS(30), Number)->n, 1008);
    close_fixture(it);
}

static void test_nobody_is_nobody(void **state)
{
    (void)state;
    fixture it = open_fixture();
    assert_true(tr_ref_is_nobody(TR_NOBODY));
    assert_true(tr_ref_is_nobody(tr_lookup(it.sys, "/user/none")));
    tr_ref ref = tr_spawn(it.sys, desk);
    tr_stop(it.sys, ref);
    assert_false(tr_ref_is_nobody(ref));
    close_fixture(it);
}

static void test_restarts_without_a_limit(void **state)
{
    enum { CRASHES = 20 };
    (void)state;
    fixture it = open_fixture();
    tr_ref ref = tr_spawn(it.sys, desk,
                          .supervision =
                              TR_SUPERVISE(.max_restarts = TR_UNLIMITED,
                                           .backoff_min = 1, .backoff_max = 1));
    for (int i = 0; i < CRASHES; i++) {
        tr_tell(it.sys, ref, Crash);
    }
    Number number;
    TR_MUST(tr_ask(it.sys, ref, &number, 0, Double, .n = 21));
    assert_int_equal(number.n, 42);
    close_fixture(it);
}

static void test_awaiting_all_futures(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref ref = tr_spawn(it.sys, desk), doubles = tr_spawn(it.sys, desk);
    Number number;
    TR_MUST(
        tr_ask(it.sys, ref, &number, 0, Sum, .to = doubles, .count = FUTURES));
    assert_int_equal(number.n, 20);
    // Of itself it would wait for ever.
    assert_int_equal(
        tr_ask(it.sys, ref, &number, 0, Sum, .to = ref, .count = FUTURES),
        TR_EFAILED);
    close_fixture(it);
}

static _Atomic(int) released;

static void release(void *user, void *data, size_t size)
{
    assert_ptr_equal(user, &released);
    assert_int_equal(size, 3);
    free(data);
    atomic_fetch_add(&released, 1);
}

static void test_blobs_without_a_copy(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_blob blob;
    void *bytes;
    TR_MUST(tr_blob_alloc(it.sys, &blob, 5, &bytes));
    memcpy(bytes, "hello", 5);
    assert_ptr_equal(tr_blob_bytes(blob).at, bytes);
    tr_tell(it.sys, tr_probe_ref(it.probe), Picture, .pixels = blob);
    tr_blob_drop(blob);
    const Picture *m = tr_expect(it.probe, TR_SECONDS(30), Picture);
    assert_ptr_equal(tr_blob_bytes(m->pixels).at, bytes);
    assert_memory_equal(tr_blob_bytes(m->pixels).at, "hello", 5);

    char *mine = strdup("abc");
    TR_MUST(tr_blob_adopt(it.sys, &blob, mine, 3, release, &released));
    tr_tell(it.sys, tr_probe_ref(it.probe), Picture, .pixels = blob);
    tr_blob_drop(blob);
    m = tr_expect(it.probe, TR_SECONDS(30), Picture);
    assert_ptr_equal(tr_blob_bytes(m->pixels).at, mine);
    assert_int_equal(released, 0);
    close_fixture(it);  // the probe drops its message
    assert_int_equal(released, 1);
}

static void test_a_message_is_sent_on_changed(void **state)
{
    (void)state;
    fixture it = open_fixture();
    tr_ref doubles = tr_spawn(it.sys, desk);
    tr_ref front = tr_spawn(it.sys, desk, TR_INIT(desk, doubles));
    Number number;
    TR_MUST(tr_ask(it.sys, front, &number, 0, Double, .n = 1, .note = "a"));
    assert_int_equal(number.n, 202);
    tr_ref to_probe =
        tr_spawn(it.sys, desk, TR_INIT(desk, tr_probe_ref(it.probe)));
    tr_tell(it.sys, to_probe, Double, .n = 1, .note = "a");
    const Double *m = tr_expect(it.probe, TR_SECONDS(30), Double);
    assert_int_equal(m->n, 101);
    assert_string_equal(m->note, "a, seen");
    tr_tell(it.sys, to_probe, Number, .n = 7);
    assert_int_equal(tr_expect(it.probe, TR_SECONDS(30), Number)->n, 8);
    close_fixture(it);
}

static void count_line(void *user, const tr_log_record *record)
{
    (void)record;
    ++*(int *)user;
}

static void test_the_log_level_changes_at_run_time(void **state)
{
    int lines = 0;
    tr_system *sys;
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR, .log = count_line,
                           .log_user = &lines));
    tr_info(sys, "not logged");
    assert_int_equal(lines, 0);
    assert_int_equal(tr_log_level_set(sys, TR_LOG_INFO), TR_LOG_ERROR);
    tr_info(sys, "logged");
    tr_debug(sys, "not logged");
    assert_int_equal(lines, 1);
    assert_int_equal(tr_log_level_set(sys, TR_LOG_ERROR + 1), TR_LOG_INFO);
    tr_error(sys, "not logged");
    assert_int_equal(lines, 1);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_probe_replies),
        cmocka_unit_test(test_a_probe_that_does_not_reply),
        cmocka_unit_test(test_a_callback_gets_its_data),
        cmocka_unit_test(test_a_reason_without_decoration),
        cmocka_unit_test(test_a_reason_through_tr_or_refuse),
        cmocka_unit_test(test_an_error_is_ignored_on_purpose),
        cmocka_unit_test(test_nobody_is_nobody),
        cmocka_unit_test(test_restarts_without_a_limit),
        cmocka_unit_test(test_awaiting_all_futures),
        cmocka_unit_test(test_blobs_without_a_copy),
        cmocka_unit_test(test_a_message_is_sent_on_changed),
        cmocka_unit_test(test_the_log_level_changes_at_run_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
