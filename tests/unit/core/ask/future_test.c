/*
 * future_test.c - futures: tr_async, tr_await, tr_await_any; a future belongs
 * to its turn.
 */
#include "support/stage.h"

#include "support/core.h"
#include "unit/core/waiting.h"

static tr_err act_futures(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_future futures[3];
    tr_ref to[] = {self->stage->two, self->stage->three, self->stage->two};
    Acted out;
    size_t index;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        futures[i] = tr_async(ctx, to[i], i == 2 ? TR_SECONDS(1) : 0, Act,
                              .fn = (uint64_t)(uintptr_t)act_sleep,
                              .arg = (uint64_t)TR_SECONDS(3 - i));
    }
    TR_TRY(tr_await_any(ctx, futures, 3, &index));
    TR_ASSERT(ctx, index == 2);  // its time-out is the shortest
    TR_ASSERT(ctx, tr_await(ctx, futures[2], Act, &out) == TR_ETIMEDOUT);
    TR_ASSERT(ctx, tr_await(ctx, futures[2], Act, &out) == TR_EINVAL);
    TR_TRY(tr_await_any(ctx, futures, 2, &index));
    TR_ASSERT(ctx, index == 1);
    TR_TRY(tr_await(ctx, futures[1], Act, &out));
    TR_ASSERT(ctx, out.value == 2);
    TR_TRY(tr_await(ctx, futures[0], Act, &out));
    TR_ASSERT(ctx, tr_await_any(ctx, futures, 0, &index) == TR_EINVAL);
    return tr_reply(ctx, m, .value = 1);
}

static void test_futures_are_awaited_in_any_order(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_futures, NULL));
    stage_close(&it);
}

static tr_err act_leave_future(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    (void)tr_async(ctx, self->stage->two, 0, Act,
                   .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static void test_rule_18_a_future_ends_with_its_turn(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_leave_future, NULL);
    stage_run_ready(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

typedef struct two_turns {
    tr_future theirs;
    tr_err await, any, later;
    int ended;
} two_turns;

static tr_err act_make_future(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    two_turns *t = arg;
    Acted out;
    (void)m;
    t->theirs = tr_async(ctx, self->stage->two, TR_SECONDS(60), Act,
                         .fn = (uint64_t)(uintptr_t)act_sleep,
                         .arg = (uint64_t)TR_SECONDS(5));
    TR_TRY(tr_sleep(ctx, TR_SECONDS(10)));
    t->later = tr_await(ctx, t->theirs, Act, &out);
    t->ended++;
    return TR_OK;
}

static tr_err act_take_future(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    two_turns *t = arg;
    Acted out;
    size_t index;
    (void)m;
    t->await = tr_await(ctx, t->theirs, Act, &out);
    t->any = tr_await_any(ctx, &t->theirs, 1, &index);
    // This future ends with this turn; the one of the other turn does not.
    (void)tr_async(ctx, self->stage->three, TR_SECONDS(60), Act,
                   .fn = (uint64_t)(uintptr_t)act_sleep,
                   .arg = (uint64_t)TR_SECONDS(1));
    t->ended++;
    return TR_OK;
}

static void test_rule_18_a_future_belongs_to_its_turn(void **state)
{
    stage it;
    two_turns t = {.await = TR_OK, .any = TR_OK, .later = TR_EUSER};
    (void)state;
    stage_open(&it);
    tell_read(&it, it.one, act_make_future, &t);
    stage_pass(&it, TR_MS(1));
    tell_read(&it, it.one, act_take_future, &t);
    stage_pass(&it, TR_MS(1));
    assert_int_equal(t.ended, 1);  // the second turn ran beside the first
    expect_err(t.await, TR_EINVAL);
    expect_err(t.any, TR_EINVAL);
    stage_pass(&it, TR_SECONDS(20));
    assert_int_equal(t.ended, 2);
    assert_true(t.later == TR_OK || t.later == TR_ENOREPLY);
    stage_close(&it);
}

static tr_err act_poor_futures(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tri_mem *mem = &ctx->sys->mem;
    Acted out;
    size_t index;
    (void)arg;
    tri_mem_fail_after(mem, 0);
    tr_future none = tr_async(ctx, self->stage->two, TR_SECONDS(5), Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    tri_mem_fail_after(mem, -1);
    TR_ASSERT(ctx, tr_await(ctx, none, Act, &out) == TR_ENOMEM);
    TR_ASSERT(ctx, tr_await_any(ctx, &none, 1, &index) == TR_ENOMEM);
    // tr_await with another type than tr_async had.
    tr_future other = tr_async(ctx, self->stage->two, TR_SECONDS(5), Act,
                               .fn = (uint64_t)(uintptr_t)act_nothing);
    TR_ASSERT(ctx, (tr_await)(ctx, other, &ActRead_tr_type, NULL, TR_HERE) ==
                       TR_EINVAL);
    TR_ASSERT(ctx, tr_await_any(ctx, &other, 1, &index) == TR_OK);
    TR_ASSERT(ctx, index == 0);
    TR_ASSERT(ctx, tr_await(ctx, other, Act, NULL) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_27_a_future_without_memory_is_an_error(void **state)
{
    stage it;
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_poor_futures, NULL));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_futures_are_awaited_in_any_order),
        cmocka_unit_test(test_rule_18_a_future_ends_with_its_turn),
        cmocka_unit_test(test_rule_18_a_future_belongs_to_its_turn),
        cmocka_unit_test(test_rule_27_a_future_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
