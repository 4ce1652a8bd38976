/*
 * 09_plain_beside_virtual.c - a plain actor and virtual actors of every shard
 * save in one store, and none of them fences the others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <troupe/troupe.h>

/* So many names that some fall into every shard, also the first. */
enum { NAMES = 20000 };

TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Add, Sum, (int64_t, value));
TR_STATE(Counter, (int64_t, value));

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    Counter next = {.value = self->value + m->value};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .value = self->value);
}

TR_ACTOR(counter, Counter, TR_ON(Add, on_add));

static void add_by_name(tr_system *sys, int from, int to)
{
    char key[16];
    for (int i = from; i < to; i++) {
        snprintf(key, sizeof(key), "%d", i);
        tr_tell_virtual(sys, "counter", key, Add, .value = 1);
    }
    assert_int_equal(
        tr_ask_virtual(sys, "counter", "last", NULL, 0, Add, .value = 1),
        TR_OK);
}

static void test_a_plain_actor_saves_beside_virtual_actors(void **state)
{
    tr_system *sys;
    tr_storage *store;
    Sum sum;

    (void)state;
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys));
    TR_MUST(tr_host(sys, counter, .storage = store, .max_active = 1000));
    tr_ref plain = tr_spawn(sys, counter, .name = "plain", .storage = store);
    assert_int_equal(tr_ask(sys, plain, &sum, 0, Add, .value = 1), TR_OK);
    for (int i = 0; i < NAMES; i += 1000) {
        add_by_name(sys, i, i + 1000);
        tr_err err = tr_ask(sys, plain, &sum, 0, Add, .value = 1);
        if (err != TR_OK) fail_msg("%s", tr_error_text(sys));
        assert_int_equal(sum.value, 2 + i / 1000);
    }
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_actor_saves_beside_virtual_actors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
