/*
 * 04_mailbox_limits.c - what a full mailbox does while its handler is busy.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Hold);
TR_MESSAGE(Number, (uint64_t, n));
TR_MESSAGE(Numbers, (uint64_t, count), (uint64_t, first), (uint64_t, last),
           (bool, in_order));
TR_REQUEST(Read, Numbers);
TR_MESSAGE(Tried, (uint32_t, err));
TR_REQUEST(Try, Tried, (tr_ref, to));
TR_REQUEST(Flood, Tried, (tr_ref, to), (uint64_t, count));

static sem_t entered, leave;

typedef struct Box {
    Numbers seen;
} Box;

/* Keeps the actor busy until the test lets it go on. */
static tr_err on_hold(tr_ctx *ctx, Box *self, const Hold *m)
{
    (void)ctx, (void)self, (void)m;
    sem_post(&entered);
    sem_wait(&leave);
    return TR_OK;
}

static tr_err on_number(tr_ctx *ctx, Box *self, const Number *m)
{
    Numbers *seen = &self->seen;
    (void)ctx;
    seen->in_order = seen->count == 0 || (seen->in_order && m->n > seen->last);
    seen->first = seen->count++ == 0 ? m->n : seen->first;
    seen->last = m->n;
    return TR_OK;
}

static tr_err on_read(tr_ctx *ctx, Box *self, const Read *m)
{
    return tr_reply(ctx, m, .count = self->seen.count,
                    .first = self->seen.first, .last = self->seen.last,
                    .in_order = self->seen.in_order);
}

/* Sends without waiting, from a handler. */
static tr_err on_try(tr_ctx *ctx, Box *self, const Try *m)
{
    (void)self;
    return tr_reply(ctx, m, .err = tr_try_tell(ctx, m->to, Number, .n = 9));
}

/* Sends many messages from one handler. */
static tr_err on_flood(tr_ctx *ctx, Box *self, const Flood *m)
{
    (void)self;
    for (uint64_t n = 1; n <= m->count; n++) {
        tr_tell(ctx, m->to, Number, .n = n);
    }
    return tr_reply(ctx, m, .err = TR_OK);
}

TR_ACTOR(box, Box, TR_ON(Hold, on_hold), TR_ON(Number, on_number),
         TR_ON(Read, on_read), TR_ON(Try, on_try), TR_ON(Flood, on_flood));

static tr_system *open_system(void)
{
    tr_system *sys;
    sem_init(&entered, 0, 0);
    sem_init(&leave, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = TR_LOG_ERROR,
                           .handler_limit = TR_FOREVER));
    return sys;
}

/* Makes the actor busy and returns when it is. */
static void make_busy(tr_system *sys, tr_ref ref)
{
    tr_tell(sys, ref, Hold);
    sem_wait(&entered);
}

static uint32_t depth_of(tr_system *sys, tr_ref ref)
{
    tr_actor_info info = {.size = sizeof(info)};
    TR_MUST(tr_actor_info_of(sys, ref, &info));
    return info.depth;
}

static uint64_t dead_letters(tr_system *sys)
{
    tr_metrics_snapshot metrics = {.size = sizeof(metrics)};
    tr_metrics(sys, &metrics);
    return metrics.dead_letters;
}

static void test_drop_old_is_bounded_while_its_handler_is_busy(void **state)
{
    enum { LIMIT = 100, SENT = 20000 };
    (void)state;
    tr_system *sys = open_system();
    tr_ref ref = tr_spawn(sys, box, .mailbox_limit = LIMIT,
                          .overflow = TR_OVERFLOW_DROP_OLD);
    for (uint64_t n = 1; n <= LIMIT / 2; n++) {  // may be handled, or not
        tr_tell(sys, ref, Number, .n = n);
    }
    make_busy(sys, ref);
    for (uint64_t n = 1; n <= SENT; n++) {
        tr_tell(sys, ref, Number, .n = LIMIT + n);
        assert_true(depth_of(sys, ref) <= LIMIT);
    }
    assert_int_equal(dead_letters(sys), SENT - LIMIT);
    sem_post(&leave);
    Numbers seen;
    TR_MUST(tr_ask(sys, ref, &seen, 0, Read));
    assert_true(seen.in_order);
    assert_int_equal(seen.last, LIMIT + SENT);
    assert_true(seen.count >= LIMIT - 1 && seen.count < 2 * LIMIT);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_a_try_tell_does_not_wait_for_a_full_mailbox(void **state)
{
    (void)state;
    tr_system *sys = open_system();
    tr_ref ref =
        tr_spawn(sys, box, .mailbox_limit = 2, .overflow = TR_OVERFLOW_BLOCK);
    tr_ref other = tr_spawn(sys, box);
    make_busy(sys, ref);
    assert_int_equal(tr_try_tell(sys, ref, Number, .n = 1), TR_OK);
    assert_int_equal(tr_try_tell(sys, ref, Number, .n = 2), TR_OK);
    assert_int_equal(tr_try_tell(sys, ref, Number, .n = 3), TR_EFULL);
    Tried tried;
    TR_MUST(tr_ask(sys, other, &tried, 0, Try, .to = ref));
    assert_int_equal(tried.err, TR_EFULL);
    sem_post(&leave);
    Numbers seen;
    TR_MUST(tr_ask(sys, ref, &seen, 0, Read));
    assert_int_equal(seen.count, 2);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* Checks the depth of a busy actor, which an outside thread or actor fills. */
static void check_depth(bool from_actor)
{
    enum { SENT = 200000 };
    tr_system *sys = open_system();
    tr_ref ref = tr_spawn(sys, box, .soft_limit = 2 * SENT);
    tr_ref other = tr_spawn(sys, box);
    make_busy(sys, ref);
    Tried tried;
    if (from_actor) {
        TR_MUST(tr_ask(sys, other, &tried, 0, Flood, .to = ref, .count = SENT));
    } else {
        for (uint64_t n = 1; n <= SENT; n++) {
            tr_tell(sys, ref, Number, .n = n);
        }
    }
    assert_int_equal(depth_of(sys, ref), SENT);
    sem_post(&leave);
    Numbers seen;
    TR_MUST(tr_ask(sys, ref, &seen, 0, Read));
    assert_int_equal(seen.count, SENT);
    assert_true(seen.in_order);
    assert_int_equal(depth_of(sys, ref), 0);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

static void test_the_depth_counts_more_than_65535_messages(void **state)
{
    (void)state;
    check_depth(false);
    check_depth(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drop_old_is_bounded_while_its_handler_is_busy),
        cmocka_unit_test(test_a_try_tell_does_not_wait_for_a_full_mailbox),
        cmocka_unit_test(test_the_depth_counts_more_than_65535_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
